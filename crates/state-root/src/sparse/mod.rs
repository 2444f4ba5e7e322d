//! A partial Merkle Patricia Trie: the paths of changed leaves, and stubs for everything else.
//!
//! It is used in three steps: paths are revealed from proofs, all changes are applied in one sorted
//! pass, and the root and the changed stored branches are computed from what is marked as changed.
//!
//! Invariant: no branch has fewer than two children, except one whose only child is a stub; such a
//! branch cannot collapse until the stub is revealed, which [`SparseTrie::apply`] asks for.

mod apply;
mod arena;
mod child_ref;
mod encode;
mod root;

pub(crate) use arena::{Arena, Branch, Encoded, Leaf, LeafValue, NodeKind, NodeRef};
pub(crate) use child_ref::ChildRef;
pub(crate) use encode::{BranchEncoder, NodeUpdate, Scratch, merge_updates};
pub(crate) use root::Finished;

use crate::nibbles::nibble;
use alloy_primitives::{B256, U256};
use alloy_trie::{EMPTY_ROOT_HASH, Nibbles, TrieAccount};

/// Nodes on the paths of some targets, read from the database.
#[derive(Debug)]
pub(crate) struct Proof<V> {
    pub(crate) arena: Arena<V>,
    /// The topmost nodes, each to be put in the place of a stub.
    pub(crate) roots: Vec<ProofRoot>,
}

impl<V> Proof<V> {
    /// The hash of the whole trie, if the root is among what was asked for.
    pub(crate) fn root_hash(&self) -> Option<B256> {
        let root = self.roots.iter().find(|root| root.start == 0)?;
        Some(
            self.arena
                .encoded(root.node)
                .map_or(EMPTY_ROOT_HASH, |root| root.rlp.root_hash()),
        )
    }
}

/// Where a part of a proof belongs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProofRoot {
    /// Any key below; the first `start` nibbles are the position.
    pub(crate) key: B256,
    /// Where the node begins, in nibbles.
    pub(crate) start: usize,
    pub(crate) node: NodeRef,
}

/// A partial trie with leaves of type `V`.
#[derive(Debug)]
pub(crate) struct SparseTrie<V> {
    arena: Arena<V>,
    root: NodeRef,
    /// Paths of stored branches that no longer exist.
    removed: Vec<Nibbles>,
    /// Nodes that proofs brought though they were known.
    reread: u64,
}

/// The sparse account trie.
pub(crate) type AccountTrie = SparseTrie<TrieAccount>;
/// A sparse storage trie.
pub(crate) type StorageTrie = SparseTrie<U256>;

impl<V: LeafValue> SparseTrie<V> {
    /// A trie of which nothing is known, not even its root.
    pub(crate) fn blind() -> Self {
        let mut trie = Self::empty();
        trie.root = trie.arena.add_stub(Encoded::plain(ChildRef::default()));
        trie
    }

    /// A trie without leaves, all of which is known.
    pub(crate) fn empty() -> Self {
        Self {
            arena: Arena::default(),
            root: NodeRef::EMPTY,
            removed: Vec::new(),
            reread: 0,
        }
    }

    /// Where the path to `key` becomes unknown, in nibbles; `None` when all of it is known.
    pub(crate) fn blind_from(&self, key: &B256) -> Option<usize> {
        let (mut node, mut start) = (self.root, 0);
        loop {
            match node.kind() {
                NodeKind::Stub(_) => return Some(start),
                NodeKind::Branch(index) => {
                    let branch = &self.arena.branches[index];
                    if !branch.contains(key) {
                        return None;
                    }
                    node = branch.children[nibble(key, branch.depth)];
                    start = branch.depth + 1;
                }
                NodeKind::Empty | NodeKind::Leaf(_) => return None,
            }
        }
    }

    /// The value of a leaf on a known path.
    pub(crate) fn get(&self, key: &B256) -> Option<&V> {
        let mut node = self.root;
        loop {
            match node.kind() {
                NodeKind::Branch(index) => {
                    let branch = &self.arena.branches[index];
                    node = branch.children[nibble(key, branch.depth)];
                }
                NodeKind::Leaf(index) => {
                    let leaf = &self.arena.leaves[index];
                    return (leaf.key == *key).then_some(&leaf.value);
                }
                NodeKind::Empty | NodeKind::Stub(_) => return None,
            }
        }
    }

    /// Puts the nodes of a proof where stubs are; what is known already stays as it is.
    pub(crate) fn reveal(&mut self, proof: Proof<V>) {
        let moved = self.arena.append(proof.arena);
        for root in proof.roots {
            let node = moved.node(root.node);
            if root.start == 0 {
                self.root = self.merge(self.root, node);
            } else if let Some((branch, nibble)) = self.position(&root.key, root.start) {
                let old = self.arena.branches[branch].children[nibble];
                self.arena.branches[branch].children[nibble] = self.merge(old, node);
            }
        }
    }

    /// The branch and nibble whose child begins at nibble `start` of `key`.
    fn position(&self, key: &B256, start: usize) -> Option<(usize, usize)> {
        let mut node = self.root;
        while let NodeKind::Branch(index) = node.kind() {
            let branch = &self.arena.branches[index];
            if branch.depth >= start || !branch.contains(key) {
                return None;
            }
            let nibble = nibble(key, branch.depth);
            if branch.depth + 1 == start {
                return Some((index, nibble));
            }
            node = branch.children[nibble];
        }
        None
    }

    /// Puts `new` in the place of `old` where that is a stub, and below it where it is not.
    fn merge(&mut self, old: NodeRef, new: NodeRef) -> NodeRef {
        match (old.kind(), new.kind()) {
            (NodeKind::Stub(_), NodeKind::Stub(_)) => old,
            (NodeKind::Stub(stub), _) => {
                // A proof leaves out what its parent knows, which is what the stub holds.
                if self.arena.encoded(new).is_none() {
                    let encoded = self.arena.stubs[stub];
                    self.arena.set_encoded(new, Some(encoded));
                }
                new
            }
            (NodeKind::Branch(old_index), NodeKind::Branch(new_index)) => {
                self.reread += 1;
                let depth = self.arena.branches[new_index].depth;
                if depth == self.arena.branches[old_index].depth {
                    self.merge_children(old_index, new_index);
                }
                old
            }
            (NodeKind::Leaf(_), NodeKind::Leaf(_)) => {
                self.reread += 1;
                old
            }
            _ => old,
        }
    }

    fn merge_children(&mut self, old: usize, new: usize) {
        for nibble in 0..16 {
            let known = self.arena.branches[old].children[nibble];
            let proven = self.arena.branches[new].children[nibble];
            if !known.is_empty() && !proven.is_empty() {
                self.arena.branches[old].children[nibble] = self.merge(known, proven);
            }
        }
    }
}
