//! Confidence intervals over rounds.
//!
//! One round is one independent observation: within a pass, payload times depend on each other.
//! Throughputs are compared as logarithms, so that "twice as fast" and "half as fast" are equally
//! far from equal, and Student's t accounts for the few rounds there are.
//!
//! Invariant: fewer than two rounds give no interval.

use crate::throughput::Throughput;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Confidence level of every interval of this crate.
pub const CONFIDENCE: f64 = 0.95;

/// A value with its interval, where there are enough rounds for one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The point estimate.
    pub value: f64,
    /// Lower and upper end at [`CONFIDENCE`]; `None` with fewer than two rounds.
    pub interval: Option<(f64, f64)>,
}

/// Throughput of a cell in gigagas per second: the ratio of sums over all rounds, with a t
/// interval on the logarithms of the single rounds. `None` when no round took any time.
pub fn throughput_of_rounds(rounds: &[Throughput]) -> Option<Estimate> {
    let value = rounds
        .iter()
        .copied()
        .sum::<Throughput>()
        .ggas_per_second()?;
    let logs: Option<Vec<f64>> = rounds
        .iter()
        .map(|round| round.ggas_per_second().map(f64::ln))
        .collect();
    Some(around(value, &logs?))
}

/// The value with the half width that the spread of the logarithms gives it.
fn around(value: f64, logs: &[f64]) -> Estimate {
    let interval = half_width(logs).map(|half| (value * (-half).exp(), value * half.exp()));
    Estimate { value, interval }
}

/// Half the t interval of the mean of `values`; `None` with fewer than two.
fn half_width(values: &[f64]) -> Option<f64> {
    let deviation = standard_deviation(values)?;
    let n = values.len() as f64;
    Some(t_quantile((1.0 + CONFIDENCE) / 2.0, n - 1.0)? * deviation / n.sqrt())
}

/// The value that Student's t stays under with a probability; `None` without degrees of freedom.
pub fn t_quantile(probability: f64, freedom: f64) -> Option<f64> {
    let t = StudentsT::new(0.0, 1.0, freedom).ok()?;
    Some(t.inverse_cdf(probability))
}

/// The arithmetic mean; not a number for no values.
pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The sample standard deviation (n - 1); `None` with fewer than two values.
pub(crate) fn standard_deviation(values: &[f64]) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((squares / (values.len() - 1) as f64).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rounds(ggas: &[f64]) -> Vec<Throughput> {
        ggas.iter()
            .map(|ggas| Throughput::new((ggas * 1e12) as u64, 1_000_000_000_000))
            .collect()
    }

    #[test]
    fn matches_tabulated_t() {
        // t(0.975, 2) = 4.302653, from any table of Student's distribution.
        let logs = [-0.01, 0.0, 0.01];
        let half = half_width(&logs).unwrap();
        assert!(
            (half - 4.302653 * 0.01 / 3f64.sqrt()).abs() < 1e-6,
            "{half}"
        );
    }

    #[test]
    fn one_round_invents_no_interval() {
        let estimate = throughput_of_rounds(&rounds(&[1.25])).unwrap();
        assert_eq!(
            estimate,
            Estimate {
                value: 1.25,
                interval: None
            }
        );
        assert_eq!(throughput_of_rounds(&[]), None);
    }

    proptest! {
        #[test]
        fn interval_holds_its_value(ggas in prop::collection::vec(0.01f64..10.0, 2..20)) {
            let estimate = throughput_of_rounds(&rounds(&ggas)).unwrap();
            let (low, high) = estimate.interval.unwrap();
            prop_assert!(low <= estimate.value && estimate.value <= high);
        }
    }
}
