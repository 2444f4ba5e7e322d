//! The table everyone looks at first, as rows of text: knobs down, gas levels across.
//!
//! Invariant: the same rows feed the terminal and the Markdown report, so they cannot disagree.

use super::model::{CellReport, Report};
use crate::{
    analyze::{Level, LevelNoise, Ratio, Verdict},
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

/// Execution throughput: a row per setting of the knobs, a column per gas level.
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
    let rows = settings(report).into_iter();
    let rows = rows.map(|setting| row(report, &setting, several_engines, knobs));
    let rows = rows.chain([payloads_row(report, knobs)]).collect();
    Grid { header, rows }
}

/// The settings of the knobs, engine included, each once.
pub(super) fn settings(report: &Report) -> Vec<Map<String, Value>> {
    let mut settings: Vec<Map<String, Value>> = Vec::new();
    for cell in &report.cells {
        let mut setting = cell.axes.clone();
        setting.remove("gas");
        if !settings.contains(&setting) {
            settings.push(setting);
        }
    }
    settings
}

fn row(
    report: &Report,
    setting: &Map<String, Value>,
    several_engines: bool,
    knobs: usize,
) -> Vec<String> {
    let engine = setting.get("engine").map(text);
    let flags = report.configuration.axes.iter();
    let mut row: Vec<String> = flags
        .map(|axis| setting.get(&axis.flag).map_or(NOTHING.into(), text))
        .collect();
    if several_engines || knobs > row.len() {
        row.insert(0, engine.unwrap_or_default());
    }
    row.extend(gas_levels(report).into_iter().map(|gas| {
        cell_at(report, setting, gas).map_or(NOTHING.into(), |cell| value(report, cell))
    }));
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
    if levels.any(|level| level.separates() && level.best.contains(&cell.id)) {
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
    let cell = |id: &str| report.cells.iter().find(|cell| cell.id == id);
    let rows = report.comparisons.iter().filter_map(|pair| {
        let (first, second) = (cell(&pair.a)?, cell(&pair.b)?);
        let engine = |cell: &CellReport| cell.axes.get("engine").map(text).unwrap_or_default();
        let differ = engine(first) != engine(second);
        differ.then(|| {
            let words = format!("{} / {}", engine(first), engine(second));
            vec![
                words,
                pair.a.clone(),
                pair.b.clone(),
                ratio_text(&pair.ratio),
                pair.verdict.to_string(),
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
pub(super) fn ratio_text(ratio: &Ratio) -> String {
    value_text(ratio.value, ratio.ends())
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
            "the noise floor is unknown, so nothing is called best; repeat with --rounds 3 or more"
                .to_owned(),
        ),
    }
    if report.configuration.interleave {
        notes.push(INTERLEAVED.to_owned());
    }
    for level in &report.levels {
        notes.extend(best_line(level));
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

/// The best set of a level as a line; nothing with one round.
fn best_line(level: &Level) -> Option<String> {
    level.visit_noise?;
    let cells = level.best.len() + level.beaten.len();
    if cells < 2 {
        return None;
    }
    let rest = match (
        level.separates(),
        level
            .versus
            .iter()
            .all(|versus| versus.verdict.is_decided()),
    ) {
        (true, _) => "; each other is slower than one of them",
        (false, true) => "; no cells are separable",
        (false, false) => "; not enough rounds to separate cells",
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

/// What would separate more of the cells that share the best place of a level.
fn finer_line(report: &Report, level: &Level) -> Option<String> {
    let undecided = level
        .versus
        .iter()
        .any(|versus| !versus.verdict.is_decided());
    if level.best.len() < 2 || level.inert || undecided {
        return None;
    }
    let mut levels = report.noise_floor.levels.iter();
    let noise = levels.find(|noise| noise.load == level.load)?;
    let finer = finer(noise, level.visit_noise?, report.configuration.interleave)?;
    Some(format!("{}: {finer}", level.load))
}

/// What would make visits, which vary by `now`, vary less: longer passes where that is the noise of payloads,
/// else turns, where cells do not take them already.
fn finer(noise: &LevelNoise, now: f64, interleave: bool) -> Option<String> {
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

/// Every cell of a level against the reference: a row per cell.
pub(super) fn versus(report: &Report) -> Grid {
    let rows = report.levels.iter().flat_map(|level| {
        level.versus.iter().map(|versus| {
            let word = match versus.verdict {
                Verdict::NotSeparable if level.separates() && level.best.contains(&versus.a) => {
                    "not separable, among the best".to_owned()
                }
                verdict => verdict.to_string(),
            };
            let percent = |ratio: f64| format!("{:+.2} %", 100.0 * (ratio - 1.0));
            let words = |low, high| format!("{} to {}", percent(low), percent(high));
            let ends = versus.ratio.ends();
            let interval = ends.map_or(NOTHING.to_owned(), |ends| interval_text(ends, words));
            let difference = percent(versus.ratio.value);
            let [cell, against] = [&versus.a, &versus.b].map(Clone::clone);
            vec![cell, against, difference, interval, word]
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
            ratio_text(&Ratio {
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
            let noise = LevelNoise {
                load,
                visit,
                payload,
                payloads: 100,
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
