//! Where the time of a sweep went.

use super::{Attempt, Event, Record};
use serde::{Deserialize, Serialize};

/// Where the time of a sweep went, in seconds. `wall` starts when state and payloads exist.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct TimeSplit {
    /// All of it.
    pub wall: f64,
    /// Σ (newPayload + forkchoiceUpdated) of measured passes.
    pub measured: f64,
    /// Σ (newPayload + forkchoiceUpdated) of warm-up passes.
    pub warmup: f64,
    /// Bringing datadirs back.
    pub reset: f64,
    /// Starting engines until their first fork choice.
    pub start: f64,
    /// Stopping engines.
    pub stop: f64,
    /// Deliberate waiting between payloads.
    pub wait: f64,
    /// Visits that are void, as a whole: their time is in no other part.
    pub voided: f64,
    /// The guard's looks and the calibration.
    pub guard: f64,
    /// The rest: reading payloads, parsing answers, writing results.
    pub other: f64,
}

impl TimeSplit {
    /// Divides the time that was measured among the attempts of visits.
    pub(super) fn of(records: &[Record], attempts: &[Attempt]) -> Self {
        let mut split = Self {
            wall: wall_s(records),
            ..Self::default()
        };
        for attempt in attempts {
            if attempt.ended.is_void() {
                split.voided += attempt.cost_s();
                continue;
            }
            let times = attempt.times;
            split.measured += times.measured_s;
            split.warmup += times.warmup_s;
            split.reset += times.reset_s;
            split.start += times.start_s;
            split.stop += times.stop_s;
            split.wait += times.wait_s;
            split.guard += times.guard_s;
        }
        let passes = split.measured + split.warmup + split.wait;
        let known = passes + split.reset + split.start + split.stop + split.voided + split.guard;
        split.other = (split.wall - known).max(0.0);
        split
    }

    /// The part of the wall time in which an engine was answering payloads.
    pub fn answering(&self) -> f64 {
        if self.wall > 0.0 {
            (self.measured + self.warmup) / self.wall
        } else {
            0.0
        }
    }
}

/// How long a sweep measured, in seconds. Each process that goes on with it has a clock of its own, which
/// counts from `sweep_started` on; what a process that was killed did after its last event is not known.
fn wall_s(records: &[Record]) -> f64 {
    let (mut wall_s, mut last_s) = (0.0, None);
    for Record { at_s, event, .. } in records {
        let before_s = last_s.take();
        match event {
            Event::SweepStarted(_) => last_s = Some(*at_s),
            Event::PreparationFailed(_) => {}
            _ => {
                wall_s += before_s.map_or(0.0, |before_s| f64::max(at_s - before_s, 0.0));
                let goes_on = !matches!(event, Event::Interrupted | Event::SweepFinished);
                last_s = before_s.filter(|_| goes_on).and(Some(*at_s));
            }
        }
    }
    wall_s
}
