//! ethrex for tests: the program of `tests/ethrex-node`, a workspace of its own.
//!
//! Invariant: it is built when its sources or its lock have changed, and cargo, whose target folder is kept,
//! knows when. It is built after the main workspace, never beside it.

use crate::steps::{self, cargo, has};
use eyre::{Result, ensure};
use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// Where tests find it.
const VARIABLE: &str = "ENGINE_BENCH_ETHREX";

/// Why it cannot be built on this machine, if it cannot: a crate of its links the system's OpenSSL.
pub(crate) fn missing() -> Option<String> {
    if !has("pkg-config") {
        return Some("pkg-config not found on the PATH".to_owned());
    }
    let mut command = Command::new("pkg-config");
    let asked = command.args(["--exists", "openssl"]).status();
    let found = asked.is_ok_and(|status| status.success());
    (!found).then(|| "pkg-config finds no openssl (Debian: libssl-dev)".to_owned())
}

/// The file that holds it once [`build`] has run.
fn program(root: &Path) -> PathBuf {
    target(root).join("release/ethrex")
}

fn target(root: &Path) -> PathBuf {
    root.join("target/tools/ethrex-node-target")
}

fn manifest(root: &Path) -> PathBuf {
    root.join("tests/ethrex-node/Cargo.toml")
}

/// Builds it, unless nothing has changed.
pub(crate) fn build(root: &Path) -> Result<()> {
    let mut command = cargo(root);
    command.args(["build", "--release", "--locked", "--target-dir"]);
    command.arg(target(root)).arg("--manifest-path");
    steps::run(command.arg(manifest(root)))?;
    let program = program(root);
    ensure!(
        program.exists(),
        "cargo build left no {}",
        program.display()
    );
    Ok(())
}

/// Checks its formatting. Clippy does not cover it: that would check all that it is made of once more, which
/// takes minutes, for a few functions.
pub(crate) fn format(root: &Path) -> Result<()> {
    let mut command = cargo(root);
    command.args(["fmt", "--check", "--manifest-path"]);
    steps::run(command.arg(manifest(root)))
}

/// The variable that tells tests where it is, if it is there.
pub(crate) fn variable(root: &Path) -> Option<(&'static str, String)> {
    let program = program(root);
    let there = program.exists();
    there.then(|| (VARIABLE, program.to_string_lossy().into_owned()))
}
