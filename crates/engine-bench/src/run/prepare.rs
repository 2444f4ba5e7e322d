//! What has to exist before the clock of a sweep starts: base state, working copies, payloads.
//!
//! Invariant: after preparation the base block is known by number, hash and state root, as an
//! engine that was started on the working copy told it.

use super::{InStep as _, Progress, Step, StepError, copies::copy_dir};
use crate::{
    cache::{Cache, WorkLock},
    client::BlockIdentity,
    engine::{self, names_flag},
    payload::PayloadStore,
    reset::{self, Mounts, Pristine, Workspace},
    resolve,
    sweep::{
        BaseSource, EngineKind, EngineSpec, PayloadSource, ResetMethod, Settings, is_engine_flag,
    },
};
use engine_api::JwtSecret;
use std::{
    cell::RefCell,
    collections::HashSet,
    path::{Path, PathBuf},
};

/// Folder of logs of the preparation inside a results folder.
const PREPARE_DIR: &str = "prepare";

/// Name of the engine that builds payloads when no engine of the sweep can.
const BUILDER_NAME: &str = "payload-builder";

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
    pub(super) workspaces: Vec<Workspace>,
    /// What is mounted in the working folder; unmounted before the lock is given back.
    pub(super) _mounts: Mounts,
    pub(super) lock: WorkLock,
    /// Copies beside those of `workspaces` that hold the base state by now.
    pub(super) copied: RefCell<HashSet<PathBuf>>,
}

impl Prepared {
    /// The datadir of an engine.
    ///
    /// # Errors
    /// When the plan names an engine that was not prepared.
    pub(crate) fn workspace(&self, engine: &str) -> Result<&Workspace, StepError> {
        let mut all = self.workspaces.iter();
        let found = all.find(|workspace| workspace.engine.name == engine);
        let cause = format!("no datadir for the engine {engine}");
        found.ok_or_else(|| StepError::new(Step::State, &cause))
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
    engine::stop_leftovers(lock.dir()).in_step(Step::Leftover)?;
    let mounts = Mounts::below(lock.dir()).in_step(Step::Leftover)?;
    let jwt_file = lock.dir().join("jwt.hex");
    let secret = fresh_secret(&jwt_file)?;
    let preparing = Preparing {
        settings,
        cache: &cache,
        work: lock.dir(),
        logs: &out.join(PREPARE_DIR),
        jwt: (&jwt_file, &secret),
        progress,
    };
    let (workspaces, engine_versions, base) = preparing.all().await?;
    let builder = preparing.builder(&workspaces, base).await?;
    let payloads = preparing.payloads(&base, builder.as_ref()).await?;
    Ok(Prepared {
        base,
        payloads,
        engine_versions,
        secret,
        jwt_file,
        workspaces,
        _mounts: mounts,
        lock,
        copied: RefCell::default(),
    })
}

/// What state and payloads are made with, and where.
pub(super) struct Preparing<'a> {
    pub(super) settings: &'a Settings,
    pub(super) cache: &'a Cache,
    pub(super) work: &'a Path,
    pub(super) logs: &'a Path,
    /// The secret of the authenticated port, behind its file.
    pub(super) jwt: (&'a Path, &'a JwtSecret),
    pub(super) progress: &'a Progress,
}

impl Preparing<'_> {
    /// The datadirs and versions of all engines, and the base block that they agree on.
    async fn all(&self) -> Result<(Vec<Workspace>, Vec<String>, BlockIdentity), StepError> {
        let (mut workspaces, mut versions) = (Vec::new(), Vec::new());
        let mut base = None;
        for spec in &self.settings.engines {
            let (workspace, found, version) = self.one(spec).await?;
            check_same_base(base, found, &spec.name)?;
            base = Some(found);
            workspaces.push(workspace);
            versions.push(version);
        }
        let base = base.ok_or_else(|| StepError::new(Step::State, "the sweep names no engine"))?;
        Ok((workspaces, versions, base))
    }

    async fn one(
        &self,
        spec: &EngineSpec,
    ) -> Result<(Workspace, BlockIdentity, String), StepError> {
        let pristine = self.pristine(spec).await?;
        let workspace = self.workspace(spec, pristine)?;
        self.ask(workspace).await
    }

    /// The engine's working copy, made anew.
    fn workspace(&self, spec: &EngineSpec, pristine: Pristine) -> Result<Workspace, StepError> {
        let base = &self.settings.base;
        let in_place = matches!(base, BaseSource::Datadir { in_place: true, .. });
        let datadir = if in_place {
            reset::check_unused(&pristine.path).in_step(Step::State)?;
            pristine.path.clone()
        } else {
            self.progress.message("copying the base state".to_owned());
            copy_dir(self.work, &spec.name, 0)
        };
        let method = match &self.settings.reset {
            ResetMethod::Unwind if !spec.kind.can_unwind() => ResetMethod::Copy,
            method => method.clone(),
        };
        let workspace = Workspace {
            engine: spec.clone(),
            datadir,
            pristine,
            pristine_head: 0,
            method,
            asked_bytes: 0,
            pid_file: self.work.join("engine.pid"),
        };
        if !in_place {
            workspace.renew().in_step(Step::State)?;
        }
        Ok(workspace)
    }

    /// An engine that builds payloads, on the same base block; `None` when none are to be built.
    async fn builder(
        &self,
        workspaces: &[Workspace],
        base: BlockIdentity,
    ) -> Result<Option<Workspace>, StepError> {
        let PayloadSource::Generated { .. } = &self.settings.payloads else {
            return Ok(None);
        };
        let builds = |workspace: &&Workspace| workspace.engine.kind == EngineKind::BenchReth;
        if let Some(workspace) = workspaces.iter().find(builds) {
            return Ok(Some(workspace.clone()));
        }
        let mut embedded = resolve::embedded_engine().in_step(Step::State)?;
        embedded.name = BUILDER_NAME.to_owned();
        // Flags are given for the engines of the sweep: those of another family would end this one.
        let help = engine::help(&embedded);
        let foreign = self.settings.set.iter().map(|set| &set.flag);
        let foreign = foreign.filter(|flag| is_engine_flag(flag) && !names_flag(&help, flag));
        embedded.lacks = foreign.cloned().collect();
        let (workspace, found, _) = self.one(&embedded).await?;
        check_same_base(Some(base), found, &embedded.name)?;
        Ok(Some(workspace))
    }
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
