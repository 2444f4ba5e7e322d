//! What happened in a sweep: the files of its results folder, and the one reading of them.
//!
//! The journal and the samples are appended and never changed. [`History`] is all that they say, folded
//! once: `run` goes on from it, `analyze` and every report rest on it.
//!
//! Invariant: computes no statistics and asks no engine; what is unknown is absent, never guessed.

mod attempt;
mod environment;
mod event;
mod history;
mod manifest;
mod metrics;
mod running;
mod time;

pub mod column;
pub mod journal;
pub mod log;
pub mod sample;

pub use attempt::{Attempt, Ended};
pub use environment::Environment;
pub use event::{
    DatabaseFacts, Decision, Event, Failure, Interleaving, LevelDecision, PassFacts, Record,
    ResetFacts, Start, StateFacts, VisitFacts, VisitTimes,
};
pub(crate) use history::VOID_SUFFIX;
pub use history::{History, RecordError};
pub use journal::{JOURNAL_FILE, Journal, JournalError};
pub use manifest::{EngineSum, Manifest, PayloadSum, plan_sum};
pub use metrics::{PassMetrics, metrics_sum, write_metrics};
pub use running::Running;
pub use sample::{Sample, SampleError};
pub use time::TimeSplit;

use alloy_primitives::hex;
use sha2::{Digest as _, Sha256};
use std::path::{Path, PathBuf};

/// Folder of the visits inside a results folder.
pub const VISITS_DIR: &str = "visits";
/// Folder of a visit's discarded pass.
pub const WARMUP_DIR: &str = "warmup";
/// Folder of a visit's measured pass.
pub const MEASURED_DIR: &str = "measured";
/// The engine's output during a pass.
pub const ENGINE_LOG: &str = "engine.log";

/// The measured pass of a visit, whose files are in this folder of `visits/`.
pub fn measured_dir(results: &Path, visit: &str) -> PathBuf {
    results.join(VISITS_DIR).join(visit).join(MEASURED_DIR)
}

/// SHA-256 of these bytes, in hexadecimal.
fn sum(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}
