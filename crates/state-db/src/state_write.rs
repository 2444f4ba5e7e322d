//! Writing state rows: plain, hashed and trie tables, each in key order.

use crate::{
    batch::HashedBatch,
    codec,
    error::DbError,
    tables::Table,
    tx::{DbWrite, WriteCursor},
};
use alloy_primitives::{B256, Bytes, U256};
use reth_codecs::Compact;
use reth_primitives_traits::Bytecode;
use state_root::{StoredBranch, updates::Account};

impl DbWrite {
    /// Stores code that is new to the database.
    pub(crate) fn put_code(&self, hash: B256, code: &Bytes) -> Result<(), DbError> {
        let table = Table::Bytecodes;
        if self.get(table, hash.as_slice())?.is_some() {
            return Ok(());
        }
        let mut value = Vec::with_capacity(code.len() * 9 / 8 + 64);
        Bytecode::new_raw(code.clone()).to_compact(&mut value);
        self.put(table, hash.as_slice(), &value)
    }

    /// Merges leaves and trie nodes into the hashed tables.
    pub(crate) fn write_hashed(&self, batch: &HashedBatch<'_>) -> Result<(), DbError> {
        let mut buf = Vec::new();
        let mut rows = self.writer(Table::HashedAccounts)?;
        for (key, account) in &batch.accounts {
            set_account(&mut rows, key.as_slice(), account.as_ref(), &mut buf)?;
        }
        let mut rows = self.writer(Table::HashedStorages)?;
        for (address, storage) in &batch.storages {
            if storage.wiped {
                rows.delete_all_of(address.as_slice())?;
            }
            let slots = storage.changes.iter().map(|(slot, value)| (slot, value));
            set_slots(&mut rows, address.as_slice(), slots, &mut buf)?;
        }
        let mut rows = self.writer(Table::AccountsTrie)?;
        for (path, node) in &batch.account_nodes {
            let subkey = codec::path_subkey(path);
            let row = encode_branch(node.as_ref(), &[], &mut buf);
            rows.upsert(&subkey[..path.len()], row)?;
        }
        let mut rows = self.writer(Table::StoragesTrie)?;
        for (address, trie) in &batch.tries {
            if trie.wiped {
                rows.delete_all_of(address.as_slice())?;
            }
            for (path, node) in &trie.changes {
                let subkey = codec::path_subkey(path);
                let row = encode_branch(node.as_ref(), &subkey, &mut buf);
                rows.upsert_dup(address.as_slice(), &subkey, row)?;
            }
        }
        Ok(())
    }
}

/// A branch as it is stored behind `subkey`.
fn encode_branch<'b>(
    node: Option<&StoredBranch>,
    subkey: &[u8],
    buf: &'b mut Vec<u8>,
) -> Option<&'b [u8]> {
    let node = node?;
    buf.clear();
    buf.extend_from_slice(subkey);
    codec::encode_branch(node, buf);
    Some(buf)
}

/// Sets or removes an account's row, with a buffer to encode into.
pub(crate) fn set_account(
    rows: &mut WriteCursor<'_>,
    key: &[u8],
    account: Option<&Account>,
    buf: &mut Vec<u8>,
) -> Result<(), DbError> {
    buf.clear();
    if let Some(account) = account {
        codec::encode_account(account, buf);
    }
    rows.upsert(key, account.map(|_| &buf[..]))
}

/// Sets slots of one account in a table with duplicates; zero removes one.
pub(crate) fn set_slots<'a>(
    rows: &mut WriteCursor<'_>,
    key: &[u8],
    slots: impl Iterator<Item = (&'a B256, &'a U256)>,
    buf: &mut Vec<u8>,
) -> Result<(), DbError> {
    for (slot, value) in slots {
        buf.clear();
        codec::encode_slot(slot, value, buf);
        let row = (!value.is_zero()).then_some(&buf[..]);
        rows.upsert_dup(key, slot.as_slice(), row)?;
    }
    Ok(())
}
