//! `engine-bench report DIR`: everything derived, made again from what was measured.

use crate::{analyze, cli::ReportArgs, report};
use eyre::Result;
use std::{path::Path, process::ExitCode};

pub(crate) fn report(args: &ReportArgs) -> Result<ExitCode> {
    let report = remake(&args.dir, args.baseline.clone())?;
    show(&report, args.json)?;
    Ok(ExitCode::SUCCESS)
}

/// Reads a results folder and writes every rendering into it.
pub(super) fn remake(dir: &Path, baseline: Option<String>) -> Result<report::Report> {
    let mut outcome = analyze::read_outcome(dir)?;
    outcome.history.plan = outcome.history.plan.with_baseline(baseline)?;
    let report = report::Report::of(&outcome);
    report::write(dir, &report)?;
    Ok(report)
}

/// Prints a report.
pub(super) fn show(report: &report::Report, json: bool) -> Result<()> {
    let text = if json {
        report.to_json()?
    } else {
        report::table(report, super::styled())
    };
    super::print(&text)
}
