//! One pass over a sorted list of changes, cut into ranges of keys that threads take from each
//! other.
//!
//! A range is a subtree with the changes below it, so two ranges never meet: whoever has one reads
//! what is unknown in it, changes its leaves and hashes it, and alone. A range that stands for more
//! leaves than the grain is cut at the children of its branch, as long as there are not ranges enough
//! for all threads; of the two halves the thread goes on with the first, and the second is offered to the
//! others until the thread comes back for it ([`threads`]). So ranges are large at first
//! and small at the end, when the last ones are to be shared.
//!
//! A range that is not cut is worked on in three steps: all that is unknown below it is read in one
//! sorted walk, then its leaves are changed ([`super::region`]), then what has changed is hashed
//! ([`super::encode`]).

use super::{
    change::{Keyed, weight},
    found::{Found, Lane},
    kind::Kind,
    node::Slot,
    region::Region,
};
use crate::{
    cursor::StateSource,
    error::{RootError, panicked},
};
use std::{
    mem::take,
    ops,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
};
use threads::Board;

/// Ranges at hand for each thread from which on none is cut: so many that a thread that is done
/// finds another one.
const RANGES_PER_THREAD: usize = 2;

/// What all ranges of a block share.
#[derive(Debug)]
pub(super) struct Work<S> {
    pub(super) threads: Arc<Board>,
    pub(super) source: Arc<S>,
    pub(super) cancelled: AtomicBool,
    /// Number of the block, once it has begun.
    pub(super) epoch: AtomicU64,
    /// Ranges that are worked on or wait for a thread, roughly.
    pub(super) ranges: AtomicUsize,
}

impl<S> Work<S> {
    pub(super) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Relaxed)
    }
}

/// A pass over one trie.
pub(super) struct Pass<S, K: Kind> {
    pub(super) work: Arc<Work<S>>,
    /// Strictly ascending by key.
    pub(super) changes: Arc<Vec<Keyed<K::Change>>>,
    pub(super) trie: K::Trie,
    /// Whether each range hashes what it has changed: in the block's last pass.
    pub(super) hashes: bool,
    /// Leaves below which a range is not cut.
    pub(super) grain: usize,
}

impl<S, K: Kind> Clone for Pass<S, K> {
    fn clone(&self) -> Self {
        Self {
            work: Arc::clone(&self.work),
            changes: Arc::clone(&self.changes),
            ..*self
        }
    }
}

/// Some of the changes, all below one slot.
pub(super) struct Range<K: Kind> {
    pub(super) nibble: usize,
    pub(super) slot: Slot<K>,
    /// Which of the changes.
    pub(super) places: ops::Range<usize>,
    pub(super) changed: bool,
}

impl<K: Kind> Range<K> {
    pub(super) fn of<'c, T>(&self, changes: &'c [T]) -> &'c [T] {
        &changes[self.places.clone()]
    }
}

impl<S: StateSource, K: Kind> Pass<S, K> {
    /// Applies the changes to a trie. Answers whether anything differs from before.
    pub(super) fn apply(&self, root: &mut Slot<K>, lane: &mut Lane<S>) -> Result<bool, RootError> {
        if self.changes.is_empty() {
            return Ok(false);
        }
        let is_light = weight(&self.changes) <= self.grain;
        let mut range = [Range {
            nibble: 0,
            slot: take(root),
            places: 0..self.changes.len(),
            changed: false,
        }];
        let result = self.go(&mut range, 0, is_light, lane);
        let [range] = range;
        *root = range.slot;
        result.map(|()| range.changed)
    }

    /// Runs ranges below one branch, in halves as long as they stand for more than the grain and
    /// threads may lack work. After a panic some of them may be gone.
    pub(super) fn run(
        &self,
        ranges: &mut Vec<Range<K>>,
        start: usize,
        lane: &mut Lane<S>,
    ) -> Result<(), RootError> {
        let weights = ranges.iter().map(|range| weight(range.of(&self.changes)));
        let total: usize = weights.sum();
        let at_hand = &self.work.ranges;
        let is_light = total <= self.grain;
        let enough = RANGES_PER_THREAD * self.work.threads.count();
        let is_enough = ranges.len() > 1 && at_hand.load(Ordering::Relaxed) >= enough;
        if is_light || is_enough || ranges.len() < 2 {
            return self.go(ranges, start, is_light || is_enough, lane);
        }
        let mut right = ranges.split_off(self.middle(ranges, total));
        let so_far = take(&mut lane.found);
        let chain_before = so_far.longest_chain;
        let pass = self.clone();
        // Two in place of this one, which is there again when both are done.
        at_hand.fetch_add(1, Ordering::Relaxed);
        let (left_found, right_done) = self.work.threads.join(
            || self.run_half(ranges, start, so_far),
            move || {
                let found = pass.run_half(&mut right, start, Found::default());
                (right, found)
            },
        );
        at_hand.fetch_add(1, Ordering::Relaxed);
        let (right, right_found) = right_done.map_err(|panic| panicked(&*panic))?;
        ranges.extend(right);
        let left_found = left_found.unwrap_or_else(|panic| Err(panicked(&*panic)));
        match (left_found, right_found) {
            (Ok(left), Ok(right)) => {
                lane.found = left;
                lane.found.append_beside(right, chain_before);
                Ok(())
            }
            // Only what nothing but a cancellation has interrupted is whole.
            (Err(RootError::Cancelled), Err(error)) | (Err(error), _) | (_, Err(error)) => {
                Err(error)
            }
        }
    }

    fn run_half(
        &self,
        ranges: &mut Vec<Range<K>>,
        start: usize,
        found: Found,
    ) -> Result<Found, RootError> {
        let mut lane = Lane::of(found);
        let result = self.run(ranges, start, &mut lane);
        self.work.ranges.fetch_sub(1, Ordering::Relaxed);
        result.map(|()| lane.found)
    }

    /// Where to cut ranges of this total weight so that both parts, neither empty, weigh about
    /// alike.
    fn middle(&self, ranges: &[Range<K>], total: usize) -> usize {
        let mut left = 0;
        let heavy = ranges.iter().position(|range| {
            left += weight(range.of(&self.changes));
            2 * left >= total
        });
        heavy.map_or(1, |index| (index + 1).min(ranges.len() - 1))
    }

    /// Does what is to be done to ranges that one thread has: all of it when they are not cut
    /// further, and otherwise down to where the one there is can be cut.
    fn go(
        &self,
        ranges: &mut [Range<K>],
        start: usize,
        is_whole: bool,
        lane: &mut Lane<S>,
    ) -> Result<(), RootError> {
        let mut region = Region::new(self, lane, is_whole);
        if is_whole {
            region.read_ahead(ranges, start)?;
        }
        for range in &mut *ranges {
            let changes = &self.changes[range.places.clone()];
            range.changed = region.at_slot(&mut range.slot, start, changes)?;
        }
        if self.hashes {
            let slots = ranges.iter_mut().map(|range| &mut range.slot);
            K::encode_all(slots, start, &mut lane.found);
        }
        Ok(())
    }
}
