//! Grafana's dashboards and the table of metrics, from the one list of them.
//!
//! Invariant: a test of `engine-api` compares the files with the list, so a stale one is found.

use crate::steps;
use eyre::Result;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Grafana's own types of dashboards, and the compiler that checks the files against them (npm packages).
const PACKAGES: [&str; 2] = ["@grafana/schema@13.2.3", "typescript@5.9.3"];

/// Writes the files.
pub(crate) fn run(root: &Path) -> Result<()> {
    let mut command = steps::cargo(root);
    command.args([
        "run",
        "--release",
        "--locked",
        "--quiet",
        "-p",
        "engine-api",
        "--example",
        "dashboards",
    ]);
    steps::run(&mut command)
}

/// Checks every dashboard against Grafana's types.
pub(crate) fn validate(root: &Path) -> Result<()> {
    let tools = root.join("target/tools/grafana-schema@13.2.3");
    if !tools.join("node_modules/typescript").exists() {
        steps::npm_install(&tools, &PACKAGES)?;
    }
    let mut files: Vec<PathBuf> = fs::read_dir(root.join("grafana/dashboards"))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    files.sort();
    steps::run(
        Command::new("node")
            .arg(root.join("grafana/schema/check.mjs"))
            .arg(&tools)
            .args(files),
    )
}
