//! Whole sweeps over a scripted engine, a real child process: what is written when all goes well,
//! and what is recorded when it does not.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bases;
mod feasible;
mod interleaved;
mod upstream;

use clap::Parser as _;
use engine_bench::{
    analyze::{self, Verdict},
    cli::{Cli, Verb},
    plan::Plan,
    record::{
        Ended, Event, History, JOURNAL_FILE, Journal, Manifest, journal, measured_dir, sample,
    },
    report::Report,
    resolve::resolve,
    run::{self, Ending, Options, Progress},
    sweep::{EngineKind, EngineSpec},
};
use serde_json::json;
use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};
use testkit::{Deadline, Hogs};

const PAYLOADS: u64 = 4;
const GAS: u64 = 10_000_000;

/// A datadir, payloads on its block 3, and a place for results.
struct Fixture {
    dir: tempfile::TempDir,
}

fn hash(number: u64) -> String {
    format!("{number:#066x}")
}

impl Fixture {
    fn new(script: &str) -> Self {
        let fixture = Self {
            dir: tempfile::tempdir().unwrap(),
        };
        let chain: Vec<String> = (0..6).map(hash).collect();
        fs::create_dir(fixture.path("datadir")).unwrap();
        fs::write(fixture.path("datadir/chain"), chain.join("\n")).unwrap();
        fs::write(fixture.path("datadir/script"), script).unwrap();
        fixture.payloads(3, "payloads/10M");
        fixture
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Payloads that build on block `base`; their hashes differ from the datadir's own blocks.
    fn payloads(&self, base: u64, dir: &str) {
        fs::create_dir_all(self.path(dir)).unwrap();
        for number in base + 1..=base + PAYLOADS {
            let parent = if number == base + 1 {
                hash(base)
            } else {
                hash(1000 + number - 1)
            };
            let payload = payload(number, &hash(1000 + number), &parent);
            let name = format!("payload_block_{number}.json");
            fs::write(self.path(dir).join(name), payload.to_string()).unwrap();
        }
    }

    fn plan(&self, flags: &str) -> Plan {
        self.plan_of(scripted_engine(), flags)
    }

    /// The plan of a sweep of this program. A flag that is given replaces its default here.
    fn plan_of(&self, program: PathBuf, flags: &str) -> Plan {
        let dir = self.dir.path().display();
        let rounds = if flags.contains("--precision") {
            ""
        } else {
            "--rounds 1"
        };
        let defaults = format!(
            "--target-block 3 --gas 10M --datadir {dir}/datadir --payloads {dir}/payloads \
             --cache-dir {dir}/cache {rounds}"
        );
        let defaults: Vec<&str> = defaults.split_whitespace().collect();
        let given: Vec<&str> = flags.split_whitespace().collect();
        let defaults = defaults.chunks(2).filter(|pair| !given.contains(&pair[0]));
        let words = ["engine-bench", "sweep"].iter();
        let words = words.chain(defaults.flatten()).chain(&given);
        let Verb::Sweep(args) = Cli::try_parse_from(words).unwrap().verb else {
            panic!()
        };
        let mut settings = resolve(&args).unwrap();
        settings.engines = vec![EngineSpec {
            name: "scripted".into(),
            program,
            kind: EngineKind::Reth,
            ..EngineSpec::default()
        }];
        Plan::new(settings)
    }

    /// The results folder.
    fn out(&self) -> PathBuf {
        self.path("out")
    }

    fn history(&self) -> History {
        History::read(&self.out()).unwrap()
    }

    /// What is reported now.
    fn report(&self) -> Report {
        Report::of(&analyze::read_outcome(&self.out()).unwrap())
    }

    /// Runs a sweep to its end and reads what it left.
    fn sweep(&self, flags: &str) -> Report {
        self.resume(&self.plan(flags)).1
    }

    /// Runs a sweep, or goes on with one, until it ends.
    fn resume(&self, plan: &Plan) -> (Option<Ending>, Report) {
        self.sweep_plan(plan, std::future::pending())
    }

    /// The same, until it ends or `stop` resolves.
    fn sweep_plan(&self, plan: &Plan, stop: impl Future<Output = ()>) -> (Option<Ending>, Report) {
        let out = self.out();
        fs::create_dir_all(&out).unwrap();
        plan.write(&out).unwrap();
        let mut journal = Journal::open(&out).unwrap();
        let progress = Progress::new(true);
        let history = History::read(&out).unwrap();
        let options = Options {
            out: &out,
            history: &history,
            progress: &progress,
            decide: &|round| analyze::decide(&out, round),
            estimate: &|| analyze::running(&out),
            preflight: None,
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let ending = runtime.block_on(async {
            match run::prepare(&plan.settings, &out, &progress).await {
                Ok(prepared) => {
                    let drive = run::drive(plan, &prepared, &mut journal, &options, stop);
                    Some(drive.await.unwrap())
                }
                Err(error) => {
                    let event = Event::PreparationFailed(error.failure("prepare"));
                    journal.write(event).unwrap();
                    None
                }
            }
        });
        (ending, self.report())
    }

    /// The one failure of a sweep of one cell, and that nothing was measured or left running.
    fn failure(&self, flags: &str) -> (String, String) {
        let report = self.sweep(flags);
        assert!(!report.measured_anything(), "{:?}", report.failures);
        assert_nothing_is_left(self);
        let failure = the_one(&report.failures);
        (failure.step.clone(), failure.cause.clone())
    }
}

/// Processes that a sweep in this cache started.
fn processes(fixture: &Fixture) -> Vec<u32> {
    let work = fixture.path("cache/work");
    let left = fs::read_dir("/proc").unwrap().flatten().filter(|process| {
        let line = fs::read(process.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(&*work.to_string_lossy())
    });
    left.filter_map(|process| process.file_name().to_str()?.parse().ok())
        .collect()
}

#[track_caller]
fn assert_nothing_is_left(fixture: &Fixture) {
    assert_eq!(processes(fixture), Vec::<u32>::new());
    for file in fs::read_dir(fixture.path("cache/work")).unwrap().flatten() {
        let path = file.path();
        assert!(path.extension().is_none_or(|end| end != "pid"), "{path:?}");
    }
}

fn payload(number: u64, hash: &str, parent: &str) -> serde_json::Value {
    let zero = format!("{:#066x}", 0);
    json!({
        "executionPayload": {
            "parentHash": parent, "feeRecipient": format!("{:#042x}", 0), "stateRoot": hash,
            "receiptsRoot": zero, "logsBloom": format!("0x{}", "00".repeat(256)),
            "prevRandao": zero, "blockNumber": format!("{number:#x}"), "gasLimit": "0x3b9aca00",
            "gasUsed": format!("{GAS:#x}"), "timestamp": "0x1", "extraData": "0x",
            "baseFeePerGas": "0x1", "blockHash": hash, "transactions": [], "withdrawals": [],
            "blobGasUsed": "0x0", "excessBlobGas": "0x0"
        },
        "blockValue": "0x0",
        "blobsBundle": {"commitments": [], "proofs": [], "blobs": []},
        "shouldOverrideBuilder": false,
        "executionRequests": []
    })
}

fn scripted_engine() -> PathBuf {
    testkit::built("examples/scripted-engine")
}

/// The only one that there is.
#[track_caller]
fn the_one<T: std::fmt::Debug>(of: &[T]) -> &T {
    assert_eq!(of.len(), 1, "{of:#?}");
    &of[0]
}

/// Every visit was made, and none failed.
#[track_caller]
fn assert_whole(report: &Report) {
    let Report {
        failures, warnings, ..
    } = report;
    assert!(failures.is_empty(), "{failures:#?}");
    assert!(report.complete, "{warnings:#?}");
}

/// Each of the parts, which `|` divides, is in a text.
#[track_caller]
fn assert_says(said: &str, parts: &str, of: &str) {
    for part in parts.split(" | ") {
        assert!(said.contains(part), "{of}: `{part}` is not in: {said}");
    }
}

/// Resolves once a condition holds.
async fn until(what: &str, holds: impl Fn() -> bool) {
    let deadline = Deadline::of(what);
    while !holds() {
        deadline.left();
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[test]
fn every_cell_is_measured_and_can_be_recomputed_from_its_samples() {
    let fixture = Fixture::new("ok");
    let report = fixture.sweep("--chunks 15,60,100000 --rounds 2");
    assert_whole(&report);
    assert_eq!(report.cells.len(), 3);
    for cell in &report.cells {
        let counts = (cell.payloads, cell.visits, cell.failed_visits);
        assert_eq!(counts, (PAYLOADS, 2, 0));
        let (mut gas, mut total, mut new_payload, mut wall, mut engine) = (0, 0, 0, 0, 0);
        for round in 1..=2 {
            let pass = fixture.path(&format!("out/visits/{round}-{}/measured", cell.id));
            let rows = fs::read_to_string(pass.join("samples.csv")).unwrap();
            for row in rows.lines().skip(1) {
                let fields: Vec<&str> = row.split(',').collect();
                let number = |at: usize| fields[at].parse::<u64>().unwrap();
                gas += number(2);
                new_payload += number(4);
                total += number(4) + number(5);
                engine += number(6);
            }
            let last = sample::read_samples(&pass).unwrap().pop().unwrap();
            wall += last.end_ns;
        }
        let ggas = |time: u64| gas as f64 / time as f64;
        let value = |found: &Option<analyze::Measured>| found.unwrap().ratio.value;
        assert_eq!(gas, 2 * PAYLOADS * GAS);
        assert_eq!(value(&cell.execution_ggas_per_second), ggas(total));
        assert_eq!(value(&cell.new_payload_ggas_per_second), ggas(new_payload));
        assert_eq!(value(&cell.wall_clock_ggas_per_second), ggas(wall));
        assert_eq!(value(&cell.engine_ggas_per_second), ggas(engine));
        assert_eq!(engine, 2 * PAYLOADS * 2_500_000);
    }
    for (cell, jobs) in [(0, "41.0"), (2, "1.0")] {
        let evidence = &report.cells[cell].knob.evidence;
        let said = format!("jobs per block {jobs} ");
        assert!(evidence.starts_with(&said), "{evidence}");
    }
    assert!(report.noise_floor.relative.is_some());
    // Two rounds may say that cells are not separable, and no more.
    let mut verdicts = report.comparisons.iter().map(|pair| pair.verdict);
    assert!(verdicts.all(|verdict| !verdict.is_difference()));
    assert_eq!(report.comparisons.len(), 3);
}

#[test]
fn one_round_gives_values_but_no_interval_and_no_verdict() {
    let report = Fixture::new("ok").sweep("--chunks 15,60");
    let measured = report.cells[0].execution_ggas_per_second.unwrap();
    assert_eq!(measured.ratio.ends(), None);
    assert_eq!(report.noise_floor.relative, None);
    let verdicts: Vec<Verdict> = report.comparisons.iter().map(|pair| pair.verdict).collect();
    assert_eq!(verdicts, [Verdict::TooFewRounds]);
    let best = &report.levels[0].best;
    assert_eq!(best.len(), 2, "one round singles nothing out");
}

#[test]
fn a_warm_up_is_kept_apart_and_the_users_datadir_is_only_read() {
    let fixture = Fixture::new("ok");
    let chain = || fs::read_to_string(fixture.path("datadir/chain")).unwrap();
    let before = chain();
    fixture.sweep("--warmup 2 --reset copy");
    let rows = |pass: &str| {
        let file = fixture.path(&format!("out/visits/1-gas10M/{pass}/combined_latency.csv"));
        fs::read_to_string(file).unwrap().lines().count() - 1
    };
    assert_eq!((rows("warmup"), rows("measured")), (2, PAYLOADS as usize));
    assert_eq!(chain(), before);
}

/// Script of the engine, flags of the sweep, the step that has to fail, and what its cause says.
const FAILURES: &str = "
    dies-mid-pass: => warmup: block 6 | ended by itself | 101 | panicked | report it to its authors
    dies-mid-pass: --warmup none => measure: block 6
    invalid: => warmup: block 6 | INVALID: mismatched block state root | check --chain and --payloads
    dies-at-start: => ready: exit status: 7 | database is damaged | its log says why
    never-ready: --ready-timeout 300ms => ready: not ready after 300ms | connection refused | longer --ready-timeout
    syncing: --ready-timeout 4s => ready: says that it is syncing | give one that is whole
    lies-about-its-head 60: --chunks 60 => attest: the head is block 3 | not the base block 3 | --reset copy
    ok: --target-block 9 => payloads: head of the datadir is block 5 | to reach block 9 | --lead-in
    ok: --target-block 4 => payloads: build on block 3 | --target-block 3
    ok: --gas 2G => payloads: --gas 2G is above the block gas limit 1G | give at most";

/// A table of these.
fn assert_failures(table: &str) {
    for line in table.trim().lines() {
        let (asked, said) = line.split_once(" => ").unwrap();
        let (script, flags) = asked.trim().split_once(':').unwrap();
        let (step, causes) = said.split_once(": ").unwrap();
        let (found, cause) = Fixture::new(script).failure(flags);
        assert_eq!(found, step, "{line}: {cause}");
        assert_says(&cause, causes, line);
    }
}

#[test]
fn failures_name_their_step_and_cause() {
    assert_failures(FAILURES);
}

#[test]
fn a_failed_level_does_not_stop_the_others() {
    let fixture = Fixture::new("ok");
    fs::create_dir(fixture.path("payloads/40M")).unwrap();
    let report = fixture.sweep("--gas 10M,40M --chunks 15,30");
    let cells = report.cells.iter();
    let measured = cells.map(|cell| cell.execution_ggas_per_second.is_some());
    assert!(measured.eq([true, true, false, false]));
    assert_eq!(report.failures.len(), 2);
    assert!(report.complete);
}

#[test]
fn an_interrupt_leaves_a_readable_result_and_no_engine() {
    let fixture = Fixture::new("ok");
    let plan = fixture.plan("--chunks 15,30,60 --wait-time 50ms");
    let pid_file = fixture.path("cache/work/engine.pid");
    let visits = fixture.path("out/visits");
    let second = visits.join(plan.visits[1].id()).join("warmup/engine.log");
    let stop = until("the second visit", || second.exists() && pid_file.exists());
    let (ending, report) = fixture.sweep_plan(&plan, stop);
    assert_eq!(ending, Some(Ending::Interrupted));
    assert!(!report.complete && report.measured_anything());
    assert!(!pid_file.exists());
}

#[test]
fn a_datadir_in_use_is_refused() {
    let fixture = Fixture::new("ok");
    let pid = std::process::id();
    fs::create_dir(fixture.path("datadir/db")).unwrap();
    fs::write(fixture.path("datadir/db/lock"), pid.to_string()).unwrap();
    let (step, cause) = fixture.failure("");
    assert_eq!(step, "state");
    assert_says(&cause, &format!("in use by process {pid}"), "");
}

/// Ids of finished visits, in the order they were begun.
fn finished(fixture: &Fixture) -> Vec<String> {
    let history = fixture.history();
    history.finished().map(|made| made.visit.clone()).collect()
}

/// Drops the last events of a journal from the first one of a kind on, after as many of it, as a kill at that
/// time would have.
fn cut(fixture: &Fixture, kind: &str, after: usize) {
    let path = fixture.path("out/journal.ndjson");
    let text = fs::read_to_string(&path).unwrap();
    let mut of_kind = text
        .lines()
        .enumerate()
        .filter(|(_, line)| line.contains(kind));
    let (kept, _) = of_kind.nth(after).unwrap();
    let lines: Vec<&str> = text.lines().take(kept).collect();
    fs::write(&path, lines.join("\n") + "\n").unwrap();
}

#[test]
fn an_adaptive_sweep_ends_when_it_has_resolved_what_it_was_asked_to() {
    let fixture = Fixture::new("ok");
    let report = fixture.sweep("--chunks 15,60 --precision 100000%");
    let adaptive = report.adaptive.as_ref().unwrap();
    assert_eq!(adaptive.rounds, 3, "as many as name a difference");
    let decisions = adaptive.decisions.iter();
    assert!(decisions.map(|made| made.after_round).eq([1, 2, 3]));
    assert!(adaptive.decisions[2].next.is_empty());
    let cells = report.cells.len();
    assert_eq!(cells, 2, "the control is no cell of the report");
    let control = the_one(&report.noise_floor.controls);
    assert_eq!((control.rounds, control.of.as_str()), (3, "chunk15-gas10M"));
    assert_eq!(finished(&fixture).len(), 3 * 3);
    let floor = (control.ratio.value.ln().abs()).exp_m1();
    assert!(report.noise_floor.relative.unwrap() >= floor - 1e-12);
}

#[test]
fn an_adaptive_sweep_goes_on_as_it_was_decided() {
    let fixture = Fixture::new("ok");
    let plan = fixture.plan("--chunks 15,60 --precision 100000%");
    let whole: Vec<String> = plan.visits.iter().map(|visit| visit.id()).take(9).collect();
    let fourth = fixture.path(&format!("out/visits/{}/measured/engine.log", whole[4]));
    let stop = until("the fourth visit", || fourth.exists());
    let (ending, report) = fixture.sweep_plan(&plan, stop);
    assert_eq!(ending, Some(Ending::Interrupted));
    assert!(!report.complete);
    let (ending, report) = fixture.resume(&plan);
    assert_eq!(ending, Some(Ending::Complete));
    assert_whole(&report);
    assert_eq!(finished(&fixture), whole);
    assert_eq!(report.adaptive.unwrap().decisions.len(), 3);
    // A sweep that has ended stays ended.
    let (ending, _) = fixture.resume(&plan);
    assert_eq!(ending, Some(Ending::Complete));
    assert_eq!(finished(&fixture), whole);
}

#[test]
fn a_budget_that_is_spent_ends_the_sweep_and_is_said() {
    let fixture = Fixture::new("ok");
    let report = fixture.sweep("--chunks 15,60 --precision 0.001% --budget 1ms");
    assert_eq!(finished(&fixture).len(), 1, "one visit is always made");
    assert!(report.complete && report.comparisons.is_empty());
    let ended = "the sweep ended in its pilot, in round 1 of 2, because its budget of 0.001 s was spent; \
                 never measured: ";
    assert_says(&report.warnings.join("\n"), ended, "");
}

#[test]
fn time_that_earlier_runs_took_is_time_of_the_budget() {
    let fixture = Fixture::new("ok");
    let flags = "--chunks 15,60 --precision 0.001% --budget 2s --guard off";
    let plan = fixture.plan(flags);
    let (ending, _) = fixture.sweep_plan(&plan, std::future::ready(()));
    assert_eq!(ending, Some(Ending::Interrupted));
    let out = fixture.out();
    let begun = History::read(&out).unwrap().begun.unwrap();
    let mut another_run = Journal::open(&out).unwrap();
    another_run.write(Event::SweepStarted(begun)).unwrap();
    std::thread::sleep(Duration::from_secs(2));
    another_run.write(Event::Interrupted).unwrap();
    drop(another_run);
    let resumed = verb(&format!("sweep --quiet --resume {}", out.display()));
    assert_eq!(resumed, code(0));
    assert_eq!(finished(&fixture).len(), 1, "one visit is always made");
}

#[test]
fn a_journal_that_cannot_be_synced_is_refused() {
    let fixture = Fixture::new("ok");
    // It takes every line, and is no disk that could have it.
    let file = fixture.path(JOURNAL_FILE);
    std::os::unix::fs::symlink("/dev/null", file).unwrap();
    let refused = Journal::open(fixture.dir.path()).unwrap_err().to_string();
    assert!(refused.starts_with("failed to open "), "{refused}");
}

/// Writes a results folder as if every measured pass had taken other times: 10 ms a payload times
/// `factor`, and half a percent more or less from one round to the next.
fn retime(out: &Path, factor: f64) {
    let records = journal::read(out).unwrap();
    fs::remove_file(out.join(JOURNAL_FILE)).unwrap();
    let mut journal = Journal::open(out).unwrap();
    for mut event in records.into_iter().map(|record| record.event) {
        if let Event::VisitFinished { visit, facts, .. } = &mut event {
            let pass = measured_dir(out, visit);
            let odd = visit.starts_with(['1', '3']);
            let mut samples = sample::read_samples(&pass).unwrap();
            for sample in &mut samples {
                let time = if odd { 10_000_000.0 } else { 10_050_000.0 };
                sample.new_payload_ns = (time * factor) as u64;
                sample.forkchoice_updated_ns = 1000;
            }
            sample::write_pass(&pass, &samples).unwrap();
            facts.passes.last_mut().unwrap().samples_sha256 = sample::sum_of(&pass).unwrap();
        }
        journal.write(event).unwrap();
    }
}

/// Edits a file once; what was in it before.
fn edit(path: &Path, from: &str, to: &str) -> String {
    let before = fs::read_to_string(path).unwrap();
    assert!(before.contains(from), "{} has no {from}", path.display());
    fs::write(path, before.replacen(from, to, 1)).unwrap();
    before
}

/// Runs a verb and gives its exit code's text.
fn verb(line: &str) -> String {
    let words = ["engine-bench"].into_iter().chain(line.split(' '));
    let code = engine_bench::command::run(Cli::try_parse_from(words).unwrap().verb);
    format!("{code:?}")
}

fn code(number: u8) -> String {
    format!("{:?}", std::process::ExitCode::from(number))
}

/// The results of a sweep and a copy of them.
fn copied(fixture: &Fixture) -> (String, String) {
    let [a, b] = ["out", "copy"].map(|name| fixture.path(name).display().to_string());
    let copied = std::process::Command::new("cp")
        .args(["-r", &a, &b])
        .status();
    assert!(copied.unwrap().success());
    (a, b)
}

#[test]
fn a_slower_sweep_fails_a_comparison_that_was_asked_to() {
    let fixture = Fixture::new("ok");
    fixture.sweep("--chunks 15,60 --rounds 4");
    let (a, b) = copied(&fixture);
    retime(Path::new(&a), 1.0);
    retime(Path::new(&b), 1.05);
    let against = |a: &str, b: &str| verb(&format!("compare {a} {b} --fail-on-regression 2%"));
    assert_eq!(against(&a, &b), code(1));
    assert_eq!(against(&b, &a), code(0), "faster is no regression");
    let tolerant = verb(&format!("compare {a} {b} --fail-on-regression 10%"));
    assert_eq!(tolerant, code(0), "5 % slower is less than 10 %");
    assert_eq!(verb(&format!("compare {a} {b} --json")), code(0));
    for (other, expected) in [("chunk60-gas10M", 0), ("chunk7", 2), ("chunk15-gas10M", 2)] {
        let line = format!("compare {a}:chunk15-gas10M {a}:{other}");
        assert_eq!(verb(&line), code(expected), "{other}");
    }
    let itself = verb(&format!("compare {a} {a}"));
    assert_eq!(itself, code(2), "nothing to compare");
    let [of_a, of_b] = [&a, &b].map(|out| analyze::read_outcome(Path::new(out)).unwrap());
    let side = |outcome| analyze::Side {
        outcome,
        cell: None,
    };
    let between = analyze::between(&side(&of_a), &side(&of_b), false);
    assert!(between.configuration.is_empty() && between.warnings.is_empty());
    for cell in &between.cells {
        assert_eq!(cell.verdict, Verdict::Faster, "{cell:?}");
        let (low, high) = cell.ratio.ends().unwrap();
        assert!(1.0 < low && low < 1.05 && 1.05 < high);
    }
}

#[test]
fn without_enough_rounds_or_a_noise_floor_no_regression_is_decided() {
    for (axis, rounds) in [("15,60", "1"), ("15,60", "2"), ("15", "3")] {
        let fixture = Fixture::new("ok");
        fixture.sweep(&format!("--chunks {axis} --rounds {rounds}"));
        let (a, b) = copied(&fixture);
        let line = format!("compare {a} {b} --fail-on-regression 2%");
        assert_eq!(verb(&line), code(2), "{axis}, {rounds}");
    }
}

#[test]
fn a_published_number_that_was_edited_is_found() {
    let fixture = Fixture::new("ok");
    let report = fixture.sweep("--chunks 15,60 --rounds 2");
    let out = fixture.out();
    engine_bench::report::write(&out, &report).unwrap();
    let folder = out.display();
    let check = || verb(&format!("verify-results {folder}"));
    assert_eq!(check(), code(0));
    let against = |baseline: &str| verb(&format!("report {folder} --baseline {baseline}"));
    assert_eq!((against("chunk60"), check()), (code(0), code(0)));
    assert_eq!((against("chunk7"), check()), (code(2), code(0)));

    for (file, from, to) in [
        ("report.json", "\"visits\": 2", "\"visits\": 9"),
        ("report.md", "noise floor", "noise  floor"),
        ("cells.csv", ",2,0,", ",3,0,"),
        (
            "visits/1-chunk15-gas10M/measured/total_gas.csv",
            "10000000",
            "10000001",
        ),
    ] {
        let path = out.join(file);
        let before = edit(&path, from, to);
        assert_eq!(check(), code(1), "{file}");
        fs::write(&path, before).unwrap();
    }
    assert_eq!(check(), code(0));
    retime(&out, 1.0);
    assert_eq!(check(), code(1), "the samples are not those of the reports");
}

/// A sweep of one cell whose measured pass takes over a second.
const WATCHED: &str = "--warmup none --wait-time 300ms";

#[test]
fn a_visit_that_others_disturb_is_void_and_repeated_twice() {
    let fixture = Fixture::new("ok");
    // As many as make a name for themselves beside whatever else runs.
    let hogs = Hogs::start(6);
    let report = fixture.sweep(WATCHED);
    drop(hogs);
    let history = fixture.history();
    let voids = history.attempts.iter();
    let voids = voids.filter_map(|made| Some((made.kept_in.as_deref()?, made.attempt)));
    let voids: Vec<_> = voids.collect();
    assert_eq!(voids, [("1-gas10M.void1", 1), ("1-gas10M.void2", 2)]);
    for (made, (kept_in, _)) in history.attempts.iter().zip(voids) {
        assert!(!made.facts.contaminations.is_empty());
        let kept = measured_dir(&fixture.out(), kept_in);
        assert!(kept.join("samples.csv").exists());
    }
    assert_eq!(finished(&fixture), ["1-gas10M"]);
    let ended: Vec<Ended> = report.visits.iter().map(|visit| visit.ended).collect();
    assert_eq!(ended, [Ended::Voided, Ended::Voided, Ended::Finished]);
    assert_eq!((report.guard.voided, report.guard.disturbed), (2, 1));
    assert_eq!(report.cells[0].visits, 1, "void visits give no numbers");
    assert!(report.time_s.voided > 2.0 * 4.0 * 0.3);
    // Others than the hogs may have disturbed it as well.
    assert_eq!(report.guard.reasons["foreign-cpu"], 3);
    let reason = &report.visits[2].facts.contaminations;
    let reason = reason.iter().find(|found| found.rule == "foreign-cpu");
    assert!(reason.unwrap().detail.contains("sh "), "{reason:?}");
    assert_says(&report.warnings.join("\n"), "foreign-cpu 3 times", "");
}

#[test]
fn a_disturbed_visit_is_only_marked_when_that_is_asked_for() {
    let fixture = Fixture::new("ok");
    let hogs = Hogs::start(2);
    let report = fixture.sweep(&format!("{WATCHED} --guard warn"));
    drop(hogs);
    assert_eq!((report.guard.voided, report.guard.disturbed), (0, 1));
    let fixture = Fixture::new("ok");
    let report = fixture.sweep("--guard off");
    assert_eq!((report.guard.watched, report.guard.disturbed), (0, 0));
    for pass in &report.visits[0].facts.passes {
        assert!(pass.machine.is_none() && pass.calibration.is_none());
    }
}

#[test]
fn a_disturbed_visit_is_kept_when_the_budget_has_no_time_to_repeat_it() {
    let fixture = Fixture::new("ok");
    let hogs = Hogs::start(2);
    let report = fixture.sweep(&format!("{WATCHED} --precision 1% --budget 1ms"));
    drop(hogs);
    assert_eq!((report.guard.voided, report.guard.disturbed), (0, 1));
    assert_eq!(finished(&fixture), ["1-gas10M"]);
}

#[test]
fn what_is_found_beside_the_samples_is_in_the_report() {
    let fixture = Fixture::new("ok");
    let report = fixture.sweep("--chunks 15,60 --rounds 2 --guard warn");
    assert_eq!(report.guard.watched, 6);
    assert!(report.guard.guard_s > 0.0 && report.guard.calibration_s > 0.0);
    for visit in &report.visits {
        let passes = &visit.facts.passes;
        let names: Vec<&str> = passes.iter().map(|pass| pass.pass.as_str()).collect();
        assert_eq!(names, ["warmup", "measured"]);
        let work = passes[1].calibration.unwrap();
        assert!(work.compute_ns > 0 && work.memory_ns > 0);
        assert!(passes[1].machine.as_ref().unwrap().cpus > 0);
        for pass in passes {
            // The chain's four hashes and the script's name.
            assert_eq!(pass.state.datadir_bytes, 4 * 66 + 3 + 2);
        }
    }
    let manifest = report.environment.manifest.unwrap();
    assert_eq!((manifest.engines.len(), manifest.payloads.len()), (1, 1));
    assert_eq!(manifest.payloads[0].payloads, PAYLOADS);
    // Two cells and a duplicate, there and back.
    let visits = report.visits.iter();
    let order: Vec<&str> = visits.map(|visit| visit.cell.as_str()).collect();
    assert!(order[..3].iter().rev().eq(&order[3..]), "{order:?}");
}

#[test]
fn a_sweep_goes_on_only_with_what_it_was_begun_with() {
    let fixture = Fixture::new("ok");
    let shell = |script: &str, path: &Path| {
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", script]).arg(scripted_engine()).arg(path);
        assert!(shell.status().unwrap().success());
    };
    let engine = fixture.path("engine");
    // Another process writes it: a program that a thread of this one has open cannot be run.
    shell("cp \"$0\" \"$1\"", &engine);
    let plan = fixture.plan_of(engine.clone(), "--chunks 15,60");
    fixture.resume(&plan);
    let out = fixture.out();
    let resume = || verb(&format!("sweep --quiet --resume {}", out.display()));
    assert_eq!(resume(), code(0), "nothing is left to do");

    let journal = fs::read(out.join(JOURNAL_FILE)).unwrap();
    let payload = fixture.path("payloads/10M/payload_block_5.json");
    let text = edit(&payload, "\"0x1\"", "\"0x2\"");
    assert_eq!(resume(), code(2), "other payloads");
    fs::write(&payload, text).unwrap();
    assert_eq!(resume(), code(0));

    shell("echo >> \"$1\"", &engine);
    assert_eq!(resume(), code(2), "another program");
    let now = Manifest::before(&plan, &out).unwrap();
    let then = History::read(&out).unwrap();
    let refused = run::check_manifest(&now, then.manifest()).unwrap_err();
    assert_says(&refused.to_string(), "the program of scripted was ", "");
    shell("cp \"$0\" \"$1\"", &engine);

    let path = out.join("plan.json");
    let text = edit(&path, "\"wait_time_ms\": 0", "\"wait_time_ms\": 1");
    assert_eq!(resume(), code(2), "another plan");
    let report = fixture.report();
    assert!(!report.complete && report.warnings[0].contains("plan.json"));
    fs::write(&path, text).unwrap();

    // What was refused left nothing behind, and an event that was edited is not believed.
    let measured = "\"measured_s\":";
    let after = edit(&out.join(JOURNAL_FILE), measured, "\"measured_s\":1");
    assert!(after.as_bytes().starts_with(&journal));
    assert_eq!(resume(), code(2));
    assert_eq!(verb(&format!("report {}", out.display())), code(2));
}

#[test]
fn a_journal_that_lost_its_end_is_noticed_and_so_are_edited_samples() {
    let fixture = Fixture::new("ok");
    fixture.sweep("--chunks 15,60 --rounds 2");
    let out = fixture.out();
    let kept = journal::read(&out).unwrap().len();
    // The second visit of the last cell, and that the sweep ended.
    cut(&fixture, "visit_started", 5);
    assert_eq!(journal::read(&out).unwrap().len(), kept - 3);
    let lost = analyze::read_outcome(&out).unwrap().plan.visits[5].id();
    let report = fixture.report();
    assert!(!report.complete);
    let said =
        format!("the journal lost its end: visits/ holds 1 attempts of {lost}, the journal 0");
    assert_eq!(report.warnings[0], said);
    assert_eq!(verb(&format!("verify-results {}", out.display())), code(1));

    // What is lost is measured again.
    let plan = Plan::read(&out).unwrap();
    let (_, report) = fixture.resume(&plan);
    assert!(report.complete && finished(&fixture).contains(&lost));

    let samples = out.join("visits/1-chunk60-gas10M/measured/samples.csv");
    edit(&samples, "10000000", "10000001");
    let report = fixture.report();
    let said = "the samples of 1-chunk60-gas10M are not those that were measured";
    assert_eq!((report.complete, &*report.warnings[0]), (false, said));
}

#[test]
fn a_visit_that_hangs_is_given_up() {
    let hangs = "--precision 1% --budget 1ms --ready-timeout 4s";
    let (step, cause) = Fixture::new("hangs").failure(hangs);
    assert_eq!(step, "warmup");
    assert!(cause.contains("given up after 8 s"), "{cause}");
}
