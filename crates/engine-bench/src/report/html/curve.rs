//! The drawing of a response curve.

use super::{
    super::{grid, model::Report},
    chart::{Axis, COLOURS, GOOD, GREY, Shape, draw, span},
    level::Figure,
};
use crate::analyze::Response;

const HEIGHT: u32 = 180;
/// Points that a curve is drawn through.
const POINTS: u32 = 60;

/// Cells, the curve through them, and where it may be highest.
pub(super) fn curve(report: &Report, found: &Response) -> Option<Figure> {
    let (first, last) = found.ends();
    let x_ends = span([first.log10(), last.log10()])?;
    let line: Vec<(f64, f64)> = (0..=POINTS)
        .map(|step| {
            let part = f64::from(step) / f64::from(POINTS);
            let log = first.log10() + part * (last.log10() - first.log10());
            (log, found.at(10f64.powf(log)))
        })
        .collect();
    let mut heights: Vec<f64> = line.iter().map(|(_, height)| *height).collect();
    let mut dots = Vec::new();
    for place in &found.cells {
        let cell = report.cells.iter().find(|cell| cell.id == place.cell)?;
        let estimate = cell.execution_ggas_per_second.as_ref()?;
        let (value, at) = (estimate.value, place.value.log10());
        let title = format!("{}: {value:.4} Ggas/s", cell.id);
        heights.push(value);
        if let (Some(low), Some(high)) = (estimate.low, estimate.high) {
            let width = (x_ends.1 - x_ends.0) / 300.0;
            let title = format!("{title}, {low:.4} to {high:.4}");
            let bar = ((at - width, low), (at + width, high));
            dots.push(Shape::rect(bar, COLOURS[2], title).faint(0.5));
            heights.extend([low, high]);
        }
        dots.push(Shape::dot((at, value), COLOURS[2], title));
    }
    let y_ends = span(heights)?;
    let mut shapes = Vec::new();
    let mut interval = String::new();
    if let (Some(low), Some(high)) = (found.low, found.high) {
        interval = format!(", {low:.0} to {high:.0}");
        let corners = ((low.log10(), y_ends.0), (high.log10(), y_ends.1));
        let title = format!("optimum {low:.0} to {high:.0}");
        shapes.push(Shape::rect(corners, GREY, title).faint(0.2));
    }
    shapes.push(Shape::line(line, GOOD));
    shapes.append(&mut dots);
    let top = (found.optimum.log10(), found.at(found.optimum));
    let title = format!("optimum of the curve: {:.0}{interval}", found.optimum);
    shapes.push(Shape::ring(top, GOOD, title));
    let name = grid::short(&found.axis);
    let x = Axis::logarithmic(x_ends, name);
    Some(Figure {
        svg: draw(&x, &Axis::linear(y_ends, "Ggas/s"), HEIGHT, &shapes)?,
        caption: format!(
            "A parabola over the logarithm of {name}: highest at {:.0}{interval}. Cells are off it by \
             {:.1} %.",
            found.optimum,
            100.0 * found.misfit
        ),
    })
}
