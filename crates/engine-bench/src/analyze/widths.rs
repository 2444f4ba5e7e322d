//! What every round bought: how wide the intervals of a gas level were after it.
//!
//! Invariant: the same intervals as the report would have given at that moment.

use super::{compare::rules, outcome::Outcome};
use crate::plan::{Cell, Load};
use bench_stats::{Layout, compare_all};
use serde::Serialize;

/// The intervals of a gas level, round by round.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Widths {
    /// The level.
    #[serde(flatten)]
    pub load: Load,
    /// From the first round that gives an interval on.
    pub rounds: Vec<Width>,
}

/// The intervals of a gas level after a round.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Width {
    /// The round.
    pub round: u64,
    /// Half the width of the widest interval between cells of that round, relative.
    pub half: f64,
}

/// The widths of every level that has an interval.
pub fn widths(outcome: &Outcome) -> Vec<Widths> {
    let of_level = |load: Load| {
        let compared = outcome.cells(&load).count();
        let cells: Vec<&Cell> = outcome.visited(&load).collect();
        let made = cells.iter().flat_map(|cell| outcome.rounds(&cell.id));
        let last = made.map(|(round, _)| round).max().unwrap_or(0);
        let rounds = (2..=last).filter_map(|round| after(outcome, &cells, compared, round));
        let rounds: Vec<Width> = rounds.collect();
        (!rounds.is_empty()).then_some(Widths { load, rounds })
    };
    let loads = outcome.plan.loads();
    loads.into_iter().filter_map(of_level).collect()
}

/// The widest interval between the first `compared` cells after a round, as far as they were visited in it.
fn after(outcome: &Outcome, cells: &[&Cell], compared: usize, round: u64) -> Option<Width> {
    let until = |cell: &&Cell| {
        let rounds = outcome.throughputs(&cell.id);
        rounds.filter(move |(made, _)| *made <= round)
    };
    let layout = Layout::new(cells.iter().map(until));
    let found = compare_all(&layout, compared, &rules(outcome, None));
    let visited = |cell: usize| layout.rounds(cell).contains_key(&round);
    let pairs = found
        .pairs
        .iter()
        .filter(|pair| visited(pair.a) && visited(pair.b));
    let halves = pairs.filter_map(|pair| {
        let (low, high) = pair.ratio.interval?;
        Some((high / low).sqrt() - 1.0)
    });
    let half = halves.reduce(f64::max)?;
    Some(Width { round, half })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        analyze::{compare, made_up::results, summarize},
        record::sample::tests::sample,
    };

    #[test]
    fn intervals_narrow_and_end_as_the_report_gives_them() {
        let mut outcome = results();
        outcome.passes.clear();
        let load = &outcome.plan.loads()[0];
        let cells: Vec<Cell> = outcome.cells(load).cloned().collect();
        for (number, cell) in (0u64..).zip(cells) {
            let noise = |round: u64| 7_919 * (31 * round + number) % 997;
            let pass = |round| vec![sample(1, 1_000_000, 1_000_000 + 20 * noise(round), 0)];
            let rounds = (1..=5).map(|round| (round, pass(round)));
            outcome.passes.insert(cell.id, rounds.collect());
        }
        let found = widths(&outcome);
        assert_eq!(found.len(), 1);
        let rounds: Vec<u64> = found[0].rounds.iter().map(|width| width.round).collect();
        assert_eq!(rounds, [2, 3, 4, 5]);
        let last = found[0].rounds[3].half;
        assert!(found[0].rounds[0].half > last);
        let pairs = compare(&outcome, &summarize(&outcome)).pairs;
        let halves = pairs.iter().filter_map(|pair| {
            let (low, high) = pair.ratio.ends()?;
            Some((high / low).sqrt() - 1.0)
        });
        assert!((halves.fold(0.0, f64::max) - last).abs() < 1e-12);
    }
}
