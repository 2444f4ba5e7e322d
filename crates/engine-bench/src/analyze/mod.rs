//! From raw samples and the journal to summaries and comparisons.
//!
//! Invariant: reads files and computes; it never asks an engine anything and never prints. What
//! it says can be deleted and remade.

pub mod log;
pub mod sample;

mod compare;
mod knob;
mod outcome;
mod summary;

pub use compare::{Comparison, Comparisons, NoiseFloor, Undecided, compare};
pub use knob::Knob;
pub use outcome::{AnalyzeError, Failure, Outcome, TimeSplit, read_outcome};
pub use summary::{Level, Ranked, Summary, levels, ranking, summarize};
