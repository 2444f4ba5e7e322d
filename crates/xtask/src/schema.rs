//! The JSON schema of sweep files, as the program prints it.
//!
//! Invariant: a test of the harness compares the file with the flags, so a stale one is found.

use crate::steps;
use eyre::{Result, WrapErr as _, ensure};
use std::{fs, path::Path};

/// Where editors find the schema: beside the files that name it.
const FILE: &str = "sweeps/schema.json";

/// Writes the schema.
pub(crate) fn run(root: &Path) -> Result<()> {
    let mut command = steps::cargo(root);
    command.args(["run", "--release", "--locked", "--quiet", "--", "schema"]);
    let output = command.stderr(std::process::Stdio::inherit()).output();
    let output = output.wrap_err("failed to start cargo")?;
    ensure!(
        output.status.success(),
        "`schema` ended with {}",
        output.status
    );
    let path = root.join(FILE);
    fs::write(&path, output.stdout).wrap_err_with(|| format!("failed to write {}", path.display()))
}
