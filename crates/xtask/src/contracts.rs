//! The bytecode of the workload's contracts: remade from source, or compared with what is kept.

use crate::steps::{self, has};
use eyre::Result;
use std::{path::Path, process::Command};

/// The Solidity compiler the checked-in bytecode was made with (an npm package, pure JavaScript).
const SOLC: &str = "solc@0.8.37";

/// What is needed to compile contracts and is not on this machine.
pub(crate) fn missing_tools() -> Option<String> {
    let missing: Vec<&str> = ["node", "npm"]
        .into_iter()
        .filter(|tool| !has(tool))
        .collect();
    (!missing.is_empty()).then(|| format!("{} not found on the PATH", missing.join(" and ")))
}

/// Compiles the contracts; with `check`, compares instead of writing.
pub(crate) fn run(root: &Path, check: bool) -> Result<()> {
    let tools = root.join("target/tools").join(SOLC);
    if !tools.join("node_modules/solc").exists() {
        steps::npm_install(&tools, &[SOLC])?;
    }
    let mut command = Command::new("node");
    command
        .arg(root.join("crates/workload/contracts/build.mjs"))
        .env("NODE_PATH", tools.join("node_modules"));
    if check {
        command.arg("--check");
    }
    steps::run(&mut command)
}
