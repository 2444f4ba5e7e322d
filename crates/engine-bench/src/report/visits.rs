//! Every visit of a sweep in the order they were made, so that order and drift can be seen.
//!
//! Invariant: a visit without numbers is listed without them.

use crate::{
    analyze::{Outcome, throughput},
    record::{Attempt, Ended, Interleaving, Sample, VisitFacts},
};
use serde::Serialize;
use std::collections::HashMap;

/// One visit.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct VisitReport {
    /// Id of its cell, or of an A/A control.
    pub cell: String,
    /// Its round.
    pub round: u64,
    /// Seconds from the beginning of the first visit to that of this one; pauses of an interrupted
    /// sweep count.
    pub begun_s: f64,
    /// How long it took, in seconds; 0 when that is unknown.
    pub seconds: f64,
    /// How it ended.
    pub ended: Ended,
    /// Which attempt of the visit it was, counted from 1.
    pub attempt: u64,
    /// Execution throughput, when it gave one.
    pub ggas_per_second: Option<f64>,
    /// The same relative to the mean of its cell: -0.04 is 4 % slower.
    pub relative: Option<f64>,
    /// With whom it took turns, payload by payload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interleaving: Option<Interleaving>,
    /// What was found beside its samples, and what disturbed it.
    #[serde(flatten)]
    pub facts: VisitFacts,
}

/// Lists the visits of a sweep.
pub(super) fn visits(outcome: &Outcome) -> Vec<VisitReport> {
    let mean = |cell: &str| {
        let logs: Vec<f64> = outcome
            .rounds(cell)
            .filter_map(|(_, pass)| log(pass))
            .collect();
        let mean = logs.iter().sum::<f64>() / logs.len() as f64;
        mean.is_finite().then_some(mean)
    };
    let means = outcome.passes.keys();
    let means = means.filter_map(|cell| Some((cell.as_str(), mean(cell)?)));
    let means: HashMap<&str, f64> = means.collect();
    let first_ms = outcome.attempts.first();
    let first_ms = first_ms.map_or(0, |attempt| attempt.began_unix_ms);
    let visit = |attempt: &Attempt| {
        let finished = attempt.ended == Ended::Finished;
        let mut rounds = outcome.rounds(&attempt.cell);
        let pass = rounds.find(|(round, _)| finished && *round == attempt.round);
        let log = pass.and_then(|(_, pass)| log(pass));
        let mean = means.get(attempt.cell.as_str());
        VisitReport {
            cell: attempt.cell.clone(),
            round: attempt.round,
            begun_s: attempt.began_unix_ms.saturating_sub(first_ms) as f64 / 1e3,
            seconds: attempt.seconds,
            ended: attempt.ended,
            attempt: attempt.attempt,
            ggas_per_second: log.map(f64::exp),
            relative: log.zip(mean).map(|(log, mean)| (log - mean).exp_m1()),
            interleaving: attempt.interleaving.clone(),
            facts: attempt.facts.clone(),
        }
    };
    outcome.attempts.iter().map(visit).collect()
}

/// Logarithm of the execution throughput of a pass.
fn log(pass: &[Sample]) -> Option<f64> {
    let log = throughput(pass).ggas_per_second()?.ln();
    log.is_finite().then_some(log)
}
