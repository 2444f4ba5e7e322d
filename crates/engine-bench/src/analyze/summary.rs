//! Statistics of single cells, as `report.json` has them.
//!
//! Invariant: throughputs are ratios of sums over the measured passes of a cell.

use super::{
    attribution::{Attribution, attribute},
    blocks::{Blocks, blocks},
    knob::{self, Knob, Roots},
    outcome::{Outcome, read_outcome, throughput},
    verdict::Ratio,
    work::Work,
};
use crate::{
    plan::{Cell, Visit},
    record::{RecordError, Running, Sample, log::engine_time_source},
    sweep::{Settings, is_default},
};
use bench_stats::{
    Estimate, Latencies, Throughput, interval::CONFIDENCE, steady::steadiness, throughput_of_rounds,
};
use serde::Serialize;
use serde_json::{Map, Value};
use std::path::Path;

/// The engine's flag that can leave state roots unchecked, and the value that does.
const ROOT_STRATEGY_FLAG: &str = "bench.root-strategy";
const UNCHECKED_ROOT: &str = "skip";

/// Chance of error at which a pass is said to have no steady state.
const UNSTEADY: f64 = 0.01;

/// Statistics of one cell.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// Its id.
    pub id: String,
    /// Engine, knobs and gas level.
    pub axes: Map<String, Value>,
    /// The cell as it was planned.
    #[serde(skip)]
    pub cell: Cell,
    /// Payloads of a measured pass.
    pub payloads: u64,
    /// Visits that gave numbers.
    pub visits: u64,
    /// Visits that failed.
    pub failed_visits: u64,
    /// Σ gas / Σ (newPayload + forkchoiceUpdated); null when no visit gave numbers.
    pub execution_ggas_per_second: Option<Measured>,
    /// The same of each visit that gave numbers.
    pub rounds: Vec<Round>,
    /// Σ gas / Σ newPayload.
    pub new_payload_ggas_per_second: Option<Measured>,
    /// Σ gas / wall time of the passes.
    pub wall_clock_ggas_per_second: Option<Measured>,
    /// Σ gas / Σ the engine's own time; null unless it told it for every block.
    pub engine_ggas_per_second: Option<Measured>,
    /// Client time of newPayload and forkchoiceUpdated together.
    pub latency_us: Option<Quantiles>,
    /// These latencies block by block; null when no visit gave numbers.
    pub blocks: Option<Blocks>,
    /// Whether the knob acted.
    pub knob: Knob,
    /// What the engine counted per block; null when it counts no jobs.
    pub work: Option<Work>,
    /// Whether the engine compared state roots with the headers'.
    pub root_checked: bool,
    /// Lines by which the engine left the path that was to be measured, in the measured passes; absent when there
    /// are none.
    #[serde(skip_serializing_if = "is_default")]
    pub fallbacks: u64,
    /// Whether the measured passes were in a steady state; null with fewer than 20 payloads.
    pub steady_state: Option<SteadyState>,
    /// Where the time of its blocks went; null when the engine tells nothing.
    pub attribution: Option<Attribution>,
}

/// A throughput.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Measured {
    /// The ratio of sums.
    #[serde(flatten)]
    pub ratio: Ratio,
    /// Confidence level of its interval; null with one round.
    pub confidence: Option<f64>,
    /// Where the times come from, when not from the client's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<&'static str>,
}

/// One visit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Round {
    /// Its round.
    pub round: u64,
    /// Its execution throughput.
    pub ggas_per_second: f64,
}

/// Quantiles in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Quantiles {
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Largest.
    pub max: f64,
}

/// A test for a shift or a trend of block times within the measured passes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SteadyState {
    /// Whether no shift that matters was found.
    pub steady: bool,
    /// Chance of a shift as large in a steady state.
    pub p_value: f64,
    /// Payloads before the most likely change.
    pub change_at: u64,
    /// Time per gas after it relative to before it: -0.04 is 4 % less.
    pub relative: f64,
}

impl From<Estimate> for Measured {
    fn from(estimate: Estimate) -> Self {
        Self {
            ratio: estimate.into(),
            confidence: estimate.interval.map(|_| CONFIDENCE),
            source: None,
        }
    }
}

/// Summarizes every cell of a sweep, in the order of the plan.
pub fn summarize(outcome: &Outcome) -> Vec<Summary> {
    let cells = &outcome.plan.cells;
    let work = |cell: &Cell| {
        let samples = outcome.rounds(&cell.id).flat_map(|(_, pass)| pass);
        Work::of(&samples.collect::<Vec<_>>())
    };
    let works: Vec<Option<Work>> = cells.iter().map(work).collect();
    let roots = |cell: &Cell| Roots {
        all: outcome
            .rounds(&cell.id)
            .map(|(_, pass)| pass.len() as u64)
            .sum(),
        without_task: outcome
            .measured(&cell.id)
            .map(|pass| pass.roots_without_task)
            .sum(),
    };
    let roots: Vec<Roots> = cells.iter().map(roots).collect();
    let knobs = knob::judge(cells, &works, &roots);
    let evidence = knobs.into_iter().zip(works);
    let found = cells.iter().zip(evidence);
    found
        .map(|(cell, evidence)| one(outcome, cell, evidence))
        .collect()
}

/// What is known of each cell while a sweep is under way, as the report would say it then: of those that have a
/// number, in the order of the plan.
///
/// # Errors
/// When the results folder cannot be read.
pub fn running(dir: &Path) -> Result<Vec<Running>, RecordError> {
    let of = |summary: Summary| {
        let Ratio { value, low, high } = summary.execution_ggas_per_second?.ratio;
        Some(Running {
            cell: summary.id,
            visits: summary.visits,
            ggas_per_second: value,
            low,
            high,
        })
    };
    let summaries = summarize(&read_outcome(dir)?);
    Ok(summaries.into_iter().filter_map(of).collect())
}

fn one(outcome: &Outcome, cell: &Cell, (knob, work): (Knob, Option<Work>)) -> Summary {
    let settings = &outcome.plan.settings;
    let passes: Vec<&[Sample]> = outcome.rounds(&cell.id).map(|(_, pass)| pass).collect();
    let measured = |time_ns: fn(&[Sample]) -> Option<u64>| {
        let of_pass = |pass: &&[Sample]| {
            let Throughput { gas, .. } = throughput(pass);
            Some(Throughput::new(gas, time_ns(pass)?))
        };
        let rounds: Option<Vec<Throughput>> = passes.iter().map(of_pass).collect();
        throughput_of_rounds(&rounds?).map(Measured::from)
    };
    let engine = measured(|pass| pass.iter().map(|sample| sample.engine_ns).sum());
    let is_failed = |visit: &&Visit| {
        let mut failures = outcome.failures.iter();
        visit.cell == cell.id && failures.any(|failure| failure.visit == visit.id())
    };
    let latencies = passes.iter().copied().flatten().map(Sample::total_ns);
    let latencies = Latencies::of(latencies.collect()).map(|found| found.scaled(1e-3));
    let round = |(round, found): (u64, Throughput)| {
        let ggas_per_second = found.ggas_per_second()?;
        Some(Round {
            round,
            ggas_per_second,
        })
    };
    Summary {
        id: cell.id.clone(),
        axes: cell.axes(),
        cell: cell.clone(),
        payloads: passes.first().map_or(0, |pass| pass.len() as u64),
        visits: passes.len() as u64,
        failed_visits: outcome.plan.visits.iter().filter(is_failed).count() as u64,
        execution_ggas_per_second: measured(|pass| Some(throughput(pass).time_ns)),
        rounds: outcome.throughputs(&cell.id).filter_map(round).collect(),
        new_payload_ggas_per_second: measured(|pass| {
            Some(pass.iter().map(|sample| sample.new_payload_ns).sum())
        }),
        wall_clock_ggas_per_second: measured(|pass| pass.last().map(|sample| sample.end_ns)),
        engine_ggas_per_second: engine.map(|engine| Measured {
            source: Some(time_source(settings, cell)),
            ..engine
        }),
        latency_us: latencies.map(|Latencies { p50, p90, p99, max }| Quantiles {
            p50,
            p90,
            p99,
            max,
        }),
        blocks: blocks(&passes, outcome.plan.cells.len()),
        knob,
        work,
        root_checked: root_checked(cell, settings),
        fallbacks: outcome.measured(&cell.id).map(|pass| pass.fallbacks).sum(),
        steady_state: steady_state(&passes, settings.min_effect),
        attribution: attribute(outcome, &cell.id, |_| true),
    }
}

/// What is said of the time that the engine of a cell tells.
fn time_source(settings: &Settings, cell: &Cell) -> &'static str {
    let mut engines = settings.engines.iter();
    let engine = engines.find(|engine| engine.name == cell.engine);
    engine_time_source(engine.map(|engine| engine.kind).unwrap_or_default())
}

/// Whether a cell's engine was left to check state roots.
fn root_checked(cell: &Cell, settings: &Settings) -> bool {
    let mut shared = settings.set.iter();
    let shared = shared.find(|set| set.flag == ROOT_STRATEGY_FLAG);
    let own = cell.flag(ROOT_STRATEGY_FLAG);
    let strategy = own.or(shared.map(|set| set.value.as_str()));
    strategy != Some(UNCHECKED_ROOT)
}

/// Tests the logarithm of time per gas of each payload, averaged over passes of equal length.
fn steady_state(passes: &[&[Sample]], relevant: f64) -> Option<SteadyState> {
    let blocks = passes.iter().map(|pass| pass.len()).min().unwrap_or(0);
    let log = |sample: &Sample| (sample.total_ns() as f64 / sample.gas_used as f64).ln();
    let logs = (0..blocks).map(|block| {
        let sum: f64 = passes.iter().map(|pass| log(&pass[block])).sum();
        sum / passes.len() as f64
    });
    // A block without gas has no time per gas.
    let logs: Vec<f64> = logs.filter(|log| log.is_finite()).collect();
    let found = steadiness(&logs)?;
    Some(SteadyState {
        steady: found.p_value >= UNSTEADY || found.relative.abs() <= relevant,
        p_value: found.p_value,
        change_at: found.change_at as u64,
        relative: found.relative,
    })
}
