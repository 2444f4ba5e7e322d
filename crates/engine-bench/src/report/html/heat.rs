//! The grid at a glance: settings down, gas levels across, shaded by throughput.
//!
//! Invariant: every field with a number has a title with its interval and what shows that the knob
//! acted.

use super::{
    super::{
        grid,
        model::{CellReport, Report},
    },
    escape,
};
use crate::analyze::Level;
use serde_json::{Map, Value};
use std::fmt::Write as _;

/// Below the highest of its level by this much, a field is as pale as it gets.
const PALE: f64 = 0.2;

/// The colour of the highest, in percent.
const STRONGEST: f64 = 60.0;

/// The table.
pub(super) fn heatmap(report: &Report) -> String {
    let levels = grid::gas_levels(report);
    let mut text =
        String::from("<div class=\"wide\"><table class=\"heat\"><thead><tr><th>setting</th>");
    for gas in &levels {
        // Writing into a String cannot fail.
        let _ = write!(text, "<th>{gas}</th>");
    }
    text.push_str("</tr></thead><tbody>\n");
    for setting in &grid::settings(report) {
        let _ = write!(text, "<tr><th>{}</th>", escape(&name(report, setting)));
        for gas in &levels {
            let cell = grid::cell_at(report, setting, *gas);
            text += &cell.map_or("<td></td>".to_owned(), |cell| field(report, cell));
        }
        text.push_str("</tr>\n");
    }
    text.push_str("</tbody></table></div>");
    text
}

/// The values of the knobs of a row; the engine where there are several.
fn name(report: &Report, setting: &Map<String, Value>) -> String {
    let several = report.configuration.engines.len() > 1;
    let named = setting
        .iter()
        .filter(|(name, _)| name.as_str() != "engine" || setting.len() == 1 || several);
    let parts: Vec<String> = named
        .map(|(name, value)| format!("{} {}", grid::short(name), grid::text(value)))
        .collect();
    parts.join(", ")
}

fn field(report: &Report, cell: &CellReport) -> String {
    let Some(found) = &cell.execution_ggas_per_second else {
        let word = if cell.failed_visits > 0 {
            "failed"
        } else {
            "-"
        };
        return format!(
            "<td class=\"failed\" title=\"{}\">{word}</td>",
            escape(&cell.id)
        );
    };
    let level = report.levels.iter().find(|level| level.is_of(cell));
    let is_best = |level: &Level| level.separates() && level.best.contains(&cell.id);
    let shade = level.map_or(1.0, |level| {
        1.0 - (1.0 - of_highest(level, &cell.id)) / PALE
    });
    let shade = shade.clamp(0.0, 1.0);
    let class = if level.is_some_and(is_best) {
        " class=\"best\""
    } else {
        ""
    };
    let (interval, shown) = match found.low.zip(found.high) {
        Some(ends) => (
            grid::interval_text(ends, |low, high| format!("{low:.4} to {high:.4}")),
            format!(
                "<br><small>{}</small>",
                grid::interval_text(ends, |low, high| format!("{low:.3} to {high:.3}"))
            ),
        ),
        None => ("no interval: one round".to_owned(), String::new()),
    };
    format!(
        "<td{class} style=\"--shade:{:.0}%\" title=\"{}: {:.4} Ggas/s, {interval}, {} visits, {}\">{:.3}{}{shown}</td>",
        STRONGEST * shade,
        escape(&cell.id),
        found.value,
        cell.visits,
        escape(&cell.knob.evidence),
        found.value,
        marks(cell),
    )
}

/// Throughput of a cell over that of the highest of its level, as ratios to the reference say.
fn of_highest(level: &Level, id: &str) -> f64 {
    let ratio = |id: &str| {
        let mut versus = level.versus.iter();
        versus
            .find(|versus| versus.a == id)
            .map_or(1.0, |versus| versus.ratio.value)
    };
    level
        .best
        .first()
        .map_or(1.0, |highest| ratio(id) / ratio(highest))
}

/// What a reader must not overlook.
fn marks(cell: &CellReport) -> String {
    let inert = if cell.knob.acted == Some(false) {
        "<br><small>inert</small>"
    } else {
        ""
    };
    let unchecked = if cell.root_checked {
        ""
    } else {
        grid::UNCHECKED_MARK
    };
    format!("{unchecked}{inert}")
}
