//! The driver: visits every cell of a plan and writes what happened.
//!
//! Invariant: the only part of the harness that changes anything outside its results folder. It
//! computes no statistics. A failed visit is written down with its step and cause, and the next
//! visit begins.

mod advance;
mod attest;
mod copies;
mod disk;
mod doubts;
mod driver;
mod feasible;
mod group;
mod pass;
mod patience;
mod prepare;
mod probe;
mod profiled;
mod progress;
mod repeat;
mod rounds;
mod state;
mod traced;
mod visit;

pub use copies::check_room;
pub use doubts::{inert, unknown_releases};
pub use driver::{Ending, Options, check_manifest, drive};
pub use feasible::{check_feasible, writable};
pub use pass::{Waits, replay};
pub use prepare::{Prepared, prepare};
pub use profiled::profile;
pub use progress::{Progress, print_event};
pub(crate) use state::init_datadir;
pub use state::{StateKey, make_state};
pub use traced::{TraceOptions, trace};

use crate::{engine, record::Failure};
use serde::Serialize;

/// A step that failed, and why.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{step}: {cause}")]
pub struct StepError {
    /// The step, as failures name it.
    pub step: Step,
    /// The cause, as it was reported: one line.
    pub cause: String,
    /// The end of the engine's log where the cause rests on it, a few short lines.
    pub log: Vec<String>,
}

impl StepError {
    /// The failure of a step: the first line of `text` is the cause, further ones quote a log. What to do about it
    /// is added where it is known.
    pub(crate) fn new(step: Step, text: &str) -> Self {
        let text = engine::advised(text);
        let mut lines = text.lines().map(str::to_owned);
        Self {
            step,
            cause: lines.next().unwrap_or_default(),
            log: lines.collect(),
        }
    }

    /// What the journal says of it.
    pub fn failure(&self, visit: &str) -> Failure {
        Failure {
            visit: visit.to_owned(),
            step: self.step.to_string(),
            cause: self.cause.clone(),
            log: self.log.clone(),
        }
    }
}

/// The steps of a sweep that can fail, as journals and reports name them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Step {
    /// Making or copying the base state.
    State,
    /// Finding, making or checking payloads.
    Payloads,
    /// Stopping an engine that an earlier run left.
    Leftover,
    /// Bringing the datadir back.
    Reset,
    /// Starting the engine.
    Start,
    /// Waiting until the engine answers.
    Ready,
    /// Comparing the engine's head with the base block.
    Attest,
    /// The first fork choice.
    Forkchoice,
    /// The discarded pass.
    WarmUp,
    /// The measured pass.
    Measure,
    /// A further pass, of which spans are kept.
    Trace,
    /// A further pass, which a profiler looks at.
    Profile,
    /// Stopping the engine.
    Stop,
    /// Writing results.
    Write,
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.serialize(f)
    }
}

/// Names the step that an error happened in.
pub(crate) trait InStep<T> {
    fn in_step(self, step: Step) -> Result<T, StepError>;
}

impl<T, E: std::fmt::Display> InStep<T> for Result<T, E> {
    fn in_step(self, step: Step) -> Result<T, StepError> {
        self.map_err(|error| StepError::new(step, &error.to_string()))
    }
}
