//! The report as a terminal shows it: the answer first, and nothing that the report files say better.
//!
//! Invariant: plain text, bold only for a person: none with `NO_COLOR` or into a pipe.

use super::{answer, attribution, grid::Grid, model::Report, sections};
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use std::fmt::Write as _;

/// Columns that text is wrapped at.
const WIDTH: u16 = 100;

/// What stands between parts of a line.
const SEPARATOR: &str = " | ";

/// Renders what was swept, the answer, the grid, the cause and the caveats. `styled` makes the answer bold.
pub fn table(report: &Report, styled: bool) -> String {
    let mut text = joined(&answer::swept(report));
    // Writing into a String cannot fail.
    if let Some(command) = report.command() {
        let _ = writeln!(text, "{command}");
    }
    text.push('\n');
    for line in answer::lines(report) {
        let line = paragraph("", &line);
        text += &match styled {
            true => format!("\x1b[1m{}\x1b[0m\n", line.trim_end()),
            false => line,
        };
    }
    for grid in answer::grids(report) {
        let _ = write!(text, "\n{}", render(&grid));
    }
    let mut notes = String::new();
    for line in attribution::causes(report) {
        notes += &paragraph("", &format!("why, {line}"));
    }
    for caveat in &report.warnings {
        notes += &paragraph("!", caveat);
    }
    for line in report.traces.iter().filter_map(sections::trace_line) {
        notes += &paragraph("", &format!("traces: {line}"));
    }
    for line in report.profiles.iter().filter_map(sections::profile_line) {
        notes += &paragraph("", &format!("profile: {line}"));
    }
    notes += &failures(report);
    if !notes.is_empty() {
        text.push('\n');
    }
    text + &notes
}

/// Parts side by side, in as many lines as they need.
fn joined(parts: &[String]) -> String {
    let mut lines: Vec<String> = Vec::new();
    for part in parts {
        let fits = |line: &&mut String| {
            line.chars().count() + SEPARATOR.len() + part.chars().count() <= usize::from(WIDTH)
        };
        match lines.last_mut().filter(fits) {
            Some(line) => *line += &format!("{SEPARATOR}{part}"),
            None => lines.push(part.clone()),
        }
    }
    lines.join("\n") + "\n"
}

/// One line for each kind of failure, then the end of one engine's log: the others fail alike.
pub fn failures(report: &Report) -> String {
    let mut text = String::new();
    for line in sections::failures(report) {
        let _ = writeln!(text, "failed: {line}");
    }
    if let Some(failure) = sections::telling_failure(report) {
        let _ = writeln!(text, "the engine's log in {} ends with", failure.visit);
        for line in &failure.log {
            let _ = writeln!(text, "    {line}");
        }
    }
    text
}

/// Text behind a mark, wrapped.
fn paragraph(mark: &str, text: &str) -> String {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .force_no_tty()
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(WIDTH);
    table.add_row([mark, text].into_iter().filter(|part| !part.is_empty()));
    for column in table.column_iter_mut() {
        column.set_padding((0, 1));
    }
    lines(&table)
}

/// A grid as wide as it is.
pub(super) fn render(grid: &Grid) -> String {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .force_no_tty()
        .set_header(&grid.header);
    table.add_rows(&grid.rows);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    lines(&table)
}

/// A table without blanks at the ends of its lines.
fn lines(table: &Table) -> String {
    let text = table.to_string();
    let lines = text.lines().map(|line| format!("{}\n", line.trim_end()));
    lines.collect()
}
