//! The two kinds of trie: how their leaves are changed, encoded and read.

use super::{
    change::{AccountChange, Change, Keyed, SlotChange},
    encode::{encode_accounts, encode_slots},
    found::{Found, Lane, StorageChanges},
    node::{AccountContent, BoxedAccount, Content, Slot},
    read::{Contents, Manner, ReadNodes, Reader, storage_root},
    region::Region,
    rlp::Scratch,
    walk::{Pass, Work},
};
use crate::{
    chunk::Target,
    cursor::{StateSource, StateView},
    error::RootError,
    updates::Account,
};
use alloy_primitives::{B256, U256};
use alloy_trie::{EMPTY_ROOT_HASH, TrieAccount};
use std::{mem::take, sync::Arc};

/// A leaf whose path is to be read, with what is to be done to it.
pub(super) type Unknown<'c, K> = (Target, Option<&'c <K as Kind>::Change>);

/// What has become of a leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Same,
    Changed,
    Gone,
}

/// What a leaf holds, and with it everything that differs between accounts and slots.
pub(super) trait Kind: Content {
    /// What can be done to a leaf.
    type Change: Change;
    /// Which trie of this kind.
    type Trie: Copy + Send + Sync;

    /// Appends the RLP of a leaf that begins at nibble `start` of its key.
    fn write(&self, key: &B256, start: usize, scratch: &mut Scratch, out: &mut Vec<u8>);

    /// Encodes slots that all begin at nibble `start`, where they have changed.
    fn encode_all<'s>(
        slots: impl Iterator<Item = &'s mut Slot<Self>>,
        start: usize,
        found: &mut Found,
    );

    /// Does a change to a leaf.
    fn change<S: StateSource>(
        region: &mut Region<'_, S, Self>,
        content: &mut Self,
        change: (&B256, &Self::Change),
    ) -> Result<Fate, RootError>;

    /// What a change puts where there is no leaf.
    fn create<S: StateSource>(
        region: &mut Region<'_, S, Self>,
        change: (&B256, &Self::Change),
    ) -> Result<Option<Self>, RootError>;

    /// Reads the nodes on the paths of leaves, sorted by key, in one walk.
    fn read<S: StateSource>(
        pass: &Pass<S, Self>,
        lane: &mut Lane<S>,
        unknown: &[Unknown<'_, Self>],
        is_shallow: bool,
    ) -> Result<ReadNodes<Self>, RootError>;

    /// Refuses a root that is not the one the trie is known by.
    fn check_root(expected: B256, found: B256) -> Result<(), RootError>;
}

impl Kind for U256 {
    type Change = SlotChange;
    type Trie = B256;

    fn write(&self, key: &B256, start: usize, scratch: &mut Scratch, out: &mut Vec<u8>) {
        scratch.write_leaf((key, start), self, out);
    }

    fn encode_all<'s>(
        slots: impl Iterator<Item = &'s mut Slot<Self>>,
        start: usize,
        found: &mut Found,
    ) {
        encode_slots(slots, start, found);
    }

    fn change<S: StateSource>(
        _: &mut Region<'_, S, Self>,
        content: &mut Self,
        (_, change): (&B256, &SlotChange),
    ) -> Result<Fate, RootError> {
        Ok(match change {
            SlotChange::Value { value, .. } if value.is_zero() => Fate::Gone,
            SlotChange::Value { value, .. } if value != content => {
                *content = *value;
                Fate::Changed
            }
            SlotChange::Value { .. } | SlotChange::Reveal => Fate::Same,
        })
    }

    fn create<S: StateSource>(
        _: &mut Region<'_, S, Self>,
        (_, change): (&B256, &SlotChange),
    ) -> Result<Option<Self>, RootError> {
        Ok(match change {
            SlotChange::Value { value, .. } if !value.is_zero() => Some(*value),
            SlotChange::Value { .. } | SlotChange::Reveal => None,
        })
    }

    fn read<S: StateSource>(
        pass: &Pass<S, Self>,
        lane: &mut Lane<S>,
        unknown: &[Unknown<'_, Self>],
        is_shallow: bool,
    ) -> Result<ReadNodes<Self>, RootError> {
        let view = lane.view(&pass.work.source)?;
        let targets: Vec<_> = unknown.iter().map(|(target, _)| *target).collect();
        let asked = Asked {
            targets: &targets,
            is_shallow,
            needs_root: true,
        };
        read_slots(&pass.work, view, pass.trie, asked)
    }

    fn check_root(expected: B256, found: B256) -> Result<(), RootError> {
        if expected == found {
            Ok(())
        } else {
            Err(RootError::Inconsistent)
        }
    }
}

impl Kind for BoxedAccount {
    type Change = AccountChange;
    type Trie = ();

    fn write(&self, key: &B256, start: usize, scratch: &mut Scratch, out: &mut Vec<u8>) {
        scratch.write_leaf((key, start), &self.account, out);
    }

    fn encode_all<'s>(
        slots: impl Iterator<Item = &'s mut Slot<Self>>,
        start: usize,
        found: &mut Found,
    ) {
        encode_accounts(slots, start, found);
    }

    fn change<S: StateSource>(
        region: &mut Region<'_, S, Self>,
        content: &mut Self,
        (address, change): (&B256, &AccountChange),
    ) -> Result<Fate, RootError> {
        let storage_changed = change_storage(region, content, (*address, change))?;
        let old = &mut content.account;
        let new = match change.account {
            Some(None) => return Ok(Fate::Gone),
            // Its storage root is replaced when the leaf is encoded, if storage has changed.
            Some(Some(account)) => with_root(&account, old.storage_root),
            None => *old,
        };
        let changed = storage_changed || new != *old;
        *old = new;
        Ok(if changed { Fate::Changed } else { Fate::Same })
    }

    fn create<S: StateSource>(
        region: &mut Region<'_, S, Self>,
        (address, change): (&B256, &AccountChange),
    ) -> Result<Option<Self>, RootError> {
        let Some(Some(account)) = change.account else {
            return Ok(None);
        };
        let mut content = Box::new(AccountContent {
            account: with_root(&account, EMPTY_ROOT_HASH),
            storage: None,
        });
        change_storage(region, &mut content, (*address, change))?;
        Ok(Some(content))
    }

    fn read<S: StateSource>(
        pass: &Pass<S, Self>,
        lane: &mut Lane<S>,
        unknown: &[Unknown<'_, Self>],
        is_shallow: bool,
    ) -> Result<ReadNodes<Self>, RootError> {
        let view = lane.view(&pass.work.source)?;
        let (trie, accounts) = (view.account_trie()?, view.accounts()?);
        let targets: Vec<_> = unknown.iter().map(|(target, _)| *target).collect();
        let mut read = ReadAccounts {
            work: &pass.work,
            grain: if is_shallow { pass.grain } else { usize::MAX },
            view,
            unknown,
            nodes: 0,
        };
        let manner = Manner {
            is_shallow,
            needs_root: true,
            epoch: pass.work.epoch(),
        };
        let reader = Reader::new(trie, accounts, &mut read, (manner, &pass.work.cancelled));
        let (all, nodes) = reader.run(&targets)?;
        Ok((all, nodes + read.nodes))
    }

    fn check_root(expected: B256, found: B256) -> Result<(), RootError> {
        if expected == found {
            Ok(())
        } else {
            Err(RootError::ParentRoot { expected, found })
        }
    }
}

/// An account with this storage root.
pub(super) fn with_root(account: &Account, storage_root: B256) -> TrieAccount {
    TrieAccount::new(
        account.nonce,
        account.balance,
        storage_root,
        account.code_hash,
    )
}

/// Does what a change says about the slots of an account, and answers whether any differs.
fn change_storage<S: StateSource>(
    region: &mut Region<'_, S, BoxedAccount>,
    content: &mut AccountContent,
    (address, change): (B256, &AccountChange),
) -> Result<bool, RootError> {
    if !change.wiped && change.slots.is_empty() {
        return Ok(false);
    }
    let unread = || Box::new(Slot::of_root(content.account.storage_root));
    let storage = content.storage.get_or_insert_with(unread);
    let mut changed = false;
    if change.wiped {
        changed = !storage.is_empty();
        **storage = Slot::default();
    }
    let slots = Pass::<S, U256> {
        work: Arc::clone(&region.pass.work),
        changes: Arc::clone(&change.slots),
        trie: address,
        // What is not cut off from its account is hashed with it.
        hashes: region.pass.hashes && !region.is_whole,
        grain: if region.is_whole {
            usize::MAX
        } else {
            region.pass.grain
        },
    };
    let lane = &mut *region.lane;
    let outer = take(&mut lane.found.nodes);
    changed |= slots.apply(storage, lane)?;
    let nodes = std::mem::replace(&mut lane.found.nodes, outer);
    if change.wiped || !nodes.is_empty() {
        lane.found.storages.push(StorageChanges {
            address,
            wiped: change.wiped,
            nodes,
        });
    }
    Ok(changed)
}

/// What is read of a storage trie.
struct Asked<'t> {
    /// Sorted by key.
    targets: &'t [Target],
    /// Whether what is below the topmost nodes is left to others.
    is_shallow: bool,
    /// Whether the root is to be compared, or is needed at once.
    needs_root: bool,
}

/// Reads nodes of one storage trie.
fn read_slots<S: StateSource, V: StateView>(
    work: &Work<S>,
    view: &V,
    address: B256,
    asked: Asked<'_>,
) -> Result<ReadNodes<U256>, RootError> {
    let (trie, slots) = (view.storage_trie(address)?, view.slots(address)?);
    let manner = Manner {
        is_shallow: asked.is_shallow,
        needs_root: asked.needs_root,
        epoch: work.epoch(),
    };
    Reader::new(trie, slots, Slots, (manner, &work.cancelled)).run(asked.targets)
}

/// Slots are stored as they are.
pub(super) struct Slots;

impl Contents for Slots {
    type Stored = U256;
    type Content = U256;

    fn content(&mut self, _: &B256, stored: &U256, _: bool) -> Result<U256, RootError> {
        Ok(*stored)
    }

    fn write(
        &mut self,
        leaf: (&B256, usize),
        stored: &U256,
        scratch: &mut Scratch,
        out: &mut Vec<u8>,
    ) -> Result<(), RootError> {
        scratch.write_leaf(leaf, stored, out);
        Ok(())
    }
}

/// Supplies accounts with their storage roots, and on the way reads the slots that are changed.
struct ReadAccounts<'a, S, V> {
    work: &'a Work<S>,
    /// Slots above which the nodes below the top are left to whoever takes them.
    grain: usize,
    view: &'a V,
    /// Sorted by key.
    unknown: &'a [Unknown<'a, BoxedAccount>],
    /// Nodes read of storage tries.
    nodes: usize,
}

impl<S: StateSource, V: StateView> Contents for &mut ReadAccounts<'_, S, V> {
    type Stored = Account;
    type Content = BoxedAccount;

    /// An account that is certain to change has no storage root where slots are read: they are
    /// hashed before it is.
    fn content(
        &mut self,
        address: &B256,
        account: &Account,
        certain: bool,
    ) -> Result<BoxedAccount, RootError> {
        let own = self.unknown.binary_search_by_key(address, |own| own.0.key);
        let change = own.ok().and_then(|own| self.unknown[own].1);
        let slots = change.map_or(&[][..], |change| &change.slots);
        let storage = if slots.is_empty() {
            None
        } else {
            Some(Box::new(self.storage(*address, slots, !certain)?))
        };
        let root = match &storage {
            Some(storage) => storage.root_hash(),
            None => storage_root(self.view, *address, &self.work.cancelled)?,
        };
        let account = with_root(account, root);
        Ok(Box::new(AccountContent { account, storage }))
    }

    fn write(
        &mut self,
        leaf: (&B256, usize),
        account: &Account,
        scratch: &mut Scratch,
        out: &mut Vec<u8>,
    ) -> Result<(), RootError> {
        let root = storage_root(self.view, *leaf.0, &self.work.cancelled)?;
        scratch.write_leaf(leaf, &with_root(account, root), out);
        Ok(())
    }
}

impl<S: StateSource, V: StateView> ReadAccounts<'_, S, V> {
    /// What is to be known of a storage trie before some of its slots change.
    fn storage(
        &mut self,
        address: B256,
        slots: &[Keyed<SlotChange>],
        needs_root: bool,
    ) -> Result<Slot<U256>, RootError> {
        let target = |&(key, _): &Keyed<SlotChange>| Target { key, start: 0 };
        let targets: Vec<_> = slots.iter().map(target).collect();
        let asked = Asked {
            targets: &targets,
            is_shallow: slots.len() > self.grain,
            needs_root,
        };
        let (mut read, nodes) = read_slots(self.work, self.view, address, asked)?;
        self.nodes += nodes;
        Ok(read.pop().map_or_else(Slot::default, |read| read.slot))
    }
}
