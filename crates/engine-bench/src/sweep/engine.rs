//! The engines of a sweep: programs whose kind is known.
//!
//! Invariant: names of engines are unique in a sweep.

use super::{Axis, Setting, Version};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A named way to start a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineSpec {
    /// The name used in cells and reports.
    pub name: String,
    /// The executable.
    pub program: PathBuf,
    /// How it is spoken to on the command line.
    pub kind: EngineKind,
    /// Its release, where it tells one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<Version>,
    /// The chain of a datadir that was given: a file, or a name that the engine knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain: Option<String>,
    /// What it is always started with, unless the sweep says otherwise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<Setting>,
    /// Flags that this engine does not have: on an axis it has one cell for all values, otherwise it is started
    /// without it.
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
    /// ethrex.
    Ethrex,
}

impl EngineKind {
    /// What the first line of `--version` says; an engine that names itself otherwise is expected
    /// to speak as reth does.
    pub(crate) fn of_version(line: &str) -> Self {
        let first = line.split_whitespace().next().unwrap_or_default();
        // ethrex puts its version behind a slash.
        let first = first.split('/').next().unwrap_or_default();
        match first.to_ascii_lowercase().as_str() {
            "bench-reth" | "engine-bench" => Self::BenchReth,
            "geth" => Self::Geth,
            "ethrex" => Self::Ethrex,
            _ => Self::Reth,
        }
    }

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::BenchReth => "bench-reth",
            Self::Reth => "reth",
            Self::Geth => "geth",
            Self::Ethrex => "ethrex",
        }
    }

    /// Whether the engine has a command that unwinds a datadir.
    pub fn can_unwind(self) -> bool {
        !matches!(self, Self::Geth | Self::Ethrex)
    }

    /// Whether it has reth's command line.
    pub fn speaks_as_reth(self) -> bool {
        matches!(self, Self::BenchReth | Self::Reth)
    }

    /// The lowest block to which an unwind leaves the stored tries whole: reth's to block 0 clears them, and
    /// every block after it would walk the leaves of the state.
    pub fn lowest_unwind_target(self) -> u64 {
        u64::from(self == Self::Reth)
    }

    /// CPUs that it takes for state roots to be made by the task whose proofs the chunk size cuts: with fewer,
    /// upstream reth makes them another way, whatever the chunk size.
    pub fn root_task_cpus(self) -> usize {
        match self {
            Self::Reth => 5,
            Self::BenchReth | Self::Geth | Self::Ethrex => 1,
        }
    }
}

/// The first release of reth that tells which blocks are on disk.
const TELLS_PERSISTED_BLOCKS: Version = Version(1, 10, 0);

impl EngineSpec {
    /// Whether it tells on a subscription which blocks are on disk.
    pub fn tells_persisted_blocks(&self) -> bool {
        match self.kind {
            EngineKind::BenchReth => true,
            EngineKind::Reth => self
                .version
                .is_none_or(|version| version >= TELLS_PERSISTED_BLOCKS),
            EngineKind::Geth | EngineKind::Ethrex => false,
        }
    }

    /// Whether it is known to lack a flag, given without dashes.
    pub fn lacks(&self, flag: &str) -> bool {
        self.lacks.iter().any(|lacked| lacked == flag)
    }

    /// Whether it has the flag of an axis.
    pub fn has(&self, axis: &Axis) -> bool {
        !self.lacks(&axis.flag)
    }
}
