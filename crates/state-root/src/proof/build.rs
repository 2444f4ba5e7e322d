//! The part of a trie below which no branch is stored, built from its leaves.

use super::{Encoding, LeafValues, Walk, below_branch, child_encoding, take_nibble};
use crate::{
    chunk::Target,
    cursor::{HashedCursor, TrieCursor},
    error::RootError,
    nibbles::{common_prefix, nibble},
    sparse::{Leaf, NodeRef},
};
use alloy_primitives::B256;

impl<T, C, L> Walk<'_, T, C, L>
where
    T: TrieCursor,
    C: HashedCursor,
    L: LeafValues<Stored = C::Value>,
{
    /// The node over `leaves`, which are sorted, not empty, and share their first `start` nibbles.
    pub(super) fn build(
        &mut self,
        leaves: &[(B256, C::Value)],
        start: usize,
        encoding: Encoding,
        targets: &[Target],
    ) -> Result<NodeRef, RootError> {
        let (first, last) = (leaves[0].0, leaves[leaves.len() - 1].0);
        if leaves.len() == 1 {
            return self.leaf(&leaves[0], start, encoding, targets);
        }
        let depth = common_prefix(&first, &last);
        let mut open = self.open(first, start, encoding, targets);
        open.branch.depth = depth;
        open.branch.stored = false;
        let mut targets = below_branch(targets, &first, depth);
        let mut rest = leaves;
        while let Some((key, _)) = rest.first() {
            let here = nibble(key, depth);
            let len = rest.partition_point(|(key, _)| nibble(key, depth) == here);
            let (group, after) = rest.split_at(len);
            let below = take_nibble(&mut targets, depth, here);
            let needed = child_encoding(encoding, below);
            open.branch.children[here] = self.build(group, depth + 1, needed, below)?;
            rest = after;
        }
        Ok(self.close(open))
    }

    fn leaf(
        &mut self,
        (key, stored): &(B256, C::Value),
        start: usize,
        encoding: Encoding,
        targets: &[Target],
    ) -> Result<NodeRef, RootError> {
        let is_target = targets
            .binary_search_by_key(key, |target| target.key)
            .is_ok();
        if is_target && encoding != Encoding::Needed {
            let value = self.values.of_target(key, stored)?;
            return Ok(self.arena.add_leaf(Leaf {
                key: *key,
                value,
                encoded: None,
            }));
        }
        let value = self.values.complete(key, stored)?;
        if targets.is_empty() {
            let stub = self.scratch.leaf_parts(key, start, &value);
            return Ok(self.arena.add_stub(stub));
        }
        let encoded =
            (encoding == Encoding::Needed).then(|| self.scratch.leaf_parts(key, start, &value));
        Ok(self.arena.add_leaf(Leaf {
            key: *key,
            value,
            encoded,
        }))
    }
}
