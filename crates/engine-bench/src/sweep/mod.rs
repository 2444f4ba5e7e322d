//! What a sweep is asked to do: [`Settings`], where every value is resolved, and the values that flags take.
//!
//! Invariant: knows neither flags nor files; every default has its home in `resolve`.

mod engine;
mod knob;
mod reset;
mod value;
mod version;

pub use engine::{EngineKind, EngineSpec};
pub use knob::{Design, Exclusion, Setting};
pub use reset::ResetMethod;
pub use value::{
    Axis, ChunkList, Gas, GasList, MIX_AXIS, SWITCH_OFF, SWITCH_ON, VARIABLE_PREFIX, ValueError,
    WarmUp, duration, percent,
};
pub(crate) use value::{flag_text, is_engine_flag};
pub use version::Version;
pub(crate) use version::{doubt, releases_with};

use crate::guard::GuardMode;
use serde::{Deserialize, Serialize};
use std::{path::PathBuf, slice};

/// The flag that `--chunks` is short for.
pub const CHUNK_SIZE_FLAG: &str = "engine.multiproof-chunk-size";

/// bench-reth's flag for when a batch is cut.
pub const CHUNK_POLICY_FLAG: &str = "bench.chunk-policy";

/// The name of the engine this program carries itself.
pub const EMBEDDED_ENGINE: &str = "bench-reth";

/// A sweep with every value resolved, as `plan.json` records it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The engines compared.
    pub engines: Vec<EngineSpec>,
    /// The knobs and their values; the design combines them, for every gas level and engine.
    pub axes: Vec<Axis>,
    /// Knobs that every cell gets, one value each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<Setting>,
    /// Which combinations of the axes become cells.
    #[serde(default, skip_serializing_if = "is_default")]
    pub design: Design,
    /// Where a one-at-a-time design stands; an axis that is not named stands at its first value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub standing: Vec<Setting>,
    /// Cells that are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<Exclusion>,
    /// Gas levels with the number of payloads of one pass, ascending by gas.
    pub levels: Vec<Level>,
    /// Where the base state comes from.
    pub base: BaseSource,
    /// Where the payloads come from.
    pub payloads: PayloadSource,
    /// Payloads that lead from the head of the base state to that block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lead_in: Option<PathBuf>,
    /// The block every pass starts from; `None` is the head of the base state.
    pub target_block: Option<u64>,
    /// How often every cell is visited, at most when the sweep is adaptive.
    pub rounds: u64,
    /// How the number of rounds is found while measuring; `None` makes all rounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adaptive: Option<Adaptive>,
    /// Whether a cell of each gas level is visited twice a round, under two names.
    pub controls: bool,
    /// Smallest relative difference that matters: 0.01 is 1 %.
    pub min_effect: f64,
    /// The cell that the others of its level are compared with, by its id or its values; the highest when
    /// none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<String>,
    /// In which order the cells of a round are visited.
    pub order: Order,
    /// Whether the cells of a load are replayed side by side, payload by payload in turn.
    #[serde(default, skip_serializing_if = "is_default")]
    pub interleave: bool,
    /// What is done about passes that others disturbed.
    pub guard: GuardMode,
    /// Whether passes count in which the engine left the path that was to be measured.
    #[serde(default, skip_serializing_if = "is_default")]
    pub allow_fallback: bool,
    /// What is replayed and discarded before the measured pass.
    pub warmup: WarmUp,
    /// How the datadir is reset to the base block.
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

/// The engine's flag of that name.
pub(crate) const PERSISTENCE_THRESHOLD_FLAG: &str = "engine.persistence-threshold";

/// Gas that a pass replays at least, unless a count is given.
const PASS_GAS: u64 = 1_000_000_000;

/// What matters when nothing else is said: 1 %.
pub(crate) const DEFAULT_MIN_EFFECT: f64 = 0.01;

/// How an adaptive sweep decides about its rounds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Adaptive {
    /// Half width that intervals are to reach, relative: 0.01 is 1 %.
    pub precision: f64,
    /// Time that measuring may take, in seconds.
    pub budget_s: Option<f64>,
}

/// Whether a value need not be written.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Settings {
    /// The mixes of transactions that payloads are generated from; none when they are given.
    pub fn mixes(&self) -> Vec<&str> {
        let PayloadSource::Generated { mix } = &self.payloads else {
            return Vec::new();
        };
        let axis = self.axes.iter().find(|axis| axis.flag == MIX_AXIS);
        let mixes = axis.map_or(slice::from_ref(mix), |axis| &axis.values);
        mixes.iter().map(String::as_str).collect()
    }

    /// The persistence threshold of a cell: what an axis sets, or the sweep's own.
    pub fn threshold_of(&self, flags: &[(String, String)]) -> u64 {
        let mut flags = flags.iter();
        let set = flags.find(|(flag, _)| flag == PERSISTENCE_THRESHOLD_FLAG);
        let set = set.and_then(|(_, value)| value.parse().ok());
        set.unwrap_or(self.persistence_threshold)
    }

    /// The knobs that an engine is started with in a cell of these knobs: its own give way to the sweep's, and
    /// these to the cell's.
    pub fn knobs_of(
        &self,
        engine: &EngineSpec,
        cell: &[(String, String)],
    ) -> Vec<(String, String)> {
        let common = self.set.iter();
        let common = common.filter(|set| !engine.lacks.contains(&set.flag));
        let pair = |set: &Setting| (set.flag.clone(), set.value.clone());
        let common = common.map(pair);
        let of_cell = cell.iter().filter(|(knob, _)| knob != MIX_AXIS).cloned();
        let sweeps: Vec<(String, String)> = common.chain(of_cell).collect();
        let given = |set: &&Setting| sweeps.iter().all(|(flag, _)| *flag != set.flag);
        let own = engine.set.iter().filter(given).map(pair);
        own.chain(sweeps.clone()).collect()
    }
}

/// One gas level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Level {
    /// Gas every block aims at.
    pub gas: Gas,
    /// Payloads of one pass; `None` is as many as the folder holds.
    pub count: Option<u64>,
}

/// Payloads of one pass at a gas level when no count is given: at least 1 Ggas.
pub(crate) fn default_count(gas: Gas) -> u64 {
    PASS_GAS.div_ceil(gas.0)
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
    /// A datadir that the user gave.
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
        /// `mainnet`, `cold-storage`, `whale` or `transfers`; the first one where mixes are an axis.
        mix: String,
    },
    /// A folder that the user gave: one folder per gas level, or payloads.
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
    /// Rounds in which every cell follows every other equally often, in an order by the seed.
    Williams,
    /// Every second round is the one before backwards, so that steady drift cancels.
    Abba,
    /// As the cells are listed.
    Sequential,
}
