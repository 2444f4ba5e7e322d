//! The nodes of a partial trie, in three vectors, referring to each other by index.
//!
//! A node holds a whole key, of which the first nibbles are its path: a leaf its own key, a branch
//! any key below it. An extension is no node but the gap between where a branch begins and where
//! it branches. So a node never changes when its parent moves, only its encoding does.

use super::ChildRef;
use crate::nibbles::common_prefix;
use alloy_primitives::B256;

/// What a leaf can hold. The RLP encoding is the leaf's value.
pub(crate) trait LeafValue:
    alloy_rlp::Encodable + Clone + PartialEq + std::fmt::Debug + Send + Sync + 'static
{
}

impl LeafValue for alloy_primitives::U256 {}
impl LeafValue for alloy_trie::TrieAccount {}

/// What a parent needs to know of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Encoded {
    /// The node's hash, or the node itself when its RLP is shorter than 32 bytes.
    pub(crate) rlp: ChildRef,
    /// Whether it is a branch, without an extension before it, that is referred to by hash.
    pub(crate) hashed_branch: bool,
    /// Whether it is, or an extension leads to, a branch that is stored.
    pub(crate) stored: bool,
}

impl Encoded {
    /// A branch of which a stored branch above names the hash.
    pub(crate) fn branch(hash: &B256, stored: bool) -> Self {
        Self {
            rlp: ChildRef::to_hash(hash),
            hashed_branch: true,
            stored,
        }
    }

    /// A leaf, or anything else no branch is stored below.
    pub(crate) fn plain(rlp: ChildRef) -> Self {
        Self {
            rlp,
            hashed_branch: false,
            stored: false,
        }
    }
}

/// A reference to a node of an [`Arena`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NodeRef(u32);

/// What a [`NodeRef`] refers to: an index into the vector of that kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NodeKind {
    Empty,
    Stub(usize),
    Leaf(usize),
    Branch(usize),
}

impl NodeRef {
    pub(crate) const EMPTY: Self = Self(0);

    /// Two bits tell the kind, which leaves room for 2^30 nodes of each: hundreds of gigabytes.
    fn new(tag: u32, index: usize) -> Self {
        Self((index as u32) << 2 | tag)
    }

    pub(crate) fn kind(self) -> NodeKind {
        let index = (self.0 >> 2) as usize;
        match self.0 & 3 {
            0 => NodeKind::Empty,
            1 => NodeKind::Stub(index),
            2 => NodeKind::Leaf(index),
            _ => NodeKind::Branch(index),
        }
    }

    pub(crate) fn is_empty(self) -> bool {
        self == Self::EMPTY
    }

    pub(crate) fn is_stub(self) -> bool {
        self.0 & 3 == 1
    }
}

/// A leaf.
#[derive(Debug, Clone)]
pub(crate) struct Leaf<V> {
    pub(crate) key: B256,
    pub(crate) value: V,
    /// `None` when it must be computed anew.
    pub(crate) encoded: Option<Encoded>,
}

/// A branch, with the extension before it if it begins further up.
#[derive(Debug, Clone)]
pub(crate) struct Branch {
    /// Any key below it; the first `depth` nibbles are its path.
    pub(crate) key: B256,
    /// Length of its path in nibbles.
    pub(crate) depth: usize,
    pub(crate) children: [NodeRef; 16],
    /// Whether the database stores a node at its path.
    pub(crate) stored: bool,
    /// `None` when it must be computed anew. Then so must be every branch above it.
    pub(crate) encoded: Option<Encoded>,
}

impl Branch {
    pub(crate) fn new(key: B256, depth: usize, stored: bool) -> Self {
        Self {
            key,
            depth,
            children: [NodeRef::EMPTY; 16],
            stored,
            encoded: None,
        }
    }

    /// The children that exist, with their nibbles.
    pub(crate) fn live_children(&self) -> impl Iterator<Item = (usize, NodeRef)> + '_ {
        self.children
            .iter()
            .copied()
            .enumerate()
            .filter(|(_, child)| !child.is_empty())
    }

    /// Whether `key` lies below it.
    pub(crate) fn contains(&self, key: &B256) -> bool {
        common_prefix(&self.key, key) >= self.depth
    }
}

/// Nodes of one trie, or of a part of it. A stub is a node of which only the encoding is known.
#[derive(Debug, Clone)]
pub(crate) struct Arena<V> {
    pub(crate) branches: Vec<Branch>,
    pub(crate) leaves: Vec<Leaf<V>>,
    pub(crate) stubs: Vec<Encoded>,
}

impl<V> Default for Arena<V> {
    fn default() -> Self {
        Self {
            branches: Vec::new(),
            leaves: Vec::new(),
            stubs: Vec::new(),
        }
    }
}

impl<V> Arena<V> {
    pub(crate) fn add_stub(&mut self, stub: Encoded) -> NodeRef {
        self.stubs.push(stub);
        NodeRef::new(1, self.stubs.len() - 1)
    }

    pub(crate) fn add_leaf(&mut self, leaf: Leaf<V>) -> NodeRef {
        self.leaves.push(leaf);
        NodeRef::new(2, self.leaves.len() - 1)
    }

    pub(crate) fn add_branch(&mut self, branch: Branch) -> NodeRef {
        self.branches.push(branch);
        NodeRef::new(3, self.branches.len() - 1)
    }

    /// Leaves and branches; stubs are not nodes one knows.
    pub(crate) fn node_count(&self) -> usize {
        self.branches.len() + self.leaves.len()
    }

    /// The encoding kept for a node, if there is one.
    pub(crate) fn encoded(&self, node: NodeRef) -> Option<&Encoded> {
        match node.kind() {
            NodeKind::Empty => None,
            NodeKind::Stub(index) => Some(&self.stubs[index]),
            NodeKind::Leaf(index) => self.leaves[index].encoded.as_ref(),
            NodeKind::Branch(index) => self.branches[index].encoded.as_ref(),
        }
    }

    /// Replaces the encoding kept for a leaf or branch.
    pub(crate) fn set_encoded(&mut self, node: NodeRef, encoded: Option<Encoded>) {
        match node.kind() {
            NodeKind::Leaf(index) => self.leaves[index].encoded = encoded,
            NodeKind::Branch(index) => self.branches[index].encoded = encoded,
            NodeKind::Empty | NodeKind::Stub(_) => {}
        }
    }

    /// Moves all nodes of `other` in and returns where they are now.
    pub(crate) fn append(&mut self, other: Self) -> Moved {
        let moved = Moved {
            branches: self.branches.len(),
            leaves: self.leaves.len(),
            stubs: self.stubs.len(),
        };
        self.leaves.extend(other.leaves);
        self.stubs.extend(other.stubs);
        self.branches
            .extend(other.branches.into_iter().map(|mut branch| {
                branch
                    .children
                    .iter_mut()
                    .for_each(|child| *child = moved.node(*child));
                branch
            }));
        moved
    }
}

/// How far the nodes of an appended arena have moved.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moved {
    branches: usize,
    leaves: usize,
    stubs: usize,
}

impl Moved {
    /// The new reference of a node.
    pub(crate) fn node(self, node: NodeRef) -> NodeRef {
        match node.kind() {
            NodeKind::Empty => node,
            NodeKind::Stub(index) => NodeRef::new(1, index + self.stubs),
            NodeKind::Leaf(index) => NodeRef::new(2, index + self.leaves),
            NodeKind::Branch(index) => NodeRef::new(3, index + self.branches),
        }
    }
}
