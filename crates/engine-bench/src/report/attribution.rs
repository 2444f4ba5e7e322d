//! Where the time of a block went, and what of it moved between two cells.
//!
//! Invariant: a sentence names differences of means and no cause; whether a difference is real is the
//! comparison's matter. No figure is finer than the interval of the ratio it explains.

use super::{
    grid::{Columns, Grid, or_nothing},
    model::Report,
    names::{Names, listed},
};
use crate::{
    analyze::{
        self, Attribution, Comparison, GROUPS, Level, Outcome, PHASES, Row, Summary, rounded,
    },
    figures::{self, Place},
};
use serde::Serialize;
use std::collections::BTreeSet;

/// Changes of a phase below this part of a block's time are not worth a word.
const WORTH_A_WORD: f64 = 0.01;

/// Phases a sentence names at most.
const NAMED_PHASES: usize = 2;

/// Relative change of a count below which it is the same.
const SAME_COUNT: f64 = 0.05;

/// Relative difference between metrics and log above which a reader should know.
const LOG_TOLERANCE: f64 = 0.05;

/// What moved between two cells of a level.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChangeReport {
    /// Id of the cell that is explained.
    pub a: String,
    /// Id of the cell it is held against.
    pub b: String,
    /// Mean time of a block of `a` less that of `b`, in milliseconds.
    pub total_ms: f64,
    /// The same by phase, the largest first.
    pub moved: Vec<MovedReport>,
    /// The largest of them in words.
    pub text: String,
}

/// What a phase of `a` takes longer than one of `b`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MovedReport {
    /// The phase.
    pub key: &'static str,
    /// What people call it.
    #[serde(skip)]
    label: &'static str,
    /// Milliseconds a block.
    pub ms: f64,
}

/// Every cell of a level against its reference, over the rounds that both have.
pub(super) fn changes(outcome: &Outcome, report: &Report) -> Vec<ChangeReport> {
    let pairs = report.levels.iter().flat_map(|level| &level.versus);
    let change = |pair: &Comparison| {
        let both = |round: u64| {
            let has = |id| outcome.rounds(id).any(|(made, _)| made == round);
            has(&pair.a) && has(&pair.b)
        };
        let of = |id| analyze::attribute(outcome, id, both);
        Some(change(pair, &of(&pair.a)?, &of(&pair.b)?))
    };
    pairs.filter_map(change).collect()
}

fn change(pair: &Comparison, of_a: &Attribution, of_b: &Attribution) -> ChangeReport {
    let moved = of_a.phases.iter().map(|phase| MovedReport {
        key: phase.key,
        label: phase.label,
        ms: rounded(phase.ms_per_block - of_b.ms(phase.key).unwrap_or(0.0)),
    });
    let mut moved: Vec<MovedReport> = moved.collect();
    moved.sort_by(|x, y| y.ms.abs().total_cmp(&x.ms.abs()));
    let total_ms = rounded(of_a.total_ms() - of_b.total_ms());
    // What the ratio is known to within, as time of a block.
    let ends = pair.ratio.ends().filter(|ends| figures::is_telling(*ends));
    let place = match ends.map(|(low, high)| of_b.total_ms() * (1.0 / low - 1.0 / high) / 2.0) {
        Some(half) if half > 0.0 => Place::within(half),
        _ => Place::digits(total_ms, 2),
    };
    let mut parts = vec![moved_text(&moved, total_ms, of_b.total_ms(), place)];
    parts.extend(jobs_change(of_a, of_b));
    ChangeReport {
        a: pair.a.clone(),
        b: pair.b.clone(),
        total_ms,
        moved,
        text: parts.join("; "),
    }
}

/// How much longer a block takes, and in which phases.
fn moved_text(moved: &[MovedReport], total_ms: f64, whole_ms: f64, place: Place) -> String {
    let named = moved.iter();
    let named = named.filter(|moved| moved.ms.abs() >= WORTH_A_WORD * whole_ms);
    let named = named.filter(|moved| place.round(moved.ms) != 0.0);
    let named = named.take(NAMED_PHASES);
    let is_part =
        |ms: f64| ms * total_ms > 0.0 && place.round(ms).abs() <= place.round(total_ms).abs();
    let are_parts = named.clone().all(|moved| is_part(moved.ms));
    let part =
        |(index, MovedReport { label, ms, .. }): (usize, &MovedReport)| match (are_parts, index) {
            (true, 0) => format!("{} of it {label}", place.text(*ms)),
            (true, _) => format!("{} {label}", place.text(*ms)),
            (false, _) => format!("{} {label}", place.signed(*ms)),
        };
    let parts: Vec<String> = named.enumerate().map(part).collect();
    let total = format!("{} ms a block", place.signed(total_ms));
    match (parts.is_empty(), are_parts) {
        (true, _) => format!("{total}, and no phase moved"),
        (false, true) => format!("{total}, {}", parts.join(", ")),
        (false, false) => format!("{total}: {}", parts.join(", ")),
    }
}

fn jobs_change(a: &Attribution, b: &Attribution) -> Option<String> {
    let jobs = |of: &Attribution| {
        let found = of.counts.iter().find(|count| count.key == "jobs");
        found.map(|count| count.per_block)
    };
    let (a, b) = (jobs(a)?, jobs(b)?);
    let text = |count: f64| match count < 10.0 {
        true => format!("{count:.1}").trim_end_matches(".0").to_owned(),
        false => format!("{count:.0}"),
    };
    let is_other = (a - b).abs() > SAME_COUNT * a.max(b);
    is_other.then(|| format!("jobs per block {} → {}", text(b), text(a)))
}

/// Why the cells that differ most from the reference of their level do, a line for each level that has one.
pub(super) fn causes(report: &Report) -> Vec<String> {
    let far = |(pair, _): &(&Comparison, _)| pair.ratio.value.ln().abs();
    let farthest = |level| differing(report, level).max_by(|x, y| far(x).total_cmp(&far(y)));
    let causes = report.levels.iter().filter_map(farthest);
    causes.filter_map(|(_, line)| line).collect()
}

/// What moved in every cell that is shown to differ from the reference of its level.
pub(super) fn lines(report: &Report) -> Vec<String> {
    let all = report.levels.iter();
    let all = all.flat_map(|level| differing(report, level));
    all.filter_map(|(_, line)| line).collect()
}

/// Cells of a level that are shown to differ from its reference, each with what moved where that is known.
fn differing<'r>(
    report: &'r Report,
    level: &'r Level,
) -> impl Iterator<Item = (&'r Comparison, Option<String>)> {
    let names = Names::of(report);
    let line = move |pair: &Comparison| {
        let mut changes = report.attribution.iter();
        let change = changes.find(|change| change.a == pair.a && change.b == pair.b)?;
        let (a, b) = (names.label_of(&pair.a), names.label_of(&pair.b));
        Some(format!("{}, {a} against {b}: {}", level.load, change.text))
    };
    let pairs = level.versus.iter();
    let pairs = pairs.filter(|pair| pair.verdict.is_difference());
    pairs.map(move |pair| (pair, line(pair)))
}

/// Milliseconds a block: a row per cell, a column per phase that some cell spends time in.
pub(super) fn table(report: &Report) -> Grid {
    let cells = report.cells.iter();
    let told = cells.filter_map(|cell| Some((cell, cell.attribution.as_ref()?)));
    let told: Vec<(&Summary, &Attribution)> = told.collect();
    let text = |(cell, of): &(&Summary, &Attribution), ms: f64| {
        let measured = cell.execution_ggas_per_second;
        let half = measured.and_then(|found| found.ratio.relative_half());
        let place = half.map(|half| Place::within(half * of.total_ms()));
        let place = place.map(|place| place.or_finer(Place::digits(ms, 1)));
        place.unwrap_or_else(|| Place::digits(ms, 2)).text(ms)
    };
    let is_spent = |(key, ..): &&Row| {
        let mut all = told.iter().filter_map(|(_, of)| of.ms(key));
        all.any(|ms| ms.abs() >= 0.005)
    };
    let first = Columns::of(told.clone()).column("cell", |(cell, _)| cell.id.clone());
    let phases = PHASES
        .iter()
        .filter(is_spent)
        .fold(first, |table, (key, ..)| {
            table.column(&key.replace('_', " "), |row| {
                or_nothing(row.1.ms(key).map(|ms| text(row, ms)))
            })
        });
    phases
        .column("total", |row| text(row, row.1.total_ms()))
        .column("workers idle", |(_, of)| {
            or_nothing(of.workers_idle.map(|idle| format!("{:.0} %", idle * 100.0)))
        })
        .column("source", |(_, of)| of.source.to_owned())
        .grid()
}

/// Milliseconds a block of each group of phases, in their order; `None` where the engine tells nothing of it.
pub(super) fn grouped(of: &Attribution) -> [Option<f64>; GROUPS.len()] {
    GROUPS.map(|group| {
        let of_group = PHASES.iter().filter(|(_, own, ..)| *own == group);
        let told = of_group.filter_map(|(key, ..)| of.ms(key));
        told.reduce(|all, part| all + part)
    })
}

/// Cells whose metrics and log disagree.
pub(super) fn doubted(names: &Names<'_>) -> Option<String> {
    let differing = names.report.cells.iter().filter_map(|cell| {
        let difference = cell.attribution.as_ref()?.log_difference?;
        (difference > LOG_TOLERANCE).then(|| (names.label(cell), difference))
    });
    let (labels, differences): (BTreeSet<String>, Vec<f64>) = differing.unzip();
    let most = differences.into_iter().reduce(f64::max)?;
    Some(format!(
        "metrics and log of {} differ by up to {:.0} %: where their time goes is in doubt",
        listed(labels),
        100.0 * most
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyze::{Count, Phase, Ratio, Verdict};

    fn attribution(root_ms: f64, rest_ms: f64, jobs: f64) -> Attribution {
        let phase = |key, label, ms_per_block| Phase {
            key,
            label,
            ms_per_block,
        };
        Attribution {
            source: "metrics",
            blocks: 10,
            phases: vec![
                phase("engine_rest", "in the rest", rest_ms),
                phase("root_wait", "waiting for the state root", root_ms),
            ],
            beside: vec![],
            counts: vec![Count {
                key: "jobs",
                label: "jobs",
                per_block: jobs,
            }],
            workers_idle: None,
            log_difference: None,
        }
    }

    #[test]
    fn the_phase_that_moved_is_named_first_and_no_finer_than_the_ratio() {
        let pair = |ends: Option<(f64, f64)>| Comparison {
            ratio: Ratio {
                value: 0.7,
                low: ends.map(|(low, _)| low),
                high: ends.map(|(_, high)| high),
            },
            ..crate::analyze::made_up::comparison(Verdict::Slower)
        };
        let fast = attribution(1.0, 19.7, 7.0);
        let root = "waiting for the state root";
        for ((root_ms, rest_ms, jobs), ends, expected) in [
            (
                (9.37, 20.12, 215.2),
                Some((0.67, 0.74)),
                format!(
                    "+8.8 ms a block, 8.4 of it {root}, 0.4 in the rest; jobs per block 7 → 215"
                ),
            ),
            (
                (9.37, 20.12, 7.1),
                Some((0.5, 0.9)),
                format!("+9 ms a block, 8 of it {root}"),
            ),
            (
                (9.37, 19.6, 7.1),
                Some((0.5, 0.9)),
                format!("+8 ms a block, 8 of it {root}"),
            ),
            (
                (6.04, 18.2, 7.0),
                Some((0.83, 0.87)),
                format!("+3.5 ms a block: +5.0 {root}, −1.5 in the rest"),
            ),
            (
                (1.11, 19.6, 7.0),
                None,
                "+0.010 ms a block, and no phase moved".to_owned(),
            ),
        ] {
            let slow = attribution(root_ms, rest_ms, jobs);
            let found = change(&pair(ends), &slow, &fast);
            assert_eq!(found.text, expected);
            assert_eq!(found.moved[0].key, "root_wait");
        }
    }
}
