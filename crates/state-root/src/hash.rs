//! From changes to changed leaves: hashing keys once per block and keeping the last value of each.

use crate::keccak::Inputs;
use crate::updates::{Account, AccountChange, HashedChange, HashedState, HashedStorage};
use alloy_primitives::{
    Address, B256, U256,
    map::{AddressMap, B256Map, hash_map::Entry},
};

/// Remembers the keccak-256 of every address and slot it was asked for.
#[derive(Debug, Default)]
pub(crate) struct KeyHasher {
    addresses: AddressMap<B256>,
    slots: B256Map<B256>,
}

impl KeyHasher {
    /// The same changes under hashed keys. Keys not seen before are hashed together.
    pub(crate) fn hash_all(&mut self, changes: &[AccountChange]) -> Vec<HashedChange> {
        self.learn(changes);
        let hash = |change: &AccountChange| HashedChange {
            address: self.addresses[&change.address],
            account: Some(change.account),
            storage_wiped: change.storage_wiped,
            slots: change
                .slots
                .iter()
                .map(|(slot, value)| (self.slots[slot], *value))
                .collect(),
        };
        changes.iter().map(hash).collect()
    }

    fn learn(&mut self, changes: &[AccountChange]) {
        let mut inputs = Inputs::default();
        let mut new = Vec::new();
        for change in changes {
            if let Entry::Vacant(entry) = self.addresses.entry(change.address) {
                entry.insert(B256::ZERO);
                inputs.push(change.address.as_slice());
                new.push(Key::Address(change.address));
            }
            for (slot, _) in &change.slots {
                if let Entry::Vacant(entry) = self.slots.entry(*slot) {
                    entry.insert(B256::ZERO);
                    inputs.push(slot.as_slice());
                    new.push(Key::Slot(*slot));
                }
            }
        }
        for (key, hash) in new.into_iter().zip(inputs.hashes()) {
            match key {
                Key::Address(address) => self.addresses.insert(address, hash),
                Key::Slot(slot) => self.slots.insert(slot, hash),
            };
        }
    }
}

/// What is hashed.
enum Key {
    Address(Address),
    Slot(B256),
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
            for change in hasher.hash_all(std::slice::from_ref(change)) {
                leaves.push(change, |_| ());
            }
        }
        leaves.into_sorted()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::keccak256;

    const ADDRESS: Address = Address::repeat_byte(7);

    fn slot(index: u8) -> B256 {
        B256::with_last_byte(index)
    }

    fn account(nonce: u64) -> Account {
        Account {
            nonce,
            ..Account::default()
        }
    }

    /// One step of [`ADDRESS`]: nonce (`None`: gone), wiped, slots.
    fn step(nonce: Option<u64>, storage_wiped: bool, slots: &[(u8, u64)]) -> AccountChange {
        AccountChange {
            address: ADDRESS,
            account: nonce.map(account),
            storage_wiped,
            slots: slots
                .iter()
                .map(|(index, value)| (slot(*index), U256::from(*value)))
                .collect(),
        }
    }

    fn hashed(change: &AccountChange) -> HashedChange {
        let mut hasher = KeyHasher::default();
        hasher.hash_all(std::slice::from_ref(change)).remove(0)
    }

    /// What the steps leave behind: nonce, and wiped with slots by index where storage changed.
    #[track_caller]
    fn check(steps: &[AccountChange], nonce: Option<u64>, storage: Option<(bool, &[(u8, u64)])>) {
        let expected = HashedState {
            accounts: vec![(keccak256(ADDRESS), nonce.map(account))],
            storages: storage
                .map(|(wiped, slots)| (keccak256(ADDRESS), hashed_storage(wiped, slots)))
                .into_iter()
                .collect(),
        };
        assert_eq!(HashedState::from_changes(steps), expected);
    }

    fn hashed_storage(wiped: bool, slots: &[(u8, u64)]) -> HashedStorage {
        let mut slots: Vec<_> = slots
            .iter()
            .map(|(index, value)| (keccak256(slot(*index)), U256::from(*value)))
            .collect();
        slots.sort();
        HashedStorage { wiped, slots }
    }

    #[test]
    fn the_last_value_of_each_key_stays() {
        check(&[step(Some(1), false, &[])], Some(1), None);
        check(
            &[
                step(Some(1), false, &[(1, 10), (2, 20)]),
                step(Some(2), false, &[(2, 0), (3, 30)]),
                step(Some(3), false, &[(3, 31), (3, 32)]),
            ],
            Some(3),
            Some((false, &[(1, 10), (2, 0), (3, 32)])),
        );
    }

    #[test]
    fn a_wipe_removes_what_came_before_its_step_and_stays() {
        // Wiped and set in one step.
        check(
            &[step(Some(1), true, &[(1, 10)])],
            Some(1),
            Some((true, &[(1, 10)])),
        );
        // Wiped after slots were set.
        check(
            &[
                step(Some(1), false, &[(1, 10), (2, 20)]),
                step(Some(1), true, &[(2, 21)]),
            ],
            Some(1),
            Some((true, &[(2, 21)])),
        );
        // Set after the wipe, in a step that wipes nothing.
        check(
            &[
                step(Some(1), true, &[(1, 10)]),
                step(Some(2), false, &[(1, 0), (2, 20)]),
            ],
            Some(2),
            Some((true, &[(1, 0), (2, 20)])),
        );
    }

    #[test]
    fn destruction_and_creation_override_each_other() {
        let destroyed = || step(None, true, &[]);
        let set = |nonce, value| step(Some(nonce), false, &[(1, value)]);
        check(&[set(1, 10), destroyed()], None, Some((true, &[])));
        check(
            &[set(1, 10), destroyed(), set(2, 20)],
            Some(2),
            Some((true, &[(1, 20)])),
        );
        check(
            &[destroyed(), set(2, 20), destroyed()],
            None,
            Some((true, &[])),
        );
        // An empty account that had no storage goes without a wipe.
        check(
            &[step(Some(1), false, &[]), step(None, false, &[])],
            None,
            None,
        );
    }

    #[test]
    fn keys_of_all_accounts_are_sorted() {
        let changes: Vec<_> = (0..50)
            .map(|index| AccountChange {
                address: Address::with_last_byte(index),
                ..step(Some(index.into()), false, &[])
            })
            .collect();
        let state = HashedState::from_changes(&changes);
        assert_eq!(state.accounts.len(), 50);
        assert!(state.accounts.is_sorted_by(|(a, _), (b, _)| a < b));
    }

    #[test]
    fn storage_changed_alone_leaves_the_account_unmentioned() {
        let alone = |wiped, slots: &[(u8, u64)]| HashedChange {
            account: None,
            ..hashed(&step(None, wiped, slots))
        };
        let mut leaves = ChangedLeaves::default();
        let mut new = Vec::new();
        leaves.push(alone(false, &[(1, 10)]), |key| new.push(key));
        leaves.push(alone(false, &[(1, 11)]), |key| new.push(key));
        leaves.push(alone(true, &[(2, 20)]), |key| new.push(key));
        let address = keccak256(ADDRESS);
        assert_eq!(
            new,
            [
                NewKey::Account(address),
                NewKey::Slot(address, keccak256(slot(1)))
            ]
        );
        let state = leaves.into_sorted();
        assert_eq!(state.accounts, []);
        assert_eq!(state.storages[&address], hashed_storage(true, &[(2, 20)]));

        // And it keeps what an earlier step made of the account.
        let mut leaves = ChangedLeaves::default();
        leaves.push(hashed(&step(Some(4), false, &[])), |_| ());
        leaves.push(alone(false, &[(1, 10)]), |_| ());
        assert_eq!(leaves.into_sorted().accounts, [(address, Some(account(4)))]);
    }
}
