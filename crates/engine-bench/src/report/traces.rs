//! Where to look into single blocks: their traces, by cell.
//!
//! Invariant: a link stands only where spans were taken by who shows them.

use super::{grid::Grid, model::Report};
use crate::{profile::CellProfile, trace::CellTraces};

/// A row per traced block.
pub(super) fn table(report: &Report) -> Grid {
    let header = [
        "cell",
        "block",
        "measured ms",
        "traced ms",
        "spans",
        "file",
        "Jaeger",
    ];
    let rows = report.traces.iter().flat_map(|cell| {
        cell.blocks.iter().map(|block| {
            vec![
                cell.cell.clone(),
                block.block.to_string(),
                format!("{:.2}", block.measured_ms),
                format!("{:.2}", block.traced_ms),
                block.spans.to_string(),
                block.file.clone(),
                block.link.clone().unwrap_or_else(|| "-".to_owned()),
            ]
        })
    });
    Grid {
        header: header.map(str::to_owned).to_vec(),
        rows: rows.collect(),
    }
}

/// What tracing cost, lost or failed at, a line for each cell that has something to say.
pub(super) fn lines(report: &Report) -> Vec<String> {
    report.traces.iter().filter_map(line).collect()
}

/// How the profile of each cell is looked at, or why there is none.
pub(super) fn profile_lines(report: &Report) -> Vec<String> {
    let line = |profile: &CellProfile| {
        let told = profile.show.as_ref().or(profile.problem.as_ref())?;
        Some(format!("{}: {told}", profile.cell))
    };
    report.profiles.iter().filter_map(line).collect()
}

fn line(cell: &CellTraces) -> Option<String> {
    let mut parts = Vec::new();
    if let Some(overhead) = cell.overhead {
        parts.push(format!(
            "tracing changed the time of a block by {:+.1} %, beside untraced blocks of the same pass",
            overhead * 100.0
        ));
    }
    if cell.lost_spans > 0 {
        parts.push(format!("{} spans were lost", cell.lost_spans));
    }
    parts.extend(cell.problem.clone());
    (!parts.is_empty()).then(|| format!("{}: {}", cell.cell, parts.join("; ")))
}
