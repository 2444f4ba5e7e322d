//! Whether the machine was left alone while a pass was measured, and how fast it is.
//!
//! Invariant: nothing here runs between a request and its answer but a thread that wakes four times
//! a second; what cannot be read is absent, never zero by accident.

mod calibrate;
mod counters;
mod preflight;
mod proc;
mod reading;
mod rule;
mod sampler;

pub use calibrate::{Calibration, Calibrator};
pub(crate) use counters::{counters, memory_available_bytes, own_memory_bytes};
pub use preflight::{Check, Preflight};
pub(crate) use preflight::{VIRTUAL_MACHINE, free_bytes, gib, nearest};
pub use reading::{Culprit, DiskTraffic, Pressure, Readings, Watch};
pub use rule::{Contamination, contaminations};
pub use sampler::Frequency;

use serde::{Deserialize, Serialize};

/// What is done about a pass that others disturbed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum GuardMode {
    /// It is kept and marked.
    Warn,
    /// Its visit is void and repeated, at most twice; the last one counts and is marked.
    #[default]
    Void,
    /// Nothing is watched.
    Off,
}
