//! `report.md`: the same tables for people who read them later.
//!
//! Invariant: says how the numbers were made and what they do not say, beside the numbers.

use super::{
    attribution, curve, facts,
    grid::{self, Grid},
    model::Report,
    traces,
};
use std::fmt::Write as _;

/// Renders the report.
pub fn markdown(report: &Report) -> String {
    let mut text = String::from("# Sweep report\n\n");
    text.push_str(
        "Execution throughput in Ggas/s: Σ gas / Σ (newPayload + forkchoiceUpdated) client time. \
         `*` marks the best of a gas level.\n\n",
    );
    push_grid(&mut text, &grid::throughput(report));
    push_list(&mut text, grid::notes(report));
    text.push_str(
        "## Cells\n\nThroughputs in Ggas/s; latency is newPayload + forkchoiceUpdated.\n\n",
    );
    push_grid(&mut text, &grid::details(report, grid::Evidence::Full));
    let curves = curve::curves(report);
    if !curves.rows.is_empty() {
        text.push_str(
            "## Curves\n\nA parabola over the logarithm of the value, fitted to the logarithm of throughput.\n\n",
        );
        push_grid(&mut text, &curves);
    }
    let engines = grid::engines(report);
    if !engines.rows.is_empty() {
        text.push_str("## Engines\n\nRatios of execution throughput on the same payloads.\n\n");
        push_grid(&mut text, &engines);
    }
    push_attribution(&mut text, report);
    push_traces(&mut text, report);
    push_profiles(&mut text, report);
    push_versus(&mut text, report);
    push_comparisons(&mut text, report);
    push_work(&mut text, report);
    text.push_str("## Time\n\n");
    // Writing into a String cannot fail.
    let _ = writeln!(text, "{}\n", grid::time_line(report));
    if !report.failures.is_empty() {
        text.push_str("## Failures\n\n");
        push_list(&mut text, report.failures.iter().map(grid::failure_line));
        if let Some(failure) = grid::telling_failure(report) {
            let (visit, log) = (&failure.visit, failure.log.join("\n"));
            let _ = writeln!(
                text,
                "The engine's log in {visit} ends with\n\n```text\n{log}\n```\n"
            );
        }
    }
    push_environment(&mut text, report);
    text
}

fn push_profiles(text: &mut String, report: &Report) {
    if !report.profiles.is_empty() {
        text.push_str("## Profiles\n\nCells that were replayed once more under a profiler.\n\n");
        push_list(text, traces::profile_lines(report));
    }
}

fn push_traces(text: &mut String, report: &Report) {
    if report.traces.is_empty() {
        return;
    }
    text.push_str(
        "## Traces\n\nBlocks that were replayed once more with tracing. Perfetto (ui.perfetto.dev) opens \
         the files.\n\n",
    );
    push_grid(text, &traces::table(report));
    push_list(text, traces::lines(report));
}

fn push_attribution(text: &mut String, report: &Report) {
    let grid = attribution::table(report);
    if grid.rows.is_empty() {
        return;
    }
    text.push_str("## Where the time goes\n\nMilliseconds a block, one phase after another.\n\n");
    push_grid(text, &grid);
    push_list(text, attribution::lines(report));
}

fn push_versus(text: &mut String, report: &Report) {
    let grid = grid::versus(report);
    if !grid.rows.is_empty() {
        text.push_str(
            "## Against the reference\n\nThe intervals of a gas level hold together.\n\n",
        );
        push_grid(text, &grid);
    }
}

fn push_comparisons(text: &mut String, report: &Report) {
    if report.comparisons.is_empty() {
        return;
    }
    text.push_str("## Comparisons\n\n");
    push_grid(text, &facts::comparisons(report));
}

/// What the engine counted, where it counts.
fn push_work(text: &mut String, report: &Report) {
    let grid = facts::work(report);
    if !grid.rows.is_empty() {
        text.push_str("## State root\n\nMeans per block, as the engine counts them.\n\n");
        push_grid(text, &grid);
    }
}

fn push_environment(text: &mut String, report: &Report) {
    text.push_str("## Machine\n\n");
    push_list(text, facts::machine(report));
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

fn push_list(text: &mut String, lines: impl IntoIterator<Item = String>) {
    for line in lines {
        let _ = writeln!(text, "- {}", line.replace('\n', "\n  "));
    }
    text.push('\n');
}
