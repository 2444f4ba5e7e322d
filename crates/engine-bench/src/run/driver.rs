//! Visits in the order of the plan, each written down before the next begins.
//!
//! Invariant: a visit that is not in the journal as finished counts for nothing.

use super::{
    Environment, Manifest, Prepared, Progress, Step, StepError,
    patience::Patience,
    repeat::{self, Repeats},
    rounds::Rounds,
    visit::Visiting,
};
use crate::{
    analyze::{AnalyzeError, Running},
    guard::{Calibrator, Contamination, GuardMode, Preflight},
    journal::{Decision, Event, Journal, JournalError, VisitFacts, VisitTimes},
    live::Visited,
    plan::{Plan, Visit},
    sweep::WarmUp,
};
use std::{
    collections::HashSet,
    path::Path,
    time::{Duration, Instant},
};

/// How a sweep ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Every visit was made; some may have failed.
    Complete,
    /// Stopped from outside.
    Interrupted,
}

/// Why a sweep cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    /// Its journal cannot be written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// It was begun with other programs, payloads or settings.
    #[error(
        "failed to go on with the sweep, which was begun with something else: {0}; begin a new one, or put back what it was begun with"
    )]
    OtherManifest(String),
    /// The programs that it is to measure cannot be read.
    #[error("failed to begin the sweep: {0}")]
    Begin(#[from] StepError),
    /// What it measured cannot be read back, so the next round cannot be decided.
    #[error("failed to decide about the next round: {0}")]
    Decide(#[from] AnalyzeError),
}

/// What a drive needs beside the plan.
pub struct Options<'a> {
    /// The results folder.
    pub out: &'a Path,
    /// Visits that an earlier run finished.
    pub done: HashSet<String>,
    /// Visits that are void, as often as they are, of earlier runs.
    pub voided: Vec<String>,
    /// Decisions that an earlier run made, in order.
    pub decided: Vec<Decision>,
    /// Seconds that earlier runs measured.
    pub spent_s: f64,
    /// Where progress is shown.
    pub progress: &'a Progress,
    /// Decides about the round after the given one, from what the results folder holds.
    pub decide: &'a dyn Fn(u64) -> Result<Decision, AnalyzeError>,
    /// What is known of each cell, from what the results folder holds.
    pub estimate: &'a dyn Fn() -> Result<Vec<Running>, AnalyzeError>,
    /// What an earlier run of the sweep measured.
    pub begun_with: Option<Manifest>,
    /// What makes measurements worse on this machine; `None` when nothing is watched.
    pub preflight: Option<Preflight>,
}

/// Visits every cell of the plan that is not done, or as many rounds as are decided for. `interrupted`
/// resolves when the user asks to stop; the visit under way is dropped then, and with it its engine.
///
/// # Errors
/// When the sweep was begun with something else, the journal cannot be written or samples cannot be
/// read back: failures of visits are recorded in the journal.
pub async fn drive(
    plan: &Plan,
    prepared: &mut Prepared,
    journal: &mut Journal,
    options: &Options<'_>,
    interrupted: impl Future<Output = ()>,
) -> Result<Ending, DriveError> {
    let manifest = Manifest::before(plan, options.out)?.with_payloads(plan, prepared);
    check_manifest(&manifest, options.begun_with.as_ref())?;
    journal.write(Event::SweepStarted {
        base: prepared.base,
        engine_versions: prepared.engine_versions.clone(),
        environment: Environment::read(),
        preflight: options.preflight.clone(),
        manifest: Some(manifest),
    })?;
    options.progress.plan(plan.visits.len() as u64);
    tokio::pin!(interrupted);
    let mut rounds = Rounds::new(plan, options);
    let mut driver = Driver::new(plan, prepared, options);
    while let Some(batch) = rounds.next(journal)? {
        let total = payloads_to_send(plan, &batch.visits);
        options.progress.begin(total, &batch.name);
        for (index, visit) in batch.visits.iter().enumerate() {
            let place = format!("visit {}/{} {}", index + 1, batch.visits.len(), visit.id());
            let made = driver.visit(visit, journal, &mut rounds, &place);
            let goes_on = tokio::select! {
                biased;
                () = &mut interrupted => {
                    options.progress.end();
                    journal.write(Event::Interrupted)?;
                    return Ok(Ending::Interrupted);
                }
                made = made => made?,
            };
            if !goes_on {
                break;
            }
            let next = batch.visits.get(index + 1);
            if next.is_none_or(|next| next.round != visit.round) {
                estimate(options, visit.round)?;
            }
        }
    }
    options.progress.end();
    journal.write(Event::SweepFinished)?;
    Ok(Ending::Complete)
}

/// Whether a sweep that was begun may go on with this.
///
/// # Errors
/// When its programs, its payloads or its plan are not what it was begun with.
pub fn check_manifest(now: &Manifest, begun_with: Option<&Manifest>) -> Result<(), DriveError> {
    let differences = begun_with.map_or_else(Vec::new, |then| now.differences(then));
    if differences.is_empty() {
        return Ok(());
    }
    Err(DriveError::OtherManifest(differences.join("; ")))
}

/// Tells what is known after a round.
fn estimate(options: &Options<'_>, round: u64) -> Result<(), DriveError> {
    if options.progress.is_shown() {
        let running = (options.estimate)()?;
        options.progress.estimates(round, &running);
    }
    Ok(())
}

/// Makes visits, those that were disturbed again.
struct Driver<'a> {
    plan: &'a Plan,
    prepared: &'a mut Prepared,
    options: &'a Options<'a>,
    calibrator: Option<Calibrator>,
    repeats: Repeats,
    patience: Patience,
}

/// How a visit ended.
enum Ended {
    Kept(Vec<Contamination>),
    Voided(Vec<Contamination>),
    Failed(StepError),
}

impl<'a> Driver<'a> {
    fn new(plan: &'a Plan, prepared: &'a mut Prepared, options: &'a Options<'a>) -> Self {
        let mode = plan.settings.guard;
        Self {
            plan,
            prepared,
            options,
            calibrator: (mode != GuardMode::Off).then(Calibrator::new),
            repeats: Repeats::new(mode, options.done.len(), options.voided.len()),
            patience: Patience::new(Duration::from_millis(plan.settings.ready_timeout_ms)),
        }
    }

    /// Makes a visit until it is kept or has failed; whether there is time for another one.
    async fn visit(
        &mut self,
        visit: &Visit,
        journal: &mut Journal,
        rounds: &mut Rounds<'_>,
        place: &str,
    ) -> Result<bool, DriveError> {
        let id = visit.id();
        let earlier = self.options.voided.iter().filter(|voided| **voided == id);
        for attempt in 1 + earlier.count() as u64.. {
            if !rounds.affords_another_visit() {
                rounds.end_early(visit.round, journal)?;
                return Ok(false);
            }
            let began = Instant::now();
            let left = rounds.left();
            self.options.progress.round(visit.round);
            let ended = self.once(visit, attempt, left, journal).await?;
            let took = began.elapsed();
            rounds.took(took);
            self.options.progress.line(&described(place, &ended));
            self.options.progress.visited(match ended {
                Ended::Kept(_) => Visited::Kept,
                Ended::Voided(_) => Visited::Void,
                Ended::Failed(_) => Visited::Failed,
            });
            match ended {
                Ended::Voided(_) => self.repeats.voided(),
                Ended::Failed(_) => return Ok(true),
                Ended::Kept(_) => {
                    self.repeats.kept();
                    if let Some(cell) = self.plan.cell(&visit.cell) {
                        self.patience.took(cell, took);
                    }
                    return Ok(true);
                }
            }
        }
        Ok(true)
    }

    /// Makes a visit once and writes down how it ended.
    async fn once(
        &mut self,
        visit: &Visit,
        attempt: u64,
        left: Option<Duration>,
        journal: &mut Journal,
    ) -> Result<Ended, JournalError> {
        let id = visit.id();
        let began = Instant::now();
        journal.write(Event::VisitStarted { visit: id.clone() })?;
        let mut times = VisitTimes::default();
        let facts = match self.attempt(visit, left, &mut times).await {
            Ok(facts) => facts,
            Err(error) => {
                journal.write(Event::VisitFailed {
                    visit: id,
                    step: error.step.to_string(),
                    cause: error.cause.clone(),
                    log: error.log.clone(),
                    times,
                })?;
                return Ok(Ended::Failed(error));
            }
        };
        let found = facts.contaminations.clone();
        // What cannot be made again is worth more than nothing.
        let took = began.elapsed();
        let affordable = left.is_none_or(|left| 2 * took <= left);
        let again = affordable && self.repeats.allows_after(attempt);
        let set_aside = (!found.is_empty() && again)
            .then(|| repeat::set_aside(self.options.out, visit).ok())
            .flatten();
        let Some(kept_in) = set_aside else {
            journal.write(Event::VisitFinished {
                visit: id,
                times,
                facts,
            })?;
            return Ok(Ended::Kept(found));
        };
        journal.write(Event::VisitVoided {
            visit: id,
            attempt,
            kept_in,
            times,
            facts,
        })?;
        Ok(Ended::Voided(found))
    }

    /// Makes a visit within the time that it may take.
    async fn attempt(
        &mut self,
        visit: &Visit,
        left: Option<Duration>,
        times: &mut VisitTimes,
    ) -> Result<VisitFacts, StepError> {
        let unknown = || StepError::new(Step::State, "the plan has no such cell");
        let cell = self.plan.cell(&visit.cell).ok_or_else(unknown)?;
        let limit = self.patience.limit(cell, left);
        let mut visiting = Visiting {
            settings: &self.plan.settings,
            prepared: &mut *self.prepared,
            cell,
            out: self.options.out,
            progress: self.options.progress,
            calibrator: self.calibrator.as_ref(),
            step: std::cell::Cell::new(Step::Payloads),
        };
        let Some(limit) = limit else {
            return visiting.run(visit, times).await;
        };
        match tokio::time::timeout(limit, visiting.run(visit, times)).await {
            Ok(ended) => ended,
            Err(_) => {
                let granted_s = limit.as_secs_f64();
                let cause = format!(
                    "the visit was given up after {granted_s:.0} s, the longest it may take"
                );
                Err(StepError::new(visiting.step.get(), &cause))
            }
        }
    }
}

/// How a visit ended, as a line.
fn described(place: &str, ended: &Ended) -> String {
    let details = |found: &[Contamination]| {
        let details: Vec<&str> = found.iter().map(|found| found.detail.as_str()).collect();
        details.join("; ")
    };
    match ended {
        Ended::Kept(found) if found.is_empty() => format!("{place}: done"),
        Ended::Kept(found) => format!("{place}: done, though {}", details(found)),
        Ended::Voided(found) => format!("{place}: void, {}; made again", details(found)),
        Ended::Failed(error) => format!("{place}: failed, {error}"),
    }
}

/// Payloads of all passes, for the progress bar; unknown counts are left out.
fn payloads_to_send(plan: &Plan, visits: &[&Visit]) -> u64 {
    let settings = &plan.settings;
    let of_visit = |visit: &&Visit| {
        let cell = plan.cell(&visit.cell)?;
        let count = settings
            .levels
            .iter()
            .find(|level| level.gas == cell.gas)?
            .count?;
        Some(match settings.warmup {
            WarmUp::Full => 2 * count,
            WarmUp::None => count,
            WarmUp::First(first) => count + first.min(count),
        })
    };
    visits.iter().filter_map(of_visit).sum()
}
