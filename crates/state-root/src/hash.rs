//! From changes to changed leaves: hashing keys once per block and keeping the last value of each.

use crate::updates::{Account, AccountChange, HashedState, HashedStorage};
use alloy_primitives::{
    Address, B256, U256, keccak256,
    map::{AddressMap, B256Map, hash_map::Entry},
};

/// Remembers the keccak-256 of every address and slot it was asked for.
#[derive(Debug, Default)]
pub(crate) struct KeyHasher {
    addresses: AddressMap<B256>,
    slots: B256Map<B256>,
}

impl KeyHasher {
    fn address(&mut self, address: Address) -> B256 {
        *self
            .addresses
            .entry(address)
            .or_insert_with(|| keccak256(address))
    }

    fn slot(&mut self, slot: B256) -> B256 {
        *self.slots.entry(slot).or_insert_with(|| keccak256(slot))
    }

    /// The same change under hashed keys.
    pub(crate) fn hash(&mut self, change: &AccountChange) -> HashedChange {
        HashedChange {
            address: self.address(change.address),
            account: Some(change.account),
            storage_wiped: change.storage_wiped,
            slots: change
                .slots
                .iter()
                .map(|&(slot, value)| (self.slot(slot), value))
                .collect(),
        }
    }
}

/// An [`AccountChange`] under hashed keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HashedChange {
    /// Hashed address.
    pub(crate) address: B256,
    /// New state; the outer `None` when only storage changed.
    pub(crate) account: Option<Option<Account>>,
    /// Whether all earlier slots were removed first.
    pub(crate) storage_wiped: bool,
    /// Hashed slots with their new values; zero removes.
    pub(crate) slots: Vec<(B256, U256)>,
}

/// A leaf whose first change of the block has just been seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NewKey {
    /// An account.
    Account(B256),
    /// A slot: hashed address, hashed slot.
    Slot(B256, B256),
}

/// The changed leaves of a block so far: the last value of each key.
#[derive(Debug, Default)]
pub(crate) struct ChangedLeaves {
    accounts: B256Map<ChangedAccount>,
}

#[derive(Debug, Default)]
struct ChangedAccount {
    account: Option<Option<Account>>,
    wiped: bool,
    slots: B256Map<U256>,
}

impl ChangedLeaves {
    /// Applies one change on top of the earlier ones and reports the keys it is the first to touch.
    /// Slots of wiped storage are never reported: nothing stored lies on their path.
    pub(crate) fn push(&mut self, change: HashedChange, mut on_new: impl FnMut(NewKey)) {
        let address = change.address;
        let known = match self.accounts.entry(address) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                on_new(NewKey::Account(address));
                entry.insert(ChangedAccount::default())
            }
        };
        known.account = change.account.or(known.account);
        if change.storage_wiped {
            known.wiped = true;
            known.slots.clear();
        }
        for (slot, value) in change.slots {
            if known.slots.insert(slot, value).is_none() && !known.wiped {
                on_new(NewKey::Slot(address, slot));
            }
        }
    }

    /// Whether the storage of an account was wiped in this block.
    pub(crate) fn is_wiped(&self, address: &B256) -> bool {
        self.accounts.get(address).is_some_and(|known| known.wiped)
    }

    /// Sorts everything by key.
    pub(crate) fn into_sorted(self) -> HashedState {
        let mut state = HashedState::default();
        for (address, known) in self.accounts {
            if let Some(account) = known.account {
                state.accounts.push((address, account));
            }
            if known.wiped || !known.slots.is_empty() {
                let mut slots: Vec<_> = known.slots.into_iter().collect();
                slots.sort_unstable_by_key(|(slot, _)| *slot);
                state.storages.insert(
                    address,
                    HashedStorage {
                        wiped: known.wiped,
                        slots,
                    },
                );
            }
        }
        state.accounts.sort_unstable_by_key(|(address, _)| *address);
        state
    }
}

impl HashedState {
    /// The changed leaves after all `changes`, in order: a later change overrides an earlier one,
    /// and a wipe removes the slots of earlier changes but not those of its own.
    pub fn from_changes<'a>(changes: impl IntoIterator<Item = &'a AccountChange>) -> Self {
        let mut hasher = KeyHasher::default();
        let mut leaves = ChangedLeaves::default();
        for change in changes {
            leaves.push(hasher.hash(change), |_| ());
        }
        leaves.into_sorted()
    }
}
