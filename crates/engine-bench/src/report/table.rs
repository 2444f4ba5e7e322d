//! The report as a terminal shows it.
//!
//! Invariant: plain text, colour only for a person: none with `NO_COLOR` or into a pipe.

use super::{attribution, grid, model::Report, traces};
use comfy_table::{Attribute, Cell, CellAlignment, Table, presets};
use std::fmt::Write as _;

/// Renders the table, the notes, the time split and the failures. `styled` marks the best in bold.
pub fn table(report: &Report, styled: bool) -> String {
    let mut text = String::from("Ggas/s: gas / (newPayload + forkchoiceUpdated), client time\n");
    // Writing into a String cannot fail.
    let _ = writeln!(text, "{}", render(&grid::throughput(report), styled));
    for note in grid::notes(report) {
        let _ = writeln!(text, "{note}");
    }
    let engines = grid::engines(report);
    if !engines.rows.is_empty() {
        let _ = writeln!(text, "\n{}", render(&engines, false));
    }
    let versus = grid::versus(report);
    if !versus.rows.is_empty() && report.noise_floor.relative.is_some() {
        let _ = writeln!(text, "\n{}", render(&versus, false));
    }
    let lines = attribution::lines(report);
    if !lines.is_empty() {
        let _ = writeln!(
            text,
            "\n{}",
            render(&attribution::short_table(report), false)
        );
        for line in lines {
            let _ = writeln!(text, "{line}");
        }
    }
    for line in traces::lines(report) {
        let _ = writeln!(text, "traces: {line}");
    }
    for line in traces::profile_lines(report) {
        let _ = writeln!(text, "profile: {line}");
    }
    let details = grid::details(report, grid::Evidence::Figure);
    let _ = writeln!(text, "\n{}", render(&details, false));
    let _ = writeln!(text, "{}", grid::time_line(report));
    text.push_str(&failures(report));
    text
}

/// One line for each failure, then the end of one engine's log: the others fail alike.
pub fn failures(report: &Report) -> String {
    let mut text = String::new();
    for failure in &report.failures {
        let _ = writeln!(text, "failed: {}", grid::failure_line(failure));
    }
    if let Some(failure) = grid::telling_failure(report) {
        let _ = writeln!(text, "the engine's log in {} ends with", failure.visit);
        for line in &failure.log {
            let _ = writeln!(text, "    {line}");
        }
    }
    text
}

pub(super) fn render(grid: &grid::Grid, styled: bool) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    if styled {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    table.set_header(&grid.header);
    for row in &grid.rows {
        table.add_row(row.iter().enumerate().map(|(column, text)| {
            let cell = Cell::new(text);
            let numeric = column > 0 && text.starts_with(|c: char| c.is_ascii_digit());
            let cell = if numeric {
                cell.set_alignment(CellAlignment::Right)
            } else {
                cell
            };
            if styled && text.ends_with('*') {
                cell.add_attribute(Attribute::Bold)
            } else {
                cell
            }
        }));
    }
    table
}
