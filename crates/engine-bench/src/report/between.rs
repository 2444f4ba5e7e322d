//! Two sweeps or cells as tables: settings that differ, then results.

use super::{
    grid::{Grid, NOTHING},
    table::render,
};
use crate::analyze::{Between, Comparison};
use serde_json::Value;
use std::fmt::Write as _;

/// Renders what a comparison says.
pub fn between(between: &Between) -> String {
    let mut text = String::new();
    // Writing into a String cannot fail.
    if between.configuration.is_empty() {
        text.push_str("nothing is configured differently\n");
    } else {
        let rows = between.configuration.iter();
        let rows = rows.map(|found| vec![found.name.clone(), plain(&found.a), plain(&found.b)]);
        let grid = grid(["differs", "a", "b"], rows);
        let _ = writeln!(text, "{}", render(&grid, false));
    }
    let rows = between.cells.iter().map(|cell| row(cell, between));
    let grid = grid(["cell", "b against a", "interval", "b is"], rows);
    let _ = writeln!(text, "{}", render(&grid, false));
    let rounds = match between.same_sweep {
        true => "both are of one sweep, whose report says the same",
        false => {
            "rounds of two sweeps are not paired: the machine's state of each is in the difference"
        }
    };
    let floor = between.noise_floor.map_or_else(
        || "without a noise floor on both sides there is no verdict".to_owned(),
        |floor| {
            format!(
                "a verdict needs all of it beyond the noise floor, {:.2} %",
                100.0 * floor
            )
        },
    );
    let _ = writeln!(
        text,
        "{rounds}; the intervals hold together at 95 %; {floor}"
    );
    if !between.unmatched.is_empty() {
        let _ = writeln!(text, "only on one side: {}", between.unmatched.join(", "));
    }
    for warning in &between.warnings {
        let _ = writeln!(text, "warning: {warning}");
    }
    text
}

fn row(cell: &Comparison, between: &Between) -> Vec<String> {
    let percent = |ratio: f64| format!("{:+.2} %", 100.0 * (ratio - 1.0));
    let same = between.cells.iter().all(|cell| cell.a == cell.b);
    let name = if same {
        cell.a.clone()
    } else {
        format!("{} → {}", cell.a, cell.b)
    };
    let of_b = cell.clone().turned();
    let ends = of_b.ratio.ends();
    let interval = ends.map_or(NOTHING.to_owned(), |(low, high)| {
        format!("{} to {}", percent(low), percent(high))
    });
    vec![
        name,
        percent(of_b.ratio.value),
        interval,
        of_b.verdict.to_string(),
    ]
}

fn grid<const N: usize>(header: [&str; N], rows: impl Iterator<Item = Vec<String>>) -> Grid {
    Grid {
        header: header.map(str::to_owned).to_vec(),
        rows: rows.collect(),
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
