//! `engine-bench report DIR`: everything derived, made again from what was measured.

use crate::{analyze, cli::ReportArgs, report};
use eyre::Result;
use std::{path::Path, process::ExitCode};

pub(crate) fn report(args: &ReportArgs) -> Result<ExitCode> {
    let report = remake(&args.dir)?;
    show(&report, args.json)?;
    Ok(ExitCode::SUCCESS)
}

/// Reads a results folder and writes every rendering into it.
pub(super) fn remake(dir: &Path) -> Result<report::Report> {
    let report = report::Report::of(&analyze::read_outcome(dir)?);
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
