//! What an engine exported around a measured pass.
//!
//! Invariant: there is both, what was exported before and after, or nothing.

use engine_api::metric::{Metric, Scrape};
use std::{fs, io, path::Path};

/// What the engine exported before a measured pass.
const BEFORE_FILE: &str = "metrics-before.prom";
/// What it exported after it.
const AFTER_FILE: &str = "metrics-after.prom";

/// What an engine exported around a pass.
#[derive(Debug, Clone, PartialEq)]
pub struct PassMetrics {
    before: Scrape,
    after: Scrape,
}

impl PassMetrics {
    /// What was exported before and after a pass.
    pub fn parse(before: &str, after: &str) -> Self {
        Self {
            before: Scrape::parse(before),
            after: Scrape::parse(after),
        }
    }

    /// Reads the files of a pass; `None` when the engine exported nothing.
    pub fn read(dir: &Path) -> Option<Self> {
        let read = |name| fs::read_to_string(dir.join(name)).ok();
        Some(Self::parse(&read(BEFORE_FILE)?, &read(AFTER_FILE)?))
    }

    /// Growth of a summary's sum, in seconds or whatever it observes.
    pub fn sum(&self, metric: Metric) -> Option<f64> {
        let observed = self.after.observed_since(&self.before, metric.name)?;
        Some(observed.sum)
    }
}

/// SHA-256 of what is kept of a pass, in hexadecimal; `None` when nothing is.
pub fn metrics_sum(dir: &Path) -> Option<String> {
    let read = |name| fs::read(dir.join(name)).ok();
    let both = [read(BEFORE_FILE)?, read(AFTER_FILE)?];
    Some(super::sum(&both.concat()))
}

/// Keeps what an engine exported before and after a pass, if it did both times.
///
/// # Errors
/// When a file cannot be written.
pub fn write_metrics(dir: &Path, metrics: Option<(&str, &str)>) -> io::Result<()> {
    let Some((before, after)) = metrics else {
        return Ok(());
    };
    fs::write(dir.join(BEFORE_FILE), before)?;
    fs::write(dir.join(AFTER_FILE), after)
}
