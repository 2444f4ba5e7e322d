//! Which cells of a gas level differ, by how much, and which are best.
//!
//! Invariant: cells are compared over the rounds that both have, all pairs of a level at once, and
//! never across levels. With fewer than two common rounds no noise is known, and with fewer than three no
//! difference is named: a pair then is either inert, which the engine's counts prove, or undecided.

use super::{
    outcome::Outcome,
    summary::{Summary, at_edge, rounds_of},
};
use crate::{
    plan::{Load, Plan},
    record::Sample,
};
use bench_stats::{
    Estimate, Layout, Pair, Relevance, Rules, Spread, Verdict,
    bootstrap::{self, Resampling},
    compare_all, noise_expected, noise_of_controls, rounds,
};

/// Accepted chance that any comparison of a level misleads, when the rounds were fixed beforehand.
const ERROR: f64 = 0.05;

/// Replicates of the check by resampling.
const REPLICATES: usize = 1000;

/// Of sweeps with many rounds or cells fewer replicates are made: so many rounds are drawn in all, which
/// takes seconds.
const MOST_DRAWS: usize = 4_000_000;
const FEWEST_REPLICATES: usize = 200;

/// Chance that an interval of the check misses; it is for one pair alone.
const CHECK_ERROR: f64 = 0.05;

/// Two cells and what is to be said about them.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// Id of the first cell.
    pub a: String,
    /// Id of the second cell.
    pub b: String,
    /// Execution throughput of `a` over that of `b`.
    pub ratio: Estimate,
    /// `faster`, `slower`, `no difference` or `inert`, said of `a`; `None` with too few rounds.
    pub verdict: Option<&'static str>,
    /// `relevant`, `irrelevant` or `open`; `None` without a verdict.
    pub relevance: Option<&'static str>,
    /// The interval by resampling rounds and blocks; `None` with one round.
    pub bootstrap: Option<(f64, f64)>,
}

impl Comparison {
    /// Whether a difference was named that resampling does not show.
    pub fn is_doubted(&self) -> bool {
        match (self.verdict, self.bootstrap) {
            (Some("faster"), Some((low, _))) => low <= 1.0,
            (Some("slower"), Some((_, high))) => high >= 1.0,
            _ => false,
        }
    }
}

/// An A/A control beside its original.
#[derive(Debug, Clone, PartialEq)]
pub struct Control {
    /// Id of the A/A control.
    pub id: String,
    /// Id of the cell it repeats.
    pub of: String,
    /// Rounds that have both.
    pub rounds: u64,
    /// Throughput of the A/A control over that of its original, with its own interval.
    pub ratio: Estimate,
}

/// How much identical cells differ.
#[derive(Debug, Clone, PartialEq)]
pub struct NoiseFloor {
    /// Relative difference; `None` when unknown.
    pub relative: Option<f64>,
    /// Where the figure comes from.
    pub source: String,
    /// The A/A controls it comes from.
    pub controls: Vec<Control>,
}

/// What is best at a gas level.
#[derive(Debug, Clone, PartialEq)]
pub struct Level {
    /// The level.
    pub load: Load,
    /// Ids of the cells that none beats, the one with the highest throughput first.
    pub best: Vec<String>,
    /// Whether a best cell has the first or last value of a numeric axis: the optimum may be outside.
    pub grid_edge: bool,
    /// Whether no knob acted in any cell.
    pub inert: bool,
    /// Throughput of every measured cell over that of the highest, the highest itself left out.
    pub versus_best: Vec<(String, Estimate)>,
    /// Noise of one visit, relative; `None` with one round.
    pub spread: Option<Spread>,
    /// Ids of cells that vary more than the others do and are judged by their own noise.
    pub unsteady: Vec<String>,
}

/// All comparisons of a sweep.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparisons {
    /// Pairs of cells of a level.
    pub pairs: Vec<Comparison>,
    /// What is best at each level.
    pub levels: Vec<Level>,
    /// The noise they were judged against.
    pub noise_floor: NoiseFloor,
}

/// The visits of one gas level, as comparisons need them.
struct Group<'a> {
    load: Load,
    cells: Vec<&'a Summary>,
    /// Cells first, then A/A controls.
    layout: Layout,
}

/// Compares all pairs of cells of each gas level.
pub fn compare(outcome: &Outcome, summaries: &[Summary]) -> Comparisons {
    let groups = groups(outcome, summaries);
    let noise_floor = noise(&outcome.plan, &groups, outcome);
    let rules = Rules {
        error: error(&outcome.plan),
        noise: noise_floor.relative,
        relevant: outcome.plan.settings.min_effect,
    };
    let (mut pairs, mut levels) = (Vec::new(), Vec::new());
    for group in &groups {
        let compared = compare_all(&group.layout, group.cells.len(), &rules);
        let level = level(group, &compared);
        let resampled = Resampled::of(outcome, group, &level, MOST_DRAWS / groups.len());
        pairs.extend(
            compared
                .pairs
                .iter()
                .map(|pair| comparison(group, pair, &resampled, outcome.plan.settings.seed)),
        );
        levels.push(level);
    }
    Comparisons {
        pairs,
        levels,
        noise_floor,
    }
}

/// The chance of error of the comparisons of a level.
pub(super) fn error(plan: &Plan) -> f64 {
    match plan.settings.adaptive {
        Some(_) => rounds::FINAL_ERROR,
        None => ERROR,
    }
}

fn groups<'a>(outcome: &Outcome, summaries: &'a [Summary]) -> Vec<Group<'a>> {
    let group = |load: Load| {
        let cells = summaries.iter().filter(|s| load.is_of(&s.cell));
        Group {
            layout: layout_of(outcome, &load),
            cells: cells.collect(),
            load,
        }
    };
    outcome.plan.loads().into_iter().map(group).collect()
}

/// Throughputs of the visits of a level: its cells in the order of the plan, then its A/A controls.
pub(super) fn layout_of(outcome: &Outcome, load: &Load) -> Layout {
    let cells = outcome.plan.cells.iter().chain(&outcome.plan.controls);
    Layout::new(
        cells
            .filter(|cell| load.is_of(cell))
            .map(|cell| rounds_of(outcome, &cell.id)),
    )
}

fn comparison(group: &Group<'_>, pair: &Pair, resampled: &Resampled, seed: u64) -> Comparison {
    let (a, b) = (group.cells[pair.a], group.cells[pair.b]);
    let inert = a.knob.acted == Some(false) && b.knob.acted == Some(false);
    let verdict = pair.verdict.map(|verdict| match verdict {
        Verdict::Faster => "faster",
        Verdict::Slower => "slower",
        Verdict::NoDifference => "no difference",
    });
    Comparison {
        a: a.cell.id.clone(),
        b: b.cell.id.clone(),
        ratio: pair.ratio,
        verdict: if inert { Some("inert") } else { verdict },
        relevance: pair.relevance.map(|relevance| match relevance {
            Relevance::Relevant => "min-effect",
            Relevance::Irrelevant => "irrelevant",
            Relevance::Open => "open",
        }),
        bootstrap: resampled.interval(pair, seed),
    }
}

fn level(group: &Group<'_>, compared: &bench_stats::Comparisons) -> Level {
    let headline = |index: &usize| group.cells[*index].headline();
    let inert = !group.cells.is_empty()
        && group
            .cells
            .iter()
            .all(|cell| cell.knob.acted == Some(false));
    let mut best: Vec<usize> = compared.best(group.cells.len());
    if inert {
        best = (0..group.cells.len()).collect();
    }
    best.retain(|index| headline(index).is_some());
    let rank = |a: &usize, b: &usize| {
        headline(a)
            .unwrap_or(0.0)
            .total_cmp(&headline(b).unwrap_or(0.0))
    };
    let top = best.iter().copied().max_by(rank);
    if compared.spread.is_none() && !inert {
        // One round shows which is highest and nothing about the rest.
        best.retain(|index| Some(*index) == top);
    }
    best.sort_by_key(|index| (Some(*index) != top, *index));
    let measured = group.cells.iter().filter(|cell| cell.headline().is_some());
    let told_apart = best.len() < measured.count();
    let at_edge = |index: &usize| at_edge(group.cells[*index], &group.cells);
    let id = |index: usize| group.cells[index].cell.id.clone();
    Level {
        load: group.load.clone(),
        grid_edge: !inert && told_apart && best.iter().any(at_edge),
        inert,
        versus_best: top.map_or(Vec::new(), |top| versus(compared, top, id)),
        spread: compared.spread,
        unsteady: compared
            .unsteady
            .iter()
            .filter(|index| **index < group.cells.len())
            .map(|index| id(*index))
            .collect(),
        best: best.into_iter().map(id).collect(),
    }
}

/// Every other cell over the highest.
fn versus(
    compared: &bench_stats::Comparisons,
    top: usize,
    id: impl Fn(usize) -> String,
) -> Vec<(String, Estimate)> {
    let of_top = compared.pairs.iter().filter_map(|pair| match pair {
        Pair { a, b, ratio, .. } if *b == top => Some((id(*a), *ratio)),
        Pair { a, b, ratio, .. } if *a == top => Some((id(*b), inverse(*ratio))),
        _ => None,
    });
    of_top.collect()
}

fn inverse(ratio: Estimate) -> Estimate {
    Estimate {
        value: 1.0 / ratio.value,
        interval: ratio.interval.map(|(low, high)| (1.0 / high, 1.0 / low)),
    }
}

fn noise(plan: &Plan, groups: &[Group<'_>], outcome: &Outcome) -> NoiseFloor {
    let controls: Vec<(Control, Vec<f64>)> = plan
        .controls
        .iter()
        .filter_map(|control| {
            let of = control.control_of.clone()?;
            let rounds = |id: &str| rounds_of(outcome, id);
            let layout = Layout::new([rounds(&control.id), rounds(&of)]);
            let differences = layout.differences(0, 1);
            let rules = Rules {
                error: ERROR,
                noise: None,
                relevant: plan.settings.min_effect,
            };
            let pair = *compare_all(&layout, 2, &rules).pairs.first()?;
            let found = Control {
                id: control.id.clone(),
                of,
                rounds: differences.len() as u64,
                ratio: pair.ratio,
            };
            Some((found, differences))
        })
        .collect();
    let differences: Vec<Vec<f64>> = controls.iter().map(|(_, d)| d.clone()).collect();
    let controls: Vec<Control> = controls.into_iter().map(|(found, _)| found).collect();
    let (relative, source) = if let Some(noise) = noise_of_controls(&differences) {
        let cells = controls.iter().filter(|found| found.rounds > 1).count();
        (
            Some(noise),
            format!("difference between A/A controls of {cells} cells"),
        )
    } else if let Some(noise) = expected_noise(groups) {
        let source = "no cell has an A/A control; what the spread between rounds lets identical cells \
                      differ by";
        (Some(noise), source.to_owned())
    } else {
        let source = "unknown: no cell was measured twice; repeat with --rounds 3 or more";
        (None, source.to_owned())
    };
    NoiseFloor {
        relative,
        source,
        controls,
    }
}

/// What A/A controls would have shown, from the spread of visits.
fn expected_noise(groups: &[Group<'_>]) -> Option<f64> {
    let spreads = groups.iter().filter_map(|group| {
        let all: Vec<usize> = (0..group.layout.cells()).collect();
        let spread = group.layout.spread(&all)?;
        let most = all
            .iter()
            .map(|cell| group.layout.rounds(*cell).len())
            .max()?;
        Some((spread, most as u64))
    });
    noise_expected(&spreads.collect::<Vec<_>>())
}

/// Passes of a level, ready to be resampled.
struct Resampled {
    /// By cell, then round.
    passes: Vec<Vec<(u64, bootstrap::Pass)>>,
    /// The cell whose pairs are resampled; `None` when all are.
    only: Option<usize>,
    /// Replicates of each pair.
    replicates: usize,
}

impl Resampled {
    /// Draws so many rounds for a level. Pairs grow with the square of cells: when there are too many,
    /// only those with the highest cell are resampled, which make the best set.
    fn of(outcome: &Outcome, group: &Group<'_>, level: &Level, draws: usize) -> Self {
        let cells = group.cells.len();
        let all_pairs = cells * cells.saturating_sub(1) / 2;
        let rounds = (0..cells).map(|cell| group.layout.rounds(cell).len());
        let rounds = rounds.max().unwrap_or(0).max(1);
        let many = all_pairs * rounds * FEWEST_REPLICATES > draws;
        let top = level.best.first().filter(|_| many);
        let place = |id: &String| group.cells.iter().position(|cell| cell.cell.id == *id);
        let only = top.and_then(place);
        let pairs = if only.is_some() { cells } else { all_pairs };
        let replicates = draws / (rounds * pairs.max(1));
        let pass = |samples: &[Sample]| {
            let blocks = samples.iter();
            bootstrap::Pass::new(blocks.map(|sample| (sample.gas_used, sample.total_ns())))
        };
        let cells = group.cells.iter().map(|summary| {
            let rounds = outcome.passes.get(&summary.cell.id).into_iter().flatten();
            rounds
                .map(|(round, samples)| (*round, pass(samples)))
                .collect()
        });
        Self {
            passes: cells.collect(),
            only,
            replicates: replicates.clamp(FEWEST_REPLICATES, REPLICATES),
        }
    }

    fn interval(&self, pair: &Pair, seed: u64) -> Option<(f64, f64)> {
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
        let how = Resampling {
            replicates: self.replicates,
            error: CHECK_ERROR,
            seed,
        };
        bootstrap::two_stage(&a, &b, &how)
    }
}
