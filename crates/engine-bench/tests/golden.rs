//! What people and programs read, kept as it is: help texts, and every rendering of a small
//! results folder that lies beside this file.
//!
//! Invariant: updating a snapshot is a reviewed act; the folder's samples are of a real sweep, cut
//! to four payloads a pass.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use clap::CommandFactory as _;
use engine_bench::{analyze, cli::Cli, report};
use std::{fs, path::Path};

fn results() -> report::Report {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/results");
    report::Report::of(&analyze::read_outcome(&dir).unwrap())
}

fn verb(name: &str) -> clap::Command {
    let mut cli = Cli::command();
    cli.build();
    cli.find_subcommand(name).unwrap().clone()
}

#[test]
fn help_of_the_program() {
    insta::assert_snapshot!(Cli::command().render_help());
}

#[test]
fn help_of_sweep() {
    insta::assert_snapshot!(verb("sweep").render_long_help());
}

#[test]
fn short_help_of_sweep_fits_a_screen() {
    let text = verb("sweep").render_help().to_string();
    // As a terminal of 100 columns wraps it.
    let lines = text.lines().map(|line| line.chars().count());
    let shown: usize = lines.map(|letters| letters.div_ceil(100).max(1)).sum();
    assert!(shown <= 50, "{shown} lines: {text}");
    insta::assert_snapshot!(text);
}

#[test]
fn help_of_replay() {
    insta::assert_snapshot!(verb("replay").render_long_help());
}

#[test]
fn terminal_table() {
    insta::assert_snapshot!(report::table(&results(), false));
}

#[test]
fn report_md() {
    insta::assert_snapshot!(report::markdown(&results()));
}

#[test]
fn report_json() {
    insta::assert_snapshot!(results().to_json().unwrap());
}

#[test]
fn report_html_opens_without_a_network_and_has_a_title_on_every_mark() {
    let report = results();
    let html = report::html(&report);
    for word in "src= href= <script <iframe @import url( <link".split(' ') {
        assert!(!html.contains(word), "{word}");
    }
    let count = |text: &str| html.matches(text).count();
    for element in ["circle", "rect"] {
        let drawn = count(&format!("<{element}"));
        let titled = count(&format!("</title></{element}>"));
        assert!(drawn > 0 && drawn == titled, "{element}: {drawn}, {titled}");
    }
    assert_eq!(count("<title></title>"), 0);
    // The answer and where the time goes; rounds and drift; latencies of each level.
    assert_eq!(count("<svg"), 4 + report.levels.len());
    // The answer stands before the first picture, and that before the first table.
    let place = |text: &str| html.find(text).unwrap_or_else(|| panic!("no {text}"));
    let order = [
        "bench-reth/v0.1.0",
        "10M: 15, 30, 60",
        "<svg",
        "default of bench-reth",
        "<table",
        "10M 15: state root wait",
        "Where the time goes",
        "10M, after round 2: ±",
    ];
    assert!(order.map(place).is_sorted(), "{:?}", order.map(place));
}

#[test]
fn cells_csv_is_written_beside_the_others() {
    let dir = tempfile::tempdir().unwrap();
    report::write(dir.path(), &results()).unwrap();
    for file in [report::JSON_FILE, report::MARKDOWN_FILE, report::HTML_FILE] {
        assert!(dir.path().join(file).exists(), "{file}");
    }
    insta::assert_snapshot!(fs::read_to_string(dir.path().join(report::CELLS_FILE)).unwrap());
}
