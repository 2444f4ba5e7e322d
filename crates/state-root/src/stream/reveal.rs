//! Putting what was read beside others into a trie of which they may have read the same.
//!
//! Both are tries of one state, so where they overlap they agree: what is known stays, and what was
//! read takes the places of stubs.

use super::{
    branch::Branch,
    node::{Content, Node, Slot},
    read::Read,
};
use crate::{error::RootError, nibbles::nibble};
use alloy_primitives::B256;

impl<C: Content> Slot<C> {
    /// Puts in what was read. Answers how many of its nodes were known already.
    pub(super) fn reveal(&mut self, read: Read<C>, epoch: u64) -> Result<u64, RootError> {
        if read.start == 0 && self.is_stub() {
            if read.slot.is_empty() {
                *self = Self::default();
            } else {
                self.encoded = read.slot.encoded.or(self.encoded);
                self.node = read.slot.node;
            }
            return Ok(0);
        }
        put(&mut self.node, 0, read, epoch)
    }

    /// Does something to what a leaf on a known path holds, if there is one.
    pub(super) fn with_leaf<R>(&mut self, key: &B256, work: impl FnOnce(&mut C) -> R) -> Option<R> {
        with_leaf(&mut self.node, key, work)
    }
}

/// The same below a node that begins at nibble `start`.
fn put<C: Content>(
    node: &mut Node<C>,
    start: usize,
    read: Read<C>,
    epoch: u64,
) -> Result<u64, RootError> {
    if start == read.start {
        return merge(node, read.slot.node);
    }
    let Node::Branch(branch) = node else {
        return Err(RootError::Inconsistent);
    };
    let depth = branch.head.depth();
    if depth >= read.start || !branch.head.contains(&read.key) {
        return Err(RootError::Inconsistent);
    }
    let nibble = nibble(&read.key, depth);
    branch.head.epoch = epoch;
    branch.make_places(1 << nibble);
    branch.at_place(nibble, |child| put(child, depth + 1, read, epoch))
}

/// Puts `new` in the place of `old`, or what `old` lacks of it below.
fn merge<C: Content>(old: &mut Node<C>, new: Node<C>) -> Result<u64, RootError> {
    match (old, new) {
        (_, Node::None) => Ok(0),
        (old @ Node::None, new) => {
            *old = new;
            Ok(0)
        }
        (Node::Leaf(old), Node::Leaf(new)) if old.key == new.key => Ok(1),
        (Node::Branch(old), Node::Branch(new)) if old.head.depth() == new.head.depth() => {
            merge_branches(old, new)
        }
        _ => Err(RootError::Inconsistent),
    }
}

fn merge_branches<C: Content>(old: &mut Branch<C>, new: Branch<C>) -> Result<u64, RootError> {
    let mut known = 1;
    old.head.epoch = new.head.epoch;
    old.make_places(new.head.placed());
    for (nibble, child) in new.into_places() {
        known += old.at_place(nibble, |place| merge(place, child))?;
    }
    Ok(known)
}

fn with_leaf<C: Content, R>(
    node: &mut Node<C>,
    key: &B256,
    work: impl FnOnce(&mut C) -> R,
) -> Option<R> {
    match node {
        Node::None => None,
        Node::Leaf(leaf) => (leaf.key == *key).then(|| work(&mut leaf.content)),
        Node::Branch(branch) if branch.head.contains(key) => {
            let nibble = nibble(key, branch.head.depth());
            branch.at_known(nibble, |child| with_leaf(child, key, work))?
        }
        Node::Branch(_) => None,
    }
}
