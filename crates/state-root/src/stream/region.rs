//! What one thread does to the ranges it has: reading what is unknown, and changing leaves, from the
//! top down.

use super::{
    branch::{Branch, Counts},
    change::{Change, Keyed},
    found::Lane,
    kind::{Fate, Kind, Unknown},
    node::{Leaf, Node, Slot},
    read::Read,
    walk::{Pass, Range},
};
use crate::{
    chunk::Target,
    cursor::StateSource,
    error::RootError,
    nibbles::{child_key, common_prefix, nibble, path},
};
use alloy_primitives::B256;
use std::mem::take;

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

impl<'a, S: StateSource, K: Kind> Region<'a, S, K> {
    pub(super) fn new(pass: &'a Pass<S, K>, lane: &'a mut Lane<S>, is_whole: bool) -> Self {
        Self {
            pass,
            lane,
            is_whole,
            ready: Vec::new(),
        }
    }

    /// Reads everything that the changes lack in one walk.
    pub(super) fn read_ahead(
        &mut self,
        ranges: &[Range<K>],
        start: usize,
    ) -> Result<(), RootError> {
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
    pub(super) fn at_slot(
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
