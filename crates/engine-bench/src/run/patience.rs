//! How long a visit may take before it is given up.
//!
//! Invariant: a visit that hangs costs a multiple of an ordinary one, or of what is left of the budget;
//! one that is merely slow is not given up.

use crate::plan::Load;
use std::time::Duration;

/// How many times as long as the longest visit of the same payloads one may take.
const TIMES_THE_LONGEST: u32 = 5;

/// Granted in addition at most: starts and resets vary whatever the payloads are.
const MOST_GRACE: Duration = Duration::from_secs(30);

/// The longest visits until now.
#[derive(Debug)]
pub(super) struct Patience {
    longest: Vec<(Load, Duration)>,
    grace: Duration,
}

impl Patience {
    /// Before any visit; `ready` is how long an engine may take to become ready.
    pub(super) fn new(ready: Duration) -> Self {
        Self {
            longest: Vec::new(),
            grace: ready.min(MOST_GRACE),
        }
    }

    /// A visit of these payloads ended well.
    pub(super) fn took(&mut self, load: &Load, time: Duration) {
        match self.longest.iter_mut().find(|(known, _)| known == load) {
            Some((_, longest)) => *longest = time.max(*longest),
            None => self.longest.push((load.clone(), time)),
        }
    }

    /// The longest a visit of these payloads may take; `None` when nothing bounds it but the time that
    /// each answer may take. `left` is what is left of the budget.
    pub(super) fn limit(&self, load: &Load, left: Option<Duration>) -> Option<Duration> {
        let known = self.longest.iter().find(|(known, _)| known == load);
        match known {
            Some((_, longest)) => Some(*longest * TIMES_THE_LONGEST + self.grace),
            None => left.map(|left| left.max(2 * self.grace)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::Gas;

    #[test]
    fn visits_of_the_same_payloads_set_the_limit() {
        let load = |gas| Load {
            gas: Gas(gas),
            mix: None,
        };
        let seconds = Duration::from_secs;
        let mut patience = Patience::new(seconds(120));
        assert_eq!(patience.limit(&load(1), None), None);
        assert_eq!(
            patience.limit(&load(1), Some(seconds(3))),
            Some(seconds(60))
        );
        assert_eq!(
            patience.limit(&load(1), Some(seconds(90))),
            Some(seconds(90))
        );
        patience.took(&load(1), seconds(4));
        patience.took(&load(2), seconds(20));
        patience.took(&load(1), seconds(2));
        for left in [None, Some(seconds(3))] {
            assert_eq!(patience.limit(&load(1), left), Some(seconds(50)));
            assert_eq!(patience.limit(&load(2), left), Some(seconds(130)));
        }
    }
}
