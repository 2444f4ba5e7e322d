//! The drawings of what surrounds the engine: how the machine went, and the state it began with.

use super::{
    super::{model::Report, visits::VisitReport},
    chart::{Axis, COLOURS, Shape, draw, span},
    course::{DRIFT_HEIGHT, Key, minutes, shown},
    level::Figure,
};

/// A fixed piece of work before every measured pass.
pub(super) fn calibration(report: &Report) -> Option<(Figure, Key)> {
    let parts = [("computing", COLOURS[2]), ("reading memory", COLOURS[1])];
    let found: Vec<(usize, &VisitReport, [f64; 2])> = shown(report)
        .filter_map(|(index, visit)| {
            let mut passes = visit.facts.passes.iter();
            let found = passes.find_map(|pass| pass.calibration)?;
            let ns = [found.compute_ns as f64, found.memory_ns as f64];
            Some((index, visit, ns))
        })
        .collect();
    let mut shapes = Vec::new();
    let mut ends = vec![0.0];
    for (part, (name, colour)) in parts.iter().enumerate() {
        let middle = median(found.iter().map(|(.., ns)| ns[part]).collect())?;
        for (index, visit, ns) in &found {
            let percent = 100.0 * (ns[part] / middle - 1.0);
            let (visit_number, ms) = (index + 1, ns[part] / 1e6);
            let title = format!("visit {visit_number}: {name} took {ms:.2} ms, {percent:+.2} %");
            shapes.push(Shape::dot((minutes(visit), percent), *colour, title).faint(0.8));
            ends.push(percent);
        }
    }
    let times = span(found.iter().map(|(_, visit, _)| minutes(visit)))?;
    let (x, y) = (
        Axis::linear(times, "minutes"),
        Axis::linear(span(ends)?, "%"),
    );
    let figure = Figure {
        svg: draw(&x, &y, DRIFT_HEIGHT, &shapes)?,
        caption:
            "Calibration: how long a fixed piece of work took before each measured pass, against \
                  its median."
                .to_owned(),
    };
    let key = parts.map(|(name, colour)| (name.to_owned(), colour));
    Some((figure, key.to_vec()))
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// Size of the datadir after the reset before each pass, by engine.
pub(super) fn state(report: &Report) -> Option<(Figure, Key)> {
    let mut engines: Vec<&str> = Vec::new();
    let (mut shapes, mut sizes, mut times) = (Vec::new(), Vec::new(), Vec::new());
    for (index, visit) in shown(report) {
        let Some(engine) = engine_of(report, visit) else {
            continue;
        };
        if !engines.contains(&engine) {
            engines.push(engine);
        }
        let place = engines.iter().position(|known| *known == engine);
        let colour = COLOURS[place.unwrap_or(0) % COLOURS.len()];
        for pass in &visit.facts.passes {
            let state = &pass.state;
            let mib = state.datadir_bytes as f64 / f64::from(1 << 20);
            let free = state.database.as_ref().map_or(String::new(), |database| {
                let (free, used) = (database.free_pages, database.used_pages);
                format!(", {free} of {used} pages free")
            });
            let title = format!("visit {}, {}: {mib:.1} MiB{free}", index + 1, pass.pass);
            shapes.push(Shape::dot((minutes(visit), mib), colour, title).faint(0.8));
            sizes.push(mib);
            times.push(minutes(visit));
        }
    }
    let (x, y) = (
        Axis::linear(span(times)?, "minutes"),
        Axis::linear(span(sizes)?, "MiB"),
    );
    let figure = Figure {
        svg: draw(&x, &y, DRIFT_HEIGHT, &shapes)?,
        caption: "State: size of the datadir after the reset before each pass.".to_owned(),
    };
    let colours = COLOURS.iter().cycle().copied();
    let key = engines.into_iter().map(str::to_owned).zip(colours);
    Some((figure, key.collect()))
}

fn engine_of<'a>(report: &'a Report, visit: &VisitReport) -> Option<&'a str> {
    let id = super::course::original(report, &visit.cell);
    let cell = report.cells.iter().find(|cell| cell.id == id)?;
    cell.axes.get("engine")?.as_str()
}
