//! A whole state in memory, as sorted maps: the simplest [`StateSource`], for tests and timing.
//!
//! Invariant: the stored branches are those of the leaves, as [`crate::reference`] would store
//! them, as long as only [`MemState::from_leaves`] and matching [`MemState::apply`] calls made them.

use crate::{
    cursor::{CursorError, HashedCursor, StateSource, StateView, TrieCursor},
    reference,
    stored::StoredBranch,
    updates::{Account, HashedState, TrieUpdates},
};
use alloy_primitives::{B256, U256};
use alloy_trie::Nibbles;
use std::{collections::BTreeMap, ops::Bound, sync::Arc};

/// Stored branches of one trie by path.
pub type MemTrie = BTreeMap<Nibbles, StoredBranch>;

/// Leaves and stored branches of a state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemState {
    /// Accounts by hashed address.
    pub accounts: BTreeMap<B256, Account>,
    /// Slots by hashed address, then hashed slot. No map is empty and no value zero.
    pub slots: BTreeMap<B256, BTreeMap<B256, U256>>,
    /// Stored branches of the account trie.
    pub account_trie: MemTrie,
    /// Stored branches of the storage tries by hashed address. No map is empty.
    pub storage_tries: BTreeMap<B256, MemTrie>,
}

impl MemState {
    /// A state of these leaves with the stored branches that belong to them, and its root.
    /// Slots with value zero are left out.
    pub fn from_leaves(
        accounts: BTreeMap<B256, Account>,
        mut slots: BTreeMap<B256, BTreeMap<B256, U256>>,
    ) -> Result<(Self, B256), CursorError> {
        slots
            .values_mut()
            .for_each(|slots| slots.retain(|_, value| !value.is_zero()));
        slots.retain(|_, slots| !slots.is_empty());
        let mut state = Self {
            accounts,
            slots,
            ..Self::default()
        };
        let (root, nodes) = reference::root_of_leaves(&state)?;
        state.apply_nodes(&nodes);
        Ok((state, root))
    }

    /// Writes changed leaves and changed nodes, as a database would.
    pub fn apply(&mut self, leaves: &HashedState, nodes: &TrieUpdates) {
        self.apply_leaves(leaves);
        self.apply_nodes(nodes);
    }

    fn apply_leaves(&mut self, leaves: &HashedState) {
        for (address, account) in &leaves.accounts {
            match account {
                Some(account) => self.accounts.insert(*address, *account),
                None => self.accounts.remove(address),
            };
        }
        for (address, storage) in &leaves.storages {
            let slots = self.slots.entry(*address).or_default();
            if storage.wiped {
                slots.clear();
            }
            slots.extend(storage.slots.iter().copied());
            slots.retain(|_, value| !value.is_zero());
        }
        self.slots.retain(|_, slots| !slots.is_empty());
    }

    fn apply_nodes(&mut self, nodes: &TrieUpdates) {
        apply_to_trie(&mut self.account_trie, &nodes.account_nodes);
        for (address, updates) in &nodes.storages {
            let trie = self.storage_tries.entry(*address).or_default();
            if updates.wiped {
                trie.clear();
            }
            apply_to_trie(trie, &updates.nodes);
        }
        self.storage_tries.retain(|_, trie| !trie.is_empty());
    }
}

fn apply_to_trie(trie: &mut MemTrie, nodes: &[(Nibbles, Option<StoredBranch>)]) {
    for (path, node) in nodes {
        match node {
            Some(node) => trie.insert(*path, node.apart()),
            None => trie.remove(path),
        };
    }
}

/// A cursor over one sorted map.
#[derive(Debug)]
pub struct MemCursor<'a, K, V> {
    map: Option<&'a BTreeMap<K, V>>,
    last: Option<K>,
}

impl<'a, K: Ord + Copy, V: Clone> MemCursor<'a, K, V> {
    fn new(map: Option<&'a BTreeMap<K, V>>) -> Self {
        Self { map, last: None }
    }

    fn first_from(&mut self, from: Bound<K>) -> Option<(K, V)> {
        let (key, value) = self.map?.range((from, Bound::Unbounded)).next()?;
        self.last = Some(*key);
        Some((*key, value.clone()))
    }

    fn after_last(&mut self) -> Option<(K, V)> {
        let from = self.last.map_or(Bound::Unbounded, Bound::Excluded);
        self.first_from(from)
    }
}

impl TrieCursor for MemCursor<'_, Nibbles, StoredBranch> {
    fn seek_exact(&mut self, path: &Nibbles) -> Result<Option<StoredBranch>, CursorError> {
        self.last = Some(*path);
        Ok(self.map.and_then(|map| map.get(path)).cloned())
    }

    fn seek(&mut self, path: &Nibbles) -> Result<Option<(Nibbles, StoredBranch)>, CursorError> {
        Ok(self.first_from(Bound::Included(*path)))
    }

    fn next(&mut self) -> Result<Option<(Nibbles, StoredBranch)>, CursorError> {
        Ok(self.after_last())
    }
}

impl<V: Clone> HashedCursor for MemCursor<'_, B256, V> {
    type Value = V;

    fn seek(&mut self, key: B256) -> Result<Option<(B256, V)>, CursorError> {
        Ok(self.first_from(Bound::Included(key)))
    }

    fn next(&mut self) -> Result<Option<(B256, V)>, CursorError> {
        Ok(self.after_last())
    }
}

impl StateView for MemState {
    type Trie<'a>
        = MemCursor<'a, Nibbles, StoredBranch>
    where
        Self: 'a;
    type Accounts<'a>
        = MemCursor<'a, B256, Account>
    where
        Self: 'a;
    type Slots<'a>
        = MemCursor<'a, B256, U256>
    where
        Self: 'a;

    fn account_trie(&self) -> Result<Self::Trie<'_>, CursorError> {
        Ok(MemCursor::new(Some(&self.account_trie)))
    }

    fn storage_trie(&self, hashed_address: B256) -> Result<Self::Trie<'_>, CursorError> {
        Ok(MemCursor::new(self.storage_tries.get(&hashed_address)))
    }

    fn accounts(&self) -> Result<Self::Accounts<'_>, CursorError> {
        Ok(MemCursor::new(Some(&self.accounts)))
    }

    fn slots(&self, hashed_address: B256) -> Result<Self::Slots<'_>, CursorError> {
        Ok(MemCursor::new(self.slots.get(&hashed_address)))
    }
}

/// Opens views of one [`MemState`].
#[derive(Debug, Clone)]
pub struct MemSource(pub Arc<MemState>);

impl StateSource for MemSource {
    type View = Arc<MemState>;

    fn open(&self) -> Result<Self::View, CursorError> {
        Ok(Arc::clone(&self.0))
    }
}
