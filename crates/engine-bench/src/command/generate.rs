//! `engine-bench generate`: payload lists in the cache, and copies of them where they are wanted.

use crate::{
    cli::{GenerateArgs, SweepArgs},
    payload,
    plan::Plan,
    resolve,
    run::{self, Progress},
    sweep::{Level, Settings},
};
use engine_api::PayloadFile;
use eyre::{Result, WrapErr as _, ensure};
use std::{fs, path::Path, process::ExitCode};
use workload::Manifest;

pub(crate) fn generate(args: &GenerateArgs) -> Result<ExitCode> {
    let plan = Plan::new(settings(args)?);
    run::check_feasible(&plan)?;
    let settings = &plan.settings;
    let folder = |level: &Level| args.out.as_ref().map(|out| out.join(level.gas.to_string()));
    for dir in settings.levels.iter().filter_map(folder) {
        // Before minutes are spent on payloads that could not be written.
        make_empty(&dir)?;
    }
    let progress = Progress::new(false);
    let logs = tempfile::tempdir()?;
    let preparing = async { Ok(run::prepare(settings, logs.path(), &progress).await?) };
    let prepared = super::prepare(preparing);
    progress.end();
    let prepared = prepared?;
    let mix = settings.mixes().concat();
    for level in &settings.levels {
        let Some(made) = prepared.payloads.folder(&mix, level.gas) else {
            continue;
        };
        let shown = match folder(level) {
            None => made,
            Some(dir) => {
                copy(&made, &dir, payload::count(*level))?;
                dir
            }
        };
        super::print(&format!("{}\n", shown.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The settings of a sweep with the same workload: what it would make, this makes.
fn settings(args: &GenerateArgs) -> Result<Settings> {
    resolve::resolve(&SweepArgs {
        gas: Some(args.gas.clone()),
        count: args.count,
        mix: Some(args.mix.clone()),
        state: args.state.clone(),
        ..SweepArgs::alone(&[])?
    })
}

/// Creates a folder; one that exists must be empty.
fn make_empty(dir: &Path) -> Result<()> {
    fs::create_dir_all(dir).wrap_err_with(|| format!("failed to create {}", dir.display()))?;
    ensure!(
        fs::read_dir(dir)?.next().is_none(),
        "the folder {} is not empty; give another --out",
        dir.display()
    );
    Ok(())
}

/// Copies the first payloads of a list with a manifest of their own: the cache may hold a longer
/// list.
fn copy(from: &Path, to: &Path, count: u64) -> Result<()> {
    let mut manifest = Manifest::read(from)?;
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    manifest.blocks.truncate(count);
    for block in &manifest.blocks {
        let name = PayloadFile::name(block.number);
        let target = to.join(&name);
        fs::copy(from.join(&name), &target)
            .wrap_err_with(|| format!("failed to write {}", target.display()))?;
    }
    Ok(manifest.write(to)?)
}
