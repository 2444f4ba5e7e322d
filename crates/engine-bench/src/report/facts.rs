//! What stands beside the figures, as rows and lines of text: verdicts, root work, rounds decided,
//! the machine, the settings.
//!
//! Invariant: the same rows feed every rendering, so they cannot disagree.

use super::{
    grid::{Grid, NOTHING, ratio_text, text},
    model::Report,
};
use crate::{
    analyze::{Work, flatten},
    record::{
        Sample,
        column::{Column, Unit},
    },
};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// Every verdict: a row per pair of cells.
pub(super) fn comparisons(report: &Report) -> Grid {
    let rows = report.comparisons.iter().map(|pair| {
        vec![
            pair.a.clone(),
            pair.b.clone(),
            ratio_text(&pair.ratio),
            pair.verdict.to_string(),
            pair.relevance
                .map_or_else(String::new, |found| found.to_string()),
            pair.bootstrap
                .map(|found| format!("{:.3} to {:.3}", found.low, found.high))
                .unwrap_or_default(),
        ]
    });
    grid(["a", "b", "a / b", "a is", "difference", "resampled"], rows)
}

/// What the engine counted per block: a row per cell that has counts.
pub(super) fn work(report: &Report) -> Grid {
    let shown = |column: &Column<Sample>, mean: Option<f64>| match (mean, column.about.unit) {
        (None, _) => NOTHING.to_owned(),
        (Some(mean), Unit::Nanoseconds) => format!("{:.2}", mean / 1e6),
        (Some(mean), _) => format!("{mean:.1}"),
    };
    let told = |column: &&Column<Sample>| {
        let works = report.cells.iter().filter_map(|cell| cell.work.as_ref());
        let mut works = works;
        works.any(|work| work.mean(column.name).is_some())
    };
    let columns: Vec<&Column<Sample>> = Work::columns().filter(told).collect();
    let rows = report.cells.iter().filter_map(|cell| {
        let work = cell.work.as_ref()?;
        let columns = columns.iter();
        let means = columns.map(|column| shown(column, work.mean(column.name)));
        Some([cell.id.clone()].into_iter().chain(means).collect())
    });
    let label = |column: &&Column<Sample>| match column.about.unit {
        Unit::Nanoseconds => format!("{} ms", column.about.label),
        _ => column.about.label.to_owned(),
    };
    let labels = columns.iter().map(label);
    Grid {
        header: ["cell".to_owned()].into_iter().chain(labels).collect(),
        rows: rows.collect(),
    }
}

/// How the rounds of an adaptive sweep were decided: a row per decision and level.
pub(super) fn decisions(report: &Report) -> Grid {
    let decisions = report.adaptive.iter().flat_map(|found| &found.decisions);
    let rows = decisions.flat_map(|decision| {
        decision.levels.iter().map(|level| {
            let percent = |part: f64| format!("{:.2} %", 100.0 * part);
            vec![
                decision.after_round.to_string(),
                level.load.to_string(),
                level.precision.map_or(NOTHING.to_owned(), percent),
                level.wanted_rounds.to_string(),
                level.given_rounds.to_string(),
                level.beaten.join(", "),
                level.futile.join(", "),
            ]
        })
    });
    let header = [
        "after round",
        "level",
        "precision",
        "rounds wanted",
        "rounds to come",
        "clearly beaten",
        "stopped undecided",
    ];
    grid(header, rows)
}

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
        vec![
            check.name.clone(),
            check.found.clone(),
            points,
            check.advice.clone(),
        ]
    });
    let score = report.environment.preflight.as_ref();
    let score = score.map_or(0, |found| found.score);
    let points = format!("points, {score} left of 100");
    grid(["machine", "found", &points, "advice"], rows)
}

/// Tables that a reset did not always bring back to as many rows.
pub(super) fn state_drift(report: &Report) -> Grid {
    let rows = report.guard.state_drift.iter().map(|drift| {
        vec![
            drift.engine.clone(),
            drift.table.clone(),
            drift.fewest.to_string(),
            drift.most.to_string(),
        ]
    });
    let header = ["engine", "table that drifted", "fewest rows", "most rows"];
    grid(header, rows)
}

/// Visits that others disturbed: void ones, and those that count nevertheless.
pub(super) fn disturbed(report: &Report) -> Grid {
    let visits = report.visits.iter().enumerate();
    let rows = visits.filter(|(_, visit)| !visit.facts.contaminations.is_empty());
    let rows = rows.map(|(index, visit)| {
        let details = visit.facts.contaminations.iter();
        let details: Vec<&str> = details.map(|found| found.detail.as_str()).collect();
        vec![
            (index + 1).to_string(),
            format!("{}-{}", visit.round, visit.cell),
            visit.ended.to_string(),
            details.join("; "),
        ]
    });
    grid(["visit", "name", "is", "disturbed by"], rows)
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
        vec![name, text(&value)]
    });
    grid(["name", "value"], rows)
}

fn grid<const N: usize>(header: [&str; N], rows: impl Iterator<Item = Vec<String>>) -> Grid {
    Grid {
        header: header.map(str::to_owned).to_vec(),
        rows: rows.collect(),
    }
}
