//! Visits in the order of the plan, each written down before the next begins.
//!
//! Invariant: a visit that is not in the journal as finished counts for nothing.

use super::{Environment, Prepared, Progress, StepError, rounds::Rounds, visit::Visiting};
use crate::{
    analyze::AnalyzeError,
    journal::{Decision, Event, Journal, JournalError, VisitTimes},
    plan::{Plan, Visit},
    sweep::WarmUp,
};
use std::{collections::HashSet, path::Path, time::Instant};

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
    /// Decisions that an earlier run made, in order.
    pub decided: Vec<Decision>,
    /// Seconds that earlier runs measured.
    pub spent_s: f64,
    /// Where progress is shown.
    pub progress: &'a Progress,
    /// Decides about the round after the given one, from what the results folder holds.
    pub decide: &'a dyn Fn(u64) -> Result<Decision, AnalyzeError>,
}

/// Visits every cell of the plan that is not done, or as many rounds as are decided for. `interrupted`
/// resolves when the user asks to stop; the visit under way is dropped then, and with it its engine.
///
/// # Errors
/// Only when the journal cannot be written or samples cannot be read back: failures of visits are
/// recorded in the journal.
pub async fn drive(
    plan: &Plan,
    prepared: &mut Prepared,
    journal: &mut Journal,
    options: &Options<'_>,
    interrupted: impl Future<Output = ()>,
) -> Result<Ending, DriveError> {
    journal.write(Event::SweepStarted {
        base: prepared.base,
        engine_versions: prepared.engine_versions.clone(),
        environment: Environment::read(),
    })?;
    tokio::pin!(interrupted);
    let mut rounds = Rounds::new(plan, options);
    while let Some(batch) = rounds.next(journal)? {
        let total = payloads_to_send(plan, &batch.visits);
        options.progress.begin(total, &batch.name);
        for (index, visit) in batch.visits.iter().enumerate() {
            if !rounds.affords_another_visit() {
                rounds.end_early(visit.round, journal)?;
                break;
            }
            let began = Instant::now();
            let one = one_visit(plan, visit, prepared, journal, options);
            let place = (index + 1, batch.visits.len());
            tokio::select! {
                biased;
                () = &mut interrupted => {
                    options.progress.end();
                    journal.write(Event::Interrupted)?;
                    return Ok(Ending::Interrupted);
                }
                outcome = one => announce(options.progress, place, visit, outcome?),
            }
            rounds.took(began.elapsed());
        }
    }
    options.progress.end();
    journal.write(Event::SweepFinished)?;
    Ok(Ending::Complete)
}

async fn one_visit(
    plan: &Plan,
    visit: &Visit,
    prepared: &mut Prepared,
    journal: &mut Journal,
    options: &Options<'_>,
) -> Result<Option<StepError>, JournalError> {
    let id = visit.id();
    journal.write(Event::VisitStarted { visit: id.clone() })?;
    let Some(cell) = plan.cell(&visit.cell) else {
        return Ok(None);
    };
    let mut times = VisitTimes::default();
    let mut visiting = Visiting {
        settings: &plan.settings,
        prepared,
        cell,
        out: options.out,
        progress: options.progress,
    };
    let outcome = visiting.run(visit, &mut times).await;
    match outcome {
        Ok(()) => {
            journal.write(Event::VisitFinished { visit: id, times })?;
            Ok(None)
        }
        Err(error) => {
            journal.write(Event::VisitFailed {
                visit: id,
                step: error.step.to_string(),
                cause: error.cause.clone(),
                log: error.log.clone(),
                times,
            })?;
            Ok(Some(error))
        }
    }
}

fn announce(
    progress: &Progress,
    (number, of): (usize, usize),
    visit: &Visit,
    failure: Option<StepError>,
) {
    match failure {
        None => progress.line(&format!("visit {number}/{of} {}: done", visit.id())),
        Some(error) => progress.line(&format!(
            "visit {number}/{of} {}: failed, {error}",
            visit.id()
        )),
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
