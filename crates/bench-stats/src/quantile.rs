//! Quantiles of latencies, by linear interpolation between order statistics.
//!
//! Invariant: a quantile lies between the smallest and the largest value and never decreases with
//! its probability.

/// The quantile `probability` (0 to 1) of ascending values, interpolated linearly between the two
/// nearest order statistics (type 7 of Hyndman and Fan, "Sample Quantiles in Statistical
/// Packages", 1996). `None` for no values.
pub fn quantile_sorted(ascending: &[u64], probability: f64) -> Option<f64> {
    at(ascending.len(), probability, |index| {
        ascending[index] as f64
    })
}

/// The same of ascending real numbers.
pub(crate) fn interpolate(ascending: &[f64], probability: f64) -> Option<f64> {
    at(ascending.len(), probability, |index| ascending[index])
}

fn at(values: usize, probability: f64, value: impl Fn(usize) -> f64) -> Option<f64> {
    let last = values.checked_sub(1)?;
    let position = probability.clamp(0.0, 1.0) * last as f64;
    let below = position.floor() as usize;
    let (low, high) = (value(below), value((below + 1).min(last)));
    // Clamped because rounding could leave the bracket when `low == high`.
    Some((low + (high - low) * (position - below as f64)).clamp(low, high))
}

/// Latency quantiles, in the unit of the values they were made from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Latencies {
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Largest value.
    pub max: f64,
}

impl Latencies {
    /// Quantiles of latencies in any order; `None` when there are none.
    pub fn of(mut latencies: Vec<u64>) -> Option<Self> {
        latencies.sort_unstable();
        let at = |probability| quantile_sorted(&latencies, probability);
        Some(Self {
            p50: at(0.5)?,
            p90: at(0.9)?,
            p99: at(0.99)?,
            max: at(1.0)?,
        })
    }

    /// The same quantiles in another unit, `factor` of the present ones each.
    pub fn scaled(self, factor: f64) -> Self {
        Self {
            p50: self.p50 * factor,
            p90: self.p90 * factor,
            p99: self.p99 * factor,
            max: self.max * factor,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn interpolates_between_order_statistics() {
        for (values, probability, expected) in [
            (vec![7], 0.99, 7.0),
            (vec![1, 2], 0.5, 1.5),
            (vec![1, 2, 3, 4, 5], 0.5, 3.0),
            (vec![10, 20, 30, 40, 50], 0.9, 46.0),
            (vec![10, 20, 30, 40, 50], 1.0, 50.0),
        ] {
            assert_eq!(
                quantile_sorted(&values, probability),
                Some(expected),
                "{values:?}"
            );
        }
        assert_eq!(quantile_sorted(&[], 0.5), None);
        assert_eq!(Latencies::of(vec![]), None);
    }

    proptest! {
        #[test]
        fn quantiles_are_ordered_and_inside(values in prop::collection::vec(0u64..1 << 50, 1..200)) {
            let (min, max) = (*values.iter().min().unwrap(), *values.iter().max().unwrap());
            let q = Latencies::of(values).unwrap();
            prop_assert!(min as f64 <= q.p50 && q.p50 <= q.p90 && q.p90 <= q.p99 && q.p99 <= q.max);
            prop_assert_eq!(q.max, max as f64);
        }

        #[test]
        fn order_of_values_does_not_matter(mut values in prop::collection::vec(0u64..1000, 1..50)) {
            let before = Latencies::of(values.clone());
            values.reverse();
            prop_assert_eq!(before, Latencies::of(values));
        }
    }
}
