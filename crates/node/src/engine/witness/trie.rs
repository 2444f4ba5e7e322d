//! A Merkle Patricia Trie of which only some nodes are known, by hash: what a stateless verifier
//! works on.
//!
//! Invariant: an operation that needs an unknown node says where it is and changes nothing that
//! matters: it can be repeated once the node is known.

use alloy_primitives::{B256, Bytes, keccak256, map::B256Map};
use alloy_rlp::{Decodable, EMPTY_STRING_CODE};
use alloy_trie::{
    EMPTY_ROOT_HASH, Nibbles,
    nodes::{BranchNode, ExtensionNode, LeafNode, RlpNode, TrieNode},
};

/// Nodes by hash.
pub type NodesByHash = B256Map<Bytes>;

/// Why a trie could not be read or changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TrieError {
    /// A node is not among those known.
    #[error("find trie node {hash} at {path:?}: it is not in the witness")]
    Missing {
        /// Where it is.
        path: Nibbles,
        /// Its hash.
        hash: B256,
    },
    /// Bytes that are no trie node.
    #[error("decode a trie node: {0}")]
    Malformed(#[from] alloy_rlp::Error),
}

/// A node and what is known below it.
#[derive(Debug, Clone, Default)]
enum Node {
    #[default]
    Empty,
    /// Only its hash is known.
    Hash(B256),
    Leaf {
        path: Nibbles,
        value: Vec<u8>,
    },
    Extension {
        path: Nibbles,
        child: Box<Node>,
    },
    Branch(Box<[Node; 16]>),
}

/// A trie over partly known nodes. Keys are hashed already.
#[derive(Debug, Clone)]
pub struct PartialTrie<'a> {
    nodes: &'a NodesByHash,
    root: Node,
}

impl<'a> PartialTrie<'a> {
    /// The trie with this root hash.
    pub fn new(nodes: &'a NodesByHash, root: B256) -> Self {
        let root = if root == EMPTY_ROOT_HASH {
            Node::Empty
        } else {
            Node::Hash(root)
        };
        Self { nodes, root }
    }

    /// The RLP of a leaf's value, if there is such a leaf.
    ///
    /// # Errors
    /// When a node on the path is not known.
    pub fn get(&mut self, key: B256) -> Result<Option<Vec<u8>>, TrieError> {
        let key = Nibbles::unpack(key);
        let mut node = &mut self.root;
        let mut at = 0;
        loop {
            resolve(self.nodes, node, &key.slice(..at))?;
            match node {
                Node::Empty | Node::Hash(_) => return Ok(None),
                Node::Leaf { path, value } => {
                    return Ok((*path == key.slice(at..)).then(|| value.clone()));
                }
                Node::Extension { path, child } => {
                    if !key.slice(at..).starts_with(path) {
                        return Ok(None);
                    }
                    at += path.len();
                    node = child;
                }
                Node::Branch(children) => {
                    node = &mut children[usize::from(nibble(&key, at))];
                    at += 1;
                }
            }
        }
    }

    /// Sets the RLP of a leaf's value.
    ///
    /// # Errors
    /// When a node on the path is not known.
    pub fn insert(&mut self, key: B256, value: Vec<u8>) -> Result<(), TrieError> {
        let key = Nibbles::unpack(key);
        insert(self.nodes, &mut self.root, &key, 0, value)
    }

    /// Removes a leaf, if it is there.
    ///
    /// # Errors
    /// When a node on the path is not known, or one beside it that a branch collapses into.
    pub fn remove(&mut self, key: B256) -> Result<(), TrieError> {
        let key = Nibbles::unpack(key);
        remove(self.nodes, &mut self.root, &key, 0)
    }

    /// The root hash.
    pub fn root(&self) -> B256 {
        match &self.root {
            Node::Empty => EMPTY_ROOT_HASH,
            Node::Hash(hash) => *hash,
            node => {
                let mut rlp = Vec::new();
                let encoded = encode(node, &mut rlp);
                encoded
                    .as_hash()
                    .unwrap_or_else(|| keccak256(encoded.as_slice()))
            }
        }
    }
}

fn nibble(key: &Nibbles, at: usize) -> u8 {
    key.get(at).unwrap_or_default()
}

/// Replaces a hash by its node.
fn resolve(nodes: &NodesByHash, node: &mut Node, at: &Nibbles) -> Result<(), TrieError> {
    if let Node::Hash(hash) = node {
        let bytes = nodes.get(hash).ok_or(TrieError::Missing {
            path: *at,
            hash: *hash,
        })?;
        *node = decode(bytes)?;
    }
    Ok(())
}

fn decode(mut bytes: &[u8]) -> Result<Node, TrieError> {
    Ok(match TrieNode::decode(&mut bytes)? {
        TrieNode::EmptyRoot => Node::Empty,
        TrieNode::Leaf(leaf) => Node::Leaf {
            path: leaf.key,
            value: leaf.value,
        },
        TrieNode::Extension(extension) => Node::Extension {
            path: extension.key,
            child: Box::new(child(&extension.child)?),
        },
        TrieNode::Branch(branch) => {
            let mut children = <[Node; 16]>::default();
            for (nibble, known) in branch.as_ref().children() {
                if let Some(known) = known {
                    children[usize::from(nibble)] = child(known)?;
                }
            }
            Node::Branch(Box::new(children))
        }
    })
}

/// What a parent holds of a child: its hash, or all of it when that is shorter.
fn child(known: &RlpNode) -> Result<Node, TrieError> {
    match known.as_hash() {
        Some(hash) => Ok(Node::Hash(hash)),
        None => decode(known.as_slice()),
    }
}

fn insert(
    nodes: &NodesByHash,
    node: &mut Node,
    key: &Nibbles,
    at: usize,
    value: Vec<u8>,
) -> Result<(), TrieError> {
    resolve(nodes, node, &key.slice(..at))?;
    let rest = key.slice(at..);
    match node {
        Node::Branch(children) => {
            let child = &mut children[usize::from(nibble(key, at))];
            insert(nodes, child, key, at + 1, value)
        }
        Node::Extension { path, child } if rest.starts_with(path) => {
            insert(nodes, child, key, at + path.len(), value)
        }
        Node::Leaf { path, value: old } if *path == rest => {
            *old = value;
            Ok(())
        }
        Node::Empty | Node::Hash(_) => {
            *node = Node::Leaf { path: rest, value };
            Ok(())
        }
        Node::Leaf { .. } | Node::Extension { .. } => {
            split(node, &rest, value);
            Ok(())
        }
    }
}

/// Puts a branch where a leaf or extension and a new key part.
fn split(node: &mut Node, rest: &Nibbles, value: Vec<u8>) {
    let old = std::mem::take(node);
    let (path, below): (Nibbles, Box<dyn FnOnce(Nibbles) -> Node>) = match old {
        Node::Leaf { path, value } => (path, Box::new(move |path| Node::Leaf { path, value })),
        Node::Extension { path, child } => (path, Box::new(move |path| extension(path, *child))),
        other => {
            *node = other;
            return;
        }
    };
    let common = path.common_prefix_length(rest);
    let mut children = <[Node; 16]>::default();
    children[usize::from(nibble(&path, common))] = below(path.slice(common + 1..));
    children[usize::from(nibble(rest, common))] = Node::Leaf {
        path: rest.slice(common + 1..),
        value,
    };
    *node = extension(rest.slice(..common), Node::Branch(Box::new(children)));
}

/// `child` below `path`, in the one form a trie has for it.
fn extension(path: Nibbles, child: Node) -> Node {
    if path.is_empty() {
        return child;
    }
    match child {
        Node::Empty => Node::Empty,
        Node::Leaf { path: rest, value } => Node::Leaf {
            path: path.join(&rest),
            value,
        },
        Node::Extension { path: rest, child } => Node::Extension {
            path: path.join(&rest),
            child,
        },
        child => Node::Extension {
            path,
            child: Box::new(child),
        },
    }
}

fn remove(nodes: &NodesByHash, node: &mut Node, key: &Nibbles, at: usize) -> Result<(), TrieError> {
    resolve(nodes, node, &key.slice(..at))?;
    match node {
        Node::Leaf { path, .. } => {
            if *path == key.slice(at..) {
                *node = Node::Empty;
            }
            Ok(())
        }
        Node::Extension { path, child } => {
            if key.slice(at..).starts_with(path) {
                remove(nodes, child, key, at + path.len())?;
                *node = extension(*path, std::mem::take(child.as_mut()));
            }
            Ok(())
        }
        Node::Branch(children) => {
            let child = &mut children[usize::from(nibble(key, at))];
            remove(nodes, child, key, at + 1)?;
            collapse(nodes, node, &key.slice(..at))
        }
        Node::Empty | Node::Hash(_) => Ok(()),
    }
}

/// Replaces a branch with one child by that child, which must be known for that.
fn collapse(nodes: &NodesByHash, node: &mut Node, at: &Nibbles) -> Result<(), TrieError> {
    let Node::Branch(children) = node else {
        return Ok(());
    };
    let mut left = (0u8..).zip(children.iter_mut());
    let mut left = left
        .by_ref()
        .filter(|(_, child)| !matches!(child, Node::Empty));
    let Some((nibble, only)) = left.next() else {
        return Ok(());
    };
    if left.next().is_some() {
        return Ok(());
    }
    let mut path = *at;
    path.push(nibble);
    resolve(nodes, only, &path)?;
    *node = extension(Nibbles::from_nibbles([nibble]), std::mem::take(only));
    Ok(())
}

/// The node as its parent holds it. `rlp` is scratch space.
fn encode(node: &Node, rlp: &mut Vec<u8>) -> RlpNode {
    match node {
        Node::Empty => RlpNode::from_rlp(&[EMPTY_STRING_CODE]),
        Node::Hash(hash) => RlpNode::word_rlp(hash),
        Node::Leaf { path, value } => {
            rlp.clear();
            LeafNode::new(*path, value.clone()).as_ref().rlp(rlp)
        }
        Node::Extension { path, child } => {
            let child = encode(child, rlp);
            rlp.clear();
            ExtensionNode::new(*path, child).as_ref().rlp(rlp)
        }
        Node::Branch(children) => {
            let mut branch = BranchNode::default();
            for (nibble, child) in (0u8..).zip(children.iter()) {
                if !matches!(child, Node::Empty) {
                    branch.stack.push(encode(child, rlp));
                    branch.state_mask.set_bit(nibble);
                }
            }
            rlp.clear();
            branch.as_ref().rlp(rlp)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_trie::{HashBuilder, proof::ProofRetainer};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    type Leaves = BTreeMap<B256, Vec<u8>>;

    /// The root of `leaves`, and the nodes on the paths to `kept`.
    fn proven(leaves: &Leaves, kept: &[B256]) -> (B256, NodesByHash) {
        let targets = kept.iter().map(Nibbles::unpack).collect();
        let mut builder = HashBuilder::default().with_proof_retainer(ProofRetainer::new(targets));
        for (key, value) in leaves {
            builder.add_leaf(Nibbles::unpack(key), value);
        }
        let root = builder.root();
        let nodes = builder.take_proof_nodes();
        let nodes = nodes.into_inner().into_values();
        (root, nodes.map(|node| (keccak256(&node), node)).collect())
    }

    /// Keys that part early, late, or share nearly everything.
    fn key() -> impl Strategy<Value = B256> {
        (0..4u8, 0..3u8, 0..4u8).prop_map(|(first, middle, last)| {
            let mut key = B256::ZERO;
            key[0] = first << 4;
            key[9] = middle;
            key[31] = last;
            key
        })
    }

    fn leaves() -> impl Strategy<Value = Leaves> {
        // Values of one byte make nodes that are embedded in their parents.
        let value = prop_oneof![Just(vec![7]), Just(vec![0xb8; 40])];
        prop::collection::btree_map(key(), value, 0..14)
    }

    proptest! {
        #[test]
        fn with_all_nodes_it_follows_the_leaves(
            before in leaves(),
            changes in prop::collection::vec((key(), prop::option::of(0..3usize)), 0..14),
        ) {
            let keys: Vec<_> = before.keys().copied().collect();
            let (root, nodes) = proven(&before, &keys);
            let mut trie = PartialTrie::new(&nodes, root);
            let mut after = before.clone();
            for (key, value) in changes {
                prop_assert_eq!(trie.get(key), Ok(after.get(&key).cloned()));
                match value {
                    Some(len) => {
                        let value = vec![0x81; len * 20 + 1];
                        trie.insert(key, value.clone()).unwrap();
                        after.insert(key, value);
                    }
                    None => {
                        trie.remove(key).unwrap();
                        after.remove(&key);
                    }
                }
                prop_assert_eq!(trie.root(), proven(&after, &[]).0);
            }
        }

        /// What is missing is named, and with it the operation succeeds.
        #[test]
        fn missing_nodes_are_named(before in leaves(), removed in key()) {
            let all: Vec<_> = before.keys().copied().collect();
            let (root, known) = proven(&before, &all);
            let mut nodes = NodesByHash::default();
            let after = loop {
                let mut trie = PartialTrie::new(&nodes, root);
                match trie.remove(removed) {
                    Ok(()) => break trie.root(),
                    Err(TrieError::Missing { hash, .. }) => {
                        prop_assert!(nodes.insert(hash, known[&hash].clone()).is_none());
                    }
                    Err(other) => panic!("{other}"),
                }
            };
            let mut expected = before;
            expected.remove(&removed);
            prop_assert_eq!(after, proven(&expected, &[]).0);
        }
    }
}
