//! What bringing a datadir back took.
//!
//! Invariant: every reset of a pass that ended is counted, also of visits that count for nothing.

use super::Outcome;
use bench_stats::quantile_sorted;
use serde::Serialize;
use std::collections::BTreeMap;

/// Resets of one engine by one method.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Resets {
    /// The engine.
    pub engine: String,
    /// How its datadir was brought back.
    pub method: String,
    /// How often.
    pub resets: u64,
    /// Seconds that half of them took at most.
    pub median_s: f64,
    /// Seconds that the longest took.
    pub max_s: f64,
}

/// The resets of a sweep, by engine and method.
pub fn resets(outcome: &Outcome) -> Vec<Resets> {
    let mut taken: BTreeMap<(&str, &str), Vec<u64>> = BTreeMap::new();
    for visit in &outcome.attempts {
        let Some(cell) = outcome.plan.cell(&visit.cell) else {
            continue;
        };
        let passes = visit.facts.passes.iter();
        for reset in passes.filter_map(|pass| pass.state.reset.as_ref()) {
            let key = (cell.engine.as_str(), reset.method.as_str());
            taken.entry(key).or_default().push(reset.took_us);
        }
    }
    let of = |((engine, method), mut took_us): ((&str, &str), Vec<u64>)| {
        took_us.sort_unstable();
        Resets {
            engine: engine.to_owned(),
            method: method.to_owned(),
            resets: took_us.len() as u64,
            median_s: quantile_sorted(&took_us, 0.5).unwrap_or_default() / 1e6,
            max_s: took_us.last().map_or(0.0, |longest| *longest as f64 / 1e6),
        }
    };
    taken.into_iter().map(of).collect()
}
