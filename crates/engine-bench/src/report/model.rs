//! `report.json`: what a sweep found, in the agreed shape.
//!
//! Invariant: a field that is unknown is null; no interval and no verdict is invented.

use super::{
    attribution::{self, ChangeReport},
    blocks::{BlocksReport, blocks},
    caveats,
    guard::GuardReport,
    visits::{VisitReport, visits},
};
use crate::{
    analyze::{
        self, Attribution, Comparison, Knob, Level, NoiseFloor, Outcome, Stall, Summary, Widths,
        Work,
    },
    figures,
    guard::Preflight,
    profile::CellProfile,
    record::{Decision, Environment, Failure, Manifest, TimeSplit, log::engine_time_source},
    sweep::{MIX_AXIS, Settings},
    trace::CellTraces,
};
use bench_stats::{Estimate, Latencies, interval::CONFIDENCE, steady::Steadiness};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

const FORMAT: &str = "engine-bench-report";
const VERSION: u64 = 2;

/// Chance of error at which a pass is said to have no steady state.
const UNSTEADY: f64 = 0.01;

/// What a sweep found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Always `engine-bench-report`.
    pub format: String,
    /// Version of the format.
    pub version: u64,
    /// When the first visit began, as Unix time in milliseconds; 0 when none did.
    pub begun_unix_ms: u64,
    /// Whether every visit was made.
    pub complete: bool,
    /// One entry per cell, in the order of the plan.
    pub cells: Vec<CellReport>,
    /// One entry per gas level.
    pub levels: Vec<Level>,
    /// Pairs of cells of a level that share a round.
    pub comparisons: Vec<Comparison>,
    /// How much identical cells differ.
    pub noise_floor: NoiseFloor,
    /// How wide intervals were after every round, by gas level; empty with one round.
    pub widths: Vec<Widths>,
    /// Payloads that alone took much of a pass: the worst of each gas level that has one.
    pub stalls: Vec<Stall>,
    /// What moved between each cell and the reference of its level.
    #[serde(default)]
    pub attribution: Vec<ChangeReport>,
    /// Traces of single blocks that were made after everything was measured.
    #[serde(default)]
    pub traces: Vec<CellTraces>,
    /// Profiles that were made after everything was measured.
    #[serde(default)]
    pub profiles: Vec<CellProfile>,
    /// How the rounds of an adaptive sweep were decided; null when their number was given.
    pub adaptive: Option<AdaptiveReport>,
    /// What a reader should doubt, a sentence each.
    pub warnings: Vec<String>,
    /// Every visit in the order they were made, A/A controls included.
    #[serde(default)]
    pub visits: Vec<VisitReport>,
    /// Where the time went.
    pub time_s: TimeSplit,
    /// Part of the wall time in which an engine was answering payloads, 0 to 1.
    pub answering_fraction: f64,
    /// What gave no number.
    pub failures: Vec<Failure>,
    /// Disturbances, and what watching for them cost.
    #[serde(default)]
    pub guard: GuardReport,
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
    /// These latencies block by block; null when no visit gave numbers.
    #[serde(default)]
    pub blocks: Option<BlocksReport>,
    /// Whether the knob acted.
    pub knob: Knob,
    /// What the engine counted per block; null when it counts no jobs.
    #[serde(default)]
    pub work: Option<Work>,
    /// Whether the engine compared state roots with the headers'.
    #[serde(default = "checked")]
    pub root_checked: bool,
    /// Whether the measured passes were in a steady state; null with fewer than 20 payloads.
    pub steady_state: Option<SteadyReport>,
    /// Where the time of its blocks went; null when the engine tells nothing.
    #[serde(default)]
    pub attribution: Option<Attribution>,
}

fn checked() -> bool {
    true
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
pub struct SteadyReport {
    /// Whether no shift that matters was found.
    pub steady: bool,
    /// Chance of a shift as large in a steady state.
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

/// The machine and the engines.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EnvironmentReport {
    /// The machine.
    pub machine: Environment,
    /// Engines as they call themselves.
    pub engines: Vec<String>,
    /// What makes measurements worse on it; absent when nothing was watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preflight: Option<Preflight>,
    /// What was measured, by content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest: Option<Manifest>,
}

impl Report {
    /// Computes the report of a sweep.
    pub fn of(outcome: &Outcome) -> Self {
        let summaries = analyze::summarize(outcome);
        let comparisons = analyze::compare(outcome, &summaries);
        let begun = outcome.begun.clone().unwrap_or_default();
        let mut report = Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            begun_unix_ms: outcome
                .attempts
                .first()
                .map_or(0, |attempt| attempt.began_unix_ms),
            complete: outcome.complete && outcome.edited.is_empty(),
            cells: summaries
                .iter()
                .map(|summary| CellReport::of(summary, outcome))
                .collect(),
            levels: comparisons.levels,
            comparisons: comparisons.pairs,
            noise_floor: comparisons.noise_floor,
            widths: analyze::widths(outcome),
            stalls: analyze::stalls(outcome),
            attribution: Vec::new(),
            traces: outcome.traces.clone(),
            profiles: outcome.profiles.clone(),
            adaptive: AdaptiveReport::of(outcome),
            warnings: Vec::new(),
            visits: visits(outcome),
            time_s: outcome.time_s,
            answering_fraction: outcome.time_s.answering(),
            failures: outcome.failures.clone(),
            guard: GuardReport::of(outcome),
            environment: EnvironmentReport {
                manifest: outcome.manifest().cloned(),
                machine: begun.environment,
                engines: begun.engine_versions,
                preflight: begun.preflight,
            },
            configuration: outcome.plan.settings.clone(),
        };
        report.attribution = attribution::changes(outcome, &report);
        let found = [
            outcome.edited.clone(),
            outcome.notes.clone(),
            caveats::of(&report),
        ];
        report.warnings = found.concat();
        report
    }

    /// The cell of that id.
    pub(super) fn cell(&self, id: &str) -> Option<&CellReport> {
        self.cells.iter().find(|cell| cell.id == id)
    }

    /// The command line that began the sweep, where it was kept.
    pub(super) fn command(&self) -> Option<&str> {
        let manifest = self.environment.manifest.as_ref()?;
        (!manifest.command.is_empty()).then_some(&manifest.command)
    }

    /// What an engine's help calls the default of a flag.
    pub(super) fn default_of(&self, engine: &str, flag: &str) -> Option<String> {
        let manifest = self.environment.manifest.as_ref()?;
        let engine = manifest.engines.iter().find(|sum| sum.name == engine)?;
        engine.defaults.get(flag).cloned()
    }

    /// Whether any cell has a number.
    pub fn measured_anything(&self) -> bool {
        self.cells
            .iter()
            .any(|cell| cell.execution_ggas_per_second.is_some())
    }

    /// `report.json` as one line.
    ///
    /// # Errors
    /// Never for a report made by [`Report::of`].
    pub fn to_line(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self).map(|json| json + "\n")
    }

    /// The text of `report.json`.
    ///
    /// # Errors
    /// Never for a report made by [`Report::of`].
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(self).map(|json| json + "\n")
    }
}

impl SteadyReport {
    fn of(found: Steadiness, relevant: f64) -> Self {
        Self {
            steady: found.p_value >= UNSTEADY || found.relative.abs() <= relevant,
            p_value: found.p_value,
            change_at: found.change_at as u64,
            relative: found.relative,
        }
    }
}

impl CellReport {
    fn of(summary: &Summary, outcome: &Outcome) -> Self {
        let settings = &outcome.plan.settings;
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
            blocks: blocks(outcome, &summary.cell),
            knob: summary.knob.clone(),
            work: summary.work.clone(),
            root_checked: summary.root_checked,
            steady_state: summary
                .steady_state
                .map(|found| SteadyReport::of(found, settings.min_effect)),
            attribution: analyze::attribute(outcome, &summary.cell.id, |_| true),
        }
    }
}

impl Level {
    /// Whether a cell is of this level.
    pub(super) fn is_of(&self, cell: &CellReport) -> bool {
        let mix = cell.axes.get(MIX_AXIS).and_then(Value::as_str);
        cell.axes.get("gas") == Some(&self.load.gas.0.into())
            && (self.load.mix.is_none() || self.load.mix.as_deref() == mix)
    }
}

impl AdaptiveReport {
    fn of(outcome: &Outcome) -> Option<Self> {
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

impl EstimateReport {
    /// The value with the half width of its interval.
    pub(super) fn text(&self) -> String {
        figures::with_half_width(self.value, self.low.zip(self.high))
    }

    /// Half the width of its interval relative to the value, where that is known.
    pub(super) fn relative_half(&self) -> Option<f64> {
        let ends = self.low.zip(self.high);
        let (low, high) = ends.filter(|ends| figures::is_telling(*ends))?;
        Some((high - low) / 2.0 / self.value)
    }

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

impl LatencyReport {
    fn of(latencies: Latencies) -> Self {
        let Latencies { p50, p90, p99, max } = latencies;
        Self { p50, p90, p99, max }
    }
}
