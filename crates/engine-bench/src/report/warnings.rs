//! What a reader should doubt before believing the table.
//!
//! Invariant: every warning names its cell or level and says what to do or to think.

use super::{
    attribution,
    grid::UNCHECKED_MARK,
    judged::{AdaptiveReport, ControlReport, LevelReport},
    model::{CellReport, Report},
};
use crate::analyze::Comparisons;
use bench_stats::rounds::PILOT_ROUNDS;

/// Every warning of a report, a sentence each.
pub(super) fn of(report: &Report, comparisons: &Comparisons) -> Vec<String> {
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
    for pair in comparisons.pairs.iter().filter(|pair| pair.is_doubted()) {
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

fn of_level(level: &LevelReport, warnings: &mut Vec<String>) {
    let gas = &level.load;
    if level.inert {
        warnings.push(format!("{gas}: the knob was inert, differences are noise"));
    }
    if level.grid_edge {
        warnings.push(format!(
            "{gas}: the best is at the edge of the values tried; extend the list"
        ));
    }
    if !level.unsteady.is_empty() {
        warnings.push(format!(
            "{gas}: {} varied more than the other cells and is judged by its own noise",
            level.unsteady.join(", ")
        ));
    }
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
fn differing(control: &ControlReport) -> Option<String> {
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
fn ended_in_pilot(report: &Report, adaptive: &AdaptiveReport, level: &LevelReport) -> String {
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
    let reached = |level: &LevelReport| {
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
