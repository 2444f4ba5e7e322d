//! `engine-bench doctor`: what about this machine makes measurements worse.

use crate::{cache, cli::DoctorArgs, guard::Preflight};
use eyre::Result;
use std::process::ExitCode;

pub(crate) fn doctor(args: &DoctorArgs) -> Result<ExitCode> {
    let preflight = Preflight::read(&cache::directory(args.cache_dir.as_deref())?);
    let text = if args.json {
        serde_json::to_string_pretty(&preflight)?
    } else {
        preflight.lines(true).join("\n")
    };
    super::print(&format!("{text}\n"))?;
    Ok(ExitCode::SUCCESS)
}
