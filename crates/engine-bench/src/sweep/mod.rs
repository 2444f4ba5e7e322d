//! What a sweep is asked to do: flags as typed become [`Settings`], where every value is resolved.
//!
//! Invariant: nothing after this module reads a flag, and every default has its home in
//! `resolve`.

mod engine;
mod resolve;
mod value;

pub use engine::{EngineKind, EngineSpec};
pub(crate) use engine::{embedded_engine, version_line};
pub use resolve::{ResolveError, resolve};
pub(crate) use resolve::{default_count, profile_name};
pub use value::{
    Axis, ChunkList, Gas, GasList, Percent, SWITCH_OFF, SWITCH_ON, Span, VARIABLE_PREFIX,
    ValueError, WarmUp,
};

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The flag that `--chunks` is short for.
pub const CHUNK_SIZE_FLAG: &str = "engine.multiproof-chunk-size";

/// The name of the engine this program carries itself.
pub const EMBEDDED_ENGINE: &str = "bench-reth";

/// A sweep with every value resolved, as `plan.json` records it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The engines compared.
    pub engines: Vec<EngineSpec>,
    /// The knobs and their values; their product times gas levels and engines gives the cells.
    pub axes: Vec<Axis>,
    /// Gas levels with the number of payloads of one pass, ascending by gas.
    pub levels: Vec<Level>,
    /// Where the base state comes from.
    pub base: BaseSource,
    /// Where the payloads come from.
    pub payloads: PayloadSource,
    /// The block every pass starts from; `None` is the head of the base state.
    pub target_block: Option<u64>,
    /// How often every cell is visited, at most when the sweep is adaptive.
    pub rounds: u64,
    /// How the number of rounds is found while measuring; `None` makes all rounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adaptive: Option<Adaptive>,
    /// Whether a cell of each gas level is visited twice a round, under two names.
    #[serde(default)]
    pub duplicates: bool,
    /// Smallest relative difference that matters: 0.01 is 1 %.
    #[serde(default = "default_relevant")]
    pub relevant: f64,
    /// In which order the cells of a round are visited.
    pub order: Order,
    /// What is replayed and discarded before the measured pass.
    pub warmup: WarmUp,
    /// How the datadir is brought back to the base block.
    pub reset: ResetMethod,
    /// Pause after each payload, in milliseconds.
    pub wait_time_ms: u64,
    /// Whether to wait for persistence after every `persistence_threshold + 1` payloads.
    pub wait_for_persistence: bool,
    /// The engine's persistence threshold, unless an axis sets it.
    pub persistence_threshold: u64,
    /// Seed of the base state, the payloads and the order of visits.
    pub seed: u64,
    /// Longest time an engine may take to become ready, in milliseconds.
    pub ready_timeout_ms: u64,
    /// Longest time an engine may take to answer one request, in milliseconds.
    pub request_timeout_ms: u64,
    /// Folder of generated states, payloads and working copies.
    pub cache_dir: PathBuf,
}

/// What matters when nothing else is said: 1 %.
pub(crate) const DEFAULT_RELEVANT: f64 = 0.01;

fn default_relevant() -> f64 {
    DEFAULT_RELEVANT
}

/// How an adaptive sweep decides about its rounds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Adaptive {
    /// Relative difference that intervals are to resolve: 0.01 is 1 %.
    pub resolve: f64,
    /// Time that measuring may take, in seconds.
    pub budget_s: Option<f64>,
}

/// One gas level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Level {
    /// Gas every block aims at.
    pub gas: Gas,
    /// Payloads of one pass; `None` is as many as the folder holds.
    pub count: Option<u64>,
}

/// Where the base state comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BaseSource {
    /// Generated from a profile and the seed, kept in the cache.
    Generated {
        /// `small`, `medium` or `large…`.
        profile: String,
    },
    /// A datadir that the user brought.
    Datadir {
        /// The folder.
        path: PathBuf,
        /// Whether it is worked on itself; otherwise a copy is.
        in_place: bool,
    },
}

/// Where the payloads come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PayloadSource {
    /// Generated from a mix and the seed on the base state, kept in the cache.
    Generated {
        /// `mainnet`, `cold-storage`, `whale` or `transfers`.
        mix: String,
    },
    /// A folder that the user brought: one folder per gas level, or payloads.
    Folder {
        /// The folder.
        path: PathBuf,
    },
}

/// In which order the cells of a round are visited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// Shuffled anew in each round, by the seed, so that drift does not favour a cell.
    Random,
    /// As the cells are listed.
    Sequential,
}

/// How the datadir is brought back to the base block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum ResetMethod {
    /// `stage unwind` of the engine that wrote it.
    Unwind,
    /// A new copy of a pristine datadir.
    Copy,
}
