//! `engine-bench init`: a base state in the cache, in a datadir, or as files for other engines.

use crate::{
    cache::{self, Cache},
    cli::InitArgs,
    resolve,
    run::{self, Progress, StateKey},
};
use eyre::{Result, WrapErr as _, bail, eyre};
use std::{
    fs::File,
    io::{BufWriter, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};
use workload::{BaseState, Profile, export};

pub(crate) fn init(args: &InitArgs) -> Result<ExitCode> {
    let name = resolve::profile_name(&args.state.profile)?;
    let profile: Profile = name.parse()?;
    if args.export_genesis.is_some() && matches!(profile, Profile::Large { .. }) {
        bail!(
            "--export-genesis writes the whole state into one file, which readers keep in memory; use it with --profile small or medium, or use --export-dump"
        );
    }
    let key = StateKey {
        profile: &name,
        seed: args.state.seed,
    };
    let datadir = super::prepare(make(args, key))?;
    let base = BaseState::new(profile, args.state.seed);
    if let Some(path) = &args.export_genesis {
        export_to(path, |out| export::write_genesis(&base, out))?;
    }
    if let Some(path) = &args.export_dump {
        let root = cache::Origin::of(&datadir).map(|origin| origin.state_root);
        let root = root.ok_or_else(|| {
            eyre!(
                "{} has lost its base-state.json; make the state again in an empty folder",
                datadir.display()
            )
        })?;
        export_to(path, |out| export::write_state_dump(&base, root, out))?;
    }
    super::print(&format!("{}\n", datadir.display()))?;
    Ok(ExitCode::SUCCESS)
}

async fn make(args: &InitArgs, key: StateKey<'_>) -> Result<PathBuf> {
    let cache_dir = cache::directory(args.state.cache_dir.as_deref())?;
    let cache = Cache::new(&cache_dir);
    let lock = cache.lock_work()?;
    let progress = Progress::new(false);
    let made = match &args.datadir {
        None => run::make_state(&cache, key, lock.dir(), &progress).await?,
        Some(datadir) => {
            progress.begin(0, &format!("making the {} base state", key.profile));
            run::init_datadir(key, datadir, lock.dir()).await?;
            datadir.clone()
        }
    };
    progress.end();
    Ok(made)
}

fn export_to(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> std::io::Result<()>,
) -> Result<()> {
    let export = || {
        let mut out = BufWriter::new(File::create(path)?);
        write(&mut out)?;
        out.flush()
    };
    export().wrap_err_with(|| format!("failed to write {}", path.display()))
}
