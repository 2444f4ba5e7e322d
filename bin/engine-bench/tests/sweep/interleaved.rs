//! Cells that take turns in real engines, and what is left when their sweep is killed.
//!
//! Invariant: no test looks at how long anything took.

use crate::{
    cells,
    support::{World, rows},
};
use std::{collections::BTreeSet, fs};
use testkit::{Signal, is_frozen, wait_for};

/// Two cells and the A/A control of one of them.
const CELLS: &str = "--gas 2M --count 6 --chunks 15,60 --interleave";

/// Pids in the files of running engines.
fn engines(world: &World) -> Vec<u32> {
    let pid = |copy| {
        let file = world.cache(&format!("work/engine-bench-reth.{copy}.pid"));
        let text = fs::read_to_string(file).ok()?;
        let owner: serde_json::Value = serde_json::from_str(&text).ok()?;
        owner["pid"].as_u64()?.try_into().ok()
    };
    (1..=3).filter_map(pid).collect()
}

#[test]
fn cells_and_a_control_take_turns_in_engines_of_their_own() {
    let world = World::new();
    let ended = world.ok(&format!("sweep {CELLS} --rounds 2 --out @out"));
    assert!(
        ended.stderr.contains("round 2, 2M: 3 cells in turn"),
        "{}",
        ended.stderr
    );
    let report = world.report("out");
    assert_eq!(report["complete"], true);
    assert_eq!(report["configuration"]["interleave"], true);
    assert_eq!(cells(&report).len(), 2);
    for round in [1, 2] {
        let visits = fs::read_dir(world.path("out/visits")).unwrap().flatten();
        let mut visits: Vec<_> = visits.map(|visit| visit.path()).collect();
        visits.retain(|path| {
            let name = path.file_name().unwrap().to_string_lossy();
            name.starts_with(&format!("{round}-")) && !name.contains(".void")
        });
        assert_eq!(visits.len(), 3);
        let mut turns = BTreeSet::new();
        for (cell, visit) in visits.iter().enumerate() {
            let samples = rows(&visit.join("measured/samples.csv"));
            assert_eq!(samples.len(), 6);
            for (payload, sample) in samples.iter().enumerate() {
                let at_ns: u64 = sample["turn_start_ns"].parse().unwrap();
                turns.insert((at_ns, payload, cell));
            }
        }
        let payloads: Vec<usize> = turns.iter().map(|(_, payload, _)| *payload).collect();
        assert!(payloads.is_sorted(), "payload after payload: {turns:?}");
    }
    world.ok("verify-results @out");
    world.assert_no_engine();
}

#[test]
fn a_sweep_that_is_killed_while_engines_are_frozen_leaves_none() {
    let world = World::new();
    let slow = "--warmup none --wait-time 300ms --guard off";
    let sweep = world.start(&format!("sweep {CELLS} {slow} --rounds 2 --out @out"));
    let frozen = wait_for("two of three to be frozen", || {
        let engines = engines(&world);
        let frozen = engines.iter().filter(|pid| is_frozen(**pid)).count();
        (engines.len() == 3 && frozen == 2).then_some(engines)
    });
    sweep.signal(Signal::SIGKILL);
    sweep.end();
    wait_for("the kernel to end them", || {
        let alive = |pid: &&u32| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            !stat.is_empty() && !stat.contains(") Z ")
        };
        (frozen.iter().filter(alive).count() == 0).then_some(())
    });
    assert_eq!(engines(&world).len(), 3, "their files were left");

    world.ok("sweep --resume @out");
    let report = world.report("out");
    assert_eq!(report["complete"], true);
    for cell in cells(&report) {
        assert_eq!(cell["visits"], 2);
    }
    assert_eq!(engines(&world), Vec::<u32>::new());
    world.assert_no_engine();
}

#[test]
fn a_datadir_in_place_has_no_seat_for_a_second_engine() {
    let world = World::new();
    world.ok("init --seed 2 --datadir @datadir");
    let line = "sweep --datadir @datadir --in-place --interleave --chunks 15,60 --gas 2M --count 2 --out @out";
    world.refused(line, &["--interleave", "--in-place"]);
    world.refused("sweep --resume @out --interleave", &["--interleave"]);
}
