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
    branch::{Branch, Counts},
    change::{Change, Keyed, weight},
    found::{Found, Lane},
    kind::{Fate, Kind, Unknown},
    node::{Leaf, Node, Slot},
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

/// A node of which the encoding is known, and so far nothing else.
#[derive(Debug, Clone, Copy)]
enum Stub {
    /// The root of a trie, by its hash.
    Root(B256),
    Child,
}

/// What has happened below a branch.
struct Descent<K> {
    /// Whether anything differs from before.
    changed: bool,
    /// Whether a child has gone.
    is_gone: bool,
    /// Children that the branch did not have, with their nibbles.
    added: Vec<(usize, Slot<K>)>,
}

impl<K> Default for Descent<K> {
    fn default() -> Self {
        Self {
            changed: false,
            is_gone: false,
            added: Vec::new(),
        }
    }
}

impl<K> Descent<K> {
    fn add(&mut self, nibble: usize, node: Node<K>) {
        self.changed = true;
        let encoded = None;
        self.added.push((nibble, Slot { encoded, node }));
    }
}

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
    fn at_slot(
        &mut self,
        slot: &mut Slot<K>,
        start: usize,
        changes: &[Keyed<K::Change>],
    ) -> Result<bool, RootError> {
        let stub = slot.is_stub().then(|| match start {
            0 => Stub::Root(slot.root_hash()),
            _ => Stub::Child,
        });
        let changed = self.at((&mut slot.node, stub), start, changes)?;
        if changed {
            slot.encoded = None;
        }
        Ok(changed)
    }

    /// The same below a node, which may be a stub.
    fn at(
        &mut self,
        (node, stub): (&mut Node<K>, Option<Stub>),
        start: usize,
        changes: &[Keyed<K::Change>],
    ) -> Result<bool, RootError> {
        if changes.is_empty() {
            return Ok(false);
        }
        if let (Node::None, Some(stub)) = (&*node, stub) {
            self.reveal((node, stub), start, changes)?;
        }
        match node {
            Node::None => self.at_nothing(node, changes),
            Node::Leaf(leaf) => {
                let key = leaf.key;
                self.at_leaf(node, key, changes)
            }
            Node::Branch(branch) => {
                let place = (branch.head.key, branch.head.depth());
                if place.1 == start {
                    self.descend(node, changes)
                } else {
                    self.at_branch(node, place, changes)
                }
            }
        }
    }

    fn at_nothing(
        &mut self,
        node: &mut Node<K>,
        changes: &[Keyed<K::Change>],
    ) -> Result<bool, RootError> {
        if !changes.iter().any(|(_, change)| change.sets()) {
            return Ok(false);
        }
        let (first, last) = (changes[0].0, changes[changes.len() - 1].0);
        if let [(key, change)] = changes {
            let content = K::create(self, (key, change))?;
            let is_there = content.is_some();
            let leaf = |content| Node::Leaf(Leaf { key: *key, content });
            *node = content.map_or(Node::None, leaf);
            return Ok(is_there);
        }
        self.fork(node, (first, common_prefix(&first, &last)), changes)
    }

    fn at_leaf(
        &mut self,
        node: &mut Node<K>,
        key: B256,
        changes: &[Keyed<K::Change>],
    ) -> Result<bool, RootError> {
        if sets_beside(changes, |other| *other != key) {
            let shared = shared_prefix(&key, changes);
            return self.fork(node, (key, shared), changes);
        }
        let Ok(own) = changes.binary_search_by_key(&key, |(key, _)| *key) else {
            return Ok(false);
        };
        let Node::Leaf(leaf) = node else {
            return Ok(false);
        };
        let fate = K::change(self, &mut leaf.content, (&key, &changes[own].1))?;
        if fate == Fate::Gone {
            *node = Node::None;
        }
        Ok(fate != Fate::Same)
    }

    fn at_branch(
        &mut self,
        node: &mut Node<K>,
        (key, depth): (B256, usize),
        changes: &[Keyed<K::Change>],
    ) -> Result<bool, RootError> {
        let shared = shared_prefix(&key, changes);
        if shared >= depth {
            return self.descend(node, changes);
        }
        let is_beside = |other: &B256| common_prefix(&key, other) < depth;
        if sets_beside(changes, is_beside) {
            return self.fork(node, (key, shared), changes);
        }
        let below: Vec<_> = (0..changes.len())
            .filter(|&index| !is_beside(&changes[index].0))
            .collect();
        match (below.first(), below.last()) {
            (Some(&first), Some(&last)) => self.descend(node, &changes[first..=last]),
            _ => Ok(false),
        }
    }

    /// Puts a branch at `depth` above what is here, so that new leaves find a place beside it.
    fn fork(
        &mut self,
        node: &mut Node<K>,
        (key, depth): (B256, usize),
        changes: &[Keyed<K::Change>],
    ) -> Result<bool, RootError> {
        let below = Slot {
            encoded: None,
            node: take(node),
        };
        let child = std::iter::once((nibble(&key, depth), below));
        *node = Node::Branch(self.branch((key, depth), child, 1));
        self.descend(node, changes)?;
        Ok(true)
    }

    /// A branch of this block's.
    fn branch(
        &self,
        place: (B256, usize),
        children: impl Iterator<Item = (usize, Slot<K>)>,
        count: usize,
    ) -> Branch<K> {
        let counts = Counts {
            children: count,
            known: count,
        };
        Branch::new(place, self.pass.work.epoch(), children, counts)
    }

    /// Applies changes that all lie below the branch that is here.
    fn descend(
        &mut self,
        node: &mut Node<K>,
        changes: &[Keyed<K::Change>],
    ) -> Result<bool, RootError> {
        let Node::Branch(branch) = node else {
            return Err(RootError::Inconsistent);
        };
        branch.head.epoch = self.pass.work.epoch();
        let mut done = Descent::default();
        if self.is_whole {
            self.descend_whole(branch, changes, &mut done)?;
        } else {
            self.descend_cut(branch, changes, &mut done)?;
        }
        if done.is_gone || !done.added.is_empty() || branch.len() < 2 {
            self.settle(node, done.added)?;
        }
        Ok(done.changed)
    }

    fn descend_whole(
        &mut self,
        branch: &mut Branch<K>,
        mut changes: &[Keyed<K::Change>],
        done: &mut Descent<K>,
    ) -> Result<(), RootError> {
        let depth = branch.head.depth();
        branch.make_places(next_nibbles(changes, depth));
        while let Some((here, below)) = split_first_nibble(&mut changes, depth) {
            let Some((child, has_ref)) = branch.child_mut(here) else {
                let mut child = Node::None;
                if self.at((&mut child, None), depth + 1, below)? {
                    done.add(here, child);
                }
                continue;
            };
            let before = child.bytes();
            let stub = has_ref.then_some(Stub::Child);
            let changed = self.at((&mut *child, stub), depth + 1, below);
            let (after, is_gone) = (child.bytes(), matches!(child, Node::None));
            branch.head.bytes = branch.head.bytes + after - before;
            if changed? {
                branch.outdate(here);
                done.changed = true;
                done.is_gone |= is_gone;
            }
        }
        Ok(())
    }

    fn descend_cut(
        &mut self,
        branch: &mut Branch<K>,
        mut changes: &[Keyed<K::Change>],
        done: &mut Descent<K>,
    ) -> Result<(), RootError> {
        let mut ranges = Vec::new();
        let depth = branch.head.depth();
        branch.make_places(next_nibbles(changes, depth));
        let first = changes.first().map(|(key, _)| *key);
        let is_before = |(key, _): &Keyed<K::Change>| Some(*key) < first;
        let mut place = self.pass.changes.partition_point(is_before);
        while let Some((nibble, below)) = split_first_nibble(&mut changes, depth) {
            let places = place..place + below.len();
            place = places.end;
            ranges.push(Range {
                nibble,
                slot: branch.take_child(nibble),
                places,
                changed: false,
            });
        }
        let before: usize = ranges.iter().map(|range| range.slot.node.bytes()).sum();
        branch.head.bytes -= before;
        let result = self.pass.run(&mut ranges, depth + 1, self.lane);
        for range in ranges {
            done.changed |= range.changed;
            if branch.has(range.nibble) {
                branch.head.bytes += range.slot.node.bytes();
                done.is_gone |= range.slot.is_empty();
                branch.put_child(range.nibble, range.slot);
            } else if range.changed {
                done.added.push((range.nibble, range.slot));
            }
        }
        result
    }

    /// What remains of a branch after changes below it: children that are gone are left out, those
    /// that came are put in, and a lone child takes its place.
    fn settle(
        &mut self,
        node: &mut Node<K>,
        added: Vec<(usize, Slot<K>)>,
    ) -> Result<(), RootError> {
        let Node::Branch(branch) = node else {
            return Ok(());
        };
        let (key, depth, stored) = (branch.head.key, branch.head.depth(), branch.head.stored);
        let mut children = branch.take_children();
        children.extend(added);
        children.sort_unstable_by_key(|(nibble, _)| *nibble);
        if children.len() > 1 {
            let count = children.len();
            *branch = self.branch((key, depth), children.into_iter(), count);
            branch.head.stored = stored;
            return Ok(());
        }
        if stored {
            self.lane.found.nodes.removed.push(path(&key, depth));
        }
        *node = Node::None;
        if let Some((nibble, child)) = children.pop() {
            let is_stub = child.is_stub();
            *node = child.node;
            if is_stub {
                let target = Target {
                    key: child_key(&key, depth, nibble),
                    start: depth + 1,
                };
                let read = self.read(&[(target, None)], false)?.pop();
                put((node, Stub::Child), read)?;
            }
        }
        Ok(())
    }

    /// Puts what was read in the place of a stub. Where there are more changes than the grain, only
    /// the topmost nodes are read: what is below by those who take it.
    fn reveal(
        &mut self,
        place: (&mut Node<K>, Stub),
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
        put(place, read)
    }
}

/// Puts what was read in the place of a stub.
fn put<K: Kind>(
    (node, stub): (&mut Node<K>, Stub),
    read: Option<Read<K>>,
) -> Result<(), RootError> {
    let Some(read) = read.filter(|read| !matches!(read.slot.node, Node::None)) else {
        return Err(RootError::Inconsistent);
    };
    if let Stub::Root(expected) = stub {
        K::check_root(expected, read.slot.root_hash())?;
    }
    *node = read.slot.node;
    Ok(())
}

/// The nibbles at `depth` with which changes continue.
fn next_nibbles<T>(changes: &[Keyed<T>], depth: usize) -> u16 {
    let bits = changes.iter().map(|(key, _)| 1 << nibble(key, depth));
    bits.fold(0, |set, bit: u16| set | bit)
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
