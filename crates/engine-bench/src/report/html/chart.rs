//! The drawings of `report.html`, as SVG that takes the page's text colour.
//!
//! Invariant: every dot has a title with its figures, which browsers show on hovering.

use super::{
    super::model::{CellReport, LevelReport, Report},
    escape,
};
use plotters::{coord::Shift, prelude::*};

const WIDTH: u32 = 880;
const ROW: u32 = 28;
const FRAME: u32 = 70;
const NAMES: u32 = 190;
const DOT: i32 = 4;
/// Without font metrics the size is that of the em square: this is 13 px of text.
const LABELS: (&str, i32) = ("sans-serif", 20);
/// Legible on white and on black.
const COLOURS: [RGBColor; 6] = [
    RGBColor(42, 157, 92),
    RGBColor(217, 119, 54),
    RGBColor(86, 132, 220),
    RGBColor(190, 90, 170),
    RGBColor(150, 140, 40),
    RGBColor(60, 160, 170),
];

/// A dot of a chart with one row per cell.
struct Mark {
    row: usize,
    x: f64,
    title: String,
    /// Ends of a bar through the dot.
    bar: Option<(f64, f64)>,
}

/// Every cell against the highest; `None` without intervals.
pub(super) fn intervals(level: &LevelReport) -> Option<String> {
    let percent = |ratio: f64| 100.0 * (ratio - 1.0);
    let names: Vec<String> = level
        .versus_best
        .iter()
        .map(|versus| versus.cell.clone())
        .collect();
    let marks = level.versus_best.iter().enumerate().map(|(row, versus)| {
        let (low, high) = (versus.ratio.low?, versus.ratio.high?);
        Some(Mark {
            row,
            x: percent(versus.ratio.value),
            title: format!(
                "{}: {:+.2} %, {:+.2} to {:+.2} %",
                versus.cell,
                percent(versus.ratio.value),
                percent(low),
                percent(high)
            ),
            bar: Some((percent(low), percent(high))),
        })
    });
    rows(
        &names,
        &marks.collect::<Option<Vec<_>>>()?,
        "% against the highest",
    )
}

/// Latencies of every cell: a dot at the median, a bar to the 99th percentile, a dot at the longest.
pub(super) fn latencies(report: &Report, level: &LevelReport) -> Option<String> {
    let cells = cells(report, level);
    let names: Vec<String> = cells.iter().map(|cell| cell.id.clone()).collect();
    let mut marks = Vec::new();
    for (row, cell) in cells.iter().enumerate() {
        let latency = cell.latency_us?;
        let ms = |us: f64| us / 1e3;
        let title = format!(
            "{}: median {:.2} ms, p90 {:.2}, p99 {:.2}, longest {:.2}",
            cell.id,
            ms(latency.p50),
            ms(latency.p90),
            ms(latency.p99),
            ms(latency.max)
        );
        for (x, bar) in [
            (ms(latency.p50), Some((ms(latency.p50), ms(latency.p99)))),
            (ms(latency.max), None),
        ] {
            let title = title.clone();
            marks.push(Mark { row, x, title, bar });
        }
    }
    rows(&names, &marks, "ms a payload")
}

/// A chart with a named row per cell.
fn rows(names: &[String], marks: &[Mark], unit: &str) -> Option<String> {
    if names.is_empty() {
        return None;
    }
    let ends = marks.iter().flat_map(|mark| {
        let (low, high) = mark.bar.unwrap_or((mark.x, mark.x));
        [low, high, mark.x]
    });
    let (low, high) = span(ends.chain([0.0]))?;
    // A row of its own has no extent for plotters: it gets an empty one below it.
    let slots = names.len().max(2);
    let height = FRAME + ROW * slots as u32;
    let titles: Vec<&str> = marks.iter().map(|mark| mark.title.as_str()).collect();
    draw(height, &titles, |root| {
        let top = slots as i32 - 1;
        let mut chart = ChartBuilder::on(root)
            .margin(10)
            .x_label_area_size(40)
            .y_label_area_size(NAMES)
            .build_cartesian_2d(low..high, (0..top).into_segmented())?;
        let name = |at: &SegmentValue<i32>| match at {
            SegmentValue::CenterOf(row) | SegmentValue::Exact(row) => {
                let name = usize::try_from(top - *row)
                    .ok()
                    .and_then(|row| names.get(row));
                name.cloned().unwrap_or_default()
            }
            SegmentValue::Last => String::new(),
        };
        chart
            .configure_mesh()
            .disable_y_mesh()
            .max_light_lines(0)
            .y_labels(slots)
            .y_label_formatter(&name)
            .x_desc(unit)
            .label_style(LABELS)
            .draw()?;
        let zero = [(0.0, SegmentValue::Exact(0)), (0.0, SegmentValue::Last)];
        chart.draw_series([PathElement::new(zero, BLACK)])?;
        for mark in marks {
            let colour = COLOURS[mark.row % COLOURS.len()];
            let at = SegmentValue::CenterOf(top - mark.row as i32);
            if let Some((low, high)) = mark.bar {
                let ends = [(low, at.clone()), (high, at.clone())];
                chart.draw_series([PathElement::new(ends, colour.stroke_width(2))])?;
            }
            chart.draw_series([Circle::new((mark.x, at), DOT, colour.filled())])?;
        }
        Ok(())
    })
}

/// Throughput of every visit, in the order of rounds; `None` with one round.
pub(super) fn rounds(report: &Report, level: &LevelReport) -> Option<String> {
    let cells = cells(report, level);
    let all = || cells.iter().flat_map(|cell| &cell.rounds);
    let last = all()
        .map(|round| round.round)
        .max()
        .filter(|last| *last > 1)?;
    let (low, high) = span(all().map(|round| round.ggas_per_second))?;
    let titles: Vec<String> = cells
        .iter()
        .flat_map(|cell| {
            cell.rounds.iter().map(|round| {
                format!(
                    "{}, round {}: {:.4} Ggas/s",
                    cell.id, round.round, round.ggas_per_second
                )
            })
        })
        .collect();
    let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
    draw(240, &titles, |root| {
        let mut chart = ChartBuilder::on(root)
            .margin(10)
            .x_label_area_size(40)
            .y_label_area_size(70)
            .build_cartesian_2d(0.5..last as f64 + 0.5, low..high)?;
        chart
            .configure_mesh()
            .max_light_lines(0)
            .x_labels(last.min(20) as usize)
            .x_label_formatter(&|round| format!("{round:.0}"))
            .x_desc("round")
            .label_style(LABELS)
            .y_desc("Ggas/s")
            .draw()?;
        for (index, cell) in cells.iter().enumerate() {
            let colour = COLOURS[index % COLOURS.len()];
            let at = |round: &super::super::model::RoundReport| {
                (round.round as f64, round.ggas_per_second)
            };
            let line: Vec<(f64, f64)> = cell.rounds.iter().map(at).collect();
            chart.draw_series([PathElement::new(line.clone(), colour.mix(0.5))])?;
            let dots = line
                .into_iter()
                .map(|at| Circle::new(at, DOT, colour.filled()));
            chart.draw_series(dots)?;
        }
        Ok(())
    })
}

fn cells<'a>(report: &'a Report, level: &LevelReport) -> Vec<&'a CellReport> {
    let of_level = |cell: &&CellReport| level.is_of(cell);
    let measured = |cell: &&CellReport| cell.execution_ggas_per_second.is_some();
    report
        .cells
        .iter()
        .filter(of_level)
        .filter(measured)
        .collect()
}

/// The smallest and largest value with some air around them.
fn span(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let (low, high) = values
        .filter(|value| value.is_finite())
        .fold((f64::MAX, f64::MIN), |(low, high), value| {
            (low.min(value), high.max(value))
        });
    let air = 0.05 * (high - low).max(1e-3);
    (low <= high).then_some((low - air, high + air))
}

type Root<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Draws into text. The dots get their titles in the order they were drawn.
fn draw(
    height: u32,
    titles: &[&str],
    on: impl FnOnce(&Root<'_>) -> Result<(), Box<dyn std::error::Error>>,
) -> Option<String> {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        on(&root).ok()?;
        root.present().ok()?;
    }
    let svg = svg.replace("#000000", "currentColor");
    let mut titles = titles.iter();
    let mut parts = svg.split("<circle");
    let mut titled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let title = titles.next().map_or(String::new(), |title| escape(title));
        let (circle, rest) = part.split_once("/>")?;
        titled.push_str(&format!(
            "<circle{circle}><title>{title}</title></circle>{rest}"
        ));
    }
    Some(titled)
}
