//! The drawings of the sweep as a whole: what rounds bought, how visits and the machine drifted, and latencies
//! block by block.

use super::{
    super::{model::Report, names::Names, visits::VisitReport},
    chart::{Axis, COLOURS, GREY, Shape, draw, row, span},
    figure::{Figure, Key},
};
use crate::analyze::{Level, Summary};

const HEIGHT: u32 = 180;
const ROW: u32 = 26;

/// Most visits that a drawing shows; of more, every second or third is left out.
const MOST_VISITS: usize = 1_200;

/// Widths and gaps are drawn at this many percent at least: their axis is logarithmic.
const LEAST: f64 = 0.01;

/// Half width of the intervals of each level after every round, and what its A/A control differed by in it.
pub(super) fn precision(report: &Report) -> Option<Figure> {
    let (mut shapes, mut figures, mut last, mut key) = (Vec::new(), Vec::new(), 0, Vec::new());
    for (index, level) in report.levels.iter().enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        let mut widths = report
            .widths
            .iter()
            .filter(|widths| widths.load == level.load);
        let rounds = widths.next().map_or(&[][..], |widths| &widths.rounds);
        let log = |part: f64| (100.0 * part).max(LEAST).log10();
        let points: Vec<(f64, f64)> = rounds
            .iter()
            .map(|width| (width.round as f64, log(width.half)))
            .collect();
        for (width, point) in rounds.iter().zip(&points) {
            let title = format!(
                "{}, after round {}: ±{:.2} %",
                level.load,
                width.round,
                100.0 * width.half
            );
            shapes.push(Shape::dot(*point, colour, title));
            last = last.max(width.round);
        }
        shapes.push(Shape::line(points.clone(), colour));
        figures.extend(points.iter().map(|(_, width)| *width));
        for (round, gap) in gaps(report, level) {
            let title = format!(
                "{}, round {round}: A/A control {:+.2} %",
                level.load,
                100.0 * gap
            );
            shapes.push(Shape::ring((round as f64, log(gap.abs())), colour, title));
            figures.push(log(gap.abs()));
            last = last.max(round);
        }
        key.push((level.load.to_string(), colour));
    }
    (last > 1).then_some(())?;
    let x = Axis::linear((0.5, last as f64 + 0.5), "round");
    let y = Axis::logarithmic(span(figures)?, "half width or gap, %");
    Some(Figure {
        svg: draw(&x, &y, HEIGHT, &shapes)?,
        caption: "What rounds bought. Dots: half the width of the widest simultaneous interval of a level after a \
                  round; rings: what its A/A control differed by in that round alone."
            .to_owned(),
        key,
    })
}

/// Throughput of the A/A controls of a level over that of their originals, less 1, by round.
fn gaps(report: &Report, level: &Level) -> Vec<(u64, f64)> {
    let controls = report.noise_floor.controls.iter();
    let controls = controls.filter(|control| report.is_of(level, &control.of));
    let gaps = controls.flat_map(|control| {
        let original = report
            .cell(&control.of)
            .map_or(&[][..], |cell| &cell.rounds);
        original.iter().filter_map(|round| {
            let mut visits = report.visits.iter().rev();
            let again =
                visits.find(|visit| visit.cell == control.id && visit.round == round.round)?;
            Some((
                round.round,
                again.ggas_per_second? / round.ggas_per_second - 1.0,
            ))
        })
    });
    gaps.collect()
}

/// The visits that are drawn, with their place in the order.
fn shown(report: &Report) -> impl Iterator<Item = (usize, &VisitReport)> {
    let step = report.visits.len().div_ceil(MOST_VISITS).max(1);
    report.visits.iter().enumerate().step_by(step)
}

fn minutes(visit: &VisitReport) -> f64 {
    visit.begun_s / 60.0
}

/// The cell that an A/A control repeats; a cell itself.
fn original<'a>(report: &'a Report, id: &'a str) -> &'a str {
    let mut controls = report.noise_floor.controls.iter();
    let found = controls.find(|found| found.id == id);
    found.map_or(id, |found| &found.of)
}

fn title(index: usize, visit: &VisitReport) -> String {
    let relative = visit.relative.map_or(String::new(), |relative| {
        format!(", {:+.2} % against its cell", 100.0 * relative)
    });
    format!(
        "visit {}: {}, round {}, {} after {:.1} s{relative}",
        index + 1,
        visit.cell,
        visit.round,
        visit.ended,
        visit.seconds
    )
}

/// How visits went against the mean of their cell, over time; levels by colour.
pub(super) fn drift(report: &Report) -> Option<Figure> {
    let level_of = |visit: &VisitReport| {
        let id = original(report, &visit.cell);
        report
            .levels
            .iter()
            .position(|level| report.is_of(level, id))
    };
    let known = || shown(report).filter_map(|(index, visit)| Some((index, visit, visit.relative?)));
    known().find(|(_, visit, _)| visit.round > 1)?;
    let x = Axis::linear(
        span(known().map(|(_, visit, _)| minutes(visit)))?,
        "minutes",
    );
    let y = span(known().map(|(.., relative)| 100.0 * relative).chain([0.0]))?;
    let colour = |level: Option<usize>| level.map_or(GREY, |level| COLOURS[level % COLOURS.len()]);
    let mut shapes: Vec<Shape> = known()
        .map(|(index, visit, relative)| {
            let at = (minutes(visit), 100.0 * relative);
            Shape::dot(at, colour(level_of(visit)), title(index, visit)).faint(0.8)
        })
        .collect();
    let ends = span(known().map(|(_, visit, _)| minutes(visit)))?;
    shapes.push(Shape::line(vec![(ends.0, 0.0), (ends.1, 0.0)], GREY));
    let levels = report.levels.iter().enumerate();
    let key = levels.map(|(index, level)| (level.load.to_string(), colour(Some(index))));
    Some(Figure {
        svg: draw(&x, &Axis::linear(y, "% to its cell"), HEIGHT, &shapes)?,
        caption: "Every visit beside the mean of its cell, over time.".to_owned(),
        key: key.collect(),
    })
}

/// Latency from block to block, as a strip of shades for each cell.
pub(super) fn strips(report: &Report, level: &Level) -> Option<Figure> {
    let cells = report.cells_of(level);
    let cells: Vec<&Summary> = cells.filter(|cell| cell.blocks.is_some()).collect();
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
    let names = Names::of(report);
    let labels: Vec<String> = cells.iter().map(|cell| names.label(cell)).collect();
    let (x, y) = (Axis::linear((first, last), "block"), Axis::rows(&labels));
    Some(Figure {
        svg: draw(&x, &y, ROW * rows.max(1) as u32, &shapes)?,
        caption: format!(
            "{}: latency of each block, median of visits: the stronger the colour the slower, from {:.2} to \
             {:.2} ms.",
            level.load,
            low as f64 / 1e3,
            high as f64 / 1e3
        ),
        key: Key::new(),
    })
}
