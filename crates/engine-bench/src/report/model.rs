//! `report.json`: what a sweep found, in the agreed shape.
//!
//! Invariant: a field that is unknown is null; no interval and no verdict is invented.

use super::warnings;
use crate::{
    analyze::{
        self, Comparisons, Failure, Knob, Outcome, Summary, TimeSplit, log::engine_time_source,
    },
    journal::Decision,
    plan::Load,
    run::Environment,
    sweep::{MIX_AXIS, Settings},
};
use bench_stats::{Estimate, Latencies, interval::CONFIDENCE, settle::Settling};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

const FORMAT: &str = "engine-bench-report";
const VERSION: u64 = 1;

/// Chance of error at which a pass is called unsettled.
const UNSETTLED: f64 = 0.01;

/// What a sweep found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Always `engine-bench-report`.
    pub format: String,
    /// Version of the format.
    pub version: u64,
    /// Whether every visit was made.
    pub complete: bool,
    /// One entry per cell, in the order of the plan.
    pub cells: Vec<CellReport>,
    /// One entry per gas level.
    pub levels: Vec<LevelReport>,
    /// Settings of the knobs averaged over gas levels.
    pub ranking: Vec<RankReport>,
    /// Pairs of cells of a level that there is a verdict about.
    pub comparisons: Vec<ComparisonReport>,
    /// Pairs that there is none about, because they were measured in fewer than two rounds.
    pub undecided: Vec<UndecidedReport>,
    /// How much identical cells differ.
    pub noise_floor: NoiseReport,
    /// How the rounds of an adaptive sweep were decided; null when their number was given.
    pub adaptive: Option<AdaptiveReport>,
    /// What a reader should doubt, a sentence each.
    pub warnings: Vec<String>,
    /// Where the time went.
    pub time_s: TimeSplit,
    /// Part of the wall time in which an engine was answering payloads, 0 to 1.
    pub answering_fraction: f64,
    /// What gave no number.
    pub failures: Vec<Failure>,
    /// The machine and the engines.
    pub environment: EnvironmentReport,
    /// The resolved settings.
    pub configuration: Settings,
}

/// One cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CellReport {
    /// Its id.
    pub id: String,
    /// Engine, knobs and gas level.
    pub axes: Map<String, Value>,
    /// Payloads of a measured pass.
    pub payloads: u64,
    /// Visits that gave numbers.
    pub visits: u64,
    /// Visits that failed.
    pub failed_visits: u64,
    /// Σ gas / Σ (newPayload + forkchoiceUpdated); null when no visit gave numbers.
    pub execution_ggas_per_second: Option<EstimateReport>,
    /// The same of each visit that gave numbers.
    #[serde(default)]
    pub rounds: Vec<RoundReport>,
    /// Σ gas / Σ newPayload.
    pub new_payload_ggas_per_second: Option<EstimateReport>,
    /// Σ gas / wall time of the passes.
    pub wall_clock_ggas_per_second: Option<EstimateReport>,
    /// Σ gas / Σ the engine's own time; null when the engine does not tell it.
    pub engine_ggas_per_second: Option<EstimateReport>,
    /// Client time of newPayload and forkchoiceUpdated together.
    pub latency_us: Option<LatencyReport>,
    /// Whether the knob acted.
    pub knob: Knob,
    /// Whether the measured passes had settled; null with fewer than 20 payloads.
    pub settling: Option<SettlingReport>,
}

/// One visit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RoundReport {
    /// Its round.
    pub round: u64,
    /// Its execution throughput.
    pub ggas_per_second: f64,
}

/// A test for a shift or a trend of block times within the measured passes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SettlingReport {
    /// Whether no shift that matters was found.
    pub settled: bool,
    /// Chance of a shift as large in a settled pass.
    pub p_value: f64,
    /// Payloads before the most likely change.
    pub change_at: u64,
    /// Time per gas after it relative to before it: -0.04 is 4 % less.
    pub relative: f64,
}

/// A value and its interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EstimateReport {
    /// The ratio of sums.
    pub value: f64,
    /// Lower end; null with one round.
    pub low: Option<f64>,
    /// Upper end; null with one round.
    pub high: Option<f64>,
    /// Confidence level; null with one round.
    pub confidence: Option<f64>,
    /// Where the times come from, when not from the client's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// Latency quantiles in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LatencyReport {
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Largest.
    pub max: f64,
}

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
    /// Relative difference that was to be resolved.
    pub resolve: f64,
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
    /// The interval of this pair by resampling; null with one round.
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

/// Two cells without a verdict.
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
    pub duplicates: Vec<DuplicateReport>,
    /// Where the noise of visits comes from, by gas level; empty with one round.
    #[serde(default)]
    pub levels: Vec<LevelNoiseReport>,
}

/// A duplicate beside its original.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DuplicateReport {
    /// Id of the duplicate.
    pub id: String,
    /// Id of the cell it repeats.
    pub of: String,
    /// Rounds that have both.
    pub rounds: u64,
    /// Execution throughput of the duplicate over that of its original.
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

/// The machine and the engines.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EnvironmentReport {
    /// The machine.
    pub machine: Environment,
    /// Engines as they call themselves.
    pub engines: Vec<String>,
}

impl Report {
    /// Computes the report of a sweep.
    pub fn of(outcome: &Outcome) -> Self {
        let summaries = analyze::summarize(outcome);
        let comparisons = analyze::compare(outcome, &summaries);
        let mut report = Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            complete: outcome.complete,
            cells: summaries
                .iter()
                .map(|summary| CellReport::of(summary, &outcome.plan.settings))
                .collect(),
            levels: comparisons.levels.iter().map(LevelReport::of).collect(),
            ranking: analyze::ranking(&summaries)
                .into_iter()
                .map(RankReport::of)
                .collect(),
            undecided: undecided(&comparisons),
            noise_floor: NoiseReport::of(outcome, &comparisons.noise_floor),
            comparisons: decided(&comparisons),
            adaptive: AdaptiveReport::of(outcome),
            warnings: Vec::new(),
            time_s: outcome.time_s,
            answering_fraction: outcome.time_s.answering(),
            failures: outcome.failures.clone(),
            environment: EnvironmentReport {
                machine: outcome.environment.clone(),
                engines: outcome.engine_versions.clone(),
            },
            configuration: outcome.plan.settings.clone(),
        };
        report.warnings = warnings::of(&report, &comparisons);
        report
    }

    /// Whether any cell has a number.
    pub fn measured_anything(&self) -> bool {
        self.cells
            .iter()
            .any(|cell| cell.execution_ggas_per_second.is_some())
    }

    /// The text of `report.json`.
    ///
    /// # Errors
    /// Never for a report made by [`Report::of`].
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(self).map(|json| json + "\n")
    }
}

fn decided(comparisons: &Comparisons) -> Vec<ComparisonReport> {
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

fn undecided(comparisons: &Comparisons) -> Vec<UndecidedReport> {
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
    fn of(outcome: &Outcome) -> Option<Self> {
        let adaptive = outcome.plan.settings.adaptive?;
        let rounds = outcome.passes.values().flat_map(|rounds| rounds.keys());
        Some(Self {
            resolve: adaptive.resolve,
            budget_s: adaptive.budget_s,
            rounds: rounds.max().copied().unwrap_or(0),
            decisions: outcome.decisions.clone(),
        })
    }
}

impl NoiseReport {
    fn of(outcome: &Outcome, noise: &analyze::NoiseFloor) -> Self {
        let duplicates = noise.duplicates.iter().map(|found| DuplicateReport {
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
            duplicates: duplicates.collect(),
            levels: levels.collect(),
        }
    }
}

impl SettlingReport {
    fn of(found: Settling, relevant: f64) -> Self {
        Self {
            settled: found.p_value >= UNSETTLED || found.relative.abs() <= relevant,
            p_value: found.p_value,
            change_at: found.change_at as u64,
            relative: found.relative,
        }
    }
}

impl CellReport {
    fn of(summary: &Summary, settings: &Settings) -> Self {
        let kind = settings.engines.iter().find_map(|engine| {
            let named = engine.name == summary.cell.engine;
            named.then_some(engine.kind)
        });
        let source = engine_time_source(kind.unwrap_or_default());
        let engine = summary.engine.map(|estimate| EstimateReport {
            source: Some(source.to_owned()),
            ..EstimateReport::of(estimate)
        });
        Self {
            id: summary.cell.id.clone(),
            axes: summary.cell.axes(),
            payloads: summary.payloads,
            visits: summary.visits,
            failed_visits: summary.failed_visits,
            execution_ggas_per_second: summary.execution.map(EstimateReport::of),
            rounds: summary
                .rounds
                .iter()
                .filter_map(|(round, found)| {
                    Some(RoundReport {
                        round: *round,
                        ggas_per_second: found.ggas_per_second()?,
                    })
                })
                .collect(),
            new_payload_ggas_per_second: summary.new_payload.map(EstimateReport::of),
            wall_clock_ggas_per_second: summary.wall_clock.map(EstimateReport::of),
            engine_ggas_per_second: engine,
            latency_us: summary.latency_us.map(LatencyReport::of),
            knob: summary.knob.clone(),
            settling: summary
                .settling
                .map(|found| SettlingReport::of(found, settings.relevant)),
        }
    }
}

impl EstimateReport {
    fn of(estimate: Estimate) -> Self {
        let Estimate { value, interval } = estimate;
        Self {
            value,
            low: interval.map(|(low, _)| low),
            high: interval.map(|(_, high)| high),
            confidence: interval.map(|_| CONFIDENCE),
            source: None,
        }
    }
}

impl RatioReport {
    fn of(estimate: Estimate) -> Self {
        let Estimate { value, interval } = estimate;
        Self {
            value,
            low: interval.map(|(low, _)| low),
            high: interval.map(|(_, high)| high),
        }
    }
}

impl LatencyReport {
    fn of(latencies: Latencies) -> Self {
        let Latencies { p50, p90, p99, max } = latencies;
        Self { p50, p90, p99, max }
    }
}

impl LevelReport {
    /// Whether a cell is of this level.
    pub(super) fn is_of(&self, cell: &CellReport) -> bool {
        let mix = cell.axes.get(MIX_AXIS).and_then(Value::as_str);
        cell.axes.get("gas") == Some(&self.load.gas.0.into())
            && (self.load.mix.is_none() || self.load.mix.as_deref() == mix)
    }

    fn of(level: &analyze::Level) -> Self {
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
        }
    }
}

impl RankReport {
    fn of(ranked: analyze::Ranked) -> Self {
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
