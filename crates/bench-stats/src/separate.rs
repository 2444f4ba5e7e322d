//! Two sweeps against each other: rounds that were not measured side by side.
//!
//! Nothing pairs a round of one sweep with a round of another, so what both machines did that day
//! is in the difference. Each cell of each sweep has its own variance (Welch), and the accepted error is
//! shared out among the cells (Bonferroni), so that all intervals hold together and a verdict is never
//! more than its interval shows.
//!
//! Invariant: fewer than two rounds on either side give no interval.

use crate::{
    interval::{Estimate, mean, standard_deviation, t_quantile},
    throughput::Throughput,
    verdict::{Judgement, Rules, Undecided, judge},
};

/// A cell of one sweep against a cell of another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Separate {
    /// Throughput of `a` over that of `b`: ratio of geometric means over rounds. The intervals of all
    /// cells compared together hold with probability `1 - error`.
    pub ratio: Estimate,
    /// Rounds of the side that has fewer.
    pub rounds: usize,
    /// Whether they differ, or why that is not known.
    pub judgement: Result<Judgement, Undecided>,
}

/// Compares the rounds of cells of two sweeps, `a` with `b` in each entry, all entries together. An
/// entry is `None` when a side has no rounds, or one that took no time.
pub fn compare_separate(
    cells: &[(Vec<Throughput>, Vec<Throughput>)],
    rules: &Rules,
) -> Vec<Option<Separate>> {
    let differences: Vec<Option<Difference>> =
        cells.iter().map(|(a, b)| Difference::of(a, b)).collect();
    let known = differences.iter().flatten();
    let intervals = known.filter(|difference| difference.error.is_some());
    let error = rules.error / intervals.count().max(1) as f64;
    let judged = |difference: Difference| {
        let ratio = difference.ratio(error);
        Separate {
            ratio,
            rounds: difference.rounds,
            judgement: judge(ratio, difference.rounds, rules),
        }
    };
    let differences = differences.into_iter();
    differences
        .map(|difference| difference.map(judged))
        .collect()
}

/// How far apart the means of the logarithms of two sides are.
struct Difference {
    mean: f64,
    rounds: usize,
    /// Standard error and its degrees of freedom; `None` with one round on a side.
    error: Option<(f64, f64)>,
}

impl Difference {
    fn of(a: &[Throughput], b: &[Throughput]) -> Option<Self> {
        let logs = |rounds: &[Throughput]| -> Option<Vec<f64>> {
            let logs = rounds
                .iter()
                .map(|round| round.ggas_per_second().map(f64::ln));
            logs.collect()
        };
        let (a, b) = (logs(a)?, logs(b)?);
        let rounds = a.len().min(b.len());
        (rounds > 0).then(|| Self {
            mean: mean(&a) - mean(&b),
            rounds,
            error: welch(&a, &b),
        })
    }

    /// With an interval that is missed with the chance `error`.
    fn ratio(&self, error: f64) -> Estimate {
        let half = self.error.and_then(|(deviation, freedom)| {
            Some(t_quantile(1.0 - error / 2.0, freedom)? * deviation)
        });
        Estimate {
            value: self.mean.exp(),
            interval: half.map(|half| ((self.mean - half).exp(), (self.mean + half).exp())),
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Verdict;
    use proptest::prelude::*;

    const RULES: Rules = Rules {
        error: 0.05,
        noise: Some(0.0),
        relevant: 0.01,
    };

    fn rounds(logs: &[f64]) -> Vec<Throughput> {
        let time = |log: &f64| (1e15 * (-log).exp()) as u64;
        logs.iter()
            .map(|log| Throughput::new(1_000_000_000_000_000, time(log)))
            .collect()
    }

    /// One cell of each side, by their logarithms.
    fn one(a: &[f64], b: &[f64], rules: &Rules) -> Option<Separate> {
        compare_separate(&[(rounds(a), rounds(b))], rules)[0]
    }

    #[test]
    fn matches_a_worked_example() {
        // Standard errors by hand: variances 1 and 8/3 (times 1e-4), 3 and 4 values.
        let (a, b) = ([0.01, 0.02, 0.03], [0.03, 0.05, 0.05, 0.07]);
        let found = one(&a, &b, &RULES).unwrap();
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
        assert_eq!(found.rounds, 3);
    }

    #[test]
    fn few_rounds_say_little() {
        let found = one(&[0.0], &[0.1, 0.2], &RULES).unwrap();
        assert_eq!(found.ratio.interval, None);
        assert_eq!(found.judgement, Err(Undecided::NoInterval));
        assert_eq!(one(&[], &[0.1], &RULES), None);
        let a = [0.0, 0.01, -0.01];
        let judged = |b: &[f64], noise| {
            let rules = Rules { noise, ..RULES };
            let found = one(&a, b, &rules).unwrap().judgement;
            found.map(|judgement| judgement.verdict)
        };
        let (two, three) = ([0.2, 0.21], [0.2, 0.21, 0.19]);
        assert_eq!(judged(&two, Some(0.0)), Err(Undecided::TooFewRounds));
        assert_eq!(judged(&three, Some(0.0)), Ok(Verdict::Slower));
        assert_eq!(judged(&three, Some(0.5)), Ok(Verdict::NotSeparable));
        assert_eq!(judged(&three, None), Err(Undecided::NoFloor));
    }

    #[test]
    fn cells_compared_together_share_the_error() {
        let cell = |shift: f64| {
            let b = [shift, shift + 0.01, shift - 0.01];
            (rounds(&[0.0, 0.01, -0.01]), rounds(&b))
        };
        let alone = compare_separate(&[cell(0.025)], &RULES)[0].unwrap();
        // A cell without an interval takes no share.
        let pairs = [
            cell(0.025),
            cell(0.5),
            (rounds(&[0.0]), rounds(&[0.0])),
            (vec![], rounds(&[0.0])),
        ];
        let together = compare_separate(&pairs, &RULES);
        let half = Rules {
            error: 0.025,
            ..RULES
        };
        assert_eq!(together[0], compare_separate(&[cell(0.025)], &half)[0]);
        assert_eq!(alone.judgement.unwrap().verdict, Verdict::Slower);
        let (found, other) = (together[0].unwrap(), together[1].unwrap());
        assert_eq!(found.judgement.unwrap().verdict, Verdict::NotSeparable);
        assert!(
            found.ratio.interval.unwrap().1 > 1.0,
            "interval and verdict agree"
        );
        assert_eq!(other.judgement.unwrap().verdict, Verdict::Slower);
        assert_eq!(together[3], None);
    }

    proptest! {
        #[test]
        fn swapping_inverts(a in prop::collection::vec(-1.0f64..1.0, 3..6), b in prop::collection::vec(-1.0f64..1.0, 3..6)) {
            let (forth, back) = (one(&a, &b, &RULES).unwrap(), one(&b, &a, &RULES).unwrap());
            prop_assert!((forth.ratio.value * back.ratio.value - 1.0).abs() < 1e-9);
            prop_assert_eq!(forth.judgement.map(Judgement::turned), back.judgement);
        }
    }
}
