//! ethrex in sweeps, alone and beside bench-reth and geth: the same state, the same payloads, its own command line.
//!
//! The program is that of `tests/ethrex-node`: ethrex' published crates, with the state in memory.

use crate::{
    assert_no_number_for_a_wrong_root, assert_throughput, cells, of, same_blocks,
    support::{World, sum},
};
use serde_json::{Value, json};
use testkit::{Tool, require};

/// Where a tool is.
fn path(tool: Tool) -> Option<String> {
    Some(require(tool)?.into_string().unwrap())
}

/// A report of a sweep in which nothing failed.
fn whole(world: &World, out: &str) -> Value {
    let report = world.report(out);
    assert_eq!(report["complete"], true);
    assert_eq!(report["failures"], json!([]));
    report
}

#[test]
fn ethrex_alone_gets_payloads_and_every_figure_follows_from_its_samples() {
    let Some(ethrex) = path(Tool::Ethrex) else {
        return;
    };
    let world = World::new();
    // A seed of its own, so that no other test has made the payloads.
    world.ok(&format!(
        "sweep --engine ethrex={ethrex} --gas 2M --seed 6 --count 3 --rounds 1 --axis no-precompile-cache=on,off \
         --out @out"
    ));
    let report = whole(&world, "out");
    assert_eq!(cells(&report).len(), 2);
    for cell in cells(&report) {
        let samples = world.samples(1, cell);
        assert_eq!(samples.len(), 3);
        let gas = sum(&samples, "gas_used");
        let time_ns = sum(&samples, "new_payload_ns") + sum(&samples, "forkchoice_updated_ns");
        assert_throughput(cell, "execution", gas, time_ns);
        assert_throughput(cell, "engine", gas, sum(&samples, "engine_ns"));
    }
    world.assert_no_engine();
}

#[test]
fn three_families_are_measured_on_the_same_payloads() {
    let (Some(ethrex), Some(geth)) = (path(Tool::Ethrex), path(Tool::Geth)) else {
        return;
    };
    let world = World::new();
    let ended = world.ok(&format!(
        "sweep --engine bench-reth --engine geth={geth} --engine ethrex={ethrex} --gas 2M --count 4 --chunks 5,60 \
         --rounds 2 --out @out"
    ));
    for part in [
        "ethrex has no flag --engine.multiproof-chunk-size",
        "ethrex has no command that unwinds a datadir",
    ] {
        assert!(ended.stderr.contains(part), "{}", ended.stderr);
    }
    let report = whole(&world, "out");
    assert_eq!(of(&report, "bench-reth").len(), 2);
    for (engine, line) in [
        ("geth", "potential chain segment"),
        ("ethrex", "[METRIC] BLOCK"),
    ] {
        let [cell] = of(&report, engine).try_into().unwrap();
        let axes: Vec<_> = cell["axes"].as_object().unwrap().keys().collect();
        assert_eq!(
            axes,
            ["engine", "gas"],
            "a flag that {engine} does not have"
        );
        let source = &cell["engine_ggas_per_second"]["source"];
        assert!(source.as_str().unwrap().contains(line), "{source}");
    }
    for cell in cells(&report) {
        assert_eq!(cell["visits"], 2);
        assert!(cell["engine_ggas_per_second"]["value"].as_f64().unwrap() > 0.0);
    }
    // Hashes of blocks, which hold their state roots: an engine that computes another one answers INVALID.
    assert_eq!(same_blocks(&world, &report, 2).len(), 4);
    world.assert_no_engine();
}

#[test]
fn a_wrong_state_root_gives_ethrex_no_number() {
    let Some(ethrex) = path(Tool::Ethrex) else {
        return;
    };
    assert_no_number_for_a_wrong_root(&format!("ethrex={ethrex}"), "State Root");
}

#[test]
fn a_state_of_ours_is_the_base_of_ethrex_and_what_it_cannot_do_is_refused() {
    let Some(ethrex) = path(Tool::Ethrex) else {
        return;
    };
    let world = World::new();
    let sweep = format!("sweep --engine ethrex={ethrex} --gas 2M --datadir @datadir");
    world.ok("init --datadir @datadir");
    world.ok(&format!("{sweep} --rounds 1 --count 2 --out @made"));
    assert_eq!(cells(&world.report("made"))[0]["payloads"], 2);
    for (flags, part) in [
        (
            "--in-place --out @a",
            "--in-place needs an engine that can unwind",
        ),
        ("--wait-for-persistence --out @b", "which `ethrex` does not"),
        ("--axis no-such-flag=1,2 --out @c", "--no-such-flag"),
        ("--chunks 5,60 --out @d", "--engine.multiproof-chunk-size"),
        (
            "--set log.level=loud --out @e",
            "ethrex refuses --log.level=loud",
        ),
        ("--target-block 1 --count 2 --out @f", "to reach block 1"),
    ] {
        world.refused(&format!("{sweep} {flags}"), &[part]);
    }
}
