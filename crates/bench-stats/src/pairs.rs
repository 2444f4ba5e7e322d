//! All pairs of cells of a level at once: intervals that hold together, verdicts, ranks, the best set.
//!
//! Invariant: the chance that a sweep of equal cells names any difference in a level is at most
//! [`Rules::error`], whatever the number of cells and wherever the sweep was cut. A cell tells nothing
//! of its noise in a single visit, and two visits that happen to be alike tell too little of it: beside
//! a machine that is disturbed now and then, their pair would be judged by the noise of quieter cells.
//! So one common round gives no interval, and fewer than [`FEWEST_ROUNDS`](crate::verdict::FEWEST_ROUNDS)
//! name no difference. Ranks and ratios come from one fit of cells and rounds: they never contradict
//! each other, whichever rounds a cell has.

use crate::{
    fit::Fit,
    interval::{Estimate, standard_deviation, t_quantile},
    layout::{Layout, Spread},
    range::StudentizedRange,
    verdict::{Judgement, Relevance, Rules, Undecided, Verdict, judge},
};

/// Part of the accepted error that is set aside for taking an unsteady cell for a steady one.
const STEADINESS_SHARE: f64 = 0.2;

/// Two cells of a level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pair {
    /// Index of the first cell.
    pub a: usize,
    /// Index of the second cell.
    pub b: usize,
    /// Throughput of `a` over that of `b` in the same rounds, by least squares: where both have the
    /// rounds that all have, the geometric mean of their ratios by round. The intervals of a level hold
    /// together with probability `1 - error`.
    pub ratio: Estimate,
    /// Rounds that both have.
    pub rounds: usize,
    /// What is to be said of `a` beside `b`, or why nothing is.
    pub judgement: Result<Judgement, Undecided>,
}

impl Pair {
    /// Whether `a` is faster; `None` where that is undecided.
    pub fn verdict(&self) -> Option<Verdict> {
        self.judgement.ok().map(|judgement| judgement.verdict)
    }

    /// Whether the difference matters; `None` where there is no verdict.
    pub fn relevance(&self) -> Option<Relevance> {
        self.judgement.ok().map(|judgement| judgement.relevance)
    }

    /// The same, said of `b` beside `a`.
    pub fn turned(self) -> Self {
        let inverse = |(low, high): (f64, f64)| (1.0 / high, 1.0 / low);
        Self {
            a: self.b,
            b: self.a,
            ratio: Estimate {
                value: 1.0 / self.ratio.value,
                interval: self.ratio.interval.map(inverse),
            },
            judgement: self.judgement.map(Judgement::turned),
            ..self
        }
    }
}

/// The cells of a level against each other.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparisons {
    /// Every pair with a common round, in order; `a` is the smaller index.
    pub pairs: Vec<Pair>,
    /// Noise of one visit; `None` with one round.
    pub spread: Option<Spread>,
    /// Cells that were judged by their own noise, because it is larger than the common one.
    pub unsteady: Vec<usize>,
    /// Measured cells, that with the highest throughput in an average round first.
    pub ranked: Vec<usize>,
}

impl Comparisons {
    /// Whether some other cell is shown to be faster by more than is relevant.
    pub fn is_beaten(&self, cell: usize) -> bool {
        let beats = |judgement: Judgement| {
            judgement.verdict == Verdict::Slower && judgement.relevance == Relevance::Relevant
        };
        let mut pairs = self.pairs_of(cell);
        pairs.any(|pair| pair.judgement.is_ok_and(beats))
    }

    /// The measured cells that none beats, the highest first. Where rounds are too few to decide
    /// anything, those are all.
    pub fn best(&self) -> Vec<usize> {
        let best = self.ranked.iter().filter(|cell| !self.is_beaten(**cell));
        best.copied().collect()
    }

    /// Every other measured cell that shares a round with the reference, as `a` beside the reference,
    /// the highest first.
    pub fn versus(&self, reference: usize) -> Vec<Pair> {
        let rank = |pair: &Pair| self.ranked.iter().position(|cell| *cell == pair.a);
        let mut pairs: Vec<Pair> = self.pairs_of(reference).map(Pair::turned).collect();
        pairs.sort_by_key(rank);
        pairs
    }

    /// The pairs of a cell, each with that cell as `a`.
    fn pairs_of(&self, cell: usize) -> impl Iterator<Item = Pair> + '_ {
        self.pairs.iter().filter_map(move |pair| match cell {
            _ if pair.a == cell => Some(*pair),
            _ if pair.b == cell => Some(pair.turned()),
            _ => None,
        })
    }
}

/// Compares the first `compared` cells of a layout with each other. Further ones, A/A controls, only
/// help to know the noise and the rounds.
pub fn compare_all(layout: &Layout, compared: usize, rules: &Rules) -> Comparisons {
    let fitted = Fitted::new(layout, compared, rules.error);
    let mut pairs = Vec::new();
    for a in 0..compared {
        let others = (a + 1..compared).filter_map(|b| fitted.pair(a, b, rules));
        pairs.extend(others);
    }
    let effects: Vec<Option<f64>> = (0..compared).map(|cell| fitted.effect(cell)).collect();
    let mut ranked: Vec<usize> = (0..compared)
        .filter(|cell| effects[*cell].is_some())
        .collect();
    let effect = |cell: &usize| effects[*cell].unwrap_or(f64::NEG_INFINITY);
    ranked.sort_by(|a, b| effect(b).total_cmp(&effect(a)));
    Comparisons {
        pairs,
        spread: fitted.fit.spread(),
        unsteady: fitted.unsteady,
        ranked,
    }
}

/// A level with how wide its intervals are.
struct Fitted<'a> {
    layout: &'a Layout,
    /// Of the cells that are steady; of all where these do not have every round.
    fit: Fit,
    unsteady: Vec<usize>,
    /// Standard errors of a difference that its interval reaches to either side.
    reach: f64,
    /// Two-sided error of a single pair that is judged by its own noise.
    single_error: f64,
}

impl<'a> Fitted<'a> {
    fn new(layout: &'a Layout, compared: usize, error: f64) -> Self {
        // With two cells there is nothing to judge a cell's steadiness by.
        let share = match layout.cells() {
            0..=2 => 0.0,
            _ => STEADINESS_SHARE,
        };
        let unsteady = layout.unsteady(error * share);
        let all: Vec<usize> = (0..layout.cells()).collect();
        let steady = all.iter().copied().filter(|cell| !unsteady.contains(cell));
        let steady: Vec<usize> = steady.collect();
        let mut fit = Fit::of(layout, &steady);
        let covers = |cell: &usize| {
            layout
                .rounds(*cell)
                .keys()
                .all(|round| fit.round(*round).is_some())
        };
        if !all.iter().all(covers) {
            fit = Fit::of(layout, &all);
        }
        let pairs = compared * compared.saturating_sub(1) / 2;
        let reach = fit.spread().map_or(f64::NAN, |spread| {
            Reach::new(compared).at(error * (1.0 - share), spread.freedom)
        });
        Self {
            layout,
            fit,
            unsteady,
            reach,
            single_error: error / pairs.max(1) as f64,
        }
    }

    /// Logarithm of a cell's throughput in an average round.
    fn effect(&self, cell: usize) -> Option<f64> {
        let beside = || self.fit.effect_beside(self.layout, cell);
        self.fit.effect(cell).or_else(beside)
    }

    fn pair(&self, a: usize, b: usize, rules: &Rules) -> Option<Pair> {
        let differences = self.layout.differences(a, b);
        if differences.is_empty() {
            return None;
        }
        let value = self.effect(a)? - self.effect(b)?;
        let half = self.half(a, b, &differences);
        let ratio = Estimate {
            value: value.exp(),
            interval: half.map(|half| ((value - half).exp(), (value + half).exp())),
        };
        Some(Pair {
            a,
            b,
            ratio,
            rounds: differences.len(),
            judgement: judge(ratio, differences.len(), rules),
        })
    }

    /// Half the interval of the difference of two cells, on the logarithmic scale; `None` with fewer than
    /// two common rounds.
    fn half(&self, a: usize, b: usize, differences: &[f64]) -> Option<f64> {
        if differences.len() < 2 {
            return None;
        }
        let own = self.unsteady.contains(&a) || self.unsteady.contains(&b);
        if let (Some(spread), false) = (self.fit.spread(), own) {
            return Some(self.reach * spread.deviation * self.fit.variance(a, b)?.sqrt());
        }
        let n = differences.len() as f64;
        let deviation = standard_deviation(differences)?;
        Some(t_quantile(1.0 - self.single_error / 2.0, n - 1.0)? * deviation / n.sqrt())
    }
}

/// How many standard errors of a difference the intervals of all pairs of some cells reach, so that
/// they hold together (Tukey; Student's t for a single pair).
#[derive(Debug, Clone)]
pub struct Reach(Option<StudentizedRange>);

impl Reach {
    /// For all pairs of `cells` cells.
    pub fn new(cells: usize) -> Self {
        Self((cells > 2).then(|| StudentizedRange::new(cells)))
    }

    /// With the chance `error` that any interval misses, and a noise known to so many degrees of
    /// freedom.
    pub fn at(&self, error: f64, freedom: f64) -> f64 {
        match &self.0 {
            Some(range) => range.quantile(1.0 - error, freedom) / 2f64.sqrt(),
            None => t_quantile(1.0 - error / 2.0, freedom).unwrap_or(f64::NAN),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Throughput;
    use proptest::prelude::*;

    const RULES: Rules = Rules {
        error: 0.05,
        noise: Some(0.0),
        relevant: 0.01,
    };

    fn rounds(ggas: &[f64]) -> Vec<Throughput> {
        ggas.iter()
            .map(|ggas| Throughput::new((ggas * 1e12) as u64, 1_000_000_000_000))
            .collect()
    }

    fn layout(cells: &[Vec<f64>]) -> Layout {
        Layout::new(cells.iter().map(|cell| (1..).zip(rounds(cell))))
    }

    #[test]
    fn one_pair_is_the_paired_t_interval() {
        let (a, b) = ([1.0, 1.3, 0.9, 1.1], [0.8, 1.2, 0.9, 1.0]);
        let found = compare_all(&layout(&[a.to_vec(), b.to_vec()]), 2, &RULES);
        let logs: Vec<f64> = a
            .iter()
            .zip(b)
            .map(|(a, b): (&f64, f64)| (a / b).ln())
            .collect();
        let mean = logs.iter().sum::<f64>() / 4.0;
        // t(0.975, 3) = 3.182446, from any table of Student's distribution.
        let half = 3.182446 * standard_deviation(&logs).unwrap() / 2.0;
        let (value, (low, high)) = (
            found.pairs[0].ratio.value,
            found.pairs[0].ratio.interval.unwrap(),
        );
        assert!((value.ln() - mean).abs() < 1e-9);
        assert!((low.ln() - mean + half).abs() < 1e-6 && (high.ln() - mean - half).abs() < 1e-6);
    }

    #[test]
    fn best_is_a_set() {
        // Two cells a hair apart, one far behind, with noise of about 0.5 %.
        let cells = [
            vec![1.000, 1.006, 0.998, 1.004, 1.001, 0.999],
            vec![1.004, 1.001, 1.003, 0.997, 1.005, 1.002],
            vec![0.900, 0.905, 0.898, 0.903, 0.896, 0.901],
        ];
        let compared = compare_all(&layout(&cells), 3, &RULES);
        assert_eq!(compared.best(), [1, 0]);
        assert_eq!(compared.pairs[1].verdict(), Some(Verdict::Faster));
        assert_eq!(compared.pairs[1].relevance(), Some(Relevance::Relevant));
    }

    #[test]
    fn few_rounds_name_nothing() {
        // Twice as fast, and the noise is next to none.
        let cell = |base: f64, rounds: usize| -> Vec<f64> {
            let ticks = [0.0, 1e-4, -1e-4];
            ticks[..rounds].iter().map(|tick| base + tick).collect()
        };
        for (rounds, interval, verdict) in [
            (1, false, None),
            (2, true, None),
            (3, true, Some(Verdict::Faster)),
        ] {
            // The third cell has a visit in every round, as after a cut one.
            let cells = [cell(2.0, 3), cell(1.0, rounds), cell(2.0, 3)];
            let compared = compare_all(&layout(&cells), 3, &RULES);
            let pair = compared.pairs[0];
            assert_eq!(pair.ratio.interval.is_some(), interval, "{rounds}");
            assert_eq!((pair.verdict(), pair.rounds), (verdict, rounds));
        }
        // That nothing is separable may be said sooner.
        let alike = [vec![1.0, 1.1], vec![1.1, 1.0], vec![1.0, 0.9]];
        let compared = compare_all(&layout(&alike), 3, &RULES);
        assert_eq!(compared.pairs[0].verdict(), Some(Verdict::NotSeparable));
    }

    #[test]
    fn cells_with_other_rounds_are_ranked_by_the_rounds_they_share() {
        // The machine gets 30 % faster after three rounds, when the second cell has left, which was 10 %
        // ahead: its own mean is lower than that of the first.
        let drift = [1.0, 1.002, 0.998, 1.3, 1.303, 1.299];
        let cell = |speed: f64, rounds: usize| -> Vec<f64> {
            let drift = drift[..rounds].iter();
            drift.map(|drift| drift * speed).collect()
        };
        let cells = [cell(1.0, 6), cell(1.1, 3), cell(0.9, 6)];
        let found = compare_all(&layout(&cells), 3, &RULES);
        assert_eq!(found.ranked, [1, 0, 2]);
        assert_eq!(found.best(), [1]);
        let versus = found.versus(0);
        let cells: Vec<usize> = versus.iter().map(|pair| pair.a).collect();
        assert_eq!(cells, [1, 2], "the reference left out, the highest first");
        for (pair, (ratio, rounds, verdict)) in versus
            .iter()
            .zip([(1.1, 3, Verdict::Faster), (0.9, 6, Verdict::Slower)])
        {
            assert!((pair.ratio.value - ratio).abs() < 1e-9, "{pair:?}");
            assert_eq!(
                (pair.b, pair.rounds, pair.verdict()),
                (0, rounds, Some(verdict))
            );
        }
    }

    #[test]
    fn a_cell_that_was_never_measured_is_neither_ranked_nor_best() {
        let found = compare_all(&layout(&[vec![1.0], vec![], vec![2.0]]), 3, &RULES);
        assert_eq!(
            (found.ranked.as_slice(), found.best().as_slice()),
            (&[2, 0][..], &[2, 0][..])
        );
        assert_eq!(found.versus(1), []);
        assert_eq!(
            compare_all(&layout(&[vec![]]), 1, &RULES).best(),
            [0usize; 0]
        );
    }

    #[test]
    fn a_proved_hair_does_not_expel() {
        let tick = [0.0, 1e-5, -1e-5, 2e-5, -2e-5, 0.0];
        let near = |base: f64| tick.iter().map(|t| base + t).collect::<Vec<_>>();
        let compared = compare_all(&layout(&[near(1.0), near(1.002)]), 2, &RULES);
        assert_eq!(compared.pairs[0].verdict(), Some(Verdict::Slower));
        assert_eq!(compared.pairs[0].relevance(), Some(Relevance::Irrelevant));
        assert_eq!(compared.best(), [1, 0]);
    }

    #[test]
    fn one_round_says_nothing() {
        let compared = compare_all(&layout(&[vec![1.0], vec![2.0], vec![3.0]]), 3, &RULES);
        assert_eq!(compared.spread, None);
        for pair in &compared.pairs {
            assert_eq!(pair.ratio.interval, None);
            assert_eq!(pair.judgement, Err(Undecided::NoInterval));
        }
        assert_eq!(compared.best(), [2, 1, 0], "all, the highest first");
    }

    #[test]
    fn the_noise_floor_swallows_what_is_within_it() {
        let tick = [0.0, 1e-3, -1e-3, 5e-4];
        let near = |base: f64| tick.iter().map(|t| base + t).collect::<Vec<_>>();
        let cells = layout(&[near(1.0), near(1.03)]);
        for (noise, expected) in [
            (None, None),
            (Some(0.0), Some(Verdict::Slower)),
            (Some(0.05), Some(Verdict::NotSeparable)),
        ] {
            let rules = Rules { noise, ..RULES };
            assert_eq!(compare_all(&cells, 2, &rules).pairs[0].verdict(), expected);
        }
    }

    prop_compose! {
        fn sweep()(cells in 2usize..5, rounds in 2usize..6)(
            cells in prop::collection::vec(prop::collection::vec(0.5f64..2.0, rounds), cells),
        ) -> Vec<Vec<f64>> {
            cells
        }
    }

    proptest! {
        #[test]
        fn scale_does_not_matter(cells in sweep(), factor in 0.1f64..10.0) {
            let scaled: Vec<Vec<f64>> =
                cells.iter().map(|cell| cell.iter().map(|x| x * factor).collect()).collect();
            let (one, two) = (
                compare_all(&layout(&cells), cells.len(), &RULES),
                compare_all(&layout(&scaled), cells.len(), &RULES),
            );
            for (one, two) in one.pairs.iter().zip(&two.pairs) {
                prop_assert!((one.ratio.value / two.ratio.value - 1.0).abs() < 1e-6);
                let (one, two) = (one.ratio.interval.unwrap(), two.ratio.interval.unwrap());
                prop_assert!((one.0 / two.0 - 1.0).abs() < 1e-5, "{one:?} {two:?}");
            }
        }

        #[test]
        fn naming_does_not_matter(cells in sweep()) {
            let n = cells.len();
            let reversed: Vec<Vec<f64>> = cells.iter().rev().cloned().collect();
            let (one, two) = (
                compare_all(&layout(&cells), n, &RULES),
                compare_all(&layout(&reversed), n, &RULES),
            );
            for pair in &one.pairs {
                let mirrored = two.pairs.iter().find(|other| other.a == n - 1 - pair.b && other.b == n - 1 - pair.a);
                let mirrored = mirrored.unwrap().ratio;
                prop_assert!((pair.ratio.value * mirrored.value - 1.0).abs() < 1e-9);
                let (low, high) = pair.ratio.interval.unwrap();
                let (other_low, other_high) = mirrored.interval.unwrap();
                prop_assert!((low * other_high - 1.0).abs() < 1e-6 && (high * other_low - 1.0).abs() < 1e-6);
            }
        }

        #[test]
        fn drift_of_whole_rounds_does_not_matter(
            cells in sweep(), drift in prop::collection::vec(0.2f64..5.0, 5)
        ) {
            let drifted: Vec<Vec<f64>> = cells
                .iter()
                .map(|cell| cell.iter().zip(&drift).map(|(x, d)| x * d).collect())
                .collect();
            let (one, two) = (
                compare_all(&layout(&cells), cells.len(), &RULES),
                compare_all(&layout(&drifted), cells.len(), &RULES),
            );
            for (one, two) in one.pairs.iter().zip(&two.pairs) {
                prop_assert!((one.ratio.value / two.ratio.value - 1.0).abs() < 1e-6);
            }
        }

        #[test]
        fn more_cells_make_wider_intervals(freedom in 2.0f64..60.0, cells in 2usize..8) {
            let reach = Reach::new(cells);
            prop_assert!(reach.at(0.05, freedom) < Reach::new(cells + 1).at(0.05, freedom));
            prop_assert!(reach.at(0.05, freedom) < reach.at(0.01, freedom));
        }
    }
}
