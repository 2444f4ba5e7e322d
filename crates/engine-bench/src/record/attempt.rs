//! Every time that a visit was begun, and how it ended.

use super::{Interleaving, VisitFacts, VisitTimes};
use serde::{Deserialize, Serialize};
use std::fmt;

/// One visit that was begun; a visit that was repeated has several.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt {
    /// Id of the visit.
    pub visit: String,
    /// Its round.
    pub round: u64,
    /// Id of its cell, or of an A/A control.
    pub cell: String,
    /// Which attempt of the visit it was, counted from 1.
    pub attempt: u64,
    /// When it began, Unix time in milliseconds.
    pub began_unix_ms: u64,
    /// When it began by the clock of its process, in seconds.
    pub(super) began_s: f64,
    /// How long it took, in seconds; 0 when it was cut. Visits that took turns took the time of all.
    pub seconds: f64,
    /// How it ended.
    pub ended: Ended,
    /// The folder inside `visits/` that its files are kept in when it does not count.
    pub kept_in: Option<String>,
    /// What it spent its time on.
    pub times: VisitTimes,
    /// What was found beside its samples.
    pub facts: VisitFacts,
    /// With whom it took turns.
    pub interleaving: Option<Interleaving>,
}

impl Attempt {
    /// How many visits took turns, itself included; 1 when it had the machine to itself.
    pub fn in_turn(&self) -> usize {
        let others = self.interleaving.as_ref();
        others.map_or(1, |others| 1 + others.with.len())
    }

    /// Its part of the time that it took, in seconds: no second is counted for two visits.
    pub fn cost_s(&self) -> f64 {
        self.seconds / self.in_turn() as f64
    }
}

/// How a visit ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// With numbers.
    Finished,
    /// With numbers that do not count, because others disturbed it.
    Voided,
    /// With numbers that do not count, because those that it took turns with were cut.
    Undone,
    /// Without, for a recorded reason.
    Failed,
    /// Not at all: the sweep was killed in it.
    Cut,
}

impl Ended {
    /// Whether it gave numbers that do not count.
    pub fn is_void(self) -> bool {
        matches!(self, Self::Voided | Self::Undone)
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}
