//! The changes of a run of blocks as one: changed leaves and changed trie nodes, newest winning.
//!
//! An overlay is immutable; extending one makes another that shares what did not change. Invariant:
//! everything is sorted and unique by key, and `wiped` means that nothing older shows through.

use alloy_primitives::{B256, U256, map::B256Map};
use alloy_trie::{BranchNodeCompact, Nibbles};
use state_root::updates::{Account, HashedState, HashedStorage, StorageTrieUpdates, TrieUpdates};
use std::sync::Arc;

/// Changes of blocks that are not (or not yet) read from the database.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overlay {
    pub(crate) accounts: Arc<Vec<(B256, Option<Account>)>>,
    pub(crate) storages: B256Map<Arc<HashedStorage>>,
    pub(crate) account_nodes: Arc<Vec<(Nibbles, Option<BranchNodeCompact>)>>,
    pub(crate) storage_tries: B256Map<Arc<StorageTrieUpdates>>,
}

impl Overlay {
    /// The changes of blocks, oldest first.
    pub fn from_blocks<'a>(
        blocks: impl IntoIterator<Item = (&'a HashedState, &'a TrieUpdates)>,
    ) -> Self {
        blocks
            .into_iter()
            .fold(Self::default(), |overlay, (hashed, trie)| {
                overlay.extend(hashed, trie)
            })
    }

    /// This overlay with the changes of the next block on top.
    pub fn extend(&self, hashed: &HashedState, trie: &TrieUpdates) -> Self {
        let mut storages = self.storages.clone();
        for (address, newer) in &hashed.storages {
            let merged = storages
                .get(address)
                .map(|older| extend_storage(older, newer));
            storages.insert(*address, Arc::new(merged.unwrap_or_else(|| newer.clone())));
        }
        let mut storage_tries = self.storage_tries.clone();
        for (address, newer) in &trie.storages {
            let merged = storage_tries
                .get(address)
                .map(|older| extend_trie(older, newer));
            storage_tries.insert(*address, Arc::new(merged.unwrap_or_else(|| newer.clone())));
        }
        Self {
            accounts: Arc::new(merge(&self.accounts, &hashed.accounts)),
            storages,
            account_nodes: Arc::new(merge(&self.account_nodes, &trie.account_nodes)),
            storage_tries,
        }
    }

    /// Number of changed accounts and slots.
    pub(crate) fn leaves(&self) -> usize {
        let slots = self.storages.values().map(|storage| storage.slots.len());
        self.accounts.len() + slots.sum::<usize>()
    }

    /// What the overlay says about an account: nothing, that it is gone, or what it is.
    pub fn account(&self, hashed_address: B256) -> Option<Option<Account>> {
        let at = self
            .accounts
            .binary_search_by(|(key, _)| key.cmp(&hashed_address))
            .ok()?;
        Some(self.accounts[at].1)
    }

    /// What the overlay says about a slot: nothing, or its value (zero when gone).
    pub fn slot(&self, hashed_address: B256, hashed_slot: B256) -> Option<U256> {
        let storage = self.storages.get(&hashed_address)?;
        match storage
            .slots
            .binary_search_by(|(key, _)| key.cmp(&hashed_slot))
        {
            Ok(at) => Some(storage.slots[at].1),
            Err(_) => storage.wiped.then_some(U256::ZERO),
        }
    }
}

fn extend_storage(older: &HashedStorage, newer: &HashedStorage) -> HashedStorage {
    if newer.wiped {
        return newer.clone();
    }
    HashedStorage {
        wiped: older.wiped,
        slots: merge(&older.slots, &newer.slots),
    }
}

fn extend_trie(older: &StorageTrieUpdates, newer: &StorageTrieUpdates) -> StorageTrieUpdates {
    if newer.wiped {
        return newer.clone();
    }
    StorageTrieUpdates {
        wiped: older.wiped,
        nodes: merge(&older.nodes, &newer.nodes),
    }
}

/// Both lists as one, in order; where a key is in both, the newer entry.
fn merge<K: Ord + Copy, V: Clone>(older: &[(K, V)], newer: &[(K, V)]) -> Vec<(K, V)> {
    let mut merged = Vec::with_capacity(older.len() + newer.len());
    let mut rest = older;
    for entry in newer {
        let before = rest.partition_point(|(key, _)| *key < entry.0);
        merged.extend_from_slice(&rest[..before]);
        merged.push(entry.clone());
        let same = rest.get(before).is_some_and(|(key, _)| *key == entry.0);
        rest = &rest[before + usize::from(same)..];
    }
    merged.extend_from_slice(rest);
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8) -> B256 {
        B256::repeat_byte(byte)
    }

    fn slots(wiped: bool, entries: &[(u8, u64)]) -> HashedState {
        let slots = entries
            .iter()
            .map(|(slot, value)| (key(*slot), U256::from(*value)))
            .collect();
        let mut state = HashedState::default();
        state
            .storages
            .insert(key(0xaa), HashedStorage { wiped, slots });
        state
    }

    fn check(blocks: &[HashedState], expected: &HashedState) {
        let none = TrieUpdates::default();
        let overlay = Overlay::from_blocks(blocks.iter().map(|state| (state, &none)));
        assert_eq!(*overlay.storages[&key(0xaa)], expected.storages[&key(0xaa)]);
    }

    #[test]
    fn newest_wins_and_wipes_hide_what_is_older() {
        check(
            &[
                slots(false, &[(1, 1), (3, 3)]),
                slots(false, &[(2, 2), (3, 0)]),
            ],
            &slots(false, &[(1, 1), (2, 2), (3, 0)]),
        );
        check(
            &[slots(false, &[(1, 1)]), slots(true, &[(2, 2)])],
            &slots(true, &[(2, 2)]),
        );
        check(
            &[slots(true, &[(2, 2)]), slots(false, &[(1, 7), (2, 3)])],
            &slots(true, &[(1, 7), (2, 3)]),
        );
    }

    #[test]
    fn lookups_tell_unknown_from_gone() {
        let state = HashedState {
            accounts: vec![(key(1), None), (key(2), Some(Account::default()))],
            ..slots(true, &[(1, 9)])
        };
        let overlay = Overlay::default().extend(&state, &TrieUpdates::default());
        assert_eq!(overlay.account(key(1)), Some(None));
        assert_eq!(overlay.account(key(2)), Some(Some(Account::default())));
        assert_eq!(overlay.account(key(3)), None);
        assert_eq!(overlay.slot(key(0xaa), key(1)), Some(U256::from(9)));
        assert_eq!(overlay.slot(key(0xaa), key(2)), Some(U256::ZERO));
        assert_eq!(overlay.slot(key(0xab), key(1)), None);
    }
}
