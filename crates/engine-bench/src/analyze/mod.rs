//! From raw samples and the journal to summaries and comparisons.
//!
//! Invariant: reads files and computes; it never asks an engine anything and never prints. What
//! it says can be deleted and remade.

pub mod log;
pub mod sample;

mod adaptive;
mod attribution;
mod between;
mod compare;
mod curves;
mod knob;
mod made;
mod noise;
mod outcome;
mod running;
mod slowest;
mod summary;
mod work;

pub use adaptive::{AdaptiveError, decide};
pub(crate) use attribution::rounded;
pub use attribution::{
    Attribution, Count, PHASE_KEYS, PassMetrics, Phase, attribute, metrics_sum, write_metrics,
};
pub(crate) use between::flatten;
pub use between::{Between, CellDifference, Difference, Side, between};
pub use compare::{Comparison, Comparisons, Control, Level, NoiseFloor, compare};
pub use curves::{Response, responses};
pub use knob::Knob;
pub use made::{Ended, Made};
pub use noise::{LevelNoise, level_noise};
pub use outcome::{AnalyzeError, Failure, Outcome, TimeSplit, read_outcome, verify_passes, wall_s};
pub use running::{Running, running};
pub use sample::Sample;
pub use slowest::{Stall, choose, stalls};
pub use summary::{Ranked, Summary, ranking, summarize};
pub use work::Work;
