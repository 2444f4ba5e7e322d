//! The nodes of a partial trie: a tree that is changed in place by whoever owns it.
//!
//! Whoever has a slot has all that is below it, so disjoint ranges of a trie are changed by as many
//! threads without a lock or a count of references.
//!
//! Invariant: a slot without an encoding is one that changed since it was last hashed, or the
//! parent's encoding is known without it; a slot with an encoding but without a node is a stub.

use crate::{
    nibbles::{common_prefix, nibble},
    sparse::{Encoded, root_hash},
};
use alloy_primitives::{B256, U256};
use alloy_trie::{EMPTY_ROOT_HASH, TrieAccount, nodes::RlpNode};
use std::mem::size_of;

/// What a leaf can hold besides its key.
pub(super) trait Content: Default + Send + Sync + 'static {
    /// Memory that hangs on it, beyond its own size.
    fn hanging_bytes(&self) -> usize {
        0
    }
}

/// A slot's value.
impl Content for U256 {}

/// An account with as much of its storage trie as is known.
#[derive(Debug, Default)]
pub(super) struct AccountContent {
    /// Its storage root is that of `storage`, once that is hashed.
    pub(super) account: TrieAccount,
    pub(super) storage: Slot<U256>,
}

impl Content for AccountContent {
    fn hanging_bytes(&self) -> usize {
        self.storage.bytes()
    }
}

/// The place of a node: the root, or a child of a branch.
#[derive(Debug)]
pub(super) struct Slot<C> {
    /// What the parent needs to know.
    pub(super) encoded: Option<Encoded>,
    pub(super) node: Node<C>,
}

/// A node, if it is known.
#[derive(Debug)]
pub(super) enum Node<C> {
    /// There is none, or only its encoding is known.
    None,
    Leaf(Box<Leaf<C>>),
    Branch(Box<Branch<C>>),
}

#[derive(Debug)]
pub(super) struct Leaf<C> {
    pub(super) key: B256,
    pub(super) content: C,
}

/// A branch, with the extension before it if it begins further up.
#[derive(Debug)]
pub(super) struct Branch<C> {
    /// Any key below it; the first `depth` nibbles are its path.
    pub(super) key: B256,
    pub(super) depth: usize,
    /// Whether the database stores a node at its path.
    pub(super) stored: bool,
    /// The last block that went this way. No branch below has a later one.
    pub(super) epoch: u64,
    /// Memory of its subtree, its own included.
    pub(super) bytes: usize,
    pub(super) children: [Slot<C>; 16],
}

impl<C> Default for Slot<C> {
    fn default() -> Self {
        Self {
            encoded: None,
            node: Node::None,
        }
    }
}

impl<C> Slot<C> {
    /// A trie of which only the root hash is known; nothing at all is when it is empty.
    pub(super) fn of_root(root: B256) -> Self {
        let stub = || Encoded::plain(RlpNode::word_rlp(&root));
        Self {
            encoded: (root != EMPTY_ROOT_HASH).then(stub),
            node: Node::None,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.encoded.is_none() && matches!(self.node, Node::None)
    }

    pub(super) fn is_stub(&self) -> bool {
        self.encoded.is_some() && matches!(self.node, Node::None)
    }

    /// Whether there is a node whose encoding is to be made.
    pub(super) fn is_changed(&self) -> bool {
        self.encoded.is_none() && !matches!(self.node, Node::None)
    }

    /// The hash of the trie whose root is here, once it is encoded.
    pub(super) fn root_hash(&self) -> B256 {
        let encoded = self.encoded.as_ref();
        encoded.map_or(EMPTY_ROOT_HASH, |encoded| root_hash(&encoded.rlp))
    }
}

impl<C: Content> Slot<C> {
    /// Memory of the subtree.
    pub(super) fn bytes(&self) -> usize {
        match &self.node {
            Node::None => 0,
            Node::Leaf(leaf) => size_of::<Leaf<C>>() + leaf.content.hanging_bytes(),
            Node::Branch(branch) => branch.bytes,
        }
    }

    /// Whether a part of the path to `key` is unknown.
    pub(super) fn is_blind(&self, key: &B256) -> bool {
        self.blind_from(key, 0).is_some()
    }

    /// Where the unknown part of the path to `key` begins, in nibbles, below a slot that begins at
    /// `start`.
    pub(super) fn blind_from(&self, key: &B256, start: usize) -> Option<usize> {
        let (mut slot, mut start) = (self, start);
        while let Node::Branch(branch) = &slot.node {
            if !branch.contains(key) {
                return None;
            }
            start = branch.depth + 1;
            slot = &branch.children[nibble(key, branch.depth)];
        }
        slot.is_stub().then_some(start)
    }

    /// What a leaf on a known path holds.
    pub(super) fn get(&self, key: &B256) -> Option<&C> {
        let mut slot = self;
        while let Node::Branch(branch) = &slot.node {
            slot = &branch.children[nibble(key, branch.depth)];
        }
        match &slot.node {
            Node::Leaf(leaf) if leaf.key == *key => Some(&leaf.content),
            _ => None,
        }
    }
}

impl<C> Branch<C> {
    /// A branch without children.
    pub(super) fn new(key: B256, depth: usize, epoch: u64) -> Self {
        Self {
            key,
            depth,
            stored: false,
            epoch,
            bytes: size_of::<Self>(),
            children: std::array::from_fn(|_| Slot::default()),
        }
    }

    /// Whether `key` lies below it.
    pub(super) fn contains(&self, key: &B256) -> bool {
        common_prefix(&self.key, key) >= self.depth
    }
}
