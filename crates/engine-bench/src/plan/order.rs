//! The order of visits: rounds one after another, each visiting every cell once.
//!
//! Invariant: the order depends on the seed and the cells alone; a file of today's order can be
//! remade on any machine.

use super::{Cell, Visit};
use crate::sweep::{Order, Settings};
use bench_stats::SplitMix;

/// All visits of a sweep.
pub(super) fn visits(settings: &Settings, cells: &[&Cell]) -> Vec<Visit> {
    let mut random = SplitMix::new(settings.seed);
    let mut visits = Vec::with_capacity(cells.len() * settings.rounds as usize);
    for round in 1..=settings.rounds {
        let mut ids: Vec<&str> = cells.iter().map(|cell| cell.id.as_str()).collect();
        if settings.order == Order::Random {
            random.shuffle(&mut ids);
        }
        visits.extend(ids.into_iter().map(|cell| Visit {
            round,
            cell: cell.to_owned(),
        }));
    }
    visits
}
