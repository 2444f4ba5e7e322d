//! How many rounds a sweep needs, and of which cells: from a pilot to the next round, within what it may
//! spend.
//!
//! What a sweep is for is the best set: the cells that are not shown to be slower than another by more
//! than is relevant. A round is worth its time when it may still change who is in that set, or when it
//! brings every interval down to the precision asked for. All other cells stop where they are.
//!
//! Looking at results again and again until something shows is the surest way to a false verdict.
//! Three rules keep the chance of one where it is stated. How many rounds bring intervals down to a width
//! follows from the spread of visits alone, never from how far apart the cells are. Cells leave as beaten
//! only at two fixed looks, whose chances of error are set aside beforehand and taken from that of the
//! final comparison (Bonferroni over looks). And what stops a cell that is not beaten is only that it
//! is unlikely to be so in the end (stochastic curtailment; Lan, Simon and Halperin, 1982): that takes
//! chances of a verdict away and adds none.
//!
//! The first rule is not Stein's ("A Two-Sample Test for a Linear Hypothesis Whose Power is Independent of
//! the Variance", 1945), which takes the spread from a first stage alone, for the number of rounds and for
//! the final interval, and is exact. Here the spread is estimated anew from all rounds after each, and all of
//! them make the final interval (Chow and Robbins, "On the Asymptotic Theory of Fixed-Width Sequential
//! Confidence Intervals for the Mean", 1965): far narrower after a short pilot, and a little too often
//! missed, because sweeps end when the spread happens to look small. [`STOPPING_ERROR`] is kept for that.
//!
//! Invariant: the errors of the looks, of stopping and of the final comparison add up to the error of a
//! sweep with a fixed number of rounds.

use crate::{
    fit::Fit,
    layout::{Layout, Spread},
    pairs::{Reach, compare_all},
    verdict::{ERROR, FEWEST_ROUNDS, Rules},
};
use statrs::distribution::{ContinuousCDF as _, Normal};

/// Rounds before anything is decided.
pub const PILOT_ROUNDS: u64 = 2;
/// Rounds after which a clearly beaten cell is left out.
pub const LOOKS: [u64; 2] = [3, 6];
/// Chance of error of each look.
pub const LOOK_ERROR: f64 = 0.005;
/// What ending when the spread looks small adds to the chance that an interval misses.
pub const STOPPING_ERROR: f64 = 0.01;
/// Chance of error of the final comparison.
pub const FINAL_ERROR: f64 = ERROR - LOOKS.len() as f64 * LOOK_ERROR - STOPPING_ERROR;
/// No level is visited in more rounds, however noisy it is.
pub const MOST_ROUNDS: u64 = 20;
/// Where counting the rounds that a resolution takes ends.
const COUNTED_ROUNDS: u64 = 100_000;
/// Chance of deciding a cell's place with the rounds that are left, from which on they are spent on it.
const WORTHWHILE: f64 = 0.2;

/// What is known of a level after some rounds.
#[derive(Debug, Clone)]
pub struct Level {
    /// Throughputs of its cells, A/A controls last.
    pub layout: Layout,
    /// How many of them are compared with each other.
    pub compared: usize,
    /// Those still visited, ascending, A/A controls not counted.
    pub active: Vec<usize>,
    /// Those that have an A/A control.
    pub controlled: Vec<usize>,
    /// What a round of the active ones costs, A/A controls included, in seconds.
    pub round_s: f64,
    /// Rounds in all that it may get.
    pub most: u64,
}

/// What a level is to become.
#[derive(Debug, Clone, PartialEq)]
pub struct Outlook {
    /// Cells that the next round visits; none when the level is done.
    pub active: Vec<usize>,
    /// Cells that leave because they are clearly beaten.
    pub beaten: Vec<usize>,
    /// Cells that stop although their place is open, because the rounds that are left would hardly decide it.
    pub futile: Vec<usize>,
    /// Rounds in all after which differences are resolved; those made already when they are.
    pub wanted: u64,
    /// Relative half width of the widest interval between cells that stay; `None` when unknown.
    pub half: Option<f64>,
}

impl Level {
    /// Decides about the level after `round`: who goes on, and how many rounds would resolve differences of
    /// `resolve` (relative).
    pub fn outlook(&self, round: u64, resolve: f64, rules: &Rules) -> Outlook {
        let contenders = self.contenders(round, rules);
        let beaten = without(&self.active, &contenders);
        let fit = Fit::of(&self.layout, &(0..self.layout.cells()).collect::<Vec<_>>());
        let Some(spread) = fit.spread() else {
            return Outlook {
                active: contenders,
                beaten,
                futile: Vec::new(),
                wanted: round + 1,
                half: None,
            };
        };
        let prospect = Prospect {
            reach: Reach::new(self.compared),
            spread,
            round,
            most: self.most.max(round),
            noise: rules.noise.unwrap_or(0.0).ln_1p(),
            relevant: rules.relevant.ln_1p(),
        };
        let wanted = match contenders.len() {
            0 | 1 => round,
            // However little visits vary, fewer rounds name no difference.
            _ => {
                rounds_to_resolve(&prospect.reach, spread, round, resolve).max(FEWEST_ROUNDS as u64)
            }
        };
        let active = if wanted <= round || self.most <= round {
            Vec::new()
        } else if wanted <= self.most {
            contenders.clone()
        } else {
            self.worthwhile(&contenders, &fit, &prospect)
        };
        let futile = match wanted <= round {
            true => Vec::new(),
            false => without(&contenders, &active),
        };
        Outlook {
            active,
            beaten,
            futile,
            wanted,
            half: Some(prospect.half(round).exp_m1()),
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

    /// Cells whose place is open and may be decided, the highest, which they are held against, and
    /// those that have an A/A control: identical cells have to be seen as often as others are.
    fn worthwhile(&self, contenders: &[usize], fit: &Fit, prospect: &Prospect) -> Vec<usize> {
        let effect = |cell: usize| fit.effect(cell).unwrap_or(f64::NEG_INFINITY);
        let by_effect = |a: &&usize, b: &&usize| effect(**a).total_cmp(&effect(**b));
        let Some(top) = contenders.iter().max_by(by_effect).copied() else {
            return Vec::new();
        };
        let may_decide =
            |cell: usize| cell != top && prospect.is_worthwhile(effect(top) - effect(cell));
        if !contenders.iter().any(|cell| may_decide(*cell)) {
            return Vec::new();
        }
        let goes_on =
            |cell: &&usize| **cell == top || self.controlled.contains(cell) || may_decide(**cell);
        contenders.iter().filter(goes_on).copied().collect()
    }
}

/// Cells of `all` that are not among `some`.
fn without(all: &[usize], some: &[usize]) -> Vec<usize> {
    let others = all.iter().filter(|cell| !some.contains(cell));
    others.copied().collect()
}

/// What the rounds that a level may still get can show. Lengths are on the logarithmic scale.
#[derive(Debug)]
struct Prospect {
    reach: Reach,
    spread: Spread,
    round: u64,
    most: u64,
    noise: f64,
    relevant: f64,
}

impl Prospect {
    /// Half an interval after so many rounds.
    fn half(&self, rounds: u64) -> f64 {
        half_width(&self.reach, self.spread, self.round, rounds)
    }

    /// Whether a cell that is this far behind the highest may be told from it, or found to be as good as
    /// equal, by all rounds that are left. What it will be behind then is about normal around what it is
    /// behind now.
    fn is_worthwhile(&self, behind: f64) -> bool {
        let (made, most) = (self.round as f64, self.most as f64);
        if behind.abs() + self.half(self.round) <= self.relevant {
            return false;
        }
        let half = self.half(self.most);
        let margin = self.relevant.max(self.noise * (made / most).sqrt());
        let moves = self.spread.deviation * (2.0 / made - 2.0 / most).sqrt();
        let normal = Normal::standard();
        let under = |end: f64| match moves > 0.0 {
            true => normal.cdf((end - behind) / moves),
            false => f64::from(u8::from(behind <= end)),
        };
        let beaten = 1.0 - under(margin + half);
        let equal = (under(self.relevant - half) - under(half - self.relevant)).max(0.0);
        beaten + equal >= WORTHWHILE
    }
}

/// Half the interval of a difference after `rounds`, on the logarithmic scale, when the spread was
/// estimated in `seen` rounds and goes on as it was.
fn half_width(reach: &Reach, spread: Spread, seen: u64, rounds: u64) -> f64 {
    let grown = (rounds.max(2) - 1) as f64 / (seen.max(2) - 1) as f64;
    let reach = reach.at(FINAL_ERROR, spread.freedom * grown);
    reach * spread.deviation * (2.0 / rounds as f64).sqrt()
}

/// The fewest rounds in all after which intervals reach no further than `resolve` (relative), and
/// at least those made.
pub fn rounds_to_resolve(reach: &Reach, spread: Spread, seen: u64, resolve: f64) -> u64 {
    // Half widths only shrink with rounds: the answer is found by halving.
    let (mut low, mut high) = (seen, COUNTED_ROUNDS.max(seen));
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
    use crate::Throughput;
    use proptest::prelude::*;

    const SPREAD: Spread = Spread {
        deviation: 0.01,
        freedom: 8.0,
    };

    #[test]
    fn finer_resolution_takes_more_rounds() {
        let reach = Reach::new(4);
        let rounds = |resolve| rounds_to_resolve(&reach, SPREAD, 3, resolve);
        assert_eq!(rounds(1.0), 3);
        assert!(rounds(0.001) > 500, "{}", rounds(0.001));
        let found = rounds(0.02);
        assert!(half_width(&reach, SPREAD, 3, found) <= 0.02f64.ln_1p());
        assert!(half_width(&reach, SPREAD, 3, found - 1) > 0.02f64.ln_1p());
    }

    /// A level of three cells and an A/A control of the first after two rounds, whose visits vary by `noise`.
    fn level(slowness: [f64; 3], noise: f64, most: u64) -> Level {
        let ticks = [[1.0, -1.0], [-1.0, 1.0], [0.5, -0.5], [-0.5, 0.5]];
        let behind = [slowness[0], slowness[1], slowness[2], slowness[0]];
        let visits = behind.iter().zip(ticks).map(|(behind, ticks)| {
            let visit = |(round, tick): (u64, f64)| {
                let time = 1e12 * (behind + noise * tick).exp();
                (round, Throughput::new(1_000_000_000_000, time as u64))
            };
            (1..).zip(ticks).map(visit).collect::<Vec<_>>()
        });
        Level {
            layout: Layout::new(visits),
            compared: 3,
            active: vec![0, 1, 2],
            controlled: vec![0],
            round_s: 1.0,
            most,
        }
    }

    #[test]
    fn rounds_are_spent_on_what_they_may_decide() {
        let rules = Rules {
            error: LOOK_ERROR,
            noise: Some(0.0),
            relevant: 0.01,
        };
        for (slowness, noise, most, active, futile) in [
            // Nothing near is separable in four rounds; what is far behind can.
            ([0.0, 0.02, 0.6], 0.05, 4, vec![0, 2], vec![1]),
            // The cell with the control goes on beside the two that matter.
            ([0.02, 0.0, 0.6], 0.05, 4, vec![0, 1, 2], vec![]),
            ([0.0, 0.02, 0.01], 0.05, 4, vec![], vec![0, 1, 2]),
            // With enough rounds all is resolved.
            ([0.0, 0.02, 0.01], 0.005, 20, vec![0, 1, 2], vec![]),
            // No more rounds.
            ([0.0, 0.02, 0.6], 0.05, 2, vec![], vec![0, 1, 2]),
        ] {
            let found = level(slowness, noise, most).outlook(2, 0.01, &rules);
            assert_eq!(
                (found.active, found.futile),
                (active, futile),
                "{slowness:?}"
            );
            assert!(found.beaten.is_empty());
        }
        // A third round is worth it where there is no noise: two name no difference.
        let resolved = level([0.0, 0.02, 0.6], 1e-5, 4).outlook(2, 0.01, &rules);
        assert_eq!((resolved.wanted, resolved.active.len()), (3, 3));
        assert!(resolved.futile.is_empty());
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
