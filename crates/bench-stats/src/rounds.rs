//! How many rounds a sweep needs: from a pilot to the next round, within a budget.
//!
//! Looking at results again and again until something shows is the surest way to a false verdict.
//! Two rules keep the chance of one where it is stated. The number of rounds follows from the
//! spread of visits alone, never from how far apart the cells are (Stein, "A Two-Sample Test for a
//! Linear Hypothesis Whose Power is Independent of the Variance", 1945). And cells may leave early
//! only at two fixed looks, whose chances of error are set aside beforehand and taken from that of
//! the final comparison (Bonferroni over looks).
//!
//! Invariant: [`FINAL_ERROR`] and the errors of all looks add up to the error of a sweep with a fixed
//! number of rounds.

use crate::{
    layout::{Layout, Spread},
    pairs::{Reach, Rules, compare_all},
};

/// Rounds before anything is decided.
pub const PILOT_ROUNDS: u64 = 3;
/// Rounds after which a clearly beaten cell is left out.
pub const LOOKS: [u64; 2] = [3, 6];
/// Chance of error of each look.
pub const LOOK_ERROR: f64 = 0.005;
/// Chance of error of the final comparison.
pub const FINAL_ERROR: f64 = 0.04;
/// No level is visited in more rounds, however noisy it is.
pub const MOST_ROUNDS: u64 = 20;

/// What is known of a level after some rounds.
#[derive(Debug, Clone)]
pub struct Level {
    /// Throughputs of its cells, duplicates last.
    pub layout: Layout,
    /// How many of them are compared with each other.
    pub compared: usize,
    /// Those still visited, ascending, duplicates not counted.
    pub active: Vec<usize>,
    /// What a round of them costs, duplicates included, in seconds.
    pub round_s: f64,
}

/// What a level is to become.
#[derive(Debug, Clone, PartialEq)]
pub struct Outlook {
    /// Cells that stay in the sweep.
    pub active: Vec<usize>,
    /// Rounds in all after which differences are resolved; those made already when they are.
    pub wanted: u64,
    /// Relative half width of the widest interval between cells that stay; `None` when unknown.
    pub half: Option<f64>,
}

impl Level {
    /// Decides about the level after `round`: who stays, and how many rounds resolve differences of
    /// `resolve` (relative).
    pub fn outlook(&self, round: u64, resolve: f64, rules: &Rules) -> Outlook {
        let active = self.contenders(round, rules);
        let all: Vec<usize> = (0..self.layout.cells()).collect();
        let spread = self.layout.spread(&all);
        let reach = Reach::new(self.compared);
        let half = spread.map(|spread| half_width(&reach, spread, round, round));
        let wanted = match spread {
            _ if active.len() < 2 => round,
            Some(spread) => rounds_to_resolve(&reach, spread, round, resolve),
            None => round + 1,
        };
        Outlook {
            active,
            wanted,
            half: half.map(f64::exp_m1),
        }
    }

    /// The active cells that are not beaten; all of them between looks.
    fn contenders(&self, round: u64, rules: &Rules) -> Vec<usize> {
        if !LOOKS.contains(&round) {
            return self.active.clone();
        }
        let rules = Rules {
            error: LOOK_ERROR,
            ..*rules
        };
        let compared = compare_all(&self.layout, self.compared, &rules);
        let stays = |cell: &&usize| !compared.is_beaten(**cell);
        self.active.iter().filter(stays).copied().collect()
    }
}

/// Half the interval of a difference after `rounds`, on the logarithmic scale, when the spread was
/// estimated in `seen` rounds and goes on as it was.
fn half_width(reach: &Reach, spread: Spread, seen: u64, rounds: u64) -> f64 {
    let grown = (rounds.max(2) - 1) as f64 / (seen.max(2) - 1) as f64;
    let reach = reach.at(FINAL_ERROR, spread.freedom * grown);
    reach * spread.deviation * (2.0 / rounds as f64).sqrt()
}

/// The fewest rounds in all after which intervals reach no further than `resolve` (relative), at
/// most [`MOST_ROUNDS`] and at least those made.
pub fn rounds_to_resolve(reach: &Reach, spread: Spread, seen: u64, resolve: f64) -> u64 {
    // Half widths only shrink with rounds: the answer is found by halving.
    let (mut low, mut high) = (seen, MOST_ROUNDS.max(seen));
    while low < high {
        let middle = low.midpoint(high);
        if half_width(reach, spread, seen, middle) <= resolve.ln_1p() {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

/// What a level asks for, and what it costs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Need {
    /// Rounds made.
    pub made: u64,
    /// Rounds in all that it wants.
    pub wanted: u64,
    /// Cost of one more, in seconds.
    pub round_s: f64,
    /// Relative half width of its intervals now.
    pub half: f64,
}

/// Further rounds for each level within a budget: one at a time to the level whose intervals shrink
/// most for their cost. Everything wanted when there is no budget.
pub fn allocate(needs: &[Need], budget_s: Option<f64>) -> Vec<u64> {
    let mut given = vec![0; needs.len()];
    let mut left = budget_s.unwrap_or(f64::INFINITY);
    loop {
        let gain = |index: usize| {
            let (need, made) = (&needs[index], needs[index].made + given[index]);
            // Half widths shrink with the root of the rounds.
            let at = |rounds: u64| need.half * (need.made as f64 / rounds as f64).sqrt();
            (at(made) - at(made + 1)) / need.round_s.max(1e-9)
        };
        let affordable = |index: &usize| {
            let need = &needs[*index];
            need.made + given[*index] < need.wanted && need.round_s <= left
        };
        let best = (0..needs.len())
            .filter(affordable)
            .max_by(|a, b| gain(*a).total_cmp(&gain(*b)).then(b.cmp(a)));
        let Some(best) = best else { return given };
        given[best] += 1;
        left -= needs[best].round_s;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SPREAD: Spread = Spread {
        deviation: 0.01,
        freedom: 8.0,
    };

    #[test]
    fn errors_add_up() {
        assert!((FINAL_ERROR + LOOK_ERROR * LOOKS.len() as f64 - 0.05).abs() < 1e-12);
    }

    #[test]
    fn finer_resolution_takes_more_rounds() {
        let reach = Reach::new(4);
        let rounds = |resolve| rounds_to_resolve(&reach, SPREAD, 3, resolve);
        assert_eq!(rounds(1.0), 3);
        assert_eq!(rounds(0.0001), MOST_ROUNDS);
        let found = rounds(0.02);
        assert!(half_width(&reach, SPREAD, 3, found) <= 0.02f64.ln_1p());
        assert!(half_width(&reach, SPREAD, 3, found - 1) > 0.02f64.ln_1p());
    }

    #[test]
    fn a_budget_goes_where_it_buys_most() {
        let need = |round_s, half| Need {
            made: 3,
            wanted: 8,
            round_s,
            half,
        };
        assert_eq!(
            allocate(&[need(10.0, 0.02), need(10.0, 0.02)], None),
            [5, 5]
        );
        // The same noise, but the second level is four times cheaper.
        assert_eq!(
            allocate(&[need(40.0, 0.02), need(10.0, 0.02)], Some(50.0)),
            [0, 5]
        );
        // The first is much noisier.
        assert_eq!(
            allocate(&[need(10.0, 0.20), need(10.0, 0.02)], Some(50.0)),
            [5, 0]
        );
        assert_eq!(
            allocate(&[need(10.0, 0.02), need(10.0, 0.02)], Some(20.0)),
            [1, 1]
        );
        assert_eq!(allocate(&[need(10.0, 0.02)], Some(9.9)), [0]);
    }

    proptest! {
        #[test]
        fn a_budget_is_kept(
            costs in prop::collection::vec((0.1f64..100.0, 0.001f64..0.1, 0u64..20), 1..6),
            budget in 0.0f64..2000.0,
        ) {
            let needs: Vec<Need> = costs
                .iter()
                .map(|(round_s, half, more)| Need { made: 3, wanted: 3 + more, round_s: *round_s, half: *half })
                .collect();
            let given = allocate(&needs, Some(budget));
            let spent: f64 = given.iter().zip(&needs).map(|(n, need)| *n as f64 * need.round_s).sum();
            prop_assert!(spent <= budget * (1.0 + 1e-9));
            for (given, need) in given.iter().zip(&needs) {
                prop_assert!(need.made + given <= need.wanted);
                // Nothing that is wanted and still fits is left out.
                prop_assert!(need.made + given == need.wanted || need.round_s > budget - spent - 1e-6);
            }
        }
    }
}
