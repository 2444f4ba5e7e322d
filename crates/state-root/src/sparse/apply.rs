//! Applying changed leaves: one recursive pass over a sorted list, each node visited once.

use super::{Branch, Leaf, LeafValue, NodeKind, NodeRef, SparseTrie};
use crate::{
    chunk::Target,
    nibbles::{KEY_LEN, child_key, common_prefix, nibble, path},
};
use alloy_primitives::B256;

/// A leaf's new value; `None` removes it.
pub(crate) type LeafChange<V> = (B256, Option<V>);

/// A node after changes, and whether anything in or below it differs from before.
type Applied = (NodeRef, bool);

impl<V: LeafValue> SparseTrie<V> {
    /// Applies `changes`, strictly ascending by key, and returns what must be revealed before all
    /// of them are in. Then the same changes are to be applied again, which does no harm.
    ///
    /// Two things are asked for: the path of a changed leaf, and the last remaining child of a
    /// branch that lost its others, because it takes the place of the branch.
    pub(crate) fn apply(&mut self, changes: &[LeafChange<V>]) -> Vec<Target> {
        let mut missing = Vec::new();
        if !changes.is_empty() {
            let (root, _) = Apply {
                trie: self,
                missing: &mut missing,
            }
            .at(None, changes);
            self.root = root;
        }
        missing.sort_unstable();
        missing.dedup();
        missing
    }
}

/// One pass over the changes.
struct Apply<'a, V> {
    trie: &'a mut SparseTrie<V>,
    missing: &'a mut Vec<Target>,
}

impl<V: LeafValue> Apply<'_, V> {
    /// The node at the root, or the child of a branch.
    fn at(&mut self, parent: Option<(usize, usize)>, changes: &[LeafChange<V>]) -> Applied {
        let (node, start) = match parent {
            None => (self.trie.root, 0),
            Some((branch, nibble)) => {
                let branch = &self.trie.arena.branches[branch];
                (branch.children[nibble], branch.depth + 1)
            }
        };
        let (first, last) = (&changes[0].0, &changes[changes.len() - 1].0);
        match node.kind() {
            NodeKind::Stub(_) => {
                self.missing
                    .extend(changes.iter().map(|(key, _)| Target { key: *key, start }));
                (node, false)
            }
            NodeKind::Empty if changes.len() == 1 => self.insert(&changes[0]),
            NodeKind::Empty => self.fork(node, *first, common_prefix(first, last), changes),
            NodeKind::Leaf(index) => {
                let key = self.trie.arena.leaves[index].key;
                match common_prefix(&key, first).min(common_prefix(&key, last)) {
                    KEY_LEN => self.change_leaf(node, index, &changes[0].1),
                    depth => self.fork(node, key, depth, changes),
                }
            }
            NodeKind::Branch(index) => {
                let Branch { key, depth, .. } = self.trie.arena.branches[index];
                let shared = common_prefix(&key, first).min(common_prefix(&key, last));
                if shared >= depth {
                    self.descend(node, index, changes)
                } else {
                    self.fork(node, key, shared, changes)
                }
            }
        }
    }

    fn insert(&mut self, (key, value): &LeafChange<V>) -> Applied {
        match value {
            Some(value) => {
                let leaf = Leaf {
                    key: *key,
                    value: value.clone(),
                    encoded: None,
                };
                (self.trie.arena.add_leaf(leaf), true)
            }
            None => (NodeRef::EMPTY, false),
        }
    }

    fn change_leaf(&mut self, node: NodeRef, index: usize, value: &Option<V>) -> Applied {
        let leaf = &mut self.trie.arena.leaves[index];
        match value {
            None => (NodeRef::EMPTY, true),
            Some(value) if leaf.value == *value => (node, false),
            Some(value) => {
                leaf.value = value.clone();
                leaf.encoded = None;
                (node, true)
            }
        }
    }

    /// Puts a branch at `depth` above `node`, whose keys begin like `key`, so that changes which do
    /// not lie below `node` find a place beside it.
    fn fork(
        &mut self,
        node: NodeRef,
        key: B256,
        depth: usize,
        changes: &[LeafChange<V>],
    ) -> Applied {
        if changes.iter().all(|(_, value)| value.is_none()) && node.is_empty() {
            return (node, false);
        }
        let mut branch = Branch::new(key, depth, false);
        branch.children[nibble(&key, depth)] = node;
        self.trie.arena.set_encoded(node, None);
        let above = self.trie.arena.add_branch(branch);
        let NodeKind::Branch(index) = above.kind() else {
            return (node, false);
        };
        let (after, changed) = self.descend(above, index, changes);
        (after, changed || after != node)
    }

    fn descend(&mut self, node: NodeRef, index: usize, mut changes: &[LeafChange<V>]) -> Applied {
        let depth = self.trie.arena.branches[index].depth;
        let mut changed = false;
        while let Some((first, _)) = changes.first() {
            let nibble_here = nibble(first, depth);
            let len = changes.partition_point(|(key, _)| nibble(key, depth) <= nibble_here);
            let (below, rest) = changes.split_at(len);
            let (child, child_changed) = self.at(Some((index, nibble_here)), below);
            self.trie.arena.branches[index].children[nibble_here] = child;
            changed |= child_changed;
            changes = rest;
        }
        self.settle(node, index, changed)
    }

    /// What remains of a branch after the changes below it.
    fn settle(&mut self, node: NodeRef, index: usize, changed: bool) -> Applied {
        let branch = &mut self.trie.arena.branches[index];
        if changed {
            branch.encoded = None;
        }
        let mut children = branch.live_children();
        let only = match (children.next(), children.next()) {
            (Some(_), Some(_)) => return (node, changed),
            (first, _) => first,
        };
        drop(children);
        if let Some((nibble, child)) = only
            && child.is_stub()
        {
            let key = child_key(&branch.key, branch.depth, nibble);
            self.missing.push(Target {
                key,
                start: branch.depth + 1,
            });
            return (node, changed);
        }
        if branch.stored {
            let path = path(&branch.key, branch.depth);
            self.trie.removed.push(path);
        }
        let child = only.map_or(NodeRef::EMPTY, |(_, child)| child);
        self.trie.arena.set_encoded(child, None);
        (child, true)
    }
}
