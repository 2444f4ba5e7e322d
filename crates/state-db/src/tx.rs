//! Transactions: raw rows in and out of tables, with errors that name the table.
//!
//! A transaction belongs to one thread at a time. A read transaction pins the pages of its
//! snapshot, so it must be short-lived while blocks are being written.

use crate::{db::Inner, error::Context, error::DbError, pause::Pause, tables::Table};
use signet_libmdbx::{Cursor, Ro, Rw, TransactionKind, WriteFlags, tx::Tx};
use std::{borrow::Cow, sync::Arc};

/// One transaction over all tables. Everything readable is readable in both kinds.
pub struct DbTx<K: TransactionKind> {
    // Declared before `db`, so that the transaction ends before the environment can close.
    tx: Tx<K>,
    db: Arc<Inner>,
}

/// A key and its value, borrowed from the page where that is safe.
pub(crate) type Row<'a> = (Cow<'a, [u8]>, Cow<'a, [u8]>);

/// One consistent snapshot of the database.
pub type DbView = DbTx<Ro>;

/// The one write transaction. Dropping it undoes everything.
pub(crate) type DbWrite = DbTx<Rw>;

impl<K: TransactionKind> std::fmt::Debug for DbTx<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DbTx").finish_non_exhaustive()
    }
}

impl DbView {
    pub(crate) fn begin(db: Arc<Inner>) -> Result<Self, DbError> {
        let tx = db
            .env
            .begin_ro_unsync()
            .doing("begin reading", "the database")?;
        Ok(Self { tx, db })
    }
}

impl<K: TransactionKind> DbTx<K> {
    /// The value at `key`, borrowed from the page where that is safe.
    pub(crate) fn get(&self, table: Table, key: &[u8]) -> Result<Option<Cow<'_, [u8]>>, DbError> {
        self.tx
            .get(self.db.handles.of(table).dbi(), key)
            .doing("read", table.name())
    }

    /// A cursor over `table`.
    pub(crate) fn cursor(&self, table: Table) -> Result<Cursor<'_, K>, DbError> {
        self.tx
            .cursor(self.db.handles.of(table))
            .doing("open a cursor on", table.name())
    }

    /// The underlying transaction.
    pub(crate) fn raw(&self) -> &Tx<K> {
        &self.tx
    }

    /// Calls `each` with every row of `table` in order, as stored: key, then value.
    pub fn for_each_row(
        &self,
        table: Table,
        mut each: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), DbError> {
        let mut cursor = self.cursor(table)?;
        let mut row = cursor
            .first::<Cow<'_, [u8]>, Cow<'_, [u8]>>()
            .doing("read", table.name())?;
        while let Some((key, value)) = row {
            each(&key, &value);
            row = cursor.next().doing("read", table.name())?;
        }
        Ok(())
    }

    /// Number of rows, duplicates counted.
    pub(crate) fn rows(&self, table: Table) -> Result<u64, DbError> {
        let stat = self.tx.db_stat(&self.db.handles.of(table));
        Ok(stat.doing("measure", table.name())?.entries() as u64)
    }

    /// Whether `table` has no row.
    pub fn is_empty(&self, table: Table) -> Result<bool, DbError> {
        Ok(self
            .cursor(table)?
            .first::<(), ()>()
            .doing("read", table.name())?
            .is_none())
    }
}

impl DbWrite {
    pub(crate) fn begin(db: Arc<Inner>) -> Result<Self, DbError> {
        let tx = db
            .env
            .begin_rw_unsync()
            .doing("begin writing", "the database")?;
        Ok(Self { tx, db })
    }

    /// A cursor that writes `table`.
    pub(crate) fn writer(&self, table: Table) -> Result<WriteCursor<'_>, DbError> {
        Ok(WriteCursor {
            cursor: self.cursor(table)?,
            table,
            pause: &self.db.pause,
        })
    }

    /// Makes everything written durable (as far as the sync mode says).
    pub(crate) fn commit(self) -> Result<(), DbError> {
        self.tx.commit().doing("commit", "the database")
    }

    /// Sets the value at `key` of a table without duplicates.
    pub(crate) fn put(&self, table: Table, key: &[u8], value: &[u8]) -> Result<(), DbError> {
        debug_assert!(!table.is_dup_sort());
        self.db.pause.pass();
        self.tx
            .put(self.db.handles.of(table), key, value, WriteFlags::UPSERT)
            .doing("write", table.name())
    }

    /// Removes `key`, with all its duplicates, when it is there.
    pub(crate) fn delete(&self, table: Table, key: &[u8]) -> Result<(), DbError> {
        self.tx
            .del(self.db.handles.of(table), key, None)
            .doing("delete from", table.name())?;
        Ok(())
    }

    /// Removes every row of `table`.
    pub(crate) fn clear(&self, table: Table) -> Result<(), DbError> {
        self.tx
            .clear_db(self.db.handles.of(table))
            .doing("empty", table.name())
    }

    /// Removes every row of `table` from `key` on.
    pub(crate) fn delete_from(&self, table: Table, key: &[u8]) -> Result<(), DbError> {
        let mut cursor = self.cursor(table)?;
        let last: Option<Row<'_>> = cursor.last().doing("read", table.name())?;
        // Copied, because the page it is on is about to change.
        let Some(last) = last.map(|(last, _)| last.into_owned()) else {
            return Ok(());
        };
        let mut row: Option<Row<'_>> = cursor.set_range(key).doing("read", table.name())?;
        while let Some((found, _)) = row {
            let is_last = *found == *last;
            if table.is_dup_sort() {
                cursor.del_all_dups()
            } else {
                cursor.del()
            }
            .doing("delete from", table.name())?;
            // Past the last row, a cursor that has deleted has no defined position.
            if is_last {
                break;
            }
            row = cursor.next().doing("read", table.name())?;
        }
        Ok(())
    }
}

/// Writes rows of one table, each at the latest moment at which nobody holds the writer up.
///
/// One that goes through keys in order finds most of them on the page it is on.
pub(crate) struct WriteCursor<'tx> {
    cursor: Cursor<'tx, Rw>,
    table: Table,
    pause: &'tx Pause,
}

impl<'tx> WriteCursor<'tx> {
    /// Where it stands, to read or remove rows.
    pub(crate) fn raw(&mut self) -> &mut Cursor<'tx, Rw> {
        &mut self.cursor
    }

    /// Adds a row behind all others.
    pub(crate) fn append(&mut self, key: &[u8], value: &[u8]) -> Result<(), DbError> {
        self.pause.pass();
        self.cursor
            .append(key, value)
            .doing("append to", self.table.name())
    }

    /// Adds a value behind all others of `key`, which is the last key or a new one behind it.
    pub(crate) fn append_dup(&mut self, key: &[u8], value: &[u8]) -> Result<(), DbError> {
        self.pause.pass();
        self.cursor
            .append_dup(key, value)
            .doing("append to", self.table.name())
    }

    /// Sets or removes the row at `key` of a table without duplicates.
    pub(crate) fn upsert(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), DbError> {
        debug_assert!(!self.table.is_dup_sort());
        self.pause.pass();
        if let Some(value) = value {
            return self.put(key, value);
        }
        let stored: Option<()> = self.cursor.set(key).doing("read", self.table.name())?;
        if stored.is_some() {
            self.delete()?;
        }
        Ok(())
    }

    /// Replaces, in a table with duplicates, the one value of `key` that begins with `subkey`;
    /// `None` removes it.
    pub(crate) fn upsert_dup(
        &mut self,
        key: &[u8],
        subkey: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), DbError> {
        self.pause.pass();
        let current: Option<Cow<'_, [u8]>> = self
            .cursor
            .get_both_range(key, subkey)
            .doing("read", self.table.name())?;
        if let Some(current) = current.filter(|current| current.starts_with(subkey)) {
            if value.is_some_and(|value| *value == *current) {
                return Ok(());
            }
            self.delete()?;
        }
        value.map_or(Ok(()), |value| self.put(key, value))
    }

    /// Removes all values of `key`.
    pub(crate) fn delete_all_of(&mut self, key: &[u8]) -> Result<(), DbError> {
        self.cursor
            .del_all_dups_of(key)
            .doing("delete from", self.table.name())
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), DbError> {
        self.cursor
            .put(key, value, WriteFlags::UPSERT)
            .doing("write", self.table.name())
    }

    fn delete(&mut self) -> Result<(), DbError> {
        self.cursor.del().doing("delete from", self.table.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{dump, temp_db};

    /// The keys left of `0..rows`, of which each fills a good part of a page, after a removal.
    fn left(table: Table, rows: u64, from: u64) -> Vec<u64> {
        let (_dir, db) = temp_db();
        let tx = db.write().unwrap();
        let mut cursor = tx.cursor(table).unwrap();
        for row in 0..rows {
            let duplicates = if table.is_dup_sort() { 3 } else { 1 };
            for duplicate in 0..duplicates {
                let value = [duplicate; 200];
                cursor
                    .put(&row.to_be_bytes(), &value, WriteFlags::UPSERT)
                    .unwrap();
            }
        }
        drop(cursor);
        tx.delete_from(table, &from.to_be_bytes()).unwrap();
        tx.commit().unwrap();
        let mut keys: Vec<_> = dump(&db, table)
            .into_iter()
            .map(|(key, _)| u64::from_be_bytes(key.try_into().unwrap()))
            .collect();
        keys.dedup();
        keys
    }

    #[test]
    fn deleting_from_a_key_crosses_pages_and_stops_at_the_end() {
        for table in [Table::Headers, Table::AccountChangeSets] {
            for (rows, from) in [(0, 0), (1, 0), (500, 0), (500, 3), (500, 499), (500, 500)] {
                let expected: Vec<_> = (0..from.min(rows)).collect();
                assert_eq!(left(table, rows, from), expected, "{table:?} {rows} {from}");
            }
        }
    }
}
