//! What `report.json` says of cells beside each other: best sets, comparisons, noise, rounds decided.
//!
//! Invariant: a field that is unknown is null; no interval and no verdict is invented.

use super::{curve::CurveReport, model::CellReport};
use crate::{
    analyze::{self, Comparisons, Outcome},
    plan::Load,
    record::Decision,
    sweep::MIX_AXIS,
};
use bench_stats::Estimate;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What is best at a gas level.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LevelReport {
    /// The level.
    #[serde(flatten)]
    pub load: Load,
    /// Ids of the cells that none beats, the one with the highest throughput first.
    pub best: Vec<String>,
    /// Whether a best cell is at the edge of the values tried.
    pub grid_edge: bool,
    /// Whether no knob acted.
    pub inert: bool,
    /// Every other measured cell against the first of the best.
    #[serde(default)]
    pub versus_best: Vec<VersusReport>,
    /// Relative standard deviation of one visit around its cell and round; null with one round.
    #[serde(default)]
    pub visit_noise: Option<f64>,
    /// Cells that vary more than the others do and are judged by their own noise.
    #[serde(default)]
    pub unsteady: Vec<String>,
    /// Curves over its numeric axes; of axes with at least five values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub curves: Vec<CurveReport>,
}

/// A cell against the highest of its level.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VersusReport {
    /// Its id.
    pub cell: String,
    /// Its execution throughput over that of the highest.
    pub ratio: RatioReport,
}

/// How the rounds of an adaptive sweep were decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AdaptiveReport {
    /// Half width that intervals were to reach, relative.
    pub precision: f64,
    /// Time it was given, in seconds; null without a budget.
    pub budget_s: Option<f64>,
    /// Rounds made, also partly.
    pub rounds: u64,
    /// Every decision, in order.
    pub decisions: Vec<Decision>,
}

/// One setting of the knobs across gas levels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RankReport {
    /// The knobs, engine included.
    pub axes: Map<String, Value>,
    /// Mean execution throughput over gas levels; null when a level is missing.
    pub average_ggas_per_second: Option<f64>,
    /// Counted from 1.
    pub rank: Option<u64>,
}

/// The ratio of two throughputs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RatioReport {
    /// Throughput of `a` over that of `b`.
    pub value: f64,
    /// Lower end; null with one round.
    pub low: Option<f64>,
    /// Upper end; null with one round.
    pub high: Option<f64>,
}

/// Two cells and a verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ComparisonReport {
    /// Id of the first cell.
    pub a: String,
    /// Id of the second cell.
    pub b: String,
    /// Execution throughput of `a` over that of `b`; the intervals of a level hold together.
    pub ratio: RatioReport,
    /// `faster`, `slower`, `no difference` or `inert`.
    pub verdict: String,
    /// `relevant`, `irrelevant` or `open`: whether the difference matters.
    #[serde(default)]
    pub relevance: Option<String>,
    /// The interval of this pair by resampling; null with one round, and where it would take too long.
    #[serde(default)]
    pub bootstrap: Option<IntervalReport>,
}

/// Two ends.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct IntervalReport {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// Two cells that have too few rounds in common for a verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UndecidedReport {
    /// Id of the first cell.
    pub a: String,
    /// Id of the second cell.
    pub b: String,
    /// Execution throughput of `a` over that of `b`.
    pub ratio: RatioReport,
}

/// How much identical cells differ.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NoiseReport {
    /// Relative; null when unknown.
    pub relative: Option<f64>,
    /// Where the figure comes from.
    pub source: String,
    /// Cells that were measured twice under two names.
    #[serde(default)]
    pub controls: Vec<ControlReport>,
    /// Where the noise of visits comes from, by gas level; empty with one round.
    #[serde(default)]
    pub levels: Vec<LevelNoiseReport>,
}

/// An A/A control beside its original.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ControlReport {
    /// Id of the A/A control.
    pub id: String,
    /// Id of the cell it repeats.
    pub of: String,
    /// Rounds that have both.
    pub rounds: u64,
    /// Execution throughput of the A/A control over that of its original.
    pub ratio: RatioReport,
}

/// Where the noise of the visits of a level comes from, as relative standard deviations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LevelNoiseReport {
    /// The level.
    #[serde(flatten)]
    pub load: Load,
    /// Of a visit as a whole: restart and pass.
    pub visit: f64,
    /// Of one payload, neighbours' dependence included.
    pub payload: f64,
    /// Payloads of a pass.
    pub payloads: u64,
    /// Payloads of a pass that would give the narrowest intervals in the same time; null when visits
    /// differ by no more than their payloads explain.
    pub best_payloads: Option<u64>,
}

pub(super) fn decided(comparisons: &Comparisons) -> Vec<ComparisonReport> {
    let pairs = comparisons.pairs.iter().filter_map(|pair| {
        Some(ComparisonReport {
            a: pair.a.clone(),
            b: pair.b.clone(),
            ratio: RatioReport::of(pair.ratio),
            verdict: pair.verdict?.to_owned(),
            relevance: pair.relevance.map(str::to_owned),
            bootstrap: pair
                .bootstrap
                .map(|(low, high)| IntervalReport { low, high }),
        })
    });
    pairs.collect()
}

pub(super) fn undecided(comparisons: &Comparisons) -> Vec<UndecidedReport> {
    let pairs = comparisons.pairs.iter();
    let report = |pair: &analyze::Comparison| UndecidedReport {
        a: pair.a.clone(),
        b: pair.b.clone(),
        ratio: RatioReport::of(pair.ratio),
    };
    pairs
        .filter(|pair| pair.verdict.is_none())
        .map(report)
        .collect()
}

impl AdaptiveReport {
    pub(super) fn of(outcome: &Outcome) -> Option<Self> {
        let adaptive = outcome.plan.settings.adaptive?;
        let rounds = outcome.passes.values().flat_map(|rounds| rounds.keys());
        Some(Self {
            precision: adaptive.precision,
            budget_s: adaptive.budget_s,
            rounds: rounds.max().copied().unwrap_or(0),
            decisions: outcome.decisions.clone(),
        })
    }
}

impl NoiseReport {
    pub(super) fn of(outcome: &Outcome, noise: &analyze::NoiseFloor) -> Self {
        let controls = noise.controls.iter().map(|found| ControlReport {
            id: found.id.clone(),
            of: found.of.clone(),
            rounds: found.rounds,
            ratio: RatioReport::of(found.ratio),
        });
        let levels = analyze::level_noise(outcome);
        let levels = levels.into_iter().map(|level| LevelNoiseReport {
            load: level.load,
            visit: level.components.visit.sqrt(),
            payload: level.components.block.sqrt(),
            payloads: level.components.blocks as u64,
            best_payloads: level.best_payloads,
        });
        Self {
            relative: noise.relative,
            source: noise.source.clone(),
            controls: controls.collect(),
            levels: levels.collect(),
        }
    }
}

impl RatioReport {
    pub(super) fn of(estimate: Estimate) -> Self {
        let Estimate { value, interval } = estimate;
        Self {
            value,
            low: interval.map(|(low, _)| low),
            high: interval.map(|(_, high)| high),
        }
    }
}

impl LevelReport {
    /// Whether a cell is of this level.
    pub(super) fn is_of(&self, cell: &CellReport) -> bool {
        let mix = cell.axes.get(MIX_AXIS).and_then(Value::as_str);
        cell.axes.get("gas") == Some(&self.load.gas.0.into())
            && (self.load.mix.is_none() || self.load.mix.as_deref() == mix)
    }

    pub(super) fn of(outcome: &Outcome, level: &analyze::Level) -> Self {
        let curves = analyze::responses(outcome, &level.load).into_iter();
        let versus = level.versus_best.iter();
        Self {
            load: level.load.clone(),
            best: level.best.clone(),
            grid_edge: level.grid_edge,
            inert: level.inert,
            versus_best: versus
                .map(|(cell, ratio)| VersusReport {
                    cell: cell.clone(),
                    ratio: RatioReport::of(*ratio),
                })
                .collect(),
            visit_noise: level.spread.map(|spread| spread.deviation),
            unsteady: level.unsteady.clone(),
            curves: curves.map(CurveReport::of).collect(),
        }
    }
}

impl RankReport {
    pub(super) fn of(ranked: analyze::Ranked) -> Self {
        let analyze::Ranked {
            knobs,
            average,
            rank,
        } = ranked;
        Self {
            axes: knobs,
            average_ggas_per_second: average,
            rank,
        }
    }
}
