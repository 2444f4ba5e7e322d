//! Two sweeps against each other: rounds that were not measured side by side.
//!
//! Nothing pairs a round of one sweep with a round of another, so what both machines did that day
//! is in the difference. Each sweep has its own variance (Welch), and Holm's step-down keeps the
//! chance of any false alarm over many cells at the stated one.
//!
//! Invariant: fewer than two rounds on either side give no interval, and fewer than [`FEWEST_ROUNDS`] name
//! no difference.

use crate::{
    interval::{Estimate, mean, standard_deviation, t_quantile},
    pairs::FEWEST_ROUNDS,
    throughput::Throughput,
};
use statrs::distribution::{ContinuousCDF as _, StudentsT};

/// A ratio of independent rounds with the chance of one as far from the margin.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Separate {
    /// Throughput of `a` over that of `b`: ratio of geometric means over rounds, with an interval
    /// that is missed with the stated chance.
    pub ratio: Estimate,
    /// Two-sided chance of a ratio as far from one when the cells are equal; `None` with too few rounds on
    /// either side to say that they differ.
    pub p_value: Option<f64>,
}

/// Compares rounds of two sweeps; `None` when either has none that took time.
pub fn compare_separate(a: &[Throughput], b: &[Throughput], error: f64) -> Option<Separate> {
    let logs = |rounds: &[Throughput]| -> Option<Vec<f64>> {
        let logs = rounds
            .iter()
            .map(|round| round.ggas_per_second().map(f64::ln));
        logs.collect()
    };
    let (a, b) = (logs(a)?, logs(b)?);
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let difference = mean(&a) - mean(&b);
    let ratio = |interval| Estimate {
        value: difference.exp(),
        interval,
    };
    let Some((deviation, freedom)) = welch(&a, &b) else {
        return Some(Separate {
            ratio: ratio(None),
            p_value: None,
        });
    };
    let half = t_quantile(1.0 - error / 2.0, freedom)? * deviation;
    let chance = if deviation > 0.0 {
        let t = StudentsT::new(0.0, 1.0, freedom).ok()?;
        2.0 * t.sf(difference.abs() / deviation)
    } else {
        f64::from(u8::from(difference == 0.0))
    };
    let enough = a.len().min(b.len()) >= FEWEST_ROUNDS;
    let interval = ((difference - half).exp(), (difference + half).exp());
    Some(Separate {
        ratio: ratio(Some(interval)),
        p_value: enough.then_some(chance),
    })
}

/// Standard error of the difference of two means and its degrees of freedom (Welch and
/// Satterthwaite).
fn welch(a: &[f64], b: &[f64]) -> Option<(f64, f64)> {
    let part = |values: &[f64]| {
        let n = values.len() as f64;
        Some((standard_deviation(values)?.powi(2) / n, n - 1.0))
    };
    let ((a, a_freedom), (b, b_freedom)) = (part(a)?, part(b)?);
    let freedom = (a + b).powi(2) / (a * a / a_freedom + b * b / b_freedom);
    let freedom = if freedom.is_finite() {
        freedom
    } else {
        a_freedom + b_freedom
    };
    Some(((a + b).sqrt(), freedom))
}

/// P-values adjusted for their number (Holm, "A Simple Sequentially Rejective Multiple Test
/// Procedure", 1979): reject those at most the accepted chance of any false alarm. The order of
/// the result is that of the input.
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|a, b| p_values[*a].total_cmp(&p_values[*b]));
    let (mut adjusted, mut largest) = (vec![0.0; p_values.len()], 0.0f64);
    for (rank, index) in order.iter().enumerate() {
        largest = largest.max((p_values.len() - rank) as f64 * p_values[*index]);
        adjusted[*index] = largest.min(1.0);
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rounds(logs: &[f64]) -> Vec<Throughput> {
        let time = |log: &f64| (1e15 * (-log).exp()) as u64;
        logs.iter()
            .map(|log| Throughput::new(1_000_000_000_000_000, time(log)))
            .collect()
    }

    #[test]
    fn matches_a_worked_example() {
        // Standard errors by hand: variances 1 and 4 (times 1e-4), 3 and 4 values.
        let (a, b) = ([0.01, 0.02, 0.03], [0.03, 0.05, 0.05, 0.07]);
        let found = compare_separate(&rounds(&a), &rounds(&b), 0.05).unwrap();
        let (va, vb) = (1e-4_f64 / 3.0, (8e-4_f64 / 3.0) / 4.0);
        let (se, difference) = ((va + vb).sqrt(), 0.02 - 0.05);
        let freedom = (va + vb).powi(2) / (va * va / 2.0 + vb * vb / 3.0);
        assert!((found.ratio.value.ln() - difference).abs() < 1e-9);
        let half = t_quantile(0.975, freedom).unwrap() * se;
        let (low, high) = found.ratio.interval.unwrap();
        assert!(
            (low.ln() - difference + half).abs() < 1e-9
                && (high.ln() - difference - half).abs() < 1e-9
        );
        // The interval touches 1 exactly at the confidence that the p-value names.
        let p = found.p_value.unwrap();
        let edge = compare_separate(&rounds(&a), &rounds(&b), p).unwrap();
        assert!((edge.ratio.interval.unwrap().1 - 1.0).abs() < 1e-9);
    }

    #[test]
    fn few_rounds_say_little() {
        let found = compare_separate(&rounds(&[0.0]), &rounds(&[0.1, 0.2]), 0.05).unwrap();
        assert_eq!((found.ratio.interval, found.p_value), (None, None));
        for (b, named) in [(&[0.2, 0.21][..], false), (&[0.2, 0.21, 0.19], true)] {
            let a = [0.0, 0.01, -0.01];
            let found = compare_separate(&rounds(&a), &rounds(b), 0.05).unwrap();
            assert!(found.ratio.interval.is_some());
            assert_eq!(found.p_value.is_some(), named);
        }
        assert_eq!(
            compare_separate(&[], &rounds(&[0.1]), 0.05).map(|_| ()),
            None
        );
    }

    #[test]
    fn steps_down() {
        // Holm's own rule: 0.01·4, then the larger of that and 0.02·3, and so on.
        let adjusted = holm(&[0.04, 0.01, 0.03, 0.02]);
        for (found, expected) in adjusted.iter().zip([0.06, 0.04, 0.06, 0.06]) {
            assert!((found - expected).abs() < 1e-12, "{adjusted:?}");
        }
    }

    proptest! {
        #[test]
        fn adjusting_keeps_order_and_never_helps(p in prop::collection::vec(0.0f64..1.0, 1..12)) {
            let adjusted = holm(&p);
            for (i, one) in p.iter().enumerate() {
                prop_assert!(adjusted[i] >= *one && adjusted[i] <= 1.0);
                prop_assert!(adjusted[i] <= (one * p.len() as f64).min(1.0).max(
                    adjusted.iter().copied().fold(0.0, f64::max)));
                for (j, other) in p.iter().enumerate() {
                    prop_assert!(one > other || adjusted[i] <= adjusted[j]);
                }
            }
        }

        #[test]
        fn swapping_inverts(a in prop::collection::vec(-1.0f64..1.0, 3..6), b in prop::collection::vec(-1.0f64..1.0, 3..6)) {
            let forth = compare_separate(&rounds(&a), &rounds(&b), 0.05).unwrap();
            let back = compare_separate(&rounds(&b), &rounds(&a), 0.05).unwrap();
            prop_assert!((forth.ratio.value * back.ratio.value - 1.0).abs() < 1e-9);
            prop_assert!((forth.p_value.unwrap() - back.p_value.unwrap()).abs() < 1e-9);
        }
    }
}
