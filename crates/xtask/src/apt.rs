//! Programs of Debian's packages that tests use: a browser, Prometheus with promtool, perf.
//!
//! Invariant: taken from the machine, never downloaded by hand: a package is installed in CI, where nothing
//! may be skipped, and nowhere else.

use crate::steps::{has, in_ci, run};
use eyre::{Result, ensure};
use std::process::Command;

/// A package and what tests use of it.
pub(crate) struct Package {
    name: &'static str,
    /// Each under its usual names: one of them has to be on the PATH.
    programs: &'static [&'static [&'static str]],
}

/// The browser that tests open reports in.
pub(crate) const BROWSER: Package = Package {
    name: "chromium",
    programs: &[&["chromium", "chromium-browser", "google-chrome"]],
};

/// Prometheus and the checker of its files.
pub(crate) const PROMETHEUS: Package = Package {
    name: "prometheus",
    programs: &[&["prometheus"], &["promtool"]],
};

/// Linux' profiler.
pub(crate) const PERF: Package = Package {
    name: "linux-perf",
    programs: &[&["perf"]],
};

/// Where tests find the browser.
const BROWSER_VARIABLE: &str = "ENGINE_BENCH_CHROMIUM";

impl Package {
    /// Why its programs are neither here nor can be installed, if so.
    pub(crate) fn missing(&self) -> Option<String> {
        let installable = in_ci() && has("apt-get");
        let absent = self.absent();
        (!absent.is_empty() && !installable)
            .then(|| format!("{} not found on the PATH", absent.join(" and ")))
    }

    /// Installs it unless its programs are there. Its services are not started.
    pub(crate) fn install(&self) -> Result<()> {
        if !self.absent().is_empty() {
            apt(&["update"])?;
            apt(&["install", "--no-install-recommends", self.name])?;
        }
        let absent = self.absent();
        ensure!(
            absent.is_empty(),
            "apt-get install {} left no {}",
            self.name,
            absent.join(" and no ")
        );
        Ok(())
    }

    /// The first names of the programs that are not on the PATH.
    fn absent(&self) -> Vec<&'static str> {
        let absent = self.programs.iter().filter(|names| found(names).is_none());
        absent.filter_map(|names| names.first().copied()).collect()
    }
}

/// The variable that tells tests which browser there is.
pub(crate) fn variable() -> Option<(&'static str, String)> {
    let name = BROWSER.programs.iter().find_map(|names| found(names))?;
    Some((BROWSER_VARIABLE, name.to_owned()))
}

fn found(names: &[&'static str]) -> Option<&'static str> {
    names.iter().copied().find(|name| has(name))
}

fn apt(args: &[&str]) -> Result<()> {
    run(Command::new("apt-get")
        .args(["-q", "-y"])
        .args(args)
        .env("DEBIAN_FRONTEND", "noninteractive")
        // A package's script starts no service when the system is told to.
        .env("RUNLEVEL", "1"))
}
