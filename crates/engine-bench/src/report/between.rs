//! Two sweeps or cells as tables: settings that differ, then results.

use super::{
    answer::difference,
    grid::{Columns, NOTHING},
    names,
    table::render,
};
use crate::analyze::Between;
use serde_json::Value;
use std::fmt::Write as _;

/// Renders what a comparison says.
pub fn between(between: &Between) -> String {
    let mut text = String::new();
    // Writing into a String cannot fail.
    if between.configuration.is_empty() {
        text.push_str("nothing is configured differently\n");
    } else {
        let settings = Columns::of(&between.configuration)
            .column("differs", |found| found.name.clone())
            .column("a", |found| plain(&found.a))
            .column("b", |found| plain(&found.b));
        text += &render(&settings.grid());
        text.push('\n');
    }
    let same = between.cells.iter().all(|cell| cell.a == cell.b);
    let cells = Columns::of(between.cells.iter().map(|cell| cell.clone().turned()))
        .column("cell", |cell| match same {
            true => cell.a.clone(),
            false => format!("{} → {}", cell.b, cell.a),
        })
        .column("b to a", |cell| difference(&cell.ratio))
        .column("b is", |cell| cell.verdict.to_string());
    text += &render(&cells.grid());
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

fn plain(value: &Value) -> String {
    match value {
        Value::Null => NOTHING.to_owned(),
        other => names::text(other),
    }
}
