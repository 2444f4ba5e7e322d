//! Starting engines on their working copies: to learn the base block, and to build payloads on it.
//!
//! Invariant: payloads are generated only on a state whose root at block 0 is the one they are
//! generated for.

use super::{InStep as _, Step, StepError, disk, prepare::Preparing};
use crate::{
    cache::{self, ORIGIN_FILE, Origin},
    client::{BlockIdentity, Node},
    engine::{self, Engine, Launch},
    guard,
    payload::{self, PayloadStore, Recipe},
    reset::Workspace,
    sweep::{BaseSource, EngineSpec, Gas, Level, PayloadSource, ResetMethod, Settings},
};
use alloy_primitives::B256;
use engine_api::JwtSecret;
use std::{
    path::{Path, PathBuf},
    time::Duration,
};

/// An engine that was started to be asked.
pub(super) struct Asked {
    pub(super) engine: Engine,
    pub(super) node: Node,
    /// The block that its datadir ends at.
    pub(super) head: BlockIdentity,
}

impl Preparing<'_> {
    /// Completes the workspace with the head found in it; gives the base block and the engine's
    /// version beside it.
    pub(super) async fn ask(
        &self,
        mut workspace: Workspace,
    ) -> Result<(Workspace, BlockIdentity, String), StepError> {
        let asked = self.start(&workspace, "ask").await?;
        let found = asked.head.number();
        let target = self.target()?.unwrap_or(found);
        let asked = self.advance(&workspace, asked, target).await?;
        let Asked {
            engine,
            mut node,
            head,
        } = asked;
        let base = self.base_block(&mut node, &head, target).await?;
        let version = node.version().await.in_step(Step::Attest)?;
        workspace.asked_bytes = guard::own_memory_bytes(engine.pid()).unwrap_or(0);
        engine.stop().in_step(Step::Stop)?;
        if head.number() > found {
            self.keep(&mut workspace)?;
        }
        workspace.pristine_head = head.number();
        let is_own = matches!(workspace.method, ResetMethod::Command(_));
        if base != head && !is_own {
            workspace
                .unwind_command(base.number())
                .in_step(Step::State)?;
        }
        keep_tries(&mut workspace, base.number())?;
        Ok((workspace, base, version))
    }

    /// Starts an engine and asks where its datadir ends.
    pub(super) async fn start(
        &self,
        workspace: &Workspace,
        purpose: &str,
    ) -> Result<Asked, StepError> {
        let knobs = self.settings.knobs_of(&workspace.engine, &[]);
        let log = self.log_of(&workspace.engine, purpose);
        let (engine, mut node) = start(self.settings, workspace, self.jwt, &knobs, log).await?;
        let head = node.head().await.in_step(Step::Attest)?;
        Ok(Asked { engine, node, head })
    }

    /// Where an engine's log goes during the preparation.
    pub(super) fn log_of(&self, engine: &EngineSpec, purpose: &str) -> PathBuf {
        let name = cache::file_safe(&engine.name);
        self.logs.join(format!("{name}-{purpose}.log"))
    }

    /// The target block, which is no higher than the head.
    async fn base_block(
        &self,
        node: &mut Node,
        head: &BlockIdentity,
        target: u64,
    ) -> Result<BlockIdentity, StepError> {
        if target == head.number() {
            return Ok(*head);
        }
        let block = node.block(target).await.in_step(Step::Attest)?;
        block.ok_or_else(|| {
            let cause = format!("the engine has no block {target}; give another --target-block");
            StepError::new(Step::State, &cause)
        })
    }

    /// Finds the payload folder of every level, generating what is missing.
    pub(super) async fn payloads(
        &self,
        base: &BlockIdentity,
        builder: Option<&Workspace>,
    ) -> Result<PayloadStore, StepError> {
        let levels = &self.settings.levels;
        self.check_limit(base)?;
        let mut folders = Vec::new();
        if let PayloadSource::Folder { path } = &self.settings.payloads {
            let folder = |level: &Level| payload::level_folder(path, *level, levels.len());
            let lists = levels.iter();
            folders.extend(lists.map(|level| ((String::new(), level.gas), folder(level))));
        }
        let Some(builder) = builder else {
            return Ok(PayloadStore::new(folders));
        };
        for mix in self.settings.mixes() {
            let recipe = self.recipe(mix, base)?;
            for level in levels {
                let folder = match recipe.find(self.cache, *level) {
                    Some(folder) => folder,
                    None => self.generate(&recipe, *level, builder).await?,
                };
                folders.push(((mix.to_owned(), level.gas), folder));
            }
        }
        Ok(PayloadStore::new(folders))
    }

    /// What payloads on the base block are made from: the state that the sweep generated, or the
    /// one that the user's datadir says it was generated from.
    fn recipe(&self, mix: &str, base: &BlockIdentity) -> Result<Recipe, StepError> {
        let seed = self.settings.seed;
        let (profile, state_seed) = match &self.settings.base {
            BaseSource::Generated { profile } => (profile.clone(), seed),
            BaseSource::Datadir { path, .. } => {
                let refused = || StepError::new(Step::Payloads, &no_origin(path));
                let origin = Origin::of(path).ok_or_else(refused)?;
                (origin.profile, origin.seed)
            }
        };
        Ok(Recipe {
            profile: profile.parse().in_step(Step::Payloads)?,
            state_seed,
            mix: mix.parse().in_step(Step::Payloads)?,
            seed,
            base: *base,
        })
    }

    /// Compares block 0 with what the user's datadir says it was generated from.
    async fn attest_origin(&self, node: &mut Node) -> Result<(), StepError> {
        let BaseSource::Datadir { path, .. } = &self.settings.base else {
            return Ok(());
        };
        let genesis = node.block(0).await.in_step(Step::Attest)?;
        let found = genesis.map(|block| block.state_root);
        let claimed = Origin::of(path).map(|origin| origin.state_root);
        if found == claimed {
            return Ok(());
        }
        let root = |root: Option<B256>| root.map_or("unknown".to_owned(), |root| root.to_string());
        let cause = format!(
            "payloads cannot be generated on {}: the state root of its block 0 is {}, but its \
             {ORIGIN_FILE} says {}; give payloads that build on it with --payloads",
            path.display(),
            root(found),
            root(claimed),
        );
        Err(StepError::new(Step::Payloads, &cause))
    }

    async fn generate(
        &self,
        recipe: &Recipe,
        level: Level,
        workspace: &Workspace,
    ) -> Result<PathBuf, StepError> {
        let what = format!("generating {} payloads of {}", recipe.mix.name(), level.gas);
        self.progress.begin(payload::count(level), &what);
        // Building moves the head, so every level begins with a reset.
        let log = self.logs.join("reset.log");
        workspace
            .reset(recipe.base.number(), &log)
            .await
            .in_step(Step::Reset)?;
        let purpose = format!("generate-{}", level.gas);
        let asked = self.start(workspace, &purpose).await?;
        let (engine, mut node) = (asked.engine, asked.node);
        self.attest_origin(&mut node).await?;
        let on_block = || self.progress.advance();
        let folder = recipe
            .make(self.cache, level, &mut node, on_block)
            .await
            .in_step(Step::Payloads)
            .map_err(|error| disk::remark(error, &workspace.datadir, self.logs))?;
        engine.stop().in_step(Step::Stop)?;
        Ok(folder)
    }

    fn check_limit(&self, base: &BlockIdentity) -> Result<(), StepError> {
        let limit = Gas(base.gas_limit.to());
        let above = self.settings.levels.iter().find(|level| level.gas > limit);
        let Some(level) = above else { return Ok(()) };
        let cause = format!(
            "--gas {} is above the block gas limit {limit} of the base block; give at most {limit}",
            level.gas
        );
        Err(StepError::new(Step::Payloads, &cause))
    }
}

/// Starts an engine with these knobs on its working copy, and waits until it is ready. `jwt` is the secret behind
/// its file.
pub(super) async fn start(
    settings: &Settings,
    workspace: &Workspace,
    (jwt_file, secret): (&Path, &JwtSecret),
    knobs: &[(String, String)],
    log: PathBuf,
) -> Result<(Engine, Node), StepError> {
    let spec = &workspace.engine;
    let launch = Launch {
        engine: spec,
        datadir: &workspace.datadir,
        jwt_file,
        flags: knobs,
        defaults: engine::adapter_of(spec.kind).shared_flags(settings),
        log,
        pid_file: &workspace.pid_file,
    };
    let mut engine = Engine::start(&launch).in_step(Step::Start)?;
    let patience = Duration::from_millis(settings.ready_timeout_ms);
    let ready = engine::wait_until_ready(&mut engine, secret, patience).await;
    ready.in_step(Step::Ready)?;
    let timeout = Duration::from_millis(settings.request_timeout_ms);
    let node = engine.node(secret, timeout).in_step(Step::Ready)?;
    Ok((engine, node))
}

/// Has a datadir copied that an unwind to the base block would leave without its stored tries.
fn keep_tries(workspace: &mut Workspace, base: u64) -> Result<(), StepError> {
    let least = workspace.engine.kind.lowest_unwind_target();
    let unwinds = match workspace.method {
        ResetMethod::Command(_) => false,
        _ => !workspace.method.starts_afresh() || workspace.pristine_head != base,
    };
    if base >= least || !unwinds {
        return Ok(());
    }
    let advice = match (workspace.is_in_place(), workspace.pristine_head == base) {
        (true, _) => "omit --in-place, so that each pass begins with a copy",
        (_, false) => "give --target-block 1 or above, or a datadir that ends at block 0",
        (false, true) => {
            workspace.method = ResetMethod::Copy;
            return Ok(());
        }
    };
    let cause = format!(
        "{} clears its stored tries when it is unwound to block {base}, and every block after that would take \
         seconds; {advice}",
        workspace.engine.name
    );
    Err(StepError::new(Step::State, &cause))
}

/// Why payloads cannot be generated on a datadir that was given.
pub(super) fn no_origin(datadir: &Path) -> String {
    format!(
        "payloads cannot be generated on {}, which engine-bench init did not make (it has no \
         {ORIGIN_FILE} of this version); give payloads that build on its head with --payloads",
        datadir.display(),
    )
}
