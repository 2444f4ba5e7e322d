//! When a difference between two cells is called real, and when it is called large.
//!
//! The two are apart: many rounds make a difference of 0.2 % real without making it matter, and
//! few rounds can leave a large one unproved.
//!
//! Invariant: no interval or no noise floor, no verdict. Margins are symmetric: what is said of
//! `a / b` is the opposite of what is said of `b / a`.

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

/// How a difference compares with the smallest one that matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relevance {
    /// All of the interval is beyond it.
    Relevant,
    /// All of the interval is within it: the cells are as good as equal.
    Irrelevant,
    /// The interval reaches across it.
    Open,
}

/// Judges the throughput ratio `a / b` against the relative noise floor: the whole interval must
/// lie outside `1 / (1 + noise)` to `1 + noise` for a difference to be called one. `None` when the
/// ratio carries no interval (one round) or the noise is unknown.
pub fn verdict(ratio: Estimate, noise: Option<f64>) -> Option<Verdict> {
    let (low, high) = ratio.interval?;
    let margin = 1.0 + noise?;
    Some(if low > margin {
        Verdict::Faster
    } else if high < 1.0 / margin {
        Verdict::Slower
    } else {
        Verdict::NoDifference
    })
}

/// Compares an interval with the smallest relative difference that matters; `None` without one.
pub fn relevance(ratio: Estimate, smallest: f64) -> Option<Relevance> {
    let (low, high) = ratio.interval?;
    let margin = 1.0 + smallest;
    Some(if low > margin || high < 1.0 / margin {
        Relevance::Relevant
    } else if low >= 1.0 / margin && high <= margin {
        Relevance::Irrelevant
    } else {
        Relevance::Open
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(interval: Option<(f64, f64)>) -> Estimate {
        Estimate {
            value: 1.0,
            interval,
        }
    }

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
            let found = verdict(ratio(interval), noise);
            assert_eq!(found, expected, "{interval:?} {noise:?}");
        }
    }

    #[test]
    fn what_is_real_need_not_matter() {
        for (interval, expected) in [
            (None, None),
            (Some((1.002, 1.004)), Some(Relevance::Irrelevant)),
            (Some((0.995, 1.02)), Some(Relevance::Open)),
            (Some((1.02, 1.03)), Some(Relevance::Relevant)),
            (Some((0.95, 0.98)), Some(Relevance::Relevant)),
        ] {
            assert_eq!(relevance(ratio(interval), 0.01), expected, "{interval:?}");
        }
    }
}
