//! What upstream reth does that would make a number a lie, over a scripted engine that does it on cue.

use crate::{
    Fixture, assert_failures, assert_says, code, finished, hash, scripted_engine, the_one, verb,
};
use std::{fs, path::Path};

/// What upstream prints or answers, a line each: the script, the flags of the sweep, the step that fails, and what its
/// cause says, the advice last.
const ROWS: &str = "
    storage-in-use: => ready: exit status: 1 | another process: PID 4242 | stop the process of that number
    database-busy: => ready: another write transaction is running (-30778) | close it
    port-in-use: => ready: already in use (os error 98) | every start takes other ports
    other-chain: => ready: genesis hash in the storage does not match | name that with --chain
    other-generation: => ready: failed to decode a key | do not read each other's storage.v2
    other-database-version: => ready: your database version (v1) is incompatible | a release of this generation made
    damaged-static-files: => ready: exit status: 101 | would trigger an unwind to block 0 | copy it from an engine that is stopped
    half-unwound: --ready-timeout 2s => ready: not ready after 2s | says that it is syncing | unwind it to its end
    refuses-the-token: => ready: answered HTTP 401: IAT (issued-at) claim | more than 60 s apart
    refuses-unwind: => reset: stage | unwind | to-block 3 | is higher than the latest block number 2 | --reset copy
    history-is-pruned: => reset: Cannot unwind to block 3 | AccountHistory | keeps more history
    forkchoice-refused: => forkchoice: error -38002: Invalid forkchoice state | does not have it in its chain
    forkchoice-syncing: => forkchoice: the base block was answered SYNCING | give one that is whole
    answers-syncing: => warmup: engine_newPayloadV4 of block 6 | SYNCING | build on one another
    rejected-ancestor: => warmup: block 6 | links to previously rejected block | the next pass starts it anew
    rejects-requests-hash: => warmup: block 6 | -32602: Invalid params (requests hash cannot | take a release that has it
    hangs: --request-timeout 400ms => warmup: of block 6 | did not answer within 400ms | longer --request-timeout
    disk-full: => warmup: of block 6 | exit status: 1 | No space left on device (28) | df -h
    map-full: => warmup: of block 6 | map size limit reached (-30792) | --set db.max-size=
    is-killed: => warmup: of block 6 | ended by itself (signal: 9 | dmesg tells";

#[test]
fn what_upstream_says_when_it_fails_is_quoted_with_what_to_do() {
    assert_failures(ROWS);
}

#[test]
fn a_block_that_one_engine_rejected_is_not_remembered_by_the_next() {
    let fixture = Fixture::new("rejected-ancestor 15");
    let report = fixture.sweep("--chunks 15,60");
    let failure = the_one(&report.failures);
    assert_says(&failure.cause, "previously rejected block", "");
    assert_eq!(finished(&fixture), ["1-chunk60-gas10M"]);
}

#[test]
fn a_sweep_of_an_engine_that_cannot_run_ends_with_2_and_keeps_its_cause() {
    let fixture = Fixture::new("other-chain");
    let before = contents(&fixture.path("datadir"));
    assert_eq!(swept(&fixture, &scripted_engine(), ""), code(2));
    let report = fixture.report();
    assert_says(
        &the_one(&report.failures).cause,
        "name that with --chain",
        "",
    );
    assert_eq!(contents(&fixture.path("datadir")), before);
}

#[test]
fn what_is_refused_in_the_plan_makes_nothing() {
    let fixture = Fixture::new("ok");
    let scripted = scripted_engine();
    for (program, flags) in [
        (Path::new("/bin/true"), ""),
        (Path::new("/bin/ls"), ""),
        (Path::new("/etc/passwd"), ""),
        (Path::new("/no/such/engine"), ""),
        (&*scripted, "--axis engine.disable-trie-cache=on,off"),
    ] {
        assert_eq!(swept(&fixture, program, flags), code(2), "{program:?}");
        assert!(!fixture.out().exists() && !fixture.path("cache").exists());
    }
    assert_eq!(swept(&fixture, &scripted, ""), code(0));
}

/// The exit code of a sweep of a program, as a person would begin it.
fn swept(fixture: &Fixture, program: &Path, flags: &str) -> String {
    let dir = fixture.path("");
    let (dir, program) = (dir.display(), program.display());
    let line = format!(
        "sweep --quiet --engine {program} --datadir {dir}/datadir --payloads {dir}/payloads --cache-dir {dir}/cache \
         --out {dir}/out --target-block 3 --gas 10M --rounds 1 {flags}"
    );
    verb(line.trim())
}

/// Files of a folder with what is in them.
fn contents(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let files = fs::read_dir(dir).unwrap().map(|file| file.unwrap().path());
    let files = files.map(|path| (path.display().to_string(), fs::read(&path).unwrap()));
    let mut files: Vec<_> = files.collect();
    files.sort();
    files
}

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
