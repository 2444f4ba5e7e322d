//! Which of a block's keys the trie in memory does not know the paths of.

use super::{
    change::{AccountChange, Keyed, SlotChange},
    node::{BoxedAccount, Slot},
};
use crate::{
    chunk::{Batch, StorageTargets, Target},
    hash::{ChangedLeaves, NewKey},
    root::RootCounters,
};
use alloy_primitives::{B256, U256, map::B256Map};
use alloy_trie::EMPTY_ROOT_HASH;
use std::sync::Arc;

/// What is known of the tries: that of accounts with what hangs on them, and storage tries that came
/// before their accounts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known<'t> {
    pub(super) trie: &'t Slot<BoxedAccount>,
    pub(super) ahead: &'t B256Map<Slot<U256>>,
}

/// A storage trie, as far as anything is known of it.
enum Storage<'t> {
    Known(&'t Slot<U256>),
    Blind,
    /// There are no leaves in it.
    Empty,
}

impl<'t> Known<'t> {
    fn storage(&self, address: &B256) -> Storage<'t> {
        match self.trie.get(address) {
            Some(account) => match &account.storage {
                Some(storage) => Storage::Known(storage),
                None if account.account.storage_root == EMPTY_ROOT_HASH => Storage::Empty,
                None => Storage::Blind,
            },
            None => match self.ahead.get(address) {
                Some(storage) => Storage::Known(storage),
                None if self.trie.is_blind(address) => Storage::Blind,
                None => Storage::Empty,
            },
        }
    }

    /// Where the unknown part of the path to a slot begins.
    fn slot_start(&self, address: &B256, slot: &B256) -> Option<usize> {
        match self.storage(address) {
            Storage::Known(storage) => storage.blind_from(slot, 0),
            Storage::Blind => Some(0),
            Storage::Empty => None,
        }
    }
}

/// Keys whose first change has been seen.
#[derive(Debug, Default)]
pub(super) struct NewKeys {
    accounts: Vec<B256>,
    /// Account and slot.
    slots: Vec<(B256, B256)>,
}

impl NewKeys {
    pub(super) fn len(&self) -> usize {
        self.accounts.len() + self.slots.len()
    }

    pub(super) fn push(&mut self, key: NewKey) {
        match key {
            NewKey::Account(address) => self.accounts.push(address),
            NewKey::Slot(address, slot) => self.slots.push((address, slot)),
        }
    }

    /// Those whose paths are unknown. They are counted as targets.
    pub(super) fn unknown(
        mut self,
        known: Known<'_>,
        leaves: &ChangedLeaves,
        counters: &mut RootCounters,
    ) -> Unknown {
        let keys = self.len();
        let mut unknown = Unknown::default();
        let blind = |address: &B256| unknown.accounts.push(*address);
        known.trie.blind_among(&self.accounts, blind);
        self.slots.sort_unstable();
        for of_account in self.slots.chunk_by(|a, b| a.0 == b.0) {
            let address = of_account[0].0;
            if leaves.is_wiped(&address) {
                continue;
            }
            let slots: Vec<_> = of_account.iter().map(|(_, slot)| *slot).collect();
            let blind = match known.storage(&address) {
                Storage::Known(storage) => {
                    let mut blind = Vec::new();
                    storage.blind_among(&slots, |slot| blind.push(*slot));
                    blind
                }
                Storage::Blind => slots,
                Storage::Empty => Vec::new(),
            };
            if !blind.is_empty() {
                unknown.slots.push((address, blind));
            }
        }
        let slots: usize = unknown.slots.iter().map(|(_, slots)| slots.len()).sum();
        counters.account_targets += unknown.accounts.len() as u64;
        counters.storage_targets += slots as u64;
        counters.known_paths += (keys - unknown.accounts.len() - slots) as u64;
        unknown
    }
}

/// Keys whose paths are unknown.
#[derive(Debug, Default)]
pub(super) struct Unknown {
    accounts: Vec<B256>,
    /// Ascending by address and by slot.
    slots: Vec<(B256, Vec<B256>)>,
}

impl Unknown {
    pub(super) fn is_empty(&self) -> bool {
        self.accounts.is_empty() && self.slots.is_empty()
    }

    /// The changes that reveal them.
    pub(super) fn into_changes(self) -> Vec<Keyed<AccountChange>> {
        let unread = || AccountChange {
            is_unknown: true,
            ..AccountChange::default()
        };
        let accounts = self.accounts.into_iter().map(|address| (address, unread()));
        let mut changes: B256Map<_> = accounts.collect();
        for (address, slots) in self.slots {
            let slots = slots.into_iter().map(|slot| (slot, SlotChange::Reveal));
            changes.entry(address).or_insert_with(unread).slots = Arc::new(slots.collect());
        }
        let mut changes: Vec<_> = changes.into_iter().collect();
        changes.sort_unstable_by_key(|(address, _)| *address);
        changes
    }

    /// The same as targets, sorted.
    pub(super) fn into_batch(self, known: Known<'_>) -> Batch {
        let account = |key| {
            let start = known.trie.blind_from(&key, 0)?;
            Some(Target { key, start })
        };
        let mut accounts: Vec<_> = self.accounts.into_iter().filter_map(account).collect();
        accounts.sort_unstable();
        let storage = |(address, slots): (B256, Vec<B256>)| {
            let target = |key| {
                let start = known.slot_start(&address, &key)?;
                Some(Target { key, start })
            };
            let slots = slots.into_iter().filter_map(target).collect();
            StorageTargets { address, slots }
        };
        Batch {
            accounts,
            storages: self.slots.into_iter().map(storage).collect(),
        }
    }
}
