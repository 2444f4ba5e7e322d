//! A history with everything that was measured, before any statistics.
//!
//! Invariant: a pass is taken into account only when its visit finished, and then its samples must be
//! there.

use crate::{
    plan::{Cell, Load},
    profile::{self, CellProfile},
    record::{History, PassFacts, PassMetrics, RecordError, Sample, measured_dir, sample},
    trace::{self, CellTraces},
};
use bench_stats::Throughput;
use std::{
    collections::{BTreeMap, HashMap},
    ops::{Deref, DerefMut},
    path::Path,
};

/// What happened in a sweep, and what was measured. It is used as its history is.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// What happened.
    pub history: History,
    /// Measured passes by cell id and round.
    pub passes: HashMap<String, BTreeMap<u64, Vec<Sample>>>,
    /// What engines exported around those passes, as far as they did, likewise.
    pub metrics: HashMap<String, BTreeMap<u64, PassMetrics>>,
    /// Traces that were made after it.
    pub traces: Vec<CellTraces>,
    /// Profiles that were made after everything was measured.
    pub profiles: Vec<CellProfile>,
}

impl Deref for Outcome {
    type Target = History;

    fn deref(&self) -> &History {
        &self.history
    }
}

impl DerefMut for Outcome {
    fn deref_mut(&mut self) -> &mut History {
        &mut self.history
    }
}

impl Outcome {
    /// Cells of a load, in the order of the plan.
    pub(crate) fn cells<'a>(&'a self, load: &Load) -> impl Iterator<Item = &'a Cell> + Clone {
        let cells = self.plan.cells.iter();
        cells.filter(|cell| load.is_of(cell))
    }

    /// The same, then the A/A controls of the load.
    pub(crate) fn visited<'a>(&'a self, load: &Load) -> impl Iterator<Item = &'a Cell> + Clone {
        let controls = self.plan.controls.iter();
        self.cells(load)
            .chain(controls.filter(|cell| load.is_of(cell)))
    }

    /// Rounds of a cell, or of an A/A control, that gave numbers.
    pub(crate) fn rounds<'a>(
        &'a self,
        id: &str,
    ) -> impl Iterator<Item = (u64, &'a [Sample])> + use<'a> {
        let rounds = self.passes.get(id).into_iter().flatten();
        rounds.map(|(round, pass)| (*round, pass.as_slice()))
    }

    /// What was found in the measured passes of those rounds beside their samples.
    pub(super) fn measured<'a>(&'a self, id: &str) -> impl Iterator<Item = &'a PassFacts> {
        let visits = self
            .history
            .finished()
            .filter(move |visit| visit.cell == id);
        visits.filter_map(|visit| visit.facts.passes.last())
    }

    /// Execution throughput of each of those rounds.
    pub(super) fn throughputs<'a>(
        &'a self,
        id: &str,
    ) -> impl Iterator<Item = (u64, Throughput)> + use<'a> {
        self.rounds(id)
            .map(|(round, pass)| (round, throughput(pass)))
    }
}

/// Execution throughput of a pass.
pub(crate) fn throughput(pass: &[Sample]) -> Throughput {
    let payloads = pass.iter();
    payloads
        .map(|sample| Throughput::new(sample.gas_used, sample.total_ns()))
        .sum()
}

/// Reads a results folder.
///
/// # Errors
/// When the plan, the journal or the samples of a finished visit cannot be read.
pub fn read_outcome(dir: &Path) -> Result<Outcome, RecordError> {
    let mut outcome = Outcome {
        history: History::read(dir)?,
        passes: HashMap::new(),
        metrics: HashMap::new(),
        traces: trace::read_index(dir),
        profiles: profile::read_index(dir),
    };
    for attempt in outcome.history.finished() {
        let pass = measured_dir(dir, &attempt.visit);
        let (cell, round) = (&attempt.cell, attempt.round);
        if let Some(metrics) = PassMetrics::read(&pass) {
            let rounds = outcome.metrics.entry(cell.clone()).or_default();
            rounds.insert(round, metrics);
        }
        let rounds = outcome.passes.entry(cell.clone()).or_default();
        rounds.insert(round, sample::read_samples(&pass)?);
    }
    Ok(outcome)
}

/// Whether the other files of every measured pass hold what its samples give, and void visits are as they were
/// measured.
///
/// # Errors
/// When samples cannot be read or rows cannot be made.
pub fn verify_passes(dir: &Path, outcome: &Outcome) -> Result<Vec<String>, RecordError> {
    let mut findings = outcome.edited.clone();
    for attempt in outcome.finished() {
        let rounds = outcome.passes.get(&attempt.cell);
        if let Some(samples) = rounds.and_then(|rounds| rounds.get(&attempt.round)) {
            let pass = measured_dir(dir, &attempt.visit);
            findings.extend(sample::verify_pass(&pass, samples)?);
        }
    }
    findings.extend(outcome.edited_voids(dir)?);
    findings.sort_unstable();
    Ok(findings)
}
