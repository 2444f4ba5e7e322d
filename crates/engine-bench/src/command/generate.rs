//! `engine-bench generate`: payload lists in the cache, and copies of them where they are wanted.

use crate::{
    cli::{GenerateArgs, SweepArgs},
    run::{self, Progress},
    sweep::{self, Settings},
};
use clap::Parser;
use eyre::{Result, WrapErr as _, eyre};
use std::{fs, path::Path, process::ExitCode};

pub(crate) fn generate(args: &GenerateArgs) -> Result<ExitCode> {
    let settings = settings(args)?;
    let progress = Progress::new(false);
    let logs = tempfile::tempdir()?;
    let prepared = super::runtime()?.block_on(async {
        tokio::select! {
            biased;
            () = super::interrupted() => Err(eyre!("interrupted")),
            prepared = run::prepare(&settings, logs.path(), &progress) => Ok(prepared?),
        }
    });
    progress.end();
    let prepared = prepared?;
    for level in &settings.levels {
        let Some(made) = prepared.payloads.dirs().get(&level.gas) else {
            continue;
        };
        let shown = match &args.out {
            None => made.clone(),
            Some(out) => {
                let dir = out.join(level.gas.to_string());
                copy(made, &dir)?;
                dir
            }
        };
        super::print(&format!("{}\n", shown.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The settings of a sweep with the same workload: what it would make, this makes.
fn settings(args: &GenerateArgs) -> Result<Settings> {
    /// The flags of a sweep on their own.
    #[derive(Parser)]
    struct Defaults {
        #[command(flatten)]
        sweep: SweepArgs,
    }
    let Defaults { sweep } = Defaults::try_parse_from(["sweep"])?;
    Ok(sweep::resolve(&SweepArgs {
        gas: Some(args.gas.clone()),
        count: args.count,
        mix: args.mix.clone(),
        state: args.state.clone(),
        ..sweep
    })?)
}

/// Copies the files of a list into a folder that is new or empty.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).wrap_err_with(|| format!("failed to create {}", to.display()))?;
    if fs::read_dir(to)?.next().is_some() {
        return Err(eyre!(
            "the folder {} is not empty; give --out another one",
            to.display()
        ));
    }
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        fs::copy(entry.path(), &target)
            .wrap_err_with(|| format!("failed to write {}", target.display()))?;
    }
    Ok(())
}
