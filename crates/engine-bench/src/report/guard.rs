//! What watched visits showed: disturbances, drift of the machine and of the state, and what watching
//! cost.
//!
//! Invariant: counts every try of a visit once; nothing here changes a throughput.

use crate::{
    analyze::Outcome,
    guard::GuardMode,
    record::{Attempt, Ended},
};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// What the guard saw.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct GuardReport {
    /// What was done about disturbed passes.
    pub mode: GuardMode,
    /// Passes that were watched.
    pub watched: u64,
    /// Visits that are void: they were disturbed and measured again.
    pub voided: u64,
    /// Visits that count although they were disturbed.
    pub disturbed: u64,
    /// How often each rule was broken, void visits included.
    pub reasons: BTreeMap<String, u64>,
    /// Time the guard took during and around watched passes, in seconds.
    pub guard_s: f64,
    /// Length of the watched passes, in seconds.
    pub watched_s: f64,
    /// Their ratio: what watching costs; null when nothing was watched.
    pub cost: Option<f64>,
    /// Time of all calibrations, in seconds.
    pub calibration_s: f64,
    /// Tables whose number of rows after a reset was not the same throughout, with the fewest and the
    /// most, by engine.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub state_drift: Vec<StateDrift>,
}

/// A table that a reset did not always bring back to as many rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StateDrift {
    /// Name of the engine.
    pub engine: String,
    /// Name of the table.
    pub table: String,
    /// Fewest rows.
    pub fewest: u64,
    /// Most rows.
    pub most: u64,
}

impl GuardReport {
    /// What the tries of a sweep showed.
    pub(super) fn of(outcome: &Outcome) -> Self {
        let mut report = Self {
            mode: outcome.plan.settings.guard,
            state_drift: state_drift(outcome),
            ..Self::default()
        };
        for visit in &outcome.attempts {
            report.add(visit);
        }
        if report.watched_s > 0.0 {
            report.cost = Some(report.guard_s / report.watched_s);
        }
        report
    }

    fn add(&mut self, visit: &Attempt) {
        match visit.ended {
            Ended::Voided | Ended::Undone => self.voided += 1,
            Ended::Finished if !visit.facts.contaminations.is_empty() => self.disturbed += 1,
            _ => {}
        }
        for found in &visit.facts.contaminations {
            *self.reasons.entry(found.rule.clone()).or_default() += 1;
        }
        // Those that take turns are watched at once, and the fixed work is done once for all.
        let part = 1.0 / visit.in_turn() as f64;
        for pass in &visit.facts.passes {
            if let Some(machine) = &pass.machine {
                self.watched += 1;
                self.guard_s += machine.guard_s;
                self.watched_s += part * machine.wall_s;
            }
            if let Some(work) = pass.calibration {
                self.calibration_s += part * (work.compute_ns + work.memory_ns) as f64 / 1e9;
            }
        }
    }

    /// What a reader should doubt, a sentence each.
    pub(super) fn warnings(&self) -> Vec<String> {
        let reasons = self.reasons.iter().map(|(rule, count)| match count {
            1 => format!("{rule} once"),
            count => format!("{rule} {count} times"),
        });
        let reasons = reasons.collect::<Vec<_>>().join(", ");
        let told = match (self.disturbed, self.voided) {
            (0, 0) => None,
            (0, 1) => Some(
                "1 visit was disturbed: it counts for nothing and was measured again".to_owned(),
            ),
            (0, voided) => Some(format!(
                "{voided} visits were disturbed: they count for nothing and were measured again"
            )),
            (1, _) => Some("1 visit counts although others disturbed it".to_owned()),
            (count, _) => Some(format!(
                "{count} visits count although others disturbed them"
            )),
        };
        let told = told.map(|told| format!("{told} ({reasons})"));
        let drifts = self.state_drift.iter().map(|drift| {
            format!(
                "{}: the table {} had {} to {} rows after resets to the same block: the state is \
                 not always brought back whole",
                drift.engine, drift.table, drift.fewest, drift.most
            )
        });
        told.into_iter().chain(drifts).collect()
    }
}

/// Tables that hold marks of where an engine stands rather than the state at a block: bench-reth and reth keep
/// the safe and the finalized block in this one, which the fork choices of a pass move and a reset to an
/// earlier block may leave, clear or clamp. Its rows say nothing about what a pass starts from.
const TABLES_OF_MARKS: [&str; 1] = ["ChainState"];

fn state_drift(outcome: &Outcome) -> Vec<StateDrift> {
    let mut counts: BTreeMap<(&str, &str), BTreeSet<u64>> = BTreeMap::new();
    for visit in &outcome.attempts {
        let Some(cell) = outcome.plan.cell(&visit.cell) else {
            continue;
        };
        let passes = visit.facts.passes.iter();
        for database in passes.filter_map(|pass| pass.state.database.as_ref()) {
            let entries = database.entries.iter();
            let of_state = |(table, _): &(&String, _)| !TABLES_OF_MARKS.contains(&table.as_str());
            for (table, rows) in entries.filter(of_state) {
                let key = (cell.engine.as_str(), table.as_str());
                counts.entry(key).or_default().insert(*rows);
            }
        }
    }
    let drifted = counts.into_iter().filter_map(|((engine, table), rows)| {
        let (fewest, most) = (*rows.first()?, *rows.last()?);
        (fewest < most).then(|| StateDrift {
            engine: engine.to_owned(),
            table: table.to_owned(),
            fewest,
            most,
        })
    });
    drifted.collect()
}
