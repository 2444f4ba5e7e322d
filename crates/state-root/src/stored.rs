//! What the database stores of a branch.

use alloy_primitives::B256;
use alloy_trie::{BranchNodeCompact, TrieMask};
use std::{fmt, sync::Arc};

/// A stored branch: which children it has, which of these are stored as well, and the hashes of
/// those that are branches with a hash.
///
/// The hashes of many branches lie in one list that they share, so a copy costs no allocation, and
/// copies of neighbours touch the same counter.
#[derive(Clone)]
pub struct StoredBranch {
    masks: Masks,
    /// Where its hashes begin in the list.
    start: u32,
    hashes: Arc<Vec<B256>>,
}

/// Sets of children, by nibble. The last two are subsets of the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Masks {
    /// Children there are.
    pub state: TrieMask,
    /// Children that are stored, or have something stored below.
    pub tree: TrieMask,
    /// Children whose hashes the branch has: branches that are hashed.
    pub hash: TrieMask,
}

impl StoredBranch {
    /// A branch with a list of its own, which has a hash for each child in `masks.hash`, in order.
    pub fn new(masks: Masks, hashes: Vec<B256>) -> Self {
        debug_assert_eq!(hashes.len(), masks.hash.len());
        Self::in_list(masks, 0, Arc::new(hashes))
    }

    /// A branch whose hashes begin at `start` of a list.
    pub(crate) fn in_list(masks: Masks, start: u32, hashes: Arc<Vec<B256>>) -> Self {
        Self {
            masks,
            start,
            hashes,
        }
    }

    /// The same branch with a list of its own, for whoever keeps it longer than its neighbours: a
    /// shared list stays for as long as any of its branches.
    #[must_use]
    pub fn apart(&self) -> Self {
        Self::new(self.masks, self.hashes().to_vec())
    }

    /// Its children.
    pub fn masks(&self) -> Masks {
        self.masks
    }

    /// The hashes of the children in the last mask, in order.
    pub fn hashes(&self) -> &[B256] {
        let start = self.start as usize;
        let count = self.masks.hash.len();
        &self.hashes[start..start + count]
    }

    /// The hash of the child at a nibble that is in the last mask.
    pub fn hash(&self, nibble: u8) -> Option<B256> {
        let mask = self.masks.hash;
        let before = mask.get() & ((1 << nibble) - 1);
        let place = before.count_ones() as usize;
        mask.is_bit_set(nibble).then(|| self.hashes()[place])
    }
}

impl PartialEq for StoredBranch {
    fn eq(&self, other: &Self) -> bool {
        self.masks == other.masks && self.hashes() == other.hashes()
    }
}

impl Eq for StoredBranch {}

impl fmt::Debug for StoredBranch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredBranch")
            .field("masks", &self.masks)
            .field("hashes", &self.hashes())
            .finish()
    }
}

impl From<BranchNodeCompact> for StoredBranch {
    fn from(node: BranchNodeCompact) -> Self {
        let masks = Masks {
            state: node.state_mask,
            tree: node.tree_mask,
            hash: node.hash_mask,
        };
        Self::in_list(masks, 0, node.hashes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masks(state: u16, tree: u16, hash: u16) -> Masks {
        let [state, tree, hash] = [state, tree, hash].map(TrieMask::new);
        Masks { state, tree, hash }
    }

    #[test]
    fn branches_of_one_list_have_their_own_hashes_and_equal_those_that_stand_alone() {
        let [a, b, c] = [1, 2, 3].map(B256::repeat_byte);
        let list = Arc::new(vec![a, b, c]);
        let first = StoredBranch::in_list(masks(0x8003, 0x0001, 0x8001), 0, Arc::clone(&list));
        let second = StoredBranch::in_list(masks(0x0070, 0, 0x0020), 2, list);
        assert_eq!(first.hashes(), [a, b]);
        assert_eq!(
            [0, 1, 15].map(|nibble| first.hash(nibble)),
            [Some(a), None, Some(b)]
        );
        assert_eq!(second.hash(5), Some(c));
        assert_eq!(second, StoredBranch::new(second.masks(), vec![c]));
        assert_ne!(second, StoredBranch::new(second.masks(), vec![a]));
        assert_ne!(first, second);
        let apart = second.apart();
        assert_eq!(apart, second);
        assert_eq!(apart.hashes.len(), 1);
    }
}
