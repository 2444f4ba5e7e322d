//! The two kinds of trie: how their leaves are changed, encoded and read.

use super::{
    change::{AccountChange, Change, Keyed, SlotChange},
    node::{AccountContent, Branch, Content, Leaf, Node, Slot},
    walk::{Found, Pass, Work},
};
use crate::{
    chunk::Target,
    cursor::{StateSource, StateView},
    error::RootError,
    proof::{LeafValues, SlotValues, Walk, storage_root},
    sparse::{Arena, Encoded, LeafValue, NodeKind, NodeRef, Proof, Scratch},
    updates::{Account, StorageTrieUpdates},
};
use alloy_primitives::{B256, U256, map::B256Map};
use alloy_trie::TrieAccount;
use std::mem::size_of;

/// What a leaf holds, and with it everything that differs between accounts and slots.
pub(super) trait Kind: Content {
    /// What can be done to a leaf.
    type Change: Change;
    /// Which trie of this kind.
    type Trie: Copy + Send + Sync;

    /// The encoding of a leaf that begins at nibble `start` of its key.
    fn encode(&self, key: &B256, start: usize, scratch: &mut Scratch) -> Encoded;

    /// Does a change to a leaf, or to the place of one, and answers whether it differs from before.
    fn change<S: StateSource>(
        pass: &Pass<'_, S, Self>,
        content: &mut Option<Self>,
        change: (&B256, &Self::Change),
        found: &mut Found,
    ) -> Result<bool, RootError>;

    /// Reads the nodes on the paths of `targets`, which lie below one slot, and how many they are.
    fn read<S: StateSource>(
        pass: &Pass<'_, S, Self>,
        targets: &[Target],
        changes: &[Keyed<Self::Change>],
        shallow: bool,
    ) -> Result<(Slot<Self>, usize), RootError>;

    /// Refuses a root that is not the one the trie is known by.
    fn check_root(expected: B256, found: B256) -> Result<(), RootError>;
}

impl Kind for U256 {
    type Change = SlotChange;
    type Trie = B256;

    fn encode(&self, key: &B256, start: usize, scratch: &mut Scratch) -> Encoded {
        scratch.leaf_parts(key, start, self)
    }

    fn change<S: StateSource>(
        _: &Pass<'_, S, Self>,
        content: &mut Option<Self>,
        (_, change): (&B256, &SlotChange),
        _: &mut Found,
    ) -> Result<bool, RootError> {
        let SlotChange::Value(value) = change else {
            return Ok(false);
        };
        let new = Some(*value).filter(|value| !value.is_zero());
        let changed = *content != new;
        *content = new;
        Ok(changed)
    }

    fn read<S: StateSource>(
        pass: &Pass<'_, S, Self>,
        targets: &[Target],
        _: &[Keyed<SlotChange>],
        shallow: bool,
    ) -> Result<(Slot<Self>, usize), RootError> {
        let view = pass.work.source.open()?;
        read_slots(pass.work, &view, pass.trie, (targets, shallow))
    }

    fn check_root(expected: B256, found: B256) -> Result<(), RootError> {
        if expected == found {
            Ok(())
        } else {
            Err(RootError::Inconsistent)
        }
    }
}

impl Kind for AccountContent {
    type Change = AccountChange;
    type Trie = ();

    fn encode(&self, key: &B256, start: usize, scratch: &mut Scratch) -> Encoded {
        scratch.leaf_parts(key, start, &self.account)
    }

    fn change<S: StateSource>(
        pass: &Pass<'_, S, Self>,
        content: &mut Option<Self>,
        (address, change): (&B256, &AccountChange),
        found: &mut Found,
    ) -> Result<bool, RootError> {
        let old = content.take();
        let before = old.as_ref().map(|old| old.account);
        let mut storage = old.map_or_else(Slot::default, |old| old.storage);
        change_storage(pass, &mut storage, (*address, change), found)?;
        let account = match change.account {
            None => before,
            Some(account) => account.map(|account| {
                TrieAccount::new(
                    account.nonce,
                    account.balance,
                    B256::ZERO,
                    account.code_hash,
                )
            }),
        };
        let account = account.map(|account| TrieAccount {
            storage_root: storage.root_hash(),
            ..account
        });
        *content = account.map(|account| Self { account, storage });
        Ok(account != before)
    }

    fn read<S: StateSource>(
        pass: &Pass<'_, S, Self>,
        targets: &[Target],
        changes: &[Keyed<AccountChange>],
        shallow: bool,
    ) -> Result<(Slot<Self>, usize), RootError> {
        let view = pass.work.source.open()?;
        let (trie, accounts) = (view.account_trie()?, view.accounts()?);
        let mut read = ReadAccounts {
            work: pass.work,
            view: &view,
            changes,
            storages: B256Map::default(),
            nodes: 0,
        };
        let proof = Walk::new(trie, accounts, &mut read, &pass.work.cancelled)
            .shallow(shallow)
            .run(targets)?;
        let (mut storages, nodes) = (read.storages, read.nodes);
        let nodes = nodes + proof.arena.node_count();
        let content = |key: &B256, account: TrieAccount| {
            let unread = || Slot::of_root(account.storage_root);
            let storage = storages.remove(key).unwrap_or_else(unread);
            Self { account, storage }
        };
        Ok((Import::of(pass.work, proof, content), nodes))
    }

    fn check_root(expected: B256, found: B256) -> Result<(), RootError> {
        if expected == found {
            Ok(())
        } else {
            Err(RootError::ParentRoot { expected, found })
        }
    }
}

/// Does what a change says about the slots of an account.
fn change_storage<S: StateSource>(
    pass: &Pass<'_, S, AccountContent>,
    storage: &mut Slot<U256>,
    (address, change): (B256, &AccountChange),
    found: &mut Found,
) -> Result<(), RootError> {
    let wiped = change.wiped;
    if wiped {
        *storage = Slot::default();
    }
    let mut found_below = Found::default();
    let slots = Pass::<S, U256> {
        work: pass.work,
        trie: address,
        hashes: pass.hashes,
    };
    slots.at(storage, 0, &change.slots, &mut found_below)?;
    let nodes = found_below.take_updates();
    found.append_storage(found_below);
    if wiped || !nodes.is_empty() {
        let updates = StorageTrieUpdates { wiped, nodes };
        found.storages.push((address, updates));
    }
    Ok(())
}

/// Reads nodes of one storage trie.
fn read_slots<S: StateSource, V: StateView>(
    work: &Work<S>,
    view: &V,
    address: B256,
    (targets, shallow): (&[Target], bool),
) -> Result<(Slot<U256>, usize), RootError> {
    let (trie, slots) = (view.storage_trie(address)?, view.slots(address)?);
    let proof = Walk::new(trie, slots, SlotValues, &work.cancelled)
        .shallow(shallow)
        .run(targets)?;
    let nodes = proof.arena.node_count();
    Ok((Import::of(work, proof, |_, value| value), nodes))
}

/// Supplies accounts with their storage roots, and on the way reads the slots that are changed.
struct ReadAccounts<'a, S, V> {
    work: &'a Work<S>,
    view: &'a V,
    changes: &'a [Keyed<AccountChange>],
    /// What was read of storage tries, by address.
    storages: B256Map<Slot<U256>>,
    nodes: usize,
}

impl<S: StateSource, V: StateView> LeafValues for &mut ReadAccounts<'_, S, V> {
    type Stored = Account;
    type Value = TrieAccount;

    fn complete(&mut self, address: &B256, account: &Account) -> Result<TrieAccount, RootError> {
        let own = self.changes.binary_search_by_key(address, |(key, _)| *key);
        let slots = own.map_or(&[][..], |own| &self.changes[own].1.slots);
        let root = if slots.is_empty() {
            storage_root(self.view, *address, &self.work.cancelled)?
        } else {
            let target = |&(key, _): &Keyed<SlotChange>| Target { key, start: 0 };
            let targets: Vec<_> = slots.iter().map(target).collect();
            let shallow = slots.len() > self.work.grain;
            let below = (&targets[..], shallow);
            let (storage, nodes) = read_slots(self.work, self.view, *address, below)?;
            let root = storage.root_hash();
            self.nodes += nodes;
            self.storages.insert(*address, storage);
            root
        };
        Ok(TrieAccount::new(
            account.nonce,
            account.balance,
            root,
            account.code_hash,
        ))
    }

    fn of_target(&mut self, address: &B256, account: &Account) -> Result<TrieAccount, RootError> {
        self.complete(address, account)
    }
}

/// Makes shared nodes of what a walk has read.
struct Import<V, F> {
    arena: Arena<V>,
    content: F,
    epoch: u64,
}

impl<V: LeafValue, F> Import<V, F> {
    /// The one subtree of a proof.
    fn of<S, K: Kind>(work: &Work<S>, proof: Proof<V>, content: F) -> Slot<K>
    where
        F: FnMut(&B256, V) -> K,
    {
        let mut import = Import {
            arena: proof.arena,
            content,
            epoch: work.epoch(),
        };
        let root = proof.roots.first().map_or(NodeRef::EMPTY, |root| root.node);
        import.slot(root)
    }

    fn slot<K: Kind>(&mut self, node: NodeRef) -> Slot<K>
    where
        F: FnMut(&B256, V) -> K,
    {
        let encoded = self.arena.encoded(node).cloned();
        let node = match node.kind() {
            NodeKind::Empty | NodeKind::Stub(_) => Node::None,
            NodeKind::Leaf(index) => {
                let leaf = &self.arena.leaves[index];
                let content = (self.content)(&leaf.key, leaf.value.clone());
                let key = leaf.key;
                Node::Leaf(Box::new(Leaf { key, content }))
            }
            NodeKind::Branch(index) => Node::Branch(Box::new(self.branch(index))),
        };
        Slot { encoded, node }
    }

    fn branch<K: Kind>(&mut self, index: usize) -> Branch<K>
    where
        F: FnMut(&B256, V) -> K,
    {
        let known = &self.arena.branches[index];
        let (key, depth, stored) = (known.key, known.depth, known.stored);
        let children = known.children;
        let children = children.map(|child| self.slot(child));
        let below: usize = children.iter().map(Slot::bytes).sum();
        Branch {
            key,
            depth,
            stored,
            epoch: self.epoch,
            bytes: size_of::<Branch<K>>() + below,
            children,
        }
    }
}
