//! Renderings of what was found: terminal table, JSON, Markdown, CSV.
//!
//! Invariant: renderers take a [`Report`] and nothing else, so every one can be remade from a
//! results folder at any time.

mod answer;
mod attribution;
mod between;
mod blocks;
mod caveats;
mod facts;
mod grid;
mod guard;
mod html;
mod markdown;
mod model;
mod names;
mod sections;
mod table;
mod verify;
mod visits;

pub use attribution::{ChangeReport, MovedReport};
pub use between::between;
pub use blocks::BlocksReport;
pub use guard::{GuardReport, StateDrift};
pub use html::html;
pub use markdown::markdown;
pub use model::{
    AdaptiveReport, CellReport, EnvironmentReport, EstimateReport, LatencyReport, Report,
    RoundReport, SteadyReport,
};
pub use table::{failures, table};
pub use verify::{published_baseline, verify};
pub use visits::VisitReport;

use std::{
    io,
    path::{Path, PathBuf},
};

/// The report for programs.
pub const JSON_FILE: &str = "report.json";
/// The report for readers.
pub const MARKDOWN_FILE: &str = "report.md";
/// The report to look at.
pub const HTML_FILE: &str = "report.html";
/// A row per cell.
pub const CELLS_FILE: &str = "cells.csv";

/// A report that could not be written.
#[derive(Debug, thiserror::Error)]
#[error("failed to write {path}: {reason}")]
pub struct WriteError {
    path: PathBuf,
    reason: io::Error,
}

/// Writes every rendering into a results folder, replacing older ones.
///
/// # Errors
/// When one cannot be written.
pub fn write(dir: &Path, report: &Report) -> Result<(), WriteError> {
    let file = |name: &str, content: Result<Vec<u8>, io::Error>| {
        let path = dir.join(name);
        content
            .and_then(|content| std::fs::write(&path, content))
            .map_err(|reason| WriteError { path, reason })
    };
    file(
        JSON_FILE,
        report
            .to_json()
            .map(String::into_bytes)
            .map_err(io::Error::from),
    )?;
    file(MARKDOWN_FILE, Ok(markdown(report).into_bytes()))?;
    file(HTML_FILE, Ok(html(report).into_bytes()))?;
    file(CELLS_FILE, cells_csv(report).map_err(io::Error::other))
}

/// One row per cell, for spreadsheets.
fn cells_csv(report: &Report) -> Result<Vec<u8>, csv::Error> {
    let mut csv = csv::Writer::from_writer(Vec::new());
    let flags: Vec<&str> = report
        .configuration
        .axes
        .iter()
        .map(|axis| axis.flag.as_str())
        .collect();
    let metrics = [
        "payloads",
        "visits",
        "failed_visits",
        "execution_ggas_per_second",
        "execution_low",
        "execution_high",
        "new_payload_ggas_per_second",
        "wall_clock_ggas_per_second",
        "engine_ggas_per_second",
        "latency_p50_us",
        "latency_p90_us",
        "latency_p99_us",
        "latency_max_us",
        "knob_acted",
        "knob_evidence",
    ];
    csv.write_record(
        ["id", "engine"]
            .into_iter()
            .chain(flags.iter().copied())
            .chain(["gas"])
            .chain(metrics),
    )?;
    for cell in &report.cells {
        csv.write_record(cell_row(cell, &flags))?;
    }
    csv.into_inner()
        .map_err(|error| io::Error::from(error.error().kind()).into())
}

fn cell_row(cell: &CellReport, flags: &[&str]) -> Vec<String> {
    let axis = |name: &str| {
        let value = cell.axes.get(name);
        value.map_or_else(String::new, |value| {
            value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned)
        })
    };
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    let value = |estimate: &Option<EstimateReport>| {
        number(estimate.as_ref().map(|estimate| estimate.value))
    };
    let execution = cell.execution_ggas_per_second.as_ref();
    let latency = cell.latency_us;
    let mut row = vec![cell.id.clone(), axis("engine")];
    row.extend(flags.iter().map(|flag| axis(flag)));
    row.push(axis("gas"));
    row.extend([cell.payloads, cell.visits, cell.failed_visits].map(|count| count.to_string()));
    row.extend([
        value(&cell.execution_ggas_per_second),
        number(execution.and_then(|estimate| estimate.low)),
        number(execution.and_then(|estimate| estimate.high)),
        value(&cell.new_payload_ggas_per_second),
        value(&cell.wall_clock_ggas_per_second),
        value(&cell.engine_ggas_per_second),
        number(latency.map(|latency| latency.p50)),
        number(latency.map(|latency| latency.p90)),
        number(latency.map(|latency| latency.p99)),
        number(latency.map(|latency| latency.max)),
        cell.knob
            .acted
            .map_or_else(String::new, |acted| acted.to_string()),
        cell.knob.evidence.clone(),
    ]);
    row
}
