//! The first picture: all gas levels against the axis that was swept, and where the time of blocks goes.
//!
//! Invariant: every cell is drawn as its ratio to the reference of its level, whose interval its verdict rests
//! on, so that levels share an axis and no picture contradicts a verdict.

use super::{
    super::{
        answer::difference,
        attribution::{GROUPS, grouped},
        model::{CellReport, Report},
        names::Names,
    },
    chart::{Axis, COLOURS, GREY, Point, Shape, draw, row, span},
    figure::{Figure, Key},
};
use crate::{
    analyze::{Level, Verdict},
    figures,
    sweep::CHUNK_SIZE_FLAG,
};
use plotters::style::RGBColor;

const HEIGHT: u32 = 220;
const ROW: u32 = 22;
/// Points that a curve is drawn through.
const POINTS: u32 = 60;
/// Widths of bars, and distances of series that would cover each other, as parts of the whole axis.
const BAR: f64 = 0.0025;
const APART: f64 = 0.016;
/// Most rounds of a cell that are drawn; of more, every second or third is left out.
const MOST_DOTS: usize = 60;

/// Every cell against the reference of its level: over the values of an axis where they are numbers, else a row
/// each. Nothing where no cell has another to be held against.
pub(super) fn overview(report: &Report) -> Option<Figure> {
    let names = Names::of(report);
    let overview = Overview {
        axis: numeric_axis(report, &names),
        series: Vec::new(),
        report,
        names: &names,
    };
    overview.with_series().drawn()
}

/// The axis with the most values, if they are all numbers.
fn numeric_axis(report: &Report, names: &Names) -> Option<String> {
    let axes = report.configuration.axes.iter();
    let axes = axes.filter(|axis| names.keys().contains(&axis.flag) && axis.values.len() > 1);
    let is_number = |value: &String| value.parse().is_ok_and(|value: f64| value > 0.0);
    let numeric = axes.filter(|axis| axis.values.iter().all(is_number));
    numeric
        .max_by_key(|axis| axis.values.len())
        .map(|axis| axis.flag.clone())
}

/// Cells of a level that are drawn alike: they differ in the numeric axis alone.
struct Series<'a> {
    name: String,
    level: &'a Level,
    cells: Vec<&'a CellReport>,
}

struct Overview<'a> {
    report: &'a Report,
    names: &'a Names,
    axis: Option<String>,
    series: Vec<Series<'a>>,
}

/// A cell beside the reference, in percent.
struct Held<'a> {
    cell: &'a CellReport,
    percent: f64,
    ends: Option<(f64, f64)>,
    is_best: bool,
    title: String,
    rounds: Vec<f64>,
}

fn percent(ratio: f64) -> f64 {
    100.0 * (ratio - 1.0)
}

impl<'a> Overview<'a> {
    /// A series for each level and setting of the other axes; for each level where that are too many, or there is
    /// no numeric axis.
    fn with_series(mut self) -> Self {
        self.series = self.split(true);
        if self.axis.is_none() || self.series.len() > COLOURS.len() {
            self.axis = None;
            self.series = self.split(false);
        }
        self
    }

    fn split(&self, by_setting: bool) -> Vec<Series<'a>> {
        let mut series: Vec<Series<'a>> = Vec::new();
        for level in &self.report.levels {
            let cells = self.report.cells.iter().filter(|cell| level.is_of(cell));
            for cell in cells.filter(|cell| cell.execution_ggas_per_second.is_some()) {
                let name = match self.others(cell) {
                    others if by_setting && !others.is_empty() => {
                        format!("{} {others}", level.load)
                    }
                    _ => level.load.to_string(),
                };
                match series.iter_mut().find(|series| series.name == name) {
                    Some(series) => series.cells.push(cell),
                    None => series.push(Series {
                        name,
                        level,
                        cells: vec![cell],
                    }),
                }
            }
        }
        series
    }

    /// Values of the axes that are not drawn along.
    fn others(&self, cell: &CellReport) -> String {
        let values = self.names.keys().iter().zip(self.names.values(cell));
        let others = values.filter(|(key, _)| Some(*key) != self.axis.as_ref());
        let several = |(key, _): &(&String, _)| {
            let mut axes = self.report.configuration.axes.iter();
            axes.all(|axis| axis.flag != **key || axis.values.len() > 1)
        };
        let others: Vec<String> = others.filter(several).map(|(_, value)| value).collect();
        match self.names.keys().len() {
            1 => String::new(),
            _ => others.join("/"),
        }
    }

    /// Cells of a series beside the reference of their level.
    fn held(&self, series: &Series<'a>) -> Vec<Held<'a>> {
        let level = series.level;
        let reference = level.reference.as_ref().and_then(|id| self.report.cell(id));
        let held = |cell: &&'a CellReport| {
            let label = self.names.label(cell);
            let name = format!("{}, {label}", level.load);
            let is_best = level.best.contains(&cell.id);
            let rounds = reference.map(|reference| rounds_beside(cell, reference));
            let rounds = rounds.unwrap_or_default();
            if level.reference.as_ref() == Some(&cell.id) {
                return Some(Held {
                    cell,
                    percent: 0.0,
                    ends: None,
                    is_best,
                    title: format!("{name}: reference"),
                    rounds: Vec::new(),
                });
            }
            let pair = level.versus.iter().find(|pair| pair.a == cell.id)?;
            let ends = pair.ratio.ends().filter(|ends| figures::is_telling(*ends));
            Some(Held {
                cell,
                percent: percent(pair.ratio.value),
                ends: ends.map(|(low, high)| (percent(low), percent(high))),
                is_best: is_best || pair.verdict == Verdict::Faster,
                title: format!("{name}: {}: {}", difference(&pair.ratio), pair.verdict),
                rounds,
            })
        };
        series.cells.iter().filter_map(held).collect()
    }

    fn drawn(&self) -> Option<Figure> {
        if self
            .report
            .levels
            .iter()
            .all(|level| level.versus.is_empty())
        {
            return None;
        }
        let held: Vec<Vec<Held<'a>>> = self.series.iter().map(|series| self.held(series)).collect();
        let figures = held.iter().flatten().flat_map(|held| {
            let (low, high) = held.ends.unwrap_or((held.percent, held.percent));
            [held.percent, low, high]
        });
        let ends = span(figures.chain([0.0]))?;
        match &self.axis {
            Some(axis) => self.along(axis, &held, ends),
            None => self.rows(&held, ends),
        }
    }

    fn key(&self) -> Key {
        let names = self.series.iter().map(|series| series.name.clone());
        names.zip(COLOURS.iter().cycle().copied()).collect()
    }

    /// Over the values of a numeric axis.
    fn along(&self, axis: &str, held: &[Vec<Held<'_>>], ends: Point) -> Option<Figure> {
        let value = |cell: &CellReport| {
            cell.axes
                .get(axis)?
                .to_string()
                .trim_matches('"')
                .parse::<f64>()
                .ok()
        };
        let mut values: Vec<f64> = held
            .iter()
            .flatten()
            .filter_map(|held| value(held.cell))
            .collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        let defaults = self.defaults(axis);
        let all = values.iter().chain(defaults.iter().map(|(value, _)| value));
        let x_ends = span(all.map(|value| value.log10()))?;
        let wide = x_ends.1 - x_ends.0;
        let mut shapes = self.floor(|low, high| ((x_ends.0, low), (x_ends.1, high)));
        shapes.push(Shape::line(vec![(x_ends.0, 0.0), (x_ends.1, 0.0)], GREY));
        for (value, title) in &defaults {
            let at = value.log10();
            let bar = (
                (at - BAR * wide / 2.0, ends.0),
                (at + BAR * wide / 2.0, ends.1),
            );
            shapes.push(Shape::rect(bar, GREY, title.clone()));
            shapes.push(Shape::text(
                (at + 0.01 * wide, ends.0 + 0.1 * (ends.1 - ends.0)),
                "default".to_owned(),
            ));
        }
        for (index, (series, held)) in self.series.iter().zip(held).enumerate() {
            let colour = COLOURS[index % COLOURS.len()];
            let apart = APART * wide * (index as f64 - (self.series.len() - 1) as f64 / 2.0);
            let means = held
                .iter()
                .filter_map(|held| Some((value(held.cell)?.log10() + apart, held.percent)));
            let mut means: Vec<Point> = means.collect();
            means.sort_by(|a, b| a.0.total_cmp(&b.0));
            let line = self.curve(axis, series).unwrap_or(means);
            shapes.push(Shape::line(line, colour).faint(0.6));
            for held in held {
                let Some(at) = value(held.cell).map(|value| value.log10() + apart) else {
                    // An engine without the axis is the same at all its values.
                    let line = vec![(x_ends.0, held.percent), (x_ends.1, held.percent)];
                    shapes.push(Shape::line(line, colour));
                    continue;
                };
                shapes.extend(marks(held, colour, |percent, width| {
                    (at + width * wide, percent)
                }));
            }
        }
        let unit = match axis {
            CHUNK_SIZE_FLAG => "chunk size, targets".to_owned(),
            axis => self.names.column(axis),
        };
        let x = Axis::values(x_ends, &values, &unit);
        let y = Axis::linear(ends, "% to the reference");
        Some(self.figure(
            draw(&x, &y, HEIGHT, &shapes)?,
            match defaults.is_empty() {
                true => "",
                false => "line: engine's default; ",
            },
        ))
    }

    /// A row for each setting.
    fn rows(&self, held: &[Vec<Held<'_>>], ends: Point) -> Option<Figure> {
        let mut labels: Vec<String> = Vec::new();
        for held in held.iter().flatten() {
            let label = self.names.label(held.cell);
            if !labels.contains(&label) {
                labels.push(label);
            }
        }
        let rows = labels.len();
        let mut shapes = self.floor(|low, high| ((low, 0.0), (high, rows as f64)));
        shapes.push(Shape::line(vec![(0.0, 0.0), (0.0, rows as f64)], GREY));
        let step = 0.6 / held.len().max(1) as f64;
        for (index, held) in held.iter().enumerate() {
            let colour = COLOURS[index % COLOURS.len()];
            for held in held {
                let place = labels
                    .iter()
                    .position(|label| *label == self.names.label(held.cell))?;
                let y = row(place, rows) + step * ((held_middle(self.series.len())) - index as f64);
                shapes.extend(marks(held, colour, |percent, width| {
                    (percent, y + width * rows as f64 / 2.0)
                }));
            }
        }
        let x = Axis::linear(ends, "% to the reference");
        let height = ROW * (rows * held.len().clamp(1, 3)) as u32;
        Some(self.figure(draw(&x, &Axis::rows(&labels), height, &shapes)?, ""))
    }

    fn figure(&self, svg: String, default: &str) -> Figure {
        Figure {
            caption: format!(
                "Throughput beside the reference of its level, with simultaneous intervals. Filled: among the best; ring: \
                 slower; faint: single rounds; {default}grey band: noise floor."
            ),
            svg,
            key: self.key(),
        }
    }

    fn floor(&self, corners: impl Fn(f64, f64) -> (Point, Point)) -> Vec<Shape> {
        let floor = self.report.noise_floor.relative.map(|floor| {
            let (low, high) = (percent(1.0 / (1.0 + floor)), percent(1.0 + floor));
            let title = format!("noise floor: {low:+.1} to {high:+.1} %");
            Shape::rect(corners(low, high), GREY, title).faint(0.2)
        });
        floor.into_iter().collect()
    }

    /// What engines take where the axis is not given, each value once.
    fn defaults(&self, axis: &str) -> Vec<(f64, String)> {
        let mut defaults: Vec<(f64, String)> = Vec::new();
        for engine in &self.report.configuration.engines {
            let value = self.report.default_of(&engine.name, axis);
            let value = value.and_then(|value| value.parse::<f64>().ok());
            let known = |value: &f64| defaults.iter().any(|(known, _)| known == value);
            if let Some(value) = value.filter(|value| *value > 0.0 && !known(value)) {
                defaults.push((value, format!("default of {}: {value}", engine.name)));
            }
        }
        defaults
    }

    /// The curve through a series, where there is one.
    fn curve(&self, axis: &str, series: &Series<'_>) -> Option<Vec<Point>> {
        let of_series = |id: &str| series.cells.iter().any(|cell| cell.id == id);
        let mut curves = series.level.curves.iter();
        let curve = curves.find(|curve| {
            curve.axis == axis && curve.cells.iter().all(|place| of_series(&place.cell))
        })?;
        let reference = self.report.cell(series.level.reference.as_ref()?)?;
        let reference = reference.execution_ggas_per_second.as_ref()?.value;
        let (first, last) = curve.ends();
        let point = |step| {
            let part = f64::from(step) / f64::from(POINTS);
            let value = first * (last / first).powf(part);
            (value.log10(), percent(curve.at(value) / reference))
        };
        Some((0..=POINTS).map(point).collect())
    }
}

/// The middle of so many places, counted from 0.
fn held_middle(places: usize) -> f64 {
    (places.max(1) - 1) as f64 / 2.0
}

/// Ratios of the rounds that both cells have.
fn rounds_beside(cell: &CellReport, reference: &CellReport) -> Vec<f64> {
    let step = cell.rounds.len().div_ceil(MOST_DOTS).max(1);
    let beside = cell.rounds.iter().step_by(step).filter_map(|round| {
        let mut others = reference.rounds.iter();
        let other = others.find(|other| other.round == round.round)?;
        Some(percent(round.ggas_per_second / other.ggas_per_second))
    });
    beside.collect()
}

/// A cell: its rounds, its interval and its mean; `at` places a percentage and a distance beside it.
fn marks(held: &Held<'_>, colour: RGBColor, at: impl Fn(f64, f64) -> Point) -> Vec<Shape> {
    let rounds = held.rounds.iter().enumerate().map(|(index, round)| {
        let title = format!("{}; a round: {round:+.1} %", held.title);
        let aside = if index % 2 == 0 { APART } else { -APART };
        Shape::dot(at(*round, aside / 2.0), colour, title).faint(0.25)
    });
    let mut shapes: Vec<Shape> = rounds.collect();
    shapes.extend(held.ends.map(|(low, high)| {
        let corners = (at(low, -BAR), at(high, BAR));
        Shape::rect(corners, colour, held.title.clone())
    }));
    let mean = if held.is_best {
        Shape::dot
    } else {
        Shape::ring
    };
    shapes.push(mean(at(held.percent, 0.0), colour, held.title.clone()));
    shapes
}

/// Where the time of blocks goes: a bar per cell, cut into groups of phases.
pub(super) fn phases(report: &Report) -> Option<Figure> {
    let names = Names::of(report);
    let several = report.levels.len() > 1;
    let cells = report.levels.iter().flat_map(|level| {
        let cells = report.cells.iter().filter(|cell| level.is_of(cell));
        cells.map(move |cell| (level, cell))
    });
    let told = cells.filter_map(|(level, cell)| {
        let label = match several {
            true => format!("{} {}", level.load, names.label(cell)),
            false => names.label(cell),
        };
        Some((label, grouped(cell.attribution.as_ref()?)))
    });
    let told: Vec<_> = told.collect();
    let rows = told.len();
    let mut shapes = Vec::new();
    let mut most = 0.0f64;
    for (index, (label, groups)) in told.iter().enumerate() {
        let (y, mut from) = (row(index, rows), 0.0);
        for (((name, _), ms), colour) in GROUPS.iter().zip(groups).zip(COLOURS) {
            // What a remainder is below zero, clocks differ by.
            let Some(ms) = ms.filter(|ms| *ms > 0.0) else {
                continue;
            };
            let corners = ((from, y - 0.38), (from + ms, y + 0.38));
            shapes.push(Shape::rect(
                corners,
                colour,
                format!("{label}: {name} {ms:.2} ms"),
            ));
            from += ms;
        }
        most = most.max(from);
    }
    let labels: Vec<String> = told.iter().map(|(label, _)| label.clone()).collect();
    let is_told = |index: usize| told.iter().any(|(_, groups)| groups[index].is_some());
    let key = GROUPS.iter().zip(COLOURS).enumerate();
    let key = key.filter(|(index, _)| is_told(*index));
    let x = Axis::linear((0.0, 1.03 * most.max(1e-9)), "ms a block");
    Some(Figure {
        svg: draw(&x, &Axis::rows(&labels), ROW * rows as u32, &shapes)?,
        caption: "Where the time of a block goes, one phase after another.".to_owned(),
        key: key
            .map(|(_, ((name, _), colour))| ((*name).to_owned(), colour))
            .collect(),
    })
}
