//! Cells by rounds: what is left of the noise once rounds are compared with themselves.
//!
//! A round is a block in the sense of a randomized complete block design: whatever slows a whole
//! round (another process, a warmer room) slows all its cells and cancels out of their
//! differences. What does not cancel is estimated from all cells of a level together, because the
//! few rounds of a single pair say little about it.
//!
//! Invariant: works on logarithms of throughput; a cell missing in a round, because its visit
//! failed or it left, takes nothing from the others.

use crate::{fit::Fit, throughput::Throughput};
use statrs::distribution::{ContinuousCDF as _, FisherSnedecor};
use std::collections::BTreeMap;

/// Logarithms of the throughputs of the cells of one level, by round.
#[derive(Debug, Clone, PartialEq)]
pub struct Layout {
    cells: Vec<BTreeMap<u64, f64>>,
}

/// Noise of one visit around what its cell and its round explain, as a standard deviation of the
/// logarithm of throughput: 0.01 is 1 %.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The standard deviation.
    pub deviation: f64,
    /// Degrees of freedom it was estimated with, at least 1.
    pub freedom: f64,
}

impl Layout {
    /// From the throughput of every visit: per cell, rounds with their throughput. Visits that
    /// took no time or did no work are left out.
    pub fn new<C, R>(cells: C) -> Self
    where
        C: IntoIterator<Item = R>,
        R: IntoIterator<Item = (u64, Throughput)>,
    {
        let logs = |rounds: R| {
            let logs = rounds.into_iter().filter_map(|(round, throughput)| {
                let log = throughput.ggas_per_second()?.ln();
                log.is_finite().then_some((round, log))
            });
            logs.collect()
        };
        Self {
            cells: cells.into_iter().map(logs).collect(),
        }
    }

    /// Number of cells.
    pub fn cells(&self) -> usize {
        self.cells.len()
    }

    /// Logarithms of one cell, by round.
    pub fn rounds(&self, cell: usize) -> &BTreeMap<u64, f64> {
        &self.cells[cell]
    }

    /// How much higher the logarithm of `a` was than that of `b`, in each round that has both.
    pub fn differences(&self, a: usize, b: usize) -> Vec<f64> {
        let (a, b) = (&self.cells[a], &self.cells[b]);
        a.iter()
            .filter_map(|(round, log)| Some(log - b.get(round)?))
            .collect()
    }

    /// The spread of visits of some cells around what their cells and rounds explain, by least
    /// squares. `None` when nothing is left to estimate it from.
    pub fn spread(&self, cells: &[usize]) -> Option<Spread> {
        Fit::of(self, cells).spread()
    }

    /// The mean square of the differences that the cells would show if all were identical, on the
    /// logarithmic scale: over pairs, twice the variance of a visit over the rounds they share. `None`
    /// without a spread, or a pair that shares two rounds.
    pub fn chance_square(&self) -> Option<f64> {
        let all: Vec<usize> = (0..self.cells()).collect();
        let variance = self.spread(&all)?.deviation.powi(2);
        let pairs = all
            .iter()
            .flat_map(|a| all[a + 1..].iter().map(move |b| (*a, *b)));
        let squares: Vec<f64> = pairs
            .map(|(a, b)| self.differences(a, b).len())
            .filter(|shared| *shared > 1)
            .map(|shared| 2.0 * variance / shared as f64)
            .collect();
        (!squares.is_empty()).then(|| crate::interval::mean(&squares))
    }

    /// Cells that vary more from round to round than the others of the level do, so that a common
    /// spread would flatter them: by an F test of what is left of the cell once the others explain its
    /// rounds, which calls a cell as steady as the others unsteady with the chance `error`.
    pub fn unsteady(&self, error: f64) -> Vec<usize> {
        let all: Vec<usize> = (0..self.cells()).collect();
        all.iter()
            .copied()
            .filter(|cell| {
                self.excess(*cell, &all)
                    .is_some_and(|chance| chance < error)
            })
            .collect()
    }

    /// Chance of a cell varying as much as this one when it is as steady as the others.
    fn excess(&self, cell: usize, all: &[usize]) -> Option<f64> {
        let others: Vec<usize> = all.iter().copied().filter(|other| *other != cell).collect();
        if others.len() < 2 {
            return None;
        }
        let fit = Fit::of(self, &others);
        let common = fit.spread()?;
        let (mut differences, mut per_mean) = (Vec::new(), 0.0);
        for (round, log) in &self.cells[cell] {
            if let Some(of_round) = fit.round(*round) {
                let has_round = |other: &&usize| self.cells[**other].contains_key(round);
                differences.push(log - of_round);
                per_mean += 1.0 / others.iter().filter(has_round).count() as f64;
            }
        }
        let own = crate::interval::standard_deviation(&differences)?.powi(2);
        let expected = common.deviation.powi(2) * (1.0 + per_mean / differences.len() as f64);
        if expected <= 0.0 {
            return Some(f64::from(u8::from(own <= 0.0)));
        }
        let f = FisherSnedecor::new((differences.len() - 1) as f64, common.freedom).ok()?;
        Some(f.sf(own / expected))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A layout of logarithms; `None` is a missing visit.
    fn layout(rows: &[&[Option<f64>]]) -> Layout {
        let row = |row: &&[Option<f64>]| {
            let logs = row.iter().enumerate();
            logs.filter_map(|(round, log)| Some((round as u64, (*log)?)))
                .collect()
        };
        Layout {
            cells: rows.iter().map(row).collect(),
        }
    }

    fn full(rows: &[Vec<f64>]) -> Layout {
        let rows: Vec<Vec<Option<f64>>> = rows
            .iter()
            .map(|row| row.iter().copied().map(Some).collect())
            .collect();
        layout(&rows.iter().map(Vec::as_slice).collect::<Vec<_>>())
    }

    #[test]
    fn two_cells_spread_as_their_differences_do() {
        // For two cells the residual variance is half the variance of the paired differences.
        let layout = full(&[vec![0.1, 0.5, -0.2, 0.0], vec![0.2, 0.3, 0.1, 0.3]]);
        let paired = crate::interval::standard_deviation(&layout.differences(0, 1)).unwrap();
        let spread = layout.spread(&[0, 1]).unwrap();
        assert!((spread.deviation - paired / 2f64.sqrt()).abs() < 1e-12);
        assert_eq!(spread.freedom, 3.0);
    }

    #[test]
    fn missing_visits_cost_their_degree_of_freedom() {
        let some = Some;
        for (rows, expected) in [
            (vec![vec![some(1.0), some(2.0)]], None),
            (
                vec![vec![some(1.0), some(2.0)], vec![some(1.0), None]],
                None,
            ),
            (
                vec![vec![some(1.0), some(2.0)], vec![some(1.0), some(4.0)]],
                Some(1.0),
            ),
            // Two parts that share nothing: one degree of freedom each.
            (
                vec![
                    vec![some(1.0), some(2.0), None, None],
                    vec![some(1.0), some(3.0), None, None],
                    vec![None, None, some(1.0), some(5.0)],
                    vec![None, None, some(1.0), some(2.0)],
                ],
                Some(2.0),
            ),
            // A round with one cell tells nothing about noise.
            (
                vec![
                    vec![some(1.0), some(2.0), some(9.0)],
                    vec![some(1.0), some(2.5), None],
                ],
                Some(1.0),
            ),
        ] {
            let rows: Vec<&[Option<f64>]> = rows.iter().map(Vec::as_slice).collect();
            let all: Vec<usize> = (0..rows.len()).collect();
            let found = layout(&rows).spread(&all).map(|spread| spread.freedom);
            assert_eq!(found, expected, "{rows:?}");
        }
    }

    #[test]
    fn a_noisy_cell_is_called_unsteady() {
        let quiet = |shift: f64| -> Vec<f64> {
            let steps = [0.01, -0.01, 0.005, 0.0, -0.005, 0.01];
            steps
                .iter()
                .enumerate()
                .map(|(i, s)| s * (shift + i as f64).sin())
                .collect()
        };
        let noisy = vec![0.2, -0.2, 0.1, 0.3, -0.3, 0.0];
        let layout = full(&[quiet(0.0), quiet(1.0), noisy, quiet(2.0)]);
        assert_eq!(layout.unsteady(0.01), [2]);
    }

    #[test]
    fn a_cell_that_leaves_makes_no_other_unsteady() {
        // The first two are far behind and leave after three rounds: the mean of the others moves.
        let mut random = crate::SplitMix::new(1);
        let rows = [(-0.4, 3), (-0.4, 3), (0.0, 12), (0.0, 12), (0.0, 12)].map(|(base, rounds)| {
            let visit = |_| base + 0.01 * random.normal();
            (0..rounds).map(visit).collect::<Vec<f64>>()
        });
        assert_eq!(full(&rows).unsteady(0.01), [0usize; 0]);
    }

    proptest! {
        #[test]
        fn neither_rounds_nor_cells_change_the_spread(
            logs in prop::collection::vec(prop::collection::vec(-1.0f64..1.0, 4), 3),
            rounds in prop::collection::vec(-5.0f64..5.0, 4),
            cells in prop::collection::vec(-5.0f64..5.0, 3),
        ) {
            let shifted: Vec<Vec<f64>> = logs
                .iter()
                .zip(&cells)
                .map(|(row, cell)| row.iter().zip(&rounds).map(|(x, r)| x + r + cell).collect())
                .collect();
            let before = full(&logs).spread(&[0, 1, 2]).unwrap();
            let after = full(&shifted).spread(&[0, 1, 2]).unwrap();
            prop_assert!((before.deviation - after.deviation).abs() < 1e-9);
            prop_assert_eq!(before.freedom, after.freedom);
        }
    }
}
