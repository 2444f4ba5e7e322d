//! Where the time of a block went: the client's time cut into phases by what the engine measured.
//!
//! With metrics, each phase is the growth of a summary's `_sum` over the measured passes; without, the
//! engine's log gives a coarser cut. What no metric covers is shown as such, so that the phases of a
//! cell add up to its client time.
//!
//! Invariant: nothing is guessed; a phase that the engine does not measure is part of a remainder.

use super::{outcome::Outcome, work::Work};
use crate::record::{
    PassMetrics, Sample,
    column::{Column, Unit},
};
use engine_api::metric::{self, Metric};
use serde::Serialize;

/// A step of a block.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Phase {
    /// Its name for programs.
    pub key: &'static str,
    /// Its name for people, fitting `+4.1 ms ...`.
    pub label: &'static str,
    /// Mean time of a block, in milliseconds.
    pub ms_per_block: f64,
}

/// Something that was counted.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Count {
    /// Its name for programs.
    pub key: &'static str,
    /// Its name for people, fitting `... per block 3 → 24`.
    pub label: &'static str,
    /// Mean of a block.
    pub per_block: f64,
}

/// Where the time of a cell's blocks went.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Attribution {
    /// `metrics` or `log`.
    pub source: &'static str,
    /// Blocks of the measured passes.
    pub blocks: u64,
    /// One after another; together they are the client's time.
    pub phases: Vec<Phase>,
    /// What happens beside them.
    pub beside: Vec<Phase>,
    /// What was counted.
    pub counts: Vec<Count>,
    /// Part of the root workers' time in which they had no CPU or no work, 0 to 1.
    pub workers_idle: Option<f64>,
    /// Largest relative difference between the metrics and the engine's log where both tell the same.
    pub log_difference: Option<f64>,
}

impl Attribution {
    /// The client's time of a block, in milliseconds.
    pub(crate) fn total_ms(&self) -> f64 {
        self.phases.iter().map(|phase| phase.ms_per_block).sum()
    }

    /// The part of a phase; `None` where the engine does not tell it.
    pub(crate) fn ms(&self, key: &str) -> Option<f64> {
        let found = self.phases.iter().find(|phase| phase.key == key)?;
        Some(found.ms_per_block)
    }
}

/// Key, label and metric of what happens beside the phases.
type Measure = (&'static str, &'static str, Metric);

/// A phase: its key, its group, its label, and what measures it; those without are what is left of a whole.
pub(crate) type Row = (&'static str, &'static str, &'static str, Option<Metric>);

const TRANSPORT: &str = "transport";
const EXECUTION: &str = "execution";
const ROOT_WAIT: &str = "state root wait";
const REST: &str = "rest of newPayload";
const FORK_CHOICE: &str = "fork choice";

/// Phases that belong together, in their order.
pub(crate) const GROUPS: [&str; 5] = [TRANSPORT, EXECUTION, ROOT_WAIT, REST, FORK_CHOICE];

/// Rows of a table, each ended by a semicolon.
macro_rules! rows {
    ($($($cell:expr),+;)*) => { [$(($($cell),+)),*] };
}

/// Every phase, in the order of a block: until the engine thread has it, on that thread, and the fork choice.
pub(crate) const PHASES: [Row; 15] = rows! {
    "transport", TRANSPORT, "in transport and HTTP", None;
    "decode", TRANSPORT, "decoding the request", Some(metric::PAYLOAD_DECODE);
    "queue", TRANSPORT, "waiting for the engine thread", Some(metric::QUEUE_WAIT);
    "prepare", REST, "preparing the block", Some(metric::BLOCK_PREPARE);
    "pre_execution", EXECUTION, "in system calls before", Some(metric::PRE_EXECUTION);
    "sender_wait", EXECUTION, "waiting for senders", Some(metric::TRANSACTION_WAIT);
    "transactions", EXECUTION, "executing transactions", Some(metric::TRANSACTION_EXECUTION);
    "post_execution", EXECUTION, "in system calls after", Some(metric::POST_EXECUTION);
    "execution", EXECUTION, "in the rest of execution", None;
    "bundle", REST, "merging state changes", Some(metric::BUNDLE);
    "root_wait", ROOT_WAIT, "waiting for the state root", Some(metric::STATE_ROOT);
    "checks", REST, "comparing with the header", Some(metric::POST_VALIDATION);
    "engine_rest", REST, "in the rest of newPayload", None;
    "forkchoice", FORK_CHOICE, "in the fork choice", None;
    "forkchoice_rest", FORK_CHOICE, "around the fork choice", None;
};

const BESIDE: [Measure; 5] = rows! {
    "root_total", "of the root's job", metric::ROOT_TOTAL;
    "worker_busy", "of CPU time of root workers", metric::WORKER_BUSY;
    "after_answer", "of bookkeeping after the answer", metric::AFTER_ANSWER;
    "save", "of persistence", metric::SAVE_DURATION;
    "stall", "stalled by persistence", metric::BACKPRESSURE;
};

/// Where the time of a cell went in the given rounds; `None` when its engine tells nothing.
pub fn attribute(
    outcome: &Outcome,
    cell: &str,
    rounds: impl Fn(u64) -> bool,
) -> Option<Attribution> {
    let passes: Vec<_> = outcome
        .rounds(cell)
        .filter(|(round, _)| rounds(*round))
        .collect();
    let samples: Vec<&Sample> = passes.iter().flat_map(|(_, pass)| *pass).collect();
    if samples.is_empty() {
        return None;
    }
    let metrics = outcome.metrics.get(cell);
    let of_pass = |(round, _): &(u64, _)| metrics.and_then(|metrics| metrics.get(round));
    let metrics: Option<Vec<&PassMetrics>> = passes.iter().map(of_pass).collect();
    metrics
        .and_then(|metrics| from_metrics(&samples, &metrics))
        .or_else(|| from_log(&samples))
}

/// Sums over all passes, divided by their blocks.
struct PerBlock<'a> {
    passes: &'a [&'a PassMetrics],
    blocks: f64,
}

impl PerBlock<'_> {
    /// `None` when a pass lacks the metric.
    fn value(&self, metric: Metric) -> Option<f64> {
        let sums: Option<Vec<f64>> = self.passes.iter().map(|pass| pass.sum(metric)).collect();
        Some(sums?.iter().sum::<f64>() / self.blocks)
    }

    /// The same of seconds, in milliseconds.
    fn ms(&self, metric: Metric) -> Option<f64> {
        self.value(metric).map(|seconds| seconds * 1e3)
    }
}

/// To a millionth: nanoseconds where the unit is milliseconds. Further digits would be those of sums of
/// binary fractions.
pub(crate) fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

fn phase(key: &'static str, label: &'static str, ms_per_block: f64) -> Phase {
    Phase {
        key,
        label,
        ms_per_block: rounded(ms_per_block),
    }
}

/// Mean of a time of each block, in milliseconds; `None` when one lacks it.
fn mean_ms(samples: &[&Sample], time: fn(&Sample) -> Option<u64>) -> Option<f64> {
    let sum: Option<u64> = samples.iter().map(|sample| time(sample)).sum();
    Some(sum? as f64 / 1e6 / samples.len() as f64)
}

/// Client time of newPayload and of forkchoiceUpdated, likewise.
fn client_ms(samples: &[&Sample]) -> Option<(f64, f64)> {
    let new_payload = mean_ms(samples, |sample| Some(sample.new_payload_ns))?;
    let forkchoice = mean_ms(samples, |sample| Some(sample.forkchoice_updated_ns))?;
    Some((new_payload, forkchoice))
}

/// What was counted, by the columns of samples, where `mean` knows it.
fn counts(mean: impl Fn(&Column<Sample>) -> Option<f64>) -> Vec<Count> {
    let counted = Work::columns().filter(|column| column.about.unit == Unit::Count);
    let count = |column: &Column<Sample>| {
        Some(Count {
            key: column.name,
            label: column.about.label,
            per_block: rounded(mean(column)?),
        })
    };
    counted.filter_map(count).collect()
}

fn from_metrics(samples: &[&Sample], passes: &[&PassMetrics]) -> Option<Attribution> {
    let per_block = PerBlock {
        passes,
        blocks: samples.len() as f64,
    };
    let engine = per_block.ms(metric::NEW_PAYLOAD_LATENCY)?;
    let (client, forkchoice) = client_ms(samples)?;
    let on_thread = per_block.ms(metric::FORKCHOICE_LATENCY).unwrap_or(0.0);
    let measured = |groups: &[&str]| -> f64 {
        let rows = PHASES
            .iter()
            .filter(|(_, group, ..)| groups.contains(group));
        let told = rows.filter_map(|(.., metric)| per_block.ms((*metric)?));
        told.map(rounded).sum()
    };
    let execution = per_block.ms(metric::EXECUTION);
    let execution = execution.map(|whole| rounded(whole - measured(&[EXECUTION])));
    let on_engine = measured(&[EXECUTION, ROOT_WAIT, REST]) + execution.unwrap_or(0.0);
    let phase = |(key, _, label, metric): Row| {
        let ms = match (key, metric) {
            (_, Some(metric)) => per_block.ms(metric)?,
            ("transport", _) => client - engine - measured(&[TRANSPORT]),
            ("execution", _) => execution?,
            ("engine_rest", _) => engine - on_engine,
            ("forkchoice", _) => on_thread,
            _ => forkchoice - on_thread,
        };
        Some(phase(key, label, ms))
    };
    let beside = |(key, label, metric)| Some(self::phase(key, label, per_block.ms(metric)?));
    let busy = per_block.value(metric::WORKER_BUSY);
    let idle = per_block.value(metric::WORKER_IDLE);
    let parts = busy.zip(idle).filter(|(busy, idle)| busy + idle > 0.0);
    Some(Attribution {
        source: "metrics",
        blocks: samples.len() as u64,
        phases: PHASES.into_iter().filter_map(phase).collect(),
        beside: BESIDE.into_iter().filter_map(beside).collect(),
        counts: counts(|column| per_block.value(column.about.metric?)),
        workers_idle: parts.map(|(busy, idle)| rounded(idle / (busy + idle))),
        log_difference: log_difference(samples, &per_block).map(rounded),
    })
}

/// Largest relative difference of times that both sources tell.
fn log_difference(samples: &[&Sample], per_block: &PerBlock<'_>) -> Option<f64> {
    let times = Sample::COLUMNS.iter();
    let times = times.filter(|column| column.about.unit == Unit::Nanoseconds);
    let differences = times.filter_map(|column| {
        let counted = per_block.value(column.about.metric?)?;
        let told = column.mean(samples.iter().copied())? / 1e9;
        let scale = counted.max(told);
        (scale > 0.0).then_some((counted - told).abs() / scale)
    });
    differences.reduce(f64::max)
}

/// The coarser cut: root, the rest of the block, and everything around it.
fn from_log(samples: &[&Sample]) -> Option<Attribution> {
    let engine = mean_ms(samples, |sample| sample.engine_ns)?;
    let (client, forkchoice) = client_ms(samples)?;
    let mut phases = vec![phase("transport", "around the block", client - engine)];
    let root = mean_ms(samples, |sample| sample.state_root_ns);
    if let Some(root) = root {
        phases.push(phase("root_wait", "waiting for the state root", root));
    }
    let rest = engine - root.unwrap_or(0.0);
    phases.push(phase("engine_rest", "executing and checking", rest));
    phases.push(phase("forkchoice", "in the fork choice", forkchoice));
    Some(Attribution {
        source: "log",
        blocks: samples.len() as u64,
        phases,
        beside: Vec::new(),
        counts: counts(|column| column.mean(samples.iter().copied())),
        workers_idle: None,
        log_difference: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::sample::tests::sample;

    fn pass(values: &[(Metric, f64)]) -> PassMetrics {
        let exported = |grown: f64| -> String {
            let lines = values.iter().map(|(metric, sum)| {
                let (name, sum) = (metric.name, 100.0 + grown * sum);
                format!("{name}_sum {sum}\n{name}_count 1\n")
            });
            lines.collect()
        };
        PassMetrics::parse(&exported(0.0), &exported(1.0))
    }

    /// Two blocks of 10 ms newPayload and 2 ms fork choice each.
    fn samples() -> Vec<Sample> {
        let of = |number| Sample {
            state_root_ns: Some(3_000_000),
            engine_ns: Some(8_000_000),
            jobs: Some(4),
            ..sample(number, 1, 10_000_000, 2_000_000)
        };
        vec![of(1), of(2)]
    }

    fn attributed(values: &[(Metric, f64)]) -> Attribution {
        let samples = samples();
        let samples: Vec<_> = samples.iter().collect();
        from_metrics(&samples, &[&pass(values)]).unwrap()
    }

    /// What grew in the two blocks, in seconds; every phase that follows from it has a value of its own.
    const GREW: [(Metric, f64); 16] = [
        (metric::NEW_PAYLOAD_LATENCY, 0.016),
        (metric::PAYLOAD_DECODE, 0.001),
        (metric::QUEUE_WAIT, 0.0005),
        (metric::BLOCK_PREPARE, 0.0002),
        (metric::EXECUTION, 0.0062),
        (metric::PRE_EXECUTION, 0.0004),
        (metric::TRANSACTION_WAIT, 0.0016),
        (metric::TRANSACTION_EXECUTION, 0.002),
        (metric::POST_EXECUTION, 0.0008),
        (metric::BUNDLE, 0.0006),
        (metric::STATE_ROOT, 0.006),
        (metric::POST_VALIDATION, 0.0012),
        (metric::FORKCHOICE_LATENCY, 0.0011),
        (metric::CHUNKS, 8.0),
        (metric::WORKER_BUSY, 0.003),
        (metric::WORKER_IDLE, 0.009),
    ];

    #[test]
    fn every_phase_is_what_its_own_metric_grew_by_and_rests_are_what_is_left() {
        let found = attributed(&GREW);
        let expected = [
            1.25, 0.5, 0.25, 0.1, 0.2, 0.8, 1.0, 0.4, 0.7, 0.3, 3.0, 0.6, 0.9, 0.55, 1.45,
        ];
        let phases = found.phases.iter();
        let phases: Vec<_> = phases
            .map(|phase| (phase.key, phase.ms_per_block))
            .collect();
        let keys = PHASES.map(|(key, ..)| key).into_iter();
        assert_eq!(phases, keys.zip(expected).collect::<Vec<_>>());
        assert_eq!(
            (found.counts[0].key, found.counts[0].per_block),
            ("jobs", 4.0)
        );
        assert_eq!(found.workers_idle, Some(0.75));
        assert!(found.log_difference.unwrap() < 1e-9);
    }

    #[test]
    fn a_phase_that_is_not_measured_is_part_of_the_rest() {
        let left_out = [metric::PRE_EXECUTION, metric::POST_VALIDATION];
        let told = |grew: &&(Metric, f64)| left_out.iter().all(|left| left.name != grew.0.name);
        let found = attributed(&GREW.iter().filter(told).copied().collect::<Vec<_>>());
        for (key, expected) in [
            ("pre_execution", None),
            ("execution", Some(0.9)),
            ("checks", None),
            ("engine_rest", Some(1.5)),
        ] {
            assert_eq!(found.ms(key), expected, "{key}");
        }
    }

    #[test]
    fn a_log_that_says_something_else_is_noticed() {
        let found = attributed(&[
            (metric::NEW_PAYLOAD_LATENCY, 0.018),
            (metric::STATE_ROOT, 0.003),
        ]);
        assert!((found.log_difference.unwrap() - 0.5).abs() < 1e-9);
    }

    #[test]
    fn without_metrics_the_log_gives_a_coarser_cut() {
        let samples = samples();
        let found = from_log(&samples.iter().collect::<Vec<_>>()).unwrap();
        let ms = ["transport", "root_wait", "engine_rest"].map(|key| found.ms(key));
        assert_eq!(ms, [Some(2.0), Some(3.0), Some(5.0)]);
        let mut untold = samples[0].clone();
        untold.engine_ns = None;
        assert_eq!(from_log(&[&untold]), None);
    }
}
