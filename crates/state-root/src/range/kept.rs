//! The tries that outlive their blocks, within a bound on memory.
//!
//! The tries of the last few blocks are kept, each under its state root, so a block finds its
//! parent's nodes on whichever branch of the chain that parent is. They share what they have in
//! common. When they grow over the bound, first the older ones go, then subtrees of the newest
//! through which no block went for longest; a stub remains in their place.

use super::node::{AccountContent, Branch, Content, Node, Slot};
use alloy_primitives::{B256, U256};
use std::{
    collections::{BTreeMap, VecDeque},
    mem::size_of,
    sync::Arc,
};

/// Tries kept besides the newest: more than a payload builder and a short reorganisation need.
const OLDER_TRIES: usize = 4;

/// Part of the bound, in eighths, that eviction leaves, so that it does not come back every block.
const EIGHTHS_KEPT: usize = 6;

/// Tries by state root, the newest last.
#[derive(Debug, Default)]
pub(super) struct Kept {
    tries: VecDeque<KeptTrie>,
    /// Blocks seen, for telling which nodes were used last.
    epoch: u64,
}

#[derive(Debug)]
struct KeptTrie {
    root: B256,
    trie: Slot<AccountContent>,
    /// Memory of nodes that this trie has instead of an older one.
    copied_bytes: usize,
}

impl Kept {
    /// The trie of this root, as far as it is known, and the number of the block that uses it.
    pub(super) fn begin(&mut self, root: B256) -> (Slot<AccountContent>, u64) {
        self.epoch += 1;
        let known = self.tries.iter().find(|kept| kept.root == root);
        let trie = known.map_or_else(|| Slot::of_root(root), |kept| kept.trie.clone());
        (trie, self.epoch)
    }

    /// Keeps the trie of a finished block.
    pub(super) fn keep(&mut self, root: B256, trie: Slot<AccountContent>, copied_bytes: usize) {
        self.tries.retain(|kept| kept.root != root);
        self.tries.push_back(KeptTrie {
            root,
            trie,
            copied_bytes,
        });
    }

    /// Memory of everything that is kept.
    pub(super) fn bytes(&self) -> usize {
        let newest = self.tries.back().map_or(0, |kept| kept.trie.bytes());
        let copied: usize = self.tries.iter().map(|kept| kept.copied_bytes).sum();
        newest + copied
    }

    /// The tries, oldest first.
    #[cfg(test)]
    pub(super) fn tries(&self) -> impl Iterator<Item = &Slot<AccountContent>> {
        self.tries.iter().map(|kept| &kept.trie)
    }

    /// Lets go of what is too old or too much.
    pub(super) fn trim(&mut self, bound_bytes: usize) {
        while self.tries.len() > OLDER_TRIES + 1 {
            self.tries.pop_front();
        }
        while self.tries.len() > 1 && self.bytes() > bound_bytes {
            self.tries.pop_front();
        }
        // The oldest shares its nodes with nobody any more.
        if let Some(oldest) = self.tries.front_mut() {
            oldest.copied_bytes = 0;
        }
        let over = self.bytes() > bound_bytes;
        if let Some(newest) = self.tries.back_mut().filter(|_| over) {
            evict(&mut newest.trie, bound_bytes / 8 * EIGHTHS_KEPT);
        }
    }
}

/// Reduces a trie to `target` bytes.
fn evict(trie: &mut Slot<AccountContent>, target: usize) {
    let mut ages = BTreeMap::new();
    add_accounts(trie, &mut ages);
    let mut bytes = 0;
    let too_old = ages.iter().rev().find(|(_, own)| {
        bytes += **own;
        bytes > target
    });
    if let Some((&epoch, _)) = too_old {
        drop_until(trie, epoch, &|account, epoch| {
            drop_until(&mut account.storage, epoch, &|_, _| ());
        });
    }
}

/// Adds up the memory of branches with their leaves by when they were used last.
fn add_accounts(slot: &Slot<AccountContent>, ages: &mut BTreeMap<u64, usize>) {
    if let Node::Branch(branch) = &slot.node {
        *ages.entry(branch.epoch).or_default() += size_of::<Branch<AccountContent>>();
        for child in &branch.children {
            add_accounts(child, ages);
            if let Node::Leaf(leaf) = &child.node {
                let storage = leaf.content.storage.bytes();
                *ages.entry(branch.epoch).or_default() += child.bytes() - storage;
                add_slots(&leaf.content.storage, branch.epoch, ages);
            }
        }
    }
}

fn add_slots(slot: &Slot<U256>, above: u64, ages: &mut BTreeMap<u64, usize>) {
    match &slot.node {
        Node::None => {}
        Node::Leaf(_) => *ages.entry(above).or_default() += slot.bytes(),
        Node::Branch(branch) => {
            *ages.entry(branch.epoch).or_default() += size_of::<Branch<U256>>();
            let below = branch.children.iter();
            below.for_each(|child| add_slots(child, branch.epoch, ages));
        }
    }
}

/// Puts stubs where the last use was in block `epoch` or before.
fn drop_until<C: Content>(slot: &mut Slot<C>, epoch: u64, below: &impl Fn(&mut C, u64)) {
    match &mut slot.node {
        Node::None => {}
        Node::Leaf(leaf) => below(&mut Arc::make_mut(leaf).content, epoch),
        Node::Branch(branch) if branch.epoch <= epoch && slot.encoded.is_some() => {
            slot.node = Node::None;
        }
        Node::Branch(branch) => {
            let branch = Arc::make_mut(branch);
            for child in &mut branch.children {
                drop_until(child, epoch, below);
            }
            let below: usize = branch.children.iter().map(Slot::bytes).sum();
            branch.bytes = size_of::<Branch<C>>() + below;
        }
    }
}
