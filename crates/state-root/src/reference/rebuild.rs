//! One trie rebuilt from its stored branches and its leaves.
//!
//! The walk follows the structure the *stored* branches describe and feeds `HashBuilder` in key
//! order: the stored hash of a sub-trie without changed keys, and the leaves of everything else.
//! The builder alone decides what the new trie looks like.

use crate::{
    cursor::{CursorError, HashedCursor, TrieCursor},
    stored::StoredBranch,
    updates::StorageTrieUpdates,
};
use alloy_primitives::{B256, U256, map::HashMap};
use alloy_trie::{
    BranchNodeCompact, HashBuilder, Nibbles,
    proof::{ProofNodes, ProofRetainer},
};

/// Changed stored branches, ascending by path.
pub(super) type NodeUpdates = Vec<(Nibbles, Option<StoredBranch>)>;

/// The sorted keys whose leaves may differ from what the stored branches were made of.
#[derive(Debug, Clone, Copy)]
struct ChangedKeys<'a>(&'a [B256]);

impl ChangedKeys<'_> {
    fn any_in(self, range: KeyRange) -> bool {
        let from = self.0.partition_point(|key| *key < range.from);
        self.0.get(from).is_some_and(|key| range.contains(key))
    }
}

/// Keys from `from` up to but not including `until`; without an end when that is `None`.
#[derive(Debug, Clone, Copy)]
struct KeyRange {
    from: B256,
    until: Option<B256>,
}

impl KeyRange {
    fn contains(&self, key: &B256) -> bool {
        *key >= self.from && self.until.is_none_or(|until| *key < until)
    }

    /// All keys below `path`.
    fn below(path: &Nibbles) -> Self {
        let until = if path.is_empty() {
            None
        } else {
            path.increment()
        };
        Self {
            from: first_key(path),
            until: until.map(|path| first_key(&path)),
        }
    }
}

/// The smallest key below `path`.
fn first_key(path: &Nibbles) -> B256 {
    let mut key = B256::ZERO;
    path.pack_to(&mut key[..]);
    key
}

/// One trie being rebuilt. `encode` appends the RLP of a leaf's value to the buffer.
pub(super) struct Rebuild<'a, T, C, F> {
    trie: T,
    leaves: C,
    encode: F,
    changed: ChangedKeys<'a>,
    builder: HashBuilder,
    /// Stored branches that were not skipped: the only ones that can change.
    opened: Vec<(Nibbles, StoredBranch)>,
    value: Vec<u8>,
}

impl<'a, T, C, F> Rebuild<'a, T, C, F>
where
    T: TrieCursor,
    C: HashedCursor,
    F: FnMut(B256, C::Value, &mut Vec<u8>) -> Result<(), CursorError>,
{
    pub(super) fn new(trie: T, leaves: C, changed: &'a [B256], encode: F) -> Self {
        Self {
            trie,
            leaves,
            encode,
            changed: ChangedKeys(changed),
            builder: HashBuilder::default().with_updates(true),
            opened: Vec::new(),
            value: Vec::new(),
        }
    }

    /// The root, and the stored branches that differ from the new ones.
    pub(super) fn run(mut self) -> Result<(B256, NodeUpdates), CursorError> {
        let root = self.walk()?;
        let (_, built) = self.builder.split();
        Ok((root, difference(self.opened, built)))
    }

    /// The root, and the nodes on the paths to `targets`, which must be among the changed keys.
    pub(super) fn prove<'t>(
        mut self,
        targets: impl IntoIterator<Item = &'t B256>,
    ) -> Result<(B256, ProofNodes), CursorError> {
        let targets = targets.into_iter().map(Nibbles::unpack).collect();
        self.builder = HashBuilder::default().with_proof_retainer(ProofRetainer::new(targets));
        let root = self.walk()?;
        Ok((root, self.builder.take_proof_nodes()))
    }

    fn walk(&mut self) -> Result<B256, CursorError> {
        if self.trie.seek(&Nibbles::new())?.is_none() {
            self.add_leaves(KeyRange::below(&Nibbles::new()))?;
        } else {
            // The root branch is never stored, so its children are visited without it.
            for nibble in 0..16 {
                self.visit(Nibbles::from_nibbles([nibble]))?;
            }
        }
        Ok(self.builder.root())
    }

    /// Adds everything below `at`, where the stored structure is unknown.
    fn visit(&mut self, at: Nibbles) -> Result<(), CursorError> {
        let all = KeyRange::below(&at);
        let Some((path, node)) = self
            .trie
            .seek(&at)?
            .filter(|(path, _)| path.starts_with(&at))
        else {
            return self.add_leaves(all);
        };
        // Between `at` and the branch lies an extension; beside it only new leaves can be.
        let inside = KeyRange::below(&path);
        self.add_new_leaves(KeyRange {
            from: all.from,
            until: Some(inside.from),
        })?;
        self.visit_children(&path, &node)?;
        self.opened.push((path, node));
        match inside.until {
            Some(from) => self.add_new_leaves(KeyRange {
                from,
                until: all.until,
            }),
            None => Ok(()),
        }
    }

    fn visit_children(&mut self, path: &Nibbles, node: &StoredBranch) -> Result<(), CursorError> {
        let masks = node.masks();
        for nibble in 0..16 {
            let mut child = *path;
            child.push(nibble);
            let range = KeyRange::below(&child);
            let changed = self.changed.any_in(range);
            let stored = masks.tree.is_bit_set(nibble);
            if let Some(hash) = node.hash(nibble).filter(|_| !changed) {
                self.builder.add_branch(child, hash, stored);
            } else if stored {
                self.visit(child)?;
            } else if changed || masks.state.is_bit_set(nibble) {
                self.add_leaves(range)?;
            }
        }
        Ok(())
    }

    fn add_new_leaves(&mut self, range: KeyRange) -> Result<(), CursorError> {
        if self.changed.any_in(range) {
            self.add_leaves(range)
        } else {
            Ok(())
        }
    }

    fn add_leaves(&mut self, range: KeyRange) -> Result<(), CursorError> {
        let mut leaf = self.leaves.seek(range.from)?;
        while let Some((key, value)) = leaf.take_if(|(key, _)| range.contains(key)) {
            self.value.clear();
            (self.encode)(key, value, &mut self.value)?;
            self.builder.add_leaf(Nibbles::unpack(key), &self.value);
            leaf = self.leaves.next()?;
        }
        Ok(())
    }
}

/// What turns the `opened` stored branches into the `built` ones.
fn difference(
    opened: Vec<(Nibbles, StoredBranch)>,
    built: HashMap<Nibbles, BranchNodeCompact>,
) -> NodeUpdates {
    let built = built.into_iter().map(|(path, node)| (path, node.into()));
    let mut built: HashMap<Nibbles, StoredBranch> = built.collect();
    built.remove(&Nibbles::new());
    let mut updates = NodeUpdates::new();
    for (path, old) in opened {
        match built.remove(&path) {
            Some(new) if new == old => {}
            new => updates.push((path, new)),
        }
    }
    updates.extend(built.into_iter().map(|(path, node)| (path, Some(node))));
    updates.sort_unstable_by_key(|(path, _)| *path);
    updates
}

/// Appends the RLP of a slot's value.
pub(super) fn encode_slot(_slot: B256, value: U256, out: &mut Vec<u8>) -> Result<(), CursorError> {
    alloy_rlp::Encodable::encode(&value, out);
    Ok(())
}

/// The root and the stored branches of a storage trie of these leaves, from scratch.
///
/// `slots` are hashed slots, strictly ascending, with values that are not zero: the form in which
/// a loader holds them, before there is a view to read them from.
pub fn root_of_storage_leaves(
    slots: impl IntoIterator<Item = (B256, U256)>,
) -> (B256, StorageTrieUpdates) {
    let mut builder = HashBuilder::default().with_updates(true);
    let mut value = Vec::new();
    for (slot, word) in slots {
        value.clear();
        alloy_rlp::Encodable::encode(&word, &mut value);
        builder.add_leaf(Nibbles::unpack(slot), &value);
    }
    let root = builder.root();
    let nodes = difference(Vec::new(), builder.split().1);
    (
        root,
        StorageTrieUpdates {
            wiped: false,
            nodes,
        },
    )
}
