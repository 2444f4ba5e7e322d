//! What is known of each cell while a sweep is under way.
//!
//! Invariant: the same figures as the report would give at that moment.

use super::{
    outcome::{AnalyzeError, read_outcome},
    summary::summarize,
};
use crate::figures;
use serde::{Deserialize, Serialize};
use std::{fmt, path::Path};

/// The execution throughput of a cell until now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Running {
    /// Id of the cell.
    pub cell: String,
    /// Visits that gave numbers.
    pub visits: u64,
    /// In gigagas per second.
    pub ggas_per_second: f64,
    /// Lower end of its interval; null with one visit.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
}

impl fmt::Display for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let figure = figures::with_half_width(self.ggas_per_second, self.low.zip(self.high));
        write!(f, "{} {figure}", self.cell)
    }
}

/// Cells that have a number, in the order of the plan.
///
/// # Errors
/// When the results folder cannot be read.
pub fn running(dir: &Path) -> Result<Vec<Running>, AnalyzeError> {
    let outcome = read_outcome(dir)?;
    let of = |summary: &super::Summary| {
        let estimate = summary.execution?;
        Some(Running {
            cell: summary.cell.id.clone(),
            visits: summary.visits,
            ggas_per_second: estimate.value,
            low: estimate.interval.map(|(low, _)| low),
            high: estimate.interval.map(|(_, high)| high),
        })
    };
    Ok(summarize(&outcome).iter().filter_map(of).collect())
}
