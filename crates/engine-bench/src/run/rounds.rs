//! Which visits come next: all that are planned, or round by round what an adaptive sweep decides.
//!
//! Invariant: computes no statistics. A decision is asked for, written to the journal, and only then
//! acted on; one that the journal already holds is not asked for again.

use super::{Options, driver::CANNOT_DECIDE};
use crate::{
    plan::{Cell, Load, Plan, Visit},
    record::{Decision, Ended, Event, Journal, JournalError, LevelDecision},
    sweep::Adaptive,
};
use eyre::{Result, WrapErr as _};
use std::time::{Duration, Instant};

/// Visits that are made one after another, or group after group.
pub(super) struct Batch<'a> {
    /// What a person is told.
    pub(super) name: String,
    /// Those that are not done, in the order of the plan; several of them together take turns.
    pub(super) groups: Vec<Vec<&'a Visit>>,
}

impl<'a> Batch<'a> {
    /// Every visit.
    pub(super) fn visits(&self) -> impl Iterator<Item = &'a Visit> {
        self.groups.iter().flatten().copied()
    }
}

/// The visits of a sweep, batch after batch.
pub(super) struct Rounds<'a> {
    plan: &'a Plan,
    options: &'a Options<'a>,
    decided: Vec<Decision>,
    /// The round that the next batch is.
    round: u64,
    began: Instant,
    longest_visit: Duration,
}

impl<'a> Rounds<'a> {
    pub(super) fn new(plan: &'a Plan, options: &'a Options<'a>) -> Self {
        Self {
            plan,
            options,
            decided: options.history.decisions.clone(),
            round: 1,
            began: Instant::now(),
            longest_visit: Duration::ZERO,
        }
    }

    /// The next visits; `None` when the sweep is over.
    pub(super) fn next(&mut self, journal: &mut Journal) -> Result<Option<Batch<'a>>> {
        let Some(adaptive) = self.plan.settings.adaptive else {
            let all = (self.round == 1).then(|| Batch {
                name: "measuring".to_owned(),
                groups: self.open(|_| true),
            });
            self.round += 1;
            return Ok(all);
        };
        loop {
            let round = self.round;
            self.round += 1;
            let ended = self.decided.iter().any(|decision| decision.next.is_empty());
            if ended || round > self.plan.settings.rounds {
                return Ok(None);
            }
            let next = match round {
                1 => None,
                _ => Some(self.decision(round - 1, &adaptive, journal)?),
            };
            if next.as_ref().is_some_and(Vec::is_empty) {
                return Ok(None);
            }
            let chosen = |visit: &Visit| {
                let among = |next: &Vec<String>| next.contains(&visit.cell);
                visit.round == round && next.as_ref().is_none_or(among)
            };
            let groups = self.open(chosen);
            // A round that an earlier run finished only had to be counted.
            if !groups.is_empty() {
                return Ok(Some(Batch {
                    name: format!("round {round}"),
                    groups,
                }));
            }
        }
    }

    /// Visits not done yet, in the order of the plan: each on its own, or those that take turns together.
    fn open(&self, chosen: impl Fn(&Visit) -> bool) -> Vec<Vec<&'a Visit>> {
        let visits = self.plan.visits.iter().filter(|visit| chosen(visit));
        let mut groups = groups(self.plan, visits);
        groups.retain(|group| !self.is_done(group));
        groups
    }

    /// Whether a group was made: every visit ended, one at least with numbers. A failed one is not made
    /// alone later, when its peers would not be beside it; one that was cut takes its whole group along.
    fn is_done(&self, group: &[&Visit]) -> bool {
        let of_visit = |visit: &&Visit| self.options.history.state(&visit.id());
        let states: Vec<Option<Ended>> = group.iter().map(of_visit).collect();
        !states.contains(&None) && states.contains(&Some(Ended::Finished))
    }

    /// Cells of the round after `round`: as decided before, or decided now.
    fn decision(
        &mut self,
        round: u64,
        adaptive: &Adaptive,
        journal: &mut Journal,
    ) -> Result<Vec<String>> {
        let known = self.decided.iter().find(|known| known.after_round == round);
        if let Some(known) = known {
            return Ok(known.next.clone());
        }
        let decision = (self.options.decide)(round).wrap_err(CANNOT_DECIDE)?;
        journal.write(Event::Decided(decision.clone()))?;
        for level in &decision.levels {
            self.options
                .progress
                .line(&describe(round, level, adaptive));
        }
        let next = decision.next.clone();
        self.decided.push(decision);
        Ok(next)
    }

    /// Whether the budget has time for a visit, or a group of them, as long as the longest one. The first is
    /// always made: how long it takes is not known before.
    pub(super) fn affords_another_visit(&self) -> bool {
        let fits = |left| self.longest_visit <= left;
        self.longest_visit.is_zero() || self.left().is_none_or(fits)
    }

    /// What is left of the budget; `None` without one.
    pub(super) fn left(&self) -> Option<Duration> {
        let budget_s = self.plan.settings.adaptive?.budget_s?;
        let spent_s = self.options.history.time_s.wall + self.began.elapsed().as_secs_f64();
        Some(Duration::from_secs_f64((budget_s - spent_s).max(0.0)))
    }

    /// Remembers how long a visit, or a group of them, took.
    pub(super) fn took(&mut self, time: Duration) {
        self.longest_visit = self.longest_visit.max(time);
    }

    /// Ends the sweep in the middle of a round, for good.
    pub(super) fn end_early(
        &mut self,
        round: u64,
        journal: &mut Journal,
    ) -> Result<(), JournalError> {
        let end = Decision {
            after_round: round,
            left_s: Some(0.0),
            ..Decision::default()
        };
        journal.write(Event::Decided(end.clone()))?;
        let text = format!("the budget is spent in round {round}");
        self.options.progress.line(&text);
        self.decided.push(end);
        Ok(())
    }
}

/// Visits that take turns together, those of one round and one load, or each on its own; groups and their
/// visits in the order given.
pub(super) fn groups<'v>(
    plan: &Plan,
    visits: impl Iterator<Item = &'v Visit>,
) -> Vec<Vec<&'v Visit>> {
    if !plan.settings.interleave {
        return visits.map(|visit| vec![visit]).collect();
    }
    let mut keys: Vec<(u64, Option<Load>)> = Vec::new();
    let mut groups: Vec<Vec<&Visit>> = Vec::new();
    for visit in visits {
        let key = (visit.round, plan.cell(&visit.cell).map(Cell::load));
        match keys.iter().rposition(|known| *known == key) {
            Some(index) => groups[index].push(visit),
            None => {
                keys.push(key);
                groups.push(vec![visit]);
            }
        }
    }
    groups
}

/// A decision about a level, as a line.
fn describe(round: u64, level: &LevelDecision, adaptive: &Adaptive) -> String {
    let percent = |value: f64| format!("{:.2} %", 100.0 * value);
    let mut said = vec![match level.precision {
        Some(half) => format!("precision {}", percent(half)),
        None => "noise not known yet".to_owned(),
    }];
    let more = level.wanted_rounds.saturating_sub(round);
    if more > 0 && level.precision.is_some() {
        let minutes = more as f64 * level.round_s / 60.0;
        let wanted = percent(adaptive.precision);
        let granted = match level.given_rounds {
            given if given < more => format!(", {given} will be made"),
            _ => String::new(),
        };
        said.push(format!(
            "{wanted} takes {more} more rounds, {minutes:.1} min{granted}"
        ));
    }
    if !level.beaten.is_empty() {
        said.push(format!("clearly beaten: {}", level.beaten.join(", ")));
    }
    if !level.futile.is_empty() {
        let futile = level.futile.join(", ");
        said.push(format!(
            "open, and unlikely to be decided by the rounds left: {futile}"
        ));
    }
    format!("after round {round}, {}: {}", level.load, said.join("; "))
}
