//! Upstream reth, the one that `RETH_BIN` names: the same state and payloads as bench-reth, its own storage.
//!
//! Nothing here runs without one: it takes half an hour to build, so a machine that tests everything else need not
//! have it.

use crate::{
    assert_no_number_for_a_wrong_root, cells,
    support::{World, files},
};
use serde_json::{Value, json};
use std::{collections::BTreeSet, env, fs, path::PathBuf, process::Command};

/// Names the program.
const VARIABLE: &str = "RETH_BIN";

/// Where upstream reth is.
fn reth() -> Option<String> {
    let found = env::var(VARIABLE).ok();
    if found.is_none() {
        println!("not run: {VARIABLE} names no reth");
    }
    found
}

/// A report of a sweep in which nothing failed, with a time of the engine's own in every cell.
fn whole(world: &World, out: &str) -> Value {
    let report = world.report(out);
    assert_eq!(report["failures"], json!([]));
    assert_eq!(report["complete"], true);
    for cell in cells(&report) {
        let value = &cell["engine_ggas_per_second"]["value"];
        assert!(value.as_f64().is_some_and(|value| value > 0.0), "{cell}");
    }
    world.assert_no_engine();
    report
}

/// The state that reth made in this test's cache, copied to a datadir of the user's.
fn own_datadir(world: &World, reth: &str) -> PathBuf {
    let sweep = format!("sweep --engine reth={reth} --gas 2M --count 1 --warmup none --out @first");
    world.ok(&sweep);
    let states = fs::read_dir(world.cache("states")).unwrap();
    let mut states = states.map(|entry| entry.unwrap().path());
    let made = states.find(|path| path.to_string_lossy().contains("-reth-"));
    let datadir = world.path("synced");
    let mut copy = Command::new("cp");
    let copied = copy.arg("--archive").arg(made.unwrap()).arg(&datadir);
    assert!(copied.status().unwrap().success());
    datadir
}

#[test]
fn reth_and_bench_reth_execute_the_same_blocks() {
    let Some(reth) = reth() else { return };
    let world = World::new();
    world.ok(&format!(
        "sweep --engine bench-reth --engine reth={reth} --gas 2M --count 4 --chunks 5,60 --rounds 2 --yes --out @out"
    ));
    let report = whole(&world, "out");
    assert_eq!(cells(&report).len(), 4);
    let hashes = cells(&report).iter().map(|cell| {
        let samples = world.samples(2, cell).into_iter();
        samples.map(|row| row["block_hash"].clone()).collect()
    });
    let hashes: BTreeSet<Vec<String>> = hashes.collect();
    assert_eq!(hashes.len(), 1, "the same blocks in every cell");
    let drift = report["guard"]["state_drift"].as_array();
    assert!(drift.is_none_or(Vec::is_empty), "{drift:?}");
}

#[test]
fn a_datadir_of_reth_is_brought_forward_and_unwound_with_its_tries() {
    let Some(reth) = reth() else { return };
    let world = World::new();
    world.ok("generate --gas 2M --count 6 --out @payloads");
    let datadir = own_datadir(&world, &reth);
    let before = files(&datadir);
    for reset in ["unwind", "copy"] {
        world.ok(&format!(
            "sweep --engine reth={reth} --datadir @synced --payloads @payloads --gas 2M --target-block 2 --reset {reset} \
             --out @{reset}"
        ));
        let report = whole(&world, reset);
        assert_eq!(cells(&report)[0]["payloads"], 4, "blocks 3 to 6");
        assert_eq!(report["resets"][0]["method"], reset);
        let pass = world.path(reset).join("visits/1-gas2M/measured/state.json");
        let rows = fs::read_to_string(pass).unwrap();
        assert!(rows.contains("AccountsTrie"), "{rows}");
    }
    assert!(files(&datadir) == before, "the user's datadir was written");
}

#[test]
fn a_wrong_state_root_gives_reth_no_number() {
    let Some(reth) = reth() else { return };
    assert_no_number_for_a_wrong_root(&format!("reth={reth}"), "state root");
}

#[test]
fn what_upstream_reth_cannot_do_is_refused_in_the_plan() {
    let Some(reth) = reth() else { return };
    let world = World::new();
    let sweep = format!("sweep --engine reth={reth} --gas 2M --dry-run");
    for (flags, part) in [
        ("--axis engine.no-such-flag=1,2", "--engine.no-such-flag"),
        (
            "--set engine.persistence-threshold=many",
            "reth refuses --engine.persistence-threshold=many",
        ),
        ("--target-block 3", "above block 0"),
    ] {
        world.refused(&format!("{sweep} {flags}"), &[part]);
    }
}
