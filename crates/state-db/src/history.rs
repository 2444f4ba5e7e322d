//! Which blocks changed an account or slot, and what it was at an earlier block.
//!
//! A key's changing blocks are a roaring bitmap cut into shards of [`codec::SHARD_BLOCKS`]. A full
//! shard's key ends with its highest block; the last shard's key ends with [`codec::LAST_SHARD`],
//! so that seeking a block finds the shard it belongs to. The last shard is never empty, and all
//! others are full.

use crate::{
    codec::{self, LAST_SHARD, SHARD_BLOCKS},
    error::{Context, DbError},
    tables::Table,
    tx::{DbTx, DbWrite, Row, WriteCursor},
    view::undecodable,
};
use alloy_primitives::{Address, B256, U256};
use roaring::RoaringTreemap;
use signet_libmdbx::TransactionKind;
use state_root::updates::Account;
use std::borrow::Cow;

/// A history whose shards share a key prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum HistoryKey {
    /// An account's history.
    Account(Address),
    /// A slot's history.
    Slot(Address, B256),
}

impl HistoryKey {
    fn table(&self) -> Table {
        match self {
            Self::Account(_) => Table::AccountsHistory,
            Self::Slot(..) => Table::StoragesHistory,
        }
    }

    /// The key of the shard that ends with `highest`.
    fn shard(&self, highest: u64) -> Vec<u8> {
        match self {
            Self::Account(address) => codec::account_shard_key(address, highest).into(),
            Self::Slot(address, slot) => codec::storage_shard_key(address, slot, highest).into(),
        }
    }
}

fn encode_shard(blocks: &RoaringTreemap) -> Result<Vec<u8>, DbError> {
    let mut value = Vec::with_capacity(blocks.serialized_size());
    blocks
        .serialize_into(&mut value)
        .map_err(|source| DbError::Corrupt {
            table: "a history shard",
            problem: source.to_string(),
        })?;
    Ok(value)
}

/// A shard's blocks.
pub(crate) fn decode_shard(value: &[u8]) -> Option<RoaringTreemap> {
    RoaringTreemap::deserialize_from(value).ok()
}

/// A shard decoded and encoded again; `None` when it does not decode.
pub(crate) fn reencode_shard(value: &[u8]) -> Option<Vec<u8>> {
    encode_shard(&decode_shard(value)?).ok()
}

impl<K: TransactionKind> DbTx<K> {
    /// An account as it was after `block`.
    pub fn account_at(&self, address: Address, block: u64) -> Result<Option<Account>, DbError> {
        let Some(changed) = self.next_change(HistoryKey::Account(address), block)? else {
            return self.account(address);
        };
        let table = Table::AccountChangeSets;
        let row: Option<Cow<'_, [u8]>> = self
            .cursor(table)?
            .get_both_range(&changed.to_be_bytes(), address.as_slice())
            .doing("read", table.name())?;
        let (found, before) = row
            .and_then(|row| codec::decode_account_change(&row))
            .ok_or_else(|| undecodable(table, &changed.to_be_bytes()))?;
        if found == address {
            Ok(before)
        } else {
            Err(absent(table, changed))
        }
    }

    /// A slot as it was after `block`; zero when absent.
    pub fn storage_at(&self, address: Address, slot: B256, block: u64) -> Result<U256, DbError> {
        let Some(changed) = self.next_change(HistoryKey::Slot(address, slot), block)? else {
            return self.storage(address, slot);
        };
        let table = Table::StorageChangeSets;
        let row: Option<Cow<'_, [u8]>> = self
            .cursor(table)?
            .get_both_range(
                &codec::storage_change_key(changed, &address),
                slot.as_slice(),
            )
            .doing("read", table.name())?;
        let (found, before) = row
            .and_then(|row| codec::decode_slot(&row))
            .ok_or_else(|| undecodable(table, &codec::storage_change_key(changed, &address)))?;
        if found == slot {
            Ok(before)
        } else {
            Err(absent(table, changed))
        }
    }

    /// The first block after `block` that changed a key.
    fn next_change(&self, key: HistoryKey, block: u64) -> Result<Option<u64>, DbError> {
        let Some(from) = block.checked_add(1) else {
            return Ok(None);
        };
        let table = key.table();
        let wanted = key.shard(from);
        let row: Option<Row<'_>> = self
            .cursor(table)?
            .set_range(&wanted)
            .doing("read", table.name())?;
        let prefix = &wanted[..wanted.len() - 8];
        let Some((shard, value)) = row.filter(|(found, _)| found.starts_with(prefix)) else {
            return Ok(None);
        };
        let blocks = decode_shard(&value).ok_or_else(|| undecodable(table, &shard))?;
        Ok(blocks.select(blocks.rank(block)))
    }
}

fn absent(table: Table, block: u64) -> DbError {
    DbError::Corrupt {
        table: table.name(),
        problem: format!("the history names block {block}, which has no such row"),
    }
}

impl DbWrite {
    /// Adds blocks to histories. `changes` is sorted by key, then block.
    pub(crate) fn extend_histories(&self, changes: &[(HistoryKey, u64)]) -> Result<(), DbError> {
        for same_table in changes.chunk_by(|a, b| a.0.table() == b.0.table()) {
            let mut shards = self.writer(same_table[0].0.table())?;
            for group in same_table.chunk_by(|a, b| a.0 == b.0) {
                extend_history(&mut shards, group[0].0, group)?;
            }
        }
        Ok(())
    }

    /// Removes the blocks above `target` from histories, which are sorted by key.
    pub(crate) fn cut_histories(&self, keys: &[HistoryKey], target: u64) -> Result<(), DbError> {
        for same_table in keys.chunk_by(|a, b| a.table() == b.table()) {
            let mut shards = self.writer(same_table[0].table())?;
            for key in same_table {
                cut_history(&mut shards, *key, target)?;
            }
        }
        Ok(())
    }
}

/// Adds the blocks of `group` to the history of `key`.
fn extend_history(
    shards: &mut WriteCursor<'_>,
    key: HistoryKey,
    group: &[(HistoryKey, u64)],
) -> Result<(), DbError> {
    let table = key.table();
    let last = key.shard(LAST_SHARD);
    let stored: Option<Cow<'_, [u8]>> = shards.raw().set(&last).doing("read", table.name())?;
    let mut blocks = match stored {
        Some(value) => decode_shard(&value).ok_or_else(|| undecodable(table, &last))?,
        None => RoaringTreemap::new(),
    };
    for (_, block) in group {
        blocks.insert(*block);
    }
    write_shards(shards, key, &blocks)
}

/// Cuts what the last shard holds into full shards and a new last one.
fn write_shards(
    shards: &mut WriteCursor<'_>,
    key: HistoryKey,
    blocks: &RoaringTreemap,
) -> Result<(), DbError> {
    if blocks.len() <= SHARD_BLOCKS as u64 {
        return put_shard(shards, key, LAST_SHARD, blocks);
    }
    let all: Vec<u64> = blocks.iter().collect();
    let mut chunks = all.chunks(SHARD_BLOCKS).peekable();
    while let Some(chunk) = chunks.next() {
        let highest = if chunks.peek().is_some() {
            chunk[chunk.len() - 1]
        } else {
            LAST_SHARD
        };
        put_shard(shards, key, highest, &chunk.iter().copied().collect())?;
    }
    Ok(())
}

fn put_shard(
    shards: &mut WriteCursor<'_>,
    key: HistoryKey,
    highest: u64,
    blocks: &RoaringTreemap,
) -> Result<(), DbError> {
    let value = encode_shard(blocks)?;
    shards.upsert(&key.shard(highest), Some(&value))
}

/// Removes the blocks above `target` from one history.
fn cut_history(shards: &mut WriteCursor<'_>, key: HistoryKey, target: u64) -> Result<(), DbError> {
    let table = key.table();
    let cursor = shards.raw();
    let last = key.shard(LAST_SHARD);
    let prefix = &last[..last.len() - 8];
    let mut row: Option<Row<'_>> = cursor.set_key(&last).doing("read", table.name())?;
    while let Some((found, value)) = row.filter(|(found, _)| found.starts_with(prefix)) {
        let mut blocks = decode_shard(&value).ok_or_else(|| undecodable(table, &found))?;
        blocks.remove_range(target.saturating_add(1)..);
        if !blocks.is_empty() {
            if *found != *last {
                cursor.del().doing("delete from", table.name())?;
            }
            return put_shard(shards, key, LAST_SHARD, &blocks);
        }
        cursor.del().doing("delete from", table.name())?;
        row = cursor.prev().doing("read", table.name())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{dump, temp_db};

    const ADDRESS: Address = Address::repeat_byte(7);

    fn histories(ranges: &[std::ops::RangeInclusive<u64>], target: Option<u64>) -> Vec<(u64, u64)> {
        let (_dir, db) = temp_db();
        let tx = db.write().unwrap();
        let neighbour = HistoryKey::Account(Address::repeat_byte(6));
        tx.extend_histories(&[(neighbour, 1)]).unwrap();
        let key = HistoryKey::Account(ADDRESS);
        for range in ranges {
            let changes: Vec<_> = range.clone().map(|block| (key, block)).collect();
            tx.extend_histories(&changes).unwrap();
        }
        if let Some(target) = target {
            tx.cut_histories(&[key], target).unwrap();
        }
        tx.commit().unwrap();
        dump(&db, Table::AccountsHistory)
            .into_iter()
            .filter(|(key, _)| key.starts_with(ADDRESS.as_slice()))
            .map(|(key, value)| {
                (
                    codec::decode_block_key(&key[20..]).unwrap(),
                    decode_shard(&value).unwrap().len(),
                )
            })
            .collect()
    }

    #[test]
    fn shards_hold_two_thousand_blocks_and_the_last_is_open() {
        assert_eq!(histories(&[1..=2000], None), [(LAST_SHARD, 2000)]);
        assert_eq!(
            histories(&[1..=2000, 2001..=2001], None),
            [(2000, 2000), (LAST_SHARD, 1)]
        );
        assert_eq!(
            histories(&[1..=1500, 1501..=4500], None),
            [(2000, 2000), (4000, 2000), (LAST_SHARD, 500)]
        );
    }

    #[test]
    fn cutting_reopens_the_shard_the_target_is_in() {
        let all = [1..=4500];
        assert_eq!(
            histories(&all, Some(4100)),
            [(2000, 2000), (4000, 2000), (LAST_SHARD, 100)]
        );
        assert_eq!(
            histories(&all, Some(4000)),
            [(2000, 2000), (LAST_SHARD, 2000)]
        );
        assert_eq!(histories(&all, Some(1)), [(LAST_SHARD, 1)]);
        assert_eq!(histories(&all, Some(0)), []);
    }

    #[test]
    fn a_shard_is_a_serialized_treemap() {
        let value = encode_shard(&[3u64, 5].into_iter().collect()).unwrap();
        // One bitmap; its high 32 bits; the portable 32-bit roaring format: cookie 12346, one
        // container with key 0 and two values at offset 16.
        let expected = alloy_primitives::hex!(
            "0100000000000000 00000000 3a300000 01000000 0000 0100 10000000 0300 0500"
        );
        assert_eq!(value, expected);
    }
}
