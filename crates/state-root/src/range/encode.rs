//! Encoding what has changed, level by level, so that many nodes are hashed at once.
//!
//! Changed nodes are taken out of their parents and sorted by their height: how many changed levels
//! are below. Those of one height do not depend on each other: they are written one after another,
//! hashed together and put back into their parents, which then are next. Storage tries come before
//! the account trie that names their roots.

use super::{
    found::{Found, NodeChanges, StorageChanges},
    kind::Kind,
    node::{AccountContent, Branch, Node, Slot},
};
use crate::{
    keccak::Inputs,
    nibbles::path,
    sparse::{BranchEncoder, ChildRef, Encoded, NodeUpdate, Scratch},
    stored::{Masks, StoredBranch},
};
use alloy_primitives::{B256, U256};
use alloy_trie::Nibbles;
use std::{mem::take, sync::Arc};

/// A changed node out of its place.
struct Item<K> {
    slot: Slot<K>,
    /// Where it begins, in nibbles.
    start: usize,
    /// Its parent's item and its place among the children there, if the parent is an item.
    parent: Option<(usize, usize)>,
    /// Which of the tries it is of.
    trie: usize,
}

/// Changed nodes of one kind of trie.
pub(super) struct Changed<K> {
    items: Vec<Item<K>>,
    /// Items by height.
    heights: Vec<Vec<usize>>,
    stored: Stored,
}

/// What becomes of stored branches, in the order of encoding.
#[derive(Default)]
struct Stored {
    changes: Vec<StoredChange>,
    /// The hashes that all of them share.
    hashes: Vec<B256>,
}

/// What becomes of one stored branch.
struct StoredChange {
    /// Which of the tries it is of.
    trie: usize,
    path: Nibbles,
    /// Its children, and where its hashes begin; `None` removes it.
    branch: Option<(Masks, u32)>,
}

impl Stored {
    /// Notes a branch whose encoding is complete. Whether it is stored.
    fn note<K>(&mut self, trie: usize, branch: &mut Branch<K>, encoder: &BranchEncoder) -> bool {
        let masks = encoder.masks(branch.depth);
        let is_stored = masks.is_some();
        if is_stored || branch.stored {
            let start = self.hashes.len() as u32;
            let children = branch.children().iter().flat_map(|child| &child.encoded);
            let hashed = children.filter(|child| is_stored && child.hashed_branch);
            self.hashes
                .extend(hashed.filter_map(|child| child.rlp.hash()));
            self.changes.push(StoredChange {
                trie,
                path: path(&branch.key, branch.depth),
                branch: masks.map(|masks| (masks, start)),
            });
        }
        branch.stored = is_stored;
        is_stored
    }

    /// Hands out the changes, each to the list of its trie.
    fn into_updates(mut self, mut push: impl FnMut(usize, NodeUpdate)) {
        // It lives as long as its block waits to be saved.
        self.hashes.shrink_to_fit();
        let hashes = Arc::new(self.hashes);
        for StoredChange { trie, path, branch } in self.changes {
            let in_list = |(masks, start)| StoredBranch::in_list(masks, start, Arc::clone(&hashes));
            push(trie, (path, branch.map(in_list)));
        }
    }
}

/// An encoding that waits for its hash.
struct Pending {
    item: usize,
    /// Of a branch: whether it is stored.
    stored: bool,
    is_branch: bool,
}

impl<K: Kind> Changed<K> {
    fn new() -> Self {
        Self {
            items: Vec::new(),
            heights: Vec::new(),
            stored: Stored::default(),
        }
    }

    /// Takes a subtree whose root has changed, and answers with the item of that root.
    fn add(&mut self, slot: &mut Slot<K>, start: usize, trie: usize) -> usize {
        let item = self.items.len();
        self.take(Item {
            slot: take(slot),
            start,
            parent: None,
            trie,
        });
        item
    }

    /// Takes a node with everything changed below it; answers how high it is.
    fn take(&mut self, item: Item<K>) -> usize {
        let (index, trie) = (self.items.len(), item.trie);
        self.items.push(item);
        let mut height = 0;
        for place in 0.. {
            let Node::Branch(branch) = &mut self.items[index].slot.node else {
                break;
            };
            let start = branch.depth + 1;
            let Some(child) = branch.children_mut().get_mut(place) else {
                break;
            };
            if child.is_changed() {
                let child = Item {
                    slot: take(child),
                    start,
                    parent: Some((index, place)),
                    trie,
                };
                height = height.max(1 + self.take(child));
            }
        }
        if self.heights.len() <= height {
            self.heights.resize_with(height + 1, Vec::new);
        }
        self.heights[height].push(index);
        height
    }

    /// Encodes all that was taken.
    fn encode(&mut self, scratch: &mut Scratch) {
        let mut inputs = Inputs::default();
        let mut pending = Vec::new();
        for level in take(&mut self.heights) {
            inputs.clear();
            for &index in &level {
                let written = self.items[index].write(scratch, &mut inputs, &mut self.stored);
                if let Some((stored, is_branch)) = written {
                    inputs.end();
                    pending.push(Pending {
                        item: index,
                        stored,
                        is_branch,
                    });
                }
            }
            for (pending, hash) in pending.drain(..).zip(inputs.hashes()) {
                let item = &mut self.items[pending.item];
                item.set(ChildRef::to_hash(&hash), &pending, scratch);
            }
            for index in level {
                self.put_back(index);
            }
        }
    }

    fn put_back(&mut self, index: usize) {
        let Some((parent, place)) = self.items[index].parent else {
            return;
        };
        let slot = take(&mut self.items[index].slot);
        if let Node::Branch(branch) = &mut self.items[parent].slot.node
            && let Some(child) = branch.children_mut().get_mut(place)
        {
            *child = slot;
        }
    }
}

impl<K: Kind> Item<K> {
    /// Appends the node's encoding. `None` when it is so short that it needs no hash, and is set;
    /// else whether the database stores the node, and whether it is a branch.
    fn write(
        &mut self,
        scratch: &mut Scratch,
        inputs: &mut Inputs,
        changes: &mut Stored,
    ) -> Option<(bool, bool)> {
        let (stored, is_branch) = match &mut self.slot.node {
            Node::None => return None,
            Node::Leaf(leaf) => {
                let bytes = inputs.bytes();
                leaf.content.write(&leaf.key, self.start, scratch, bytes);
                (false, false)
            }
            Node::Branch(branch) => {
                let mut encoder = BranchEncoder::new();
                for (nibble, child) in branch.nibbles().zip(branch.children()) {
                    if let Some(child) = &child.encoded {
                        encoder.push(nibble, child);
                    }
                }
                inputs.bytes().extend_from_slice(encoder.rlp());
                (changes.note(self.trie, branch, &encoder), true)
            }
        };
        let rlp = inputs.open();
        if rlp.len() < 32 {
            let rlp = ChildRef::to_node(rlp);
            inputs.discard_open();
            let short = Pending {
                item: 0,
                stored,
                is_branch,
            };
            self.set(rlp, &short, scratch);
            return None;
        }
        Some((stored, is_branch))
    }

    /// Keeps the reference to the node, behind an extension where it begins further up.
    fn set(&mut self, rlp: ChildRef, pending: &Pending, scratch: &mut Scratch) {
        let (stored, is_branch) = (pending.stored, pending.is_branch);
        self.slot.encoded = Some(match &self.slot.node {
            Node::Branch(branch) if branch.depth > self.start => Encoded {
                rlp: scratch.extension(&branch.key, self.start, branch.depth, &rlp),
                hashed_branch: false,
                stored,
            },
            _ => Encoded {
                hashed_branch: is_branch && rlp.is_hash(),
                stored,
                rlp,
            },
        });
    }
}

/// Encodes slots of one storage trie, which all begin at nibble `start`.
pub(super) fn encode_slots<'s>(
    slots: impl Iterator<Item = &'s mut Slot<U256>>,
    start: usize,
    found: &mut Found,
) {
    encode_taken(slots, start, found, |_, _| ());
}

/// Encodes slots of the account trie, which all begin at nibble `start`, and before them what has
/// changed in the storage tries below.
pub(super) fn encode_accounts<'s>(
    slots: impl Iterator<Item = &'s mut Slot<AccountContent>>,
    start: usize,
    found: &mut Found,
) {
    encode_taken(slots, start, found, encode_storages);
}

fn encode_taken<'s, K: Kind>(
    slots: impl Iterator<Item = &'s mut Slot<K>>,
    start: usize,
    found: &mut Found,
    first: impl FnOnce(&mut Changed<K>, &mut Found),
) {
    let mut changed = Changed::new();
    let mut places = Vec::new();
    for slot in slots.filter(|slot| slot.is_changed()) {
        let item = changed.add(slot, start, 0);
        places.push((slot, item));
    }
    if places.is_empty() {
        return;
    }
    first(&mut changed, found);
    found.count_hashed(changed.items.len());
    changed.encode(&mut found.scratch);
    take(&mut changed.stored).into_updates(|_, update| found.nodes.updates.push(update));
    for (slot, item) in places {
        *slot = take(&mut changed.items[item].slot);
    }
}

/// Encodes the storage tries of changed accounts, all of them together.
fn encode_storages(accounts: &mut Changed<AccountContent>, found: &mut Found) {
    let mut changed = Changed::new();
    let mut places = Vec::new();
    for (owner, account) in accounts.items.iter_mut().enumerate() {
        if let Node::Leaf(leaf) = &mut account.slot.node
            && leaf.content.storage.is_changed()
        {
            let item = changed.add(&mut leaf.content.storage, 0, places.len());
            places.push((owner, item));
        }
    }
    found.count_hashed(changed.items.len());
    changed.encode(&mut found.scratch);
    let mut updates: Vec<_> = places.iter().map(|_| Vec::new()).collect();
    take(&mut changed.stored).into_updates(|trie, update| updates[trie].push(update));
    for ((owner, item), updates) in places.into_iter().zip(updates) {
        let Node::Leaf(leaf) = &mut accounts.items[owner].slot.node else {
            continue;
        };
        leaf.content.storage = take(&mut changed.items[item].slot);
        if !updates.is_empty() {
            let removed = Vec::new();
            found.storages.push(StorageChanges {
                address: leaf.key,
                wiped: false,
                nodes: NodeChanges { updates, removed },
            });
        }
    }
    for account in &mut accounts.items {
        if let Node::Leaf(leaf) = &mut account.slot.node {
            leaf.content.account.storage_root = leaf.content.storage.root_hash();
        }
    }
}
