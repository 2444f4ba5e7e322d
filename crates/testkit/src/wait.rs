//! Waiting for conditions rather than for times.

use std::{
    thread,
    time::{Duration, Instant},
};

/// How long anything may take before a test gives up: far more than a loaded machine needs.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(2);

/// The end of somebody's patience.
#[derive(Debug)]
pub struct Deadline {
    what: String,
    at: Instant,
}

impl Deadline {
    /// [`PATIENCE`] from now; `what` is waited for.
    pub fn of(what: &str) -> Self {
        Self {
            what: what.to_owned(),
            at: Instant::now() + PATIENCE,
        }
    }

    /// What is left.
    ///
    /// # Panics
    /// When nothing is, with what was waited for.
    #[track_caller]
    pub fn left(&self) -> Duration {
        let left = self.at.saturating_duration_since(Instant::now());
        assert!(!left.is_zero(), "waited in vain for {}", self.what);
        left
    }
}

/// Looks again and again until there is something.
///
/// # Panics
/// When there is nothing within [`PATIENCE`].
#[track_caller]
pub fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Deadline::of(what);
    loop {
        if let Some(found) = look() {
            return found;
        }
        thread::sleep(PAUSE.min(deadline.left()));
    }
}

/// Looks again and again until a condition holds.
///
/// # Panics
/// When it does not within [`PATIENCE`].
#[track_caller]
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    wait_for(what, || holds().then_some(()));
}
