//! What the next round of an adaptive sweep visits.
//!
//! Invariant: depends on the results folder alone, so that a decision can be checked afterwards. It
//! is written to the journal before it is acted on, and never made twice.

use super::{
    compare::{layout_of, rules},
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
    let outcome = &read_outcome(dir)?;
    let decided = outcome.plan.settings.adaptive.map(|adaptive| Deciding {
        outcome,
        round,
        adaptive,
    });
    let nothing = Decision {
        after_round: round,
        ..Decision::default()
    };
    Ok(decided.map_or(nothing, |deciding| deciding.decision()))
}

/// One gas level after a round.
struct Standing {
    load: Load,
    /// Ids of the cells that are compared, in the order of the plan.
    ids: Vec<String>,
    level: rounds::Level,
    outlook: Outlook,
}

impl Standing {
    fn names(&self, indices: &[usize]) -> Vec<String> {
        let names = indices.iter().map(|index| self.ids[*index].clone());
        names.collect()
    }
}

struct Deciding<'a> {
    outcome: &'a Outcome,
    round: u64,
    adaptive: Adaptive,
}

impl Deciding<'_> {
    fn decision(&self) -> Decision {
        let standings = self.standings();
        let given = self.given(&standings);
        let going_on = standings.iter().zip(&given).filter(|(_, more)| **more > 0);
        let next = going_on.flat_map(|(standing, _)| standing.names(&standing.outlook.active));
        let next: HashSet<String> = next.collect();
        let plan = &self.outcome.plan;
        let chosen = plan.cells.iter().chain(&plan.controls);
        let chosen =
            chosen.filter(|cell| next.contains(cell.control_of.as_ref().unwrap_or(&cell.id)));
        let levels = standings.iter().zip(given);
        let level = |(standing, given_rounds): (&Standing, u64)| LevelDecision {
            load: standing.load.clone(),
            precision: standing.outlook.half,
            wanted_rounds: standing.outlook.wanted,
            given_rounds,
            round_s: standing.level.round_s,
            beaten: standing.names(&standing.outlook.beaten),
            futile: standing.names(&standing.outlook.futile),
        };
        Decision {
            after_round: self.round,
            next: chosen.map(|cell| cell.id.clone()).collect(),
            left_s: self.left_s(),
            levels: levels.map(level).collect(),
        }
    }

    /// Whether the round just made was to visit a cell.
    fn was_visited(&self, id: &String) -> bool {
        let mut decided = self.outcome.decisions.iter();
        let before = decided.rfind(|decision| decision.after_round + 1 == self.round);
        before.is_none_or(|decision| decision.next.contains(id))
    }

    /// Gas levels that the round just made visited.
    fn standings(&self) -> Vec<Standing> {
        let rules = Rules {
            error: LOOK_ERROR,
            ..rules(self.outcome, NoiseFloor::of(self.outcome).relative)
        };
        let loads = self.outcome.plan.loads().into_iter();
        let levels = loads.map(|load| self.level_of(load));
        let levels: Vec<_> = levels.filter(|of| !of.2.active.is_empty()).collect();
        let most = self.most(levels.iter().map(|(_, _, level)| level.round_s).sum());
        let standing = |(load, ids, level): (Load, Vec<String>, rounds::Level)| {
            let level = rounds::Level { most, ..level };
            Standing {
                outlook: match self.round < PILOT_ROUNDS {
                    true => in_pilot(&level),
                    false => level.outlook(self.round, self.adaptive.precision, &rules),
                },
                load,
                ids,
                level,
            }
        };
        levels.into_iter().map(standing).collect()
    }

    /// What is known of a level, the rounds it may get left open.
    fn level_of(&self, load: Load) -> (Load, Vec<String>, rounds::Level) {
        let outcome = self.outcome;
        let ids: Vec<String> = outcome.cells(&load).map(|cell| cell.id.clone()).collect();
        let indices = |is_meant: &dyn Fn(&String) -> bool| -> Vec<usize> {
            let meant = (0..ids.len()).filter(|index| is_meant(&ids[*index]));
            meant.collect()
        };
        // A cell that never gave a number is not worth another round.
        let active = indices(&|id| self.was_visited(id) && outcome.passes.contains_key(id));
        let controlled = indices(&|id| {
            let mut controls = outcome.plan.controls.iter();
            controls.any(|control| control.control_of.as_ref() == Some(id))
        });
        let visits = active.len() + controlled.iter().filter(|of| active.contains(of)).count();
        let level = rounds::Level {
            layout: layout_of(outcome, &load),
            compared: ids.len(),
            controlled,
            round_s: self.visit_s(&load) * visits as f64,
            active,
            most: outcome.plan.settings.rounds,
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

    /// What visits of a level cost until now, on average.
    fn visit_s(&self, load: &Load) -> f64 {
        let of_level = |id: &str| {
            self.outcome
                .plan
                .cell(id)
                .is_some_and(|cell| load.is_of(cell))
        };
        let visits = self.outcome.finished();
        let visits = visits.filter(|attempt| of_level(&attempt.cell));
        let costs: Vec<f64> = visits.map(Attempt::cost_s).collect();
        costs.iter().sum::<f64>() / costs.len().max(1) as f64
    }

    fn given(&self, standings: &[Standing]) -> Vec<u64> {
        let most = self.outcome.plan.settings.rounds;
        let need = |Standing { level, outlook, .. }: &Standing| Need {
            made: self.round,
            wanted: match outlook.active.len() {
                0 => self.round,
                _ => outlook.wanted.min(most).max(self.round),
            },
            // As many as go on are paid for.
            round_s: level.round_s * outlook.active.len() as f64 / level.active.len().max(1) as f64,
            half: outlook.half.unwrap_or(1.0),
        };
        let needs: Vec<Need> = standings.iter().map(need).collect();
        allocate(&needs, self.left_s())
    }

    fn left_s(&self) -> Option<f64> {
        let spent = self.outcome.time_s.wall;
        let budget = self.adaptive.budget_s?;
        Some((budget - spent).max(0.0))
    }
}

/// During the pilot nothing is decided: everyone stays until its last round.
fn in_pilot(level: &rounds::Level) -> Outlook {
    Outlook {
        active: level.active.clone(),
        beaten: Vec::new(),
        futile: Vec::new(),
        wanted: PILOT_ROUNDS,
        half: None,
    }
}
