//! Gas per second as a ratio of sums.
//!
//! Invariant: the value of several passes is Σ gas / Σ time over all of them, never a mean of the
//! passes' ratios: a slow block weighs as much as the time it took.

/// Gas done and the time it took. Adds up over payloads and over passes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Throughput {
    /// Gas used.
    pub gas: u64,
    /// Time taken, in nanoseconds.
    pub time_ns: u64,
}

impl Throughput {
    /// One payload or one pass.
    pub fn new(gas: u64, time_ns: u64) -> Self {
        Self { gas, time_ns }
    }

    /// Gigagas per second, which is gas per nanosecond; `None` when no time passed.
    pub fn ggas_per_second(self) -> Option<f64> {
        (self.time_ns > 0).then(|| self.gas as f64 / self.time_ns as f64)
    }
}

impl std::iter::Sum for Throughput {
    fn sum<I: Iterator<Item = Self>>(parts: I) -> Self {
        parts.fold(Self::default(), |sum, part| {
            Self::new(sum.gas + part.gas, sum.time_ns + part.time_ns)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn is_a_ratio_of_sums() {
        let sum: Throughput = [Throughput::new(30, 10), Throughput::new(10, 30)]
            .into_iter()
            .sum();
        assert_eq!(
            sum.ggas_per_second(),
            Some(1.0),
            "the mean of ratios would be 1.67"
        );
        assert_eq!(Throughput::new(1, 0).ggas_per_second(), None);
    }

    proptest! {
        #[test]
        fn lies_between_the_slowest_and_the_fastest_part(
            parts in prop::collection::vec((1u64..1 << 30, 1u64..1 << 30), 1..50)
        ) {
            let parts: Vec<_> = parts.into_iter().map(|(g, t)| Throughput::new(g, t)).collect();
            let each = || parts.iter().filter_map(|part| part.ggas_per_second());
            let (low, high) = (each().fold(f64::MAX, f64::min), each().fold(0.0, f64::max));
            let whole = parts.iter().copied().sum::<Throughput>().ggas_per_second().unwrap();
            prop_assert!(low * (1.0 - 1e-12) <= whole && whole <= high * (1.0 + 1e-12));
        }
    }
}
