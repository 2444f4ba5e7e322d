//! The state root: all changed storage tries, then the account trie over their roots.

use super::{
    overlay::Overlay,
    rebuild::{NodeUpdates, Rebuild, encode_slot},
};
use crate::{
    cursor::{CursorError, HashedCursor, StateView, TrieCursor},
    stored::StoredBranch,
    updates::{Account, HashedState, HashedStorage, StorageTrieUpdates, TrieUpdates},
};
use alloy_primitives::{
    B256,
    map::{B256Map, B256Set},
};
use alloy_rlp::Encodable;
use alloy_trie::{EMPTY_ROOT_HASH, Nibbles, TrieAccount};

/// The keys in which a view's leaves may differ from its stored branches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PrefixSets {
    /// Hashed addresses of added, changed and removed accounts. Those with changed storage need
    /// not be listed again.
    pub accounts: B256Set,
    /// Changed storage by hashed address.
    pub storages: B256Map<StoragePrefixes>,
}

/// The slots in which one storage trie may differ from its stored branches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoragePrefixes {
    /// Whether the stored branches are void, so that the trie is rebuilt from its leaves.
    pub wiped: bool,
    /// Hashed slots that were added, changed or removed.
    pub slots: B256Set,
}

impl From<&HashedState> for PrefixSets {
    fn from(changes: &HashedState) -> Self {
        Self {
            accounts: changes
                .accounts
                .iter()
                .map(|(address, _)| *address)
                .collect(),
            storages: changes
                .storages
                .iter()
                .map(|(address, storage)| (*address, StoragePrefixes::from(storage)))
                .collect(),
        }
    }
}

impl From<&HashedStorage> for StoragePrefixes {
    fn from(changes: &HashedStorage) -> Self {
        Self {
            wiped: changes.wiped,
            slots: changes.slots.iter().map(|(slot, _)| *slot).collect(),
        }
    }
}

/// The root of all leaves of `view` and every branch to store, as if none were stored yet.
pub fn root_of_leaves<V: StateView>(view: &V) -> Result<(B256, TrieUpdates), CursorError> {
    let mut storages = B256Map::default();
    let encode = |address, account, out: &mut Vec<u8>| {
        let (root, nodes) = rebuild_storage(NoBranches, view.slots(address)?, &[])?;
        if !nodes.is_empty() {
            storages.insert(
                address,
                StorageTrieUpdates {
                    wiped: false,
                    nodes,
                },
            );
        }
        encode_account(account, root, out);
        Ok(())
    };
    let (root, account_nodes) = Rebuild::new(NoBranches, view.accounts()?, &[], encode).run()?;
    Ok((
        root,
        TrieUpdates {
            account_nodes,
            storages,
        },
    ))
}

/// The root after `changes`, over the state before them, which is what `view` shows.
pub fn incremental_root<V: StateView>(
    view: &V,
    changes: &HashedState,
) -> Result<(B256, TrieUpdates), CursorError> {
    root_of_prefixes(
        &Overlay {
            base: view,
            changes,
        },
        &PrefixSets::from(changes),
    )
}

/// The same with the storage tries computed already: roots, and changes to their stored branches,
/// of every account with changed storage and of any others. Those of accounts not among them are
/// looked up.
pub fn incremental_root_over<V: StateView>(
    view: &V,
    changes: &HashedState,
    storages: B256Map<(B256, StorageTrieUpdates)>,
) -> Result<(B256, TrieUpdates), CursorError> {
    let overlay = Overlay {
        base: view,
        changes,
    };
    let changed = changes.accounts.iter().map(|(address, _)| address);
    let changed = sorted(changed.chain(changes.storages.keys()));
    account_root(&overlay, &changed, storages)
}

/// The root of a view whose leaves were written but whose stored branches still are those of
/// before; `prefixes` names every key in which they differ.
pub fn root_of_prefixes<V: StateView>(
    view_after: &V,
    prefixes: &PrefixSets,
) -> Result<(B256, TrieUpdates), CursorError> {
    let mut storages = B256Map::default();
    for (&address, changed) in &prefixes.storages {
        let storage = storage_root_of_prefixes(view_after, address, changed)?;
        storages.insert(address, storage);
    }
    let changed = sorted(prefixes.accounts.iter().chain(prefixes.storages.keys()));
    account_root(view_after, &changed, storages)
}

/// The account trie over storage tries that are known, where they differ from before.
fn account_root<V: StateView>(
    view_after: &V,
    changed: &[B256],
    storages: B256Map<(B256, StorageTrieUpdates)>,
) -> Result<(B256, TrieUpdates), CursorError> {
    let encode = |address, account, out: &mut Vec<u8>| {
        let root = match storages.get(&address) {
            Some((root, _)) => *root,
            None => unchanged_storage_root(view_after, address)?,
        };
        encode_account(account, root, out);
        Ok(())
    };
    let (root, account_nodes) = Rebuild::new(
        view_after.account_trie()?,
        view_after.accounts()?,
        changed,
        encode,
    )
    .run()?;
    let updates = storages.into_iter();
    let updates = updates.map(|(address, (_, updates))| (address, updates));
    let storages = updates
        .filter(|(_, updates)| updates.wiped || !updates.nodes.is_empty())
        .collect();
    Ok((
        root,
        TrieUpdates {
            account_nodes,
            storages,
        },
    ))
}

/// The root of one storage trie after `changes`, over the state before them.
pub fn storage_root<V: StateView>(
    view: &V,
    hashed_address: B256,
    changes: Option<&HashedStorage>,
) -> Result<(B256, StorageTrieUpdates), CursorError> {
    let Some(changes) = changes else {
        return Ok((
            unchanged_storage_root(view, hashed_address)?,
            StorageTrieUpdates::default(),
        ));
    };
    let prefixes = StoragePrefixes::from(changes);
    let changes = HashedState {
        accounts: Vec::new(),
        storages: [(hashed_address, changes.clone())].into_iter().collect(),
    };
    storage_root_of_prefixes(
        &Overlay {
            base: view,
            changes: &changes,
        },
        hashed_address,
        &prefixes,
    )
}

pub(super) fn storage_root_of_prefixes<V: StateView>(
    view_after: &V,
    address: B256,
    changed: &StoragePrefixes,
) -> Result<(B256, StorageTrieUpdates), CursorError> {
    let slots = view_after.slots(address)?;
    let (root, nodes) = if changed.wiped {
        rebuild_storage(NoBranches, slots, &[])?
    } else {
        rebuild_storage(
            view_after.storage_trie(address)?,
            slots,
            &sorted(&changed.slots),
        )?
    };
    Ok((
        root,
        StorageTrieUpdates {
            wiped: changed.wiped,
            nodes,
        },
    ))
}

/// Most accounts have no slots, which one look tells.
pub(super) fn unchanged_storage_root<V: StateView>(
    view: &V,
    address: B256,
) -> Result<B256, CursorError> {
    let mut slots = view.slots(address)?;
    if slots.seek(B256::ZERO)?.is_none() {
        return Ok(EMPTY_ROOT_HASH);
    }
    Ok(rebuild_storage(view.storage_trie(address)?, slots, &[])?.0)
}

fn rebuild_storage<T, C>(
    trie: T,
    slots: C,
    changed: &[B256],
) -> Result<(B256, NodeUpdates), CursorError>
where
    T: TrieCursor,
    C: HashedCursor<Value = alloy_primitives::U256>,
{
    Rebuild::new(trie, slots, changed, encode_slot).run()
}

pub(super) fn encode_account(account: Account, storage_root: B256, out: &mut Vec<u8>) {
    TrieAccount::new(
        account.nonce,
        account.balance,
        storage_root,
        account.code_hash,
    )
    .encode(out);
}

pub(super) fn sorted<'a>(keys: impl IntoIterator<Item = &'a B256>) -> Vec<B256> {
    let mut keys: Vec<B256> = keys.into_iter().copied().collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// A trie of which no branch is stored.
pub(super) struct NoBranches;

impl TrieCursor for NoBranches {
    fn seek_exact(&mut self, _: &Nibbles) -> Result<Option<StoredBranch>, CursorError> {
        Ok(None)
    }

    fn seek(&mut self, _: &Nibbles) -> Result<Option<(Nibbles, StoredBranch)>, CursorError> {
        Ok(None)
    }

    fn next(&mut self) -> Result<Option<(Nibbles, StoredBranch)>, CursorError> {
        Ok(None)
    }
}
