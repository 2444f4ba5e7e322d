//! `report.html`: one file that opens from disk, for people who look before they read.
//!
//! Invariant: asks no network for anything; says nothing that `report.json` does not hold; readable
//! in light and dark, on paper, and without scripts. Whatever was typed or logged is escaped.

mod chart;

use super::{
    grid::{self, Grid},
    model::{CellReport, LevelReport, Report},
};
use std::fmt::Write as _;

const STYLE: &str = include_str!("style.css");

/// Renders the report.
pub fn html(report: &Report) -> String {
    let mut text = String::from(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\">\n<title>Sweep report</title>\n<style>\n",
    );
    text.push_str(STYLE);
    text.push_str(
        "</style></head><body>\n<h1>Sweep report</h1>\n<p>Execution throughput in Ggas/s: gas / \
         (newPayload + forkchoiceUpdated) client time. A frame marks the best of a gas level; \
         colour is throughput relative to the highest of its level.</p>\n",
    );
    heatmap(&mut text, report);
    list(&mut text, &grid::notes(report));
    for level in &report.levels {
        of_level(&mut text, report, level);
    }
    section(
        &mut text,
        "Cells",
        &grid::details(report, grid::Evidence::Full),
    );
    section(&mut text, "Against the best", &grid::versus(report));
    push(&mut text, "<h2>Time</h2>");
    push(
        &mut text,
        &format!("<p>{}</p>", escape(&grid::time_line(report))),
    );
    if !report.failures.is_empty() {
        push(&mut text, "<h2>Failures</h2>");
        let lines: Vec<String> = report.failures.iter().map(grid::failure_line).collect();
        list(&mut text, &lines);
    }
    for (name, json) in [
        (
            "Environment",
            serde_json::to_string_pretty(&report.environment),
        ),
        (
            "Configuration",
            serde_json::to_string_pretty(&report.configuration),
        ),
    ] {
        let json = json.unwrap_or_default();
        let body = format!(
            "<details><summary>{name}</summary><pre>{}</pre></details>",
            escape(&json)
        );
        push(&mut text, &body);
    }
    text.push_str("</body></html>\n");
    text
}

/// Settings down, gas levels across.
fn heatmap(text: &mut String, report: &Report) {
    push(text, "<table class=\"heat\"><thead><tr><th>setting</th>");
    for gas in grid::gas_levels(report) {
        push(text, &format!("<th>{gas}</th>"));
    }
    push(text, "</tr></thead><tbody>");
    for ranked in &report.ranking {
        let name: Vec<String> = ranked
            .axes
            .iter()
            .filter(|(name, _)| {
                name.as_str() != "engine"
                    || ranked.axes.len() == 1
                    || report.configuration.engines.len() > 1
            })
            .map(|(name, value)| format!("{name} {}", grid::text(value)))
            .collect();
        push(text, &format!("<tr><th>{}</th>", escape(&name.join(", "))));
        for gas in grid::gas_levels(report) {
            let cell = grid::cell_at(report, &ranked.axes, gas);
            push(
                text,
                &cell.map_or("<td></td>".to_owned(), |cell| heat(report, cell)),
            );
        }
        push(text, "</tr>");
    }
    push(text, "</tbody></table>");
}

fn heat(report: &Report, cell: &CellReport) -> String {
    let Some(found) = &cell.execution_ggas_per_second else {
        return format!("<td title=\"{}\">failed</td>", escape(&cell.id));
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
    // A fifth below the best is as pale as it gets.
    let shade = (1.0 - (1.0 - found.value / top) / 0.2).clamp(0.0, 1.0);
    let best = if best.contains(&cell.id) {
        " class=\"best\""
    } else {
        ""
    };
    let interval = match (found.low, found.high) {
        (Some(low), Some(high)) => format!("{low:.4} to {high:.4}"),
        _ => "no interval: one round".to_owned(),
    };
    format!(
        "<td{best} style=\"--shade:{:.0}%\" title=\"{}: {:.4} Ggas/s, {interval}, {} visits, {}\">{:.3}</td>",
        60.0 * shade,
        escape(&cell.id),
        found.value,
        cell.visits,
        escape(&cell.knob.evidence),
        found.value
    )
}

fn of_level(text: &mut String, report: &Report, level: &LevelReport) {
    push(text, &format!("<h2>{}</h2>", level.load));
    for (title, drawn) in [
        (
            "Difference from the highest, with intervals that hold together",
            chart::intervals(level),
        ),
        (
            "Throughput of every visit, by round",
            chart::rounds(report, level),
        ),
        (
            "Latency of payloads: median to 99th percentile, and the longest",
            chart::latencies(report, level),
        ),
    ] {
        if let Some(svg) = drawn {
            push(
                text,
                &format!("<figure><figcaption>{title}</figcaption>{svg}</figure>"),
            );
        }
    }
}

fn section(text: &mut String, title: &str, grid: &Grid) {
    if grid.rows.is_empty() {
        return;
    }
    push(
        text,
        &format!("<h2>{title}</h2><div class=\"wide\"><table><thead><tr>"),
    );
    for name in &grid.header {
        push(text, &format!("<th>{}</th>", escape(name)));
    }
    push(text, "</tr></thead><tbody>");
    for row in &grid.rows {
        let cells: String = row
            .iter()
            .map(|cell| format!("<td>{}</td>", escape(cell)))
            .collect();
        push(text, &format!("<tr>{cells}</tr>"));
    }
    push(text, "</tbody></table></div>");
}

fn list(text: &mut String, lines: &[String]) {
    let items: String = lines
        .iter()
        .map(|line| format!("<li>{}</li>", escape(line)))
        .collect();
    push(text, &format!("<ul>{items}</ul>"));
}

fn push(text: &mut String, line: &str) {
    // Writing into a String cannot fail.
    let _ = writeln!(text, "{line}");
}

/// Text as HTML and SVG take it, inside elements and attributes.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_was_typed_becomes_markup() {
        assert_eq!(
            escape("<b a='1'>\"&\"</b>"),
            "&lt;b a=&#39;1&#39;&gt;&quot;&amp;&quot;&lt;/b&gt;"
        );
    }
}
