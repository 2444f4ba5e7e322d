//! `report.json`: what a sweep found, in the agreed shape.
//!
//! Invariant: a field that is unknown is null; no interval and no verdict is invented.

use crate::{
    analyze::{
        self, Comparisons, Failure, Knob, Outcome, Summary, TimeSplit, log::engine_time_source,
    },
    run::Environment,
    sweep::{Gas, Settings},
};
use bench_stats::{Estimate, Latencies, interval::CONFIDENCE};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

const FORMAT: &str = "engine-bench-report";
const VERSION: u64 = 1;

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
    pub gas: Gas,
    /// Ids of the best cell and of those not told apart from it.
    pub best: Vec<String>,
    /// Whether the best is at the edge of the values tried.
    pub grid_edge: bool,
    /// Whether no knob acted.
    pub inert: bool,
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
    /// Execution throughput of `a` over that of `b`.
    pub ratio: RatioReport,
    /// `faster`, `slower`, `no difference` or `inert`.
    pub verdict: String,
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
        let comparisons = analyze::compare(&summaries);
        let levels = analyze::levels(&summaries, |a, b| comparisons.alike(a, b));
        Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            complete: outcome.complete,
            cells: summaries
                .iter()
                .map(|summary| CellReport::of(summary, &outcome.plan.settings))
                .collect(),
            levels: levels.into_iter().map(LevelReport::of).collect(),
            ranking: analyze::ranking(&summaries)
                .into_iter()
                .map(RankReport::of)
                .collect(),
            undecided: undecided(&comparisons),
            noise_floor: NoiseReport {
                relative: comparisons.noise_floor.relative,
                source: comparisons.noise_floor.source.clone(),
            },
            comparisons: decided(comparisons),
            time_s: outcome.time_s,
            answering_fraction: outcome.time_s.answering(),
            failures: outcome.failures.clone(),
            environment: EnvironmentReport {
                machine: outcome.environment.clone(),
                engines: outcome.engine_versions.clone(),
            },
            configuration: outcome.plan.settings.clone(),
        }
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

fn decided(comparisons: Comparisons) -> Vec<ComparisonReport> {
    let report = |pair: analyze::Comparison| ComparisonReport {
        a: pair.a,
        b: pair.b,
        ratio: RatioReport::of(pair.ratio),
        verdict: pair.verdict.to_owned(),
    };
    comparisons.decided.into_iter().map(report).collect()
}

fn undecided(comparisons: &Comparisons) -> Vec<UndecidedReport> {
    let report = |pair: &analyze::Undecided| UndecidedReport {
        a: pair.a.clone(),
        b: pair.b.clone(),
        ratio: RatioReport::of(pair.ratio),
    };
    comparisons.undecided.iter().map(report).collect()
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
            new_payload_ggas_per_second: summary.new_payload.map(EstimateReport::of),
            wall_clock_ggas_per_second: summary.wall_clock.map(EstimateReport::of),
            engine_ggas_per_second: engine,
            latency_us: summary.latency_us.map(LatencyReport::of),
            knob: summary.knob.clone(),
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
    fn of(level: analyze::Level) -> Self {
        let analyze::Level {
            gas,
            best,
            grid_edge,
            inert,
        } = level;
        Self {
            gas,
            best,
            grid_edge,
            inert,
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
