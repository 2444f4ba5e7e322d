//! The files that are made from the list of metrics are those that the list gives, and real tools
//! accept them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

#[expect(
    dead_code,
    reason = "the program that writes the files is not run here"
)]
#[path = "../examples/dashboards.rs"]
mod dashboards;

use engine_api::metric::{ENGINE, HARNESS, Kind};
use serde_json::Value;
use std::{collections::BTreeSet, path::PathBuf, process::Command};
use testkit::Tool;

fn workspace(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path)
}

#[test]
fn checked_in_files_are_what_the_list_gives() {
    for (path, text) in dashboards::files() {
        let found = std::fs::read_to_string(workspace(&path)).unwrap_or_default();
        assert!(found == text, "{path} is stale: cargo xtask gen dashboards");
    }
}

/// All expressions of all dashboards.
fn expressions() -> Vec<String> {
    let files = dashboards::files().into_iter();
    let boards = files.filter(|(path, _)| path.ends_with(".json"));
    let mut expressions = Vec::new();
    for (_, text) in boards {
        let board: Value = serde_json::from_str(&text).unwrap();
        for panel in board["panels"].as_array().unwrap() {
            for target in panel["targets"].as_array().unwrap() {
                expressions.push(target["expr"].as_str().unwrap().to_owned());
            }
        }
    }
    expressions
}

#[test]
fn every_metric_is_drawn_and_nothing_else_is() {
    let exported: BTreeSet<String> = ENGINE
        .iter()
        .chain(HARNESS)
        .flat_map(|metric| match metric.kind {
            Kind::Summary => vec![
                format!("{}_sum", metric.name),
                format!("{}_count", metric.name),
            ],
            _ => vec![metric.name.to_owned()],
        })
        .collect();
    let name = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
    let drawn: BTreeSet<String> = expressions()
        .iter()
        .flat_map(|expression| expression.split(name))
        .filter(|word| word.starts_with("reth_") || word.starts_with("bench_"))
        .map(str::to_owned)
        .collect();
    assert_eq!(drawn, exported);
}

#[test]
fn prometheus_accepts_the_configuration() {
    let file = workspace("prometheus/prometheus.yml");
    let Some(promtool) = testkit::require(Tool::Promtool) else {
        return;
    };
    let mut check = Command::new(promtool);
    let check = check.args(["check", "config"]).arg(&file).output().unwrap();
    let text = String::from_utf8_lossy(&check.stderr);
    assert!(check.status.success(), "{text}");
}
