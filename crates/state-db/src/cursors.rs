//! The trie algorithms' cursors over one transaction.
//!
//! Rows are decoded from the mapped page; only a branch node's hashes are copied.

use crate::{
    codec::{self, PATH_SUBKEY_LEN},
    error::{Context, DbError},
    tables::Table,
    tx::{DbTx, Row},
    view::undecodable,
};
use alloy_primitives::{B256, U256};
use alloy_trie::Nibbles;
use signet_libmdbx::{Cursor, Ro, TransactionKind};
use state_root::{
    StoredBranch,
    cursor::{CursorError, HashedCursor, StateView, TrieCursor},
    updates::Account,
};
use std::borrow::Cow;

/// The rows of one key of a table with duplicates, or all rows of a table without.
struct Rows<'a, K: TransactionKind> {
    cursor: Cursor<'a, K>,
    table: Table,
    /// The key, in a table with duplicates.
    key: B256,
    /// Whether the row under the cursor has been passed over by an exact seek, so that it comes
    /// next.
    pending: bool,
}

impl<'a, K: TransactionKind> Rows<'a, K> {
    fn new(tx: &'a DbTx<K>, table: Table, key: B256) -> Result<Self, CursorError> {
        Ok(Self {
            cursor: tx.cursor(table)?,
            table,
            key,
            pending: false,
        })
    }

    /// The first row at or after `position`: a key, or a subkey in a table with duplicates. Keys of
    /// tables with duplicates are not returned.
    fn seek(&mut self, position: &[u8]) -> Result<Option<Row<'a>>, CursorError> {
        self.pending = false;
        let row = if self.table.is_dup_sort() {
            self.cursor
                .get_both_range(self.key.as_slice(), position)
                .map(|value| value.map(|value| (Cow::Borrowed(&[][..]), value)))
        } else if position.is_empty() {
            self.cursor.first()
        } else {
            self.cursor.set_range(position)
        };
        Ok(row.doing("read", self.table.name())?)
    }

    fn next(&mut self) -> Result<Option<Row<'a>>, CursorError> {
        let row = if std::mem::take(&mut self.pending) {
            self.cursor.get_current()
        } else if self.table.is_dup_sort() {
            self.cursor.next_dup()
        } else {
            self.cursor.next()
        };
        Ok(row.doing("read", self.table.name())?)
    }

    /// The error of a row; `key` is not given by a table with duplicates.
    fn undecodable(&self, key: &[u8]) -> DbError {
        let key = if self.table.is_dup_sort() {
            self.key.as_slice()
        } else {
            key
        };
        undecodable(self.table, key)
    }
}

/// Applies `decode` to a row of `rows`, if there is one.
fn decode_row<K: TransactionKind, T>(
    rows: &Rows<'_, K>,
    row: Option<Row<'_>>,
    decode: impl FnOnce(&[u8], &[u8]) -> Option<T>,
) -> Result<Option<T>, CursorError> {
    let Some((key, value)) = row else {
        return Ok(None);
    };
    decode(&key, &value)
        .map(Some)
        .ok_or_else(|| rows.undecodable(&key).into())
}

/// Cursor over the stored branches of one trie.
pub struct DbTrieCursor<'a, K: TransactionKind = Ro>(Rows<'a, K>);

/// Cursor over all hashed accounts.
pub struct DbAccountCursor<'a, K: TransactionKind = Ro>(Rows<'a, K>);

/// Cursor over the hashed slots of one account.
pub struct DbSlotCursor<'a, K: TransactionKind = Ro>(Rows<'a, K>);

macro_rules! opaque_debug {
    ($($name:ident),+) => {$(
        impl<K: TransactionKind> std::fmt::Debug for $name<'_, K> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name)).field("key", &self.0.key).finish_non_exhaustive()
            }
        }
    )+};
}
opaque_debug!(DbTrieCursor, DbAccountCursor, DbSlotCursor);

impl<'a, K: TransactionKind> DbTrieCursor<'a, K> {
    fn decode(&self, row: Option<Row<'_>>) -> Result<Option<(Nibbles, StoredBranch)>, CursorError> {
        let dup = self.0.table.is_dup_sort();
        decode_row(&self.0, row, |key, value| {
            if dup {
                codec::decode_storage_node(value).map(|(path, node)| (path, node.into()))
            } else {
                Some((codec::decode_path(key)?, codec::decode_branch(value)?))
            }
        })
    }

    /// The row at or after `path`, not decoded.
    fn seek_row(&mut self, path: &Nibbles) -> Result<Option<Row<'a>>, CursorError> {
        let subkey = codec::path_subkey(path);
        let len = if self.0.table.is_dup_sort() {
            PATH_SUBKEY_LEN
        } else {
            path.len()
        };
        self.0.seek(&subkey[..len])
    }
}

impl<K: TransactionKind> TrieCursor for DbTrieCursor<'_, K> {
    fn seek_exact(&mut self, path: &Nibbles) -> Result<Option<StoredBranch>, CursorError> {
        let subkey = codec::path_subkey(path);
        let dup = self.0.table.is_dup_sort();
        let Some((key, value)) = self.seek_row(path)? else {
            return Ok(None);
        };
        let found = if dup {
            value.starts_with(&subkey)
        } else {
            *key == subkey[..path.len()]
        };
        if !found {
            self.0.pending = true;
            return Ok(None);
        }
        let node = if dup {
            &value[PATH_SUBKEY_LEN..]
        } else {
            &value[..]
        };
        let node = codec::decode_branch(node);
        node.map(Some)
            .ok_or_else(|| self.0.undecodable(&key).into())
    }

    fn seek(&mut self, path: &Nibbles) -> Result<Option<(Nibbles, StoredBranch)>, CursorError> {
        let row = self.seek_row(path)?;
        self.decode(row)
    }

    fn next(&mut self) -> Result<Option<(Nibbles, StoredBranch)>, CursorError> {
        let row = self.0.next()?;
        self.decode(row)
    }
}

fn account_row(key: &[u8], value: &[u8]) -> Option<(B256, Account)> {
    Some((B256::try_from(key).ok()?, codec::decode_account(value)?))
}

impl<K: TransactionKind> HashedCursor for DbAccountCursor<'_, K> {
    type Value = Account;

    fn seek(&mut self, key: B256) -> Result<Option<(B256, Account)>, CursorError> {
        let row = self.0.seek(key.as_slice())?;
        decode_row(&self.0, row, account_row)
    }

    fn next(&mut self) -> Result<Option<(B256, Account)>, CursorError> {
        let row = self.0.next()?;
        decode_row(&self.0, row, account_row)
    }
}

impl<K: TransactionKind> HashedCursor for DbSlotCursor<'_, K> {
    type Value = U256;

    fn seek(&mut self, key: B256) -> Result<Option<(B256, U256)>, CursorError> {
        let row = self.0.seek(key.as_slice())?;
        decode_row(&self.0, row, |_, value| codec::decode_slot(value))
    }

    fn next(&mut self) -> Result<Option<(B256, U256)>, CursorError> {
        let row = self.0.next()?;
        decode_row(&self.0, row, |_, value| codec::decode_slot(value))
    }
}

impl<K: TransactionKind> StateView for DbTx<K> {
    type Trie<'a>
        = DbTrieCursor<'a, K>
    where
        Self: 'a;
    type Accounts<'a>
        = DbAccountCursor<'a, K>
    where
        Self: 'a;
    type Slots<'a>
        = DbSlotCursor<'a, K>
    where
        Self: 'a;

    fn account_trie(&self) -> Result<Self::Trie<'_>, CursorError> {
        Ok(DbTrieCursor(Rows::new(
            self,
            Table::AccountsTrie,
            B256::ZERO,
        )?))
    }

    fn storage_trie(&self, hashed_address: B256) -> Result<Self::Trie<'_>, CursorError> {
        Ok(DbTrieCursor(Rows::new(
            self,
            Table::StoragesTrie,
            hashed_address,
        )?))
    }

    fn accounts(&self) -> Result<Self::Accounts<'_>, CursorError> {
        Ok(DbAccountCursor(Rows::new(
            self,
            Table::HashedAccounts,
            B256::ZERO,
        )?))
    }

    fn slots(&self, hashed_address: B256) -> Result<Self::Slots<'_>, CursorError> {
        Ok(DbSlotCursor(Rows::new(
            self,
            Table::HashedStorages,
            hashed_address,
        )?))
    }
}
