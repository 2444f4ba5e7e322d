//! The drawings of one gas level: latencies as distributions, and block by block.

use super::{
    super::{
        model::{CellReport, LatencyReport, Report},
        names::Names,
    },
    chart::{Axis, COLOURS, GOOD, Shape, draw, row, span},
    figure::{Figure, Key},
};
use crate::analyze::Level;

/// Height of a row, in pixels.
const ROW: u32 = 26;

/// Every drawing of a level that there are numbers for.
pub(super) fn figures(report: &Report, level: &Level) -> Vec<Figure> {
    let figures = [distributions(report, level), strips(report, level)];
    figures.into_iter().flatten().collect()
}

fn names(report: &Report, cells: &[&CellReport]) -> Vec<String> {
    let names = Names::of(report);
    cells.iter().map(|cell| names.label(cell)).collect()
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
    let y = Axis::rows(&names(report, &cells));
    Some(Figure {
        svg: draw(&x, &y, height(rows), &shapes)?,
        caption: "Latency of payloads: how often which. Dot: median; ring: 99th percentile."
            .to_owned(),
        key: Key::new(),
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
    let y = Axis::rows(&names(report, &cells));
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
        key: Key::new(),
    })
}
