//! Base states as datadirs: made by the engines themselves, kept in the cache.
//!
//! Invariant: every engine of a sweep gets the same state. bench-reth writes it from the stream of
//! accounts, others from the genesis file of the same stream; preparation compares what they found.

use super::{InStep as _, Progress, Step, StepError, disk, prepare::Preparing};
use crate::{
    cache::{self, Building, Cache, Origin},
    engine,
    reset::{Pristine, Tables},
    resolve,
    sweep::{BaseSource, EngineKind, EngineSpec, Settings},
};
use std::{
    fs::{self, File},
    io::{BufWriter, Write as _},
    path::{Path, PathBuf},
    process::Command,
};
use workload::{BaseState, Profile, export};

/// Name of the genesis file while a state is made.
const GENESIS_FILE: &str = "genesis.json";

/// Which generated state is meant.
#[derive(Debug, Clone, Copy)]
pub struct StateKey<'a> {
    /// Its profile.
    pub profile: &'a str,
    /// Its seed.
    pub seed: u64,
}

/// What an engine's datadir is a copy of.
pub(super) enum Source {
    /// A datadir that was given.
    Given(Pristine),
    /// The state that a profile and a seed make.
    Made { profile: String, seed: u64 },
}

/// What the datadir of an engine is a copy of; `None` when it cannot read the one that was given.
pub(super) fn source(settings: &Settings, engine: &EngineSpec) -> Option<Source> {
    match &settings.base {
        BaseSource::Generated { profile } => Some(Source::Made {
            profile: profile.clone(),
            seed: settings.seed,
        }),
        BaseSource::Datadir { path, .. } => {
            let is_its_own = match engine.kind {
                EngineKind::BenchReth => true,
                EngineKind::Reth => Origin::of(path).is_none(),
                EngineKind::Geth => engine::is_geth_datadir(path),
                EngineKind::Ethrex => engine::is_ethrex_datadir(path),
            };
            if is_its_own {
                let (path, tables) = (path.clone(), Tables::Copied);
                return Some(Source::Given(Pristine { path, tables }));
            }
            let Origin { profile, seed, .. } = Origin::of(path)?;
            Some(Source::Made { profile, seed })
        }
    }
}

/// What the datadir of an engine is a copy of, where that exists before anything is made.
pub(super) fn known(settings: &Settings, cache: &Cache, engine: &EngineSpec) -> Option<Pristine> {
    match source(settings, engine)? {
        Source::Given(pristine) => Some(pristine),
        Source::Made { profile, seed } => {
            let made = engine.kind == EngineKind::BenchReth && cache.has_state(&profile, seed);
            made.then(|| Pristine {
                path: cache.state(&profile, seed),
                tables: Tables::Shared,
            })
        }
    }
}

/// Whether an engine that reads a genesis file has made the generated state of a sweep before.
pub(super) fn is_made(settings: &Settings, cache: &Cache, engine: &EngineSpec) -> bool {
    let Some(Source::Made { profile, seed }) = source(settings, engine) else {
        return false;
    };
    cache::is_whole(&cache.state_of(&profile, seed, &owner(engine)))
}

/// Whose state it is: another version of an engine may write another database.
fn owner(engine: &EngineSpec) -> String {
    let version = resolve::version_line(&engine.program);
    let version = version.rsplit(' ').next().unwrap_or_default();
    format!("{}-{version}", engine.kind.name())
}

impl Preparing<'_> {
    /// The datadir that an engine's working copies are made from.
    pub(super) async fn pristine(&self, engine: &EngineSpec) -> Result<Pristine, StepError> {
        let no_state = || StepError::new(Step::State, &no_state(engine));
        let (profile, seed) = match source(self.settings, engine).ok_or_else(no_state)? {
            Source::Given(pristine) => return Ok(pristine),
            Source::Made { profile, seed } => (profile, seed),
        };
        let key = StateKey {
            profile: &profile,
            seed,
        };
        let path = match engine.kind {
            EngineKind::Geth | EngineKind::Reth | EngineKind::Ethrex => {
                self.of_genesis(key, engine).await?
            }
            EngineKind::BenchReth => make_state(self.cache, key, self.logs, self.progress).await?,
        };
        Ok(Pristine {
            path,
            tables: Tables::Shared,
        })
    }

    /// An engine's own datadir of a generated state, made unless it is there and whole.
    async fn of_genesis(
        &self,
        key: StateKey<'_>,
        engine: &EngineSpec,
    ) -> Result<PathBuf, StepError> {
        let owner = owner(engine);
        let target = self.cache.state_of(key.profile, key.seed, &owner);
        if cache::is_whole(&target) {
            return Ok(target);
        }
        let StateKey { profile, seed } = key;
        let what = format!("making the {profile} base state with seed {seed} for {owner}");
        self.progress.begin(0, &what);
        let building = Building::new(&target).in_step(Step::State)?;
        let genesis = building.path().join(GENESIS_FILE);
        write_genesis(key, &genesis).await?;
        let commands = engine::adapter_of(engine.kind).init(engine, building.path(), &genesis);
        for command in commands.in_step(Step::State)? {
            run(
                command,
                self.logs,
                &format!("{owner}-init"),
                building.path(),
            )
            .await?;
        }
        fs::remove_file(&genesis).in_step(Step::State)?;
        cache::seal(building.path()).in_step(Step::State)?;
        building.finish().in_step(Step::State)
    }
}

/// Writes the genesis with the whole state beside this thread, which watches for an interrupt.
async fn write_genesis(key: StateKey<'_>, path: &Path) -> Result<(), StepError> {
    let profile: Profile = key.profile.parse().in_step(Step::State)?;
    let (base, path) = (BaseState::new(profile, key.seed), path.to_owned());
    let write = move || {
        let mut out = BufWriter::new(File::create(&path)?);
        export::write_genesis(&base, &mut out)?;
        out.flush()
    };
    let written = tokio::task::spawn_blocking(write).await;
    written.in_step(Step::State)?.in_step(Step::State)
}

/// The datadir of a generated state in the cache, as the embedded engine makes it, unless it is
/// there and whole.
///
/// # Errors
/// When the embedded engine cannot make it.
pub async fn make_state(
    cache: &Cache,
    key: StateKey<'_>,
    logs: &Path,
    progress: &Progress,
) -> Result<PathBuf, StepError> {
    let target = cache.state(key.profile, key.seed);
    if cache.has_state(key.profile, key.seed) {
        return Ok(target);
    }
    let StateKey { profile, seed } = key;
    let what = format!("making the {profile} base state with seed {seed}");
    progress.begin(0, &what);
    let building = Building::new(&target).in_step(Step::State)?;
    init_datadir(key, building.path(), logs).await?;
    cache::seal(building.path()).in_step(Step::State)?;
    building.finish().in_step(Step::State)
}

/// Has the embedded engine write a generated state into an empty folder.
pub(crate) async fn init_datadir(
    key: StateKey<'_>,
    datadir: &Path,
    logs: &Path,
) -> Result<(), StepError> {
    let engine = resolve::embedded_engine().in_step(Step::State)?;
    let command = engine::init_command(&engine, key.profile, key.seed, datadir);
    run(command, logs, "init", datadir).await?;
    Origin::leave(datadir, key.profile, key.seed).in_step(Step::State)?;
    Ok(())
}

/// Runs a command that writes a datadir, to its end.
async fn run(command: Command, logs: &Path, name: &str, datadir: &Path) -> Result<(), StepError> {
    cache::make_dir(logs).in_step(Step::State)?;
    let [log, pid_file] = ["log", "pid"].map(|end| logs.join(format!("{name}.{end}")));
    let made = engine::run_tool(command, &log, &pid_file).await;
    let made = made.in_step(Step::State);
    made.map_err(|error| disk::remark(error, datadir, logs))
}

/// Why an engine has no state to work on.
pub(super) fn no_state(engine: &EngineSpec) -> String {
    format!(
        "{} cannot read the datadir that was given, which is neither a datadir of {} nor made by engine-bench init; give \
         one of these, or omit --datadir",
        engine.name,
        engine.kind.name()
    )
}
