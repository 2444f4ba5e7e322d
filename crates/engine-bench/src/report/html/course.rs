//! The drawings of the sweep as a whole: what rounds bought, how visits and the machine drifted, and latencies
//! block by block.

use super::{
    super::{model::Report, names::Names, visits::VisitReport},
    chart::{Axis, COLOURS, Figure, Form, GREY, Shape, draw, row, span},
};
use crate::analyze::{Blocks, Level, Summary, Width};

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
        let mut widths = report.widths.iter();
        let widths = widths.find(|widths| widths.load == level.load);
        let rounds = widths.map_or(&[][..], |widths| &widths.rounds);
        let log = |part: f64| (100.0 * part).max(LEAST).log10();
        let (load, mut points) = (&level.load, Vec::new());
        for Width { round, half } in rounds {
            let at = (*round as f64, log(*half));
            let title = format!("{load}, after round {round}: ±{:.2} %", 100.0 * half);
            shapes.push(Shape::new(Form::Dot(at), colour, title));
            points.push(at);
            figures.push(at.1);
            last = last.max(*round);
        }
        shapes.push(Shape::new(Form::Line(points), colour, ""));
        for (round, gap) in gaps(report, level) {
            let title = format!("{load}, round {round}: A/A control {:+.2} %", 100.0 * gap);
            let gap = log(gap.abs());
            shapes.push(Shape::new(Form::Ring((round as f64, gap)), colour, title));
            figures.push(gap);
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
        let original = report.cell(&control.of).into_iter();
        original.flat_map(|cell| &cell.rounds).filter_map(|first| {
            let mut visits = report.visits.iter().rev();
            let again =
                |visit: &&VisitReport| visit.cell == control.id && visit.round == first.round;
            let again = visits.find(again)?.ggas_per_second?;
            Some((first.round, again / first.ggas_per_second - 1.0))
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
        let id = report.original(&visit.cell);
        let mut levels = report.levels.iter();
        levels.position(|level| report.is_of(level, id))
    };
    let known = || shown(report).filter_map(|(index, visit)| Some((index, visit, visit.relative?)));
    known().find(|(_, visit, _)| visit.round > 1)?;
    let ends = span(known().map(|(_, visit, _)| minutes(visit)))?;
    let x = Axis::linear(ends, "minutes");
    let y = span(known().map(|(.., relative)| 100.0 * relative).chain([0.0]))?;
    let colour = |level: Option<usize>| level.map_or(GREY, |level| COLOURS[level % COLOURS.len()]);
    let mut shapes: Vec<Shape> = known()
        .map(|(index, visit, relative)| {
            let at = (minutes(visit), 100.0 * relative);
            Shape::new(Form::Dot(at), colour(level_of(visit)), title(index, visit)).faint(0.8)
        })
        .collect();
    let zero = Form::Line(vec![(ends.0, 0.0), (ends.1, 0.0)]);
    shapes.push(Shape::new(zero, GREY, ""));
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
    let told = cells.filter_map(|cell| Some((cell, cell.blocks.as_ref()?)));
    let told: Vec<(&Summary, &Blocks)> = told.collect();
    let times = || told.iter().flat_map(|(_, blocks)| &blocks.median_us);
    let [low, high] = [*times().min()?, *times().max()?].map(|us| us.max(1) as f64);
    let range = (high / low).ln().max(1e-9);
    let mut shapes = Vec::new();
    let (mut first, mut last) = (f64::MAX, f64::MIN);
    for (index, (cell, blocks)) in told.iter().enumerate() {
        let (y, step) = (row(index, told.len()), blocks.blocks_per_entry);
        for (entry, us) in (0u64..).zip(&blocks.median_us) {
            let from = blocks.first_block + entry * step;
            let (left, right) = (from as f64, (from + step) as f64);
            let which = match step {
                1 => format!("block {from}"),
                _ => format!("blocks {from} to {}", from + step - 1),
            };
            let title = format!("{}, {which}: {:.2} ms", cell.id, *us as f64 / 1e3);
            let shade = ((*us).max(1) as f64 / low).ln() / range;
            let strip = Form::Box((left, y - 0.42), (right, y + 0.42));
            shapes.push(Shape::new(strip, COLOURS[2], title).faint(0.06 + 0.94 * shade));
            (first, last) = (first.min(left), last.max(right));
        }
    }
    let names = Names::of(report);
    let labels: Vec<String> = told.iter().map(|(cell, _)| names.label(cell)).collect();
    let (x, y) = (Axis::linear((first, last), "block"), Axis::rows(&labels));
    Some(Figure {
        svg: draw(&x, &y, ROW * told.len() as u32, &shapes)?,
        caption: format!(
            "{}: latency of each block, median of visits: the stronger the colour the slower, from {:.2} to \
             {:.2} ms.",
            level.load,
            low / 1e3,
            high / 1e3
        ),
        key: Vec::new(),
    })
}
