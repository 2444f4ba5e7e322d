//! `engine-bench verify-results DIR`: does everything published follow from what was measured?

use crate::{analyze, cli::EXIT_FOUND, report};
use eyre::Result;
use std::{path::Path, process::ExitCode};

pub(crate) fn verify_results(dir: &Path) -> Result<ExitCode> {
    let mut outcome = analyze::read_outcome(dir)?;
    let baseline = report::published_baseline(dir)?;
    outcome.history.plan = outcome.history.plan.with_baseline(baseline)?;
    let report = report::Report::of(&outcome);
    let mut findings = report::verify(dir, &report)?;
    findings.extend(analyze::verify_passes(dir, &outcome)?);
    if findings.is_empty() {
        let passes: usize = outcome.passes.values().map(|rounds| rounds.len()).sum();
        let mut text =
            format!("every published number follows from the samples of {passes} passes\n");
        let attempts = outcome.attempts.iter();
        let voided = attempts.filter(|attempt| attempt.ended.is_void()).count();
        if voided > 0 {
            text += &format!("{voided} void visits are as they were measured\n");
        }
        if !outcome.traces.is_empty() || !outcome.profiles.is_empty() {
            text += "traces and profiles were kept without a sum: they are not covered\n";
        }
        super::print(&text)?;
        return Ok(ExitCode::SUCCESS);
    }
    super::print(&(findings.join("\n") + "\n"))?;
    eprintln!("{} findings", findings.len());
    Ok(ExitCode::from(EXIT_FOUND))
}
