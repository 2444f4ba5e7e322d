//! The hashed tables and the tries over them, in one walk in key order.
//!
//! A trie builder hands out a node before the nodes above it, which sort first; so the nodes take
//! the way through a sorter, too.

use super::{
    Input, append_slot,
    sort::{Sorted, Sorter},
    sort_error,
};
use crate::{
    codec::{self, PATH_SUBKEY_LEN},
    error::{Context, DbError},
    tables::Table,
    tx::DbWrite,
    view::undecodable,
};
use alloy_primitives::B256;
use alloy_trie::{EMPTY_ROOT_HASH, HashBuilder, Nibbles, TrieAccount};
use signet_libmdbx::{Cursor, Rw};
use state_root::updates::Account;
use std::path::Path;

/// Number of trie nodes a trie builder keeps before they go to a sorter.
pub(crate) const BUILDER_NODES: usize = 16_384;

/// Stored trie nodes on their way into key order.
pub(crate) struct NodeSorters<'a> {
    /// Account trie nodes by padded path.
    pub(crate) account_nodes: Sorter,
    /// Storage trie nodes by hashed address and padded path.
    pub(crate) storage_nodes: Sorter,
    /// Where the sorters keep their runs.
    pub(crate) folder: &'a Path,
}

/// Writes an account's leaf in place of what `leaf` holds.
pub(crate) fn account_leaf(account: &Account, storage_root: B256, leaf: &mut Vec<u8>) {
    leaf.clear();
    let account = TrieAccount {
        nonce: account.nonce,
        balance: account.balance,
        storage_root,
        code_hash: account.code_hash,
    };
    alloy_rlp::Encodable::encode(&account, leaf);
}

impl NodeSorters<'_> {
    /// Writes the hashed tables and builds the tries over them; returns the state root.
    pub(super) fn append_hashed(
        &mut self,
        tx: &DbWrite,
        mut accounts: Input<'_>,
        mut slots: Input<'_>,
    ) -> Result<B256, DbError> {
        let table = Table::HashedAccounts;
        let mut cursor = tx.cursor(table)?;
        let mut slot_cursor = tx.cursor(Table::HashedStorages)?;
        let mut builder = HashBuilder::default().with_updates(true);
        let mut leaf = Vec::with_capacity(128);
        while accounts.live {
            let storage_root = self.append_storage(&mut slot_cursor, &accounts.key, &mut slots)?;
            cursor
                .append(&accounts.key, &accounts.value)
                .doing("append to", table.name())?;
            let account = codec::decode_account(&accounts.value)
                .ok_or_else(|| undecodable(table, &accounts.key))?;
            account_leaf(&account, storage_root, &mut leaf);
            builder.add_leaf_unchecked(Nibbles::unpack(&accounts.key), &leaf);
            accounts.advance()?;
            self.drain(&mut builder, &[], BUILDER_NODES)?;
        }
        let root = builder.root();
        self.drain(&mut builder, &[], 0)?;
        Ok(root)
    }

    /// Writes the slots of one account; returns its storage root.
    fn append_storage(
        &mut self,
        cursor: &mut Cursor<'_, Rw>,
        address: &[u8],
        slots: &mut Input<'_>,
    ) -> Result<B256, DbError> {
        if !slots.live || !slots.key.starts_with(address) {
            return Ok(EMPTY_ROOT_HASH);
        }
        let table = Table::HashedStorages;
        let mut builder = HashBuilder::default().with_updates(true);
        let mut row = Vec::with_capacity(64);
        let mut leaf = Vec::with_capacity(40);
        while slots.live && slots.key.starts_with(address) {
            let slot = &slots.key[32..];
            append_slot(cursor, table, address, (slot, &slots.value), &mut row)?;
            leaf.clear();
            // A trimmed big-endian number is what RLP encodes as a byte string.
            alloy_rlp::Encodable::encode(&slots.value[..], &mut leaf);
            builder.add_leaf_unchecked(Nibbles::unpack(slot), &leaf);
            slots.advance()?;
            self.drain(&mut builder, address, BUILDER_NODES)?;
        }
        let root = builder.root();
        self.drain(&mut builder, address, 0)?;
        Ok(root)
    }

    /// Moves the builder's finished nodes to the sorter of their table when there are more than
    /// `keep`. An empty `address` means the account trie.
    pub(crate) fn drain(
        &mut self,
        builder: &mut HashBuilder,
        address: &[u8],
        keep: usize,
    ) -> Result<(), DbError> {
        let Some(nodes) = builder
            .updated_branch_nodes
            .as_mut()
            .filter(|n| n.len() > keep)
        else {
            return Ok(());
        };
        let sorter = if address.is_empty() {
            &mut self.account_nodes
        } else {
            &mut self.storage_nodes
        };
        let mut key = address.to_vec();
        let mut value = Vec::with_capacity(600);
        for (path, node) in std::mem::take(nodes) {
            // The root branch is not stored.
            if path.is_empty() {
                continue;
            }
            key.truncate(address.len());
            key.extend_from_slice(&codec::path_subkey(&path));
            value.clear();
            codec::encode_node(&node, &mut value);
            sorter
                .push(&key, &value)
                .map_err(|source| sort_error(self.folder, source))?;
        }
        Ok(())
    }
}

/// Writes the account trie's nodes.
pub(super) fn append_account_nodes(
    tx: &DbWrite,
    mut nodes: Sorted,
    folder: &Path,
) -> Result<(), DbError> {
    let table = Table::AccountsTrie;
    let mut cursor = tx.cursor(table)?;
    while let Some((path, node)) = nodes.next().map_err(|source| sort_error(folder, source))? {
        let len = usize::from(path[PATH_SUBKEY_LEN - 1]);
        cursor
            .append(&path[..len], node)
            .doing("append to", table.name())?;
    }
    Ok(())
}

/// Writes the storage tries' nodes.
pub(super) fn append_storage_nodes(
    tx: &DbWrite,
    mut nodes: Sorted,
    folder: &Path,
) -> Result<(), DbError> {
    let table = Table::StoragesTrie;
    let mut cursor = tx.cursor(table)?;
    let mut row = Vec::with_capacity(600);
    while let Some((key, node)) = nodes.next().map_err(|source| sort_error(folder, source))? {
        let (address, path) = key.split_at(32);
        append_slot(&mut cursor, table, address, (path, node), &mut row)?;
    }
    Ok(())
}
