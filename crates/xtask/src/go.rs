//! Programs written in Go that tests run beside bench-reth: which are needed, and how they get here.
//!
//! Invariant: a program is installed once into `target/tools` and found again under its version, so
//! that a changed version is never served by an old file.

use crate::{observers, steps};
use eyre::{Result, ensure};
use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// The geth that blocks are compared with.
const GETH_VERSION: &str = "v1.17.8";
/// Oldest Go whose compiler builds that geth, as (major, minor).
const OLDEST_GO: (u32, u32) = (1, 25);
/// Where tests find geth.
pub(crate) const GETH_VARIABLE: &str = "ENGINE_BENCH_GETH";
/// Where tests find the program that makes a chain through every fork.
const CHAIN_MAKER_VARIABLE: &str = "ENGINE_BENCH_CHAIN_MAKER";

/// Why programs in Go cannot be built on this machine, if they cannot.
pub(crate) fn missing() -> Option<String> {
    let (major, minor) = OLDEST_GO;
    let needed = format!("Go {major}.{minor} or later");
    let Ok(output) = Command::new("go").args(["env", "GOVERSION"]).output() else {
        return Some(format!("{needed} not found on the PATH"));
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let found = text.trim();
    match version(found) {
        Some(version) if version >= OLDEST_GO => None,
        _ => Some(format!("{needed} is needed, found {found:?}")),
    }
}

/// The file that holds geth once [`install_geth`] has run.
pub(crate) fn geth(root: &Path) -> PathBuf {
    root.join("target/tools")
        .join(format!("geth@{GETH_VERSION}"))
        .join("geth")
}

/// Builds geth unless it is there already.
pub(crate) fn install_geth(root: &Path) -> Result<()> {
    let program = geth(root);
    if !program.exists() {
        let package = format!("github.com/ethereum/go-ethereum/cmd/geth@{GETH_VERSION}");
        let mut command = Command::new("go");
        command
            .args(["install", &package])
            .env("GOBIN", program.parent().unwrap_or(root));
        steps::run(&mut command)?;
    }
    ensure!(program.exists(), "go install left no {}", program.display());
    Ok(())
}

/// The file that holds the chain maker once [`build_chain_maker`] has run.
fn chain_maker(root: &Path) -> PathBuf {
    root.join("target/tools/chain-maker")
}

/// Builds the chain maker from its sources, with the flags of geth, whose packages it then shares; Go
/// does nothing when they have not changed.
pub(crate) fn build_chain_maker(root: &Path) -> Result<()> {
    let mut command = Command::new("go");
    command
        .args(["build", "-mod=readonly", "-o"])
        .arg(chain_maker(root))
        .arg(".")
        .current_dir(root.join("tests/chain-maker"));
    steps::run(&mut command)
}

/// The variables that tell tests where the programs are that exist.
pub(crate) fn variables(root: &Path) -> Vec<(&'static str, String)> {
    let programs = [
        (GETH_VARIABLE, geth(root)),
        (CHAIN_MAKER_VARIABLE, chain_maker(root)),
        (observers::JAEGER_VARIABLE, observers::jaeger(root)),
    ];
    programs
        .into_iter()
        .filter(|(_, program)| program.exists())
        .map(|(variable, program)| (variable, program.to_string_lossy().into_owned()))
        .collect()
}

/// Major and minor of a text like `go1.26.8`.
fn version(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.strip_prefix("go")?.split('.');
    let major = parts.next()?.parse().ok()?;
    let minor = parts.next()?;
    let digits = minor.find(|c: char| !c.is_ascii_digit());
    let minor = minor[..digits.unwrap_or(minor.len())].parse().ok()?;
    Some((major, minor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_go_prints_them() {
        for (text, expected) in [
            ("go1.26.8", Some((1, 26))),
            ("go1.25", Some((1, 25))),
            ("go1.27rc1", Some((1, 27))),
            ("devel", None),
            ("", None),
        ] {
            assert_eq!(version(text), expected, "{text}");
        }
    }
}
