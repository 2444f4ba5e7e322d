//! The steps of a visit of one cell: a discarded pass, then a measured one, each on a datadir that was
//! reset and an engine that was just started.
//!
//! Invariant: leaving a visit in any way, also by being dropped on Ctrl-C, stops its engine.

use super::{
    InStep as _, Prepared, Progress, Step, StepError, Waits, attest, probe, progress::PassShown,
};
use crate::{
    client::{Node, status_text},
    engine::{self, Engine},
    guard::{self, Calibration, Calibrator, GuardMode},
    live::PassLabels,
    payload::Payloads,
    plan::{self, Visit},
    record::{
        self, ENGINE_LOG, MEASURED_DIR, PassFacts, ResetFacts, Sample, StateFacts, VISITS_DIR,
        VisitFacts, VisitTimes, WARMUP_DIR, log, sample,
    },
    reset::Workspace,
    sweep::{Level, Settings, WarmUp},
};
use engine_api::{PreparedPayload, metric, subscribe_persisted};
use std::{
    cell::Cell,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// File that holds the output of a reset.
const RESET_LOG: &str = "reset.log";

/// How long an engine may take for its metrics.
const METRICS_PATIENCE: Duration = Duration::from_secs(5);

/// How long a process that closed its connection is given to turn out to have ended.
const DEATH_GRACE: Duration = Duration::from_millis(500);

/// Everything a visit works with.
pub(super) struct Visiting<'a> {
    pub(super) settings: &'a Settings,
    pub(super) prepared: &'a Prepared,
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

impl Pass<'_> {
    /// Its folder's name, and what people call it.
    pub(super) fn names(&self) -> (&'static str, &'static str) {
        match self.step {
            Step::WarmUp => (WARMUP_DIR, "warm-up"),
            _ => (MEASURED_DIR, "measured"),
        }
    }
}

/// An engine that stands on the base block, and what its pass is made with.
pub(super) struct Standing {
    pub(super) engine: Engine,
    pub(super) node: Node,
    pub(super) waits: Waits,
    pub(super) samples: Vec<Sample>,
    /// What the engine exported before the first payload.
    metrics: Option<String>,
}

/// Adds a pass to what was found in a visit.
pub(super) fn add_pass(facts: &mut VisitFacts, pass: PassFacts) {
    let found = pass.machine.as_ref().map(guard::contaminations);
    facts.contaminations.extend(found.into_iter().flatten());
    facts.passes.push(pass);
}

impl Visiting<'_> {
    /// The passes of a visit in order: the discarded one, unless nothing is, and the measured one.
    pub(super) fn passes<'p>(
        &self,
        visit: &Visit,
        payloads: &'p [PreparedPayload],
    ) -> Vec<Pass<'p>> {
        let dir = self.out.join(VISITS_DIR).join(visit.id());
        let pass = |step, payloads, folder: &str| Pass {
            step,
            payloads,
            dir: dir.join(folder),
            flags: Vec::new(),
        };
        let discarded = &payloads[..self.warmup_length(payloads.len())];
        let warmup = (!discarded.is_empty()).then(|| pass(Step::WarmUp, discarded, WARMUP_DIR));
        let measured = pass(Step::Measure, payloads, MEASURED_DIR);
        warmup.into_iter().chain([measured]).collect()
    }

    pub(super) fn payloads(&self) -> Result<Payloads, StepError> {
        let levels = self.settings.levels.iter();
        let level = levels.copied().find(|level| level.gas == self.cell.gas);
        let level = level.unwrap_or(Level {
            gas: self.cell.gas,
            count: None,
        });
        let first = self.settings.mixes().first().copied().unwrap_or_default();
        let mix = self.cell.mix().unwrap_or(first);
        let Prepared { payloads, base, .. } = self.prepared;
        payloads.load(mix, level, base).in_step(Step::Payloads)
    }

    fn warmup_length(&self, payloads: usize) -> usize {
        match self.settings.warmup {
            WarmUp::Full => payloads,
            WarmUp::None => 0,
            WarmUp::First(count) => payloads.min(count as usize),
        }
    }

    /// Brings the datadir back before a pass.
    pub(super) async fn bring_back(
        &self,
        pass: &Pass<'_>,
        workspace: &Workspace,
        times: &mut VisitTimes,
    ) -> Result<StateFacts, StepError> {
        self.step.set(pass.step);
        let (cell, label) = (&self.cell.id, pass.names().1);
        self.progress
            .message(format!("{cell}: {label}, reset and start"));
        spend(&mut times.reset_s, self.reset(workspace, &pass.dir)).await
    }

    /// Starts the engine and prepares everything up to the first payload.
    pub(super) async fn begin(
        &self,
        pass: &Pass<'_>,
        workspace: &Workspace,
        times: &mut VisitTimes,
    ) -> Result<Standing, StepError> {
        let start = self.start(workspace, pass);
        let (engine, node) = spend(&mut times.start_s, start).await?;
        let (cell, label) = (&self.cell.id, pass.names().1);
        self.progress.message(format!("{cell}: {label}"));
        Ok(Standing {
            waits: self.waits(&engine, workspace).await?,
            metrics: exported(&engine).await,
            samples: Vec::new(),
            engine,
            node,
        })
    }

    /// Stops the engine of a pass in which everything was valid, and writes what was found; completes `found`.
    pub(super) async fn finish(
        &self,
        pass: &Pass<'_>,
        standing: Standing,
        found: PassFacts,
        times: &mut VisitTimes,
    ) -> Result<PassFacts, StepError> {
        let mut samples = standing.samples;
        add_waits(times, &samples);
        times.guard_s += found.machine.as_ref().map_or(0.0, |seen| seen.guard_s);
        let after = exported(&standing.engine).await;
        let metrics = standing.metrics.as_deref().zip(after.as_deref());
        record::write_metrics(&pass.dir, metrics).in_step(Step::Write)?;
        let stop = async { standing.engine.stop().in_step(Step::Stop) };
        spend(&mut times.stop_s, stop).await?;
        let told = log::read_log(&pass.dir.join(ENGINE_LOG)).in_step(Step::Write)?;
        log::join(&mut samples, &told.blocks);
        sample::write_pass(&pass.dir, &samples).in_step(Step::Write)?;
        let fallbacks = told.fallback.as_ref().map_or(0, |fallback| fallback.lines);
        let refused = told.fallback.filter(|_| !self.settings.allow_fallback);
        refused.map_or(Ok(()), Err).in_step(pass.step)?;
        let answering_ns: u64 = samples.iter().map(Sample::total_ns).sum();
        let answering_s = answering_ns as f64 / 1e9;
        if pass.step == Step::WarmUp {
            times.warmup_s += answering_s;
        } else {
            times.measured_s += answering_s;
            times.measured_gas += samples.iter().map(|sample| sample.gas_used).sum::<u64>();
        }
        Ok(PassFacts {
            pass: pass.names().0.to_owned(),
            samples_sha256: sample::sum_of(&pass.dir).in_step(Step::Write)?,
            metrics_sha256: record::metrics_sum(&pass.dir),
            fallbacks,
            roots_without_task: told.roots_without_task,
            ..found
        })
    }

    /// Stops the engine of a pass that ended early, and says why it did.
    pub(super) async fn give_up(
        &self,
        pass: &Pass<'_>,
        mut standing: Standing,
        cause: String,
        times: &mut VisitTimes,
    ) -> StepError {
        add_waits(times, &standing.samples);
        // Written without the engine's own times: for a person to look at, not for a report.
        drop(sample::write_pass(&pass.dir, &standing.samples));
        explain(&mut standing.engine, pass.step, cause).await
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
    pub(super) fn watched(&self, pass: &Pass<'_>) -> bool {
        pass.step == Step::Measure && self.settings.guard != GuardMode::Off
    }

    /// Times the fixed work before the engine starts, so that it disturbs nothing of the pass.
    pub(super) fn calibrate(&self, pass: &Pass<'_>, times: &mut VisitTimes) -> Option<Calibration> {
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
        engine::stop_leftover(&workspace.pid_file).in_step(Step::Leftover)?;
        let target = self.prepared.base.number();
        let began = Instant::now();
        let reset = workspace.reset(target, &dir.join(RESET_LOG)).await;
        reset.in_step(Step::Reset)?;
        let took_us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        let mut state = attest::state_of(workspace, dir).await;
        state.reset = Some(ResetFacts {
            method: workspace.method_name(target),
            took_us,
        });
        match attest::lost_tries(&state) {
            None => Ok(state),
            Some(cause) => Err(StepError::new(Step::Attest, &cause)),
        }
    }

    /// Starts the engine and makes sure that it stands on the base block and takes a fork choice.
    pub(super) async fn start(
        &self,
        workspace: &Workspace,
        pass: &Pass<'_>,
    ) -> Result<(Engine, Node), StepError> {
        let mut knobs = self.settings.knobs_of(&workspace.engine, &self.cell.flags);
        knobs.extend(pass.flags.iter().cloned());
        let log = pass.dir.join(ENGINE_LOG);
        let Prepared {
            jwt_file, secret, ..
        } = self.prepared;
        let started = probe::start(self.settings, workspace, (jwt_file, secret), &knobs, log);
        let (mut engine, mut node) = started.await?;
        self.attest(&mut node).await?;
        let first = pass.payloads.first();
        let method = first.map_or("engine_forkchoiceUpdatedV3", |payload| {
            &payload.forkchoice_method
        });
        let cause = match node.forkchoice(method, self.prepared.base.hash).await {
            Ok(status) if status.is_valid() => return Ok((engine, node)),
            Ok(status) => format!("the base block was answered {}", status_text(&status)),
            Err(error) => error.to_string(),
        };
        Err(explain(&mut engine, Step::Forkchoice, cause).await)
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
        let mut waits = Waits {
            time: Duration::from_millis(self.settings.wait_time_ms),
            persistence: None,
        };
        if self.settings.wait_for_persistence {
            let blocks = subscribe_persisted(&engine.endpoints().ws_url()).await;
            let knobs = self.settings.knobs_of(&workspace.engine, &self.cell.flags);
            let every = self.settings.threshold_of(&knobs) + 1;
            waits.persistence = Some((blocks.in_step(Step::Ready)?, every));
        }
        Ok(waits)
    }
}

/// What the engine exports as metrics: asked before the first payload is sent and after the last answer, never
/// between. `None` when it exports nothing; it is measured all the same.
async fn exported(engine: &Engine) -> Option<String> {
    let address = engine.endpoints().metrics_address();
    metric::fetch(address, METRICS_PATIENCE).await.ok()
}

fn add_waits(times: &mut VisitTimes, samples: &[Sample]) {
    times.wait_s += samples.iter().map(|sample| sample.wait_ns).sum::<u64>() as f64 / 1e9;
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
