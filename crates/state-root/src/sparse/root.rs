//! The root of a partial trie and the stored branches that change with it.

use super::{
    Branch, BranchEncoder, ChildRef, Encoded, LeafValue, NodeKind, NodeRef, NodeUpdate, Scratch,
    SparseTrie,
    encode::{merge_updates, node_update},
};
use crate::stored::StoredBranch;
use alloy_primitives::B256;
use alloy_trie::EMPTY_ROOT_HASH;
use rayon::prelude::*;

/// Below this many nodes a trie is hashed on one thread: waking others costs more.
const PARALLEL_NODES: usize = 256;

/// What becomes of a partial trie.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) root: B256,
    /// Changes to stored branches, ascending by path.
    pub(crate) updates: Vec<NodeUpdate>,
    pub(crate) nodes_hashed: u64,
    /// Of these, how many one thread does one after another.
    pub(crate) longest_chain: u64,
    /// Nodes that proofs brought though they were known.
    pub(crate) nodes_reread: u64,
}

impl<V: LeafValue> SparseTrie<V> {
    /// The root, and what else there is to say at the end.
    pub(crate) fn finish(self) -> Finished {
        let mut pass = Pass {
            trie: &self,
            updates: Vec::new(),
            scratch: Scratch::default(),
            hashed: 0,
            chain: 0,
        };
        let root = match self.root.kind() {
            NodeKind::Empty => EMPTY_ROOT_HASH,
            _ => pass.node(self.root, 0).rlp.root_hash(),
        };
        Finished {
            root,
            nodes_hashed: pass.hashed,
            longest_chain: pass.chain,
            nodes_reread: self.reread,
            updates: merge_updates(pass.updates, self.removed),
        }
    }
}

/// A walk over the changed nodes of a trie.
struct Pass<'a, V> {
    trie: &'a SparseTrie<V>,
    updates: Vec<NodeUpdate>,
    scratch: Scratch,
    /// Nodes encoded, and how many of them one after another.
    hashed: u64,
    chain: u64,
}

impl<V: LeafValue> Pass<'_, V> {
    /// The encoding of a node that begins at nibble `start`.
    fn node(&mut self, node: NodeRef, start: usize) -> Encoded {
        if let Some(encoded) = self.trie.arena.encoded(node) {
            return *encoded;
        }
        self.hashed += 1;
        self.chain += 1;
        match node.kind() {
            NodeKind::Leaf(index) => self.scratch.leaf(&self.trie.arena.leaves[index], start),
            NodeKind::Branch(index) => self.branch(&self.trie.arena.branches[index], start),
            NodeKind::Empty | NodeKind::Stub(_) => Encoded::plain(ChildRef::default()),
        }
    }

    fn branch(&mut self, branch: &Branch, start: usize) -> Encoded {
        let mut encoder = BranchEncoder::new();
        let mut hashes = Vec::new();
        let mut add = |nibble, child: &Encoded| {
            encoder.push(nibble, child);
            if child.hashed_branch {
                hashes.extend(child.rlp.hash());
            }
        };
        if start == 0 && self.trie.arena.node_count() >= PARALLEL_NODES {
            for (nibble, child) in self.children_in_parallel(branch) {
                add(nibble, &child);
            }
        } else {
            for (nibble, child) in branch.live_children() {
                match self.trie.arena.encoded(child) {
                    Some(child) => add(nibble, child),
                    None => add(nibble, &self.node(child, branch.depth + 1)),
                }
            }
        }
        let place = (&branch.key, branch.depth);
        let encoded = encoder.finish(place, start, &mut self.scratch);
        let masks = encoder.masks(branch.depth);
        let node = masks.map(|masks| StoredBranch::new(masks, hashes));
        self.updates.extend(node_update(place, branch.stored, node));
        encoded
    }

    fn children_in_parallel(&mut self, branch: &Branch) -> Vec<(usize, Encoded)> {
        let children: Vec<_> = branch.live_children().collect();
        let encoded: Vec<_> = children
            .into_par_iter()
            .map(|(nibble, child)| {
                let scratch = Scratch::default();
                let mut pass = Pass {
                    trie: self.trie,
                    updates: Vec::new(),
                    scratch,
                    hashed: 0,
                    chain: 0,
                };
                let encoded = pass.node(child, branch.depth + 1);
                (nibble, encoded, pass)
            })
            .collect();
        let longest = encoded.iter().map(|(_, _, pass)| pass.chain).max();
        self.chain += longest.unwrap_or(0);
        encoded
            .into_iter()
            .map(|(nibble, encoded, pass)| {
                self.updates.extend(pass.updates);
                self.hashed += pass.hashed;
                (nibble, encoded)
            })
            .collect()
    }
}
