//! The noise floor: how much identical cells differ.
//!
//! A sweep visits some cells again as A/A controls under other names. Whatever makes a control differ from
//! its original (the order of visits, the layout of a file, luck) can make any two cells differ, so
//! no difference within that spread is called one.
//!
//! Invariant: without two rounds there is no noise floor; it is never assumed.

use crate::{interval, layout::Spread};

/// The relative difference between originals and their A/A controls: the root of the mean square of
/// the mean log ratio, over pairs. Each entry holds one pair's log ratios by round; pairs of one
/// round are left out.
///
/// 0.012 means that identical cells came out about 1.2 % apart. `None` when no pair has two rounds.
pub fn noise_of_controls(pairs: &[Vec<f64>]) -> Option<f64> {
    let means: Vec<f64> = pairs
        .iter()
        .filter(|rounds| rounds.len() > 1)
        .map(|rounds| interval::mean(rounds))
        .collect();
    let squares: Vec<f64> = means.iter().map(|mean| mean * mean).collect();
    (!squares.is_empty()).then(|| interval::mean(&squares).sqrt().exp_m1())
}

/// The relative difference that A/A controls would be expected to show, from the spread of visits and
/// the rounds of each level: what stands in where a sweep has no A/A control.
pub fn noise_expected(levels: &[(Spread, u64)]) -> Option<f64> {
    let squares: Vec<f64> = levels
        .iter()
        .map(|(spread, rounds)| 2.0 * spread.deviation.powi(2) / (*rounds).max(1) as f64)
        .collect();
    (!squares.is_empty()).then(|| interval::mean(&squares).sqrt().exp_m1())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_the_difference_that_identical_cells_show() {
        for (pairs, expected) in [
            (vec![], None),
            (vec![vec![0.5]], None),
            (vec![vec![0.01, -0.01]], Some(0.0)),
            (vec![vec![0.03, 0.01], vec![0.7]], Some(0.02f64.exp_m1())),
            (
                vec![vec![0.03, 0.03], vec![-0.04, -0.04]],
                Some(0.00125f64.sqrt().exp_m1()),
            ),
        ] {
            match (noise_of_controls(&pairs), expected) {
                (Some(found), Some(expected)) => {
                    assert!((found - expected).abs() < 1e-12, "{pairs:?}: {found}");
                }
                (found, expected) => assert_eq!(found, expected, "{pairs:?}"),
            }
        }
    }

    #[test]
    fn is_expected_from_the_spread_of_visits() {
        let spread = Spread {
            deviation: 0.01,
            freedom: 5.0,
        };
        let found = noise_expected(&[(spread, 8)]).unwrap();
        assert!((found - 0.005f64.exp_m1()).abs() < 1e-12);
        assert_eq!(noise_expected(&[]), None);
    }
}
