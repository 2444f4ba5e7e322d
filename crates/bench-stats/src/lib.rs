//! Statistics of a sweep: samples in, summaries and comparisons out.
//!
//! Invariant: pure functions only. No file, clock, thread, async runtime or serialisation, so that
//! every published number can be remade from raw samples and gives the same bits.
//!
//! | module | question it answers |
//! |---|---|
//! | [`quantile`] | how long do payloads take at the median, at the tail? |
//! | [`throughput`] | how much gas per second, as one ratio of sums? |
//! | [`interval`] | how far may the true value of a cell be from the measured one? |
//! | [`layout`] | how much do visits vary once rounds are compared with themselves? |
//! | [`fit`] | how fast is each cell in an average round, whichever rounds it has? |
//! | [`pairs`] | which cells of a level differ, all pairs at once, and which are best? |
//! | [`range`] | how far apart do equal means lie by chance? |
//! | [`noise`] | how much do identical cells differ? |
//! | [`mod@verdict`] | is a difference larger than both, and does it matter? |
//! | [`bootstrap`] | does resampling agree? |
//! | [`steady`] | was a pass in a steady state? |
//! | [`curve`] | which value of a numeric knob is fastest, by a smooth curve? |
//! | [`components`] | does noise come from blocks or from visits? |
//! | [`rounds`] | how many more rounds, of which cells? |
//! | [`separate`] | do two sweeps differ? |
//! | [`random`] | a seeded generator |

pub mod bootstrap;
pub mod components;
pub mod curve;
pub mod fit;
pub mod interval;
pub mod layout;
pub mod noise;
pub mod pairs;
pub mod quantile;
pub mod random;
pub mod range;
pub mod rounds;
pub mod separate;
pub mod steady;
pub mod throughput;
pub mod verdict;

pub use interval::{Estimate, throughput_of_rounds};
pub use layout::{Layout, Spread};
pub use noise::NoiseFloor;
pub use pairs::{Comparisons, Pair, compare_all};
pub use quantile::{Latencies, quantile_sorted};
pub use random::SplitMix;
pub use throughput::Throughput;
pub use verdict::{Judgement, Relevance, Rules, Undecided, Verdict, judge};
