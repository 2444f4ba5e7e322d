//! One visit of one cell: a discarded pass, then a measured one, each on a datadir that was
//! brought back and an engine that was just started.
//!
//! Invariant: leaving a visit in any way, also by being dropped on Ctrl-C, stops its engine.

use super::{
    ENGINE_LOG, InStep as _, MEASURED_DIR, Prepared, Progress, Step, StepError, VISITS_DIR,
    WARMUP_DIR, Waits, attest, disk, pass, progress::PassShown, scrape,
};
use crate::{
    analyze::{self, log, sample},
    client::{Node, status_text},
    engine::{self, Engine, Launch},
    guard::{self, Calibration, Calibrator, GuardMode, Watch},
    journal::{PassFacts, StateFacts, VisitFacts, VisitTimes},
    live::PassLabels,
    payload::Payloads,
    plan::{self, Visit},
    reset::Workspace,
    sweep::{Level, Settings, WarmUp},
};
use engine_api::{PreparedPayload, subscribe_persisted};
use std::{
    cell::Cell,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// File that holds the output of a reset.
const RESET_LOG: &str = "reset.log";

/// How long a process that closed its connection is given to turn out to have ended.
const DEATH_GRACE: Duration = Duration::from_millis(500);

/// Everything a visit works with.
pub(super) struct Visiting<'a> {
    pub(super) settings: &'a Settings,
    pub(super) prepared: &'a mut Prepared,
    pub(super) cell: &'a plan::Cell,
    pub(super) out: &'a Path,
    pub(super) progress: &'a Progress,
    pub(super) calibrator: Option<&'a Calibrator>,
    /// The pass that it is in.
    pub(super) step: Cell<Step>,
}

/// The payloads of one pass and where its files go.
pub(super) struct Pass<'a> {
    pub(super) step: Step,
    pub(super) payloads: &'a [PreparedPayload],
    pub(super) dir: PathBuf,
    /// Flags of the engine for this pass alone, in the form of knobs.
    pub(super) flags: Vec<(String, String)>,
}

impl Visiting<'_> {
    /// Makes the visit. `times` also holds what was spent when it fails.
    pub(super) async fn run(
        &mut self,
        visit: &Visit,
        times: &mut VisitTimes,
    ) -> Result<VisitFacts, StepError> {
        let payloads = self.payloads()?;
        let dir = self.out.join(VISITS_DIR).join(visit.id());
        let mut passes = Vec::new();
        let discarded = &payloads[..self.warmup_length(payloads.len())];
        if !discarded.is_empty() {
            let pass = Pass {
                step: Step::WarmUp,
                payloads: discarded,
                dir: dir.join(WARMUP_DIR),
                flags: Vec::new(),
            };
            let (facts, answering_s) = self.whole_pass(&pass, times).await?;
            passes.push(facts);
            times.warmup_s += answering_s;
        }
        let pass = Pass {
            step: Step::Measure,
            payloads: &payloads,
            dir: dir.join(MEASURED_DIR),
            flags: Vec::new(),
        };
        let (facts, answering_s) = self.whole_pass(&pass, times).await?;
        times.measured_s += answering_s;
        let contaminations = facts.machine.as_ref().map(guard::contaminations);
        passes.push(facts);
        Ok(VisitFacts {
            passes,
            contaminations: contaminations.unwrap_or_default(),
        })
    }

    pub(super) fn payloads(&mut self) -> Result<Payloads, StepError> {
        let levels = self.settings.levels.iter();
        let level = levels.copied().find(|level| level.gas == self.cell.gas);
        let level = level.unwrap_or(Level {
            gas: self.cell.gas,
            count: None,
        });
        let first = self.settings.mixes().first().copied().unwrap_or_default();
        let mix = self.cell.mix().unwrap_or(first);
        let Prepared { payloads, base, .. } = &mut *self.prepared;
        payloads.load(mix, level, base).in_step(Step::Payloads)
    }

    fn warmup_length(&self, payloads: usize) -> usize {
        match self.settings.warmup {
            WarmUp::Full => payloads,
            WarmUp::None => 0,
            WarmUp::First(count) => {
                usize::try_from(count).map_or(payloads, |count| count.min(payloads))
            }
        }
    }

    /// A pass whose failure says when the disk is full.
    async fn whole_pass(
        &self,
        pass: &Pass<'_>,
        times: &mut VisitTimes,
    ) -> Result<(PassFacts, f64), StepError> {
        self.step.set(pass.step);
        let outcome = self.pass(pass, times).await;
        let datadir = &self.prepared.workspace(&self.cell.engine)?.datadir;
        outcome.map_err(|error| disk::remark(error, datadir, self.out))
    }

    /// Resets, starts, replays, stops and writes; gives the seconds the engine was answering beside
    /// what was found.
    async fn pass(
        &self,
        pass: &Pass<'_>,
        times: &mut VisitTimes,
    ) -> Result<(PassFacts, f64), StepError> {
        let (label, folder) = if pass.step == Step::WarmUp {
            ("warm-up", WARMUP_DIR)
        } else {
            ("measured", MEASURED_DIR)
        };
        self.progress
            .message(format!("{}: {label}, reset and start", self.cell.id));
        let workspace = self.prepared.workspace(&self.cell.engine)?;
        let state = spend(&mut times.reset_s, self.reset(workspace, &pass.dir)).await?;
        let calibration = self.calibrate(pass, times);
        let start = self.start(workspace, pass);
        let (mut engine, mut node) = spend(&mut times.start_s, start).await?;

        self.progress.message(format!("{}: {label}", self.cell.id));
        let mut waits = self.waits(&engine, workspace).await?;
        let _shown = self.shown(folder, &engine);
        let before = scrape::take(&engine).await;
        let mut samples = Vec::new();
        let auth = &mut node.auth;
        let on_payload = || self.progress.advance();
        let watch = self.watched(pass).then(|| Watch::begin(engine.pid()));
        let outcome = pass::replay(auth, pass.payloads, &mut waits, &mut samples, on_payload).await;
        let machine = watch.map(Watch::end);
        times.guard_s += machine.as_ref().map_or(0.0, |machine| machine.guard_s);
        times.wait_s += samples.iter().map(|sample| sample.wait_ns).sum::<u64>() as f64 / 1e9;
        if let Err(error) = outcome {
            // Written without the engine's own times: for a person to look at, not for a report.
            drop(sample::write_pass(&pass.dir, &samples));
            return Err(explain(&mut engine, pass.step, error.to_string()).await);
        }
        let after = scrape::take(&engine).await;
        scrape::keep(&pass.dir, before.as_deref(), after.as_deref()).in_step(Step::Write)?;
        let stopping = Instant::now();
        let stopped = engine.stop().in_step(Step::Stop);
        times.stop_s += stopping.elapsed().as_secs_f64();
        stopped?;
        let facts = log::read_log(&pass.dir.join(ENGINE_LOG)).in_step(Step::Write)?;
        log::join(&mut samples, &facts);
        sample::write_pass(&pass.dir, &samples).in_step(Step::Write)?;
        let answering_ns: u64 = samples.iter().map(sample::Sample::total_ns).sum();
        let facts = PassFacts {
            pass: folder.to_owned(),
            samples_sha256: sample::sum_of(&pass.dir).in_step(Step::Write)?,
            metrics_sha256: analyze::metrics_sum(&pass.dir),
            state: Some(state),
            calibration,
            machine,
        };
        Ok((facts, answering_ns as f64 / 1e9))
    }

    /// The pass as metrics show it, until it is dropped.
    pub(super) fn shown(&self, pass: &'static str, engine: &Engine) -> PassShown<'_> {
        self.progress.pass(|| PassLabels {
            cell: self.cell.id.clone(),
            pass,
            engine: engine.endpoints().metrics_address(),
        })
    }

    /// Only what counts is watched.
    fn watched(&self, pass: &Pass<'_>) -> bool {
        pass.step == Step::Measure && self.settings.guard != GuardMode::Off
    }

    /// Times the fixed work before the engine starts, so that it disturbs nothing of the pass.
    fn calibrate(&self, pass: &Pass<'_>, times: &mut VisitTimes) -> Option<Calibration> {
        let calibrator = self.calibrator.filter(|_| self.watched(pass))?;
        let began = Instant::now();
        let calibration = calibrator.run();
        times.guard_s += began.elapsed().as_secs_f64();
        Some(calibration)
    }

    /// Brings the datadir back and looks at what is in it then.
    pub(super) async fn reset(
        &self,
        workspace: &Workspace,
        dir: &Path,
    ) -> Result<StateFacts, StepError> {
        let pid_file = &self.prepared.pid_file;
        engine::stop_leftover(pid_file).in_step(Step::Leftover)?;
        let target = self.prepared.base.number();
        workspace
            .reset(target, &dir.join(RESET_LOG), pid_file)
            .await
            .in_step(Step::Reset)?;
        Ok(attest::state_of(workspace, dir, pid_file).await)
    }

    /// Starts the engine and makes sure that it stands on the base block and takes a fork choice.
    pub(super) async fn start(
        &self,
        workspace: &Workspace,
        pass: &Pass<'_>,
    ) -> Result<(Engine, Node), StepError> {
        let mut knobs = self.settings.knobs_of(&workspace.engine, &self.cell.flags);
        knobs.extend(pass.flags.iter().cloned());
        let launch = Launch {
            engine: &workspace.engine,
            datadir: &workspace.datadir,
            jwt_file: &self.prepared.jwt_file,
            flags: &knobs,
            defaults: engine::shared_flags(self.settings, &workspace.engine),
            log: pass.dir.join(ENGINE_LOG),
            pid_file: &self.prepared.pid_file,
        };
        let mut engine = Engine::start(&launch).in_step(Step::Start)?;
        let patience = Duration::from_millis(self.settings.ready_timeout_ms);
        let secret = &self.prepared.secret;
        engine::wait_until_ready(&mut engine, secret, patience)
            .await
            .in_step(Step::Ready)?;
        let timeout = Duration::from_millis(self.settings.request_timeout_ms);
        let mut node = Node::connect(engine.endpoints(), secret, timeout).in_step(Step::Attest)?;
        self.attest(&mut node).await?;
        let method = pass
            .payloads
            .first()
            .map(|payload| payload.forkchoice_method.as_str());
        let updated = node
            .forkchoice(
                method.unwrap_or("engine_forkchoiceUpdatedV3"),
                self.prepared.base.hash,
            )
            .await;
        match updated {
            Ok(status) if status.is_valid() => Ok((engine, node)),
            Ok(status) => {
                let cause = format!("the base block was answered {}", status_text(&status));
                Err(explain(&mut engine, Step::Forkchoice, cause).await)
            }
            Err(error) => Err(explain(&mut engine, Step::Forkchoice, error.to_string()).await),
        }
    }

    /// Compares the engine's head with the base block, hash and state root included.
    async fn attest(&self, node: &mut Node) -> Result<(), StepError> {
        let head = node.head().await.in_step(Step::Attest)?;
        let base = self.prepared.base;
        if head == base {
            return Ok(());
        }
        let cause = format!(
            "after the reset the head is block {} ({}, state root {}), not the base block {} \
             ({}, state root {})",
            head.number, head.hash, head.state_root, base.number, base.hash, base.state_root
        );
        Err(StepError::new(Step::Attest, &cause))
    }

    pub(super) async fn waits(
        &self,
        engine: &Engine,
        workspace: &Workspace,
    ) -> Result<Waits, StepError> {
        let time = Duration::from_millis(self.settings.wait_time_ms);
        if !self.settings.wait_for_persistence {
            return Ok(Waits {
                time,
                persistence: None,
            });
        }
        let blocks = subscribe_persisted(&engine.endpoints().ws_url())
            .await
            .in_step(Step::Ready)?;
        let knobs = self.settings.knobs_of(&workspace.engine, &self.cell.flags);
        let every = self.settings.threshold_of(&knobs) + 1;
        Ok(Waits {
            time,
            persistence: Some((blocks, every)),
        })
    }
}

/// Adds the time a future takes to `seconds`, also when it fails.
async fn spend<T>(seconds: &mut f64, future: impl Future<Output = T>) -> T {
    let started = Instant::now();
    let output = future.await;
    *seconds += started.elapsed().as_secs_f64();
    output
}

/// The failure with what the engine's process has to say about it, if it has ended.
async fn explain(engine: &mut Engine, step: Step, cause: String) -> StepError {
    let deadline = Instant::now() + DEATH_GRACE;
    while Instant::now() < deadline {
        if let Err(died) = engine.check_alive() {
            return StepError::new(step, &format!("{cause}; {died}"));
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    StepError::new(step, &cause)
}
