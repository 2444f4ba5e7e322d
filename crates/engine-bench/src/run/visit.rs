//! One visit of one cell: a discarded pass, then a measured one, each on a datadir that was
//! reset and an engine that was just started.
//!
//! Invariant: leaving a visit in any way, also by being dropped on Ctrl-C, stops its engine.

use super::{
    InStep as _, Prepared, Progress, Step, StepError, Waits, attest, disk, pass,
    progress::PassShown, scrape,
};
use crate::{
    client::{Node, status_text},
    engine::{self, Engine, Launch},
    guard::{self, Calibration, Calibrator, GuardMode, Readings, Watch},
    live::PassLabels,
    payload::Payloads,
    plan::{self, Visit},
    record::{
        self, ENGINE_LOG, MEASURED_DIR, PassFacts, Sample, StateFacts, VISITS_DIR, VisitFacts,
        VisitTimes, WARMUP_DIR, log, sample,
    },
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
    fn names(&self) -> (&'static str, &'static str) {
        match self.step {
            Step::WarmUp => (WARMUP_DIR, "warm-up"),
            _ => (MEASURED_DIR, "measured"),
        }
    }
}

/// A pass whose engine stands on the base block.
pub(super) struct Begun {
    pub(super) engine: Engine,
    pub(super) node: Node,
    pub(super) waits: Waits,
    pub(super) samples: Vec<Sample>,
    /// What the engine exported before the first payload.
    metrics: Option<String>,
}

/// What was found around a pass.
#[derive(Default)]
pub(super) struct Found {
    pub(super) state: StateFacts,
    pub(super) calibration: Option<Calibration>,
    pub(super) machine: Option<Readings>,
}

/// What a visit found in all its passes.
pub(super) fn facts_of(passes: Vec<PassFacts>) -> VisitFacts {
    let machines = passes.iter().filter_map(|pass| pass.machine.as_ref());
    VisitFacts {
        contaminations: machines.flat_map(guard::contaminations).collect(),
        passes,
    }
}

impl Visiting<'_> {
    /// Makes the visit. `times` also holds what was spent when it fails.
    pub(super) async fn run(
        &self,
        visit: &Visit,
        times: &mut VisitTimes,
    ) -> Result<VisitFacts, StepError> {
        let payloads = self.payloads()?;
        let workspace = self.prepared.workspace(&self.cell.engine)?;
        let mut passes = Vec::new();
        for pass in self.passes(visit, &payloads) {
            let made = self.pass(&pass, workspace, times).await;
            // A failure says when the disk is full.
            let remark = |error| disk::remark(error, &workspace.datadir, self.out);
            passes.push(made.map_err(remark)?);
        }
        Ok(facts_of(passes))
    }

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
            WarmUp::First(count) => {
                usize::try_from(count).map_or(payloads, |count| count.min(payloads))
            }
        }
    }

    /// Resets, starts, replays, stops and writes.
    async fn pass(
        &self,
        pass: &Pass<'_>,
        workspace: &Workspace,
        times: &mut VisitTimes,
    ) -> Result<PassFacts, StepError> {
        let mut found = Found {
            state: self.bring_back(pass, workspace, times).await?,
            calibration: self.calibrate(pass, times),
            machine: None,
        };
        let mut begun = self.begin(pass, workspace, times).await?;
        let shown = self.shown(pass.names().0, &begun.engine);
        let watch = self
            .watched(pass)
            .then(|| Watch::begin(&[begun.engine.pid()]));
        let on_payload = || self.progress.advance();
        let Begun {
            node,
            waits,
            samples,
            ..
        } = &mut begun;
        let client = &mut node.auth;
        let replayed = pass::replay(client, pass.payloads, waits, samples, on_payload).await;
        found.machine = watch.and_then(|watch| watch.end().pop());
        drop(shown);
        match replayed {
            Ok(()) => self.finish(pass, begun, found, times).await,
            Err(error) => Err(self.give_up(pass, begun, error.to_string(), times).await),
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
    ) -> Result<Begun, StepError> {
        let start = self.start(workspace, pass);
        let (engine, node) = spend(&mut times.start_s, start).await?;
        let (cell, label) = (&self.cell.id, pass.names().1);
        self.progress.message(format!("{cell}: {label}"));
        Ok(Begun {
            waits: self.waits(&engine, workspace).await?,
            metrics: scrape::take(&engine).await,
            samples: Vec::new(),
            engine,
            node,
        })
    }

    /// Stops the engine of a pass in which everything was valid, and writes what was found.
    pub(super) async fn finish(
        &self,
        pass: &Pass<'_>,
        begun: Begun,
        found: Found,
        times: &mut VisitTimes,
    ) -> Result<PassFacts, StepError> {
        let mut samples = begun.samples;
        add_waits(times, &samples);
        times.guard_s += found.machine.as_ref().map_or(0.0, |seen| seen.guard_s);
        let after = scrape::take(&begun.engine).await;
        scrape::keep(&pass.dir, begun.metrics.as_deref(), after.as_deref()).in_step(Step::Write)?;
        let stopping = Instant::now();
        let stopped = begun.engine.stop().in_step(Step::Stop);
        times.stop_s += stopping.elapsed().as_secs_f64();
        stopped?;
        let facts = log::read_log(&pass.dir.join(ENGINE_LOG)).in_step(Step::Write)?;
        log::join(&mut samples, &facts);
        sample::write_pass(&pass.dir, &samples).in_step(Step::Write)?;
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
            state: found.state,
            calibration: found.calibration,
            machine: found.machine,
        })
    }

    /// Stops the engine of a pass that ended early, and says why it did.
    pub(super) async fn give_up(
        &self,
        pass: &Pass<'_>,
        mut begun: Begun,
        cause: String,
        times: &mut VisitTimes,
    ) -> StepError {
        add_waits(times, &begun.samples);
        // Written without the engine's own times: for a person to look at, not for a report.
        drop(sample::write_pass(&pass.dir, &begun.samples));
        explain(&mut begun.engine, pass.step, cause).await
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
        workspace
            .reset(target, &dir.join(RESET_LOG))
            .await
            .in_step(Step::Reset)?;
        Ok(attest::state_of(workspace, dir).await)
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
            pid_file: &workspace.pid_file,
        };
        let mut engine = Engine::start(&launch).in_step(Step::Start)?;
        let patience = Duration::from_millis(self.settings.ready_timeout_ms);
        let secret = &self.prepared.secret;
        engine::wait_until_ready(&mut engine, secret, patience)
            .await
            .in_step(Step::Ready)?;
        let timeout = Duration::from_millis(self.settings.request_timeout_ms);
        let ports = engine.endpoints();
        let node = Node::connect(&ports.auth_url(), &ports.http_url(), secret, timeout);
        let mut node = node.in_step(Step::Attest)?;
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
