//! Cells and rounds apart, by least squares: how fast each cell is in an average round.
//!
//! A visit is taken for the sum of what its cell, its round and chance add to the logarithm of
//! throughput. Where every round has every cell, the difference of two cells is the mean of their
//! differences by round. Where a cell left early or missed a round, the rounds that it did see are
//! set against those of the others, so that it neither gains nor loses by which rounds these were.
//!
//! Invariant: a difference of cells that no chain of shared rounds joins is never given.

use crate::{
    interval::mean,
    layout::{Layout, Spread},
};
use std::collections::{BTreeMap, BTreeSet};

/// Least squares over some cells of a layout.
#[derive(Debug, Clone)]
pub struct Fit {
    /// Place of each cell of the layout among the fitted ones; `None` when it was not fitted or has no
    /// visits.
    places: Vec<Option<usize>>,
    /// Fitted cells: logarithm of throughput in an average round of their part.
    effects: Vec<f64>,
    /// Fitted cells that a chain of shared rounds joins have the same part.
    parts: Vec<usize>,
    /// What each round adds to the effects of its cells.
    rounds: BTreeMap<u64, f64>,
    /// Cholesky factor of the normal equations of the cells, rounds eliminated.
    factor: Vec<Vec<f64>>,
    spread: Option<Spread>,
}

impl Fit {
    /// Of the cells with these indices.
    pub fn of(layout: &Layout, cells: &[usize]) -> Self {
        let visited = cells.iter().copied();
        let visited: Vec<usize> = visited
            .filter(|cell| !layout.rounds(*cell).is_empty())
            .collect();
        let mut places = vec![None; layout.cells()];
        let mut rounds: BTreeMap<u64, Vec<(usize, f64)>> = BTreeMap::new();
        for (place, cell) in visited.iter().enumerate() {
            places[*cell] = Some(place);
            for (round, log) in layout.rounds(*cell) {
                rounds.entry(*round).or_default().push((place, *log));
            }
        }
        let parts = parts(visited.len(), &rounds);
        let (factor, right) = equations(&parts, &rounds);
        let mut effects = backward(&factor, forward(&factor, right));
        let left = |(place, log): &(usize, f64)| log - effects[*place];
        let of_round =
            |visits: &Vec<(usize, f64)>| visits.iter().map(left).sum::<f64>() / visits.len() as f64;
        let mut of_rounds: BTreeMap<u64, f64> = rounds
            .iter()
            .map(|(round, visits)| (*round, of_round(visits)))
            .collect();
        let residuals = rounds.iter().flat_map(|(round, visits)| {
            let round = of_rounds[round];
            visits.iter().map(move |visit| left(visit) - round)
        });
        let squares: f64 = residuals.map(|residual| residual * residual).sum();
        let spread = spread(&rounds, &parts, squares);
        average_round(&rounds, &parts, &mut of_rounds, &mut effects);
        Self {
            places,
            effects,
            parts,
            rounds: of_rounds,
            factor,
            spread,
        }
    }

    /// The spread of visits around what cells and rounds explain; `None` when nothing is left to
    /// estimate it from.
    pub fn spread(&self) -> Option<Spread> {
        self.spread
    }

    /// Logarithm of a cell's throughput in an average round of those joined with it; `None` when it
    /// was not fitted.
    pub fn effect(&self, cell: usize) -> Option<f64> {
        Some(self.effects[self.places[cell]?])
    }

    /// The same of a cell that was left out of the fit, from the rounds it shares with those that
    /// were in it, or from its own where it shares none; `None` without visits.
    pub fn effect_beside(&self, layout: &Layout, cell: usize) -> Option<f64> {
        let logs = layout.rounds(cell);
        let shared = logs
            .iter()
            .filter_map(|(round, log)| Some(log - self.round(*round)?));
        let shared: Vec<f64> = shared.collect();
        let own = || logs.values().copied().collect();
        let over = if shared.is_empty() { own() } else { shared };
        (!over.is_empty()).then(|| mean(&over))
    }

    /// What a round adds to the logarithms of its visits; `None` when no fitted cell has it.
    pub fn round(&self, round: u64) -> Option<f64> {
        self.rounds.get(&round).copied()
    }

    /// Variance of the difference of two fitted cells, in units of the variance of a visit: 2/n for
    /// n rounds that all have both. `None` when no chain of shared rounds joins them.
    pub fn variance(&self, a: usize, b: usize) -> Option<f64> {
        let (a, b) = (self.places[a]?, self.places[b]?);
        if self.parts[a] != self.parts[b] {
            return None;
        }
        let mut difference = vec![0.0; self.effects.len()];
        (difference[a], difference[b]) = (1.0, -1.0);
        let whitened = forward(&self.factor, difference);
        Some(whitened.iter().map(|x| x * x).sum())
    }
}

/// The part of each cell: the first cell that a chain of shared rounds joins it with.
fn parts(cells: usize, rounds: &BTreeMap<u64, Vec<(usize, f64)>>) -> Vec<usize> {
    let mut parts: Vec<usize> = (0..cells).collect();
    for visits in rounds.values() {
        let joined: BTreeSet<usize> = visits.iter().map(|(place, _)| parts[*place]).collect();
        let into = joined.first().copied().unwrap_or_default();
        for part in parts.iter_mut().filter(|part| joined.contains(part)) {
            *part = into;
        }
    }
    parts
}

/// The factored normal equations of the cells with rounds eliminated, and their right side. Effects of
/// a part are made to add up to zero, which its differences do not depend on.
fn equations(
    parts: &[usize],
    rounds: &BTreeMap<u64, Vec<(usize, f64)>>,
) -> (Vec<Vec<f64>>, Vec<f64>) {
    let same_part = |a: &usize| -> Vec<f64> {
        let same = parts.iter().map(|b| f64::from(u8::from(a == b)));
        same.collect()
    };
    let mut matrix: Vec<Vec<f64>> = parts.iter().map(same_part).collect();
    let mut right = vec![0.0; parts.len()];
    for visits in rounds.values() {
        let share = 1.0 / visits.len() as f64;
        let mean = visits.iter().map(|(_, log)| log).sum::<f64>() * share;
        for (place, log) in visits {
            right[*place] += log - mean;
            matrix[*place][*place] += 1.0;
            for (other, _) in visits {
                matrix[*place][*other] -= share;
            }
        }
    }
    (cholesky(matrix), right)
}

/// Degrees of freedom are visits less cells less rounds plus parts.
fn spread(
    rounds: &BTreeMap<u64, Vec<(usize, f64)>>,
    parts: &[usize],
    squares: f64,
) -> Option<Spread> {
    let visits: usize = rounds.values().map(Vec::len).sum();
    let number = parts.iter().collect::<BTreeSet<_>>().len();
    let freedom = (visits + number).checked_sub(parts.len() + rounds.len())? as f64;
    (freedom > 0.0).then(|| Spread {
        deviation: (squares / freedom).sqrt(),
        freedom,
    })
}

/// Moves what the rounds of each part add on average to its cells.
fn average_round(
    visits: &BTreeMap<u64, Vec<(usize, f64)>>,
    parts: &[usize],
    rounds: &mut BTreeMap<u64, f64>,
    effects: &mut [f64],
) {
    let part_of = |round: &u64| parts[visits[round][0].0];
    let mut sums: BTreeMap<usize, (f64, f64)> = BTreeMap::new();
    for (round, effect) in rounds.iter() {
        let (sum, count) = sums.entry(part_of(round)).or_default();
        (*sum, *count) = (*sum + effect, *count + 1.0);
    }
    let mean = |part: usize| sums[&part].0 / sums[&part].1;
    for (round, effect) in rounds.iter_mut() {
        *effect -= mean(part_of(round));
    }
    for (effect, part) in effects.iter_mut().zip(parts) {
        *effect += mean(*part);
    }
}

/// The lower triangle whose product with its transpose is a positive definite matrix.
fn cholesky(mut matrix: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
    for row in 0..matrix.len() {
        for column in 0..=row {
            let products = (0..column).map(|k| matrix[row][k] * matrix[column][k]);
            let left = matrix[row][column] - products.sum::<f64>();
            matrix[row][column] = match row == column {
                true => left.sqrt(),
                false => left / matrix[column][column],
            };
        }
    }
    matrix
}

/// Solves the lower triangle.
fn forward(factor: &[Vec<f64>], mut right: Vec<f64>) -> Vec<f64> {
    for row in 0..right.len() {
        let known = (0..row).map(|k| factor[row][k] * right[k]);
        right[row] = (right[row] - known.sum::<f64>()) / factor[row][row];
    }
    right
}

/// Solves its transpose.
fn backward(factor: &[Vec<f64>], mut right: Vec<f64>) -> Vec<f64> {
    for row in (0..right.len()).rev() {
        let known = (row + 1..right.len()).map(|k| factor[k][row] * right[k]);
        right[row] = (right[row] - known.sum::<f64>()) / factor[row][row];
    }
    right
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SplitMix, Throughput};
    use proptest::prelude::*;

    /// Cells by the rounds they have, with their logarithms.
    fn layout(cells: &[Vec<(u64, f64)>]) -> Layout {
        let visit = |(round, log): &(u64, f64)| {
            let time_ns = (1e15 * (-log).exp()) as u64;
            (*round, Throughput::new(1_000_000_000_000_000, time_ns))
        };
        Layout::new(cells.iter().map(|visits| visits.iter().map(visit)))
    }

    fn all(layout: &Layout) -> Fit {
        Fit::of(layout, &(0..layout.cells()).collect::<Vec<_>>())
    }

    /// Three cells of which the first leaves after the second of four rounds.
    fn early_leaver() -> Layout {
        layout(&[
            vec![(1, 0.5), (2, 0.7)],
            vec![(1, 0.1), (2, 0.4), (3, 0.2), (4, 0.5)],
            vec![(1, 0.3), (2, 0.1), (3, 0.6), (4, 0.3)],
        ])
    }

    #[test]
    fn matches_a_layout_solved_by_hand() {
        let fit = all(&early_leaver());
        let effect = |cell| fit.effect(cell).unwrap();
        // Two of the cells have all rounds: their difference is the mean of those by round, and their
        // mean is what it is in the average round.
        assert!((effect(1) - effect(2) - (0.3 - 0.325)).abs() < 1e-9);
        assert!((effect(1) + effect(2) - (0.3 + 0.325)).abs() < 1e-9);
        // The one that left is as far above their mean as it was in its two rounds.
        let above = (0.5 - (0.1 + 0.3) / 2.0 + 0.7 - (0.4 + 0.1) / 2.0) / 2.0;
        assert!((effect(0) - (effect(1) + effect(2)) / 2.0 - above).abs() < 1e-9);
        assert_eq!(fit.spread().unwrap().freedom, 10.0 - 3.0 - 4.0 + 1.0);
        // Two visits less half of two, over two rounds, and a quarter of the two cells' own variance.
        assert!((fit.variance(1, 2).unwrap() - 2.0 / 4.0).abs() < 1e-12);
        assert!((fit.variance(0, 1).unwrap() - (1.5 / 2.0 + 0.5 / 4.0)).abs() < 1e-12);
    }

    #[test]
    fn cells_that_share_no_round_are_not_compared() {
        let layout = layout(&[
            vec![(1, 0.0), (2, 0.1)],
            vec![(1, 0.0), (2, 0.3)],
            vec![(3, 5.0), (4, 5.4)],
            vec![(3, 6.0), (4, 6.0)],
            vec![],
        ]);
        let fit = all(&layout);
        assert!(fit.variance(0, 1).is_some() && fit.variance(2, 3).is_some());
        assert_eq!((fit.variance(0, 2), fit.variance(0, 4)), (None, None));
        assert_eq!((fit.effect(4), fit.effect_beside(&layout, 4)), (None, None));
        assert!(
            (fit.effect(2).unwrap() - 5.2).abs() < 1e-9,
            "each part keeps its level"
        );
        assert_eq!(fit.spread().unwrap().freedom, 2.0);
    }

    #[test]
    fn a_cell_left_out_is_placed_by_the_rounds_of_the_others() {
        let layout = early_leaver();
        let (with, without) = (all(&layout), Fit::of(&layout, &[1, 2]));
        let beside = without.effect_beside(&layout, 0).unwrap();
        assert!((beside - with.effect(0).unwrap()).abs() < 1e-9);
        assert_eq!(without.effect(0), None);
    }

    proptest! {
        #[test]
        fn finds_what_a_layout_without_noise_is_made_of(
            cells in prop::collection::vec(-1.0f64..1.0, 2..7),
            rounds in prop::collection::vec(-2.0f64..2.0, 2..9),
            missing: u64,
        ) {
            let mut random = SplitMix::new(missing);
            // The first cell has all rounds, so that all are joined.
            let visits = |(index, cell): (usize, &f64)| -> Vec<(u64, f64)> {
                let rounds = (1..).zip(&rounds).filter(|_| index == 0 || random.unit() < 0.7);
                rounds.map(|(round, of_round)| (round, cell + of_round)).collect()
            };
            let layout = layout(&cells.iter().enumerate().map(visits).collect::<Vec<_>>());
            let fit = all(&layout);
            for (index, cell) in cells.iter().enumerate().skip(1) {
                let visited = !layout.rounds(index).is_empty();
                prop_assert_eq!(fit.variance(index, 0).is_some(), visited);
                if let Some(effect) = fit.effect(index) {
                    let found = effect - fit.effect(0).unwrap();
                    prop_assert!((found - (cell - cells[0])).abs() < 1e-9);
                }
            }
            prop_assert!(fit.spread().is_none_or(|spread| spread.deviation < 1e-9));
        }

        #[test]
        fn whole_rounds_give_the_mean_of_differences(
            logs in prop::collection::vec(prop::collection::vec(-1.0f64..1.0, 5), 2..6),
        ) {
            let cells: Vec<_> = logs.iter().map(|logs| (1..).zip(logs.iter().copied()).collect()).collect();
            let layout = layout(&cells);
            let fit = all(&layout);
            let difference = crate::interval::mean(&layout.differences(0, 1));
            prop_assert!((fit.effect(0).unwrap() - fit.effect(1).unwrap() - difference).abs() < 1e-9);
            prop_assert!((fit.variance(0, 1).unwrap() - 2.0 / 5.0).abs() < 1e-12);
        }
    }
}
