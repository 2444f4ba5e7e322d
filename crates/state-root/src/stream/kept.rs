//! The tries that outlive their blocks, within a bound on memory.
//!
//! A block takes the trie of its parent's state root and changes it in place; what it leaves behind
//! is kept under its own root. So along a chain there is one trie, and no node is ever copied. A
//! block that is given up before it has changed anything puts the trie back. On another branch of
//! the chain a block begins from a stub, and the two tries are kept side by side.
//!
//! When they grow over the bound, first the older ones go, then subtrees of the newest: those
//! through which no block went for longest, and of a block's own the deepest. A stub remains in
//! their place, as in that of subtrees through which none of the last blocks went, where so few are
//! to be kept.

use super::{
    branch::Branch,
    node::{BoxedAccount, Content, Node, Slot},
};
use alloy_primitives::{B256, U256};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, VecDeque},
    num::NonZeroU64,
};

/// Tries kept besides the newest: that of the branch a short reorganisation has left.
pub(super) const OLDER_TRIES: usize = 1;

/// Part of the bound, in eighths, that eviction leaves, so that it does not come back every block.
const EIGHTHS_KEPT: usize = 6;

/// How much is kept.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bound {
    pub(super) bytes: usize,
    /// Only what one of so many last blocks went through.
    pub(super) blocks: Option<NonZeroU64>,
}

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
    trie: Slot<BoxedAccount>,
}

impl Kept {
    /// Takes the trie of this root, as far as it is known, and numbers the block that does.
    pub(super) fn take(&mut self, root: B256) -> (Slot<BoxedAccount>, u64) {
        self.epoch += 1;
        let known = self.tries.iter().position(|kept| kept.root == root);
        let known = known.and_then(|index| self.tries.remove(index));
        let trie = known.map_or_else(|| Slot::of_root(root), |kept| kept.trie);
        (trie, self.epoch)
    }

    /// Keeps a trie whose nodes are all encoded.
    pub(super) fn keep(&mut self, root: B256, trie: Slot<BoxedAccount>) {
        self.tries.retain(|kept| kept.root != root);
        self.tries.push_back(KeptTrie { root, trie });
    }

    /// Memory of everything that is kept.
    pub(super) fn bytes(&self) -> usize {
        self.tries.iter().map(|kept| kept.trie.node.bytes()).sum()
    }

    /// The tries, oldest first.
    #[cfg(test)]
    pub(super) fn tries(&self) -> impl Iterator<Item = &Slot<BoxedAccount>> {
        self.tries.iter().map(|kept| &kept.trie)
    }

    /// Lets go of what is too old or too much.
    pub(super) fn trim(&mut self, bound: Bound) {
        if let (Some(blocks), Some(newest)) = (bound.blocks, self.tries.back_mut())
            && let Some(epoch) = self.epoch.checked_sub(blocks.get())
        {
            let level = Reverse(0);
            drop_all(&mut newest.trie, Worth { epoch, level });
        }
        let bound_bytes = bound.bytes;
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
            if newest.trie.node.bytes() > bound_bytes {
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
            epoch: branch.head.epoch,
            level: Reverse(level),
        }
    }
}

/// Memory by what it is worth: that of a branch together with its leaves.
type Worths = BTreeMap<Worth, usize>;

/// Reduces a trie to `target` bytes.
fn evict(trie: &mut Slot<BoxedAccount>, target: usize) {
    let mut worths = Worths::new();
    add_accounts(&trie.node, 0, &mut worths);
    let mut bytes = 0;
    let too_much = worths.into_iter().rev().find(|(_, own)| {
        bytes += own;
        bytes > target
    });
    if let Some((worth, _)) = too_much {
        drop_all(trie, worth);
    }
}

/// Puts stubs in the place of branches worth no more than `worth`, those of storage tries included.
fn drop_all(trie: &mut Slot<BoxedAccount>, worth: Worth) {
    drop_until((&mut trie.node, true), 0, worth, &|account, level| {
        if let Some(storage) = &mut account.storage {
            let is_encoded = storage.encoded.is_some();
            drop_until((&mut storage.node, is_encoded), level, worth, &|_, _| ());
            if storage.is_stub() {
                account.storage = None;
            }
        }
    });
}

fn add_accounts(node: &Node<BoxedAccount>, level: usize, worths: &mut Worths) {
    let Node::Branch(branch) = node else {
        return;
    };
    let mut own = branch.own_bytes();
    for child in &branch.nodes {
        add_accounts(child, level + 1, worths);
        if let Node::Leaf(leaf) = child {
            own += child.bytes();
            if let Some(storage) = &leaf.content.storage
                && matches!(storage.node, Node::Branch(_))
            {
                own -= storage.node.bytes();
                add_slots(&storage.node, level + 1, worths);
            }
        }
    }
    *worths.entry(Worth::of(branch, level)).or_default() += own;
}

fn add_slots(node: &Node<U256>, level: usize, worths: &mut Worths) {
    let Node::Branch(branch) = node else {
        return;
    };
    for child in &branch.nodes {
        add_slots(child, level + 1, worths);
    }
    *worths.entry(Worth::of(branch, level)).or_default() += branch.own_bytes();
}

/// Puts stubs in the place of branches worth no more than `worth`. A node whose encoding is not
/// known cannot become one.
fn drop_until<C: Content>(
    (node, is_encoded): (&mut Node<C>, bool),
    level: usize,
    worth: Worth,
    below: &impl Fn(&mut C, usize),
) {
    match node {
        Node::None => {}
        Node::Leaf(leaf) => below(&mut leaf.content, level),
        Node::Branch(branch) if Worth::of(branch, level) <= worth && is_encoded => {
            *node = Node::None;
        }
        Node::Branch(branch) => {
            for (is_encoded, child) in branch.places_mut() {
                drop_until((child, is_encoded), level + 1, worth, below);
            }
            branch.drop_empty_places();
            branch.count_bytes();
        }
    }
}
