//! Two sweeps or cells as tables: settings that differ, then results.

use super::{answer::difference, grid::Grid, table::render};
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
        let rows = rows.map(|found| [found.name.clone(), plain(&found.a), plain(&found.b)]);
        text += &render(&Grid::new(["differs", "a", "b"], rows));
        text.push('\n');
    }
    let rows = between.cells.iter().map(|cell| row(cell, between));
    let grid = Grid::new(["cell", "b to a", "b is"], rows);
    text += &render(&grid);
    text.push('\n');
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

fn row(cell: &Comparison, between: &Between) -> [String; 3] {
    let same = between.cells.iter().all(|cell| cell.a == cell.b);
    let name = if same {
        cell.a.clone()
    } else {
        format!("{} → {}", cell.a, cell.b)
    };
    let of_b = cell.clone().turned();
    [name, difference(&of_b.ratio), of_b.verdict.to_string()]
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
