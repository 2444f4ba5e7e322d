//! The nodes of a partial trie: a tree that is changed in place by whoever owns it.
//!
//! Whoever has a slot has all that is below it, so disjoint ranges of a trie are changed by as many
//! threads without a lock or a count of references.
//!
//! Invariant: a slot without an encoding is one that changed since it was last hashed, or the
//! parent's encoding is known without it; a slot with an encoding but without a node is a stub. The
//! same holds of a branch's children, whose encodings the branch has.

use super::{
    branch::{Below, Branch},
    child_ref::ChildRef,
    rlp::Encoded,
};
use alloy_primitives::{B256, U256};
use alloy_trie::{EMPTY_ROOT_HASH, TrieAccount};
use std::mem::size_of;

/// Paths that are followed at the same time.
const SIDE_BY_SIDE: usize = 8;

/// What a leaf can hold besides its key.
pub(super) trait Content: Sized + Send + Sync + 'static {
    /// Memory that hangs on it, beyond its own size.
    fn hanging_bytes(&self) -> usize {
        0
    }
}

/// A slot's value.
impl Content for U256 {}

/// An account with as much of its storage trie as is known.
#[derive(Debug)]
pub(super) struct AccountContent {
    /// Its storage root is that of `storage`, once that is hashed.
    pub(super) account: TrieAccount,
    /// `None` while nothing but the root is known.
    pub(super) storage: Option<Box<Slot<U256>>>,
}

/// An account beside its key: in a place of its own, since leaves lie in their branches.
pub(super) type BoxedAccount = Box<AccountContent>;

impl Content for BoxedAccount {
    fn hanging_bytes(&self) -> usize {
        let storage = self.storage.as_ref();
        size_of::<AccountContent>()
            + storage.map_or(0, |storage| size_of::<Slot<U256>>() + storage.node.bytes())
    }
}

/// A node outside of a branch, the root or a child that somebody has: what its parent needs to know,
/// and the node.
#[derive(Debug)]
pub(super) struct Slot<C> {
    pub(super) encoded: Option<Encoded>,
    pub(super) node: Node<C>,
}

/// A node, if it is known.
#[derive(Debug, Default)]
pub(super) enum Node<C> {
    /// There is none, or only its encoding is known.
    #[default]
    None,
    Leaf(Leaf<C>),
    Branch(Branch<C>),
}

#[derive(Debug)]
pub(super) struct Leaf<C> {
    pub(super) key: B256,
    pub(super) content: C,
}

impl<C: Content> Node<C> {
    /// Memory of the subtree, without the place the node is in.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::None => 0,
            Self::Leaf(leaf) => leaf.content.hanging_bytes(),
            Self::Branch(branch) => branch.head.bytes,
        }
    }
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
        let stub = || Encoded::plain(ChildRef::to_hash(&root));
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
        encoded.map_or(EMPTY_ROOT_HASH, |encoded| encoded.rlp.root_hash())
    }

    /// Whether a part of the path to `key` is unknown.
    pub(super) fn is_blind(&self, key: &B256) -> bool {
        self.blind_from(key, 0).is_some()
    }

    /// Those of `keys`, in their order, to which a part of the path is unknown in this trie.
    ///
    /// Several paths are followed side by side: each step waits for memory, and so they wait together.
    pub(super) fn blind_among<'k>(&self, keys: &'k [B256], mut found: impl FnMut(&'k B256)) {
        for keys in keys.chunks(SIDE_BY_SIDE) {
            let mut ways: [_; SIDE_BY_SIDE] = std::array::from_fn(|_| Way::begin(self, 0));
            let step_all = |ways: &mut [Way<'_, C>]| {
                let steps = ways.iter_mut().zip(keys).map(|(way, key)| way.step(key));
                steps.fold(false, |any, moved| any | moved)
            };
            while step_all(&mut ways) {}
            for (way, key) in ways.iter().zip(keys) {
                if matches!(way.at, Below::Stub) {
                    found(key);
                }
            }
        }
    }

    /// Where the unknown part of the path to `key` begins, in nibbles, when the slot begins at
    /// `start`.
    pub(super) fn blind_from(&self, key: &B256, start: usize) -> Option<usize> {
        let mut way = Way::begin(self, start);
        while way.step(key) {}
        matches!(way.at, Below::Stub).then_some(way.start)
    }

    /// What a leaf on a known path holds.
    pub(super) fn get(&self, key: &B256) -> Option<&C> {
        let mut way = Way::begin(self, 0);
        while way.step(key) {}
        match way.at {
            Below::Place(Node::Leaf(leaf)) if leaf.key == *key => Some(&leaf.content),
            _ => None,
        }
    }
}

/// How far a path has been followed.
struct Way<'a, C> {
    at: Below<'a, C>,
    /// Where that begins, in nibbles.
    start: usize,
}

impl<'a, C> Way<'a, C> {
    fn begin(slot: &'a Slot<C>, start: usize) -> Self {
        let at = match &slot.node {
            Node::None if slot.is_stub() => Below::Stub,
            Node::None => Below::Nothing,
            node => Below::Place(node),
        };
        Self { at, start }
    }

    /// Follows the path to `key` by one node, if there is one.
    fn step(&mut self, key: &B256) -> bool {
        match self.at {
            Below::Place(Node::Branch(branch)) => {
                self.at = branch.below(key, self.start);
                self.start = branch.head.depth() + 1;
                true
            }
            Below::Place(Node::None) => {
                self.at = Below::Stub;
                true
            }
            _ => false,
        }
    }
}
