//! What surrounded the measurement, as rows and lines of text: time, machine, disturbances, settings.
//!
//! Invariant: the same rows feed every rendering, so they cannot disagree.

use super::{
    grid::{Columns, Grid},
    model::Report,
    names::text,
    visits::VisitReport,
};
use crate::{analyze::flat, guard::Check};
use serde::Serialize;

/// The machine and the engines, a line each.
pub(super) fn machine(report: &Report) -> Vec<String> {
    let machine = &report.environment.machine;
    let engines = report.environment.engines.iter();
    let gib = machine.memory_bytes as f64 / f64::from(1 << 30);
    let mut lines = vec![
        format!("{} × {}", machine.cpus, machine.cpu_model),
        format!("{gib:.1} GiB of memory"),
        format!("{}, {}", machine.kernel, machine.system),
        format!("engine-bench {}", machine.harness_version),
    ];
    lines.extend(engines.map(|engine| format!("engine: {engine}")));
    lines
}

/// What about the machine makes measurements worse: a row per check.
pub(super) fn preflight(report: &Report) -> Grid {
    let found = report.environment.preflight.as_ref();
    let score = found.map_or(0, |found| found.score);
    let points = |check: &Check| match check.points {
        0 => "fine".to_owned(),
        points => format!("-{points}"),
    };
    Columns::of(found.iter().flat_map(|found| &found.checks))
        .column("machine", |check| check.name.clone())
        .column("found", |check| check.found.clone())
        .column(&format!("points, {score} left of 100"), |of| points(of))
        .column("advice", |check| check.advice.clone())
        .grid()
}

/// Tables that a reset did not always bring back to as many rows.
pub(super) fn state_drift(report: &Report) -> Grid {
    Columns::of(&report.guard.state_drift)
        .column("engine", |drift| drift.engine.clone())
        .column("table that drifted", |drift| drift.table.clone())
        .column("fewest rows", |drift| drift.fewest)
        .column("most rows", |drift| drift.most)
        .grid()
}

/// What bringing datadirs back took: a row per engine and method.
pub(super) fn resets(report: &Report) -> Grid {
    let seconds = |seconds: f64| format!("{seconds:.2}");
    Columns::of(&report.resets)
        .column("engine", |resets| resets.engine.clone())
        .column("reset by", |resets| resets.method.clone())
        .column("resets", |resets| resets.resets)
        .column("median s", |resets| seconds(resets.median_s))
        .column("longest s", |resets| seconds(resets.max_s))
        .grid()
}

/// Visits that others disturbed: void ones, and those that count nevertheless.
pub(super) fn disturbed(report: &Report) -> Grid {
    let details = |visit: &VisitReport| {
        let found = visit.facts.contaminations.iter();
        let details: Vec<&str> = found.map(|found| found.detail.as_str()).collect();
        details.join("; ")
    };
    let visits = (1_u64..).zip(&report.visits);
    let disturbed = visits.filter(|(_, visit)| !visit.facts.contaminations.is_empty());
    Columns::of(disturbed)
        .column("visit", |(number, _)| *number)
        .column("name", |(_, of)| format!("{}-{}", of.round, of.cell))
        .column("is", |(_, visit)| visit.ended)
        .column("disturbed by", |(_, visit)| details(visit))
        .grid()
}

/// Every value of a part of the report under its full name.
pub(super) fn values(part: &impl Serialize) -> Grid {
    let set = flat(part).into_iter().filter(|(_, value)| !value.is_null());
    Columns::of(set)
        .column("name", |(name, _)| name.clone())
        .column("value", |(_, value)| text(value))
        .grid()
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
    let spent = spent.map(|(part, seconds)| format!("{part} {seconds:.1}"));
    let spent: Vec<String> = spent.collect();
    format!(
        "wall {:.1} s: {}; the engine was answering payloads {:.0} % of it",
        time.wall,
        spent.join(", "),
        100.0 * report.answering_fraction
    )
}
