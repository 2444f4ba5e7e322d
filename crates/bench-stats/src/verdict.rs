//! When a difference between two cells is called real, and when it is called large.
//!
//! The two are apart: many rounds make a difference of 0.2 % real without making it matter, and
//! few rounds can leave a large one unproved. This is the one place where either is decided.
//!
//! Invariant: no interval or no noise floor, no verdict. Margins are symmetric: what is said of
//! `a / b` is the opposite of what is said of `b / a`.

use crate::interval::Estimate;

/// Accepted chance that any comparison of a level misleads.
pub const ERROR: f64 = 0.05;

/// Rounds that both cells of a comparison must have before a difference between them is named.
pub const FEWEST_ROUNDS: usize = 3;

/// What comparisons are judged by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rules {
    /// Accepted chance that any comparison made together misleads.
    pub error: f64,
    /// Noise floor: relative difference between identical cells; no difference within it is called
    /// one. `None` when unknown, and then there is no verdict.
    pub noise: Option<f64>,
    /// Smallest relative difference that matters.
    pub relevant: f64,
}

/// What a comparison of cell `a` with cell `b` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// `a` has the higher throughput, by more than the noise.
    Faster,
    /// `a` has the lower throughput, by more than the noise.
    Slower,
    /// The rounds do not separate the cells.
    NotSeparable,
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

/// A verdict with what it is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Judgement {
    /// Whether there is a difference.
    pub verdict: Verdict,
    /// Whether it matters.
    pub relevance: Relevance,
}

impl Judgement {
    /// What is to be said of `b / a`.
    pub fn turned(self) -> Self {
        let verdict = match self.verdict {
            Verdict::Faster => Verdict::Slower,
            Verdict::Slower => Verdict::Faster,
            Verdict::NotSeparable => Verdict::NotSeparable,
        };
        Self { verdict, ..self }
    }
}

/// Why there is no verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Undecided {
    /// There is no interval: fewer than two rounds.
    NoInterval,
    /// Nothing is known of how much identical cells differ.
    NoFloor,
    /// The interval is beyond the noise floor, in fewer than [`FEWEST_ROUNDS`] rounds.
    TooFewRounds,
}

/// Judges the throughput ratio `a / b`, measured in so many rounds of either cell. A difference is
/// called one when the whole interval lies outside `1 / (1 + noise)` to `1 + noise`.
///
/// # Errors
/// When there can be no verdict: see [`Undecided`].
pub fn judge(ratio: Estimate, rounds: usize, rules: &Rules) -> Result<Judgement, Undecided> {
    let interval = ratio.interval.ok_or(Undecided::NoInterval)?;
    let noise = rules.noise.ok_or(Undecided::NoFloor)?;
    let verdict = match beyond(interval, noise) {
        None => Verdict::NotSeparable,
        Some(_) if rounds < FEWEST_ROUNDS => return Err(Undecided::TooFewRounds),
        Some(verdict) => verdict,
    };
    let within = 1.0 / (1.0 + rules.relevant)..=1.0 + rules.relevant;
    let relevance = if beyond(interval, rules.relevant).is_some() {
        Relevance::Relevant
    } else if within.contains(&interval.0) && within.contains(&interval.1) {
        Relevance::Irrelevant
    } else {
        Relevance::Open
    };
    Ok(Judgement { verdict, relevance })
}

/// On which side of a relative margin the whole interval lies; `None` when it reaches into it.
fn beyond((low, high): (f64, f64), margin: f64) -> Option<Verdict> {
    let margin = 1.0 + margin;
    if low > margin {
        Some(Verdict::Faster)
    } else if high < 1.0 / margin {
        Some(Verdict::Slower)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(
        interval: Option<(f64, f64)>,
        rounds: usize,
        noise: Option<f64>,
    ) -> Result<Judgement, Undecided> {
        let ratio = Estimate {
            value: 1.0,
            interval,
        };
        let rules = Rules {
            error: 0.05,
            noise,
            relevant: 0.01,
        };
        judge(ratio, rounds, &rules)
    }

    #[test]
    fn demands_an_interval_clear_of_a_known_floor() {
        for (interval, noise, expected) in [
            (None, Some(0.01), Err(Undecided::NoInterval)),
            (None, None, Err(Undecided::NoInterval)),
            (Some((1.1, 1.2)), None, Err(Undecided::NoFloor)),
            (Some((0.99, 1.01)), None, Err(Undecided::NoFloor)),
            (Some((1.1, 1.2)), Some(0.01), Ok(Verdict::Faster)),
            (Some((1.005, 1.2)), Some(0.01), Ok(Verdict::NotSeparable)),
            (Some((0.7, 1.2)), Some(0.0), Ok(Verdict::NotSeparable)),
            (Some((0.7, 0.98)), Some(0.01), Ok(Verdict::Slower)),
        ] {
            let found = judged(interval, 3, noise).map(|found| found.verdict);
            assert_eq!(found, expected, "{interval:?} {noise:?}");
        }
    }

    #[test]
    fn two_rounds_separate_nothing() {
        let clear = judged(Some((1.1, 1.2)), 2, Some(0.01));
        assert_eq!(clear, Err(Undecided::TooFewRounds));
        let across = judged(Some((0.9, 1.2)), 2, Some(0.01));
        assert_eq!(across.map(|found| found.verdict), Ok(Verdict::NotSeparable));
    }

    #[test]
    fn what_is_real_need_not_matter() {
        for (interval, expected) in [
            ((1.002, 1.004), Relevance::Irrelevant),
            ((0.995, 1.02), Relevance::Open),
            ((1.02, 1.03), Relevance::Relevant),
            ((0.95, 0.98), Relevance::Relevant),
        ] {
            let found = judged(Some(interval), 3, Some(0.0)).unwrap();
            assert_eq!(found.relevance, expected, "{interval:?}");
        }
    }

    #[test]
    fn said_the_other_way_round_it_is_the_opposite() {
        for (low, high) in [(1.02, 1.03), (0.9, 0.95), (0.99, 1.02), (1.002, 1.003)] {
            let forth = judged(Some((low, high)), 3, Some(0.001)).unwrap();
            let back = judged(Some((1.0 / high, 1.0 / low)), 3, Some(0.001)).unwrap();
            assert_eq!(forth.turned(), back);
        }
    }
}
