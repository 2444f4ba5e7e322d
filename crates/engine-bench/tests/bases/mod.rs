//! Where passes start from: the ways to bring a datadir back to a block, and forward to one.

use crate::{Fixture, assert_whole, hash, the_one};
use std::{fs, path::Path};

/// A program of the user's in the fixture, and the flag that names it.
fn command(fixture: &Fixture, script: &str) -> String {
    let path = fixture.path("reset.sh");
    // Another process writes it: a program that a thread of this one has open cannot be run.
    let written = std::process::Command::new("sh")
        .args(["-c", "printf %s \"$1\" > \"$0\" && chmod +x \"$0\""])
        .args([path.as_os_str(), format!("#!/bin/sh\n{script}\n").as_ref()])
        .status();
    assert!(written.unwrap().success());
    format!("--reset command:{}", path.display())
}

fn chain(dir: &Path) -> String {
    fs::read_to_string(dir.join("chain")).unwrap()
}

#[test]
fn every_way_to_reset_ends_at_the_base_block_and_is_timed() {
    let to_target = "head -n $((ENGINE_BENCH_TARGET_BLOCK + 1)) \"$ENGINE_BENCH_PRISTINE/chain\" > \"$ENGINE_BENCH_DATADIR/chain\"";
    for (flags, method) in [
        ("--reset unwind", "unwind"),
        ("--reset copy", "copy, unwind"),
        ("--reset overlay", "overlay, unwind"),
        ("--reset command", "command"),
    ] {
        let fixture = Fixture::new("ok");
        let given = chain(&fixture.path("datadir"));
        let flags = match method {
            "command" => command(&fixture, to_target),
            _ => flags.to_owned(),
        };
        let report = fixture.sweep(&flags);
        let unable = |cause: &str| cause.contains("mounting takes root's rights");
        if report.failures.iter().any(|failure| unable(&failure.cause)) {
            println!("skipped: {flags}: mounting takes root's rights");
            continue;
        }
        assert_whole(&report);
        let resets = the_one(&report.resets);
        assert_eq!((&*resets.method, resets.resets), (method, 2), "{flags}");
        assert!(resets.median_s <= resets.max_s);
        assert_eq!(chain(&fixture.path("datadir")), given, "{flags}");
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        assert!(
            !mounts.contains(fixture.dir.path().to_str().unwrap()),
            "{flags}"
        );
    }
}

#[test]
fn a_file_system_that_shares_no_extents_is_named_before_anything_is_measured() {
    let fixture = Fixture::new("ok");
    let report = fixture.sweep("--reset reflink");
    // Where it can be done, it is.
    if report.failures.is_empty() {
        return assert_whole(&report);
    }
    let failure = the_one(&report.failures);
    assert_eq!(failure.visit, "prepare");
    let said = "failed to share the extents of";
    assert!(
        failure.cause.contains(said) && failure.cause.contains("--reset copy"),
        "{failure:?}"
    );
}

#[test]
fn a_command_that_fails_or_leaves_another_block_is_a_failure() {
    for (script, step, said) in [
        (
            "echo no snapshot named base; exit 3",
            "reset",
            "no snapshot named base",
        ),
        ("true", "attest", "after the reset the head is block 5"),
    ] {
        let fixture = Fixture::new("ok");
        let (failed, cause) = fixture.failure(&command(&fixture, script));
        assert_eq!(failed, step, "{cause}");
        assert!(cause.contains(said), "{cause}");
    }
}

/// A datadir that ends at block 3, with payloads behind it.
fn behind(script: &str) -> Fixture {
    let fixture = Fixture::new(script);
    let chain: Vec<String> = (0..4).map(hash).collect();
    fs::write(fixture.path("datadir/chain"), chain.join("\n")).unwrap();
    fixture
}

#[test]
fn a_datadir_below_the_base_block_is_brought_forward_to_it_once() {
    let fixture = behind("ok");
    let given = chain(&fixture.path("datadir"));
    let report = fixture.sweep("--target-block 5");
    assert_whole(&report);
    assert_eq!(report.cells[0].payloads, 2, "blocks 6 and 7 are measured");
    assert_eq!(chain(&fixture.path("datadir")), given);
}

#[test]
fn a_gas_ramp_of_its_own_leads_to_the_base_block_that_it_ends_at() {
    let fixture = behind("ok");
    fs::create_dir(fixture.path("ramp")).unwrap();
    for number in [4, 5] {
        let name = format!("payload_block_{number}.json");
        let (from, to) = (fixture.path("payloads/10M"), fixture.path("ramp"));
        fs::rename(from.join(&name), to.join(&name)).unwrap();
    }
    let ramp = fixture.path("ramp");
    let mut plan = fixture.plan(&format!("--lead-in {}", ramp.display()));
    plan.settings.target_block = None;
    let (_, report) = fixture.resume(&plan);
    assert_whole(&report);
    assert_eq!(report.cells[0].payloads, 2);
}

#[test]
fn what_leads_to_the_base_block_is_missing_or_lost() {
    let (step, cause) = behind("ok").failure("--target-block 9");
    assert_eq!(step, "payloads");
    let said = "a payload of block 8 that builds on";
    assert!(
        cause.contains(said) && cause.contains("--lead-in"),
        "{cause}"
    );
    let (step, cause) = behind("forgets-its-tip").failure("--target-block 5");
    assert_eq!(step, "state");
    let said = "started again its head was block 4: it does not keep them on disk";
    assert!(cause.contains(said), "{cause}");
}
