//! How a branch or an extension refers to the node below (yellow paper, appendix D).

use alloy_primitives::{B256, keccak256};
use alloy_rlp::EMPTY_STRING_CODE;
use std::{fmt, ops::Deref};

/// Length of the RLP of a hash.
const HASH_RLP: usize = 1 + B256::len_bytes();

/// A node's hash as RLP, or the node's own RLP when that is shorter than a hash. Empty when nothing
/// is known. Like [`alloy_trie::nodes::RlpNode`], in 34 bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct ChildRef {
    /// Zeros after the RLP.
    bytes: [u8; HASH_RLP],
    len: u8,
}

impl ChildRef {
    /// The reference to a node whose RLP this is.
    pub(super) fn to_node(rlp: &[u8]) -> Self {
        if rlp.len() >= B256::len_bytes() {
            return Self::to_hash(&keccak256(rlp));
        }
        let mut bytes = [0; HASH_RLP];
        bytes[..rlp.len()].copy_from_slice(rlp);
        Self {
            bytes,
            len: rlp.len() as u8,
        }
    }

    /// The reference to a node of which this is the hash.
    pub(super) fn to_hash(hash: &B256) -> Self {
        let mut bytes = [0; HASH_RLP];
        bytes[0] = EMPTY_STRING_CODE + B256::len_bytes() as u8;
        bytes[1..].copy_from_slice(hash.as_slice());
        Self {
            bytes,
            len: HASH_RLP as u8,
        }
    }

    /// Whether it holds a hash.
    pub(super) fn is_hash(&self) -> bool {
        usize::from(self.len) == HASH_RLP
    }

    /// The hash, if it holds one.
    pub(super) fn hash(&self) -> Option<B256> {
        self.is_hash().then(|| B256::from_slice(&self.bytes[1..]))
    }

    /// The hash of the node, which is hashed however short it is: as a root is.
    pub(super) fn root_hash(&self) -> B256 {
        self.hash().unwrap_or_else(|| keccak256(&**self))
    }
}

impl Default for ChildRef {
    fn default() -> Self {
        Self {
            bytes: [0; HASH_RLP],
            len: 0,
        }
    }
}

impl Deref for ChildRef {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl fmt::Debug for ChildRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&alloy_primitives::hex::encode(&**self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_trie::nodes::RlpNode;
    use proptest::{collection::vec, prelude::*};

    proptest! {
        #[test]
        fn is_what_alloy_makes_of_a_node(rlp in vec(any::<u8>(), 0..70)) {
            let (reference, expected) = (ChildRef::to_node(&rlp), RlpNode::from_rlp(&rlp));
            prop_assert_eq!(&*reference, &*expected);
            prop_assert_eq!(reference.hash(), expected.as_hash());
            prop_assert_eq!(reference.is_hash(), rlp.len() >= 32);
            prop_assert_eq!(reference.root_hash(), keccak256(&rlp));
        }
    }
}
