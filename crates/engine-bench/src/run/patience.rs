//! How long a visit may take before it is given up.
//!
//! Invariant: a visit that hangs costs a multiple of an ordinary one, or of what is left of the budget;
//! one that is merely slow, as another engine or setting may be, is not given up.

use crate::plan::{Cell, Load};
use std::{collections::HashMap, time::Duration};

/// How many times as long as the longest visit of its cell one may take.
const TIMES_ITS_OWN: u32 = 5;

/// How many times as long as the longest visit of the same payloads the first one of a cell may take.
const TIMES_ANOTHERS: u32 = 20;

/// Granted in addition at most: starts and resets vary whatever the payloads are.
const MOST_GRACE: Duration = Duration::from_secs(30);

/// Why a visit is given up that took longer than this.
pub(super) fn too_long(limit: Duration) -> String {
    let granted_s = limit.as_secs_f64();
    format!("the visit was given up after {granted_s:.0} s, the longest it may take")
}

/// The longest visits until now.
#[derive(Debug)]
pub(super) struct Patience {
    of_cells: HashMap<String, Duration>,
    of_loads: Vec<(Load, Duration)>,
    grace: Duration,
}

impl Patience {
    /// Before any visit; `ready` is how long an engine may take to become ready.
    pub(super) fn new(ready: Duration) -> Self {
        Self {
            of_cells: HashMap::new(),
            of_loads: Vec::new(),
            grace: ready.min(MOST_GRACE),
        }
    }

    /// A visit of this cell ended well.
    pub(super) fn took(&mut self, cell: &Cell, time: Duration) {
        let own = self.of_cells.entry(cell.id.clone()).or_default();
        *own = time.max(*own);
        match self.of_loads.iter_mut().find(|(load, _)| load.is_of(cell)) {
            Some((_, longest)) => *longest = time.max(*longest),
            None => self.of_loads.push((cell.load(), time)),
        }
    }

    /// The longest a visit of this cell may take; `None` when nothing bounds it but the time that each
    /// answer may take. `left` is what is left of the budget.
    pub(super) fn limit(&self, cell: &Cell, left: Option<Duration>) -> Option<Duration> {
        if let Some(own) = self.of_cells.get(&cell.id) {
            return Some(*own * TIMES_ITS_OWN + self.grace);
        }
        let left = left?.max(2 * self.grace);
        let known = self.of_loads.iter().find(|(load, _)| load.is_of(cell));
        let of_load = known.map(|(_, longest)| *longest * TIMES_ANOTHERS + self.grace);
        Some(of_load.map_or(left, |of_load| of_load.min(left)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::Gas;

    #[test]
    fn visits_of_the_cell_and_of_the_same_payloads_set_the_limit() {
        let cell = |id: &str, gas| Cell {
            id: id.into(),
            engine: "x".into(),
            flags: vec![],
            gas: Gas(gas),
            control_of: None,
        };
        let (first, other, large) = (cell("a", 1), cell("b", 1), cell("c", 2));
        let seconds = Duration::from_secs;
        let mut patience = Patience::new(seconds(120));
        let limit = |patience: &Patience, cell, left: Option<u64>| {
            let limit = patience.limit(cell, left.map(seconds));
            limit.map(|limit| limit.as_secs())
        };
        assert_eq!(limit(&patience, &first, None), None);
        assert_eq!(limit(&patience, &first, Some(3)), Some(60));
        assert_eq!(limit(&patience, &first, Some(90)), Some(90));
        patience.took(&first, seconds(4));
        patience.took(&first, seconds(2));
        for left in [None, Some(3), Some(9000)] {
            assert_eq!(limit(&patience, &first, left), Some(50));
        }
        assert_eq!(limit(&patience, &other, None), None, "it may be far slower");
        assert_eq!(limit(&patience, &other, Some(9000)), Some(110));
        assert_eq!(limit(&patience, &other, Some(70)), Some(70));
        assert_eq!(limit(&patience, &large, Some(9000)), Some(9000));
    }
}
