//! Where marks land: right of smaller values, above smaller ones, and at the labels of their own values.

use super::*;

/// Pixels that rounding may move a mark.
const ROUNDING: f64 = 1.0;

/// The number that an attribute of an element holds.
fn number(element: &str, name: &str) -> f64 {
    let (_, rest) = element.split_once(&format!(" {name}=\"")).unwrap();
    rest.split('"').next().unwrap().parse().unwrap()
}

/// Elements of a kind, each from behind its name to the next one.
fn elements<'s>(svg: &'s str, begin: &'s str) -> impl Iterator<Item = &'s str> {
    svg.split(begin).skip(1)
}

/// Middles of all dots, in the order they were drawn.
fn dots(svg: &str) -> Vec<Point> {
    let middle = |dot| (number(dot, "cx"), number(dot, "cy"));
    elements(svg, "<circle").map(middle).collect()
}

/// Where a label of an axis is.
fn label(svg: &str, text: &str) -> Point {
    let is_it = |element: &&str| {
        let content = element.split_once('>').unwrap().1;
        content.split('<').next().unwrap().trim() == text
    };
    let found = elements(svg, "<text").find(is_it);
    let found = found.unwrap_or_else(|| panic!("no label {text}"));
    (number(found, "x"), number(found, "y"))
}

fn drawn(x: &Axis, y: &Axis, at: &[Point]) -> String {
    let dot = |at: &Point| Shape::dot(*at, GOOD, String::new());
    let shapes: Vec<Shape> = at.iter().map(dot).collect();
    draw(x, y, 200, &shapes).unwrap()
}

fn assert_near(found: f64, expected: f64) {
    let near = (found - expected).abs() <= ROUNDING;
    assert!(near, "{found} is not {expected}");
}

#[test]
fn equal_differences_are_equal_distances_to_the_right_and_upwards() {
    let (x, y) = (
        Axis::linear((0.0, 4.0), "x"),
        Axis::linear((10.0, 50.0), "y"),
    );
    let svg = drawn(
        &x,
        &y,
        &[(0.0, 10.0), (1.0, 20.0), (2.0, 30.0), (4.0, 50.0)],
    );
    let dots = dots(&svg);
    let step = ((dots[3].0 - dots[0].0) / 4.0, (dots[0].1 - dots[3].1) / 4.0);
    assert!(
        step.0 > 50.0 && step.1 > 30.0,
        "the axes are used up: {step:?}"
    );
    for (steps, dot) in [0.0, 1.0, 2.0, 4.0].into_iter().zip(&dots) {
        assert_near(dot.0, dots[0].0 + steps * step.0);
        assert_near(dot.1, dots[0].1 - steps * step.1);
    }
}

#[test]
fn equal_ratios_are_equal_distances_on_a_logarithmic_axis() {
    let x = Axis::logarithmic((0.0, 3.0), "x");
    let at = |value: f64| (value.log10(), 0.5);
    let svg = drawn(
        &x,
        &Axis::linear((0.0, 1.0), "y"),
        &[1.0, 10.0, 100.0, 1000.0].map(at),
    );
    let xs: Vec<f64> = dots(&svg).iter().map(|dot| dot.0).collect();
    assert!(xs[1] - xs[0] > 50.0);
    for pair in xs.windows(2) {
        assert_near(pair[1] - pair[0], xs[1] - xs[0]);
    }
}

#[test]
fn a_mark_is_where_its_value_is_written() {
    let (x, y) = (
        Axis::linear((-1.0, 6.0), "x"),
        Axis::linear((0.1, 0.17), "y"),
    );
    let svg = drawn(&x, &y, &[(2.0, 0.12), (5.0, 0.15)]);
    for (dot, (right, up)) in dots(&svg).into_iter().zip([("2", "0.12"), ("5", "0.15")]) {
        assert_near(label(&svg, right).0, dot.0);
        assert_near(label(&svg, up).1, dot.1);
    }
    let x = Axis::logarithmic((1f64.log10(), 20f64.log10()), "x");
    let svg = drawn(&x, &y, &[(5f64.log10(), 0.12)]);
    assert_near(label(&svg, "5").0, dots(&svg)[0].0);
}

#[test]
fn rows_are_in_their_order_and_marks_beside_their_names() {
    let names = ["first", "second", "third"].map(str::to_owned);
    let at: Vec<Point> = (0..3).map(|index| (0.5, row(index, 3))).collect();
    let svg = drawn(&Axis::linear((0.0, 1.0), "x"), &Axis::rows(&names), &at);
    let dots = dots(&svg);
    assert!(
        dots.is_sorted_by(|above, below| above.1 < below.1),
        "{dots:?}"
    );
    for (name, dot) in names.iter().zip(&dots) {
        assert_near(label(&svg, name).1, dot.1);
    }
}

#[test]
fn a_box_lies_between_its_corners() {
    let axis = || Axis::linear((0.0, 4.0), "u");
    let corners = ((1.0, 1.0), (3.0, 2.0));
    let shapes = [
        Shape::dot(corners.0, GOOD, String::new()),
        Shape::dot(corners.1, GOOD, String::new()),
        Shape::rect(corners, GREY, String::new()),
    ];
    let svg = draw(&axis(), &axis(), 200, &shapes).unwrap();
    let dots = dots(&svg);
    let found = elements(&svg, "<rect").next().unwrap();
    assert_near(number(found, "x"), dots[0].0);
    assert_near(number(found, "y"), dots[1].1);
    assert_near(number(found, "width"), dots[1].0 - dots[0].0);
    assert_near(number(found, "height"), dots[0].1 - dots[1].1);
}
