//! A fixed piece of work whose time shows how fast the machine is at the moment.
//!
//! Invariant: the work is the same in every run and on every machine; only its time differs.

use alloy_primitives::{B256, keccak256};
use serde::{Deserialize, Serialize};
use std::{hint::black_box, time::Instant};

/// Hashes, each of the one before: about 10 ms.
pub(super) const HASHES: u32 = 30_000;

/// Places in the memory that is walked: 32 MiB of them, more than most caches hold.
const PLACES: usize = 4 << 20;

/// Steps of the walk, each known when the one before was read: about 10 ms.
pub(super) const STEPS: u32 = 100_000;

/// Multiplier and increment of a full-period generator modulo [`PLACES`] (Hull and Dobell): each place is
/// visited once before the walk repeats.
const MULTIPLIER: usize = 1_664_525;
const INCREMENT: usize = 1_013_904_223;

/// How long the fixed work took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calibration {
    /// Computing alone, in nanoseconds.
    pub compute_ns: u64,
    /// Reading memory in an order that no prefetcher guesses, in nanoseconds.
    pub memory_ns: u64,
}

/// The fixed work, with its memory.
#[derive(Debug)]
pub struct Calibrator {
    next: Vec<u64>,
}

impl Default for Calibrator {
    /// Prepares the memory.
    fn default() -> Self {
        let following = |place: usize| {
            let next = place.wrapping_mul(MULTIPLIER).wrapping_add(INCREMENT);
            (next % PLACES) as u64
        };
        let next = (0..PLACES).map(following).collect();
        Self { next }
    }
}

impl Calibrator {
    /// Does the work once.
    pub fn run(&self) -> Calibration {
        let began = Instant::now();
        let last = (0..HASHES).fold(B256::ZERO, |hash, _| keccak256(hash));
        black_box(last);
        let computed = Instant::now();
        black_box(self.walk(STEPS));
        Calibration {
            compute_ns: nanoseconds(computed - began),
            memory_ns: nanoseconds(computed.elapsed()),
        }
    }

    /// The place after so many steps from the first.
    fn walk(&self, steps: u32) -> usize {
        (0..steps).fold(0, |place, _| self.next[place] as usize)
    }
}

fn nanoseconds(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_walk_visits_every_place_once() {
        let calibrator = Calibrator::default();
        let mut seen = vec![false; PLACES];
        let mut place = 0;
        for _ in 0..PLACES {
            assert!(!std::mem::replace(&mut seen[place], true));
            place = calibrator.next[place] as usize;
        }
        assert_eq!(place, 0);
        assert_eq!(calibrator.walk(PLACES as u32), 0);
        let work = calibrator.run();
        assert!(work.compute_ns > 0 && work.memory_ns > 0);
    }
}
