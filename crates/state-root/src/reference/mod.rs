//! placeholder
#![expect(clippy::todo, reason = "signatures first")]
use crate::{
    cursor::{CursorError, StateView},
    updates::*,
};
use alloy_primitives::{B256, map::B256Map};

/// Keys that may have changed since the stored branches were written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PrefixSets {
    /// Hashed addresses, strictly ascending, of accounts changed, added, removed or with changed storage.
    pub accounts: Vec<B256>,
    /// Changed slots by hashed address; every such account counts as changed.
    pub storages: B256Map<StoragePrefixes>,
}

/// Slots of one account that may have changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoragePrefixes {
    /// Whether the stored branches are void, so that the trie is rebuilt from its leaves.
    pub wiped: bool,
    /// Hashed slots, strictly ascending.
    pub slots: Vec<B256>,
}

/// From scratch, over every leaf.
pub fn root_of_leaves<V: StateView>(_view: &V) -> Result<(B256, TrieUpdates), CursorError> {
    todo!()
}
/// Serial, over the view before `changes`.
pub fn incremental_root<V: StateView>(
    _view: &V,
    _changes: &HashedState,
) -> Result<(B256, TrieUpdates), CursorError> {
    todo!()
}
/// Serial, over leaves after the changes and stored branches from before.
pub fn root_of_prefixes<V: StateView>(
    _view_after: &V,
    _prefixes: &PrefixSets,
) -> Result<(B256, TrieUpdates), CursorError> {
    todo!()
}
/// One storage trie, over the view before `changes`.
pub fn storage_root<V: StateView>(
    _view: &V,
    _hashed_address: B256,
    _changes: Option<&HashedStorage>,
) -> Result<(B256, StorageTrieUpdates), CursorError> {
    todo!()
}
