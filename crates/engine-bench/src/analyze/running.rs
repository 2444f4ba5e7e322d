//! What is known of each cell while a sweep is under way.
//!
//! Invariant: the same figures as the report would give at that moment.

use super::{Ratio, Summary, read_outcome, summarize};
use crate::record::{RecordError, Running};
use std::path::Path;

/// Cells that have a number, in the order of the plan.
///
/// # Errors
/// When the results folder cannot be read.
pub fn running(dir: &Path) -> Result<Vec<Running>, RecordError> {
    let of = |summary: Summary| {
        let Ratio { value, low, high } = summary.execution_ggas_per_second?.ratio;
        Some(Running {
            cell: summary.id,
            visits: summary.visits,
            ggas_per_second: value,
            low,
            high,
        })
    };
    let summaries = summarize(&read_outcome(dir)?);
    Ok(summaries.into_iter().filter_map(of).collect())
}
