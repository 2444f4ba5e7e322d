//! Which cells of a gas level differ, and by how much.
//!
//! Invariant: cells are compared over the rounds that both have, all pairs of a level at once, and
//! never across levels. A verdict is what was measured: that the engine did the same work in two cells may
//! explain why they do not differ, and silences nothing. Ranks come from the same estimates as ratios.

use super::{
    knob,
    level::Level,
    noise::NoiseFloor,
    outcome::Outcome,
    summary::Summary,
    verdict::{Comparison, Interval, Verdict, about},
};
use crate::{
    plan::{Load, Plan},
    record::Sample,
};
use bench_stats::{
    Layout, Pair, Rules,
    bootstrap::{self, Resampling},
    compare_all, rounds,
};

/// Accepted chance that any comparison of a level misleads, when the rounds were fixed beforehand.
pub(super) const ERROR: f64 = 0.05;

/// Replicates of the check by resampling.
const REPLICATES: usize = 1000;

/// Of sweeps with many rounds or cells fewer replicates are made: so many rounds are drawn in all, which
/// takes seconds.
const MOST_DRAWS: usize = 4_000_000;
const FEWEST_REPLICATES: usize = 200;

/// Chance that an interval of the check misses; it is for one pair alone.
const CHECK_ERROR: f64 = 0.05;

/// All comparisons of a sweep.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparisons {
    /// Pairs of cells of a level, in the order of the plan.
    pub pairs: Vec<Comparison>,
    /// What is best at each level.
    pub levels: Vec<Level>,
    /// The noise they were judged against.
    pub noise_floor: NoiseFloor,
}

impl Comparisons {
    /// What is said of cell `a` beside `b`; nothing of cells that share no level or no round.
    pub fn of(&self, a: &str, b: &str) -> Option<Comparison> {
        about(&self.pairs, a, b)
    }
}

/// The visits of one gas level, as comparisons need them.
pub(super) struct Group<'a> {
    pub(super) load: Load,
    pub(super) cells: Vec<&'a Summary>,
    /// Cells first, then A/A controls.
    pub(super) layout: Layout,
}

/// Compares all pairs of cells of each gas level.
pub fn compare(outcome: &Outcome, summaries: &[Summary]) -> Comparisons {
    let noise_floor = NoiseFloor::of(outcome);
    let rules = rules(outcome, noise_floor.relative);
    let loads = outcome.plan.loads();
    let draws = MOST_DRAWS / loads.len().max(1);
    let (mut pairs, mut levels) = (Vec::new(), Vec::new());
    for load in loads {
        let group = Group {
            cells: summaries.iter().filter(|s| load.is_of(&s.cell)).collect(),
            layout: layout_of(outcome, &load),
            load,
        };
        let compared = compare_all(&group.layout, group.cells.len(), &rules);
        let reference = group.reference(&outcome.plan, &compared);
        let resampled = Resampled::of(outcome, &group, reference, draws);
        let of_level = compared.pairs.iter();
        let of_level: Vec<Comparison> = of_level
            .map(|pair| group.comparison(pair, resampled.interval(pair)))
            .collect();
        levels.push(Level::of(outcome, &group, &compared, reference, &of_level));
        pairs.extend(of_level);
    }
    Comparisons {
        pairs,
        levels,
        noise_floor,
    }
}

/// What the comparisons of a level are judged by.
pub(super) fn rules(outcome: &Outcome, noise: Option<f64>) -> Rules {
    let settings = &outcome.plan.settings;
    Rules {
        error: match settings.adaptive {
            Some(_) => rounds::FINAL_ERROR,
            None => ERROR,
        },
        noise,
        relevant: settings.min_effect,
    }
}

/// Throughputs of the visits of a level: its cells in the order of the plan, then its A/A controls.
pub(super) fn layout_of(outcome: &Outcome, load: &Load) -> Layout {
    let cells = outcome.visited(load);
    Layout::new(cells.map(|cell| outcome.throughputs(&cell.id)))
}

impl Group<'_> {
    pub(super) fn id(&self, index: usize) -> String {
        self.cells[index].id.clone()
    }

    /// The cell that others are given as ratios to: the named one where it was measured, else the highest.
    fn reference(&self, plan: &Plan, compared: &bench_stats::Comparisons) -> Option<usize> {
        let named = plan.baseline(&self.load);
        let named = named.and_then(|named| self.cells.iter().position(|s| s.id == named.id));
        let measured = |index: &usize| compared.ranked.contains(index);
        named.filter(measured).or(compared.ranked.first().copied())
    }

    fn comparison(&self, pair: &Pair, bootstrap: Option<Interval>) -> Comparison {
        let (a, b) = (self.cells[pair.a], self.cells[pair.b]);
        Comparison {
            a: a.id.clone(),
            b: b.id.clone(),
            ratio: pair.ratio.into(),
            rounds: pair.rounds as u64,
            verdict: Verdict::of(pair.judgement),
            relevance: pair.relevance(),
            same_work: knob::same_work(a, b) == Some(true),
            bootstrap,
        }
    }
}

/// Passes of a level, ready to be resampled.
struct Resampled {
    /// By cell, then round.
    passes: Vec<Vec<(u64, bootstrap::Pass)>>,
    /// The cell whose pairs are resampled; `None` when all are.
    only: Option<usize>,
    how: Resampling,
}

impl Resampled {
    /// Draws so many rounds for a level. Pairs grow with the square of cells: when there are too many,
    /// only those with the reference are resampled.
    fn of(outcome: &Outcome, group: &Group<'_>, reference: Option<usize>, draws: usize) -> Self {
        let cells = group.cells.len();
        let all_pairs = cells * cells.saturating_sub(1) / 2;
        let rounds = (0..cells).map(|cell| group.layout.rounds(cell).len());
        let rounds = rounds.max().unwrap_or(0).max(1);
        let many = all_pairs * rounds * FEWEST_REPLICATES > draws;
        let only = reference.filter(|_| many);
        let pairs = if only.is_some() { cells } else { all_pairs };
        let replicates = draws / (rounds * pairs.max(1));
        let pass = |(round, samples): (u64, &[Sample])| {
            let blocks = samples.iter();
            let blocks = blocks.map(|sample| (sample.gas_used, sample.total_ns()));
            (round, bootstrap::Pass::new(blocks))
        };
        let cells = group.cells.iter();
        let cells = cells.map(|summary| outcome.rounds(&summary.id).map(pass).collect());
        Self {
            passes: cells.collect(),
            only,
            how: Resampling {
                replicates: replicates.clamp(FEWEST_REPLICATES, REPLICATES),
                error: CHECK_ERROR,
                seed: outcome.plan.settings.seed,
            },
        }
    }

    fn interval(&self, pair: &Pair) -> Option<Interval> {
        if self
            .only
            .is_some_and(|only| only != pair.a && only != pair.b)
        {
            return None;
        }
        let (a, b) = (&self.passes[pair.a], &self.passes[pair.b]);
        let shared = a.iter().filter_map(|(round, pass)| {
            let (_, other) = b.iter().find(|(other, _)| other == round)?;
            Some((pass, other))
        });
        let (a, b): (Vec<_>, Vec<_>) = shared.unzip();
        bootstrap::two_stage(&a, &b, &self.how).map(Interval::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        analyze::{
            made_up::{MadeUp, around, compared, sweep},
            summarize,
            verdict::Verdict,
        },
        sweep::CHUNK_SIZE_FLAG,
    };

    #[test]
    fn a_difference_that_no_chunk_size_explains_is_not_silenced() {
        let slowed = |by: &str, ms: &[f64]| {
            let flags = [(CHUNK_SIZE_FLAG, "100000"), ("bench.inject-slowdown", by)];
            MadeUp::new(&flags, ms).jobs(7)
        };
        let (usual, late) = (around(100.0, 0), around(125.0, 2));
        let found = compared(&[slowed("0%", &usual), slowed("30%", &late)]);
        let (pair, level) = (&found.pairs[0], &found.levels[0]);
        assert_eq!(pair.verdict, Verdict::Faster);
        assert!(!pair.same_work && !level.inert);
        assert!(level.best == [pair.a.clone()] && level.beaten == [pair.b.clone()]);
    }

    #[test]
    fn equal_work_explains_and_takes_no_verdict_away() {
        for (ms, verdict, best) in [
            (125.0, Verdict::Faster, 1),
            (100.0, Verdict::NotSeparable, 2),
        ] {
            let found = compared(&[
                MadeUp::chunk("60", &around(100.0, 0)).jobs(7),
                MadeUp::chunk("240", &around(ms, 2)).jobs(7),
            ]);
            let (pair, level) = (&found.pairs[0], &found.levels[0]);
            assert_eq!(pair.verdict, verdict);
            assert!(pair.same_work && level.inert, "the counts are equal");
            assert_eq!(pair.is_unexplained(), best == 1);
            assert_eq!(level.best.len(), best);
        }
    }

    #[test]
    fn one_round_singles_nothing_out_beside_a_level_that_has_more() {
        let found = compared(&[
            MadeUp::chunk("5", &around(125.0, 0)),
            MadeUp::chunk("60", &around(100.0, 1)),
            MadeUp::chunk("240", &around(100.0, 2)),
            MadeUp::chunk("5", &[125.0]).gas(40_000_000),
            MadeUp::chunk("60", &[100.0]).gas(40_000_000),
        ]);
        assert!(found.noise_floor.relative.is_some());
        let [many, one] = &found.levels[..] else {
            panic!("two levels")
        };
        assert!(!many.beaten.is_empty() && !many.edges.is_empty());
        let highest_first = ["chunk60-gas40M", "chunk5-gas40M"];
        assert_eq!(one.best, highest_first);
        assert!(one.beaten.is_empty() && one.edges.is_empty());
        assert_eq!(found.pairs.last().unwrap().verdict, Verdict::TooFewRounds);
    }

    #[test]
    fn a_cell_that_left_in_fast_rounds_does_not_lead() {
        // The machine slows down by a half after the second round.
        let drifting = |ms: f64, rounds: usize| -> Vec<f64> {
            let ticks = [0.001, -0.001, 0.0, 0.001, -0.001, 0.0];
            let slow = |round: usize| if round < 2 { 1.0 } else { 1.5 };
            let took = |round| ms * slow(round) * (1.0 + ticks[round]);
            (0..rounds).map(took).collect()
        };
        let outcome = sweep(&[
            MadeUp::chunk("5", &drifting(103.0, 2)),
            MadeUp::chunk("60", &drifting(100.0, 6)),
            MadeUp::chunk("240", &drifting(101.0, 6)),
        ]);
        let summaries = summarize(&outcome);
        let own = |index: usize| {
            summaries[index]
                .execution_ggas_per_second
                .unwrap()
                .ratio
                .value
        };
        assert!(own(0) > own(1), "on its own rounds it is the highest");
        let level = &compare(&outcome, &summaries).levels[0];
        assert_eq!(level.reference.as_deref(), Some("chunk60-gas10M"));
        let versus: Vec<&str> = level.versus.iter().map(|pair| pair.a.as_str()).collect();
        assert_eq!(versus, ["chunk240-gas10M", "chunk5-gas10M"]);
        let ratio = level.versus[1].ratio.value;
        assert!((ratio - 100.0 / 103.0).abs() < 1e-3, "{ratio}");
    }

    #[test]
    fn a_named_baseline_is_what_others_are_held_against() {
        let cells = [
            MadeUp::chunk("5", &around(125.0, 0)),
            MadeUp::chunk("60", &around(100.0, 1)),
            MadeUp::chunk("5", &around(125.0, 0)).gas(40_000_000),
            MadeUp::chunk("60", &around(100.0, 1)).gas(40_000_000),
            MadeUp::chunk("240", &[]).gas(40_000_000),
        ];
        let named = |name: &str| {
            sweep(&cells)
                .history
                .plan
                .with_baseline(Some(name.to_owned()))
        };
        for (name, references, lost) in [
            ("chunk5", ["chunk5-gas10M", "chunk5-gas40M"], None),
            ("chunk5-gas10M", ["chunk5-gas10M", "chunk60-gas40M"], None),
            (
                "chunk240",
                ["chunk60-gas10M", "chunk60-gas40M"],
                Some("chunk240-gas40M"),
            ),
        ] {
            let mut outcome = sweep(&cells);
            outcome.history.plan = named(name).unwrap();
            let [small, large] = compare(&outcome, &summarize(&outcome))
                .levels
                .try_into()
                .unwrap();
            let lost = [None, lost.map(str::to_owned)];
            assert_eq!([small.lost_baseline, large.lost_baseline], lost, "{name}");
            let found = [small.reference.unwrap(), large.reference.unwrap()];
            assert_eq!(found, references, "{name}");
        }
        let told = named("chunk7").unwrap_err().to_string();
        assert!(
            told.contains("--baseline chunk7") && told.contains("chunk240-gas40M"),
            "{told}"
        );
    }
}
