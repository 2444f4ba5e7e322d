//! The RLP of trie nodes (yellow paper, appendix D), written without intermediate allocations.

use super::child_ref::ChildRef;
use crate::{
    nibbles::{KEY_LEN, nibble},
    stored::StoredBranch,
};
use alloy_primitives::B256;
use alloy_rlp::{BufMut, EMPTY_STRING_CODE, Encodable, Header};
use alloy_trie::Nibbles;

/// What a parent needs to know of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Encoded {
    /// The node's hash, or the node itself when its RLP is shorter than 32 bytes.
    pub(super) rlp: ChildRef,
    /// Whether it is a branch, without an extension before it, that is referred to by hash.
    pub(super) hashed_branch: bool,
    /// Whether it is, or an extension leads to, a branch that is stored.
    pub(super) stored: bool,
}

impl Encoded {
    /// A branch of which a stored branch above names the hash.
    pub(super) fn branch(hash: &B256, stored: bool) -> Self {
        Self {
            rlp: ChildRef::to_hash(hash),
            hashed_branch: true,
            stored,
        }
    }

    /// A leaf, or anything else no branch is stored below.
    pub(super) fn plain(rlp: ChildRef) -> Self {
        Self {
            rlp,
            hashed_branch: false,
            stored: false,
        }
    }
}

/// A hex-prefix encoded path: a flag and up to 64 nibbles.
struct CompactPath {
    bytes: [u8; 33],
    len: usize,
}

impl CompactPath {
    /// The nibbles `from..to` of `key`.
    fn new(key: &B256, from: usize, to: usize, is_leaf: bool) -> Self {
        let odd = (to - from) % 2;
        let flag = 2 * u8::from(is_leaf) + odd as u8;
        let mut bytes = [0; 33];
        bytes[0] = flag << 4;
        let mut at = from;
        if odd == 1 {
            bytes[0] |= nibble(key, at) as u8;
            at += 1;
        }
        let len = 1 + (to - at) / 2;
        let (rest, packed) = (&key[at / 2..], &mut bytes[1..len]);
        if at.is_multiple_of(2) {
            packed.copy_from_slice(&rest[..packed.len()]);
        } else {
            let pairs = rest.iter().zip(&rest[1..]);
            for (byte, (high, low)) in packed.iter_mut().zip(pairs) {
                *byte = high << 4 | low >> 4;
            }
        }
        Self { bytes, len }
    }

    fn rlp_len(&self) -> usize {
        // A lone byte is a flag and at most one nibble: always below 0x80, so without a header.
        if self.len == 1 { 1 } else { 1 + self.len }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        if self.len > 1 {
            out.put_u8(EMPTY_STRING_CODE + self.len as u8);
        }
        out.put_slice(&self.bytes[..self.len]);
    }
}

/// Reusable space for encoding.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    value: Vec<u8>,
    node: Vec<u8>,
}

impl Scratch {
    /// Appends the RLP of a leaf that begins at nibble `start` of its key.
    pub(super) fn write_leaf<V: Encodable>(
        &mut self,
        (key, start): (&B256, usize),
        value: &V,
        out: &mut Vec<u8>,
    ) {
        self.value.clear();
        value.encode(&mut self.value);
        let path = CompactPath::new(key, start, KEY_LEN, true);
        let value = self.value.as_slice();
        let payload_length = path.rlp_len() + Encodable::length(&value);
        Header {
            list: true,
            payload_length,
        }
        .encode(out);
        path.encode(out);
        Encodable::encode(&value, out);
    }

    /// An extension over the nibbles `start..depth` of `key` that leads to a branch.
    pub(super) fn extension(
        &mut self,
        key: &B256,
        start: usize,
        depth: usize,
        child: &ChildRef,
    ) -> ChildRef {
        let path = CompactPath::new(key, start, depth, false);
        self.node.clear();
        let payload_length = path.rlp_len() + child.len();
        Header {
            list: true,
            payload_length,
        }
        .encode(&mut self.node);
        path.encode(&mut self.node);
        self.node.put_slice(child);
        ChildRef::to_node(&self.node)
    }
}

/// The longest list header of a branch, whose payload is at most 17 × 33 bytes.
const BRANCH_HEADER: usize = 3;

/// A branch being encoded, child by child in nibble order, with what the database would store.
#[derive(Debug)]
pub(super) struct BranchEncoder {
    /// Room for the header, which needs the payload's length, then the payload.
    bytes: [u8; BRANCH_HEADER + 17 * 33],
    len: usize,
    next_nibble: usize,
    state_mask: u16,
    tree_mask: u16,
    hash_mask: u16,
}

impl BranchEncoder {
    pub(super) fn new() -> Self {
        Self {
            bytes: [EMPTY_STRING_CODE; BRANCH_HEADER + 17 * 33],
            len: BRANCH_HEADER,
            next_nibble: 0,
            state_mask: 0,
            tree_mask: 0,
            hash_mask: 0,
        }
    }

    /// Adds the child at `nibble`, which comes after all added before.
    pub(super) fn push(&mut self, nibble: usize, child: &Encoded) {
        // The bytes of absent children are already there: the buffer is made of them.
        self.len += nibble - self.next_nibble;
        self.next_nibble = nibble + 1;
        self.bytes[self.len..self.len + child.rlp.len()].copy_from_slice(&child.rlp);
        self.len += child.rlp.len();
        let bit = 1 << nibble;
        self.state_mask |= bit;
        self.tree_mask |= if child.stored { bit } else { 0 };
        self.hash_mask |= if child.hashed_branch { bit } else { 0 };
    }

    /// Whether the database stores this branch: never the root, and otherwise when a hashed branch
    /// hangs directly below or anything below is stored.
    pub(super) fn is_stored(&self, depth: usize) -> bool {
        depth > 0 && (self.tree_mask | self.hash_mask) != 0
    }

    /// The encoding of the branch whose path is the first `depth` nibbles of `key`, beginning at
    /// nibble `start`.
    pub(super) fn finish(
        &mut self,
        (key, depth): (&B256, usize),
        start: usize,
        scratch: &mut Scratch,
    ) -> Encoded {
        let stored = self.is_stored(depth);
        let rlp = ChildRef::to_node(self.rlp());
        if depth == start {
            return Encoded {
                hashed_branch: rlp.is_hash(),
                stored,
                rlp,
            };
        }
        let rlp = scratch.extension(key, start, depth, &rlp);
        Encoded {
            rlp,
            hashed_branch: false,
            stored,
        }
    }

    /// The RLP of the branch.
    pub(super) fn rlp(&mut self) -> &[u8] {
        // The value of a branch, always absent: keys are all of one length.
        let end = self.len + (16 - self.next_nibble) + 1;
        let header = Header {
            list: true,
            payload_length: end - BRANCH_HEADER,
        };
        let from = BRANCH_HEADER - header.length();
        header.encode(&mut &mut self.bytes[from..BRANCH_HEADER]);
        &self.bytes[from..end]
    }

    /// The children the database knows of the branch at `depth`, if it stores it.
    #[cfg(test)]
    pub(super) fn masks(&self, depth: usize) -> Option<crate::stored::Masks> {
        self.is_stored(depth).then(|| crate::stored::Masks {
            state: alloy_trie::TrieMask::new(self.state_mask),
            tree: alloy_trie::TrieMask::new(self.tree_mask),
            hash: alloy_trie::TrieMask::new(self.hash_mask),
        })
    }
}

/// A change to a stored branch.
pub(super) type NodeUpdate = (Nibbles, Option<StoredBranch>);

/// The updates of one trie as one list, ascending by path: a path in both is one whose branch was
/// removed and then made anew, or never lost.
pub(super) fn merge_updates(
    mut updates: Vec<NodeUpdate>,
    removed: Vec<Nibbles>,
) -> Vec<NodeUpdate> {
    updates.extend(removed.into_iter().map(|path| (path, None)));
    updates
        .sort_by(|(a, a_node), (b, b_node)| a.cmp(b).then(b_node.is_some().cmp(&a_node.is_some())));
    updates.dedup_by(|later, earlier| later.0 == earlier.0);
    updates.shrink_to_fit();
    updates
}
