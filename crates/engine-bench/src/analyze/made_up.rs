//! Sweeps of made-up passes, for tests: everything but cells and passes is the small results folder's.

use super::{Comparison, Comparisons, Outcome, Ratio, Verdict, compare, read_outcome, summarize};
use crate::{
    plan::Cell,
    record::{Sample, sample::tests::sample},
    sweep::{Axis, CHUNK_SIZE_FLAG, Gas},
};
use std::path::Path;

/// Payloads of a pass.
const PAYLOADS: u64 = 4;

/// A cell and what its passes took.
#[derive(Clone)]
pub(crate) struct MadeUp {
    flags: Vec<(String, String)>,
    gas: Gas,
    /// Milliseconds of the passes, from round 1 on.
    ms: Vec<f64>,
    jobs: Option<u64>,
}

impl MadeUp {
    /// A cell of 10M gas with these flags.
    pub(crate) fn new(flags: &[(&str, &str)], ms: &[f64]) -> Self {
        let owned = |(flag, value): &(&str, &str)| ((*flag).to_owned(), (*value).to_owned());
        Self {
            flags: flags.iter().map(owned).collect(),
            gas: Gas(10_000_000),
            ms: ms.to_vec(),
            jobs: None,
        }
    }

    /// A cell of 10M gas with a chunk size.
    pub(crate) fn chunk(value: &str, ms: &[f64]) -> Self {
        Self::new(&[(CHUNK_SIZE_FLAG, value)], ms)
    }

    /// The same with passes of these throughputs.
    pub(crate) fn ggas(self, ggas: &[f64]) -> Self {
        let whole = (PAYLOADS * self.gas.0) as f64 / 1e6;
        let ms = ggas.iter().map(|ggas| whole / ggas).collect();
        Self { ms, ..self }
    }

    pub(super) fn gas(self, gas: u64) -> Self {
        let gas = Gas(gas);
        Self { gas, ..self }
    }

    /// What the engine counted for each block.
    pub(super) fn jobs(self, jobs: u64) -> Self {
        let jobs = Some(jobs);
        Self { jobs, ..self }
    }

    fn id(&self) -> String {
        let part = |(flag, value): &(String, String)| match flag.as_str() {
            CHUNK_SIZE_FLAG => format!("chunk{value}-"),
            _ => format!("{flag}_{value}-"),
        };
        let parts: String = self.flags.iter().map(part).collect();
        format!("{parts}gas{}", self.gas)
    }

    fn pass(&self, ms: f64) -> Vec<Sample> {
        let ns = (ms * 1e6 / PAYLOADS as f64) as u64;
        let of_payload = |number: u64| Sample {
            jobs: self.jobs,
            ..sample(self.gas.0 + number, self.gas.0, ns, 0)
        };
        (1..=PAYLOADS).map(of_payload).collect()
    }
}

/// What is said of `x` beside `y` after three rounds that gave as much of both.
pub(crate) fn comparison(verdict: Verdict) -> Comparison {
    Comparison {
        a: "x".into(),
        b: "y".into(),
        ratio: Ratio {
            value: 1.0,
            low: None,
            high: None,
        },
        rounds: 3,
        verdict,
        relevance: None,
        same_work: false,
        bootstrap: None,
    }
}

/// A pass whose blocks, from this number on, took so many nanoseconds each.
pub(super) fn pass(first: u64, times_ns: impl IntoIterator<Item = u64>) -> Vec<Sample> {
    let numbered = (first..).zip(times_ns);
    let samples = numbered.map(|(number, ns)| sample(number, 1, ns, 0));
    samples.collect()
}

/// The small results folder beside the tests.
pub(crate) fn results() -> Outcome {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/results");
    read_outcome(&dir).unwrap()
}

/// Milliseconds of four rounds that vary by half a percent.
pub(super) fn around(ms: f64, phase: usize) -> Vec<f64> {
    let ticks = [0.005, -0.005, 0.002, -0.002];
    let tick = |round| ticks[(round + phase) % 4];
    (0..4).map(|round| ms * (1.0 + tick(round))).collect()
}

/// What is said of a sweep of these cells.
pub(super) fn compared(cells: &[MadeUp]) -> Comparisons {
    let outcome = sweep(cells);
    compare(&outcome, &summarize(&outcome))
}

/// A sweep of these cells, in a fixed number of rounds and without A/A controls.
pub(crate) fn sweep(cells: &[MadeUp]) -> Outcome {
    let mut outcome = results();
    let like = outcome.plan.cells[0].clone();
    outcome.passes.clear();
    outcome.failures.clear();
    let levels = &mut outcome.plan.settings.levels;
    levels.retain(|level| cells.iter().any(|cell| cell.gas == level.gas));
    outcome.plan.cells.clear();
    outcome.plan.controls.clear();
    outcome.plan.settings.axes.clear();
    for made_up in cells {
        let rounds = (1..).zip(made_up.ms.iter().map(|ms| made_up.pass(*ms)));
        let rounds: std::collections::BTreeMap<u64, Vec<Sample>> = rounds.collect();
        if !rounds.is_empty() {
            outcome.passes.insert(made_up.id(), rounds);
        }
        outcome.plan.cells.push(Cell {
            id: made_up.id(),
            flags: made_up.flags.clone(),
            gas: made_up.gas,
            ..like.clone()
        });
        let axes = &mut outcome.plan.settings.axes;
        for (flag, _) in &made_up.flags {
            if !axes.iter().any(|axis| axis.flag == *flag) {
                let (flag, values) = (flag.clone(), Vec::new());
                axes.push(Axis { flag, values });
            }
        }
    }
    outcome
}
