//! What is said of a cell beside another, as reports and programs read it.
//!
//! Invariant: the rule is [`bench_stats::judge`]'s and nothing here bends it. A verdict has one word, which
//! people and programs get alike.

use bench_stats::{Estimate, Judgement, Relevance, Undecided};
use serde::{Serialize, Serializer};
use std::fmt;

/// What a comparison says of its first cell, or why it says nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Verdict {
    /// Its throughput is higher: the whole interval is beyond the noise floor.
    #[serde(rename = "faster")]
    Faster,
    /// Its throughput is lower: the whole interval is beyond the noise floor.
    #[serde(rename = "slower")]
    Slower,
    /// The interval reaches into the noise floor.
    #[serde(rename = "not separable")]
    NotSeparable,
    /// The cells share too few rounds for a verdict.
    #[serde(rename = "too few rounds")]
    TooFewRounds,
    /// How much identical cells differ is unknown, so there is no verdict.
    #[serde(rename = "no noise floor")]
    NoNoiseFloor,
    /// The cells replayed different payloads, so their ratio is none of two settings.
    #[serde(rename = "other payloads")]
    OtherPayloads,
}

/// A throughput, or that of one cell over that of another, with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Ratio {
    /// The ratio of sums.
    pub value: f64,
    /// Lower end; null with one round.
    pub low: Option<f64>,
    /// Upper end; null with one round.
    pub high: Option<f64>,
}

/// Two ends.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// A cell beside another of its level.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// Id of the first cell.
    pub a: String,
    /// Id of the second cell.
    pub b: String,
    /// Execution throughput of `a` over that of `b`; the intervals of a level hold together.
    pub ratio: Ratio,
    /// Rounds that both have.
    pub rounds: u64,
    /// What is said of `a`.
    pub verdict: Verdict,
    /// Whether the difference matters: `relevant`, where the whole interval is beyond what does, `irrelevant`,
    /// where it is within, or `open`; null without a verdict.
    #[serde(serialize_with = "relevance_word")]
    pub relevance: Option<Relevance>,
    /// Whether the two differ in the chunk size alone and the engine counted the same work in both. It may
    /// explain why they do not differ, and takes nothing from a verdict.
    pub same_work: bool,
    /// The interval of this pair alone by resampling rounds and blocks; null with one round, and where it
    /// would take too long.
    pub bootstrap: Option<Interval>,
}

impl Verdict {
    pub(super) fn of(judgement: Result<Judgement, Undecided>) -> Self {
        match judgement.map(|judgement| judgement.verdict) {
            Ok(bench_stats::Verdict::Faster) => Self::Faster,
            Ok(bench_stats::Verdict::Slower) => Self::Slower,
            Ok(bench_stats::Verdict::NotSeparable) => Self::NotSeparable,
            Err(Undecided::NoInterval | Undecided::TooFewRounds) => Self::TooFewRounds,
            Err(Undecided::NoFloor) => Self::NoNoiseFloor,
        }
    }

    /// Whether a difference was measured.
    pub fn is_difference(self) -> bool {
        matches!(self, Self::Faster | Self::Slower)
    }

    /// Whether the rounds said anything.
    pub fn is_decided(self) -> bool {
        self.is_difference() || self == Self::NotSeparable
    }

    /// The same, said of the second cell.
    fn turned(self) -> Self {
        match self {
            Self::Faster => Self::Slower,
            Self::Slower => Self::Faster,
            other => other,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

fn relevance_word<S: Serializer>(found: &Option<Relevance>, to: S) -> Result<S::Ok, S::Error> {
    found.map(in_a_word).serialize(to)
}

/// How a difference compares with what matters.
pub(crate) fn in_a_word(found: Relevance) -> &'static str {
    match found {
        Relevance::Relevant => "relevant",
        Relevance::Irrelevant => "irrelevant",
        Relevance::Open => "open",
    }
}

impl Ratio {
    /// Both ends, where there is an interval.
    pub fn ends(&self) -> Option<(f64, f64)> {
        self.low.zip(self.high)
    }
}

impl From<Estimate> for Ratio {
    fn from(Estimate { value, interval }: Estimate) -> Self {
        Self {
            value,
            low: interval.map(|(low, _)| low),
            high: interval.map(|(_, high)| high),
        }
    }
}

impl From<(f64, f64)> for Interval {
    fn from((low, high): (f64, f64)) -> Self {
        Self { low, high }
    }
}

impl Comparison {
    /// The same, said of `b` beside `a`.
    pub fn turned(self) -> Self {
        let Ratio { value, low, high } = self.ratio;
        let inverse = |end: f64| 1.0 / end;
        Self {
            a: self.b,
            b: self.a,
            ratio: Ratio {
                value: inverse(value),
                low: high.map(inverse),
                high: low.map(inverse),
            },
            verdict: self.verdict.turned(),
            bootstrap: self.bootstrap.map(|found| Interval {
                low: inverse(found.high),
                high: inverse(found.low),
            }),
            ..self
        }
    }

    /// Whether these are its two cells, in either order.
    fn is_of(&self, one: &str, other: &str) -> bool {
        (self.a == one && self.b == other) || (self.a == other && self.b == one)
    }

    /// Whether a difference was named that resampling does not show.
    pub fn is_doubted(&self) -> bool {
        match (self.verdict, self.bootstrap) {
            (Verdict::Faster, Some(found)) => found.low <= 1.0,
            (Verdict::Slower, Some(found)) => found.high >= 1.0,
            _ => false,
        }
    }

    /// Whether `b` is shown to be slower than `a` by more than this part: the whole interval is beyond the
    /// noise floor and beyond the part.
    pub fn is_regression(&self, part: f64) -> bool {
        self.verdict == Verdict::Faster && self.ratio.low.is_some_and(|low| low > 1.0 + part)
    }

    /// Whether that is neither shown nor excluded: the interval reaches beyond the part.
    pub fn may_be_regression(&self, part: f64) -> bool {
        !self.is_regression(part) && self.ratio.high.is_none_or(|high| high > 1.0 + part)
    }

    /// Whether a difference was measured although the engine did the same work in both.
    pub fn is_unexplained(&self) -> bool {
        self.same_work && self.verdict.is_difference()
    }
}

/// What some comparisons say of cell `a` beside `b`.
pub(super) fn about(pairs: &[Comparison], a: &str, b: &str) -> Option<Comparison> {
    let found = pairs.iter().find(|pair| pair.is_of(a, b))?.clone();
    Some(if found.a == a { found } else { found.turned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyze::made_up;

    #[test]
    fn people_and_programs_read_the_same_words() {
        for (verdict, word) in [
            (Verdict::Faster, "faster"),
            (Verdict::NotSeparable, "not separable"),
            (Verdict::TooFewRounds, "too few rounds"),
            (Verdict::NoNoiseFloor, "no noise floor"),
            (Verdict::OtherPayloads, "other payloads"),
        ] {
            assert_eq!(verdict.to_string(), word);
            assert_eq!(serde_json::to_value(verdict).unwrap(), word);
        }
    }

    fn comparison(verdict: Verdict, (value, low, high): (f64, f64, f64)) -> Comparison {
        Comparison {
            ratio: Ratio {
                value,
                low: Some(low),
                high: Some(high),
            },
            bootstrap: Some((low, value).into()),
            ..made_up::comparison(verdict)
        }
    }

    #[test]
    fn turned_it_says_the_opposite_of_the_other() {
        let found = comparison(Verdict::Slower, (0.5, 0.25, 0.8));
        let turned = found.clone().turned();
        assert_eq!((turned.a.as_str(), turned.b.as_str()), ("y", "x"));
        assert_eq!(turned.verdict, Verdict::Faster);
        assert_eq!(turned.ratio.value, 2.0);
        assert_eq!(turned.ratio.ends(), Some((1.25, 4.0)));
        assert_eq!(turned.bootstrap, Some((2.0, 4.0).into()));
        assert_eq!(turned.turned(), found);
    }

    #[test]
    fn a_regression_is_beyond_what_was_asked_with_the_whole_interval() {
        for (verdict, low, regression) in [
            (Verdict::Faster, 1.03, true),
            (Verdict::Faster, 1.015, false),
            (Verdict::NotSeparable, 1.03, false),
            (Verdict::NoNoiseFloor, 1.03, false),
            (Verdict::OtherPayloads, 1.03, false),
            (Verdict::Slower, 0.5, false),
        ] {
            let found = comparison(verdict, (1.04, low, 1.05));
            assert_eq!(found.is_regression(0.02), regression, "{verdict} {low}");
            assert_ne!(found.may_be_regression(0.02), regression, "{verdict} {low}");
        }
        assert!(!comparison(Verdict::NotSeparable, (1.0, 0.99, 1.01)).may_be_regression(0.02));
    }
}
