//! What a journal tells: the events of a sweep and what they carry.
//!
//! Invariant: what is absent was not found; nothing has a value that nobody wrote.

use super::{Environment, Manifest};
use crate::{
    client::BlockIdentity,
    guard::{Calibration, Contamination, Preflight, Readings},
    sweep::is_default,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One line after the first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Unix time in milliseconds.
    pub unix_ms: u64,
    /// Seconds since the journal was opened by the process that wrote the line.
    pub at_s: f64,
    /// What happened.
    pub event: Event,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[expect(
    clippy::large_enum_variant,
    reason = "events are written one at a time, and a sweep begins once"
)]
pub enum Event {
    /// State and payloads exist: the clock of the sweep starts.
    SweepStarted(Start),
    /// State or payloads could not be made: nothing is measured.
    PreparationFailed(Failure),
    /// A visit begins.
    VisitStarted {
        /// Its id.
        visit: String,
        /// With whom it takes turns; absent when it has the machine to itself.
        #[serde(skip_serializing_if = "Option::is_none")]
        interleaving: Option<Interleaving>,
    },
    /// A visit in which everything was valid; its files are complete.
    VisitFinished {
        /// Its id.
        visit: String,
        /// What it spent its time on.
        times: VisitTimes,
        /// What was found beside the samples.
        #[serde(flatten)]
        facts: VisitFacts,
    },
    /// A visit in which everything was valid, but which others disturbed: it is repeated.
    VisitVoided {
        /// Its id.
        visit: String,
        /// Which try it was, counted from 1.
        attempt: u64,
        /// The folder inside `visits/` that its files are kept in.
        kept_in: String,
        /// What it spent its time on.
        times: VisitTimes,
        /// What was found, and why it is void.
        #[serde(flatten)]
        facts: VisitFacts,
    },
    /// A visit that gives no number.
    VisitFailed {
        /// How.
        #[serde(flatten)]
        failure: Failure,
        /// What it spent its time on until then.
        times: VisitTimes,
    },
    /// A visit that had finished, but does not count: it is repeated together with those that it took
    /// turns with, which had not.
    VisitUndone {
        /// Its id.
        visit: String,
        /// The folder inside `visits/` that its files are kept in.
        kept_in: String,
    },
    /// What an adaptive sweep visits next.
    Decided(Decision),
    /// The sweep was interrupted from outside.
    Interrupted,
    /// Every visit was made.
    SweepFinished,
}

/// What a sweep begins with, or goes on with.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// The block that every pass starts from.
    pub base: BlockIdentity,
    /// Engines as they call themselves, in the order of the plan.
    pub engine_versions: Vec<String>,
    /// The machine.
    pub environment: Environment,
    /// What about the machine makes measurements worse; absent when nothing was watched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preflight: Option<Preflight>,
    /// What is measured, by content.
    pub manifest: Manifest,
}

/// Something that gives no number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The visit, or `prepare` when nothing could be visited.
    pub visit: String,
    /// The step that failed.
    pub step: String,
    /// Why, in one line.
    pub cause: String,
    /// The end of the engine's log, when it says more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<String>,
}

/// How a visit of which each payload was one of several turns was made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interleaving {
    /// Ids of the other visits of the group.
    pub with: Vec<String>,
    /// Which of the engine's working copies it had, counted from 1.
    pub copy: u64,
}

/// What the next round of an adaptive sweep visits, and why.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// The round it was made after.
    pub after_round: u64,
    /// Ids of the cells of the next round, in the order of the plan; none ends the sweep.
    pub next: Vec<String>,
    /// Seconds left of the budget.
    pub left_s: Option<f64>,
    /// What it rests on, by gas level.
    pub levels: Vec<LevelDecision>,
}

/// A gas level when a decision was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LevelDecision {
    /// The level.
    #[serde(flatten)]
    pub load: crate::plan::Load,
    /// Relative half width of its intervals; `None` while unknown.
    pub precision: Option<f64>,
    /// Rounds in all that the wanted resolution takes, whether they are granted or not.
    pub wanted_rounds: u64,
    /// Further rounds that it may get.
    pub given_rounds: u64,
    /// What a round of it costs, in seconds.
    pub round_s: f64,
    /// Ids of cells that leave because they are clearly beaten.
    pub beaten: Vec<String>,
    /// Ids of cells that stop although their place is open: the rounds left would hardly decide it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub futile: Vec<String>,
}

/// What a visit spent its time on, in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct VisitTimes {
    /// Bringing the datadir back.
    pub reset_s: f64,
    /// From starting the engine to its first fork choice.
    pub start_s: f64,
    /// Stopping the engine.
    pub stop_s: f64,
    /// Σ (newPayload + forkchoiceUpdated) of the warm-up.
    pub warmup_s: f64,
    /// Σ (newPayload + forkchoiceUpdated) of the measured pass.
    pub measured_s: f64,
    /// Deliberate waiting between payloads.
    pub wait_s: f64,
    /// The guard's looks and the calibration.
    pub guard_s: f64,
    /// Gas of the measured pass; the samples say it, so it is not written.
    #[serde(skip)]
    pub measured_gas: u64,
}

/// What was found in a visit beside its samples.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct VisitFacts {
    /// One entry for each pass, in order; the last is the measured one.
    pub passes: Vec<PassFacts>,
    /// What disturbed the measured pass.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub contaminations: Vec<Contamination>,
}

/// What was found in a pass beside its samples.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PassFacts {
    /// `warmup` or `measured`, as its folder is called.
    pub pass: String,
    /// SHA-256 of its `samples.csv`, in hexadecimal.
    pub samples_sha256: String,
    /// SHA-256 of what the engine exported before and after it, in hexadecimal; absent when it exported nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics_sha256: Option<String>,
    /// The state that it began with.
    pub state: StateFacts,
    /// How long the fixed work took just before; of measured passes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Calibration>,
    /// What the machine did meanwhile; of measured passes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<Readings>,
    /// Lines of its log by which the engine left the path that was to be measured; such a pass is a failure
    /// unless `--allow-fallback` is given.
    #[serde(default, skip_serializing_if = "is_default")]
    pub fallbacks: u64,
    /// State roots that its log says were made without the task whose proofs a chunk size cuts.
    #[serde(default, skip_serializing_if = "is_default")]
    pub roots_without_task: u64,
}

/// The state that a pass began with, after the reset. Its block was the base block, by number, hash
/// and state root: there is no pass otherwise.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateFacts {
    /// Size of all files of the datadir, in bytes.
    pub datadir_bytes: u64,
    /// What the engine counts in its database; absent when it has no command for that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub database: Option<DatabaseFacts>,
    /// The reset itself; absent in journals of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reset: Option<ResetFacts>,
}

/// How a datadir was brought back.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResetFacts {
    /// The method: of `--reset`, or what it came to with this engine and block.
    pub method: String,
    /// Time it took, without looking at what it left, in microseconds.
    pub took_us: u64,
}

/// What an engine counts in its database.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatabaseFacts {
    /// Size of the database's file, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_bytes: Option<u64>,
    /// Size of a page, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_bytes: Option<u64>,
    /// Pages up to the last one ever used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used_pages: Option<u64>,
    /// Pages that belong to no table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free_pages: Option<u64>,
    /// Rows of each table, duplicates counted.
    pub entries: BTreeMap<String, u64>,
}
