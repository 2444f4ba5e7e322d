//! What survives when a sweep is killed, when its disk is full, when it is begun twice, and what is
//! refused when it goes on.
//!
//! Invariant: whatever happened, what the journal says was measured is there and is measured once.

use crate::{
    cells, first_block,
    support::{World, parsed},
};
use serde_json::Value;
use std::fs;
use testkit::{Hogs, Signal, wait_for};

/// Two cells of which each pass takes over a second, without a run-up.
const PASSES: &str = "--gas 2M --count 6 --warmup none --wait-time 250ms --chunks 15,60 --no-aa";

/// Kinds of the events of a journal.
fn events(world: &World) -> Vec<String> {
    let kind = |record: &Value| record["event"]["kind"].as_str().unwrap().to_owned();
    world.journal("out").iter().map(kind).collect()
}

fn count(events: &[String], kind: &str) -> usize {
    events.iter().filter(|event| *event == kind).count()
}

#[test]
fn a_sweep_that_is_killed_while_a_void_visit_is_made_again_goes_on() {
    let world = World::new();
    let hogs = Hogs::start(2);
    let sweep = world.start(&format!(
        "sweep {PASSES} --guard void --order sequential --out @out"
    ));
    wait_for("the second try", || {
        let journal = fs::read_to_string(world.path("out/journal.ndjson")).unwrap_or_default();
        let voided = journal.contains("visit_voided");
        voided
            .then(|| first_block(&world, "1-chunk15-gas2M"))
            .flatten()
    });
    sweep.signal(Signal::SIGKILL);
    sweep.end();
    drop(hogs);
    world.ok("sweep --resume @out");

    let events = events(&world);
    assert_eq!(count(&events, "visit_finished"), 2);
    assert!(
        (1..=4).contains(&count(&events, "visit_voided")),
        "{events:?}"
    );
    let report = world.report("out");
    assert_eq!(report["complete"], true);
    let tries = report["visits"].as_array().unwrap().iter();
    let ended: Vec<&Value> = tries.map(|made| &made["ended"]).collect();
    assert_eq!(ended[..2], ["voided", "cut"], "{ended:?}");
    let voided = "out/visits/1-chunk15-gas2M.void1/measured/samples.csv";
    assert!(world.path(voided).exists());
    for cell in cells(&report) {
        assert_eq!(cell["visits"], 1);
        crate::recompute(&world, cell);
    }
    world.ok("verify-results @out");
    world.assert_no_engine();
}

#[test]
fn a_journal_that_was_cut_goes_on_and_an_edited_or_foreign_one_does_not() {
    let world = World::new();
    world.ok(&format!("sweep {PASSES} --out @out --guard off"));
    let path = world.path("out/journal.ndjson");
    let whole = fs::read_to_string(&path).unwrap();

    // In the middle of the second visit's end: that visit is made again, the first one is not.
    let at = whole.rfind("visit_finished").unwrap();
    fs::write(&path, &whole.as_bytes()[..at + 30]).unwrap();
    world.ok("sweep --resume @out");
    let events = events(&world);
    assert_eq!(count(&events, "visit_started"), 3);
    assert_eq!(count(&events, "visit_finished"), 2);
    assert_eq!(world.report("out")["complete"], true);

    let went_on = fs::read_to_string(&path).unwrap();
    for (key, said) in [("measured_s", "was changed"), ("version", "of version")] {
        let key = format!("\"{key}\":");
        fs::write(&path, went_on.replacen(&key, &format!("{key}9"), 1)).unwrap();
        for verb in ["sweep --resume", "report", "verify-results"] {
            world.refused(&format!("{verb} @out"), &["journal.ndjson", said]);
        }
    }
    fs::write(&path, went_on).unwrap();

    // Samples that are gone are missed before anything is measured.
    let samples = world.path("out/visits/1-chunk15-gas2M/measured/samples.csv");
    fs::remove_file(samples).unwrap();
    world.refused("sweep --resume @out", &["samples.csv"]);
}

#[test]
fn two_runs_do_not_share_a_folder_or_a_cache() {
    let world = World::new();
    let slow = "--gas 2M --count 4 --chunks 15 --warmup none --wait-time 300ms --guard off";
    let sweep = world.start(&format!("sweep {slow} --out @out"));
    wait_for("the first payload", || {
        first_block(&world, "1-chunk15-gas2M")
    });
    // It holds what it holds while others try.
    sweep.signal(Signal::SIGSTOP);
    for (line, parts) in [
        ("sweep --resume @out", ["another run", "journal.ndjson"]),
        (
            "sweep --chunks 5,15 --gas 2M --count 2 --out @out",
            ["is not empty", "--resume"],
        ),
        (
            "generate --gas 3M --count 2 --out @payloads",
            ["another run (pid ", "--cache-dir"],
        ),
    ] {
        let said = world.refused(line, &parts);
        assert!(!said.contains("(pid )"), "{said}");
    }
    sweep.signal(Signal::SIGCONT);
    let ended = sweep.end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(world.report("out")["complete"], true);
}

#[test]
fn what_the_plan_decided_is_not_decided_again() {
    let world = World::new();
    world.ok(&format!("sweep {PASSES} --out @out --guard off"));
    let flags = "--rounds 9, --guard warn, --budget 60m, --min-effect 5%, --warmup none";
    for flag in flags.split(", ") {
        let name = flag.split(' ').next().unwrap();
        world.refused(&format!("sweep --resume @out {flag}"), &[name]);
    }
}

#[test]
fn events_are_a_line_each_and_quiet_means_quiet() {
    let world = World::new();
    let flags = "--gas 2M --count 3 --chunks 15,60 --warmup none --guard off";
    let ended = world.ok(&format!("sweep {flags} --json --out @out"));
    let lines = parsed(ended.stdout.lines());
    let (report, events) = lines.split_last().unwrap();
    assert_eq!(report, &world.report("out"));
    let mut told = events.to_vec();
    told.retain(|event| event["event"]["kind"] != "estimates");
    let mut kept = world.journal("out");
    for record in &mut kept {
        record.as_object_mut().unwrap().remove("sum");
    }
    assert_eq!(told, kept);
    assert_eq!(events.len(), told.len() + 1, "one round, one estimate");

    let ended = world.ok(&format!("sweep {flags} --quiet --out @quiet"));
    assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), ("", ""));
    assert_eq!(world.report("quiet")["complete"], true);
}
