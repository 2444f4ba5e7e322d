//! What is known of each cell while a sweep is under way.
//!
//! Invariant: the same figures as the report would give at that moment.

use super::{Summary, read_outcome, summarize};
use crate::record::{RecordError, Running};
use std::path::Path;

/// Cells that have a number, in the order of the plan.
///
/// # Errors
/// When the results folder cannot be read.
pub fn running(dir: &Path) -> Result<Vec<Running>, RecordError> {
    let of = |summary: &Summary| {
        let estimate = summary.execution?;
        Some(Running {
            cell: summary.cell.id.clone(),
            visits: summary.visits,
            ggas_per_second: estimate.value,
            low: estimate.interval.map(|(low, _)| low),
            high: estimate.interval.map(|(_, high)| high),
        })
    };
    let summaries = summarize(&read_outcome(dir)?);
    Ok(summaries.iter().filter_map(of).collect())
}
