//! The engines of a sweep: programs whose kind is known.
//!
//! Invariant: names of engines are unique in a sweep.

use super::Axis;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A named way to start a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineSpec {
    /// The name used in cells and reports.
    pub name: String,
    /// The executable.
    pub program: PathBuf,
    /// How it is spoken to on the command line.
    pub kind: EngineKind,
    /// Flags on the sweep's axes that this engine does not have: it has one cell for all values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lacks: Vec<String>,
}

/// Families of engines, by command line and storage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EngineKind {
    /// The engine this program carries, in any build.
    #[default]
    BenchReth,
    /// An engine with reth's command line and a storage of its own.
    Reth,
    /// go-ethereum.
    Geth,
}

impl EngineKind {
    /// What the first line of `--version` says; an engine that names itself otherwise is expected
    /// to speak as reth does.
    pub(crate) fn of_version(line: &str) -> Self {
        let first = line.split_whitespace().next().unwrap_or_default();
        match first.to_ascii_lowercase().as_str() {
            "bench-reth" | "engine-bench" => Self::BenchReth,
            "geth" => Self::Geth,
            _ => Self::Reth,
        }
    }

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::BenchReth => "bench-reth",
            Self::Reth => "reth",
            Self::Geth => "geth",
        }
    }

    /// Whether the engine has a command that unwinds a datadir.
    pub fn can_unwind(self) -> bool {
        self != Self::Geth
    }

    /// The lowest block to which an unwind leaves the stored tries whole: reth's to block 0 clears them, and
    /// every block after it would walk the leaves of the state.
    pub fn lowest_unwind_target(self) -> u64 {
        u64::from(self == Self::Reth)
    }

    /// Whether it tells on a subscription which blocks are on disk.
    pub fn tells_persisted_blocks(self) -> bool {
        self != Self::Geth
    }
}

impl EngineSpec {
    /// Whether it has the flag of an axis.
    pub fn has(&self, axis: &Axis) -> bool {
        !self.lacks.contains(&axis.flag)
    }
}
