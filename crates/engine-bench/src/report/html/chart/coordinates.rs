//! Where marks land: at the labels of their values, right of smaller ones and above them.

use super::*;

/// The number that an attribute of an element holds.
fn number(element: &str, name: &str) -> f64 {
    let (_, rest) = element.split_once(&format!(" {name}=\"")).unwrap();
    rest.split('"').next().unwrap().parse().unwrap()
}

/// Middles of all dots, in the order they were drawn.
fn dots(svg: &str) -> Vec<Point> {
    let dots = svg.split("<circle").skip(1);
    dots.map(|dot| (number(dot, "cx"), number(dot, "cy")))
        .collect()
}

/// Where the labels with this text are.
fn labels(svg: &str, text: &str) -> Vec<Point> {
    let texts = svg.split("<text").skip(1);
    let end = format!(">\n{text}\n<");
    let found = texts.filter(|label| label.contains(&end));
    found
        .map(|label| (number(label, "x"), number(label, "y")))
        .collect()
}

fn dot(at: f64) -> Shape {
    Shape::new(Form::Dot((at, at)), GOOD, "")
}

/// Rounding may move a mark by a pixel.
fn near(found: f64, expected: f64) -> bool {
    (found - expected).abs() <= 1.0
}

#[test]
fn marks_are_at_their_labels_and_equally_far_apart_to_the_right_and_upwards() {
    for (axis, at) in [
        (Axis::linear as fn(Point, &str) -> Axis, ["1", "2", "3"]),
        (Axis::logarithmic, ["10", "100", "1000"]),
    ] {
        let axis = || axis((0.0, 4.0), "u");
        let svg = draw(&axis(), &axis(), 200, &[1.0, 2.0, 3.0].map(dot)).unwrap();
        let dots = dots(&svg);
        let (right, up) = (dots[1].0 - dots[0].0, dots[0].1 - dots[1].1);
        assert!(right > 50.0 && up > 30.0, "the room is used: {dots:?}");
        assert!(near(dots[2].0 - dots[1].0, right), "{dots:?}");
        assert!(near(dots[1].1 - dots[2].1, up), "{dots:?}");
        for (dot, text) in dots.iter().zip(at) {
            let labels = labels(&svg, text);
            let below = labels.iter().any(|label| near(label.0, dot.0));
            let beside = labels.iter().any(|label| near(label.1, dot.1));
            assert!(below && beside, "{text}: {labels:?}");
        }
    }
}

#[test]
fn rows_are_in_their_order_and_marks_beside_their_names() {
    let names = ["first", "second", "third"].map(str::to_owned);
    let shapes = [0, 1, 2].map(|index| dot(row(index, 3)));
    let (x, y) = (Axis::linear((0.0, 3.0), "x"), Axis::rows(&names));
    let svg = draw(&x, &y, 200, &shapes).unwrap();
    let dots = dots(&svg);
    let descend = dots.is_sorted_by(|above, below| above.1 < below.1);
    assert!(descend, "{dots:?}");
    for (name, dot) in names.iter().zip(dots) {
        assert!(near(labels(&svg, name)[0].1, dot.1), "{name}");
    }
}

#[test]
fn a_box_lies_between_its_corners() {
    let axis = || Axis::linear((0.0, 4.0), "u");
    let corners = Form::Box((1.0, 1.0), (3.0, 3.0));
    let shapes = [dot(1.0), dot(3.0), Shape::new(corners, GREY, "")];
    let svg = draw(&axis(), &axis(), 200, &shapes).unwrap();
    let [low, high] = dots(&svg).try_into().unwrap();
    let found = svg.split("<rect").nth(1).unwrap();
    let found = ["x", "y", "width", "height"].map(|name| number(found, name));
    let expected = [low.0, high.1, high.0 - low.0, low.1 - high.1];
    let mut pairs = found.into_iter().zip(expected);
    assert!(
        pairs.all(|(found, expected)| near(found, expected)),
        "{found:?}"
    );
}
