//! What has to exist before the clock of a sweep starts: base state, working copies, payloads.
//!
//! Invariant: after preparation the base block is known by number, hash and state root, as an
//! engine that was started on the working copy told it.

use super::{InStep as _, Progress, Step, StepError};
use crate::{
    cache::{self, Building, Cache, WorkLock},
    client::{BlockIdentity, Node},
    engine::{self, Engine, Launch, ToolRun},
    payload::{self, PayloadStore, Recipe},
    reset::{self, Workspace},
    sweep::{self, BaseSource, EngineSpec, Gas, Level, PayloadSource, ResetMethod, Settings},
};
use engine_api::JwtSecret;
use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

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
            .ok_or_else(|| StepError {
                step: Step::State,
                cause: format!("no datadir for the engine {engine}"),
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
    let first = base.zip(workspaces.first()).ok_or_else(|| StepError {
        step: Step::State,
        cause: "the sweep names no engine".to_owned(),
    });
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
    if cache::is_whole(&target) {
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
    let mut command = Command::new(&engine.program);
    command.args(["bench-reth", "init", "--profile", key.profile, "--seed"]);
    command
        .arg(key.seed.to_string())
        .arg("--datadir")
        .arg(datadir);
    cache::make_dir(logs).in_step(Step::State)?;
    let run = ToolRun {
        command,
        log: &logs.join("init.log"),
        pid_file: &logs.join("init.pid"),
    };
    engine::run_tool(run).await.in_step(Step::State)
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
    Err(StepError {
        step: Step::Attest,
        cause,
    })
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

/// Starting engines on their working copies, to ask what is in them and to build payloads.
struct Probe<'a> {
    settings: &'a Settings,
    cache: &'a Cache,
    logs: &'a Path,
    secret: &'a JwtSecret,
    jwt_file: &'a Path,
    pid_file: &'a Path,
    progress: &'a Progress,
}

impl Probe<'_> {
    /// Completes the workspace with the head found in it; gives the base block and the engine's
    /// version beside it.
    async fn ask(
        &self,
        mut workspace: Workspace,
    ) -> Result<(Workspace, BlockIdentity, String), StepError> {
        let (engine, mut node) = self.start(&workspace, "ask").await?;
        let head = node.head().await.in_step(Step::Attest)?;
        let base = self.base_block(&mut node, &head).await?;
        let version = node.version().await.in_step(Step::Attest)?;
        engine.stop().in_step(Step::Stop)?;
        workspace.pristine_head = head.number();
        Ok((workspace, base, version))
    }

    async fn start(
        &self,
        workspace: &Workspace,
        purpose: &str,
    ) -> Result<(Engine, Node), StepError> {
        let name = cache::file_safe(&workspace.engine.name);
        let launch = Launch {
            engine: &workspace.engine,
            datadir: &workspace.datadir,
            jwt_file: self.jwt_file,
            flags: &[],
            defaults: engine::shared_flags(self.settings),
            log: self.logs.join(format!("{name}-{purpose}.log")),
            pid_file: self.pid_file,
        };
        let mut engine = Engine::start(&launch).in_step(Step::Start)?;
        let patience = Duration::from_millis(self.settings.ready_timeout_ms);
        engine::wait_until_ready(&mut engine, self.secret, patience)
            .await
            .in_step(Step::Ready)?;
        let timeout = Duration::from_millis(self.settings.request_timeout_ms);
        let node = Node::connect(engine.endpoints(), self.secret, timeout);
        Ok((engine, node.in_step(Step::Ready)?))
    }

    /// The target block, or the head.
    async fn base_block(
        &self,
        node: &mut Node,
        head: &BlockIdentity,
    ) -> Result<BlockIdentity, StepError> {
        let Some(target) = self.settings.target_block else {
            return Ok(*head);
        };
        let refused = |cause| StepError {
            step: Step::State,
            cause,
        };
        if target > head.number() {
            let last = head.number;
            return Err(refused(format!(
                "the datadir ends at block {last}, behind --target-block {target}; give a target \
                 of at most {last}"
            )));
        }
        let block = node.block(target).await.in_step(Step::Attest)?;
        block.ok_or_else(|| refused(format!("the engine knows no block {target}")))
    }

    /// Finds the payload folder of every level, generating what is missing.
    async fn payloads(
        &self,
        base: &BlockIdentity,
        workspace: &Workspace,
    ) -> Result<PayloadStore, StepError> {
        let levels = &self.settings.levels;
        self.check_limit(base)?;
        let PayloadSource::Generated { mix } = &self.settings.payloads else {
            return Ok(PayloadStore::new(
                levels.iter().map(|level| (level.gas, self.folder(*level))),
            ));
        };
        let recipe = self.recipe(mix, base)?;
        for level in levels
            .iter()
            .filter(|level| !recipe.is_made(self.cache, **level))
        {
            self.generate(&recipe, *level, workspace).await?;
        }
        let folder = |level: &Level| (level.gas, recipe.folder(self.cache, *level));
        Ok(PayloadStore::new(levels.iter().map(folder)))
    }

    fn recipe(&self, mix: &str, base: &BlockIdentity) -> Result<Recipe, StepError> {
        let BaseSource::Generated { profile } = &self.settings.base else {
            let cause = "payloads can be generated on a generated state only; give --payloads \
                         with --datadir";
            return Err(StepError {
                step: Step::Payloads,
                cause: cause.to_owned(),
            });
        };
        Ok(Recipe {
            profile: profile.parse().in_step(Step::Payloads)?,
            mix: mix.parse().in_step(Step::Payloads)?,
            seed: self.settings.seed,
            base: *base,
        })
    }

    async fn generate(
        &self,
        recipe: &Recipe,
        level: Level,
        workspace: &Workspace,
    ) -> Result<(), StepError> {
        let what = format!("generating payloads of {}", level.gas);
        self.progress.begin(payload::count(level), &what);
        // Building moves the head, so every level begins with a reset.
        let log = self.logs.join("reset.log");
        workspace
            .reset(recipe.base.number(), &log, self.pid_file)
            .await
            .in_step(Step::Reset)?;
        let purpose = format!("generate-{}", level.gas);
        let (engine, mut node) = self.start(workspace, &purpose).await?;
        let on_block = || self.progress.advance();
        recipe
            .make(self.cache, level, &mut node, on_block)
            .await
            .in_step(Step::Payloads)?;
        engine.stop().in_step(Step::Stop)
    }

    fn check_limit(&self, base: &BlockIdentity) -> Result<(), StepError> {
        let limit = Gas(base.gas_limit.to());
        let above = self.settings.levels.iter().find(|level| level.gas > limit);
        let Some(level) = above else { return Ok(()) };
        let cause = format!(
            "--gas {} is above the block gas limit {limit} of the base block; give at most {limit}",
            level.gas
        );
        Err(StepError {
            step: Step::Payloads,
            cause,
        })
    }

    /// Where the payloads of a level should be. A level without a folder fails its own visits,
    /// not those of other levels.
    fn folder(&self, level: Level) -> PathBuf {
        let PayloadSource::Folder { path } = &self.settings.payloads else {
            return PathBuf::new();
        };
        let named = path.join(level.gas.to_string());
        let only_level = self.settings.levels.len() == 1;
        if only_level && !named.is_dir() {
            path.clone()
        } else {
            named
        }
    }
}
