//! The changes of a run of blocks as one sorted list for each table, newest winning.
//!
//! All blocks are sorted together: each brings sorted lists, of which a stable sort makes one by
//! merging. Nothing is copied; what is to be written stays with the blocks.

use alloy_primitives::{Address, B256, U256, map::B256Map};
use alloy_trie::Nibbles;
use state_root::{
    StoredBranch,
    updates::{Account, HashedState, TrieUpdates},
};
use std::mem::{swap, take};

/// The newest change of each key, ascending.
type Newest<'a, K, E> = Vec<&'a (K, E)>;

/// Whether an account was wiped, and the sorted lists of what changed below it since.
type Lists<'a, K, E> = (bool, Vec<&'a [(K, E)]>);

/// Changes below one account: nothing older than them counts when `wiped`.
pub(crate) struct Below<'a, K, E> {
    pub(crate) wiped: bool,
    pub(crate) changes: Newest<'a, K, E>,
}

/// Leaves and stored nodes that a run of blocks changes.
pub(crate) struct HashedBatch<'a> {
    pub(crate) accounts: Newest<'a, B256, Option<Account>>,
    pub(crate) account_nodes: Newest<'a, Nibbles, Option<StoredBranch>>,
    /// Ascending by hashed address.
    pub(crate) storages: Vec<(B256, Below<'a, B256, U256>)>,
    /// Ascending by hashed address.
    pub(crate) tries: Vec<(B256, Below<'a, Nibbles, Option<StoredBranch>>)>,
}

impl<'a> HashedBatch<'a> {
    /// The changes of `blocks`, which come oldest first.
    pub(crate) fn of(blocks: &[(&'a HashedState, &'a TrieUpdates)]) -> Self {
        let accounts = blocks.iter().map(|(hashed, _)| &hashed.accounts[..]);
        let nodes = blocks.iter().map(|(_, trie)| &trie.account_nodes[..]);
        let storages = blocks.iter().flat_map(|(hashed, _)| {
            let storages = hashed.storages.iter();
            storages.map(|(address, storage)| (*address, storage.wiped, &storage.slots[..]))
        });
        let tries = blocks.iter().flat_map(|(_, trie)| {
            let tries = trie.storages.iter();
            tries.map(|(address, trie)| (*address, trie.wiped, &trie.nodes[..]))
        });
        Self {
            accounts: newest(accounts),
            account_nodes: newest(nodes),
            storages: by_account(storages),
            tries: by_account(tries),
        }
    }
}

/// Sorted lists of changes as one; the lists come oldest first.
fn newest<'a, K: Ord, E>(lists: impl Iterator<Item = &'a [(K, E)]>) -> Newest<'a, K, E> {
    let mut all: Vec<_> = lists.flatten().collect();
    sort_last(&mut all, |change| &change.0);
    all
}

/// Lists of changes, with their accounts and whether these were wiped before, account by account;
/// the lists come oldest first.
fn by_account<'a, K: Ord, E>(
    lists: impl Iterator<Item = (B256, bool, &'a [(K, E)])>,
) -> Vec<(B256, Below<'a, K, E>)> {
    let mut accounts: B256Map<Lists<'_, K, E>> = B256Map::default();
    for (address, wiped, list) in lists {
        let (wiped_ever, lists) = accounts.entry(address).or_default();
        if wiped {
            *wiped_ever = true;
            lists.clear();
        }
        lists.push(list);
    }
    let below = accounts.into_iter().map(|(address, (wiped, lists))| {
        let changes = newest(lists.into_iter());
        (address, Below { wiped, changes })
    });
    let mut below: Vec<_> = below.collect();
    below.sort_unstable_by_key(|(address, _)| *address);
    below
}

/// Sorts entries by key and leaves the last of those that have the same.
fn sort_last<T, K: Ord + ?Sized>(entries: &mut Vec<T>, key: impl Fn(&T) -> &K) {
    entries.sort_by(|a, b| key(a).cmp(key(b)));
    entries.dedup_by(|later, earlier| {
        let same = key(later) == key(earlier);
        if same {
            swap(later, earlier);
        }
        same
    });
}

/// What blocks leave in plain state and is not written yet: an account's last state, a slot's last
/// value.
#[derive(Debug, Default)]
pub(crate) struct PlainBatch {
    accounts: Vec<(Address, Option<Account>)>,
    slots: Vec<((Address, B256), U256)>,
}

impl PlainBatch {
    /// Adds what a block leaves of an account.
    pub(crate) fn account(&mut self, address: Address, account: Option<Account>) {
        self.accounts.push((address, account));
    }

    /// Adds what a block leaves in a slot.
    pub(crate) fn slot(&mut self, address: Address, slot: B256, value: U256) {
        self.slots.push(((address, slot), value));
    }

    /// Takes the accounts, ascending, each once.
    pub(crate) fn take_accounts(&mut self) -> Vec<(Address, Option<Account>)> {
        let mut accounts = take(&mut self.accounts);
        sort_last(&mut accounts, |(address, _)| address);
        accounts
    }

    /// Takes the slots, ascending by account and slot, each once.
    pub(crate) fn take_slots(&mut self) -> Vec<((Address, B256), U256)> {
        let mut slots = take(&mut self.slots);
        sort_last(&mut slots, |(key, _)| key);
        slots
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use state_root::updates::HashedStorage;
    use std::collections::BTreeMap;

    fn key(byte: u8) -> B256 {
        B256::repeat_byte(byte)
    }

    /// A block's slots of one account: whether they were wiped first, and values by slot.
    type BlockSlots = (bool, BTreeMap<u8, u64>);

    fn block((wiped, slots): &BlockSlots) -> HashedState {
        let slots = slots.iter();
        let slots = slots.map(|(slot, value)| (key(*slot), U256::from(*value)));
        let storage = HashedStorage {
            wiped: *wiped,
            slots: slots.collect(),
        };
        HashedState {
            accounts: Vec::new(),
            storages: [(key(0xaa), storage)].into_iter().collect(),
        }
    }

    proptest! {
        #[test]
        fn blocks_are_as_a_map_written_one_by_one(
            blocks in prop::collection::vec(
                (prop::bool::weighted(0.1), prop::collection::btree_map(0..40_u8, 0..5_u64, 0..30)),
                1..30,
            ),
        ) {
            let mut expected = BTreeMap::new();
            for (wiped, slots) in &blocks {
                if *wiped {
                    expected.clear();
                }
                expected.extend(slots.iter().map(|(slot, value)| (key(*slot), U256::from(*value))));
            }
            let states: Vec<_> = blocks.iter().map(block).collect();
            let none = TrieUpdates::default();
            let pairs: Vec<_> = states.iter().map(|state| (state, &none)).collect();
            let batch = HashedBatch::of(&pairs);
            let [(address, below)] = &batch.storages[..] else {
                return Err(TestCaseError::fail("one account"));
            };
            prop_assert_eq!(*address, key(0xaa));
            prop_assert_eq!(below.wiped, blocks.iter().any(|(wiped, _)| *wiped));
            let found: Vec<_> = below.changes.iter().map(|change| **change).collect();
            prop_assert_eq!(found, expected.into_iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_last_account_and_the_last_value_count() {
        let mut batch = PlainBatch::default();
        let [first, second] = [1, 2].map(Address::repeat_byte);
        let account = |nonce| {
            Some(Account {
                nonce,
                ..Account::default()
            })
        };
        for (address, state) in [(second, account(1)), (first, account(2)), (second, None)] {
            batch.account(address, state);
        }
        assert_eq!(batch.take_accounts(), [(first, account(2)), (second, None)]);
        assert_eq!(batch.take_accounts(), []);
        for (address, slot, value) in [(second, 1, 1), (first, 9, 2), (second, 1, 3)] {
            batch.slot(address, key(slot), U256::from(value));
        }
        let expected = [((first, key(9)), 2), ((second, key(1)), 3)];
        let expected = expected.map(|(key, value)| (key, U256::from(value)));
        assert_eq!(batch.take_slots(), expected);
    }
}
