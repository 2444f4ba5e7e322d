//! The first pictures: all gas levels against what was swept, and where the time of blocks goes.
//!
//! Invariant: every cell is drawn as its ratio to the reference of its level, whose interval its verdict rests
//! on, so that levels share an axis and no picture contradicts a verdict.

use super::{
    super::{
        answer::{Percent, difference},
        attribution::grouped,
        model::Report,
        names::Names,
    },
    chart::{Axis, COLOURS, Figure, Form, GREY, Point, Shape, draw, row, span},
};
use crate::{
    analyze::{GROUPS, Level, Summary},
    sweep::{CHUNK_POLICY_FLAG, CHUNK_SIZE_FLAG},
};
use plotters::style::RGBColor;

const HEIGHT: u32 = 220;
const ROW: u32 = 22;
/// Widths of bars, and distances of series that would cover each other, as parts of the whole axis.
const BAR: f64 = 0.005;
const APART: f64 = 0.016;

/// Every cell against the reference of its level: over the values of an axis where they are numbers, else side
/// by side. Nothing where no cell has another to be held against.
pub(super) fn overview(report: &Report) -> Option<Figure> {
    let names = Names::of(report);
    let mut labels = Vec::new();
    for label in report.cells.iter().map(|cell| names.label(cell)) {
        if !labels.contains(&label) {
            labels.push(label);
        }
    }
    let axis = numeric_axis(report, &names);
    let overview = Overview {
        names,
        axis,
        labels,
    };
    overview.drawn()
}

/// The axis with the most values, if they are all numbers.
fn numeric_axis(report: &Report, names: &Names<'_>) -> Option<String> {
    let axes = report.configuration.axes.iter();
    let axes = axes.filter(|axis| names.keys.contains(&axis.flag) && axis.values.len() > 1);
    let is_number = |value: &String| value.parse().is_ok_and(|value: f64| value > 0.0);
    let numeric = axes.filter(|axis| axis.values.iter().all(is_number));
    // Of equally long ones the first.
    let longest = numeric.rev().max_by_key(|axis| axis.values.len());
    longest.map(|axis| axis.flag.clone())
}

struct Overview<'a> {
    names: Names<'a>,
    axis: Option<String>,
    /// The names of all cells, each once.
    labels: Vec<String>,
}

/// Cells that a line joins: of one level, and of one setting of the axes that are not drawn along.
type Series<'a> = (String, &'a Level, Vec<&'a Summary>);

/// A cell beside the reference of its level, in percent.
struct Held {
    at: f64,
    percent: f64,
    ends: Option<Point>,
    is_best: bool,
    title: String,
}

impl<'a> Overview<'a> {
    fn series(&self) -> Vec<Series<'a>> {
        let mut series: Vec<Series<'a>> = Vec::new();
        for level in &self.names.report.levels {
            for cell in self.names.report.cells_of(level) {
                let name = [level.load.to_string(), self.others(cell)].join(" ");
                let name = name.trim_end().to_owned();
                match series.iter_mut().find(|(known, ..)| *known == name) {
                    Some((.., cells)) => cells.push(cell),
                    None => series.push((name, level, vec![cell])),
                }
            }
        }
        series
    }

    /// Values of the axes that are not drawn along.
    fn others(&self, cell: &Summary) -> String {
        let along = self.axis.as_ref();
        let values = self.names.keys.iter().zip(self.names.values(cell));
        let others = values.filter(|(key, _)| along.is_some_and(|along| *key != along));
        let others: Vec<String> = others.map(|(_, value)| value).collect();
        others.join("/")
    }

    /// Where a cell is along the axis.
    fn at(&self, cell: &Summary) -> Option<f64> {
        let Some(axis) = &self.axis else {
            let label = self.names.label(cell);
            let place = self.labels.iter().position(|known| *known == label);
            return place.map(|place| place as f64);
        };
        Some(self.names.value(cell, axis).parse::<f64>().ok()?.log10())
    }

    fn held(&self, level: &Level, cell: &Summary) -> Option<Held> {
        let pair = level.versus.iter().find(|pair| pair.a == cell.id);
        let (percent, ends, said) = match pair.map(|pair| (Percent::of(&pair.ratio), pair)) {
            Some((found, pair)) => (
                found.value,
                found.ends,
                format!("{}: {}", difference(&pair.ratio), pair.verdict),
            ),
            None if level.reference.as_ref() == Some(&cell.id) => {
                (0.0, None, "reference".to_owned())
            }
            None => return None,
        };
        Some(Held {
            at: self.at(cell)?,
            percent,
            ends,
            is_best: level.best.contains(&cell.id),
            title: format!("{}, {}: {said}", level.load, self.names.label(cell)),
        })
    }

    fn drawn(&self) -> Option<Figure> {
        let series = self.series();
        let held = series.iter().map(|(_, level, cells)| -> Vec<Held> {
            let held = cells.iter().filter_map(|cell| self.held(level, cell));
            held.collect()
        });
        let held: Vec<Vec<Held>> = held.collect();
        // A picture of references alone says nothing.
        let mut levels = self.names.report.levels.iter();
        levels.find(|level| !level.versus.is_empty())?;
        let all = || held.iter().flatten();
        let heights = all().flat_map(|held| {
            let (low, high) = held.ends.unwrap_or((held.percent, held.percent));
            [held.percent, low, high]
        });
        let y_ends = span(heights.chain([0.0]))?;
        let defaults = self.defaults();
        let places = all()
            .map(|held| held.at)
            .chain(defaults.iter().map(|(at, _)| *at));
        let (first, last) = span(places)?;
        let wide = last - first;
        let zero = Form::Line(vec![(first, 0.0), (last, 0.0)]);
        let mut shapes = vec![Shape::new(zero, GREY, "")];
        shapes.extend(self.names.report.noise_floor.relative.map(|floor| {
            let [low, high] = [1.0 / (1.0 + floor), 1.0 + floor].map(|end| 100.0 * (end - 1.0));
            let title = format!("noise floor: {:.1} %", 100.0 * floor);
            Shape::new(Form::Box((first, low), (last, high)), GREY, title).faint(0.2)
        }));
        for (at, title) in &defaults {
            let (half, height) = (BAR * wide / 2.0, y_ends.1 - y_ends.0);
            let bar = Form::Box((at - half, y_ends.0), (at + half, y_ends.1));
            shapes.push(Shape::new(bar, GREY, title));
            let beside = Form::Text((at + 4.0 * half, y_ends.0 + 0.1 * height));
            shapes.push(Shape::new(beside, GREY, "default"));
        }
        for (index, held) in held.iter().enumerate() {
            let apart = APART * wide * (index as f64 - (series.len() - 1) as f64 / 2.0);
            shapes.extend(marks(held, COLOURS[index % COLOURS.len()], apart, wide));
        }
        let y = Axis::linear(y_ends, "% to the reference");
        let names = series.into_iter().map(|(name, ..)| name);
        Some(Figure {
            svg: draw(&self.x((first, last)), &y, HEIGHT, &shapes)?,
            caption: "Throughput beside the reference of its level, with simultaneous intervals. Filled: among the \
                      best; ring: slower; grey: the noise floor."
                .to_owned(),
            key: names.zip(COLOURS.iter().cycle().copied()).collect(),
        })
    }

    fn x(&self, ends: Point) -> Axis {
        let Some(axis) = &self.axis else {
            let places = (0u32..).map(f64::from).zip(self.labels.clone());
            return Axis::labelled(ends, places, &self.names.columns().join(" / "));
        };
        let cells = self.names.report.cells.iter();
        let values = cells.map(|cell| self.names.value(cell, axis));
        let mut values: Vec<(f64, String)> = values
            .filter_map(|text| Some((text.parse::<f64>().ok()?.log10(), text)))
            .collect();
        values.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        let unit = match axis.as_str() {
            CHUNK_SIZE_FLAG => "chunk size, targets".to_owned(),
            axis => self.names.column(axis),
        };
        Axis::labelled(ends, values.into_iter(), &unit)
    }

    /// What engines take where the axis is not given, each value once.
    fn defaults(&self) -> Vec<(f64, String)> {
        let mut defaults: Vec<(f64, String)> = Vec::new();
        let report = self.names.report;
        // The default of a chunk size is that of the default policy.
        let has_other = |engine| report.set_of(engine, CHUNK_POLICY_FLAG).is_some();
        for engine in &report.configuration.engines {
            let value = self.axis.as_ref();
            let value = value.filter(|axis| *axis != CHUNK_SIZE_FLAG || !has_other(engine));
            let value = value.and_then(|axis| report.default_of(&engine.name, axis));
            let at = value.and_then(|value| Some(value.parse::<f64>().ok()?.log10()));
            let is_new = |at: &f64| defaults.iter().all(|(known, _)| known != at);
            let at = at.filter(|at| at.is_finite() && is_new(at));
            defaults.extend(at.map(|at| (at, format!("default of {}", engine.name))));
        }
        defaults
    }
}

/// A line through the cells of a series, and each of them with its interval.
fn marks(held: &[Held], colour: RGBColor, apart: f64, wide: f64) -> Vec<Shape> {
    let points = held.iter().map(|held| (held.at + apart, held.percent));
    let mut points: Vec<Point> = points.collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut shapes = vec![Shape::new(Form::Line(points), colour, "").faint(0.6)];
    for held in held {
        let (at, half) = (held.at + apart, BAR * wide / 2.0);
        shapes.extend(held.ends.map(|(low, high)| {
            let bar = Form::Box((at - half, low), (at + half, high));
            Shape::new(bar, colour, &held.title)
        }));
        let mean = if held.is_best { Form::Dot } else { Form::Ring };
        shapes.push(Shape::new(mean((at, held.percent)), colour, &held.title));
    }
    shapes
}

/// Where the time of blocks goes: a bar per cell, cut into groups of phases.
pub(super) fn phases(report: &Report) -> Option<Figure> {
    let names = Names::of(report);
    let told = report.levels.iter().flat_map(|level| {
        let cells = report.cells_of(level);
        cells.filter_map(|cell| {
            let label = format!("{} {}", level.load, names.label(cell));
            Some((label, grouped(cell.attribution.as_ref()?)))
        })
    });
    let told: Vec<_> = told.collect();
    let (mut shapes, mut most) = (Vec::new(), 0.0f64);
    for (index, (label, groups)) in told.iter().enumerate() {
        let (y, mut from) = (row(index, told.len()), 0.0);
        for ((name, ms), colour) in GROUPS.iter().zip(groups).zip(COLOURS) {
            // What a remainder is below zero, clocks differ by.
            let ms = ms.unwrap_or(0.0).max(0.0);
            let bar = Form::Box((from, y - 0.38), (from + ms, y + 0.38));
            let title = format!("{label}: {name} {ms:.2} ms");
            shapes.push(Shape::new(bar, colour, title));
            from += ms;
        }
        most = most.max(from);
    }
    let labels: Vec<String> = told.iter().map(|(label, _)| label.clone()).collect();
    let key = GROUPS.iter().zip(COLOURS).enumerate();
    let key = key.filter(|(index, _)| told.iter().any(|(_, groups)| groups[*index].is_some()));
    let x = Axis::linear((0.0, 1.03 * most.max(1e-9)), "ms a block");
    Some(Figure {
        svg: draw(&x, &Axis::rows(&labels), ROW * labels.len() as u32, &shapes)?,
        caption: "Where the time of a block goes, one phase after another.".to_owned(),
        key: key
            .map(|(_, (name, colour))| ((*name).to_owned(), colour))
            .collect(),
    })
}
