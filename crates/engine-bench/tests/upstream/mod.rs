//! What upstream reth does that would make a number a lie, over a scripted engine that does it on cue.

use crate::{Fixture, hash};
use std::fs;

#[test]
fn a_pass_in_which_the_root_task_gave_up_is_no_number() {
    for (script, advice) in [
        ("root-task-times-out", "state-root-task-timeout"),
        ("runs-its-pipeline", "--reset copy"),
    ] {
        let (step, cause) = Fixture::new(script).failure("--warmup none");
        assert_eq!(step, "measure", "{cause}");
        assert!(
            cause.contains("3 times") && cause.contains(advice),
            "{cause}"
        );
    }
}

#[test]
fn a_base_block_that_is_genesis_is_copied_and_never_unwound_to() {
    let fixture = Fixture::new("refuses-unwind");
    fs::write(fixture.path("datadir/chain"), hash(0)).unwrap();
    fs::remove_dir_all(fixture.path("payloads")).unwrap();
    fixture.payloads(0, "payloads/10M");
    let report = fixture.sweep("--target-block 0");
    assert_eq!(report.failures, []);
    assert!(report.complete && report.measured_anything());
}

#[test]
fn an_unwind_to_genesis_is_refused() {
    let fixture = Fixture::new("ok");
    let (step, cause) = fixture.failure("--target-block 0");
    assert_eq!(step, "state");
    let expected = "clears its stored tries when it is unwound to block 0";
    assert!(
        cause.contains(expected) && cause.contains("--target-block 1"),
        "{cause}"
    );
}

#[test]
fn fallbacks_that_are_allowed_are_kept_and_marked() {
    let fixture = Fixture::new("root-task-times-out");
    let mut plan = fixture.plan("--warmup none");
    plan.settings.allow_fallback = true;
    let (_, report) = fixture.sweep_plan(&plan, std::future::pending());
    assert_eq!(report.failures, []);
    assert_eq!(report.cells[0].fallbacks, 3);
    let said = report.warnings.concat();
    assert!(said.contains("(marked ‡), by 3 lines"), "{said}");
}

#[test]
fn a_chunk_size_is_inert_where_no_root_task_runs() {
    let report = Fixture::new("runs-no-root-task").sweep("--chunks 15,60");
    for cell in &report.cells {
        assert_eq!(cell.knob.acted, Some(false));
        let evidence = &cell.knob.evidence;
        assert!(evidence.starts_with("4 of 4 state roots"), "{evidence}");
    }
}

#[test]
fn a_reset_that_leaves_no_stored_tries_is_a_failure() {
    let (step, cause) = Fixture::new("loses-its-tries").failure("");
    assert_eq!(step, "attest");
    let expected = "AccountsTrie is empty beside 2000 accounts";
    assert!(cause.contains(expected), "{cause}");
}
