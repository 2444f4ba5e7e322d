//! Writing state rows: plain, hashed and trie tables, each in key order.

use crate::{
    codec,
    error::{Context, DbError},
    tables::Table,
    tx::{DbWrite, upsert_dup},
};
use alloy_primitives::{Address, B256, Bytes, U256, map::B256Map};
use alloy_trie::{BranchNodeCompact, Nibbles};
use reth_codecs::Compact;
use reth_primitives_traits::Bytecode;
use signet_libmdbx::{Cursor, Rw};
use state_root::updates::{Account, HashedState, TrieUpdates};

/// A slot to store under an account of a table with duplicates; zero removes it.
pub(crate) type SlotValue = (B256, U256);

impl DbWrite {
    /// Sets or removes one row, with a buffer to encode into.
    pub(crate) fn set_account(
        &self,
        table: Table,
        key: &[u8],
        account: Option<&Account>,
        buf: &mut Vec<u8>,
    ) -> Result<(), DbError> {
        let Some(account) = account else {
            return self.delete(table, key);
        };
        buf.clear();
        codec::encode_account(account, buf);
        self.put(table, key, buf)
    }

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

    /// Merges the leaves and trie nodes of a run of blocks into the hashed tables.
    pub(crate) fn write_hashed(
        &self,
        hashed: &HashedState,
        trie: &TrieUpdates,
    ) -> Result<(), DbError> {
        let mut buf = Vec::new();
        for (key, account) in &hashed.accounts {
            let account = account.as_ref();
            self.set_account(Table::HashedAccounts, key.as_slice(), account, &mut buf)?;
        }
        let mut cursor = self.cursor(Table::HashedStorages)?;
        for (address, storage) in by_key(&hashed.storages) {
            let target = Storage {
                table: Table::HashedStorages,
                key: address.as_slice(),
            };
            if storage.wiped {
                target.clear(&mut cursor)?;
            }
            target.set_slots(&mut cursor, &storage.slots, &mut buf)?;
        }
        self.write_account_nodes(&trie.account_nodes)?;
        let mut cursor = self.cursor(Table::StoragesTrie)?;
        for (address, trie) in by_key(&trie.storages) {
            let target = Storage {
                table: Table::StoragesTrie,
                key: address.as_slice(),
            };
            if trie.wiped {
                target.clear(&mut cursor)?;
            }
            target.set_nodes(&mut cursor, &trie.nodes, &mut buf)?;
        }
        Ok(())
    }

    fn write_account_nodes(
        &self,
        nodes: &[(Nibbles, Option<BranchNodeCompact>)],
    ) -> Result<(), DbError> {
        let mut buf = Vec::new();
        for (path, node) in nodes {
            let subkey = codec::path_subkey(path);
            let key = &subkey[..path.len()];
            let Some(node) = node else {
                self.delete(Table::AccountsTrie, key)?;
                continue;
            };
            buf.clear();
            codec::encode_node(node, &mut buf);
            self.put(Table::AccountsTrie, key, &buf)?;
        }
        Ok(())
    }

    /// Sets slots of one account's plain storage.
    pub(crate) fn set_plain_slots(
        &self,
        cursor: &mut Cursor<'_, Rw>,
        address: &Address,
        slots: &[SlotValue],
    ) -> Result<(), DbError> {
        let target = Storage {
            table: Table::PlainStorageState,
            key: address.as_slice(),
        };
        target.set_slots(cursor, slots, &mut Vec::with_capacity(64))
    }
}

/// The rows of one account in a table with duplicates.
struct Storage<'a> {
    table: Table,
    key: &'a [u8],
}

impl Storage<'_> {
    fn clear(&self, cursor: &mut Cursor<'_, Rw>) -> Result<(), DbError> {
        cursor
            .del_all_dups_of(self.key)
            .doing("delete from", self.table.name())
    }

    fn set_slots(
        &self,
        cursor: &mut Cursor<'_, Rw>,
        slots: &[SlotValue],
        buf: &mut Vec<u8>,
    ) -> Result<(), DbError> {
        for (slot, value) in slots {
            buf.clear();
            codec::encode_slot(slot, value, buf);
            let row = (!value.is_zero()).then_some(&buf[..]);
            upsert_dup(cursor, self.table, self.key, slot.as_slice(), row)?;
        }
        Ok(())
    }

    fn set_nodes(
        &self,
        cursor: &mut Cursor<'_, Rw>,
        nodes: &[(Nibbles, Option<BranchNodeCompact>)],
        buf: &mut Vec<u8>,
    ) -> Result<(), DbError> {
        for (path, node) in nodes {
            let subkey = codec::path_subkey(path);
            buf.clear();
            buf.extend_from_slice(&subkey);
            if let Some(node) = node {
                codec::encode_node(node, buf);
            }
            let row = node.as_ref().map(|_| &buf[..]);
            upsert_dup(cursor, self.table, self.key, &subkey, row)?;
        }
        Ok(())
    }
}

/// The entries of a map in key order.
fn by_key<V>(map: &B256Map<V>) -> Vec<(&B256, &V)> {
    let mut entries: Vec<_> = map.iter().collect();
    entries.sort_unstable_by_key(|(key, _)| *key);
    entries
}
