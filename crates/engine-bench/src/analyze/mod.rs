//! From raw samples and the journal to summaries and comparisons.
//!
//! Invariant: reads files and computes; it never asks an engine anything and never prints. What
//! it says can be deleted and remade.

mod adaptive;
mod attribution;
mod between;
mod blocks;
mod compare;
mod curves;
mod knob;
mod level;
#[cfg(test)]
pub(crate) mod made_up;
mod noise;
mod outcome;
mod resets;
mod slowest;
mod summary;
mod verdict;
mod widths;
mod work;

pub use adaptive::decide;
pub use attribution::{Attribution, Count, Phase, attribute};
pub(crate) use attribution::{GROUPS, PHASES, Row, rounded};
pub use between::{Between, Difference, Side, between};
pub(crate) use between::{NO_FLOOR, flat};
pub use blocks::Blocks;
pub use compare::{Comparisons, compare};
pub use curves::{Place, Response};
pub use knob::Knob;
pub use level::{Edge, End, Level};
pub use noise::{Control, LevelNoise, NoiseFloor, NoiseSource};
pub(crate) use outcome::throughput;
pub use outcome::{Outcome, read_outcome, verify_passes};
pub use resets::{Resets, resets};
pub use slowest::{Stall, choose, stalls};
pub use summary::{Measured, Quantiles, Round, SteadyState, Summary, running, summarize};
pub(crate) use verdict::in_a_word;
pub use verdict::{Comparison, Interval, Ratio, Verdict};
pub use widths::{Width, Widths, widths};
pub use work::Work;
