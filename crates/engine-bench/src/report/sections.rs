//! What stands behind the answer, section by section: figures of cells, comparisons, curves, where the time
//! went, how rounds were decided, what went wrong, the machine.
//!
//! Invariant: the same sections feed Markdown and HTML, so they cannot disagree; one with nothing to say is
//! left out.

use super::{
    answer::difference,
    attribution, facts,
    grid::{Columns, Grid, NOTHING, or_nothing},
    model::Report,
    names::{Names, listed},
};
use crate::{
    analyze::{
        Comparison, Level, LevelNoise, Measured, Quantiles, Response, Summary, Work, in_a_word,
    },
    figures::Place,
    profile::CellProfile,
    record::{
        Failure, LevelDecision, Sample,
        column::{Column, Unit},
    },
    trace::CellTraces,
};

/// A part of a report.
#[derive(Default)]
pub(super) struct Section {
    /// Its name for links.
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    /// What its figures are; empty when the title says it.
    pub(super) about: &'static str,
    pub(super) grids: Vec<Grid>,
    pub(super) lines: Vec<String>,
    /// Output of a program, as it is.
    pub(super) log: Vec<String>,
}

impl Section {
    fn new(id: &'static str, title: &'static str) -> Self {
        Self {
            id,
            title,
            ..Self::default()
        }
    }

    fn about(self, about: &'static str) -> Self {
        Self { about, ..self }
    }

    fn grid(mut self, grid: Grid) -> Self {
        self.grids.extend((!grid.rows.is_empty()).then_some(grid));
        self
    }

    fn lines(mut self, lines: impl IntoIterator<Item = String>) -> Self {
        self.lines.extend(lines);
        self
    }
}

/// Every section that has something to say, in order.
pub(super) fn all(report: &Report) -> Vec<Section> {
    let failed = telling_failure(report);
    let mut sections = vec![
        Section::new("attribution", "Where the time goes")
            .about("Milliseconds a block, one phase after another.")
            .grid(attribution::table(report))
            .lines(attribution::lines(report)),
        Section::new("cells", "Cells")
            .about("Throughputs in Ggas/s; latency is newPayload + forkchoiceUpdated of a payload.")
            .grid(cells(report)),
        Section::new("comparisons", "Comparisons")
            .about(
                "The intervals of a gas level are simultaneous. Resampled is an interval of that pair alone.",
            )
            .grid(comparisons(report)),
        Section::new("noise", "Noise")
            .about("What identical cells differ by, and what would let visits vary less.")
            .grid(controls(report))
            .lines(noise(report)),
        Section::new("curves", "Curves")
            .about("A parabola over the logarithm of the value, fitted to the logarithm of throughput.")
            .grid(curves(report)),
        Section::new("work", "State root")
            .about("Means per block, as the engine counts them.")
            .grid(work(report)),
        Section::new("rounds", "How many rounds").grid(decisions(report)),
        Section::new("traces", "Traces")
            .about(
                "Blocks that were replayed once more with tracing. Perfetto (ui.perfetto.dev) opens the files.",
            )
            .grid(traces(report))
            .lines(report.traces.iter().filter_map(trace_line)),
        Section::new("profiles", "Profiles")
            .about("Cells that were replayed once more under a profiler.")
            .lines(report.profiles.iter().filter_map(profile_line)),
        Section::new("disturbed", "Disturbed visits").grid(facts::disturbed(report)),
        Section {
            log: failed.map_or_else(Vec::new, |failure| failure.log.clone()),
            ..Section::new("failures", "Failures").lines(failures(report))
        },
        Section::new("time", "Time")
            .grid(facts::resets(report))
            .lines([facts::time(report)]),
        Section::new("machine", "Machine")
            .grid(facts::preflight(report))
            .grid(facts::state_drift(report))
            .lines(facts::machine(report)),
    ];
    sections.retain(|of| !of.grids.is_empty() || !of.lines.is_empty() || !of.log.is_empty());
    sections
}

/// A row per cell.
fn cells(report: &Report) -> Grid {
    let ggas = |found: Option<Measured>| or_nothing(found.map(|found| found.ratio.text()));
    let ms = |cell: &Summary, quantile: fn(Quantiles) -> f64| {
        let ms = cell.latency_us.map(|found| quantile(found) / 1e3);
        or_nothing(ms.map(|ms| Place::digits(ms, 3).text(ms)))
    };
    Columns::of(&report.cells)
        .column("cell", |cell| cell.id.clone())
        .column("newPayload", |cell| ggas(cell.new_payload_ggas_per_second))
        .column("wall clock", |cell| ggas(cell.wall_clock_ggas_per_second))
        .column("engine", |cell| ggas(cell.engine_ggas_per_second))
        .column("p50 ms", |cell| ms(cell, |found| found.p50))
        .column("p90 ms", |cell| ms(cell, |found| found.p90))
        .column("p99 ms", |cell| ms(cell, |found| found.p99))
        .column("max ms", |cell| ms(cell, |found| found.max))
        .column("knob", |cell| knob(cell))
        .grid()
}

fn knob(cell: &Summary) -> String {
    let text = &cell.knob.evidence;
    match cell.knob.acted {
        Some(false) => format!("inert: {text}"),
        _ => text.clone(),
    }
}

/// A row per pair of cells of a level.
fn comparisons(report: &Report) -> Grid {
    let resampled = |pair: &Comparison| {
        let found = pair.bootstrap?;
        let [low, high] = [found.low, found.high].map(|end| 100.0 * (end - 1.0));
        let place = Place::of(0.0, Some((low, high)));
        let [low, high] = [low, high].map(|end| place.signed(end));
        Some(format!("{low} to {high} %"))
    };
    Columns::of(&report.comparisons)
        .column("a", |pair| pair.a.clone())
        .column("b", |pair| pair.b.clone())
        .column("a to b", |pair| difference(&pair.ratio))
        .column("a is", |pair| pair.verdict)
        .column("difference", |pair| {
            pair.relevance.map_or(NOTHING, in_a_word)
        })
        .column("resampled", |pair| or_nothing(resampled(pair)))
        .grid()
}

/// A row per A/A control.
fn controls(report: &Report) -> Grid {
    Columns::of(&report.noise_floor.controls)
        .column("cell", |control| control.of.clone())
        .column("rounds", |control| control.rounds)
        .column("its A/A control to it", |of| difference(&of.ratio))
        .grid()
}

/// How many times as many payloads are proposed for a pass: that halves what payloads contribute.
const LONGER: u64 = 4;

/// Longer passes are proposed when they leave at most this part of the noise of a visit.
const WORTH_IT: f64 = 0.8;

/// The floor, and for each level what would make its visits vary less.
fn noise(report: &Report) -> Vec<String> {
    let floor = &report.noise_floor;
    let mut lines = vec![match floor.relative {
        Some(relative) => format!("noise floor {:.2} %: {}", 100.0 * relative, floor.source),
        None => format!("noise floor {}", floor.source),
    }];
    if report.configuration.interleave {
        lines.push(
            "rounds were interleaved: the cells of a level were replayed side by side, block by block in turn, which \
             is for their ratios; the engines share the caches of the CPUs, so throughputs are not those of a cell \
             alone"
                .to_owned(),
        );
    }
    let finer = |level: &Level| {
        let mut levels = floor.levels.iter();
        let noise = levels.find(|noise| noise.load == level.load)?;
        let finer = finer(noise, level.visit_noise?, report.configuration.interleave)?;
        Some(format!("{}: {finer}", level.load))
    };
    lines.extend(report.levels.iter().filter_map(finer));
    lines
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
        "mostly from restart to restart: more rounds separate more, longer passes do not".to_owned()
    } else {
        "mostly from one to the next: --interleave cancels what the machine does, more rounds help too"
            .to_owned()
    };
    part.is_finite()
        .then(|| format!("a visit varies by {}, {advice}", percent(now)))
}

/// The optimum of every curve: a row each.
fn curves(report: &Report) -> Grid {
    let names = Names::of(report);
    let levels = report.levels.iter();
    let all = levels.flat_map(|level| level.curves.iter().map(|curve| (&level.load, curve)));
    let place = |curve: &Response| Place::of(curve.optimum, curve.low.zip(curve.high));
    let percent = |part: f64| format!("{:.1} %", 100.0 * part);
    let interval = |curve: &Response| {
        let (low, high) = curve.low.zip(curve.high)?;
        let [low, high] = [low, high].map(|end| place(curve).text(end));
        Some(format!("{low} to {high}"))
    };
    Columns::of(all)
        .column("level", |(load, _)| load.to_string())
        .column("axis", |(_, curve)| names.column(&curve.axis))
        .column("tried", |(_, curve)| {
            let (first, last) = curve.ends();
            format!("{first} to {last}")
        })
        .column("highest at", |(_, curve)| place(curve).text(curve.optimum))
        .column("interval", |(_, curve)| or_nothing(interval(curve)))
        .column("cells off it by", |(_, of)| percent(of.misfit))
        .grid()
}

/// What the engine counted per block: a row per cell that has counts.
fn work(report: &Report) -> Grid {
    let cells = report.cells.iter();
    let counted = cells.filter_map(|cell| Some((&cell.id, cell.work.as_ref()?)));
    let counted: Vec<(&String, &Work)> = counted.collect();
    let told = |column: &&Column<Sample>| {
        let mut works = counted.iter();
        works.any(|(_, work)| work.mean(column.name).is_some())
    };
    let first = Columns::of(counted.clone()).column("cell", |(id, _)| (*id).clone());
    let all = Work::columns().filter(told).fold(first, |table, column| {
        let (label, is_time) = (column.about.label, column.about.unit == Unit::Nanoseconds);
        let name = if is_time {
            format!("{label} ms")
        } else {
            label.to_owned()
        };
        table.column(&name, |(_, work)| {
            or_nothing(work.mean(column.name).map(|mean| match is_time {
                true => format!("{:.2}", mean / 1e6),
                false => format!("{mean:.1}"),
            }))
        })
    });
    all.grid()
}

/// How the rounds of an adaptive sweep were decided: a row per decision and level.
fn decisions(report: &Report) -> Grid {
    let decisions = report.adaptive.iter().flat_map(|found| &found.decisions);
    let rows = decisions.flat_map(|decision| {
        let levels = decision.levels.iter();
        levels.map(|level| (decision.after_round, level))
    });
    let precision = |level: &LevelDecision| {
        let percent = 100.0 * level.precision?;
        Some(format!("±{percent:.1} %"))
    };
    Columns::of(rows)
        .column("after round", |(round, _)| *round)
        .column("level", |(_, level)| level.load.to_string())
        .column("precision", |(_, level)| or_nothing(precision(level)))
        .column("rounds wanted", |(_, level)| level.wanted_rounds)
        .column("rounds to come", |(_, level)| level.given_rounds)
        .column("left as beaten", |(_, level)| level.beaten.join(", "))
        .column("left undecided", |(_, level)| level.futile.join(", "))
        .grid()
}

/// A row per traced block.
fn traces(report: &Report) -> Grid {
    let cells = report.traces.iter();
    let blocks = cells.flat_map(|of| of.blocks.iter().map(|block| (&of.cell, block)));
    Columns::of(blocks)
        .column("cell", |(cell, _)| (*cell).clone())
        .column("block", |(_, block)| block.block)
        .column("measured ms", |(_, of)| format!("{:.2}", of.measured_ms))
        .column("traced ms", |(_, block)| format!("{:.2}", block.traced_ms))
        .column("spans", |(_, block)| block.spans)
        .column("file", |(_, block)| block.file.clone())
        .column("Jaeger", |(_, block)| or_nothing(block.link.clone()))
        .grid()
}

/// What tracing a cell cost, lost or failed at; nothing when it has nothing to say.
pub(super) fn trace_line(cell: &CellTraces) -> Option<String> {
    let mut parts = Vec::new();
    if let Some(overhead) = cell.overhead {
        parts.push(format!(
            "tracing changed the time of a block by {:+.1} %, beside untraced blocks of the same pass",
            overhead * 100.0
        ));
    }
    if cell.lost_spans > 0 {
        parts.push(format!("{} spans were lost", cell.lost_spans));
    }
    parts.extend(cell.problem.clone());
    (!parts.is_empty()).then(|| format!("{}: {}", cell.cell, parts.join("; ")))
}

/// How the profile of a cell is looked at, or why there is none.
pub(super) fn profile_line(profile: &CellProfile) -> Option<String> {
    let told = profile.show.as_ref().or(profile.problem.as_ref())?;
    Some(format!("{}: {told}", profile.cell))
}

/// Failures with the visits that failed alike, a line for each kind.
pub(super) fn failures(report: &Report) -> Vec<String> {
    let mut kinds: Vec<(&Failure, Vec<&str>)> = Vec::new();
    for failure in &report.failures {
        let alike = |(known, _): &&mut (&Failure, _)| {
            known.step == failure.step && known.cause == failure.cause
        };
        match kinds.iter_mut().find(alike) {
            Some((_, visits)) => visits.push(&failure.visit),
            None => kinds.push((failure, vec![&failure.visit])),
        }
    }
    let line = |(failure, visits): (&Failure, Vec<&str>)| {
        let visits = listed(visits.into_iter().map(str::to_owned));
        format!("{visits}, {}: {}", failure.step, failure.cause)
    };
    kinds.into_iter().map(line).collect()
}

/// The first failure that quotes an engine's log: the others fail alike.
pub(super) fn telling_failure(report: &Report) -> Option<&Failure> {
    let mut failures = report.failures.iter();
    failures.find(|failure| !failure.log.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{plan::Load, sweep::Gas};

    #[test]
    fn longer_passes_are_proposed_where_payloads_are_the_noise() {
        let longer = "mostly because payloads do: by 1.0 % with 400 payloads a pass";
        let restarts = "mostly from restart to restart: more rounds separate more";
        let turns = "mostly from one to the next: --interleave cancels";
        for (visit, payload, now, interleave, expected) in [
            (0.0, 0.2, 0.02, false, Some(("2.0 %", longer))),
            (0.046, 0.2, 0.05, true, Some(("5.0 %", restarts))),
            (0.046, 0.2, 0.05, false, Some(("5.0 %", turns))),
            (0.0, 0.0, 0.0, false, None),
        ] {
            let (gas, mix) = (Gas(10_000_000), None);
            let noise = LevelNoise {
                load: Load { gas, mix },
                visit,
                payload,
                payloads: 100,
            };
            let found = finer(&noise, now, interleave);
            let expected = expected.map(|(by, why)| format!("a visit varies by {by}, {why}"));
            let begins = |found: &String| found.starts_with(expected.as_deref().unwrap_or("?"));
            assert_eq!(found.is_some(), expected.is_some());
            assert!(found.iter().all(begins), "{found:?}");
        }
    }
}
