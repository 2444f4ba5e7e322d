//! The drawings of one gas level: intervals, visits, distributions, and latency block by block.

use super::{
    super::{
        grid::{interval_text, says_something},
        model::{CellReport, LatencyReport, Report},
    },
    chart::{Axis, COLOURS, GOOD, GREY, Shape, draw, row, span},
};
use crate::analyze::{Comparison, Level};

/// Height of a row, in pixels.
const ROW: u32 = 26;

/// Most visits of a cell that are drawn; of more, every second or third is left out.
const MOST_DOTS: usize = 200;

/// A drawing and what is to be said about it.
pub(super) struct Figure {
    pub(super) caption: String,
    pub(super) svg: String,
}

/// Every drawing of a level that there are numbers for.
pub(super) fn figures(report: &Report, level: &Level) -> Vec<Figure> {
    let figures = [
        intervals(report, level),
        visits(report, level),
        distributions(report, level),
        strips(report, level),
    ];
    figures.into_iter().flatten().collect()
}

/// The name of a cell within its level.
pub(super) fn short(id: &str, level: &Level) -> String {
    let short = id.replace(&format!("-gas{}", level.load.gas), "");
    if short.is_empty() {
        id.to_owned()
    } else {
        short
    }
}

fn names(cells: &[&CellReport], level: &Level) -> Vec<String> {
    cells.iter().map(|cell| short(&cell.id, level)).collect()
}

fn height(rows: usize) -> u32 {
    ROW * rows.max(1) as u32
}

/// Cells of the level that have a number.
fn cells<'a>(report: &'a Report, level: &Level) -> Vec<&'a CellReport> {
    let measured = |cell: &&CellReport| cell.execution_ggas_per_second.is_some();
    let cells = report.cells.iter().filter(|cell| level.is_of(cell));
    cells.filter(measured).collect()
}

/// Every cell against the reference; nothing with one round.
fn intervals(report: &Report, level: &Level) -> Option<Figure> {
    level.visit_noise?;
    let top = level.reference.as_ref()?;
    let measured = cells(report, level);
    let (rows, names) = (measured.len(), names(&measured, level));
    let mut shapes = Vec::new();
    let mut ends = vec![0.0];
    if let Some(noise) = report.noise_floor.relative {
        let (low, high) = (percent(1.0 / (1.0 + noise)), percent(1.0 + noise));
        let title = format!("noise floor: {low:+.2} to {high:+.2} %");
        let corners = ((low, 0.0), (high, rows as f64));
        shapes.push(Shape::rect(corners, GREY, title).faint(0.2));
        ends.extend([low, high]);
    }
    for (index, cell) in measured.iter().enumerate() {
        let y = row(index, rows);
        if cell.id == *top {
            let title = format!("{top}: the reference");
            shapes.push(Shape::dot((0.0, y), GOOD, title));
            continue;
        }
        let mut others = level.versus.iter();
        let Some(versus) = others.find(|versus| versus.a == cell.id) else {
            continue;
        };
        // A cell of a round that was cut short has no interval.
        let Some((low, high)) = versus.ratio.ends() else {
            continue;
        };
        ends.push(percent(versus.ratio.value));
        if says_something((low, high)) {
            ends.extend([percent(low), percent(high)]);
        }
        let best = level.best.contains(&cell.id);
        shapes.extend(interval(versus, (low, high), y, best));
    }
    let x = Axis::linear(span(ends)?, &format!("% against {}", short(top, level)));
    Some(Figure {
        svg: draw(&x, &Axis::rows(&names), height(rows), &shapes)?,
        caption:
            "Difference from the reference, with intervals that hold together; one that spans \
                  everything is left out. Green: among the best; grey: the noise floor."
                .to_owned(),
    })
}

/// A dot in its bar, if that says something; a ring for what is slower than the best.
fn interval(versus: &Comparison, (low, high): (f64, f64), y: f64, best: bool) -> Vec<Shape> {
    let (colour, word) = if best {
        (GOOD, "among the best")
    } else {
        (COLOURS[1], "shown to be slower than one of them")
    };
    let middle = percent(versus.ratio.value);
    let words = |low, high| format!("{:+.2} to {:+.2} %", percent(low), percent(high));
    let words = interval_text((low, high), words);
    let title = format!("{}: {middle:+.2} %, {words}: {word}", versus.a);
    let mut shapes = Vec::new();
    if says_something((low, high)) {
        let bar = ((percent(low), y - 0.06), (percent(high), y + 0.06));
        shapes.push(Shape::rect(bar, colour, title.clone()));
    }
    let dot = if best { Shape::dot } else { Shape::ring };
    shapes.push(dot((middle, y), colour, title));
    shapes
}

fn percent(ratio: f64) -> f64 {
    100.0 * (ratio - 1.0)
}

/// Throughput of every visit; nothing with one round.
fn visits(report: &Report, level: &Level) -> Option<Figure> {
    let cells = cells(report, level);
    let all = || cells.iter().flat_map(|cell| &cell.rounds);
    all().find(|round| round.round > 1)?;
    let rows = cells.len();
    let mut shapes = Vec::new();
    let ends = span(all().map(|round| round.ggas_per_second))?;
    let tick = (ends.1 - ends.0) / 200.0;
    for (index, cell) in cells.iter().enumerate() {
        let (y, mean) = (
            row(index, rows),
            cell.execution_ggas_per_second.as_ref()?.value,
        );
        let title = format!("{}: {mean:.4} Ggas/s over all visits", cell.id);
        let corners = ((mean - tick, y - 0.35), (mean + tick, y + 0.35));
        shapes.push(Shape::rect(corners, GREY, title));
        let step = cell.rounds.len().div_ceil(MOST_DOTS).max(1);
        shapes.extend(cell.rounds.iter().step_by(step).map(|round| {
            let value = round.ggas_per_second;
            let title = format!("{}, round {}: {value:.4} Ggas/s", cell.id, round.round);
            Shape::dot((value, y), COLOURS[2], title).faint(0.6)
        }));
    }
    let y = Axis::rows(&names(&cells, level));
    Some(Figure {
        svg: draw(&Axis::linear(ends, "Ggas/s"), &y, height(rows), &shapes)?,
        caption: "Throughput of every visit: a dot each, and all of them together.".to_owned(),
    })
}

/// Latencies of all payloads.
fn distributions(report: &Report, level: &Level) -> Option<Figure> {
    let cells = cells(report, level);
    let rows = cells.len();
    let log_ms = |us: f64| (us / 1e3).log10();
    let ends = cells.iter().filter_map(|cell| cell.histogram.as_ref());
    let ends = span(ends.flat_map(|found| [log_ms(found.low_us), log_ms(found.high_us)]))?;
    let mut shapes = Vec::new();
    for (index, cell) in cells.iter().enumerate() {
        let (Some(found), Some(latency)) = (&cell.histogram, cell.latency_us) else {
            continue;
        };
        let (base, title) = (row(index, rows) - 0.4, latency_title(cell, latency));
        let bins = found.counts.len() as f64;
        let width = (log_ms(found.high_us) - log_ms(found.low_us)) / bins;
        let most = found.counts.iter().max().copied().unwrap_or(1).max(1) as f64;
        let mut points = vec![(log_ms(found.low_us), base)];
        for (bin, count) in found.counts.iter().enumerate() {
            let from = log_ms(found.low_us) + bin as f64 * width;
            let top = base + 0.85 * *count as f64 / most;
            points.extend([(from, top), (from + width, top)]);
        }
        points.push((log_ms(found.high_us), base));
        shapes.push(Shape::area(points, COLOURS[2], title.clone()).faint(0.6));
        shapes.push(Shape::dot((log_ms(latency.p50), base), GOOD, title.clone()));
        shapes.push(Shape::ring((log_ms(latency.p99), base), COLOURS[1], title));
    }
    let x = Axis::logarithmic(ends, "ms a payload");
    let y = Axis::rows(&names(&cells, level));
    Some(Figure {
        svg: draw(&x, &y, height(rows), &shapes)?,
        caption: "Latency of payloads: how often which. Dot: median; ring: 99th percentile."
            .to_owned(),
    })
}

fn latency_title(cell: &CellReport, latency: LatencyReport) -> String {
    let ms = |us: f64| us / 1e3;
    format!(
        "{}: median {:.2} ms, p90 {:.2}, p99 {:.2}, longest {:.2}",
        cell.id,
        ms(latency.p50),
        ms(latency.p90),
        ms(latency.p99),
        ms(latency.max)
    )
}

/// Latency from block to block, as a strip of shades for each cell.
fn strips(report: &Report, level: &Level) -> Option<Figure> {
    let cells = cells(report, level);
    let rows = cells.len();
    let found = || cells.iter().filter_map(|cell| cell.blocks.as_ref());
    let times = || found().flat_map(|blocks| &blocks.median_us).copied();
    let (low, high) = (times().min()?.max(1), times().max()?.max(1));
    let range = (high as f64 / low as f64).ln().max(1e-9);
    let mut shapes = Vec::new();
    let (mut first, mut last) = (f64::MAX, f64::MIN);
    for (index, cell) in cells.iter().enumerate() {
        let Some(blocks) = &cell.blocks else { continue };
        let (y, step) = (row(index, rows), blocks.blocks_per_entry);
        for (entry, us) in (0u64..).zip(&blocks.median_us) {
            let from = blocks.first_block + entry * step;
            let corners = ((from as f64, y - 0.42), ((from + step) as f64, y + 0.42));
            let which = match step {
                1 => format!("block {from}"),
                _ => format!("blocks {from} to {}", from + step - 1),
            };
            let ms = *us as f64 / 1e3;
            let title = format!("{}, {which}: {ms:.2} ms", cell.id);
            let shade = ((*us).max(1) as f64 / low as f64).ln() / range;
            shapes.push(Shape::rect(corners, COLOURS[2], title).faint(0.06 + 0.94 * shade));
            (first, last) = (first.min(from as f64), last.max((from + step) as f64));
        }
    }
    let y = Axis::rows(&names(&cells, level));
    Some(Figure {
        svg: draw(
            &Axis::linear((first, last), "block"),
            &y,
            height(rows),
            &shapes,
        )?,
        caption: format!(
            "Latency of each block, median of visits: the stronger the colour the slower, from {:.2} \
             to {:.2} ms.",
            low as f64 / 1e3,
            high as f64 / 1e3
        ),
    })
}
