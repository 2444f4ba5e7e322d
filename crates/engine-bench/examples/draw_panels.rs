//! Draws panels of the dashboards from what a Prometheus holds, as Grafana would: for pages that people
//! read without either.
//!
//! `draw_panels ADDRESS:PORT SECONDS FOLDER FILE=TITLE...`, in the workspace: `FILE.svg` is the panel of
//! that title over the last so many seconds.

use engine_api::metric;
use eyre::{Result, WrapErr as _, bail, eyre};
use plotters::prelude::*;
use serde_json::Value;
use std::{
    fs,
    net::SocketAddr,
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Size of a picture.
const SIZE: (u32, u32) = (720, 300);

/// Legible on white and on black.
const COLOURS: [RGBColor; 8] = [
    RGBColor(42, 157, 92),
    RGBColor(217, 119, 54),
    RGBColor(86, 132, 220),
    RGBColor(190, 90, 170),
    RGBColor(150, 140, 40),
    RGBColor(60, 160, 170),
    RGBColor(150, 110, 90),
    RGBColor(128, 128, 128),
];

/// One line: its name, and points of seconds and values. A gap is a new line of the same name.
struct Series {
    name: String,
    points: Vec<(f64, f64)>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let mut next = || {
        args.next()
            .ok_or_else(|| eyre!("see the head of this file"))
    };
    let prometheus: SocketAddr = next()?.parse()?;
    let seconds: u64 = next()?.parse()?;
    let folder = next()?;
    fs::create_dir_all(&folder)?;
    for wanted in args {
        let (file, title) = wanted
            .split_once('=')
            .ok_or_else(|| eyre!("no = in {wanted}"))?;
        let panel = panel(title)?;
        let mut series = Vec::new();
        for target in panel["targets"].as_array().into_iter().flatten() {
            series.extend(query(prometheus, target, seconds).await?);
        }
        draw(
            &Path::new(&folder).join(format!("{file}.svg")),
            &panel,
            &series,
        )
        .wrap_err_with(|| format!("failed to draw {title}"))?;
    }
    Ok(())
}

fn panel(title: &str) -> Result<Value> {
    for entry in fs::read_dir("grafana/dashboards")? {
        let board: Value = serde_json::from_slice(&fs::read(entry?.path())?)?;
        let panels = board["panels"].as_array().into_iter().flatten();
        if let Some(panel) = panels.into_iter().find(|panel| panel["title"] == title) {
            return Ok(panel.clone());
        }
    }
    bail!("no panel is called {title}")
}

async fn query(prometheus: SocketAddr, target: &Value, seconds: u64) -> Result<Vec<Series>> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let expression = target["expr"].as_str().unwrap_or_default();
    let encoded: String = expression
        .bytes()
        .map(|byte| format!("%{byte:02X}"))
        .collect();
    let path = format!(
        "/api/v1/query_range?query={encoded}&start={}&end={now}&step=1",
        now - seconds
    );
    let answer = metric::get(prometheus, &path, Duration::from_secs(30)).await?;
    let answer: Value = serde_json::from_str(&answer)?;
    let found = answer["data"]["result"].as_array().into_iter().flatten();
    let series = |found: &Value| Series {
        name: name(
            target["legendFormat"].as_str().unwrap_or_default(),
            &found["metric"],
        ),
        points: points(&found["values"], (now - seconds) as f64),
    };
    Ok(found.map(series).collect())
}

/// The legend with its labels filled in.
fn name(legend: &str, labels: &Value) -> String {
    let mut name = legend.to_owned();
    for label in ["cell", "pass"] {
        let value = labels[label].as_str().unwrap_or_default();
        name = name.replace(&format!("{{{{{label}}}}}"), value);
    }
    name.trim().to_owned()
}

fn points(values: &Value, began: f64) -> Vec<(f64, f64)> {
    let point = |value: &Value| {
        let y: f64 = value[1].as_str()?.parse().ok()?;
        y.is_finite().then_some((value[0].as_f64()? - began, y))
    };
    values
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(point)
        .collect()
}

fn draw(path: &Path, panel: &Value, series: &[Series]) -> Result<()> {
    let all = || series.iter().flat_map(|series| &series.points);
    if all().next().is_none() {
        bail!("it holds nothing");
    }
    let milliseconds = panel["fieldConfig"]["defaults"]["unit"] == "s";
    let scale = if milliseconds { 1e3 } else { 1.0 };
    let x = all().fold((f64::MAX, f64::MIN), |(low, high), (x, _)| {
        (low.min(*x), high.max(*x))
    });
    let top = all().map(|(_, y)| y * scale).fold(0.0, f64::max).max(1e-9);
    let area = SVGBackend::new(path, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let title = panel["title"].as_str().unwrap_or_default();
    let title = if milliseconds {
        format!("{title}, ms")
    } else {
        title.to_owned()
    };
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 16))
        .margin(8)
        .x_label_area_size(28)
        .y_label_area_size(52)
        .build_cartesian_2d(x.0..x.1, 0.0..top * 1.05)?;
    chart
        .configure_mesh()
        .x_desc("seconds")
        .light_line_style(WHITE)
        .draw()?;
    let mut names: Vec<&str> = series.iter().map(|series| series.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    for (name, colour) in names.into_iter().zip(COLOURS.into_iter().cycle()) {
        let of_name = series.iter().filter(|series| series.name == name);
        for (index, series) in of_name.enumerate() {
            let points = series.points.iter().map(|(x, y)| (*x, y * scale));
            let line = PathElement::new(points.collect::<Vec<_>>(), colour.stroke_width(2));
            let drawn = chart.draw_series([line])?;
            if index == 0 && !name.is_empty() {
                drawn.label(name).legend(move |(x, y)| {
                    PathElement::new([(x, y), (x + 14, y)], colour.stroke_width(2))
                });
            }
        }
    }
    chart
        .configure_series_labels()
        .background_style(WHITE.mix(0.8))
        .draw()?;
    area.present()?;
    Ok(())
}
