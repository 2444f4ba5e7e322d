//! What a reader should doubt before believing the table.
//!
//! Invariant: every warning names its cell or level and says what to do or to think.

use super::{
    attribution,
    grid::UNCHECKED_MARK,
    judged::AdaptiveReport,
    model::{CellReport, Report},
};
use crate::analyze::{Comparison, Control, End, Level};
use bench_stats::rounds::PILOT_ROUNDS;

/// Every warning of a report, a sentence each.
pub(super) fn of(report: &Report) -> Vec<String> {
    let mut warnings = Vec::new();
    if !report.complete {
        warnings.push(
            "incomplete: not every visit was made, or not everything is as it was measured"
                .to_owned(),
        );
    }
    warnings.extend(report.guard.warnings());
    for level in &report.levels {
        of_level(level, &mut warnings);
    }
    warnings.extend(unchecked(report));
    warnings.extend(report.cells.iter().filter_map(unsteady));
    warnings.extend(report.noise_floor.controls.iter().filter_map(differing));
    warnings.extend(report.comparisons.iter().filter_map(unexplained));
    for pair in report.comparisons.iter().filter(|pair| pair.is_doubted()) {
        warnings.push(format!(
            "{} and {}: resampling rounds and blocks does not confirm the difference; repeat with \
             more rounds",
            pair.a, pair.b
        ));
    }
    warnings.extend(attribution::warnings(report));
    warnings.extend(unresolved(report));
    warnings
}

fn of_level(level: &Level, warnings: &mut Vec<String>) {
    let gas = &level.load;
    if level.inert {
        warnings.push(format!(
            "{gas}: the chunk size changed nothing that the engine counts, so cells that differ in it alone \
             did the same work"
        ));
    }
    if let Some(lost) = &level.lost_baseline {
        warnings.push(format!(
            "{gas}: the baseline {lost} gave no number, so the highest stands in for it"
        ));
    }
    for edge in &level.edges {
        let end = match edge.end {
            End::Smallest => "smallest",
            End::Largest => "largest",
        };
        warnings.push(format!(
            "{gas}: {} is the {end} value of {} tried, and among the best: extend the list",
            edge.value, edge.axis
        ));
    }
    if !level.unsteady.is_empty() {
        warnings.push(format!(
            "{gas}: {} varied more than the other cells and is judged by its own noise",
            level.unsteady.join(", ")
        ));
    }
}

/// A difference where none was to be expected.
fn unexplained(pair: &Comparison) -> Option<String> {
    pair.is_unexplained().then(|| {
        format!(
            "{} is {} than {}, although they differ in the chunk size alone and the engine did the same work in \
             both: something else moves the numbers",
            pair.a, pair.verdict, pair.b
        )
    })
}

/// Cells whose engine was told not to check state roots.
fn unchecked(report: &Report) -> Option<String> {
    let cells = report.cells.iter().filter(|cell| !cell.root_checked);
    let ids: Vec<&str> = cells.map(|cell| cell.id.as_str()).collect();
    (!ids.is_empty()).then(|| {
        format!(
            "root not checked in {} (marked {UNCHECKED_MARK}): without the state root a block is not \
             validated, so these figures say what the rest costs and nothing about an engine in use",
            ids.join(", ")
        )
    })
}

/// A pass that got faster or slower while it was measured.
fn unsteady(cell: &CellReport) -> Option<String> {
    let found = cell.steady_state.filter(|found| !found.steady)?;
    let (percent, change) = (100.0 * found.relative.abs(), found.change_at);
    let word = if found.relative < 0.0 { "less" } else { "more" };
    Some(format!(
        "{}: no steady state, payloads took {percent:.1} % {word} time for their gas after the first \
         {change}: the pass was still warming up, or its payloads differ",
        cell.id
    ))
}

/// An A/A control that differs from its original although nothing differs.
fn differing(control: &Control) -> Option<String> {
    let (low, high) = (control.ratio.low?, control.ratio.high?);
    (low > 1.0 || high < 1.0).then(|| {
        format!(
            "{} and {} are the same cell and came out {:.1} % apart: something else than the \
             settings moves the numbers",
            control.of,
            control.id,
            100.0 * (control.ratio.value - 1.0).abs()
        )
    })
}

/// What a sweep that ended before its pilot did has left out.
fn ended_in_pilot(report: &Report, adaptive: &AdaptiveReport, level: &Level) -> String {
    let cells = report.cells.iter().filter(|cell| level.is_of(cell));
    let never: Vec<&str> = cells
        .filter(|cell| cell.visits + cell.failed_visits == 0)
        .map(|cell| cell.id.as_str())
        .collect();
    let budget = adaptive.budget_s.filter(|_| report.complete);
    let why = budget.map_or(String::new(), |s| {
        format!(", for its budget of {s} s was spent")
    });
    let what = match never.as_slice() {
        [] => String::new(),
        never => format!("; never measured: {}", never.join(", ")),
    };
    let round = adaptive.rounds;
    format!(
        "{}: the sweep ended in its pilot, in round {round} of {PILOT_ROUNDS}{why}{what}",
        level.load
    )
}

/// Levels whose intervals stayed wider than was asked for.
fn unresolved(report: &Report) -> Vec<String> {
    let Some(adaptive) = &report.adaptive else {
        return Vec::new();
    };
    let reached = |level: &Level| {
        adaptive.decisions.iter().rev().find_map(|decision| {
            let mut levels = decision.levels.iter();
            let found = levels.find(|found| found.load == level.load)?;
            Some((decision.after_round, found))
        })
    };
    let mut warnings = Vec::new();
    for level in &report.levels {
        match reached(level) {
            Some((round, found)) if level.best.len() > 1 && found.given_rounds == 0 => {
                let half = found.precision.filter(|half| *half > adaptive.precision);
                let more = found.wanted_rounds.saturating_sub(round);
                let way = match more {
                    0 => {
                        "of what was still open, no round was likely to decide anything; --rounds \
                          makes as many as you give"
                            .to_owned()
                    }
                    _ => format!(
                        "which takes {more} more rounds ({:.0} min) where visits vary as they did; \
                         give a longer --budget",
                        (more as f64 * found.round_s / 60.0).ceil()
                    ),
                };
                warnings.extend(half.map(|half| {
                    format!(
                        "{}: precision {:.2} %, not to the {:.2} % asked for, {way}",
                        level.load,
                        100.0 * half,
                        100.0 * adaptive.precision,
                    )
                }));
            }
            None if adaptive.rounds < PILOT_ROUNDS => {
                warnings.push(ended_in_pilot(report, adaptive, level));
            }
            _ => {}
        }
    }
    warnings
}
