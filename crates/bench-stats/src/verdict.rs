//! When a difference between two cells is called real.
//!
//! Invariant: no interval or no noise floor, no verdict.

use crate::interval::Estimate;

/// What a comparison of cell `a` with cell `b` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// `a` has the higher throughput, by more than the noise.
    Faster,
    /// `a` has the lower throughput, by more than the noise.
    Slower,
    /// The rounds do not tell the cells apart.
    NoDifference,
}

/// Judges the throughput ratio `a / b` against the relative noise floor: the whole interval must
/// lie outside `1 ± noise` for a difference to be called one. `None` when the ratio carries no
/// interval (one round) or the noise is unknown.
pub fn verdict(ratio: Estimate, noise: Option<f64>) -> Option<Verdict> {
    let (low, high) = ratio.interval?;
    let noise = noise?;
    Some(if low > 1.0 + noise {
        Verdict::Faster
    } else if high < 1.0 - noise {
        Verdict::Slower
    } else {
        Verdict::NoDifference
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn demands_an_interval_clear_of_the_noise() {
        for (interval, noise, expected) in [
            (None, Some(0.01), None),
            (Some((1.1, 1.2)), None, None),
            (Some((1.1, 1.2)), Some(0.01), Some(Verdict::Faster)),
            (Some((1.005, 1.2)), Some(0.01), Some(Verdict::NoDifference)),
            (Some((0.7, 1.2)), Some(0.0), Some(Verdict::NoDifference)),
            (Some((0.7, 0.98)), Some(0.01), Some(Verdict::Slower)),
        ] {
            let ratio = Estimate {
                value: 1.0,
                interval,
            };
            assert_eq!(verdict(ratio, noise), expected, "{interval:?} {noise:?}");
        }
    }
}
