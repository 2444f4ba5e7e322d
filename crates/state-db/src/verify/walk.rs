//! Walking tables in key order, and keys in words.

use super::Audit;
use crate::{
    codec,
    error::{Context, DbError},
    tables::Table,
    tx::{DbView, Row},
};
use alloy_primitives::hex;
use signet_libmdbx::{Cursor, Ro};
use std::borrow::Cow;

/// All rows of a table in order, with the current one at hand.
pub(super) struct Walk<'a> {
    cursor: Cursor<'a, Ro>,
    table: Table,
    row: Option<Row<'a>>,
}

impl<'a> Walk<'a> {
    /// Begins at the first row.
    pub(super) fn new(view: &'a DbView, table: Table) -> Result<Self, DbError> {
        let mut cursor = view.cursor(table)?;
        let row = cursor.first().doing("read", table.name())?;
        Ok(Self { cursor, table, row })
    }

    /// The last row of a table.
    pub(super) fn last(view: &'a DbView, table: Table) -> Result<Option<Row<'a>>, DbError> {
        view.cursor(table)?.last().doing("read", table.name())
    }

    /// The current row.
    pub(super) fn row(&self) -> Option<(&[u8], &[u8])> {
        self.row.as_ref().map(|(key, value)| (&key[..], &value[..]))
    }

    /// Hands out the current row and goes to the next.
    pub(super) fn pop(&mut self) -> Result<Option<Row<'a>>, DbError> {
        let row = self.row.take();
        if row.is_some() {
            self.row = self.cursor.next().doing("read", self.table.name())?;
        }
        Ok(row)
    }

    /// The row with this number as its key. Rows that come before are in nobody's place.
    pub(super) fn take(
        &mut self,
        audit: &mut Audit<'_>,
        number: u64,
    ) -> Result<Option<Cow<'a, [u8]>>, DbError> {
        while let Some((key, _)) = self.row() {
            let found = codec::decode_block_key(key).filter(|_| key.len() == 8);
            if found.is_some_and(|found| found > number) {
                return Ok(None);
            }
            let Some((key, value)) = self.pop()? else {
                return Ok(None);
            };
            if found == Some(number) {
                return Ok(Some(value));
            }
            audit.find(self.table, words(self.table, &key), SUPERFLUOUS);
        }
        Ok(None)
    }

    /// Finds every row that is left.
    pub(super) fn finish(mut self, audit: &mut Audit<'_>) -> Result<(), DbError> {
        while let Some((key, _)) = self.pop()? {
            audit.find(self.table, words(self.table, &key), SUPERFLUOUS);
        }
        Ok(())
    }
}

/// What is said of a row that nothing accounts for.
pub(super) const SUPERFLUOUS: &str = "belongs to nothing";

/// What is said of a row that is not there.
pub(super) const MISSING: &str = "is missing";

/// A key as a person writes it.
pub(super) fn words(table: Table, key: &[u8]) -> String {
    let number = |bytes: &[u8]| codec::decode_block_key(bytes).filter(|_| bytes.len() == 8);
    let text = match table {
        Table::AccountsTrie => return nibbles(key),
        Table::StageCheckpoints | Table::Metadata => {
            return String::from_utf8_lossy(key).into_owned();
        }
        Table::StorageChangeSets => split(key, &[8, 20]),
        Table::AccountsHistory => split(key, &[20, 8]),
        Table::StoragesHistory => split(key, &[20, 32, 8]),
        Table::HashedStorages => split(key, &[32, 32]),
        Table::StoragesTrie => split(key, &[32, 65]),
        Table::PlainStorageState => split(key, &[20, 32]),
        _ => None,
    };
    text.or_else(|| number(key).map(|number| number.to_string()))
        .unwrap_or_else(|| hex::encode_prefixed(key))
}

/// The parts of a key joined by slashes: eight bytes are a number, 65 a path.
fn split(key: &[u8], lengths: &[usize]) -> Option<String> {
    let mut rest = key;
    let mut parts = Vec::new();
    for length in lengths {
        let (part, after) = rest.split_at_checked(*length)?;
        rest = after;
        parts.push(match length {
            8 => match codec::decode_block_key(part)? {
                u64::MAX => "last".to_owned(),
                number => number.to_string(),
            },
            65 => nibbles(part.get(..usize::from(part[64]))?),
            _ => hex::encode_prefixed(part),
        });
    }
    rest.is_empty().then(|| parts.join("/"))
}

/// A nibble path, a digit a nibble.
fn nibbles(path: &[u8]) -> String {
    path.iter().map(|nibble| format!("{nibble:x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_numbers_hashes_paths_and_parts() {
        let address = [0x11; 20];
        let shard = |highest: u64| [&address[..], &highest.to_be_bytes()].concat();
        let mut path = [0; 97];
        path[..32].fill(0x22);
        path[32..35].copy_from_slice(&[1, 0xf, 0]);
        path[96] = 3;
        let hashed = "22".repeat(32);
        for (table, key, expected) in [
            (Table::Headers, 7u64.to_be_bytes().to_vec(), "7".to_owned()),
            (Table::Headers, vec![7], "0x07".to_owned()),
            (Table::AccountsTrie, vec![0xa, 0, 1], "a01".to_owned()),
            (
                Table::AccountsHistory,
                shard(9),
                format!("0x{}/9", "11".repeat(20)),
            ),
            (
                Table::AccountsHistory,
                shard(u64::MAX),
                format!("0x{}/last", "11".repeat(20)),
            ),
            (
                Table::StoragesTrie,
                path.to_vec(),
                format!("0x{hashed}/1f0"),
            ),
            (
                Table::StageCheckpoints,
                b"Finish".to_vec(),
                "Finish".to_owned(),
            ),
        ] {
            assert_eq!(words(table, &key), expected, "{table:?}");
        }
    }
}
