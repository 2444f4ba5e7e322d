//! What the next round of an adaptive sweep visits.
//!
//! Invariant: depends on the results folder alone, so that a decision can be checked afterwards. It
//! is written to the journal before it is acted on, and never made twice.

use super::{
    compare::layout_of,
    noise::NoiseFloor,
    outcome::{Outcome, read_outcome},
};
use crate::{
    plan::Load,
    record::{Attempt, Decision, LevelDecision, RecordError},
    sweep::Adaptive,
};
use bench_stats::{
    Rules,
    rounds::{self, LOOK_ERROR, Need, Outlook, PILOT_ROUNDS, allocate},
};
use std::{collections::HashSet, path::Path};

/// Decides after `round` which cells the next round visits. None ends the sweep.
///
/// # Errors
/// When the results folder cannot be read.
pub fn decide(dir: &Path, round: u64) -> Result<Decision, RecordError> {
    let outcome = read_outcome(dir)?;
    let Some(adaptive) = outcome.plan.settings.adaptive else {
        return Ok(Decision {
            after_round: round,
            ..Decision::default()
        });
    };
    let deciding = Deciding {
        outcome: &outcome,
        round,
        adaptive,
    };
    Ok(deciding.decision())
}

/// One gas level after a round.
struct Standing {
    load: Load,
    /// Ids of the cells that are compared, in the order of the plan.
    ids: Vec<String>,
    level: rounds::Level,
    outlook: Outlook,
}

struct Deciding<'a> {
    outcome: &'a Outcome,
    round: u64,
    adaptive: Adaptive,
}

impl Deciding<'_> {
    fn decision(&self) -> Decision {
        let last = self.visited_last();
        let standings = self.standings(&last);
        let given = self.given(&standings);
        let mut next = HashSet::new();
        for (standing, rounds) in standings.iter().zip(&given) {
            if *rounds > 0 {
                next.extend(
                    standing
                        .outlook
                        .active
                        .iter()
                        .map(|index| &standing.ids[*index]),
                );
            }
        }
        let plan = &self.outcome.plan;
        let chosen = plan.cells.iter().chain(&plan.controls).filter(|cell| {
            let original = cell.control_of.as_ref().unwrap_or(&cell.id);
            next.contains(original)
        });
        let left_s = self.left_s();
        Decision {
            after_round: self.round,
            next: chosen.map(|cell| cell.id.clone()).collect(),
            left_s,
            levels: standings
                .iter()
                .zip(&given)
                .map(|(standing, given)| self.level(standing, *given))
                .collect(),
        }
    }

    /// Cells that the round just made was to visit.
    fn visited_last(&self) -> HashSet<String> {
        let decided = self.outcome.decisions.iter();
        let mut before = decided.filter(|decision| decision.after_round + 1 == self.round);
        match before.next_back() {
            Some(decision) => decision.next.iter().cloned().collect(),
            None => {
                let cells = self.outcome.plan.cells.iter();
                cells.map(|cell| cell.id.clone()).collect()
            }
        }
    }

    /// Gas levels that the round just made visited.
    fn standings(&self, last: &HashSet<String>) -> Vec<Standing> {
        let outcome = self.outcome;
        let noise = NoiseFloor::of(outcome).relative;
        let rules = Rules {
            error: LOOK_ERROR,
            noise,
            relevant: outcome.plan.settings.min_effect,
        };
        let loads = outcome.plan.loads().into_iter();
        let mut levels: Vec<(Load, Vec<String>, rounds::Level)> = loads
            .map(|load| self.level_of(load, last))
            .filter(|(_, _, level)| !level.active.is_empty())
            .collect();
        let round_s = levels.iter().map(|(_, _, level)| level.round_s).sum();
        let most = self.most(round_s);
        for (_, _, level) in &mut levels {
            level.most = most;
        }
        let standing = |(load, ids, level): (Load, Vec<String>, rounds::Level)| Standing {
            outlook: match active_pilot(self.round, &level) {
                Some(outlook) => outlook,
                None => level.outlook(self.round, self.adaptive.precision, &rules),
            },
            load,
            ids,
            level,
        };
        levels.into_iter().map(standing).collect()
    }

    /// What is known of a level, the rounds it may get left open.
    fn level_of(&self, load: Load, last: &HashSet<String>) -> (Load, Vec<String>, rounds::Level) {
        let outcome = self.outcome;
        let plan = &outcome.plan;
        let cells = plan.cells.iter().filter(|cell| load.is_of(cell));
        let ids: Vec<String> = cells.map(|cell| cell.id.clone()).collect();
        let visited = |index: &usize| {
            // A cell that never gave a number is not worth another round.
            last.contains(&ids[*index]) && outcome.passes.contains_key(&ids[*index])
        };
        let has_control = |index: &usize| {
            let mut controls = plan.controls.iter();
            controls.any(|control| control.control_of.as_ref() == Some(&ids[*index]))
        };
        let active: Vec<usize> = (0..ids.len()).filter(visited).collect();
        let level = rounds::Level {
            layout: layout_of(outcome, &load),
            compared: ids.len(),
            controlled: (0..ids.len()).filter(has_control).collect(),
            round_s: self.round_s(&load, &active, &ids),
            active,
            most: plan.settings.rounds,
        };
        (load, ids, level)
    }

    /// Rounds in all that every level may get, when a round of all costs so much.
    fn most(&self, round_s: f64) -> u64 {
        let most = self.outcome.plan.settings.rounds;
        let affordable = |left_s: f64| self.round + (left_s / round_s.max(1e-9)) as u64;
        self.left_s()
            .map_or(most, |left_s| most.min(affordable(left_s)))
    }

    /// What one more round of a level costs: what its visits cost until now.
    fn round_s(&self, load: &Load, active: &[usize], ids: &[String]) -> f64 {
        let plan = &self.outcome.plan;
        let of_level = |id: &str| plan.cell(id).is_some_and(|cell| load.is_of(cell));
        let visits = self.outcome.finished();
        let costs: Vec<f64> = visits
            .filter(|attempt| of_level(&attempt.cell))
            .map(Attempt::cost_s)
            .collect();
        let mean = costs.iter().sum::<f64>() / costs.len().max(1) as f64;
        let controls = plan.controls.iter().filter(|control| {
            let original = control.control_of.as_ref();
            active.iter().any(|index| original == Some(&ids[*index]))
        });
        mean * (active.len() + controls.count()) as f64
    }

    fn given(&self, standings: &[Standing]) -> Vec<u64> {
        let most = self.outcome.plan.settings.rounds;
        let needs: Vec<Need> = standings
            .iter()
            .map(|standing| Need {
                made: self.round,
                wanted: match standing.outlook.active.len() {
                    0 => self.round,
                    _ => standing.outlook.wanted.min(most).max(self.round),
                },
                // As many as go on are paid for.
                round_s: standing.level.round_s * standing.outlook.active.len() as f64
                    / standing.level.active.len().max(1) as f64,
                half: standing.outlook.half.unwrap_or(1.0),
            })
            .collect();
        allocate(&needs, self.left_s())
    }

    fn left_s(&self) -> Option<f64> {
        let spent = self.outcome.time_s.wall;
        self.adaptive
            .budget_s
            .map(|budget| (budget - spent).max(0.0))
    }

    fn level(&self, standing: &Standing, given: u64) -> LevelDecision {
        let outlook = &standing.outlook;
        let names = |indices: &[usize]| -> Vec<String> {
            indices
                .iter()
                .map(|index| standing.ids[*index].clone())
                .collect()
        };
        LevelDecision {
            load: standing.load.clone(),
            precision: outlook.half,
            wanted_rounds: outlook.wanted,
            given_rounds: given,
            round_s: standing.level.round_s,
            beaten: names(&outlook.beaten),
            futile: names(&outlook.futile),
        }
    }
}

/// During the pilot nothing is decided: everyone stays until its last round.
fn active_pilot(round: u64, level: &rounds::Level) -> Option<Outlook> {
    (round < PILOT_ROUNDS).then(|| Outlook {
        active: level.active.clone(),
        beaten: Vec::new(),
        futile: Vec::new(),
        wanted: PILOT_ROUNDS,
        half: None,
    })
}
