//! The drawings of the sweep as a whole: order and drift of its visits, and where the time went.

use super::{
    super::{model::Report, visits::VisitReport},
    chart::{Axis, BAD, COLOURS, GOOD, GREY, Shape, draw, row, span},
    level::Figure,
};
use crate::record::Ended;
use plotters::style::RGBColor;

/// Height of a row of the order of visits, in pixels: there may be many.
const ORDER_ROW: u32 = 20;
const TIME_ROW: u32 = 24;
pub(super) const DRIFT_HEIGHT: u32 = 180;

/// Most visits that a drawing shows; of more, every second or third is left out.
const MOST_VISITS: usize = 1_200;

/// What belongs to which colour.
pub(super) type Key = Vec<(String, RGBColor)>;

/// Which cell was visited when.
pub(super) fn order(report: &Report) -> Option<Figure> {
    let mut names: Vec<String> = report.cells.iter().map(|cell| cell.id.clone()).collect();
    for visit in &report.visits {
        if !names.contains(&visit.cell) {
            names.push(visit.cell.clone());
        }
    }
    let rows = names.len();
    let shapes = shown(report).filter_map(|(index, visit)| {
        let y = row(names.iter().position(|name| *name == visit.cell)?, rows);
        let x = index as f64 + 1.0;
        let colour = match visit.ended {
            Ended::Finished => GOOD,
            Ended::Failed => BAD,
            _ => GREY,
        };
        let corners = ((x - 0.45, y - 0.35), (x + 0.45, y + 0.35));
        Some(Shape::rect(corners, colour, title(index, visit)))
    });
    let shapes: Vec<Shape> = shapes.collect();
    let x = Axis::linear((0.5, report.visits.len() as f64 + 0.5), "visit");
    Some(Figure {
        svg: draw(&x, &Axis::rows(&names), ORDER_ROW * rows as u32, &shapes)?,
        caption:
            "Order of the visits. Green: finished; red: failed; grey: void or cut short, and made \
                  again."
                .to_owned(),
    })
}

/// The visits that are drawn, with their place in the order.
pub(super) fn shown(report: &Report) -> impl Iterator<Item = (usize, &VisitReport)> {
    let step = report.visits.len().div_ceil(MOST_VISITS).max(1);
    report.visits.iter().enumerate().step_by(step)
}

pub(super) fn minutes(visit: &VisitReport) -> f64 {
    visit.begun_s / 60.0
}

/// The cell that an A/A control repeats; a cell itself.
pub(super) fn original<'a>(report: &'a Report, id: &'a str) -> &'a str {
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
pub(super) fn drift(report: &Report) -> Option<(Figure, Key)> {
    let level_of = |visit: &VisitReport| {
        let id = original(report, &visit.cell);
        let cell = report.cells.iter().find(|cell| cell.id == id)?;
        report.levels.iter().position(|level| level.is_of(cell))
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
    let figure = Figure {
        svg: draw(&x, &Axis::linear(y, "%"), DRIFT_HEIGHT, &shapes)?,
        caption: "Drift: every visit against the mean of its cell, over time.".to_owned(),
    };
    let levels = report.levels.iter().enumerate();
    let key = levels.map(|(index, level)| (level.load.to_string(), colour(Some(index))));
    Some((figure, key.collect()))
}

/// What the time was spent on.
pub(super) fn time(report: &Report) -> Option<Figure> {
    let time = &report.time_s;
    let parts = [
        ("measured", time.measured),
        ("warm-up", time.warmup),
        ("reset", time.reset),
        ("start", time.start),
        ("stop", time.stop),
        ("wait", time.wait),
        ("void", time.voided),
        ("guard", time.guard),
        ("other", time.other),
    ];
    let names: Vec<String> = parts.iter().map(|(name, _)| (*name).to_owned()).collect();
    let most = parts
        .iter()
        .map(|(_, seconds)| *seconds)
        .fold(0.0, f64::max);
    if most <= 0.0 {
        return None;
    }
    let shapes = parts.iter().enumerate().map(|(index, (name, seconds))| {
        let y = row(index, parts.len());
        let part = 100.0 * seconds / time.wall.max(1e-9);
        let colour = if index < 2 { GOOD } else { GREY };
        let corners = ((0.0, y - 0.35), (*seconds, y + 0.35));
        Shape::rect(
            corners,
            colour,
            format!("{name}: {seconds:.1} s, {part:.1} %"),
        )
    });
    let shapes: Vec<Shape> = shapes.collect();
    let x = Axis::linear((0.0, 1.05 * most), "s");
    Some(Figure {
        svg: draw(
            &x,
            &Axis::rows(&names),
            TIME_ROW * parts.len() as u32,
            &shapes,
        )?,
        caption: "Where the time went. Green: an engine was answering payloads.".to_owned(),
    })
}
