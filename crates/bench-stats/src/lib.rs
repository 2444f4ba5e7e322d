//! Statistics of a sweep: samples in, summaries and comparisons out.
//!
//! Invariant: pure functions only. No file, clock, thread, async runtime or serialisation, so that
//! every published number can be remade from raw samples and gives the same bits.
//!
//! | module | question it answers |
//! |---|---|
//! | [`quantile`] | how long do payloads take at the median, at the tail? |
//! | [`throughput`] | how much gas per second, as one ratio of sums? |
//! | [`interval`] | how far may the true value be from the measured one? |
//! | [`noise`] | how much do identical cells differ? |
//! | [`mod@verdict`] | is a difference larger than both? |

pub mod interval;
pub mod noise;
pub mod quantile;
pub mod throughput;
pub mod verdict;

pub use interval::{Estimate, ratio_of_rounds, throughput_of_rounds};
pub use noise::noise_floor;
pub use quantile::{Latencies, quantile_sorted};
pub use throughput::Throughput;
pub use verdict::{Verdict, verdict};
