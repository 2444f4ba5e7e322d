//! `engine-bench report DIR`: everything derived, made again from what was measured.

use crate::{analyze, cli::ReportArgs, report};
use eyre::Result;
use std::{path::Path, process::ExitCode};

pub(crate) fn report(args: &ReportArgs) -> Result<ExitCode> {
    let report = remake(&args.dir, args.baseline.clone())?;
    show(&report, &args.dir, args.json)?;
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

/// Prints a report, and where it is to be looked at.
pub(super) fn show(report: &report::Report, dir: &Path, json: bool) -> Result<()> {
    let text = if json {
        report.to_json()?
    } else {
        let here = std::env::current_dir().unwrap_or_default();
        let page = dir
            .strip_prefix(here)
            .unwrap_or(dir)
            .join(report::HTML_FILE);
        let answer = report::table(report, super::styled());
        format!("{answer}report: {}\n", page.display())
    };
    super::print(&text)
}
