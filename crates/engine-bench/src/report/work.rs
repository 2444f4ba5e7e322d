//! What an engine counted while it made state roots, as `report.json` says it.
//!
//! Invariant: means per block, rounded to hundredths; what was not counted is null.

use crate::analyze::Work;
use serde::{Deserialize, Serialize};

/// Means per block over the measured passes of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct WorkReport {
    /// Batches of proof targets.
    pub batches: f64,
    /// Batches that were not cut.
    pub unsplit_batches: f64,
    /// Jobs the batches were cut into.
    pub jobs: f64,
    /// Accounts and slots fetched.
    pub targets: Option<f64>,
    /// Trie nodes that the jobs revealed.
    pub nodes_revealed: Option<f64>,
    /// Revealed nodes that another job had revealed before.
    pub nodes_reread: Option<f64>,
    /// Targets that needed no job, because their path was known.
    pub known_paths: Option<f64>,
    /// Trie nodes hashed.
    pub nodes_hashed: Option<f64>,
    /// Nodes that had to be worked on one after the other.
    pub longest_chain: Option<f64>,
    /// Time the engine was blocked on the root after execution, in microseconds.
    pub state_root_us: Option<f64>,
}

impl WorkReport {
    pub(super) fn of(work: Work) -> Self {
        let round = |value: f64| (100.0 * value).round() / 100.0;
        let known = |value: Option<f64>| value.map(round);
        Self {
            batches: round(work.batches),
            unsplit_batches: round(work.unsplit_batches),
            jobs: round(work.jobs),
            targets: known(work.targets),
            nodes_revealed: known(work.nodes_revealed),
            nodes_reread: known(work.nodes_reread),
            known_paths: known(work.known_paths),
            nodes_hashed: known(work.nodes_hashed),
            longest_chain: known(work.longest_chain),
            state_root_us: known(work.state_root_us),
        }
    }
}
