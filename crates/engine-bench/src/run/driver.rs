//! Visits in the order of the plan, each written down before the next begins.
//!
//! Invariant: a visit that is not in the journal as finished counts for nothing.

use super::{Environment, Prepared, Progress, StepError, visit::Visiting};
use crate::{
    journal::{Event, Journal, JournalError, VisitTimes},
    plan::{Plan, Visit},
    sweep::WarmUp,
};
use std::{collections::HashSet, path::Path};

/// How a sweep ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Every visit was made; some may have failed.
    Complete,
    /// Stopped from outside.
    Interrupted,
}

/// What a drive needs beside the plan.
#[derive(Debug)]
pub struct Options<'a> {
    /// The results folder.
    pub out: &'a Path,
    /// Visits that an earlier run finished.
    pub done: HashSet<String>,
    /// Where progress is shown.
    pub progress: &'a Progress,
}

/// Visits every cell of the plan that is not done. `interrupted` resolves when the user asks to
/// stop; the visit under way is dropped then, and with it its engine.
///
/// # Errors
/// Only when the journal cannot be written: failures of visits are recorded in it.
pub async fn drive(
    plan: &Plan,
    prepared: &mut Prepared,
    journal: &mut Journal,
    options: &Options<'_>,
    interrupted: impl Future<Output = ()>,
) -> Result<Ending, JournalError> {
    journal.write(Event::SweepStarted {
        base: prepared.base,
        engine_versions: prepared.engine_versions.clone(),
        environment: Environment::read(),
    })?;
    tokio::pin!(interrupted);
    let visits: Vec<&Visit> = plan
        .visits
        .iter()
        .filter(|visit| !options.done.contains(&visit.id()))
        .collect();
    options
        .progress
        .begin(payloads_to_send(plan, &visits), "measuring");
    for (index, visit) in visits.iter().enumerate() {
        let one = one_visit(plan, visit, prepared, journal, options);
        tokio::select! {
            biased;
            () = &mut interrupted => {
                options.progress.end();
                journal.write(Event::Interrupted)?;
                return Ok(Ending::Interrupted);
            }
            outcome = one => announce(options.progress, (index + 1, visits.len()), visit, outcome?),
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
