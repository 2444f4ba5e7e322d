//! Encoding what has changed, level by level, so that many nodes are hashed at once.
//!
//! Changed nodes are collected with their height: how many changed levels are below. Those of one
//! height do not depend on each other: they are written one after another, hashed together, and their
//! parents, which come next, are told. Nothing is moved. Storage tries come before the account trie
//! that names their roots.

use super::{
    branch::Head,
    child_ref::ChildRef,
    found::{Found, NodeChanges, StorageChanges},
    kind::Kind,
    node::{BoxedAccount, Node, Slot},
    rlp::{Encoded, NodeUpdate, Scratch},
};
use crate::{
    keccak::Inputs,
    nibbles::path,
    stored::{Masks, StoredBranch},
};
use alloy_primitives::{B256, U256};
use alloy_trie::Nibbles;
use std::{cell::Cell, sync::Arc};

/// Bytes of RLP after which what was written is hashed: enough nodes for all lanes, and few enough
/// to stay in a processor's cache.
const GROUP_BYTES: usize = 64 << 10;
/// Beyond that, the node that was written last: the longest is a branch of sixteen hashes.
const LAST_NODE_BYTES: usize = 1 << 10;
/// Room that a thread may keep, in bytes.
const ROOM_BYTES: usize = 512 << 10;

/// A changed node.
struct Item<'t, K> {
    node: ItemNode<'t, K>,
    parent: Parent,
    /// Which of the tries it is of.
    trie: u32,
    /// Where it begins, in nibbles.
    start: u8,
    /// How many changed levels are below.
    height: u8,
}

/// What of a node its encoding takes. Its children, if it has any, are items of their own.
enum ItemNode<'t, K> {
    Leaf(&'t B256, &'t mut K),
    Branch(&'t mut Head, &'t mut [B256]),
}

/// Who is told a node's encoding.
#[derive(Debug, Clone, Copy)]
enum Parent {
    /// The slot of a subtree's root.
    Root(u32),
    /// The item of a branch, of which it is the child at a nibble.
    Branch(u32, u8),
}

/// Changed nodes of one kind of trie.
struct Changed<'t, K> {
    /// In the order of their paths, trie after trie: a parent comes before its children.
    items: Vec<Item<'t, K>>,
    /// Encodings of the subtrees' roots.
    roots: Vec<&'t mut Option<Encoded>>,
}

/// Room to encode in, which a thread keeps, so that it is not grown anew in every range.
#[derive(Default)]
struct Room {
    inputs: Inputs,
    /// Items whose encodings are the inputs, and whether the database stores them.
    pending: Vec<(u32, bool)>,
    stored: Stored,
}

thread_local! {
    static ROOM: Cell<Room> = Cell::default();
}

/// Lends the thread's room, and drops it when it has grown too large.
fn with_room(work: impl FnOnce(&mut Room)) {
    let mut room = ROOM.take();
    work(&mut room);
    if room.bytes() <= ROOM_BYTES {
        ROOM.set(room);
    }
}

impl Room {
    fn bytes(&self) -> usize {
        self.inputs.capacity()
            + self.pending.capacity() * size_of::<(u32, bool)>()
            + self.stored.changes.capacity() * size_of::<StoredChange>()
            + self.stored.hashes.capacity() * size_of::<B256>()
    }
}

/// What becomes of stored branches, level by level.
#[derive(Default)]
struct Stored {
    changes: Vec<StoredChange>,
    /// The hashes that all of them share.
    hashes: Vec<B256>,
}

/// What becomes of one stored branch.
struct StoredChange {
    item: u32,
    /// Which of the tries it is of.
    trie: u32,
    path: Nibbles,
    /// Its children, and where its hashes begin; `None` removes it.
    branch: Option<(Masks, u32)>,
}

impl Stored {
    /// Notes a branch whose encoding is complete. Whether it is stored.
    fn note(&mut self, (item, trie): (u32, u32), head: &mut Head, refs: &[B256]) -> bool {
        let masks = head.masks();
        let is_stored = masks.is_some();
        if is_stored || head.stored {
            let start = self.hashes.len() as u32;
            if is_stored {
                self.hashes.extend(head.hashes(refs));
            }
            self.changes.push(StoredChange {
                item,
                trie,
                path: path(&head.key, head.depth()),
                branch: masks.map(|masks| (masks, start)),
            });
        }
        head.stored = is_stored;
        is_stored
    }

    /// Hands out the changes, each to the list of its trie, ascending by path.
    fn take_updates(&mut self, mut push: impl FnMut(u32, NodeUpdate)) {
        // So are items.
        self.changes.sort_unstable_by_key(|change| change.item);
        // A copy is as long as it has to be: it lives as long as its block waits to be persisted.
        let hashes = Arc::new(self.hashes.clone());
        self.hashes.clear();
        for StoredChange {
            trie, path, branch, ..
        } in self.changes.drain(..)
        {
            let in_list = |(masks, start)| StoredBranch::in_list(masks, start, Arc::clone(&hashes));
            push(trie, (path, branch.map(in_list)));
        }
    }
}

impl<'t, K: Kind> Changed<'t, K> {
    fn new() -> Self {
        Self {
            items: Vec::new(),
            roots: Vec::new(),
        }
    }

    /// Takes in a subtree whose root has changed.
    fn add(&mut self, slot: &'t mut Slot<K>, start: usize, trie: usize) {
        let parent = Parent::Root(self.roots.len() as u32);
        self.roots.push(&mut slot.encoded);
        self.collect(&mut slot.node, start, parent, trie as u32);
    }

    /// Takes in a node with everything changed below it; answers how high it is.
    fn collect(&mut self, node: &'t mut Node<K>, start: usize, parent: Parent, trie: u32) -> u8 {
        let index = self.items.len();
        let mut item = |node| {
            self.items.push(Item {
                node,
                parent,
                trie,
                start: start as u8,
                height: 0,
            });
        };
        let mut height = 0;
        match node {
            Node::None => return 0,
            Node::Leaf(leaf) => item(ItemNode::Leaf(&leaf.key, &mut leaf.content)),
            Node::Branch(branch) => {
                let (start, children) = (branch.head.depth() + 1, &mut branch.nodes);
                let stale = branch.head.stale(children);
                item(ItemNode::Branch(&mut branch.head, &mut branch.refs));
                for (nibble, child) in stale {
                    let parent = Parent::Branch(index as u32, nibble as u8);
                    height = height.max(1 + self.collect(child, start, parent, trie));
                }
                self.items[index].height = height;
            }
        }
        height
    }

    /// Items in the order of their height, and how many there are of each.
    fn by_height(&self) -> (Vec<u32>, Vec<usize>) {
        let mut counts = Vec::new();
        for item in &self.items {
            let height = usize::from(item.height);
            counts.resize(counts.len().max(height + 1), 0);
            counts[height] += 1;
        }
        let mut next: Vec<_> = counts
            .iter()
            .scan(0, |sum, count| Some(std::mem::replace(sum, *sum + count)))
            .collect();
        let mut order = vec![0; self.items.len()];
        for (index, item) in self.items.iter().enumerate() {
            let place = &mut next[usize::from(item.height)];
            order[*place] = index as u32;
            *place += 1;
        }
        (order, counts)
    }

    /// Encodes all that was taken in, and hands out what becomes of stored branches.
    fn encode(&mut self, scratch: &mut Scratch, push: impl FnMut(u32, NodeUpdate)) {
        with_room(|room| {
            self.encode_in(room, scratch);
            room.stored.take_updates(push);
        });
    }

    fn encode_in(&mut self, room: &mut Room, scratch: &mut Scratch) {
        room.inputs
            .bytes()
            .reserve_exact(GROUP_BYTES + LAST_NODE_BYTES);
        let (order, counts) = self.by_height();
        let mut rest = order.as_slice();
        for count in counts {
            let level;
            (level, rest) = rest.split_at(count);
            for &index in level {
                self.write(index, room, scratch);
                if room.inputs.bytes().len() >= GROUP_BYTES {
                    self.hash_written(room, scratch);
                }
            }
            self.hash_written(room, scratch);
        }
    }

    /// Writes a node to be hashed, or tells its parent at once if it is too short for that.
    fn write(&mut self, index: u32, room: &mut Room, scratch: &mut Scratch) {
        let (inputs, item) = (&mut room.inputs, &mut self.items[index as usize]);
        let stored = item.write(index, scratch, inputs, &mut room.stored);
        if inputs.open().len() < B256::len_bytes() {
            let rlp = ChildRef::to_node(inputs.open());
            inputs.discard_open();
            self.set(index, rlp, stored, scratch);
        } else {
            inputs.end();
            room.pending.push((index, stored));
        }
    }

    /// Hashes what was written, side by side, and tells the parents.
    fn hash_written(&mut self, room: &mut Room, scratch: &mut Scratch) {
        for ((index, stored), hash) in room.pending.drain(..).zip(room.inputs.hashes()) {
            self.set(index, ChildRef::to_hash(&hash), stored, scratch);
        }
        room.inputs.clear();
    }

    /// Tells a node's parent how to refer to it, behind an extension where it begins further up.
    fn set(&mut self, index: u32, rlp: ChildRef, stored: bool, scratch: &mut Scratch) {
        let item = &self.items[index as usize];
        let start = usize::from(item.start);
        let encoded = match &item.node {
            ItemNode::Branch(head, _) if head.depth() > start => Encoded {
                rlp: scratch.extension(&head.key, start, head.depth(), &rlp),
                hashed_branch: false,
                stored,
            },
            node => Encoded {
                hashed_branch: matches!(node, ItemNode::Branch(..)) && rlp.is_hash(),
                stored,
                rlp,
            },
        };
        match item.parent {
            Parent::Root(root) => *self.roots[root as usize] = Some(encoded),
            Parent::Branch(parent, nibble) => {
                let parent = &mut self.items[parent as usize].node;
                if let ItemNode::Branch(head, refs) = parent {
                    head.refer(refs, usize::from(nibble), &encoded);
                }
            }
        }
    }
}

impl<K: Kind> Item<'_, K> {
    /// Appends the node's encoding. Whether the database stores the node.
    fn write(
        &mut self,
        index: u32,
        scratch: &mut Scratch,
        inputs: &mut Inputs,
        stored: &mut Stored,
    ) -> bool {
        let out = inputs.bytes();
        match &mut self.node {
            ItemNode::Leaf(key, content) => {
                content.write(key, usize::from(self.start), scratch, out);
                false
            }
            ItemNode::Branch(head, refs) => {
                head.write(refs, out);
                stored.note((index, self.trie), head, refs)
            }
        }
    }
}

/// Encodes slots of one storage trie, which all begin at nibble `start`.
pub(super) fn encode_slots<'s>(
    slots: impl Iterator<Item = &'s mut Slot<U256>>,
    start: usize,
    found: &mut Found,
) {
    encode_changed(slots, start, found, |_, _| ());
}

/// Encodes slots of the account trie, which all begin at nibble `start`, and before them what has
/// changed in the storage tries below.
pub(super) fn encode_accounts<'s>(
    slots: impl Iterator<Item = &'s mut Slot<BoxedAccount>>,
    start: usize,
    found: &mut Found,
) {
    encode_changed(slots, start, found, encode_storages);
}

fn encode_changed<'s, K: Kind>(
    slots: impl Iterator<Item = &'s mut Slot<K>>,
    start: usize,
    found: &mut Found,
    first: impl FnOnce(&mut Changed<'s, K>, &mut Found),
) {
    let mut changed = Changed::new();
    for slot in slots.filter(|slot| slot.is_changed()) {
        changed.add(slot, start, 0);
    }
    if changed.items.is_empty() {
        return;
    }
    first(&mut changed, found);
    found.count_hashed(changed.items.len());
    let updates = &mut found.nodes.updates;
    changed.encode(&mut found.scratch, |_, update| updates.push(update));
}

/// Encodes the storage tries of changed accounts, all of them together.
fn encode_storages(accounts: &mut Changed<'_, BoxedAccount>, found: &mut Found) {
    let mut changed = Changed::new();
    let mut owners = Vec::new();
    for account in &mut accounts.items {
        if let ItemNode::Leaf(address, content) = &mut account.node
            && let Some(storage) = &mut content.storage
            && storage.is_changed()
        {
            changed.add(storage, 0, owners.len());
            owners.push(**address);
        }
    }
    found.count_hashed(changed.items.len());
    let mut updates: Vec<_> = owners.iter().map(|_| Vec::new()).collect();
    changed.encode(&mut found.scratch, |trie, update| {
        updates[trie as usize].push(update);
    });
    for (address, updates) in owners.into_iter().zip(updates) {
        if !updates.is_empty() {
            let removed = Vec::new();
            found.storages.push(StorageChanges {
                address,
                wiped: false,
                nodes: NodeChanges { updates, removed },
            });
        }
    }
    for account in &mut accounts.items {
        if let ItemNode::Leaf(_, content) = &mut account.node
            && let Some(storage) = &content.storage
        {
            content.account.storage_root = storage.root_hash();
        }
    }
}
