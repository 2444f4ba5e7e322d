//! What has to exist before the clock of a sweep starts: base state, working copies, payloads.
//!
//! Invariant: after preparation the base block is known by number, hash and state root, as an
//! engine that was started on the working copy told it.

use super::{InStep as _, Progress, Step, StepError, disk, probe::Probe};
use crate::{
    cache::{self, Building, Cache, Origin, WorkLock},
    client::BlockIdentity,
    engine::{self, ToolRun},
    payload::PayloadStore,
    reset::{self, Workspace},
    sweep::{self, BaseSource, EngineSpec, ResetMethod, Settings},
};
use engine_api::JwtSecret;
use std::path::{Path, PathBuf};

/// Folder of logs of the preparation inside a results folder.
const PREPARE_DIR: &str = "prepare";

/// Everything visits need, in place.
#[derive(Debug)]
pub struct Prepared {
    /// The block every pass starts from.
    pub base: BlockIdentity,
    /// Payload lists by gas level.
    pub payloads: PayloadStore,
    /// Engines as they call themselves.
    pub engine_versions: Vec<String>,
    /// Secret of the authenticated port.
    pub secret: JwtSecret,
    /// File with the secret.
    pub jwt_file: PathBuf,
    /// Where the pid of a running engine is kept.
    pub pid_file: PathBuf,
    workspaces: Vec<Workspace>,
    _lock: WorkLock,
}

impl Prepared {
    /// The datadir of an engine.
    ///
    /// # Errors
    /// When the plan names an engine that was not prepared.
    pub(crate) fn workspace(&self, engine: &str) -> Result<&Workspace, StepError> {
        self.workspaces
            .iter()
            .find(|workspace| workspace.engine.name == engine)
            .ok_or_else(|| {
                StepError::new(Step::State, &format!("no datadir for the engine {engine}"))
            })
    }
}

/// Makes or finds state and payloads, and starts every engine once to learn the base block.
///
/// # Errors
/// The step that failed, and why. Nothing can be measured then.
pub async fn prepare(
    settings: &Settings,
    out: &Path,
    progress: &Progress,
) -> Result<Prepared, StepError> {
    let cache = Cache::new(&settings.cache_dir);
    let lock = cache.lock_work().in_step(Step::State)?;
    let pid_file = lock.dir().join("engine.pid");
    engine::stop_leftover(&pid_file).in_step(Step::Leftover)?;
    let jwt_file = lock.dir().join("jwt.hex");
    let secret = fresh_secret(&jwt_file)?;
    let logs = out.join(PREPARE_DIR);
    let pristine = match &settings.base {
        BaseSource::Generated { profile } => {
            let state = StateKey {
                profile,
                seed: settings.seed,
            };
            make_state(&cache, state, &logs, progress).await?
        }
        BaseSource::Datadir { path, .. } => path.clone(),
    };
    let probe = Probe {
        settings,
        cache: &cache,
        logs: &logs,
        secret: &secret,
        jwt_file: &jwt_file,
        pid_file: &pid_file,
        progress,
    };
    let (mut workspaces, mut engine_versions) = (Vec::new(), Vec::new());
    let mut base: Option<BlockIdentity> = None;
    for spec in &settings.engines {
        let workspace = workspace(settings, spec, &pristine, lock.dir(), progress)?;
        let (workspace, found, version) = probe.ask(workspace).await?;
        check_same_base(base, found, &spec.name)?;
        base = Some(found);
        workspaces.push(workspace);
        engine_versions.push(version);
    }
    let first = base.zip(workspaces.first());
    let first = first.ok_or_else(|| StepError::new(Step::State, "the sweep names no engine"));
    let (base, workspace) = first?;
    let payloads = probe.payloads(&base, workspace).await?;
    Ok(Prepared {
        base,
        payloads,
        engine_versions,
        secret,
        jwt_file,
        pid_file,
        workspaces,
        _lock: lock,
    })
}

/// Which generated state is meant.
#[derive(Debug, Clone, Copy)]
pub struct StateKey<'a> {
    /// Its profile.
    pub profile: &'a str,
    /// Its seed.
    pub seed: u64,
}

/// The datadir of a generated state in the cache, made unless it is there and whole.
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
    if cache::is_whole(&target) && Origin::of(&target).is_some() {
        return Ok(target);
    }
    progress.begin(
        0,
        &format!(
            "making the {} base state with seed {}",
            key.profile, key.seed
        ),
    );
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
    let engine = sweep::embedded_engine().in_step(Step::State)?;
    let command = engine::init_command(&engine, key.profile, key.seed, datadir);
    cache::make_dir(logs).in_step(Step::State)?;
    let run = ToolRun {
        command,
        log: &logs.join("init.log"),
        pid_file: &logs.join("init.pid"),
    };
    let made = engine::run_tool(run).await.in_step(Step::State);
    made.map_err(|error| disk::remark(error, datadir))?;
    Origin::leave(datadir, key.profile, key.seed).in_step(Step::State)?;
    Ok(())
}

/// Engines are compared on the same block only.
fn check_same_base(
    known: Option<BlockIdentity>,
    found: BlockIdentity,
    engine: &str,
) -> Result<(), StepError> {
    let Some(known) = known.filter(|known| *known != found) else {
        return Ok(());
    };
    let cause = format!(
        "the base block of {engine} is {} ({}), another engine's is {} ({}); give each the same \
         state",
        found.number, found.hash, known.number, known.hash
    );
    Err(StepError::new(Step::Attest, &cause))
}

fn fresh_secret(path: &Path) -> Result<JwtSecret, StepError> {
    // A secret of an earlier run may be known to whatever that run left behind.
    if path.exists() {
        std::fs::remove_file(path).in_step(Step::State)?;
    }
    JwtSecret::create(path).in_step(Step::State)
}

fn workspace(
    settings: &Settings,
    engine: &EngineSpec,
    pristine: &Path,
    work: &Path,
    progress: &Progress,
) -> Result<Workspace, StepError> {
    let in_place = matches!(settings.base, BaseSource::Datadir { in_place: true, .. });
    let datadir = if in_place {
        if let Some(pid) = reset::lock_owner(pristine) {
            let error = reset::CopyError::InUse {
                datadir: pristine.to_owned(),
                pid,
            };
            return Err(error).in_step(Step::State);
        }
        pristine.to_owned()
    } else {
        progress.message("copying the base state".to_owned());
        let copy = work.join("datadirs").join(cache::file_safe(&engine.name));
        reset::copy_datadir(pristine, &copy).in_step(Step::State)?;
        copy
    };
    Ok(Workspace {
        engine: engine.clone(),
        datadir,
        pristine: pristine.to_owned(),
        pristine_head: 0,
        method: if in_place {
            ResetMethod::Unwind
        } else {
            settings.reset
        },
    })
}
