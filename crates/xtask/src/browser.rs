//! The browser that tests open reports in.
//!
//! Invariant: taken from the machine, never downloaded by hand: Debian's package is installed in CI,
//! where nothing may be skipped, and nowhere else.

use crate::steps::{has, in_ci, run};
use eyre::{Result, ensure};
use std::{path::Path, process::Command};

/// Names of the browser on the PATH, the most usual first.
const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
/// Where tests find it.
const VARIABLE: &str = "ENGINE_BENCH_CHROMIUM";

/// Why there is no browser and cannot be one, if so.
pub(crate) fn missing() -> Option<String> {
    let installable = in_ci() && has("apt-get");
    (found().is_none() && !installable)
        .then(|| format!("none of {} found on the PATH", NAMES.join(", ")))
}

/// Installs the browser unless it is there already.
pub(crate) fn install(_root: &Path) -> Result<()> {
    if found().is_none() {
        run(Command::new("apt-get").args(["update", "-q"]))?;
        run(Command::new("apt-get")
            .args(["install", "-q", "-y", "--no-install-recommends", "chromium"])
            .env("DEBIAN_FRONTEND", "noninteractive"))?;
    }
    ensure!(found().is_some(), "apt-get install left no browser");
    Ok(())
}

/// The variable that tells tests which browser there is.
pub(crate) fn variable() -> Option<(&'static str, String)> {
    found().map(|name| (VARIABLE, name.to_owned()))
}

fn found() -> Option<&'static str> {
    NAMES.into_iter().find(|name| has(name))
}
