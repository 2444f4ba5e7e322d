//! Renderings of what was found: terminal table, JSON, Markdown, CSV.
//!
//! Invariant: renderers take a [`Report`] and nothing else, so every one can be remade from a
//! results folder at any time.

mod answer;
mod attribution;
mod between;
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
pub use guard::{GuardReport, StateDrift};
pub use html::html;
pub use markdown::markdown;
pub use model::{AdaptiveReport, EnvironmentReport, Report};
pub use table::{failures, table};
pub use verify::{published_baseline, verify};
pub use visits::VisitReport;

use serde_json::Value;
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
    for (name, content) in [
        (JSON_FILE, report.to_json().map_err(io::Error::from)),
        (MARKDOWN_FILE, Ok(markdown(report))),
        (HTML_FILE, Ok(html(report))),
        (CELLS_FILE, cells_csv(report)),
    ] {
        let path = dir.join(name);
        let written = content.and_then(|content| std::fs::write(&path, content));
        written.map_err(|reason| WriteError { path, reason })?;
    }
    Ok(())
}

/// Columns of a row per cell, and where `report.json` has them in a cell.
const CSV_COLUMNS: [(&str, &str); 15] = [
    ("payloads", "/payloads"),
    ("visits", "/visits"),
    ("failed_visits", "/failed_visits"),
    (
        "execution_ggas_per_second",
        "/execution_ggas_per_second/value",
    ),
    ("execution_low", "/execution_ggas_per_second/low"),
    ("execution_high", "/execution_ggas_per_second/high"),
    (
        "new_payload_ggas_per_second",
        "/new_payload_ggas_per_second/value",
    ),
    (
        "wall_clock_ggas_per_second",
        "/wall_clock_ggas_per_second/value",
    ),
    ("engine_ggas_per_second", "/engine_ggas_per_second/value"),
    ("latency_p50_us", "/latency_us/p50"),
    ("latency_p90_us", "/latency_us/p90"),
    ("latency_p99_us", "/latency_us/p99"),
    ("latency_max_us", "/latency_us/max"),
    ("knob_acted", "/knob/acted"),
    ("knob_evidence", "/knob/evidence"),
];

/// One row per cell, for spreadsheets.
fn cells_csv(report: &Report) -> io::Result<String> {
    let mut csv = csv::Writer::from_writer(Vec::new());
    let axes = report.configuration.axes.iter();
    let axes = axes.map(|axis| axis.flag.as_str());
    let axes: Vec<&str> = ["engine"].into_iter().chain(axes).chain(["gas"]).collect();
    let columns = CSV_COLUMNS.map(|(name, _)| name);
    csv.write_record([&["id"][..], &axes, &columns].concat())?;
    for cell in &report.cells {
        let json = serde_json::to_value(cell)?;
        let text = |value: Option<&Value>| match value {
            None | Some(Value::Null) => String::new(),
            Some(value) => names::text(value),
        };
        let axes = axes.iter().map(|axis| text(cell.axes.get(*axis)));
        let columns = CSV_COLUMNS.map(|(_, place)| text(json.pointer(place)));
        csv.write_record([cell.id.clone()].into_iter().chain(axes).chain(columns))?;
    }
    let text = csv.into_inner().map_err(|error| error.into_error())?;
    String::from_utf8(text).map_err(io::Error::other)
}
