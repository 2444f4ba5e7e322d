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
mod level;
mod made;
#[cfg(test)]
mod made_up;
mod noise;
mod outcome;
mod running;
mod slowest;
mod summary;
mod verdict;
mod widths;
mod work;

pub use adaptive::{AdaptiveError, decide};
pub(crate) use attribution::rounded;
pub use attribution::{
    Attribution, Count, PHASE_KEYS, PassMetrics, Phase, attribute, metrics_sum, write_metrics,
};
pub use between::{Between, CellDifference, Difference, Side, between};
pub(crate) use between::{NO_FLOOR, flatten};
pub use compare::{Comparisons, compare};
pub use curves::{Place, Response};
pub use knob::Knob;
pub use level::{Edge, End, Level};
pub use made::{Ended, Made};
pub use noise::{Control, LevelNoise, NoiseFloor, NoiseSource};
pub use outcome::{AnalyzeError, Failure, Outcome, TimeSplit, read_outcome, verify_passes, wall_s};
pub use running::{Running, running};
pub use sample::Sample;
pub use slowest::{Stall, choose, stalls};
pub use summary::{Summary, summarize};
pub use verdict::{Comparison, Interval, Ratio, Relevance, Verdict};
pub use widths::{Width, Widths, widths};
pub use work::Work;
