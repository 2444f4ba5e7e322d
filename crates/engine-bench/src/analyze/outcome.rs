//! Everything a results folder says happened, before any statistics.
//!
//! Invariant: a pass is taken into account only when the journal says that its visit finished,
//! and then its samples must be there.

use crate::{
    analyze::{
        attribution::{PassMetrics, metrics_sum},
        made::{Made, made},
        sample::{Sample, SampleError, read_samples, sum_of, verify_pass},
    },
    client::BlockIdentity,
    guard::Preflight,
    journal::{
        self, Decision, Event, Interleaving, JournalError, PassFacts, Record, VisitFacts,
        VisitTimes,
    },
    plan::{Plan, PlanError, Visit},
    profile::{self, CellProfile},
    run::{Environment, MEASURED_DIR, Manifest, VISITS_DIR, plan_sum},
    trace::{self, CellTraces},
};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
};

/// What happened in a sweep.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// What was planned.
    pub plan: Plan,
    /// The block every pass started from; `None` when preparation failed.
    pub base: Option<BlockIdentity>,
    /// Engines as they call themselves.
    pub engine_versions: Vec<String>,
    /// The machine.
    pub environment: Environment,
    /// What an adaptive sweep decided, in order.
    pub decisions: Vec<Decision>,
    /// Visits in the order they were made.
    pub made: Vec<Made>,
    /// How long every finished visit took, in seconds, by cell id.
    pub visit_s: Vec<(String, f64)>,
    /// Measured passes by cell id and round.
    pub passes: HashMap<String, BTreeMap<u64, Vec<Sample>>>,
    /// What engines exported around those passes, as far as they did, likewise.
    pub metrics: HashMap<String, BTreeMap<u64, PassMetrics>>,
    /// Traces that were made after it.
    pub traces: Vec<CellTraces>,
    /// Profiles that were made after everything was measured.
    pub profiles: Vec<CellProfile>,
    /// What gave no number, in order.
    pub failures: Vec<Failure>,
    /// What makes measurements worse on the machine.
    pub preflight: Option<Preflight>,
    /// What was measured, by content.
    pub manifest: Option<Manifest>,
    /// What is not as it was measured, a sentence each.
    pub edited: Vec<String>,
    /// What else is remarkable, a sentence each.
    pub notes: Vec<String>,
    /// Where the time went.
    pub time_s: TimeSplit,
    /// Whether every visit was made.
    pub complete: bool,
}

/// Something that gives no number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The visit, or `prepare` when nothing could be visited.
    pub visit: String,
    /// The step that failed.
    pub step: String,
    /// Why, in one line.
    pub cause: String,
    /// The end of the engine's log, when it says more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<String>,
}

/// Where the time of a sweep went, in seconds. `wall` starts when state and payloads exist.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct TimeSplit {
    /// All of it.
    pub wall: f64,
    /// Σ (newPayload + forkchoiceUpdated) of measured passes.
    pub measured: f64,
    /// Σ (newPayload + forkchoiceUpdated) of warm-up passes.
    pub warmup: f64,
    /// Bringing datadirs back.
    pub reset: f64,
    /// Starting engines until their first fork choice.
    pub start: f64,
    /// Stopping engines.
    pub stop: f64,
    /// Deliberate waiting between payloads.
    pub wait: f64,
    /// Visits that are void, as a whole: their time is in no other part.
    #[serde(default)]
    pub voided: f64,
    /// The guard's looks and the calibration.
    #[serde(default)]
    pub guard: f64,
    /// The rest: reading payloads, parsing answers, writing results.
    pub other: f64,
}

impl TimeSplit {
    /// The part of the wall time in which an engine was answering payloads.
    pub fn answering(&self) -> f64 {
        if self.wall > 0.0 {
            (self.measured + self.warmup) / self.wall
        } else {
            0.0
        }
    }
}

/// Why a results folder cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum AnalyzeError {
    /// No plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// No journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A finished visit without its samples.
    #[error(transparent)]
    Samples(#[from] SampleError),
}

/// Reads a results folder.
///
/// # Errors
/// When the plan, the journal or the samples of a finished visit cannot be read.
pub fn read_outcome(dir: &Path) -> Result<Outcome, AnalyzeError> {
    let plan = Plan::read(dir)?;
    let records = journal::read(dir)?;
    let mut outcome = Outcome {
        plan,
        base: None,
        engine_versions: Vec::new(),
        environment: Environment::default(),
        decisions: Vec::new(),
        made: made(&records),
        visit_s: visit_seconds(&records),
        passes: HashMap::new(),
        metrics: HashMap::new(),
        traces: trace::read_index(dir),
        profiles: profile::read_index(dir),
        failures: Vec::new(),
        preflight: None,
        manifest: None,
        edited: Vec::new(),
        notes: Vec::new(),
        time_s: time_split(&records),
        complete: false,
    };
    let mut finished = HashMap::new();
    for record in records {
        match &record.event {
            Event::VisitFinished { visit, facts, .. } => {
                finished.insert(visit.clone(), measured(facts));
            }
            Event::VisitUndone { visit, .. } => {
                finished.remove(visit);
            }
            _ => {}
        }
        outcome.take(record.event);
    }
    outcome.check_plan(dir);
    // A visit that failed and succeeded when the sweep was resumed is no failure.
    outcome
        .failures
        .retain(|failure| !finished.contains_key(&failure.visit));
    for visit in outcome.plan.visits.clone() {
        if let Some(facts) = finished.get(&visit.id()) {
            let pass = dir.join(VISITS_DIR).join(visit.id()).join(MEASURED_DIR);
            let samples = read_samples(&pass)?;
            let edited = edited(&pass, &visit.id(), facts)?;
            outcome.edited.extend(edited);
            if let Some(metrics) = PassMetrics::read(&pass) {
                let rounds = outcome.metrics.entry(visit.cell.clone()).or_default();
                rounds.insert(visit.round, metrics);
            }
            outcome
                .passes
                .entry(visit.cell)
                .or_default()
                .insert(visit.round, samples);
        }
    }
    Ok(outcome)
}

impl Outcome {
    fn take(&mut self, event: Event) {
        match event {
            Event::SweepStarted {
                base,
                engine_versions,
                environment,
                preflight,
                manifest,
            } => {
                self.note_other_kernel(&environment);
                self.base = Some(base);
                self.engine_versions = engine_versions;
                self.environment = environment;
                self.preflight = preflight;
                self.manifest = self.manifest.take().or(manifest);
            }
            Event::PreparationFailed { step, cause, log } => {
                self.failures.push(Failure {
                    visit: "prepare".to_owned(),
                    step,
                    cause,
                    log,
                });
            }
            Event::VisitFailed {
                visit,
                step,
                cause,
                log,
                ..
            } => {
                self.failures.push(Failure {
                    visit,
                    step,
                    cause,
                    log,
                });
            }
            Event::Decided(decision) => self.decisions.push(decision),
            Event::SweepFinished => self.complete = true,
            Event::VisitStarted { .. }
            | Event::VisitFinished { .. }
            | Event::VisitVoided { .. }
            | Event::VisitUndone { .. }
            | Event::Interrupted => {}
        }
    }

    /// A sweep may go on after a reboot; that the kernel changed meanwhile has to be known.
    fn note_other_kernel(&mut self, environment: &Environment) {
        let (then, now) = (&self.environment.kernel, &environment.kernel);
        if !then.is_empty() && then != now {
            let note = format!("the sweep went on under another kernel: {now} after {then}");
            self.notes.push(note);
        }
    }

    /// Compares the plan with the one that the sweep was begun with.
    fn check_plan(&mut self, dir: &Path) {
        let begun_with = self.manifest.as_ref();
        if begun_with.is_some_and(|manifest| manifest.plan_sha256 != plan_sum(dir)) {
            let note = "plan.json is not the one that the sweep was begun with";
            self.edited.push(note.to_owned());
        }
    }
}

/// What is known of a measured pass; nothing of one by a program that wrote no such facts.
fn measured(facts: &VisitFacts) -> PassFacts {
    let mut passes = facts.passes.iter();
    let measured = passes.find(|pass| pass.pass == MEASURED_DIR);
    measured.cloned().unwrap_or_default()
}

/// Files of a pass that are not as they were when it ended, a sentence each, as far as that is known.
fn edited(pass: &Path, visit: &str, facts: &PassFacts) -> Result<Vec<String>, SampleError> {
    let mut edited = Vec::new();
    if !facts.samples_sha256.is_empty() && sum_of(pass)? != facts.samples_sha256 {
        let text = format!("the samples of {visit} are not those that were measured");
        edited.push(text);
    }
    if !facts.metrics_sha256.is_empty() && metrics_sum(pass) != facts.metrics_sha256 {
        let text = format!("the metrics of {visit} are not those that the engine exported");
        edited.push(text);
    }
    Ok(edited)
}

/// Whether the other files of every measured pass hold what its samples give, and void visits are as they were
/// measured.
///
/// # Errors
/// When the journal cannot be read or rows cannot be made.
pub fn verify_passes(dir: &Path, outcome: &Outcome) -> Result<Vec<String>, AnalyzeError> {
    let mut findings = outcome.edited.clone();
    for (cell, rounds) in &outcome.passes {
        for (round, samples) in rounds {
            let visit = Visit {
                round: *round,
                cell: cell.clone(),
            };
            let pass = dir.join(VISITS_DIR).join(visit.id()).join(MEASURED_DIR);
            findings.extend(verify_pass(&pass, samples)?);
        }
    }
    findings.extend(verify_void(dir)?);
    findings.sort_unstable();
    Ok(findings)
}

/// Void visits whose files are not as they were when they ended, a sentence each.
fn verify_void(dir: &Path) -> Result<Vec<String>, AnalyzeError> {
    let (mut findings, mut finished) = (Vec::new(), HashMap::new());
    for record in journal::read(dir)? {
        let (kept_in, facts) = match record.event {
            Event::VisitVoided { kept_in, facts, .. } => (kept_in, Some(facts)),
            Event::VisitUndone { visit, kept_in } => (kept_in, finished.remove(&visit)),
            Event::VisitFinished { visit, facts, .. } => {
                finished.insert(visit, facts);
                continue;
            }
            _ => continue,
        };
        let pass = dir.join(VISITS_DIR).join(&kept_in).join(MEASURED_DIR);
        let name = format!("the void visit {kept_in}");
        if !pass.exists() {
            findings.push(format!("the samples of {name} are missing"));
        } else if let Some(facts) = facts {
            findings.extend(edited(&pass, &name, &measured(&facts))?);
        }
    }
    Ok(findings)
}

/// Seconds of measuring that a journal tells of.
pub fn wall_s(records: &[Record]) -> f64 {
    time_split(records).wall
}

/// Visits under way: when each began, and how many take turns.
#[derive(Default)]
struct UnderWay<'a>(HashMap<&'a str, (f64, usize)>);

impl<'a> UnderWay<'a> {
    fn begin(&mut self, visit: &'a str, at_s: f64, interleaving: Option<&Interleaving>) {
        let peers = interleaving.map_or(0, |found| found.with.len());
        if peers == 0 {
            // Nothing else runs beside it: what had not ended was cut.
            self.0.clear();
        }
        self.0.insert(visit, (at_s, 1 + peers));
    }

    /// What the visit cost, in seconds: the time from its start to its end, or its part of it when it took
    /// turns with others.
    fn end(&mut self, visit: &str, at_s: f64) -> Option<f64> {
        let (began_s, of) = self.0.remove(visit)?;
        Some((at_s - began_s) / of as f64)
    }
}

/// What each visit cost, by cell.
fn visit_seconds(records: &[Record]) -> Vec<(String, f64)> {
    let mut under_way = UnderWay::default();
    let mut seconds = Vec::new();
    for record in records {
        match &record.event {
            Event::VisitStarted {
                visit,
                interleaving,
            } => {
                under_way.begin(visit, record.at_s, interleaving.as_ref());
            }
            Event::VisitFinished { visit, .. } => {
                let cell = visit.split_once('-').map(|(_, cell)| cell);
                let cost = under_way.end(visit, record.at_s);
                seconds.extend(cell.map(str::to_owned).zip(cost));
            }
            _ => {}
        }
    }
    seconds
}

/// Adds up the visits; each `SweepStarted` begins a new stretch of wall time.
fn time_split(records: &[Record]) -> TimeSplit {
    let mut split = TimeSplit::default();
    let mut began_s = None;
    let (mut previous_s, mut under_way) = (0.0, UnderWay::default());
    for record in records {
        match &record.event {
            Event::SweepStarted { .. } => began_s = Some(record.at_s),
            Event::VisitFinished { times, .. } | Event::VisitFailed { times, .. } => {
                add(&mut split, times);
            }
            Event::VisitStarted {
                visit,
                interleaving,
            } => {
                under_way.begin(visit, record.at_s, interleaving.as_ref());
            }
            Event::VisitVoided { visit, .. } => {
                split.voided += under_way.end(visit, record.at_s).unwrap_or(0.0);
            }
            _ => {}
        }
        if let Some(began_s) = began_s {
            let before = if previous_s > began_s {
                previous_s
            } else {
                began_s
            };
            split.wall += (record.at_s - before).max(0.0);
        }
        previous_s = record.at_s;
    }
    let passes = split.measured + split.warmup + split.wait;
    let known = passes + split.reset + split.start + split.stop + split.voided + split.guard;
    split.other = (split.wall - known).max(0.0);
    split
}

fn add(split: &mut TimeSplit, times: &VisitTimes) {
    split.measured += times.measured_s;
    split.warmup += times.warmup_s;
    split.reset += times.reset_s;
    split.start += times.start_s;
    split.stop += times.stop_s;
    split.wait += times.wait_s;
    split.guard += times.guard_s;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(at_s: f64, event: Event) -> Record {
        Record {
            unix_ms: 0,
            at_s,
            event,
        }
    }

    fn started() -> Event {
        Event::SweepStarted {
            base: BlockIdentity {
                number: alloy_primitives::U64::ZERO,
                hash: Default::default(),
                state_root: Default::default(),
                gas_limit: alloy_primitives::U64::ZERO,
            },
            engine_versions: vec![],
            environment: Environment::default(),
            preflight: None,
            manifest: None,
        }
    }

    #[test]
    fn wall_time_is_the_sum_of_its_stretches() {
        let times = VisitTimes {
            measured_s: 2.0,
            warmup_s: 1.0,
            ..Default::default()
        };
        let finished = || Event::VisitFinished {
            visit: "1-a".into(),
            times,
            facts: VisitFacts::default(),
        };
        let split = time_split(&[
            record(1.0, started()),
            record(5.0, finished()),
            // Resumed by another process, whose clock begins anew.
            record(0.5, started()),
            record(4.5, finished()),
            record(5.0, Event::SweepFinished),
        ]);
        assert_eq!((split.wall, split.measured, split.warmup), (8.5, 4.0, 2.0));
        assert_eq!(split.other, 2.5);
        assert!((split.answering() - 6.0 / 8.5).abs() < 1e-12);
    }

    #[test]
    fn the_time_of_a_group_is_counted_once_and_shared_by_its_visits() {
        let begun = |visit: &str, other: &str| Event::VisitStarted {
            visit: visit.into(),
            interleaving: Some(Interleaving {
                with: vec![other.into()],
                copy: 1,
            }),
        };
        let finished = |visit: &str, measured_s| Event::VisitFinished {
            visit: visit.into(),
            times: VisitTimes {
                measured_s,
                ..Default::default()
            },
            facts: VisitFacts::default(),
        };
        let voided = |visit: &str| Event::VisitVoided {
            visit: visit.into(),
            attempt: 1,
            kept_in: String::new(),
            times: VisitTimes::default(),
            facts: VisitFacts::default(),
        };
        let records = [
            record(0.0, started()),
            record(1.0, begun("1-a", "1-b")),
            record(1.0, begun("1-b", "1-a")),
            record(9.0, voided("1-a")),
            record(9.0, voided("1-b")),
            record(9.0, begun("1-a", "1-b")),
            record(9.0, begun("1-b", "1-a")),
            record(19.0, finished("1-b", 2.0)),
            record(19.0, finished("1-a", 3.0)),
            record(19.0, Event::SweepFinished),
        ];
        let split = time_split(&records);
        assert_eq!(
            (split.wall, split.voided, split.measured, split.other),
            (19.0, 8.0, 5.0, 6.0)
        );
        let costs = visit_seconds(&records);
        assert_eq!(costs, [("b".to_owned(), 5.0), ("a".to_owned(), 5.0)]);
    }
}
