//! `report.md`: the answer first, then what stands behind it, for people who read it later.
//!
//! Invariant: says how the numbers were made and what they do not say, beside the numbers.

use super::{answer, attribution, grid::Grid, model::Report, sections};
use std::fmt::Write as _;

/// What the figures of the grid are.
pub(super) const ABOUT: &str = "Throughput is Σ gas / Σ (newPayload + forkchoiceUpdated) client time in Ggas/s, ± half the width of \
     its own 95 % interval. Intervals of ratios are simultaneous over a gas level. ▼ slower, ▲ faster, ~ not separable, \
     ? no verdict.";

/// Where caveats are explained.
pub(super) const EXPLAINED: &str = "docs/TROUBLESHOOTING.md explains each of them.";

/// Renders the report.
pub fn markdown(report: &Report) -> String {
    let swept = answer::swept(report);
    let (question, rest) = swept.split_at(swept.len().min(1));
    let mut text = format!("# {}\n\n{}\n\n", question.concat(), rest.join(" | "));
    // Writing into a String cannot fail.
    if let Some(command) = report.command() {
        let _ = writeln!(text, "    {command}\n");
    }
    push_list(&mut text, answer::lines(report));
    for grid in answer::grids(report) {
        push_grid(&mut text, &grid);
    }
    let _ = writeln!(text, "{ABOUT}\n");
    push_list(&mut text, attribution::causes(report));
    if !report.warnings.is_empty() {
        let _ = writeln!(text, "## Caveats\n\n{EXPLAINED}\n");
        push_list(&mut text, report.warnings.iter().cloned());
    }
    for section in sections::all(report) {
        let _ = writeln!(text, "## {}\n", section.title);
        if !section.about.is_empty() {
            let _ = writeln!(text, "{}\n", section.about);
        }
        section
            .grids
            .iter()
            .for_each(|grid| push_grid(&mut text, grid));
        push_list(&mut text, section.lines);
        if !section.log.is_empty() {
            let _ = writeln!(text, "```text\n{}\n```\n", section.log.join("\n"));
        }
    }
    text
}

fn push_grid(text: &mut String, grid: &Grid) {
    push_row(text, &grid.header);
    push_row(text, &vec!["---".to_owned(); grid.header.len()]);
    for row in &grid.rows {
        push_row(text, row);
    }
    text.push('\n');
}

fn push_row(text: &mut String, row: &[String]) {
    let cells: Vec<String> = row.iter().map(|cell| cell.replace('|', "\\|")).collect();
    let _ = writeln!(text, "| {} |", cells.join(" | "));
}

/// Lines as a list; nothing of none.
fn push_list(text: &mut String, lines: impl IntoIterator<Item = String>) {
    let before = text.len();
    for line in lines {
        let _ = writeln!(text, "- {}", line.replace('\n', "\n  "));
    }
    if text.len() > before {
        text.push('\n');
    }
}
