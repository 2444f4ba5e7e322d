//! What a range leaves behind besides its subtree, and what its thread needs on the way.

use super::rlp::{NodeUpdate, Scratch, merge_updates};
use crate::{cursor::StateSource, error::RootError, updates::StorageTrieUpdates};
use alloy_primitives::{B256, map::B256Map};
use alloy_trie::Nibbles;
use std::mem::take;

/// Changes to the stored branches of one trie, in no order.
#[derive(Debug, Default)]
pub(super) struct NodeChanges {
    pub(super) updates: Vec<NodeUpdate>,
    /// Paths of stored branches that no longer exist.
    pub(super) removed: Vec<Nibbles>,
}

impl NodeChanges {
    fn append(&mut self, other: Self) {
        self.updates.extend(other.updates);
        self.removed.extend(other.removed);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.updates.is_empty() && self.removed.is_empty()
    }
}

/// A part of the changes to one storage trie.
#[derive(Debug)]
pub(super) struct StorageChanges {
    pub(super) address: B256,
    pub(super) wiped: bool,
    pub(super) nodes: NodeChanges,
}

/// What ranges leave behind.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) scratch: Scratch,
    /// Of the trie that is walked.
    pub(super) nodes: NodeChanges,
    pub(super) storages: Vec<StorageChanges>,
    /// Ranges that a thread took as one.
    pub(super) ranges: u64,
    pub(super) nodes_revealed: u64,
    pub(super) nodes_hashed: u64,
    /// Nodes read and hashed one after another: the longest chain.
    pub(super) longest_chain: u64,
}

impl Found {
    pub(super) fn count_read(&mut self, nodes: usize) {
        self.nodes_revealed += nodes as u64;
        self.longest_chain += nodes as u64;
    }

    pub(super) fn count_hashed(&mut self, nodes: usize) {
        self.nodes_hashed += nodes as u64;
        self.longest_chain += nodes as u64;
    }

    /// Adds what another range has found beside the last one, before which the chain was as long as
    /// `chain_before`.
    pub(super) fn append_beside(&mut self, other: Self, chain_before: u64) {
        self.ranges += other.ranges + 1;
        self.longest_chain = self.longest_chain.max(chain_before + other.longest_chain);
        self.nodes.append(other.nodes);
        self.storages.extend(other.storages);
        self.nodes_revealed += other.nodes_revealed;
        self.nodes_hashed += other.nodes_hashed;
    }

    /// Changes to the stored branches of the trie that was walked, ascending by path.
    pub(super) fn take_updates(&mut self) -> Vec<NodeUpdate> {
        merge(take(&mut self.nodes))
    }

    /// The same of the storage tries below it.
    pub(super) fn take_storages(&mut self) -> B256Map<StorageTrieUpdates> {
        let mut parts: B256Map<(bool, NodeChanges)> = B256Map::default();
        for part in self.storages.drain(..) {
            let (wiped, nodes) = parts.entry(part.address).or_default();
            *wiped |= part.wiped;
            nodes.append(part.nodes);
        }
        let merged = |(address, (wiped, nodes))| {
            let nodes = merge(nodes);
            (address, StorageTrieUpdates { wiped, nodes })
        };
        parts.into_iter().map(merged).collect()
    }
}

fn merge(nodes: NodeChanges) -> Vec<NodeUpdate> {
    merge_updates(nodes.updates, nodes.removed)
}

/// A thread's way through ranges that it does not share.
pub(super) struct Lane<S: StateSource> {
    pub(super) found: Found,
    /// Opened when something has to be read, and open until the thread is through.
    view: Option<S::View>,
}

impl<S: StateSource> Default for Lane<S> {
    fn default() -> Self {
        Self::of(Found::default())
    }
}

impl<S: StateSource> Lane<S> {
    /// A lane that goes on with what others have found.
    pub(super) fn of(found: Found) -> Self {
        Self { found, view: None }
    }

    pub(super) fn view(&mut self, source: &S) -> Result<&S::View, RootError> {
        let view = match self.view.take() {
            Some(view) => view,
            None => source.open()?,
        };
        Ok(self.view.insert(view))
    }
}
