//! Drawing: axes and shapes become an SVG that takes the page's text colour, in a figure with its caption.
//!
//! Invariant: every dot and box has a title with its figures, which browsers show on hovering.
//! A chart is as wide as a phone, so that its text keeps its size there; wide pages put charts side
//! by side.

use super::escape;
use plotters::{
    coord::{
        Shift,
        ranged1d::{DefaultFormatting, KeyPointHint},
    },
    prelude::*,
};
use std::ops::Range;

const WIDTH: u32 = 480;
const MARGIN: u32 = 8;
const X_LABELS: u32 = 40;
const DOT: i32 = 4;
/// Without font metrics plotters takes the size for that of the em square: this is 13 px of text.
const LABELS: (&str, i32) = ("sans-serif", 16);
/// Width of a letter of a label, and the longest label.
const LETTER: u32 = 7;
const LONGEST_NAME: usize = 21;
/// Most numbers that an axis shows.
const TICKS: f64 = 7.0;

/// Legible on white and on black, and told apart by most eyes.
pub(super) const COLOURS: [RGBColor; 8] = [
    GOOD,
    RGBColor(217, 119, 54),
    RGBColor(86, 132, 220),
    RGBColor(190, 90, 170),
    RGBColor(150, 140, 40),
    RGBColor(60, 160, 170),
    RGBColor(150, 110, 90),
    GREY,
];
/// What is among the best, or went well.
pub(super) const GOOD: RGBColor = RGBColor(42, 157, 92);
/// What is there for orientation.
pub(super) const GREY: RGBColor = RGBColor(128, 128, 128);

/// A drawing.
pub(super) struct Figure {
    pub(super) caption: String,
    pub(super) svg: String,
    /// What belongs to which colour.
    pub(super) key: Vec<(String, RGBColor)>,
}

impl Figure {
    /// The drawing as HTML.
    pub(super) fn html(&self) -> String {
        let items = self.key.iter().map(|(name, RGBColor(red, green, blue))| {
            let name = escape(name);
            format!(
                "<span><i style=\"background:#{red:02x}{green:02x}{blue:02x}\"></i>{name}</span>"
            )
        });
        let items: String = items.collect();
        let key = match items.as_str() {
            "" => String::new(),
            items => format!("<p class=\"key\">{items}</p>\n"),
        };
        let caption = escape(&self.caption);
        format!(
            "<figure>\n{key}{}\n<figcaption>{caption}</figcaption>\n</figure>",
            self.svg
        )
    }
}

/// A point in the coordinates of a chart.
pub(super) type Point = (f64, f64);

/// One mark of a chart.
pub(super) struct Shape {
    form: Form,
    colour: RGBColor,
    opacity: f64,
    title: String,
}

/// What it looks like.
pub(super) enum Form {
    /// A filled circle.
    Dot(Point),
    Ring(Point),
    /// A filled rectangle between two opposite corners.
    Box(Point, Point),
    Line(Vec<Point>),
    /// Its title, to the right of a point and below it.
    Text(Point),
}

impl Shape {
    pub(super) fn new(form: Form, colour: RGBColor, title: impl Into<String>) -> Self {
        Self {
            form,
            colour,
            opacity: 1.0,
            title: title.into(),
        }
    }

    /// The same, see-through: 0 is nothing, 1 is solid.
    pub(super) fn faint(self, opacity: f64) -> Self {
        // What is fully see-through is not drawn, and its title would go to the next shape.
        let opacity = opacity.clamp(0.02, 1.0);
        Self { opacity, ..self }
    }

    fn points(&self) -> Vec<Point> {
        match &self.form {
            Form::Dot(at) | Form::Ring(at) | Form::Text(at) => vec![*at],
            Form::Box(from, to) => vec![*from, *to],
            Form::Line(points) => points.clone(),
        }
    }

    fn element(&self) -> &'static str {
        match self.form {
            Form::Dot(_) | Form::Ring(_) => "<circle",
            Form::Box(..) => "<rect",
            Form::Line(_) | Form::Text(_) => "",
        }
    }
}

/// One axis: its ends, what is written along it, and its unit.
pub(super) struct Axis {
    ends: Point,
    ticks: Vec<(f64, String)>,
    unit: String,
}

impl Axis {
    /// Equal distances for equal differences.
    pub(super) fn linear(ends: Point, unit: &str) -> Self {
        let (low, high) = ends;
        let step = nice((high - low) / TICKS);
        let decimals = (-step.log10().floor()).clamp(0.0, 9.0) as usize;
        let first = (low / step).ceil() as i64;
        let last = (high / step).floor() as i64;
        let tick = |index: i64| {
            let at = index as f64 * step;
            (at, format!("{at:.decimals$}"))
        };
        Self {
            ends,
            ticks: (first..=last).map(tick).collect(),
            unit: unit.to_owned(),
        }
    }

    /// Equal distances for equal ratios: coordinates are logarithms to base 10.
    pub(super) fn logarithmic(ends: Point, unit: &str) -> Self {
        let (low, high) = ends;
        let mut steps: Vec<f64> = (low.floor() as i32..=high.ceil() as i32)
            .flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * 10f64.powi(power)))
            .filter(|value| (low..=high).contains(&value.log10()))
            .collect();
        while steps.len() > 8 {
            steps = steps.into_iter().step_by(3).collect();
        }
        if steps.len() < 2 {
            // A narrow range: its ends say more than a round number.
            steps = Vec::from([low, (low + high) / 2.0, high].map(|at| 10f64.powf(at)));
        }
        let text = |value: f64| {
            let decimals = (2.0 - value.log10().floor()).clamp(0.0, 4.0) as usize;
            let text = format!("{value:.decimals$}");
            match text.contains('.') {
                true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
                false => text,
            }
        };
        let ticks = steps.iter().map(|value| (value.log10(), text(*value)));
        Self {
            ends,
            ticks: ticks.collect(),
            unit: unit.to_owned(),
        }
    }

    /// These labels at these places, which ascend; one too close to that before is left out.
    pub(super) fn labelled(
        ends: Point,
        labels: impl Iterator<Item = (f64, String)>,
        unit: &str,
    ) -> Self {
        let mut ticks: Vec<(f64, String)> = Vec::new();
        for (at, label) in labels {
            let near = |(last, _): &(f64, String)| at - last < (ends.1 - ends.0) / 12.0;
            if !ticks.last().is_some_and(near) {
                ticks.push((at, shortened(&label)));
            }
        }
        Self {
            ends,
            ticks,
            unit: unit.to_owned(),
        }
    }

    /// A row for each name, the first on top; the middle of a row is given by [`row`].
    pub(super) fn rows(names: &[String]) -> Self {
        let rows = names.len();
        let tick = |(index, name): (usize, &String)| (row(index, rows), shortened(name));
        Self {
            ends: (0.0, rows.max(1) as f64),
            ticks: names.iter().enumerate().map(tick).collect(),
            unit: String::new(),
        }
    }

    fn text(&self, at: f64) -> String {
        let found = self.ticks.iter().find(|(tick, _)| *tick == at);
        found.map_or_else(String::new, |(_, text)| text.clone())
    }

    fn letters(&self) -> usize {
        let letters = self.ticks.iter().map(|(_, text)| text.chars().count());
        letters.max().unwrap_or(0)
    }
}

impl Ranged for &Axis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        let (low, high) = self.ends;
        let part = (value - low) / (high - low);
        from + (part * f64::from(to - from)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        match hint.weight().allow_light_points() {
            true => Vec::new(),
            false => self.ticks.iter().map(|(at, _)| *at).collect(),
        }
    }

    fn range(&self) -> Range<f64> {
        self.ends.0..self.ends.1
    }
}

/// The middle of a row.
pub(super) fn row(index: usize, rows: usize) -> f64 {
    rows as f64 - index as f64 - 0.5
}

/// The beginning and the end of a name that is too long for the room beside a row.
fn shortened(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    if letters.len() <= LONGEST_NAME {
        return name.to_owned();
    }
    let half = LONGEST_NAME / 2;
    let (begin, end) = (&letters[..half], &letters[letters.len() - half..]);
    begin.iter().chain(&['…']).chain(end).collect()
}

/// The smallest of 1, 2 and 5 times a power of ten that is not below the value.
fn nice(value: f64) -> f64 {
    let power = 10f64.powf(value.max(1e-12).log10().floor());
    let factors = [1.0, 2.0, 5.0, 10.0];
    let found = factors
        .iter()
        .find(|factor| *factor * power >= value * 0.999);
    found.unwrap_or(&10.0) * power
}

/// The smallest and largest value with some air around them; `None` without values.
pub(super) fn span(values: impl IntoIterator<Item = f64>) -> Option<Point> {
    let finite = values.into_iter().filter(|value| value.is_finite());
    let (low, high) = finite.fold((f64::MAX, f64::MIN), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    let air = 0.05 * (high - low).max(1e-3 * high.abs()).max(1e-9);
    (low <= high).then_some((low - air, high + air))
}

/// Draws shapes between two axes; `height` is that of the area they share, in pixels. `None` when
/// there is nothing to draw.
pub(super) fn draw(x: &Axis, y: &Axis, height: u32, shapes: &[Shape]) -> Option<String> {
    let inside = |point: &Point| point.0.is_finite() && point.1.is_finite();
    let shapes: Vec<&Shape> = shapes
        .iter()
        .filter(|shape| shape.points().iter().all(inside))
        .collect();
    if shapes.is_empty() {
        return None;
    }
    let mut svg = String::new();
    {
        let size = (WIDTH, height + X_LABELS + 2 * MARGIN);
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        plot(&root, (x, y), &shapes).ok()?;
        root.present().ok()?;
    }
    titled(&svg.replace("#000000", "currentColor"), &shapes)
}

fn plot(
    root: &DrawingArea<SVGBackend<'_>, Shift>,
    (x, y): (&Axis, &Axis),
    shapes: &[&Shape],
) -> Result<(), Box<dyn std::error::Error>> {
    let unit = if y.unit.is_empty() { 0 } else { 22 };
    let mut chart = ChartBuilder::on(root)
        .margin(MARGIN)
        .margin_right(2 * MARGIN)
        .x_label_area_size(X_LABELS)
        .y_label_area_size(16 + unit + LETTER * y.letters() as u32)
        .build_cartesian_2d(x, y)?;
    let (x_text, y_text) = (|at: &f64| x.text(*at), |at: &f64| y.text(*at));
    let mut mesh = chart.configure_mesh();
    mesh.x_label_formatter(&x_text)
        .y_label_formatter(&y_text)
        .x_desc(x.unit.as_str())
        .label_style(LABELS)
        .axis_desc_style(LABELS);
    if y.unit.is_empty() {
        mesh.disable_y_mesh();
    } else {
        mesh.y_desc(y.unit.as_str());
    }
    mesh.draw()?;
    for shape in shapes {
        let style = shape.colour.mix(shape.opacity);
        match &shape.form {
            Form::Dot(at) => chart.draw_series([Circle::new(*at, DOT, style.filled())])?,
            Form::Ring(at) => chart.draw_series([Circle::new(*at, DOT, style.stroke_width(2))])?,
            Form::Box(from, to) => {
                chart.draw_series([Rectangle::new([*from, *to], style.filled())])?
            }
            Form::Line(points) => {
                chart.draw_series([PathElement::new(points.clone(), style.stroke_width(1))])?
            }
            Form::Text(at) => {
                let font = LABELS.into_font().color(&shape.colour);
                chart.draw_series([Text::new(shape.title.clone(), *at, font)])?
            }
        };
    }
    Ok(())
}

/// Gives the shapes their titles, in the order they were drawn. Axes have no dot or box.
fn titled(svg: &str, shapes: &[&Shape]) -> Option<String> {
    let mut text = String::with_capacity(2 * svg.len());
    let mut rest = svg;
    for shape in shapes {
        let element = shape.element();
        if element.is_empty() {
            continue;
        }
        let at = rest.find(element)?;
        let end = at + rest[at..].find("/>")?;
        text.push_str(&rest[..end]);
        let name = &element[1..];
        text.push_str(&format!(
            "><title>{}</title></{name}>",
            escape(&shape.title)
        ));
        rest = &rest[end + 2..];
    }
    text.push_str(rest);
    Some(text)
}

#[cfg(test)]
mod coordinates;
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_show_round_numbers() {
        let texts =
            |axis: Axis| -> Vec<String> { axis.ticks.into_iter().map(|(_, text)| text).collect() };
        let linear = |low, high| texts(Axis::linear((low, high), ""));
        assert_eq!(
            linear(-2.6, 7.9),
            ["-2.0", "0.0", "2.0", "4.0", "6.0"].map(|text| text.replace(".0", ""))
        );
        assert_eq!(linear(0.1312, 0.1519), ["0.135", "0.140", "0.145", "0.150"]);
        let logarithmic =
            |low: f64, high: f64| texts(Axis::logarithmic((low.log10(), high.log10()), ""));
        assert_eq!(logarithmic(0.9, 30.0), ["1", "2", "5", "10", "20"]);
        assert_eq!(logarithmic(10.1, 10.3).len(), 3);
    }

    #[test]
    fn titles_go_to_their_shapes_in_order() {
        let shapes = [
            Shape::new(Form::Line(vec![(0.0, 0.0), (1.0, 1.0)]), GREY, ""),
            Shape::new(Form::Dot((0.5, 0.5)), GOOD, "a <dot>"),
            Shape::new(Form::Box((0.0, 0.0), (1.0, 1.0)), GREY, "a box").faint(0.0),
            Shape::new(Form::Dot((0.1, f64::NAN)), GOOD, "nowhere"),
            Shape::new(Form::Ring((0.2, 0.2)), GOOD, "a ring"),
        ];
        let axis = || Axis::linear((0.0, 1.0), "u");
        let svg = draw(&axis(), &axis(), 100, &shapes).unwrap();
        let title_of = |element: &str| -> Vec<String> {
            svg.split(element)
                .skip(1)
                .map(|part| {
                    let (_, title) = part.split_once("<title>").unwrap();
                    title.split_once("</title>").unwrap().0.to_owned()
                })
                .collect()
        };
        assert_eq!(title_of("<circle"), ["a &lt;dot&gt;", "a ring"]);
        assert_eq!(title_of("<rect"), ["a box"]);
        assert!(!svg.contains("nowhere") && !svg.contains("#000000"));
    }

    #[test]
    fn long_names_keep_both_ends() {
        assert_eq!(shortened("chunk15"), "chunk15");
        let found = shortened("engine-bench-storage-worker-count16-chunk240");
        assert_eq!(found, "engine-ben…6-chunk240");
    }
}
