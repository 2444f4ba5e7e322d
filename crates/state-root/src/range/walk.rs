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
//! sorted walk, then its leaves are changed, then what has changed is hashed ([`super::encode`]).

use super::{
    change::{Change, Keyed, weight},
    found::{Found, Lane},
    kind::{Kind, Unknown},
    node::{Branch, Leaf, Node, Slot, no_children},
};
use crate::{
    chunk::Target,
    cursor::StateSource,
    error::RootError,
    nibbles::{child_key, common_prefix, nibble, path},
    pool::panicked,
};
use alloy_primitives::B256;
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
struct Range<K: Kind> {
    nibble: usize,
    slot: Slot<K>,
    /// Which of the changes.
    places: ops::Range<usize>,
    changed: bool,
}

impl<K: Kind> Range<K> {
    fn of<'c, T>(&self, changes: &'c [T]) -> &'c [T] {
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
    fn run(
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
        let mut region = Region {
            pass: self,
            lane,
            is_whole,
            ready: Vec::new(),
        };
        if is_whole {
            region.read_ahead(ranges, start)?;
        }
        for range in &mut *ranges {
            range.changed =
                region.at(&mut range.slot, start, &self.changes[range.places.clone()])?;
        }
        if self.hashes {
            let slots = ranges.iter_mut().map(|range| &mut range.slot);
            K::encode_all(slots, start, &mut lane.found);
        }
        Ok(())
    }
}

/// A child that a branch did not have, with its nibble.
type Added<K> = (usize, Slot<K>);

/// Ranges in the hands of one thread.
pub(super) struct Region<'a, S: StateSource, K: Kind> {
    pub(super) pass: &'a Pass<S, K>,
    pub(super) lane: &'a mut Lane<S>,
    /// Whether nothing below is cut any more.
    pub(super) is_whole: bool,
    /// What was read ahead, the last in key order first.
    ready: Vec<Read<K>>,
}

/// What was read in the place of a stub.
pub(super) struct Read<K> {
    /// A key below, and how much of it is the stub's path.
    pub(super) key: B256,
    pub(super) start: usize,
    pub(super) slot: Slot<K>,
}

impl<S: StateSource, K: Kind> Region<'_, S, K> {
    /// Reads everything that the changes lack in one walk.
    fn read_ahead(&mut self, ranges: &[Range<K>], start: usize) -> Result<(), RootError> {
        let mut unknown = Vec::new();
        for range in ranges {
            let changes = range.of(&self.pass.changes).iter();
            for (key, change) in changes.filter(|(_, change)| change.is_unknown()) {
                if let Some(start) = range.slot.blind_from(key, start) {
                    let target = Target { key: *key, start };
                    unknown.push((target, Some(change)));
                }
            }
        }
        if !unknown.is_empty() {
            self.ready = self.read(&unknown, false)?;
            self.ready.reverse();
        }
        Ok(())
    }

    fn read(
        &mut self,
        unknown: &[Unknown<'_, K>],
        is_shallow: bool,
    ) -> Result<Vec<Read<K>>, RootError> {
        let (read, nodes) = K::read(self.pass, self.lane, unknown, is_shallow)?;
        self.lane.found.count_read(nodes);
        Ok(read)
    }

    /// Applies `changes`, all below this slot, which begins at nibble `start`. Answers whether
    /// anything here differs from before.
    fn at(
        &mut self,
        slot: &mut Slot<K>,
        start: usize,
        changes: &[Keyed<K::Change>],
    ) -> Result<bool, RootError> {
        if changes.is_empty() {
            return Ok(false);
        }
        if slot.is_stub() {
            self.reveal(slot, start, changes)?;
        }
        let changed = match &slot.node {
            Node::None => self.at_nothing(slot, changes)?,
            Node::Leaf(leaf) => {
                let key = leaf.key;
                self.at_leaf(slot, key, changes)?
            }
            Node::Branch(branch) => {
                if branch.depth == start {
                    self.descend(slot, changes)?
                } else {
                    let place = (branch.key, branch.depth);
                    self.at_branch(slot, place, changes)?
                }
            }
        };
        if changed {
            slot.encoded = None;
        }
        Ok(changed)
    }

    fn at_nothing(
        &mut self,
        slot: &mut Slot<K>,
        changes: &[Keyed<K::Change>],
    ) -> Result<bool, RootError> {
        if !changes.iter().any(|(_, change)| change.sets()) {
            return Ok(false);
        }
        let (first, last) = (changes[0].0, changes[changes.len() - 1].0);
        if let [(key, change)] = changes {
            let mut content = None;
            K::change(self, &mut content, (key, change))?;
            slot.node = content.map_or(Node::None, |content| new_leaf(*key, content));
            return Ok(!slot.is_empty());
        }
        self.fork(slot, (first, common_prefix(&first, &last)), changes)
    }

    fn at_leaf(
        &mut self,
        slot: &mut Slot<K>,
        key: B256,
        changes: &[Keyed<K::Change>],
    ) -> Result<bool, RootError> {
        if sets_beside(changes, |other| *other != key) {
            let shared = shared_prefix(&key, changes);
            return self.fork(slot, (key, shared), changes);
        }
        let Ok(own) = changes.binary_search_by_key(&key, |(key, _)| *key) else {
            return Ok(false);
        };
        let Node::Leaf(leaf) = &mut slot.node else {
            return Ok(false);
        };
        let mut content = Some(take(&mut leaf.content));
        let changed = K::change(self, &mut content, (&key, &changes[own].1))?;
        match content {
            Some(content) => leaf.content = content,
            None => *slot = Slot::default(),
        }
        Ok(changed)
    }

    fn at_branch(
        &mut self,
        slot: &mut Slot<K>,
        (key, depth): (B256, usize),
        changes: &[Keyed<K::Change>],
    ) -> Result<bool, RootError> {
        let shared = shared_prefix(&key, changes);
        if shared >= depth {
            return self.descend(slot, changes);
        }
        let is_beside = |other: &B256| common_prefix(&key, other) < depth;
        if sets_beside(changes, is_beside) {
            return self.fork(slot, (key, shared), changes);
        }
        let below: Vec<_> = (0..changes.len())
            .filter(|&index| !is_beside(&changes[index].0))
            .collect();
        match (below.first(), below.last()) {
            (Some(&first), Some(&last)) => self.descend(slot, &changes[first..=last]),
            _ => Ok(false),
        }
    }

    /// Puts a branch at `depth` above what is here, so that new leaves find a place beside it.
    fn fork(
        &mut self,
        slot: &mut Slot<K>,
        (key, depth): (B256, usize),
        changes: &[Keyed<K::Change>],
    ) -> Result<bool, RootError> {
        let mut below = take(slot);
        below.encoded = None;
        let mut children = no_children();
        children[nibble(&key, depth)] = below;
        let branch = Branch::boxed((key, depth), self.pass.work.epoch(), children);
        slot.node = Node::Branch(branch);
        self.descend(slot, changes)?;
        Ok(true)
    }

    /// Applies changes that all lie below the branch in `slot`.
    fn descend(
        &mut self,
        slot: &mut Slot<K>,
        changes: &[Keyed<K::Change>],
    ) -> Result<bool, RootError> {
        let Node::Branch(branch) = &mut slot.node else {
            return Err(RootError::Inconsistent);
        };
        branch.epoch = self.pass.work.epoch();
        let mut added = Vec::new();
        let changed = if self.is_whole {
            self.descend_whole(branch, changes, &mut added)?
        } else {
            self.descend_cut(branch, changes, &mut added)?
        };
        if changed {
            self.settle(slot, added)?;
        }
        Ok(changed)
    }

    fn descend_whole(
        &mut self,
        branch: &mut Branch<K>,
        mut changes: &[Keyed<K::Change>],
        added: &mut Vec<Added<K>>,
    ) -> Result<bool, RootError> {
        let mut changed = false;
        let start = branch.depth + 1;
        while let Some((here, below)) = split_first_nibble(&mut changes, branch.depth) {
            if let Some(child) = branch.child_mut(here) {
                let before = child.bytes();
                let result = self.at(child, start, below);
                let after = child.bytes();
                branch.bytes = branch.bytes + after - before;
                changed |= result?;
            } else {
                let mut child = Slot::default();
                if self.at(&mut child, start, below)? {
                    changed = true;
                    added.push((here, child));
                }
            }
        }
        Ok(changed)
    }

    fn descend_cut(
        &mut self,
        branch: &mut Branch<K>,
        mut changes: &[Keyed<K::Change>],
        added: &mut Vec<Added<K>>,
    ) -> Result<bool, RootError> {
        let mut ranges = Vec::new();
        let first = changes.first().map(|(key, _)| *key);
        let is_before = |(key, _): &Keyed<K::Change>| Some(*key) < first;
        let mut place = self.pass.changes.partition_point(is_before);
        while let Some((nibble, below)) = split_first_nibble(&mut changes, branch.depth) {
            let places = place..place + below.len();
            place = places.end;
            ranges.push(Range {
                nibble,
                slot: branch.child_mut(nibble).map(take).unwrap_or_default(),
                places,
                changed: false,
            });
        }
        let before: usize = ranges.iter().map(|range| range.slot.bytes()).sum();
        branch.bytes -= before;
        let result = self.pass.run(&mut ranges, branch.depth + 1, self.lane);
        let mut changed = false;
        for range in ranges {
            changed |= range.changed;
            if let Some(child) = branch.child_mut(range.nibble) {
                let after = range.slot.bytes();
                *child = range.slot;
                branch.bytes += after;
            } else if range.changed {
                added.push((range.nibble, range.slot));
            }
        }
        result.map(|()| changed)
    }

    /// What remains of a branch after changes below it: children that are gone are left out, those
    /// that came are put in, and a lone child takes its place.
    fn settle(&mut self, slot: &mut Slot<K>, added: Vec<Added<K>>) -> Result<(), RootError> {
        let Node::Branch(branch) = &mut slot.node else {
            return Ok(());
        };
        let has_all = branch.children().iter().all(|child| !child.is_empty());
        let is_branch = branch.children().len() > 1;
        if is_branch && has_all && added.is_empty() {
            return Ok(());
        }
        let mut children = branch.take_children();
        for (nibble, child) in added {
            children[nibble] = child;
        }
        let (key, depth) = (branch.key, branch.depth);
        let mut there = (0..16).filter(|&nibble| !children[nibble].is_empty());
        let only = match (there.next(), there.next()) {
            (Some(_), Some(_)) => {
                let stored = branch.stored;
                *branch = Branch::boxed((key, depth), branch.epoch, children);
                branch.stored = stored;
                return Ok(());
            }
            (first, _) => first,
        };
        drop(there);
        if branch.stored {
            self.lane.found.nodes.removed.push(path(&key, depth));
        }
        let Some(nibble) = only else {
            *slot = Slot::default();
            return Ok(());
        };
        let mut child = take(&mut children[nibble]);
        if child.is_stub() {
            let target = Target {
                key: child_key(&key, depth, nibble),
                start: depth + 1,
            };
            let read = self.read(&[(target, None)], false)?.pop();
            self.put(&mut child, read)?;
        }
        *slot = child;
        Ok(())
    }

    /// Puts what was read in the place of a stub. Where there are more changes than the grain, only
    /// the topmost nodes are read: what is below by those who take it.
    fn reveal(
        &mut self,
        slot: &mut Slot<K>,
        start: usize,
        changes: &[Keyed<K::Change>],
    ) -> Result<(), RootError> {
        let first = changes[0].0;
        let is_here =
            |read: &mut Read<K>| read.start == start && common_prefix(&read.key, &first) >= start;
        let read = match self.ready.pop_if(is_here) {
            Some(read) => Some(read),
            None => {
                let target = |key| Target { key, start };
                let unknown = changes.iter();
                let unknown: Vec<_> = unknown
                    .map(|(key, change)| (target(*key), Some(change)))
                    .collect();
                self.read(&unknown, !self.is_whole)?.pop()
            }
        };
        self.put(slot, read)
    }

    fn put(&mut self, slot: &mut Slot<K>, read: Option<Read<K>>) -> Result<(), RootError> {
        let Some(read) = read.filter(|read| !matches!(read.slot.node, Node::None)) else {
            return Err(RootError::Inconsistent);
        };
        if read.start == 0 {
            K::check_root(slot.root_hash(), read.slot.root_hash())?;
        }
        slot.node = read.slot.node;
        Ok(())
    }
}

/// Takes off the changes that continue with the first of their nibbles at `depth`.
fn split_first_nibble<'c, T>(
    changes: &mut &'c [Keyed<T>],
    depth: usize,
) -> Option<(usize, &'c [Keyed<T>])> {
    let here = nibble(&changes.first()?.0, depth);
    let len = changes.partition_point(|(key, _)| nibble(key, depth) <= here);
    let (below, rest) = changes.split_at(len);
    *changes = rest;
    Some((here, below))
}

/// Whether a change makes a leaf at a key for which `is_beside` holds.
fn sets_beside<T: Change>(changes: &[Keyed<T>], is_beside: impl Fn(&B256) -> bool) -> bool {
    changes
        .iter()
        .any(|(key, change)| is_beside(key) && change.sets())
}

/// Nibbles that `key` shares with all changed keys.
fn shared_prefix<T>(key: &B256, changes: &[Keyed<T>]) -> usize {
    let (first, last) = (&changes[0].0, &changes[changes.len() - 1].0);
    common_prefix(key, first).min(common_prefix(key, last))
}

fn new_leaf<K: Kind>(key: B256, content: K) -> Node<K> {
    Node::Leaf(Box::new(Leaf { key, content }))
}
