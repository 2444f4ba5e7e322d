//! Statistics of single cells.
//!
//! Invariant: throughputs are ratios of sums over the measured passes of a cell.

use super::{
    knob::{self, Knob},
    outcome::Outcome,
    work::Work,
};
use crate::{plan::Cell, record::Sample, sweep::Settings};
use bench_stats::{
    Estimate, Latencies, Throughput,
    steady::{Steadiness, steadiness},
    throughput_of_rounds,
};

/// The engine's flag that can leave state roots unchecked, and the value that does.
const ROOT_STRATEGY_FLAG: &str = "bench.root-strategy";
const UNCHECKED_ROOT: &str = "skip";

/// Statistics of one cell.
#[derive(Debug, Clone)]
pub struct Summary {
    /// The cell.
    pub cell: Cell,
    /// Payloads of one measured pass.
    pub payloads: u64,
    /// Visits that gave numbers.
    pub visits: u64,
    /// Visits that failed.
    pub failed_visits: u64,
    /// Σ gas / Σ (newPayload + forkchoiceUpdated).
    pub execution: Option<Estimate>,
    /// Σ gas / Σ newPayload.
    pub new_payload: Option<Estimate>,
    /// Σ gas / wall time of the passes.
    pub wall_clock: Option<Estimate>,
    /// Σ gas / Σ the engine's own time; `None` unless it told it for every block.
    pub engine: Option<Estimate>,
    /// Client time of newPayload and forkchoiceUpdated, in microseconds.
    pub latency_us: Option<Latencies>,
    /// Whether the knob acted.
    pub knob: Knob,
    /// What the engine counted; `None` when it counts no jobs.
    pub work: Option<Work>,
    /// Whether the engine compared state roots with the headers'.
    pub root_checked: bool,
    /// Execution throughput of each round that gave numbers.
    pub rounds: Vec<(u64, Throughput)>,
    /// Whether the measured passes were in a steady state; `None` with too few payloads to tell.
    pub steady_state: Option<Steadiness>,
}

/// Summarizes every cell of a sweep, in the order of the plan.
pub fn summarize(outcome: &Outcome) -> Vec<Summary> {
    let cells: Vec<&Cell> = outcome.plan.cells.iter().collect();
    let works: Vec<Option<Work>> = cells
        .iter()
        .map(|cell| {
            let samples: Vec<&Sample> = passes(outcome, cell).flat_map(|(_, pass)| pass).collect();
            Work::of(&samples)
        })
        .collect();
    let knobs = knob::judge(&cells, &works);
    let evidence = knobs.into_iter().zip(works);
    cells
        .into_iter()
        .zip(evidence)
        .map(|(cell, evidence)| one(outcome, cell, evidence))
        .collect()
}

fn passes<'a>(outcome: &'a Outcome, cell: &Cell) -> impl Iterator<Item = (u64, &'a Vec<Sample>)> {
    let rounds = outcome.passes.get(&cell.id).into_iter().flatten();
    rounds.map(|(round, samples)| (*round, samples))
}

fn one(outcome: &Outcome, cell: &Cell, (knob, work): (Knob, Option<Work>)) -> Summary {
    let passes: Vec<(u64, &Vec<Sample>)> = passes(outcome, cell).collect();
    let estimate = |time: fn(&[Sample]) -> Option<u64>| {
        let rounds: Option<Vec<Throughput>> = passes
            .iter()
            .map(|(_, pass)| Some(Throughput::new(gas(pass), time(pass)?)))
            .collect();
        throughput_of_rounds(&rounds?)
    };
    let latencies = passes
        .iter()
        .flat_map(|(_, pass)| *pass)
        .map(Sample::total_ns)
        .collect();
    let failed = outcome
        .plan
        .visits
        .iter()
        .filter(|visit| visit.cell == cell.id);
    let failed = failed.filter(|visit| {
        outcome
            .failures
            .iter()
            .any(|failure| failure.visit == visit.id())
    });
    Summary {
        payloads: passes.first().map_or(0, |(_, pass)| pass.len() as u64),
        visits: passes.len() as u64,
        failed_visits: failed.count() as u64,
        execution: estimate(|pass| Some(pass.iter().map(Sample::total_ns).sum())),
        new_payload: estimate(|pass| Some(pass.iter().map(|sample| sample.new_payload_ns).sum())),
        wall_clock: estimate(|pass| pass.last().map(|sample| sample.end_ns)),
        engine: estimate(|pass| pass.iter().map(|sample| sample.engine_ns).sum()),
        latency_us: Latencies::of(latencies).map(|latencies| latencies.scaled(1e-3)),
        rounds: rounds_of(outcome, &cell.id),
        steady_state: steadiness(&mean_logs(&passes)),
        root_checked: root_checked(cell, &outcome.plan.settings),
        cell: cell.clone(),
        knob,
        work,
    }
}

/// Whether a cell's engine was left to check state roots.
fn root_checked(cell: &Cell, settings: &Settings) -> bool {
    let own = cell.flags.iter().map(|(flag, value)| (flag, value));
    let shared = settings.set.iter().map(|set| (&set.flag, &set.value));
    let mut given = own.chain(shared);
    let strategy = given.find(|(flag, _)| flag.as_str() == ROOT_STRATEGY_FLAG);
    strategy.is_none_or(|(_, value)| value != UNCHECKED_ROOT)
}

/// Logarithm of time per gas of each payload, averaged over passes of equal length.
fn mean_logs(passes: &[(u64, &Vec<Sample>)]) -> Vec<f64> {
    let blocks = passes.iter().map(|(_, pass)| pass.len()).min().unwrap_or(0);
    let log = |sample: &Sample| (sample.total_ns() as f64 / sample.gas_used as f64).ln();
    let logs = (0..blocks).map(|block| {
        let sum: f64 = passes.iter().map(|(_, pass)| log(&pass[block])).sum();
        sum / passes.len() as f64
    });
    // A block without gas has no time per gas.
    logs.filter(|log| log.is_finite()).collect()
}

/// Execution throughput of each round of a cell, or of an A/A control, that gave numbers.
pub(super) fn rounds_of(outcome: &Outcome, id: &str) -> Vec<(u64, Throughput)> {
    let rounds = outcome.passes.get(id).into_iter().flatten();
    let throughput = |(round, pass): (&u64, &Vec<Sample>)| {
        let time_ns = pass.iter().map(Sample::total_ns).sum();
        (*round, Throughput::new(gas(pass), time_ns))
    };
    rounds.map(throughput).collect()
}

fn gas(pass: &[Sample]) -> u64 {
    pass.iter().map(|sample| sample.gas_used).sum()
}
