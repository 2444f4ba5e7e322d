//! Visits in the order of the plan, each written down before the next begins.
//!
//! Invariant: a visit that is not in the journal as finished counts for nothing.

use super::{
    Prepared, Progress, Step, StepError, disk,
    group::{self, Made, Member},
    patience::Patience,
    repeat::{self, Repeats},
    rounds::Rounds,
    visit::Visiting,
};
use crate::{
    figures,
    guard::{Calibrator, Contamination, GuardMode, Preflight},
    plan::{Plan, Visit},
    record::{
        Decision, Environment, Event, History, Interleaving, Journal, JournalError, Manifest,
        PayloadSum, RecordError, Running, Start, VisitFacts,
    },
    sweep::{Order, WarmUp},
};
use eyre::{Result, WrapErr as _, bail, ensure};
use std::{
    path::Path,
    time::{Duration, Instant},
};

/// What is said when samples cannot be read back.
pub(super) const CANNOT_DECIDE: &str = "failed to decide about the next round";

/// How a sweep ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Every visit was made; some may have failed.
    Complete,
    /// Stopped from outside.
    Interrupted,
}

/// What a drive needs beside the plan.
pub struct Options<'a> {
    /// The results folder.
    pub out: &'a Path,
    /// What earlier runs of the sweep did.
    pub history: &'a History,
    /// Where progress is shown.
    pub progress: &'a Progress,
    /// Decides about the round after the given one, from what the results folder holds.
    pub decide: &'a dyn Fn(u64) -> Result<Decision, RecordError>,
    /// What is known of each cell, from what the results folder holds.
    pub estimate: &'a dyn Fn() -> Result<Vec<Running>, RecordError>,
    /// What makes measurements worse on this machine; `None` when nothing is watched.
    pub preflight: Option<Preflight>,
}

/// Visits every cell of the plan that is not done, or as many rounds as are decided for. `interrupted`
/// resolves when the user asks to stop; the visit under way is dropped then, and with it its engine.
///
/// # Errors
/// When the sweep was started with something else, the journal cannot be written or samples cannot be
/// read back: failures of visits are recorded in the journal.
pub async fn drive(
    plan: &Plan,
    prepared: &Prepared,
    journal: &mut Journal,
    options: &Options<'_>,
    interrupted: impl Future<Output = ()>,
) -> Result<Ending> {
    let manifest = Manifest {
        payloads: payload_sums(plan, prepared),
        ..Manifest::before(plan, options.out).wrap_err("failed to start the sweep: state")?
    };
    check_manifest(&manifest, options.history.manifest())?;
    journal.write(Event::SweepStarted(Start {
        base: prepared.base,
        engine_versions: prepared.engine_versions.clone(),
        environment: Environment::read(),
        preflight: options.preflight.clone(),
        manifest,
    }))?;
    options
        .progress
        .show(|shown| shown.planned = plan.visits.len() as u64);
    tokio::pin!(interrupted);
    let mut rounds = Rounds::new(plan, options);
    let mut driver = Driver::new(plan, prepared, options);
    while let Some(batch) = rounds.next(journal)? {
        let total = payloads_to_send(plan, batch.visits());
        options.progress.begin(total, &batch.name);
        let mut place = Place {
            made: 0,
            of: batch.visits().count(),
            began: Instant::now(),
            ends_sweep: plan.settings.adaptive.is_none(),
        };
        for (index, group) in batch.groups.iter().enumerate() {
            let round = group.first().map_or(0, |visit| visit.round);
            let made = driver.visit(group, journal, &mut rounds, place);
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
            place.made += group.len();
            let next = batch.groups.get(index + 1).and_then(|next| next.first());
            if next.is_none_or(|next| next.round != round) {
                estimate(options, round)?;
            }
        }
    }
    options.progress.end();
    journal.write(Event::SweepFinished)?;
    Ok(Ending::Complete)
}

/// Sums of the payload lists. One that cannot be loaded is left out: its visits fail.
fn payload_sums(plan: &Plan, prepared: &Prepared) -> Vec<PayloadSum> {
    let mixes = plan.settings.mixes();
    let mixes = if mixes.is_empty() { vec![""] } else { mixes };
    let Prepared { payloads, base, .. } = prepared;
    let of_mix = mixes.into_iter().flat_map(|mix| {
        plan.settings.levels.iter().filter_map(move |level| {
            let list = payloads.load(mix, *level, base).ok()?;
            Some(PayloadSum::of(mix, level.gas, &list))
        })
    });
    of_mix.collect()
}

/// Whether a sweep that was started may be resumed with this.
///
/// # Errors
/// When its programs, its payloads or its plan are not what it was started with.
pub fn check_manifest(now: &Manifest, started_with: Option<&Manifest>) -> Result<()> {
    let differences = started_with.map_or_else(Vec::new, |then| now.differences(then));
    ensure!(
        differences.is_empty(),
        "cannot resume: the sweep was started with something different ({}); restore that, or start a new sweep",
        differences.join("; ")
    );
    Ok(())
}

/// Tells what is known after a round.
fn estimate(options: &Options<'_>, round: u64) -> Result<()> {
    if options.progress.is_shown() {
        let running = (options.estimate)().wrap_err(CANNOT_DECIDE)?;
        options.progress.estimates(round, &running);
    }
    Ok(())
}

/// How far a batch is.
#[derive(Clone, Copy)]
struct Place {
    /// Visits that are over.
    made: usize,
    of: usize,
    began: Instant,
    /// Whether nothing comes behind the batch.
    ends_sweep: bool,
}

impl Place {
    /// What the rest of the batch takes if its visits take as long as those before; nothing behind the last.
    fn left(self, now: Instant) -> Option<String> {
        let left = self.of.checked_sub(self.made).filter(|left| *left > 0)?;
        let visit_s = (now - self.began).as_secs_f64() / self.made.max(1) as f64;
        let left = figures::duration(visit_s * left as f64);
        let of = if self.ends_sweep { "" } else { " of the round" };
        Some(format!("{left}{of} left"))
    }
}

/// Makes visits, and repeats those that were disturbed.
struct Driver<'a> {
    plan: &'a Plan,
    prepared: &'a Prepared,
    options: &'a Options<'a>,
    calibrator: Option<Calibrator>,
    repeats: Repeats,
    patience: Patience,
}

/// How a visit ended.
enum Ended {
    /// With its throughput in gigagas per second.
    Kept(f64, Vec<Contamination>),
    Voided(Vec<Contamination>),
    Failed(StepError),
}

impl<'a> Driver<'a> {
    fn new(plan: &'a Plan, prepared: &'a Prepared, options: &'a Options<'a>) -> Self {
        let mode = plan.settings.guard;
        let (done, voided) = repeat::counted(plan, options.history);
        Self {
            plan,
            prepared,
            options,
            calibrator: (mode != GuardMode::Off).then(Calibrator::default),
            repeats: Repeats::new(&plan.settings, done, voided),
            patience: Patience::new(Duration::from_millis(plan.settings.ready_timeout_ms)),
        }
    }

    /// Makes a visit, or several together, until it is kept or has failed; whether there is time for more.
    async fn visit(
        &mut self,
        group: &[&Visit],
        journal: &mut Journal,
        rounds: &mut Rounds<'_>,
        place: Place,
    ) -> Result<bool> {
        self.undo(group, journal)?;
        let round = group.first().map_or(0, |visit| visit.round);
        let earlier = repeat::voids(self.options.history, group);
        for attempt in 1 + earlier as u64.. {
            if !rounds.affords_another_visit() {
                rounds.end_early(round, journal)?;
                return Ok(false);
            }
            let began = Instant::now();
            let left = rounds.left();
            self.options.progress.show(|shown| shown.round = round);
            let ended = self.once(group, attempt, left, journal).await?;
            rounds.took(began.elapsed());
            for (index, (visit, ended)) in group.iter().zip(&ended).enumerate() {
                let place = Place {
                    made: place.made + index + 1,
                    ..place
                };
                let left = place
                    .left(Instant::now())
                    .filter(|_| index + 1 == group.len());
                let name = format!("visit {}/{} {}", place.made, place.of, visit.id());
                self.options.progress.line(&described(&name, ended, left));
                self.options.progress.show(|shown| match ended {
                    Ended::Kept(..) => shown.kept += 1,
                    Ended::Voided(_) => shown.void += 1,
                    Ended::Failed(_) => shown.failed += 1,
                });
            }
            if ended.iter().any(|ended| matches!(ended, Ended::Voided(_))) {
                self.repeats.repeats += 1;
                continue;
            }
            if ended.iter().any(|ended| matches!(ended, Ended::Kept(..))) {
                self.repeats.visits += 1;
            }
            return Ok(true);
        }
        Ok(true)
    }

    /// Takes back what an earlier run finished of a group that it did not finish: the rest of it alone
    /// would not run beside the same peers.
    fn undo(&self, group: &[&Visit], journal: &mut Journal) -> Result<(), JournalError> {
        for visit in group {
            if !self.options.history.is_finished(&visit.id()) {
                continue;
            }
            // Written first: what the journal says was measured is there at any time.
            let kept_in = repeat::free_name(self.options.out, visit);
            journal.write(Event::VisitUndone {
                visit: visit.id(),
                kept_in: kept_in.clone(),
            })?;
            // Were the files to stay, the next try would replace them.
            let _ = repeat::move_to(self.options.out, visit, &kept_in);
        }
        Ok(())
    }

    /// Makes a visit or a group once and writes down how each ended.
    async fn once(
        &mut self,
        group: &[&Visit],
        attempt: u64,
        left: Option<Duration>,
        journal: &mut Journal,
    ) -> Result<Vec<Ended>> {
        let began = Instant::now();
        let copies = self.plan.settings.interleave.then(|| self.copies(group));
        for (index, visit) in group.iter().enumerate() {
            let others = group.iter().filter(|other| other.cell != visit.cell);
            let interleaving = copies.as_ref().map(|copies| Interleaving {
                with: others.map(|other| other.id()).collect(),
                copy: copies[index] as u64 + 1,
            });
            journal.write(Event::VisitStarted {
                visit: visit.id(),
                interleaving,
            })?;
        }
        let made = self.attempt(group, copies.as_deref(), left).await;
        let facts = made.iter().flat_map(|made| &made.facts);
        let found = facts.flat_map(|facts| &facts.contaminations);
        let again =
            self.repeats.wanted(found, began.elapsed(), left) && self.repeats.allows_after(attempt);
        let mut ended = Vec::new();
        for (visit, made) in group.iter().zip(made) {
            ended.push(self.note(visit, made, again.then_some(attempt), journal)?);
        }
        Ok(ended)
    }

    /// Writes down how a visit ended, which is void at this attempt.
    fn note(
        &mut self,
        visit: &Visit,
        made: Made,
        void_at: Option<u64>,
        journal: &mut Journal,
    ) -> Result<Ended> {
        let (id, times) = (visit.id(), made.times);
        let facts = match made.facts {
            Ok(facts) => facts,
            Err(error) => {
                disk_has_room(self.options.out, &id, &error)?;
                let failure = error.failure(&id);
                journal.write(Event::VisitFailed { failure, times })?;
                return Ok(Ended::Failed(error));
            }
        };
        let found = facts.contaminations.clone();
        let set_aside = |attempt| Some((attempt, repeat::set_aside(self.options.out, visit).ok()?));
        if let Some((attempt, kept_in)) = void_at.and_then(set_aside) {
            journal.write(Event::VisitVoided {
                visit: id,
                attempt,
                kept_in,
                times,
                facts,
            })?;
            return Ok(Ended::Voided(found));
        }
        journal.write(Event::VisitFinished {
            visit: id,
            times,
            facts,
        })?;
        if let Some(cell) = self.plan.cell(&visit.cell) {
            self.patience.took(cell, made.took);
        }
        let ggas_per_second = times.measured_gas as f64 / 1e9 / times.measured_s;
        Ok(Ended::Kept(ggas_per_second, found))
    }

    /// Which of its engine's working copies each visit of a group gets. The order of visits changes from
    /// round to round, and with it the copies: none belongs to a cell.
    fn copies(&self, group: &[&Visit]) -> Vec<usize> {
        let engine = |visit: &Visit| self.plan.cell(&visit.cell).map(|cell| cell.engine.as_str());
        let copy = |(index, visit): (usize, &&Visit)| {
            let same = |other: &&&Visit| engine(other) == engine(visit);
            let (before, all) = (
                group[..index].iter().filter(same).count(),
                group.iter().filter(same).count(),
            );
            let turned = self.plan.settings.order == Order::Sequential;
            let by = if turned { visit.round as usize - 1 } else { 0 };
            (before + by) % all
        };
        group.iter().enumerate().map(copy).collect()
    }

    /// What a visit of a cell works with.
    fn visiting<'s>(&'s self, visit: &Visit) -> Result<Visiting<'s>, StepError> {
        let unknown = || StepError::new(Step::State, "the plan has no such cell");
        Ok(Visiting {
            settings: &self.plan.settings,
            prepared: self.prepared,
            cell: self.plan.cell(&visit.cell).ok_or_else(unknown)?,
            out: self.options.out,
            progress: self.options.progress,
            calibrator: self.calibrator.as_ref(),
            step: std::cell::Cell::new(Step::Payloads),
        })
    }

    /// Makes a visit, or those of a group in turn, each within the time of its own that it may take.
    async fn attempt<'s>(
        &'s self,
        group: &[&'s Visit],
        copies: Option<&[usize]>,
        left: Option<Duration>,
    ) -> Vec<Made> {
        let first = group.first().filter(|_| copies.is_some());
        let cell = first.and_then(|visit| self.plan.cell(&visit.cell));
        if let (Some(visit), Some(cell)) = (first, cell) {
            let (round, load, cells) = (visit.round, cell.load(), group.len());
            let text = format!("round {round}, {load}: {cells} cells in turn");
            self.options.progress.line(&text);
        }
        let member = |(index, visit): (usize, &&'s Visit)| {
            let visiting = self.visiting(visit)?;
            Ok(Member {
                limit: self.patience.limit(visiting.cell, left),
                visiting,
                visit,
                place: copies.map(|copies| copies[index]),
                made: Made::with(Ok(VisitFacts::default())),
            })
        };
        let members: Result<Vec<_>, StepError> = group.iter().enumerate().map(member).collect();
        match members {
            Ok(members) => group::run(members).await,
            Err(error) => Made::all_failed(group.len(), &error),
        }
    }
}

/// Whether a failure is the visit's own. One on a full disk is not recorded, so that a resumed sweep makes
/// the visit again.
fn disk_has_room(out: &Path, visit: &str, error: &StepError) -> Result<()> {
    let Some(free) = disk::scarce_bytes(out) else {
        return Ok(());
    };
    let (dir, free_kib) = (out.display(), free >> 10);
    bail!(
        "failed to measure {visit}: {error}; the disk of {dir} has {free_kib} KiB free; make room and resume with \
         engine-bench sweep --resume {dir}"
    )
}

/// How a visit ended, and what is left, as a line.
fn described(visit: &str, ended: &Ended, left: Option<String>) -> String {
    let details = |found: &[Contamination]| {
        let details: Vec<&str> = found.iter().map(|found| found.detail.as_str()).collect();
        details.join("; ")
    };
    let how = match ended {
        Ended::Kept(value, found) if found.is_empty() => format!("{value:.3} Ggas/s"),
        Ended::Kept(value, found) => format!("{value:.3} Ggas/s, though {}", details(found)),
        Ended::Voided(found) => format!(
            "void, {}; it counts for nothing and is measured again",
            details(found)
        ),
        Ended::Failed(error) => format!("failed, {error}"),
    };
    let left = left.map_or(String::new(), |left| format!(" ({left})"));
    format!("{visit}: {how}{left}")
}

/// Payloads of all passes, for the progress bar; unknown counts are left out.
fn payloads_to_send<'v>(plan: &Plan, visits: impl Iterator<Item = &'v Visit>) -> u64 {
    let settings = &plan.settings;
    let of_visit = |visit: &Visit| {
        let cell = plan.cell(&visit.cell)?;
        let mut levels = settings.levels.iter();
        let count = levels.find(|level| level.gas == cell.gas)?.count?;
        Some(match settings.warmup {
            WarmUp::Full => 2 * count,
            WarmUp::None => count,
            WarmUp::First(first) => count + first.min(count),
        })
    };
    visits.filter_map(of_visit).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_value_of_a_visit_and_the_time_left() {
        let began = Instant::now();
        let place = |made, ends_sweep| Place {
            made,
            of: 8,
            began,
            ends_sweep,
        };
        let left = |made, ends_sweep| place(made, ends_sweep).left(began + Duration::from_secs(90));
        let kept = Ended::Kept(0.48321, Vec::new());
        for (made, ends_sweep, expected) in [
            (3, true, "3/8 a: 0.483 Ggas/s (2m30s left)"),
            (3, false, "3/8 a: 0.483 Ggas/s (2m30s of the round left)"),
            (8, true, "8/8 a: 0.483 Ggas/s"),
        ] {
            let name = format!("{made}/8 a");
            assert_eq!(described(&name, &kept, left(made, ends_sweep)), expected);
        }
    }

    #[test]
    fn a_full_disk_ends_a_sweep_and_a_failure_elsewhere_does_not() {
        let error = StepError::new(Step::Write, "no space left on device");
        let here = tempfile::tempdir().unwrap();
        assert!(disk_has_room(here.path(), "2-a", &error).is_ok());
        // The file systems of /proc are never larger than nothing.
        let ended = disk_has_room(Path::new("/proc/self"), "2-a", &error);
        assert_eq!(
            ended.unwrap_err().to_string(),
            "failed to measure 2-a: write: no space left on device; the disk of /proc/self has 0 KiB free; \
             make room and resume with engine-bench sweep --resume /proc/self"
        );
    }
}
