//! geth beside bench-reth in one sweep: the same state, the same payloads, its own command line.

use crate::{
    assert_no_number_for_a_wrong_root, assert_throughput, cells, of, same_blocks,
    support::{World, sum},
};
use serde_json::{Value, json};
use std::fs;
use testkit::{Tool, require};

/// Where geth is.
fn geth() -> Option<String> {
    Some(require(Tool::Geth)?.into_string().unwrap())
}

#[test]
fn both_engines_are_measured_on_the_same_payloads() {
    let Some(geth) = geth() else { return };
    let world = World::new();
    let ended = world.ok(&format!(
        "sweep --engine bench-reth --engine geth={geth} --gas 2M --count 4 --chunks 5,60 --rounds 3 \
         --out @out"
    ));
    for part in [
        "geth has no flag --engine.multiproof-chunk-size",
        "--reset copy",
    ] {
        assert!(ended.stderr.contains(part), "{}", ended.stderr);
    }
    let report = world.report("out");
    assert_eq!(report["complete"], true);
    assert_eq!(report["failures"], json!([]));
    assert_eq!(of(&report, "bench-reth").len(), 2);
    let [cell] = of(&report, "geth").try_into().unwrap();
    let axes: Vec<_> = cell["axes"].as_object().unwrap().keys().collect();
    assert_eq!(axes, ["engine", "gas"], "a flag that geth does not have");
    assert!(cell["knob"]["acted"].is_null());
    let source = &cell["engine_ggas_per_second"]["source"];
    assert!(source.as_str().unwrap().contains("potential chain segment"));
    for cell in cells(&report) {
        assert_eq!(cell["visits"], 3);
    }

    assert_eq!(same_blocks(&world, &report, 2).len(), 4);

    let against = |pair: &&Value| [&pair["a"], &pair["b"]].contains(&&cell["id"]);
    let pairs = report["comparisons"].as_array().unwrap();
    assert_eq!(pairs.iter().filter(against).count(), 2);
    let markdown = fs::read_to_string(world.path("out/report.md")).unwrap();
    assert!(markdown.contains("| geth | - | "), "{markdown}");
    // In the grid it has a ratio with a verdict, or others have theirs to it.
    let lines = ended.stdout.lines();
    let mut rows = lines.filter(|line| line.starts_with(" geth "));
    let said = |row: &str| row.ends_with(['?', '~', '▼', '▲']) || row.ends_with("reference");
    assert!(rows.any(said), "{}", ended.stdout);
    world.assert_no_engine();
}

#[test]
fn geth_alone_gets_payloads_and_every_figure_follows_from_its_samples() {
    let Some(geth) = geth() else { return };
    let world = World::new();
    // A seed of its own, so that no other test has made the payloads. The engine that makes them lacks the flag that
    // is set.
    world.ok(&format!(
        "sweep --engine geth={geth} --gas 2M --seed 4 --count 3 --rounds 1 --axis cache=256,512 \
         --set cache.trie=20 --axis cache.noprefetch=on,off --axis env:GOGC=50,100 --out @out"
    ));
    let report = world.report("out");
    assert_eq!(report["failures"], json!([]));
    assert_eq!(cells(&report).len(), 8);
    for cell in cells(&report) {
        assert_eq!(recompute(&world, cell), 3);
    }
    world.assert_no_engine();
}

/// Recomputes the execution throughput of a cell of one round; gives its number of samples.
fn recompute(world: &World, cell: &Value) -> usize {
    let samples = world.samples(1, cell);
    let time_ns = sum(&samples, "new_payload_ns") + sum(&samples, "forkchoice_updated_ns");
    assert_throughput(cell, "execution", sum(&samples, "gas_used"), time_ns);
    samples.len()
}

#[test]
fn a_wrong_state_root_gives_geth_no_number() {
    let Some(geth) = geth() else { return };
    assert_no_number_for_a_wrong_root(&format!("geth={geth}"), "merkle root");
}

#[test]
fn a_datadir_of_geth_is_copied_and_no_other_block_can_be_its_base() {
    let Some(geth) = geth() else { return };
    let world = World::new();
    let sweep = format!("sweep --engine geth={geth} --gas 2M --datadir @datadir");
    world.ok("init --datadir @datadir");
    world.ok(&format!("{sweep} --rounds 1 --count 2 --out @made"));
    assert_eq!(cells(&world.report("made"))[0]["payloads"], 2);
    for (flags, part) in [
        (
            "--in-place --out @a",
            "--in-place needs an engine that can unwind",
        ),
        ("--wait-for-persistence --out @b", "which `geth` does not"),
        ("--axis no-such-flag=1,2 --out @c", "--no-such-flag"),
        ("--target-block 1 --count 2 --out @d", "to reach block 1"),
    ] {
        world.refused(&format!("{sweep} {flags}"), &[part]);
    }
}
