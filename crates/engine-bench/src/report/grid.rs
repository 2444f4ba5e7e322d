//! The table everyone looks at first, as rows of text: knobs down, gas levels across.
//!
//! Invariant: the same rows feed the terminal and the Markdown report, so they cannot disagree.

use super::{
    judged::{
        LevelNoiseReport, LevelReport, RankReport, RatioReport, UndecidedReport, VersusReport,
    },
    model::{CellReport, Report},
};
use crate::{
    record::Failure,
    sweep::{CHUNK_SIZE_FLAG, Gas},
};
use serde_json::{Map, Value};

/// Marks the best cells of a level.
const BEST_MARK: &str = "*";

/// What a cell without a number shows.
const FAILED: &str = "failed";

/// What a value that does not exist shows.
pub(super) const NOTHING: &str = "-";

/// How many times its lower end the upper end of an interval may be for both to be shown.
const MOST_TOLD: f64 = 100.0;

/// Most cells that a line names.
const MOST_NAMED: usize = 8;

/// Marks figures of an engine that did not compare state roots.
pub(super) const UNCHECKED_MARK: &str = "†";

/// A table as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Grid {
    pub(super) header: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
}

/// Execution throughput: a row per setting of the knobs, a column per gas level, then the average
/// over levels and its rank.
pub(super) fn throughput(report: &Report) -> Grid {
    let several_engines = report.configuration.engines.len() > 1;
    let mut header: Vec<String> = Vec::new();
    if several_engines {
        header.push("engine".to_owned());
    }
    header.extend(
        report
            .configuration
            .axes
            .iter()
            .map(|axis| short(&axis.flag).to_owned()),
    );
    if header.is_empty() {
        header.push("engine".to_owned());
    }
    let knobs = header.len();
    header.extend(gas_levels(report).iter().map(Gas::to_string));
    header.extend(["average".to_owned(), "rank".to_owned()]);
    let rows = report
        .ranking
        .iter()
        .map(|ranked| row(report, ranked, several_engines, knobs));
    let rows = rows.chain([payloads_row(report, knobs)]).collect();
    Grid { header, rows }
}

fn row(report: &Report, ranked: &RankReport, several_engines: bool, knobs: usize) -> Vec<String> {
    let engine = ranked.axes.get("engine").map(text);
    let flags = report.configuration.axes.iter();
    let mut row: Vec<String> = flags
        .map(|axis| ranked.axes.get(&axis.flag).map_or(NOTHING.into(), text))
        .collect();
    if several_engines || knobs > row.len() {
        row.insert(0, engine.unwrap_or_default());
    }
    row.extend(gas_levels(report).into_iter().map(|gas| {
        cell_at(report, &ranked.axes, gas).map_or(NOTHING.into(), |cell| value(report, cell))
    }));
    row.push(
        ranked
            .average_ggas_per_second
            .map_or(NOTHING.into(), |value| format!("{value:.3}")),
    );
    row.push(ranked.rank.map_or(NOTHING.into(), |rank| rank.to_string()));
    row
}

/// How many payloads stand behind the figures of each level.
fn payloads_row(report: &Report, knobs: usize) -> Vec<String> {
    let mut row = vec!["payloads".to_owned()];
    row.resize(knobs, String::new());
    for gas in gas_levels(report) {
        let of_level = |cell: &&CellReport| cell.axes.get("gas") == Some(&gas.0.into());
        let payloads = report
            .cells
            .iter()
            .filter(of_level)
            .map(|cell| cell.payloads)
            .max();
        row.push(payloads.unwrap_or(0).to_string());
    }
    row.extend([String::new(), String::new()]);
    row
}

pub(super) fn cell_at<'a>(
    report: &'a Report,
    knobs: &Map<String, Value>,
    gas: Gas,
) -> Option<&'a CellReport> {
    report.cells.iter().find(|cell| {
        cell.axes.get("gas") == Some(&gas.0.into())
            && knobs
                .iter()
                .all(|(name, value)| cell.axes.get(name) == Some(value))
    })
}

/// The gas levels, each once: there is a level for each mix of transactions.
pub(super) fn gas_levels(report: &Report) -> Vec<Gas> {
    let mut levels: Vec<Gas> = Vec::new();
    for level in &report.levels {
        if !levels.contains(&level.load.gas) {
            levels.push(level.load.gas);
        }
    }
    levels
}

fn value(report: &Report, cell: &CellReport) -> String {
    let Some(estimate) = &cell.execution_ggas_per_second else {
        return if cell.failed_visits > 0 {
            FAILED
        } else {
            NOTHING
        }
        .to_owned();
    };
    let mut levels = report.levels.iter();
    let mut mark = String::new();
    if levels.any(|level| level.best.contains(&cell.id)) {
        mark += BEST_MARK;
    }
    if !cell.root_checked {
        mark += UNCHECKED_MARK;
    }
    let ends = estimate.low.zip(estimate.high);
    value_text(estimate.value, ends) + &mark
}

/// How much of the evidence about a knob is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Evidence {
    /// The figure it begins with, which keeps a row as wide as a terminal.
    Figure,
    /// All of it.
    Full,
}

/// Latencies and evidence: a row per cell.
pub(super) fn details(report: &Report, evidence: Evidence) -> Grid {
    let header = [
        "cell",
        "newPayload",
        "wall clock",
        "engine",
        "p50 ms",
        "p90 ms",
        "p99 ms",
        "max ms",
        "knob",
    ];
    let rows = report.cells.iter().map(|cell| {
        let ggas = |estimate: &Option<super::model::EstimateReport>| {
            estimate
                .as_ref()
                .map_or(NOTHING.into(), |estimate| format!("{:.3}", estimate.value))
        };
        let ms = |us: Option<f64>| us.map_or(NOTHING.into(), |us| format!("{:.2}", us / 1e3));
        let latency = cell.latency_us;
        vec![
            cell.id.clone(),
            ggas(&cell.new_payload_ggas_per_second),
            ggas(&cell.wall_clock_ggas_per_second),
            ggas(&cell.engine_ggas_per_second),
            ms(latency.map(|latency| latency.p50)),
            ms(latency.map(|latency| latency.p90)),
            ms(latency.map(|latency| latency.p99)),
            ms(latency.map(|latency| latency.max)),
            knob(cell, evidence),
        ]
    });
    Grid {
        header: header.map(str::to_owned).to_vec(),
        rows: rows.collect(),
    }
}

fn knob(cell: &CellReport, evidence: Evidence) -> String {
    let text = cell.knob.evidence.as_str();
    let text = match evidence {
        Evidence::Full => text,
        Evidence::Figure => text.split(" (").next().unwrap_or(text),
    };
    match cell.knob.acted {
        Some(false) => format!("inert: {text}"),
        _ => text.to_owned(),
    }
}

/// How engines compare: a row per gas level and pair of cells of two engines. Empty when there is one
/// engine.
pub(super) fn engines(report: &Report) -> Grid {
    let decided = report
        .comparisons
        .iter()
        .map(|pair| (&pair.a, &pair.b, &pair.ratio, pair.verdict.as_str()));
    let undecided = report
        .undecided
        .iter()
        .map(|pair| (&pair.a, &pair.b, &pair.ratio, "not enough rounds"));
    let cell = |id: &str| report.cells.iter().find(|cell| cell.id == id);
    let rows = decided
        .chain(undecided)
        .filter_map(|(a, b, ratio, verdict)| {
            let (first, second) = (cell(a)?, cell(b)?);
            let engine = |cell: &CellReport| cell.axes.get("engine").map(text).unwrap_or_default();
            let differ = engine(first) != engine(second);
            differ.then(|| {
                let words = format!("{} / {}", engine(first), engine(second));
                vec![
                    words,
                    a.clone(),
                    b.clone(),
                    ratio_text(ratio),
                    verdict.to_owned(),
                ]
            })
        });
    Grid {
        header: ["engines", "a", "b", "a / b", "a is"]
            .map(str::to_owned)
            .to_vec(),
        rows: rows.collect(),
    }
}

/// A ratio with its interval, where one is known.
pub(super) fn ratio_text(ratio: &RatioReport) -> String {
    value_text(ratio.value, ratio.low.zip(ratio.high))
}

fn value_text(value: f64, ends: Option<(f64, f64)>) -> String {
    let interval = ends.map(|ends| interval_text(ends, |low, high| format!("{low:.3}, {high:.3}")));
    interval.map_or_else(
        || format!("{value:.3}"),
        |interval| format!("{value:.3} [{interval}]"),
    )
}

/// An interval in words, unless it spans so much that it says nothing.
pub(super) fn interval_text(
    (low, high): (f64, f64),
    words: impl FnOnce(f64, f64) -> String,
) -> String {
    if says_something((low, high)) {
        words(low, high)
    } else {
        format!("wider than {MOST_TOLD} ×")
    }
}

/// Whether an interval of a throughput or a ratio is worth showing: two visits can give one that
/// spans everything.
pub(super) fn says_something((low, high): (f64, f64)) -> bool {
    high <= MOST_TOLD * low
}

/// One failure as one line.
pub(super) fn failure_line(failure: &Failure) -> String {
    format!("{}, {}: {}", failure.visit, failure.step, failure.cause)
}

/// The first failure that quotes an engine's log.
pub(super) fn telling_failure(report: &Report) -> Option<&Failure> {
    report
        .failures
        .iter()
        .find(|failure| !failure.log.is_empty())
}

/// Where the time went, as one line.
pub(super) fn time_line(report: &Report) -> String {
    let time = &report.time_s;
    format!(
        "wall {:.1} s: measured {:.1}, warm-up {:.1}, reset {:.1}, start {:.1}, stop {:.1}, \
         wait {:.1}, void {:.1}, guard {:.1}, other {:.1}; the engine was answering payloads {:.0} % of it",
        time.wall,
        time.measured,
        time.warmup,
        time.reset,
        time.start,
        time.stop,
        time.wait,
        time.voided,
        time.guard,
        time.other,
        100.0 * report.answering_fraction
    )
}

/// What interleaved rounds mean for the figures.
const INTERLEAVED: &str = "rounds interleaved: the cells of a level were replayed side by side, block by block in turn. Ratios are what \
    this is for; the engines share the caches of the CPUs, which makes absolute figures 10 to 20 % lower than with a cell alone";

/// How many times as many payloads are proposed for a pass: that halves what payloads contribute.
const LONGER: u64 = 4;

/// Longer passes are proposed when they leave at most this part of the noise of a visit.
const WORTH_IT: f64 = 0.8;

/// What a reader has to know before believing the table.
pub(super) fn notes(report: &Report) -> Vec<String> {
    let mut notes = Vec::new();
    match report.noise_floor.relative {
        Some(relative) => notes.push(format!(
            "noise floor {:.2} % ({}); intervals are at 95 %",
            100.0 * relative,
            report.noise_floor.source
        )),
        None => notes.push(
            "one round: the noise is unknown, so * marks the highest value, not a proven best; \
             repeat with --rounds 3 or more"
                .to_owned(),
        ),
    }
    if report.configuration.interleave {
        notes.push(INTERLEAVED.to_owned());
    }
    for level in &report.levels {
        notes.extend(best_line(report, level));
        notes.extend(finer_line(report, level));
    }
    notes.extend(
        report
            .warnings
            .iter()
            .map(|warning| format!("warning: {warning}")),
    );
    notes
}

/// Whether two cells have too few rounds in common for a verdict.
pub(super) fn is_undecided(report: &Report, one: &str, other: &str) -> bool {
    let mut pairs = report.undecided.iter();
    pairs.any(|pair| (pair.a == one && pair.b == other) || (pair.a == other && pair.b == one))
}

/// The best set of a level as a line; nothing with one round.
fn best_line(report: &Report, level: &LevelReport) -> Option<String> {
    level.visit_noise?;
    let cells = level.versus_best.len() + 1;
    if cells < 2 {
        return None;
    }
    let out = level.versus_best.iter();
    let out = out.filter(|versus| !level.best.contains(&versus.cell));
    let top = level.best.first()?;
    let undecided = |versus: &VersusReport| is_undecided(report, top, &versus.cell);
    let is_clear = !out.clone().any(undecided);
    let nearest = out.filter_map(|versus| versus.ratio.high).reduce(f64::max);
    let rest = match nearest {
        Some(nearest) if nearest < 1.0 && is_clear => format!(
            "; the others are slower by at least {:.1} %",
            100.0 * (1.0 - nearest)
        ),
        Some(_) => "; the others are slower than one of them".to_owned(),
        None if level.versus_best.iter().any(undecided) => {
            "; not enough rounds to tell cells apart".to_owned()
        }
        None => "; no cells are separable".to_owned(),
    };
    let named = level.best.len().min(MOST_NAMED);
    let more = match level.best.len() - named {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some(format!(
        "{}: best {} of {cells}: {}{more}{rest}",
        level.load,
        level.best.len(),
        level.best[..named].join(", ")
    ))
}

/// What would tell apart more of the cells that share the best place of a level.
fn finer_line(report: &Report, level: &LevelReport) -> Option<String> {
    let undecided = |pair: &UndecidedReport| level.best.contains(&pair.a);
    if level.best.len() < 2 || level.inert || report.undecided.iter().any(undecided) {
        return None;
    }
    let mut levels = report.noise_floor.levels.iter();
    let noise = levels.find(|noise| noise.load == level.load)?;
    let finer = finer(noise, level.visit_noise?, report.configuration.interleave)?;
    Some(format!("{}: {finer}", level.load))
}

/// What would make visits, which vary by `now`, vary less: longer passes where that is the noise of payloads,
/// else turns, where cells do not take them already.
fn finer(noise: &LevelNoiseReport, now: f64, interleave: bool) -> Option<String> {
    let of_payloads = noise.payload.powi(2) / noise.payloads as f64;
    let part = of_payloads / (of_payloads + noise.visit.powi(2));
    let longer = now * (1.0 - part * (1.0 - 1.0 / LONGER as f64)).sqrt();
    let percent = |part: f64| format!("{:.1} %", 100.0 * part);
    let advice = if longer < WORTH_IT * now {
        let (payloads, longer) = (LONGER * noise.payloads, percent(longer));
        format!("mostly because payloads do: by {longer} with {payloads} payloads a pass")
    } else if interleave {
        "mostly from restart to restart: more rounds tell more apart, longer passes do not"
            .to_owned()
    } else {
        "mostly from one to the next: --interleave cancels what the machine does, more rounds help too"
            .to_owned()
    };
    part.is_finite()
        .then(|| format!("a visit varies by {}, {advice}", percent(now)))
}

/// Every cell of a level against the highest: a row per cell.
pub(super) fn versus(report: &Report) -> Grid {
    let rows = report.levels.iter().flat_map(|level| {
        level.versus_best.iter().map(|versus| {
            let top = level.best.first().cloned().unwrap_or_default();
            let among = level.best.contains(&versus.cell);
            let word = match is_undecided(report, &top, &versus.cell) {
                _ if level.visit_noise.is_none() => "undecided",
                true if among => "not enough rounds",
                true => "slower than another of the best",
                false if among => "among the best",
                false => "slower",
            };
            let percent = |ratio: f64| format!("{:+.2} %", 100.0 * (ratio - 1.0));
            let words = |low, high| format!("{} to {}", percent(low), percent(high));
            let interval = match versus.ratio.low.zip(versus.ratio.high) {
                Some(ends) => interval_text(ends, words),
                None => NOTHING.to_owned(),
            };
            let difference = percent(versus.ratio.value);
            vec![
                versus.cell.clone(),
                top,
                difference,
                interval,
                word.to_owned(),
            ]
        })
    });
    Grid {
        header: ["cell", "against", "difference", "interval", "is"]
            .map(str::to_owned)
            .to_vec(),
        rows: rows.collect(),
    }
}

pub(super) fn short(flag: &str) -> &str {
    if flag == CHUNK_SIZE_FLAG {
        "chunk size"
    } else {
        flag
    }
}

pub(super) fn text(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Load;

    #[test]
    fn an_interval_that_spans_everything_is_not_told() {
        let told = |low, high| {
            ratio_text(&RatioReport {
                value: 1.05,
                low,
                high,
            })
        };
        assert_eq!(told(Some(0.9), Some(1.2)), "1.050 [0.900, 1.200]");
        assert_eq!(told(Some(0.1), Some(10.0)), "1.050 [0.100, 10.000]");
        assert_eq!(told(Some(0.0004), Some(2070.6)), "1.050 [wider than 100 ×]");
        assert_eq!(told(None, None), "1.050");
    }

    #[test]
    fn longer_passes_are_proposed_where_payloads_are_the_noise() {
        let said = |visit, payload, now, interleave| {
            let load = Load {
                gas: Gas(10_000_000),
                mix: None,
            };
            let noise = LevelNoiseReport {
                load,
                visit,
                payload,
                payloads: 100,
                best_payloads: None,
            };
            finer(&noise, now, interleave)
        };
        let expected = "a visit varies by 2.0 %, mostly because payloads do: by 1.0 % with 400 payloads a pass";
        assert_eq!(said(0.0, 0.2, 0.02, false).as_deref(), Some(expected));
        let expected = "a visit varies by 5.0 %, mostly from restart to restart: more rounds tell more apart, \
                        longer passes do not";
        assert_eq!(said(0.046, 0.2, 0.05, true).as_deref(), Some(expected));
        let expected = "a visit varies by 5.0 %, mostly from one to the next: --interleave cancels what the \
                        machine does, more rounds help too";
        assert_eq!(said(0.046, 0.2, 0.05, false).as_deref(), Some(expected));
        assert_eq!(said(0.0, 0.0, 0.0, false), None);
    }
}
