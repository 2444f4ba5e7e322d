//! The tries that outlive their blocks, within a bound on memory.
//!
//! The tries of the last few blocks are kept, each under its state root, so a block finds its
//! parent's nodes on whichever branch of the chain that parent is. They share what they have in
//! common. When they grow over the bound, first the older ones go, then subtrees of the newest:
//! those through which no block went for longest, and of a block's own the deepest. A stub remains
//! in their place.

use super::node::{AccountContent, Branch, Content, Node, Slot};
use alloy_primitives::{B256, U256};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, VecDeque},
    mem::size_of,
    sync::Arc,
};

/// Tries kept besides the newest: more than a payload builder and a short reorganisation need.
pub(super) const OLDER_TRIES: usize = 4;

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
    /// Memory of the nodes its block made or let go.
    turnover_bytes: usize,
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
    pub(super) fn keep(&mut self, root: B256, trie: Slot<AccountContent>, turnover_bytes: usize) {
        self.tries.retain(|kept| kept.root != root);
        self.tries.push_back(KeptTrie {
            root,
            trie,
            turnover_bytes,
        });
    }

    /// Memory of everything that is kept, or a little more: what the newest trie does not have was
    /// made or let go by one of the blocks since the oldest.
    pub(super) fn bytes(&self) -> usize {
        let newest = self.tries.back().map_or(0, |kept| kept.trie.bytes());
        if self.tries.len() < 2 {
            return newest;
        }
        let turnover: usize = self.tries.iter().map(|kept| kept.turnover_bytes).sum();
        newest + turnover
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
        if self.bytes() <= bound_bytes {
            return;
        }
        if let Some(newest) = self.tries.back_mut() {
            evict(&mut newest.trie, bound_bytes / 8 * EIGHTHS_KEPT);
            // Nodes whose parent was read without them cannot be stubs and may have been too many.
            if newest.trie.bytes() > bound_bytes {
                newest.trie = Slot::of_root(newest.root);
            }
        }
    }
}

/// How soon a branch is evicted: first what was used longest ago, and of what one block used the
/// deepest levels. A branch is always worth more than those below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Worth {
    epoch: u64,
    /// Branches above it, those of the account trie included.
    level: Reverse<usize>,
}

impl Worth {
    fn of<C>(branch: &Branch<C>, level: usize) -> Self {
        Self {
            epoch: branch.epoch,
            level: Reverse(level),
        }
    }
}

/// Memory by what it is worth: that of a branch together with its leaves.
type Worths = BTreeMap<Worth, usize>;

/// Reduces a trie to `target` bytes.
fn evict(trie: &mut Slot<AccountContent>, target: usize) {
    let mut worths = Worths::new();
    add_accounts(trie, 0, &mut worths);
    let mut bytes = 0;
    let too_much = worths.into_iter().rev().find(|(_, own)| {
        bytes += own;
        bytes > target
    });
    if let Some((worth, _)) = too_much {
        drop_until(trie, 0, worth, &|account, level| {
            drop_until(&mut account.storage, level, worth, &|_, _| ());
        });
    }
}

fn add_accounts(slot: &Slot<AccountContent>, level: usize, worths: &mut Worths) {
    let Node::Branch(branch) = &slot.node else {
        return;
    };
    let mut own = size_of::<Branch<AccountContent>>();
    for child in &branch.children {
        add_accounts(child, level + 1, worths);
        if let Node::Leaf(leaf) = &child.node {
            let storage = &leaf.content.storage;
            add_slots(storage, level + 1, worths);
            let is_apart = matches!(storage.node, Node::Branch(_));
            own += child.bytes() - if is_apart { storage.bytes() } else { 0 };
        }
    }
    *worths.entry(Worth::of(branch, level)).or_default() += own;
}

fn add_slots(slot: &Slot<U256>, level: usize, worths: &mut Worths) {
    let Node::Branch(branch) = &slot.node else {
        return;
    };
    let mut own = size_of::<Branch<U256>>();
    for child in &branch.children {
        add_slots(child, level + 1, worths);
        if matches!(child.node, Node::Leaf(_)) {
            own += child.bytes();
        }
    }
    *worths.entry(Worth::of(branch, level)).or_default() += own;
}

/// Puts stubs in the place of branches worth no more than `worth`.
fn drop_until<C: Content>(
    slot: &mut Slot<C>,
    level: usize,
    worth: Worth,
    below: &impl Fn(&mut C, usize),
) {
    match &mut slot.node {
        Node::None => {}
        Node::Leaf(leaf) => below(&mut Arc::make_mut(leaf).content, level),
        Node::Branch(branch) if Worth::of(branch, level) <= worth && slot.encoded.is_some() => {
            slot.node = Node::None;
        }
        Node::Branch(branch) => {
            let branch = Arc::make_mut(branch);
            for child in &mut branch.children {
                drop_until(child, level + 1, worth, below);
            }
            let below: usize = branch.children.iter().map(Slot::bytes).sum();
            branch.bytes = size_of::<Branch<C>>() + below;
        }
    }
}
