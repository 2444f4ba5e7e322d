//! From raw samples and the journal to summaries and comparisons.
//!
//! Invariant: reads files and computes; it never asks an engine anything and never prints. What
//! it says can be deleted and remade.

mod adaptive;
mod attribution;
mod between;
mod compare;
mod curves;
mod knob;
mod noise;
mod outcome;
mod running;
mod slowest;
mod summary;
mod work;

pub use adaptive::decide;
pub(crate) use attribution::rounded;
pub use attribution::{Attribution, Count, PHASE_KEYS, Phase, attribute};
pub(crate) use between::flatten;
pub use between::{Between, CellDifference, Difference, Side, between};
pub use compare::{Comparison, Comparisons, Control, Level, NoiseFloor, compare};
pub use curves::{Response, responses};
pub use knob::Knob;
pub use noise::{LevelNoise, level_noise};
pub use outcome::{Outcome, read_outcome, verify_passes};
pub use running::running;
pub use slowest::choose;
pub use summary::{Ranked, Summary, ranking, summarize};
pub use work::Work;
