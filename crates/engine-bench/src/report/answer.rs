//! The answer first: what was swept, what came out of each gas level, and the grid.
//!
//! Invariant: words follow from verdicts, and no figure is finer than its interval. A level without verdicts
//! says why it has none.

use super::{
    grid::{Columns, FALLBACK_MARK, Grid, NOTHING, UNCHECKED_MARK, or_nothing},
    model::Report,
    names::{Names, listed},
};
use crate::{
    analyze::{Comparison, Level, Ratio, Summary, Verdict, rounded},
    figures::{self, Place},
    guard::VIRTUAL_MACHINE,
    sweep::{BaseSource, CHUNK_POLICY_FLAG, EngineSpec, PayloadSource},
};
use jiff::Timestamp;
use std::collections::BTreeSet;

/// Gas levels that fit beside each other into a terminal.
const LEVELS_BESIDE: usize = 2;

/// Digits of the sum of a program that tell builds from each other.
const SUM_DIGITS: usize = 8;

/// What came out of every gas level, a line each.
pub(super) fn lines(report: &Report) -> Vec<String> {
    let names = Names::of(report);
    let line = |level: &Level| format!("{}: {}", level.load, answer(&names, level));
    report.levels.iter().map(line).collect()
}

fn answer(names: &Names<'_>, level: &Level) -> String {
    let cells = names.report.cells_of(level);
    let (measured, without): (Vec<&Summary>, Vec<&Summary>) =
        cells.partition(|cell| cell.execution_ggas_per_second.is_some());
    let mut parts = match measured.as_slice() {
        [] => vec!["nothing was measured".to_owned()],
        [cell] => vec![format!("{} Ggas/s", throughput(cell))],
        _ if level.versus.iter().any(|pair| pair.verdict.is_decided()) => verdicts(names, level),
        _ => vec![undecided(names, level, &measured)],
    };
    let (failed, never): (Vec<_>, Vec<_>) = without.iter().partition(|cell| cell.failed_visits > 0);
    for (cells, word) in [(failed, "failed"), (never, "not measured")] {
        if !cells.is_empty() {
            let labels = listed(cells.into_iter().map(|cell| names.label(cell)));
            parts.push(format!("{labels} {word}"));
        }
    }
    parts.join("; ")
}

/// Why there is no verdict, and what is highest all the same.
fn undecided(names: &Names<'_>, level: &Level, measured: &[&Summary]) -> String {
    let rounds = measured.iter().map(|cell| cell.visits).max().unwrap_or(0);
    let verdict = level.versus.first().map(|pair| pair.verdict);
    let why = match (rounds, verdict) {
        (..=1, _) => "one round: no verdicts".to_owned(),
        (_, Some(Verdict::NoNoiseFloor)) => "noise floor unknown: no verdicts".to_owned(),
        _ => format!("too few common rounds ({rounds}): no verdicts"),
    };
    let highest = level.best.first().and_then(|id| names.report.cell(id));
    highest.map_or(why.clone(), |cell| {
        let (label, throughput) = (names.label(cell), throughput(cell));
        format!("{why}; {label} highest, {throughput} Ggas/s")
    })
}

/// The best set, then what is beaten and by how much.
fn verdicts(names: &Names<'_>, level: &Level) -> Vec<String> {
    let report = names.report;
    // In the order of the plan, which people know.
    let labels = |ids: &[&String]| {
        let cells = report.cells.iter().filter(|cell| ids.contains(&&cell.id));
        listed(cells.map(|cell| names.label(cell)))
    };
    let is_open = |id: &&String| {
        let pair = level.versus.iter().find(|pair| pair.a == **id);
        pair.is_some_and(|pair| !pair.verdict.is_decided())
    };
    let (open, best): (Vec<&String>, Vec<&String>) = level.best.iter().partition(is_open);
    let named = labels(&best);
    let differs = |pair: &Comparison| {
        pair.verdict.is_difference() && level.best.contains(&pair.a) && level.best.contains(&pair.b)
    };
    let mut parts = vec![match best.len() {
        1 if open.is_empty() => format!("{named} best"),
        1 => format!("{named} highest"),
        _ if report.comparisons.iter().any(differs) => {
            let effect = rounded(100.0 * report.configuration.min_effect);
            format!("{named} best: none is shown to be more than {effect} % slower")
        }
        _ => format!("{named} not separable"),
    }];
    if !open.is_empty() {
        parts.push(format!("{} in too few rounds to tell", labels(&open)));
    }
    parts.extend(beaten(names, level));
    parts
}

/// Cells out of the best set, with how much slower than the reference they are where that one is of it.
fn beaten(names: &Names<'_>, level: &Level) -> Vec<String> {
    let is_best = |id: &String| level.best.contains(id);
    let mut known: Vec<&Comparison> = level.versus.iter().collect();
    known.retain(|pair| pair.verdict == Verdict::Slower && !is_best(&pair.a));
    if !level.reference.as_ref().is_some_and(is_best) {
        known.clear();
    }
    let mut parts = Vec::new();
    if !known.is_empty() {
        let words = ["slower by"].into_iter().chain(std::iter::repeat("by"));
        parts.push(listed(known.iter().zip(words).map(|(pair, by)| {
            let Percent { place, value, .. } = Percent::of(&pair.ratio);
            format!("{} {by} {} %", names.label_of(&pair.a), place.text(-value))
        })));
    }
    let mut others: Vec<&String> = level.beaten.iter().collect();
    others.retain(|id| known.iter().all(|pair| pair.a != **id));
    if !others.is_empty() {
        let others = names.listed(others);
        parts.push(format!("{others} slower than another of the best"));
    }
    parts
}

/// The execution throughput of a cell: `0.483 ±0.007`.
pub(super) fn throughput(cell: &Summary) -> String {
    match &cell.execution_ggas_per_second {
        Some(found) => {
            let marks = [
                (!cell.root_checked, UNCHECKED_MARK),
                (cell.fallbacks > 0, FALLBACK_MARK),
            ];
            let marks = marks.iter().filter(|(applies, _)| *applies);
            found.ratio.text() + &marks.map(|(_, mark)| *mark).collect::<String>()
        }
        None if cell.failed_visits > 0 => "failed".to_owned(),
        None => NOTHING.to_owned(),
    }
}

/// A ratio as a difference in percent.
pub(super) struct Percent {
    place: Place,
    pub(super) value: f64,
    /// Of its interval, where that is worth showing.
    pub(super) ends: Option<(f64, f64)>,
}

impl Percent {
    pub(super) fn of(ratio: &Ratio) -> Self {
        let percent = |ratio: f64| 100.0 * (ratio - 1.0);
        let ends = ratio.ends().filter(|ends| figures::is_telling(*ends));
        let ends = ends.map(|(low, high)| (percent(low), percent(high)));
        Self {
            // Without an interval whole percents are as fine as two digits of a throughput.
            place: ends.map_or(Place::digits(100.0, 3), |ends| Place::of(0.0, Some(ends))),
            value: percent(ratio.value),
            ends,
        }
    }
}

/// Value and interval: `−30 % [−33, −26]`.
pub(super) fn difference(ratio: &Ratio) -> String {
    let Percent { place, value, ends } = Percent::of(ratio);
    let value = place.signed(value);
    ends.map_or(format!("{value} %"), |(low, high)| {
        format!("{value} % [{}, {}]", place.signed(low), place.signed(high))
    })
}

/// What a verdict looks like in the grid.
fn mark(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Faster => "▲",
        Verdict::Slower => "▼",
        Verdict::NotSeparable => "~",
        _ => "?",
    }
}

/// Throughput of every cell and its ratio to the reference: a row per setting of the knobs, the highest of the
/// first level on top; two columns per gas level, and as many grids as a terminal needs for all levels.
pub(super) fn grids(report: &Report) -> Vec<Grid> {
    let names = Names::of(report);
    let mut settings: Vec<Vec<String>> = Vec::new();
    let ranked = report.levels.iter();
    let ranked = ranked.flat_map(|level| level.best.iter().chain(&level.beaten));
    let ranked = ranked.filter_map(|id| report.cell(id));
    for cell in ranked.chain(&report.cells) {
        let values = names.values(cell);
        if !settings.contains(&values) {
            settings.push(values);
        }
    }
    let grid = |levels: &[Level]| {
        let columns = names.columns();
        let columns = columns.iter().enumerate();
        let settings = columns.fold(Columns::of(&settings), |table, (index, name)| {
            table.column(name, |values| values[index].clone())
        });
        let of_level = |table, level| of_level(&names, level, table);
        levels.iter().fold(settings, of_level).grid()
    };
    report.levels.chunks(LEVELS_BESIDE).map(grid).collect()
}

/// Columns of a level: throughputs, and ratios to its reference where there are others.
fn of_level<'s>(
    names: &Names<'_>,
    level: &Level,
    table: Columns<&'s Vec<String>>,
) -> Columns<&'s Vec<String>> {
    let cell = |values: &Vec<String>| names.find(level, values);
    let throughputs = table.column(&format!("{} Ggas/s", level.load), |values| {
        or_nothing(cell(values).map(throughput))
    });
    let ratio = |cell: &Summary| {
        if level.reference.as_ref() == Some(&cell.id) {
            return Some("reference".to_owned());
        }
        let pair = level.versus.iter().find(|pair| pair.a == cell.id)?;
        let difference = difference(&pair.ratio);
        Some(format!("{difference} {}", mark(pair.verdict)))
    };
    match &level.reference {
        Some(id) if !level.versus.is_empty() => {
            let name = format!("to {}", names.label_of(id));
            throughputs.column(&name, |values| {
                cell(values).and_then(ratio).unwrap_or_default()
            })
        }
        _ => throughputs,
    }
}

/// What was swept, part by part: the first line of every report.
pub(super) fn swept(report: &Report) -> Vec<String> {
    let mut parts = vec![Names::of(report).question()];
    parts.extend(engines(report));
    parts.push(workload(report));
    parts.push(size(report));
    parts.push(figures::duration(report.time_s.wall));
    let machine = &report.environment.machine;
    let checks = report.environment.preflight.iter();
    let mut checks = checks.flat_map(|found| &found.checks);
    let is_virtual = checks.any(|check| check.name == VIRTUAL_MACHINE && check.points > 0);
    let kind = if is_virtual { ", VM" } else { "" };
    parts.push(format!("{} × {}{kind}", machine.cpus, machine.cpu_model));
    parts.push(date(report.begun_unix_ms));
    parts.retain(|part| !part.is_empty());
    parts
}

/// `2026-02-16 08:30 UTC`; nothing when no visit was begun.
fn date(unix_ms: u64) -> String {
    let at = i64::try_from(unix_ms).ok().filter(|ms| *ms > 0);
    let at = at.and_then(|ms| Timestamp::from_millisecond(ms).ok());
    at.map_or_else(String::new, |at| at.strftime("%F %H:%M UTC").to_string())
}

/// Engines as they call themselves, and the beginnings of their programs' sums.
fn engines(report: &Report) -> Vec<String> {
    let settings = &report.configuration;
    let manifest = report.environment.manifest.as_ref();
    let engine = |(index, engine): (usize, &EngineSpec)| {
        let version = report.environment.engines.get(index);
        let version = version.map_or(engine.name.as_str(), String::as_str);
        let name = match settings.engines.len() {
            1 => String::new(),
            _ => format!("{} = ", engine.name),
        };
        let mut sums = manifest.iter().flat_map(|manifest| &manifest.engines);
        let sum = sums.find(|sum| sum.name == engine.name);
        let sum = sum.and_then(|sum| sum.sha256.get(..SUM_DIGITS));
        let build = sum.map_or(String::new(), |sum| format!(" (build {sum})"));
        format!("{name}{version}{build}")
    };
    settings.engines.iter().enumerate().map(engine).collect()
}

/// When engines cut batches, what else every cell got, and what was replayed on which state.
fn workload(report: &Report) -> String {
    let settings = &report.configuration;
    let mut parts: Vec<String> = policies(report).into_iter().collect();
    let set = settings.set.iter();
    let set = set.filter(|set| set.flag != CHUNK_POLICY_FLAG);
    parts.extend(set.map(|set| set.to_string()));
    parts.push(match (&settings.payloads, settings.mixes().as_slice()) {
        (PayloadSource::Folder { path }, _) => format!("payloads of {}", path.display()),
        (_, [mix]) => format!("mix {mix}"),
        _ => String::new(),
    });
    parts.push(match &settings.base {
        BaseSource::Generated { profile } => format!("{profile} state"),
        BaseSource::Datadir { path, .. } => format!("state of {}", path.display()),
    });
    parts.retain(|part| !part.is_empty());
    parts.join(", ")
}

/// The chunk policy of the engines that have one, where it is no axis: as set, or the default that they name.
fn policies(report: &Report) -> Option<String> {
    let settings = &report.configuration;
    let mut axes = settings.axes.iter();
    if axes.any(|axis| axis.flag == CHUNK_POLICY_FLAG) {
        return None;
    }
    let of = settings.engines.iter().filter_map(|engine| {
        let set = report.set_of(engine, CHUNK_POLICY_FLAG).cloned();
        let value = set.or_else(|| report.default_of(&engine.name, CHUNK_POLICY_FLAG))?;
        Some((engine.name.as_str(), value))
    });
    let of: Vec<(&str, String)> = of.collect();
    let (_, first) = of.first()?;
    if of.iter().all(|(_, value)| value == first) {
        return Some(format!("policy {first}"));
    }
    let each = of.iter().map(|(name, value)| format!("{value} ({name})"));
    Some(format!("policy {}", each.collect::<Vec<_>>().join(", ")))
}

/// `8 cells × 3 rounds of 20 payloads + 2 A/A`.
fn size(report: &Report) -> String {
    let cells = &report.cells;
    let visits = cells.iter().map(|cell| cell.visits).max().unwrap_or(0);
    let count = |count: u64, what: &str| match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    };
    let (cell_count, rounds) = (count(cells.len() as u64, "cell"), count(visits, "round"));
    let up_to = report.adaptive.as_ref().map_or("", |_| "up to ");
    let interleaved = match report.configuration.interleave {
        true => "interleaved ",
        false => "",
    };
    let counts: BTreeSet<u64> = cells.iter().map(|cell| cell.payloads).collect();
    let counts = counts.iter().filter(|count| **count > 0);
    let payloads = match counts.map(u64::to_string).collect::<Vec<_>>().join(" or ") {
        counts if counts.is_empty() => counts,
        counts => format!(" of {counts} payloads"),
    };
    let controls = match report.noise_floor.controls.len() {
        0 => String::new(),
        controls => format!(" + {controls} A/A"),
    };
    format!("{cell_count} × {up_to}{interleaved}{rounds}{payloads}{controls}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        analyze::{
            Outcome,
            made_up::{MadeUp, sweep},
        },
        sweep::{CHUNK_SIZE_FLAG, Setting},
    };

    /// A cell with a chunk size and these Ggas/s in each round.
    fn cell(chunk: &str, ggas: &[f64]) -> MadeUp {
        MadeUp::chunk(chunk, &[]).ggas(ggas)
    }

    /// Three rounds around a throughput, a hundredth apart, in one of three orders.
    fn about(ggas: f64, turn: usize) -> [f64; 3] {
        let mut parts = [1.0, 1.01, 0.99];
        parts.rotate_left(turn);
        parts.map(|part| ggas * part)
    }

    #[test]
    fn every_level_has_an_answer() {
        let (highest, alike) = (about(0.483, 0), about(0.481, 1));
        let [best, second] = [cell("240", &highest), cell("60", &alike)];
        let (lower, lowest) = (about(0.425, 2), about(0.338, 1));
        let [third, last] = [cell("15", &lower), cell("5", &lowest)];
        let both = |other: &str, ggas: &[f64]| {
            MadeUp::new(&[(CHUNK_SIZE_FLAG, "240"), ("env:A", other)], &[]).ggas(ggas)
        };
        for (cells, said) in [
            (
                vec![last, third.clone(), second, best.clone()],
                "60, 240 not separable; 15 slower by 12.0 %, 5 by 30.0 %",
            ),
            (vec![best.clone()], "0.483 ±0.012 Ggas/s"),
            (
                vec![cell("240", &highest[..1]), cell("15", &lower[..1])],
                "one round: no verdicts; 240 highest, 0.48 Ggas/s",
            ),
            (
                vec![best.clone(), third.clone(), cell("5", &lowest[..1])],
                "240 highest; 5 in too few rounds to tell; 15 slower by 12 %",
            ),
            (
                vec![best, third, cell("5", &[])],
                "240 best; 15 slower by 12 %; 5 not measured",
            ),
            (
                vec![both("1", &highest), both("2", &alike)],
                "240/1, 240/2 not separable",
            ),
            (vec![cell("5", &[])], "nothing was measured; 5 not measured"),
        ] {
            let found = lines(&Report::of(&sweep(&cells)));
            assert_eq!(found, [format!("10M: {said}")]);
        }
    }

    #[test]
    fn the_highest_stands_first_in_the_grid_and_levels_that_do_not_fit_below() {
        let cells = [cell("5", &about(0.338, 1)), cell("240", &about(0.483, 0))];
        let mut report = Report::of(&sweep(&cells));
        let grid = &grids(&report)[0];
        assert_eq!(grid.header, ["chunk size", "10M Ggas/s", "to 240"]);
        assert_eq!(grid.rows[0], ["240", "0.483 ±0.012", "reference"]);
        assert_eq!(grid.rows[1], ["5", "0.338 ±0.008", "−30 % [−33, −27] ▼"]);
        report.levels = vec![report.levels[0].clone(); 5];
        let columns = grids(&report)
            .iter()
            .map(|grid| grid.header.len())
            .collect::<Vec<_>>();
        let why = "a column of settings, and two for each level";
        assert_eq!(columns, [5, 5, 3], "{why}");
    }

    #[test]
    fn the_first_line_says_what_was_swept() {
        let mut outcome = sweep(&[cell("5", &[0.3]), cell("240", &[0.4])]);
        let said = |outcome: &Outcome| swept(&Report::of(outcome));
        assert_eq!(
            said(&outcome),
            [
                "chunk size",
                "bench-reth/v0.1.0 (build 50d858e0)",
                "policy always, mix mainnet, small state",
                "2 cells × 1 round of 4 payloads",
                "24s",
                "2 × Example CPU",
                "2026-02-16 08:30 UTC",
            ]
        );
        let policy = |value: &str| Setting {
            flag: CHUNK_POLICY_FLAG.into(),
            value: value.into(),
        };
        outcome.plan.settings.engines[0].set = vec![policy("reth-2.5")];
        let second = &said(&outcome)[2];
        assert_eq!(second, "policy reth-2.5, mix mainnet, small state");
        outcome.plan.settings.set = vec![policy("reth-1.11")];
        let second = &said(&outcome)[2];
        assert_eq!(second, "policy reth-1.11, mix mainnet, small state");
    }
}
