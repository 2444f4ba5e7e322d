//! What surrounded the measurement, as rows and lines of text: time, machine, disturbances, settings.
//!
//! Invariant: the same rows feed every rendering, so they cannot disagree.

use super::{grid::Grid, model::Report, names::text};
use crate::analyze::flatten;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// The machine and the engines, a line each.
pub(super) fn machine(report: &Report) -> Vec<String> {
    let machine = &report.environment.machine;
    let engines = report.environment.engines.iter();
    let mut lines = vec![
        format!("{} × {}", machine.cpus, machine.cpu_model),
        format!(
            "{:.1} GiB of memory",
            machine.memory_bytes as f64 / f64::from(1 << 30)
        ),
        format!("{}, {}", machine.kernel, machine.system),
        format!("engine-bench {}", machine.harness_version),
    ];
    lines.extend(engines.map(|engine| format!("engine: {engine}")));
    lines
}

/// What about the machine makes measurements worse: a row per check.
pub(super) fn preflight(report: &Report) -> Grid {
    let checks = report.environment.preflight.iter();
    let rows = checks.flat_map(|found| &found.checks).map(|check| {
        let points = match check.points {
            0 => "fine".to_owned(),
            points => format!("-{points}"),
        };
        [
            check.name.clone(),
            check.found.clone(),
            points,
            check.advice.clone(),
        ]
    });
    let score = report.environment.preflight.as_ref();
    let score = score.map_or(0, |found| found.score);
    let points = format!("points, {score} left of 100");
    Grid::new(["machine", "found", &points, "advice"], rows)
}

/// Tables that a reset did not always bring back to as many rows.
pub(super) fn state_drift(report: &Report) -> Grid {
    let rows = report.guard.state_drift.iter().map(|drift| {
        [
            drift.engine.clone(),
            drift.table.clone(),
            drift.fewest.to_string(),
            drift.most.to_string(),
        ]
    });
    let header = ["engine", "table that drifted", "fewest rows", "most rows"];
    Grid::new(header, rows)
}

/// Visits that others disturbed: void ones, and those that count nevertheless.
pub(super) fn disturbed(report: &Report) -> Grid {
    let visits = report.visits.iter().enumerate();
    let rows = visits.filter(|(_, visit)| !visit.facts.contaminations.is_empty());
    let rows = rows.map(|(index, visit)| {
        let details = visit.facts.contaminations.iter();
        let details: Vec<&str> = details.map(|found| found.detail.as_str()).collect();
        [
            (index + 1).to_string(),
            format!("{}-{}", visit.round, visit.cell),
            visit.ended.to_string(),
            details.join("; "),
        ]
    });
    Grid::new(["visit", "name", "is", "disturbed by"], rows)
}

/// Every value of a part of the report under its full name.
pub(super) fn values(part: &impl Serialize) -> Grid {
    let mut values = BTreeMap::new();
    let part = serde_json::to_value(part).unwrap_or_default();
    flatten("", part, &mut values);
    let set = values
        .into_iter()
        .filter(|(_, value)| *value != Value::Null);
    let rows = set.map(|(name, value)| {
        let name = name.trim_start_matches('.').to_owned();
        [name, text(&value)]
    });
    Grid::new(["name", "value"], rows)
}

/// Where the time went, as one line.
pub(super) fn time(report: &Report) -> String {
    let time = &report.time_s;
    let parts = [
        ("measured", time.measured),
        ("warm-up", time.warmup),
        ("reset", time.reset),
        ("start", time.start),
        ("stop", time.stop),
        ("wait", time.wait),
        ("void", time.voided),
        ("guard", time.guard),
        ("other", time.other),
    ];
    let spent = parts.iter().filter(|(_, seconds)| *seconds >= 0.05);
    let spent: Vec<String> = spent
        .map(|(part, seconds)| format!("{part} {seconds:.1}"))
        .collect();
    format!(
        "wall {:.1} s: {}; the engine was answering payloads {:.0} % of it",
        time.wall,
        spent.join(", "),
        100.0 * report.answering_fraction
    )
}
