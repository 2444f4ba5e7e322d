//! The grid at a glance: settings down, gas levels across, shaded by throughput.
//!
//! Invariant: every field with a number has a title with its interval and what shows that the knob
//! acted.

use super::{
    super::{
        grid,
        judged::RankReport,
        model::{CellReport, Report},
    },
    escape,
};
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
    for ranked in &report.ranking {
        let _ = write!(text, "<tr><th>{}</th>", escape(&setting(report, ranked)));
        for gas in &levels {
            let cell = grid::cell_at(report, &ranked.axes, *gas);
            text += &cell.map_or("<td></td>".to_owned(), |cell| field(report, cell));
        }
        text.push_str("</tr>\n");
    }
    text.push_str("</tbody></table></div>");
    text
}

/// The values of the knobs of a row; the engine where there are several.
fn setting(report: &Report, ranked: &RankReport) -> String {
    let several = report.configuration.engines.len() > 1;
    let named = ranked
        .axes
        .iter()
        .filter(|(name, _)| name.as_str() != "engine" || ranked.axes.len() == 1 || several);
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
    let best = level.map_or(&[][..], |level| &level.best);
    let highest = |id: &String| {
        let best = report.cells.iter().find(|cell| cell.id == *id)?;
        best.execution_ggas_per_second
            .as_ref()
            .map(|found| found.value)
    };
    let top = best.first().and_then(highest).unwrap_or(found.value);
    let shade = (1.0 - (1.0 - found.value / top) / PALE).clamp(0.0, 1.0);
    let class = if best.contains(&cell.id) {
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
