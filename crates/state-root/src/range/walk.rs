//! One pass over a sorted list of changes, cut into ranges of keys that threads take from each
//! other.
//!
//! A range is a subtree with the changes below it, so two ranges never meet: whoever has one reads
//! what is unknown in it, changes its leaves and hashes it, and alone. A range that stands for more
//! leaves than the grain is cut at the children of its branch; of the two halves the thread goes on
//! with the first, and the second waits on its deque until the thread comes back for it or an idle
//! one has taken it.

use super::{
    change::{Change, Keyed, weight},
    kind::Kind,
    node::{Branch, Leaf, Node, Slot},
};
use crate::{
    chunk::Target,
    cursor::StateSource,
    error::RootError,
    nibbles::{child_key, common_prefix, nibble, path},
    sparse::{BranchEncoder, NodeUpdate, Scratch, merge_updates, node_update},
    updates::StorageTrieUpdates,
};
use alloy_primitives::B256;
use alloy_trie::Nibbles;
use std::{
    mem::take,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

/// What all ranges of a block share.
#[derive(Debug)]
pub(super) struct Work<S> {
    pub(super) source: Arc<S>,
    pub(super) cancelled: AtomicBool,
    /// Leaves below which a range is not cut.
    pub(super) grain: usize,
    /// Number of the block, once it has begun.
    pub(super) epoch: AtomicU64,
}

impl<S> Work<S> {
    pub(super) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Relaxed)
    }
}

/// A pass over one trie.
pub(super) struct Pass<'a, S, K: Kind> {
    pub(super) work: &'a Work<S>,
    pub(super) trie: K::Trie,
    /// Whether what changes is hashed at once: in the block's last pass.
    pub(super) hashes: bool,
}

/// What a range leaves behind besides its subtree.
#[derive(Debug, Default)]
pub(super) struct Found {
    scratch: Scratch,
    updates: Vec<NodeUpdate>,
    /// Paths of stored branches that no longer exist.
    removed: Vec<Nibbles>,
    pub(super) storages: Vec<(B256, StorageTrieUpdates)>,
    pub(super) ranges: u64,
    pub(super) nodes_revealed: u64,
}

impl Found {
    /// What a range begins with.
    pub(super) fn of_range() -> Self {
        Self {
            ranges: 1,
            ..Self::default()
        }
    }

    /// Adds what another range of the same trie has found.
    fn append(&mut self, other: Self) {
        self.updates.extend(other.updates);
        self.removed.extend(other.removed);
        self.append_below(other.storages, (other.ranges, other.nodes_revealed));
    }

    /// Adds what was found in a storage trie.
    pub(super) fn append_storage(&mut self, other: Self) {
        self.append_below(other.storages, (other.ranges, other.nodes_revealed));
    }

    fn append_below(
        &mut self,
        storages: Vec<(B256, StorageTrieUpdates)>,
        (ranges, nodes_revealed): (u64, u64),
    ) {
        self.storages.extend(storages);
        self.ranges += ranges;
        self.nodes_revealed += nodes_revealed;
    }

    /// Changes to the stored branches of the trie, ascending by path.
    pub(super) fn take_updates(&mut self) -> Vec<NodeUpdate> {
        merge_updates(take(&mut self.updates), take(&mut self.removed))
    }
}

/// The changes below one child of a branch.
struct Range<'c, K: Kind> {
    nibble: usize,
    slot: Slot<K>,
    changes: &'c [Keyed<K::Change>],
    changed: bool,
}

impl<S: StateSource, K: Kind> Pass<'_, S, K> {
    /// Applies `changes`, all below this slot, which begins at nibble `start`. Answers whether
    /// anything here differs from before.
    pub(super) fn at(
        &self,
        slot: &mut Slot<K>,
        start: usize,
        changes: &[Keyed<K::Change>],
        found: &mut Found,
    ) -> Result<bool, RootError> {
        if changes.is_empty() {
            return Ok(false);
        }
        if slot.is_stub() {
            let targets: Vec<_> = changes
                .iter()
                .map(|&(key, _)| Target { key, start })
                .collect();
            self.reveal(slot, &targets, changes, found)?;
        }
        let changed = match &slot.node {
            Node::None => self.at_nothing(slot, changes, found)?,
            Node::Leaf(leaf) => {
                let key = leaf.key;
                self.at_leaf(slot, key, changes, found)?
            }
            Node::Branch(branch) => {
                let place = (branch.key, branch.depth);
                self.at_branch(slot, place, changes, found)?
            }
        };
        if changed {
            slot.encoded = None;
            if self.hashes {
                encode(slot, start, found);
            }
        }
        Ok(changed)
    }

    fn at_nothing(
        &self,
        slot: &mut Slot<K>,
        changes: &[Keyed<K::Change>],
        found: &mut Found,
    ) -> Result<bool, RootError> {
        if !changes.iter().any(|(_, change)| change.sets()) {
            return Ok(false);
        }
        let (first, last) = (changes[0].0, changes[changes.len() - 1].0);
        if let [(key, change)] = changes {
            let mut content = None;
            K::change(self, &mut content, (key, change), found)?;
            slot.node = content.map_or(Node::None, |content| new_leaf(*key, content));
            return Ok(!slot.is_empty());
        }
        self.fork(slot, (first, common_prefix(&first, &last)), changes, found)
    }

    fn at_leaf(
        &self,
        slot: &mut Slot<K>,
        key: B256,
        changes: &[Keyed<K::Change>],
        found: &mut Found,
    ) -> Result<bool, RootError> {
        if sets_beside(changes, |other| *other != key) {
            let shared = shared_prefix(&key, changes);
            return self.fork(slot, (key, shared), changes, found);
        }
        let Ok(own) = changes.binary_search_by_key(&key, |(key, _)| *key) else {
            return Ok(false);
        };
        let Node::Leaf(leaf) = &mut slot.node else {
            return Ok(false);
        };
        let mut content = Some(take(&mut leaf.content));
        let changed = K::change(self, &mut content, (&key, &changes[own].1), found)?;
        match content {
            Some(content) => leaf.content = content,
            None => *slot = Slot::default(),
        }
        Ok(changed)
    }

    fn at_branch(
        &self,
        slot: &mut Slot<K>,
        (key, depth): (B256, usize),
        changes: &[Keyed<K::Change>],
        found: &mut Found,
    ) -> Result<bool, RootError> {
        let shared = shared_prefix(&key, changes);
        if shared >= depth {
            return self.descend(slot, changes, found);
        }
        let is_beside = |other: &B256| common_prefix(&key, other) < depth;
        if sets_beside(changes, is_beside) {
            return self.fork(slot, (key, shared), changes, found);
        }
        let below: Vec<_> = (0..changes.len())
            .filter(|&index| !is_beside(&changes[index].0))
            .collect();
        match (below.first(), below.last()) {
            (Some(&first), Some(&last)) => self.descend(slot, &changes[first..=last], found),
            _ => Ok(false),
        }
    }

    /// Puts a branch at `depth` above what is here, so that new leaves find a place beside it.
    fn fork(
        &self,
        slot: &mut Slot<K>,
        (key, depth): (B256, usize),
        changes: &[Keyed<K::Change>],
        found: &mut Found,
    ) -> Result<bool, RootError> {
        let mut branch = Branch::new(key, depth, self.work.epoch());
        let below = &mut branch.children[nibble(&key, depth)];
        *below = take(slot);
        below.encoded = None;
        branch.bytes += below.bytes();
        slot.node = Node::Branch(Box::new(branch));
        self.descend(slot, changes, found)?;
        Ok(true)
    }

    /// Applies changes that all lie below the branch in `slot`.
    fn descend(
        &self,
        slot: &mut Slot<K>,
        changes: &[Keyed<K::Change>],
        found: &mut Found,
    ) -> Result<bool, RootError> {
        let Node::Branch(branch) = &mut slot.node else {
            return Err(RootError::Inconsistent);
        };
        branch.epoch = self.work.epoch();
        let mut ranges = take_ranges(branch, changes);
        let before: usize = ranges.iter().map(|range| range.slot.bytes()).sum();
        let result = self.run(&mut ranges, branch.depth + 1, found);
        let after: usize = ranges.iter().map(|range| range.slot.bytes()).sum();
        branch.bytes = branch.bytes + after - before;
        let mut changed = false;
        for range in ranges {
            changed |= range.changed;
            branch.children[range.nibble] = range.slot;
        }
        result?;
        if changed {
            self.settle(slot, found)?;
        }
        Ok(changed)
    }

    /// Runs ranges below one branch, in halves as long as they stand for more than the grain.
    fn run(
        &self,
        ranges: &mut [Range<'_, K>],
        start: usize,
        found: &mut Found,
    ) -> Result<(), RootError> {
        let total: usize = ranges.iter().map(|range| weight(range.changes)).sum();
        if ranges.len() < 2 || total <= self.work.grain {
            for range in ranges {
                range.changed = self.at(&mut range.slot, start, range.changes, found)?;
            }
            return Ok(());
        }
        let (left, right) = ranges.split_at_mut(middle(ranges, total));
        let mut beside = Found::of_range();
        let (left, right) = rayon::join(
            || self.run(left, start, found),
            || self.run(right, start, &mut beside),
        );
        left?;
        right?;
        found.append(beside);
        Ok(())
    }

    /// What remains of a branch after changes below it: a lone child takes its place.
    fn settle(&self, slot: &mut Slot<K>, found: &mut Found) -> Result<(), RootError> {
        let Node::Branch(branch) = &mut slot.node else {
            return Ok(());
        };
        let mut children = (0..16).filter(|&nibble| !branch.children[nibble].is_empty());
        let only = match (children.next(), children.next()) {
            (Some(_), Some(_)) => return Ok(()),
            (first, _) => first,
        };
        drop(children);
        let (key, depth) = (branch.key, branch.depth);
        if branch.stored {
            found.removed.push(path(&key, depth));
        }
        let Some(nibble) = only else {
            *slot = Slot::default();
            return Ok(());
        };
        let mut child = take(&mut branch.children[nibble]);
        if child.is_stub() {
            let target = Target {
                key: child_key(&key, depth, nibble),
                start: depth + 1,
            };
            self.reveal(&mut child, &[target], &[], found)?;
        }
        *slot = child;
        Ok(())
    }

    /// Reads the nodes on the paths of `targets` in the place of a stub. Where there are more
    /// changes than the grain, only the topmost ones: the ranges below are read by who takes them.
    fn reveal(
        &self,
        slot: &mut Slot<K>,
        targets: &[Target],
        changes: &[Keyed<K::Change>],
        found: &mut Found,
    ) -> Result<(), RootError> {
        let shallow = weight(changes) > self.work.grain;
        let (read, nodes) = K::read(self, targets, changes, shallow)?;
        if matches!(read.node, Node::None) {
            return Err(RootError::Inconsistent);
        }
        if targets.first().is_some_and(|target| target.start == 0) {
            K::check_root(slot.root_hash(), read.root_hash())?;
        }
        found.nodes_revealed += nodes as u64;
        slot.node = read.node;
        Ok(())
    }
}

/// Cuts `changes`, all below `branch`, by child, and takes these children out.
fn take_ranges<'c, K: Kind>(
    branch: &mut Branch<K>,
    mut changes: &'c [Keyed<K::Change>],
) -> Vec<Range<'c, K>> {
    let mut ranges = Vec::new();
    while let Some((first, _)) = changes.first() {
        let here = nibble(first, branch.depth);
        let len = changes.partition_point(|(key, _)| nibble(key, branch.depth) <= here);
        let (below, rest) = changes.split_at(len);
        ranges.push(Range {
            nibble: here,
            slot: take(&mut branch.children[here]),
            changes: below,
            changed: false,
        });
        changes = rest;
    }
    ranges
}

/// Where to cut ranges of this total weight so that both parts, neither empty, weigh about alike.
fn middle<K: Kind>(ranges: &[Range<'_, K>], total: usize) -> usize {
    let mut left = 0;
    let heavy = ranges.iter().position(|range| {
        left += weight(range.changes);
        2 * left >= total
    });
    heavy.map_or(1, |index| (index + 1).min(ranges.len() - 1))
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

/// Encodes the subtree of a slot that begins at nibble `start`, where it is not encoded already.
fn encode<K: Kind>(slot: &mut Slot<K>, start: usize, found: &mut Found) {
    slot.encoded = match &mut slot.node {
        Node::None => None,
        Node::Leaf(leaf) => Some(leaf.content.encode(&leaf.key, start, &mut found.scratch)),
        Node::Branch(branch) => {
            let mut encoder = BranchEncoder::new();
            let mut hashes = Vec::new();
            for nibble in 0..16 {
                let child = &mut branch.children[nibble];
                if child.encoded.is_none() {
                    encode(child, branch.depth + 1, found);
                }
                if let Some(child) = &child.encoded {
                    encoder.push(nibble, child);
                    hashes.extend(child.rlp.as_hash().filter(|_| child.hashed_branch));
                }
            }
            let place = (&branch.key, branch.depth);
            let encoded = encoder.finish(place, start, &mut found.scratch);
            let node = encoder.compact(branch.depth, hashes);
            let is_stored = node.is_some();
            found
                .updates
                .extend(node_update(place, branch.stored, node));
            branch.stored = is_stored;
            Some(encoded)
        }
    };
}
