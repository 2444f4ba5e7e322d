//! Adding blocks: everything of a batch in one commit.
//!
//! Blocks and plain state are written block by block, because a block that wipes a storage must
//! see what its predecessors in the batch left there. Hashed state, trie nodes and histories are
//! merged over the batch and written once, in key order.

use crate::{
    codec::{self, BodyIndices},
    db::StateDb,
    error::{Context, DbError},
    history::HistoryKey,
    overlay::Overlay,
    tables::Table,
    tx::DbWrite,
    types::{BlockNumHash, BlockWrite, PlainChanges, StorageDelta, StoredBlock},
    view::{Marker, undecodable},
};
use alloy_primitives::{Address, B256, U256};
use reth_codecs::Compact;
use signet_libmdbx::{Cursor, Rw};
use state_root::reference;
use std::borrow::Cow;

/// The stages whose checkpoints follow the head.
pub(crate) const STAGES: [&str; 11] = [
    "Headers",
    "Bodies",
    "SenderRecovery",
    "Execution",
    "AccountHashing",
    "StorageHashing",
    "MerkleExecute",
    "TransactionLookup",
    "IndexAccountHistory",
    "IndexStorageHistory",
    "Finish",
];

impl StateDb {
    /// Appends blocks that follow the head, in order, in one durable commit.
    ///
    /// On an error nothing has changed.
    pub fn append(&self, blocks: &[BlockWrite<'_>]) -> Result<(), DbError> {
        self.append_marked(blocks, None, None)
    }

    /// Like [`Self::append`], and marks the last safe and the last finalized block in the same
    /// commit; `None` leaves a marker as it is.
    pub fn append_marked(
        &self,
        blocks: &[BlockWrite<'_>],
        safe: Option<u64>,
        finalized: Option<u64>,
    ) -> Result<(), DbError> {
        if blocks.is_empty() {
            return Ok(());
        }
        self.explain(self.append_all(blocks, (safe, finalized)))
    }

    fn append_all(
        &self,
        blocks: &[BlockWrite<'_>],
        (safe, finalized): (Option<u64>, Option<u64>),
    ) -> Result<(), DbError> {
        let tx = self.write()?;
        if let Some(target) = tx.pending_unwind()? {
            return Err(DbError::PendingUnwind { target });
        }
        let mut head = tx.head()?.ok_or(DbError::NoGenesis)?;
        let mut next_transaction = tx.body_indices(head.number)?.next();
        let mut lookups = Vec::new();
        let mut histories = Vec::new();
        for write in blocks {
            check_next(head, write)?;
            next_transaction =
                tx.write_block(write.block, write.receipts, next_transaction, &mut lookups)?;
            tx.write_plain(write.block.header.number, write.changes, &mut histories)?;
            head = write.block.num_hash();
        }
        tx.write_lookups(lookups)?;
        let merged = blocks.iter().fold(Overlay::default(), |merged, write| {
            merged.extend(write.hashed.clone(), write.trie.clone())
        });
        let (hashed, trie) = merged.flatten();
        tx.write_hashed(&hashed, &trie)?;
        histories.sort_unstable();
        tx.extend_histories(&histories)?;
        tx.write_checkpoints(head.number)?;
        tx.put_marker(Marker::Safe, safe)?;
        tx.put_marker(Marker::Finalized, finalized)?;
        tx.commit()
    }

    /// Makes `block` the first block, over the state a [`Loader`](crate::Loader) stored (or none).
    ///
    /// Fails unless the header's state root is that of the stored state.
    pub fn write_genesis(&self, block: &StoredBlock) -> Result<(), DbError> {
        self.explain(self.write_first(block))
    }

    fn write_first(&self, block: &StoredBlock) -> Result<(), DbError> {
        let tx = self.write()?;
        if tx.head()?.is_some() {
            return Err(DbError::NotEmpty);
        }
        let header = &block.header;
        if header.number != 0 || !block.transactions.is_empty() {
            return Err(DbError::NotGenesis {
                number: header.number,
                transactions: block.transactions.len(),
            });
        }
        let (loaded, _) = reference::incremental_root(&tx, &Default::default()).map_err(|e| {
            DbError::Corrupt {
                table: "the state tries",
                problem: e.to_string(),
            }
        })?;
        if loaded != header.state_root {
            return Err(DbError::GenesisRoot {
                header: header.state_root,
                loaded,
            });
        }
        let mut lookups = Vec::new();
        tx.write_block(block, &[], 0, &mut lookups)?;
        tx.write_checkpoints(0)?;
        tx.commit()
    }

    /// Marks the last safe and the last finalized block; `None` leaves a marker as it is.
    pub fn set_forkchoice(&self, safe: Option<u64>, finalized: Option<u64>) -> Result<(), DbError> {
        let write = || {
            let tx = self.write()?;
            tx.put_marker(Marker::Safe, safe)?;
            tx.put_marker(Marker::Finalized, finalized)?;
            tx.commit()
        };
        self.explain(write())
    }

    /// Empties a database that has state but no block, which an interrupted load leaves; true when
    /// there was something to remove.
    ///
    /// Fails with [`DbError::NotEmpty`] when there is a block.
    pub fn clear_interrupted_load(&self) -> Result<bool, DbError> {
        let clear = || {
            let tx = self.write()?;
            if tx.head()?.is_some() || !tx.is_empty(Table::CanonicalHeaders)? {
                return Err(DbError::NotEmpty);
            }
            let mut found = false;
            for table in Table::ALL {
                found |= !tx.is_empty(table)?;
                tx.clear(table)?;
            }
            if found {
                tx.commit()?
            }
            Ok(found)
        };
        self.explain(clear())
    }
}

fn check_next(head: BlockNumHash, write: &BlockWrite<'_>) -> Result<(), DbError> {
    let block = write.block;
    let header = &block.header;
    if header.number != head.number + 1 || header.parent_hash != head.hash {
        return Err(DbError::NotNext {
            number: header.number,
            parent_hash: header.parent_hash,
            head,
        });
    }
    let (transactions, senders) = (block.transactions.len(), block.senders.len());
    let receipts = write.receipts.len();
    if senders != transactions || receipts != transactions {
        return Err(DbError::Lengths {
            number: header.number,
            transactions,
            senders,
            receipts,
        });
    }
    Ok(())
}

impl DbWrite {
    /// Writes a block's own tables; returns the next transaction number. Transaction hashes are
    /// collected with their numbers, to be written in key order.
    fn write_block(
        &self,
        block: &StoredBlock,
        receipts: &[crate::Receipt],
        first: u64,
        lookups: &mut Vec<(B256, u64)>,
    ) -> Result<u64, DbError> {
        let number = block.header.number;
        let key = number.to_be_bytes();
        let mut buf = Vec::with_capacity(1024);
        self.put(Table::CanonicalHeaders, &key, block.hash.as_slice())?;
        self.put_compact(Table::Headers, &key, &block.header, &mut buf)?;
        self.put(
            Table::HeaderNumbers,
            block.hash.as_slice(),
            &codec::encode_u64(number),
        )?;
        let indices = BodyIndices {
            first,
            count: block.transactions.len() as u64,
        };
        self.put(Table::BlockBodyIndices, &key, &indices.encode())?;
        if !block.ommers.is_empty() {
            self.put_compact(Table::BlockOmmers, &key, &block.ommers, &mut buf)?;
        }
        if let Some(withdrawals) = block.withdrawals.as_ref().filter(|list| !list.is_empty()) {
            self.put_compact(Table::BlockWithdrawals, &key, withdrawals, &mut buf)?;
        }
        for (offset, transaction) in block.transactions.iter().enumerate() {
            let transaction_number = first + offset as u64;
            let key = transaction_number.to_be_bytes();
            self.put_compact(Table::Transactions, &key, transaction, &mut buf)?;
            self.put(
                Table::TransactionSenders,
                &key,
                block.senders[offset].as_slice(),
            )?;
            self.put_compact(Table::Receipts, &key, &receipts[offset], &mut buf)?;
            lookups.push((*transaction.tx_hash(), transaction_number));
        }
        if let Some(last) = indices.next().checked_sub(1).filter(|_| indices.count > 0) {
            let value = codec::encode_u64(number);
            self.put(Table::TransactionBlocks, &last.to_be_bytes(), &value)?;
        }
        Ok(indices.next())
    }

    fn put_compact<T: Compact>(
        &self,
        table: Table,
        key: &[u8],
        value: &T,
        buf: &mut Vec<u8>,
    ) -> Result<(), DbError> {
        buf.clear();
        value.to_compact(buf);
        self.put(table, key, buf)
    }

    fn write_lookups(&self, mut lookups: Vec<(B256, u64)>) -> Result<(), DbError> {
        lookups.sort_unstable();
        for (hash, number) in lookups {
            let value = codec::encode_u64(number);
            self.put(Table::TransactionHashNumbers, hash.as_slice(), &value)?;
        }
        Ok(())
    }

    /// Writes a block's plain state and changesets, and notes what it changed.
    fn write_plain(
        &self,
        block: u64,
        changes: &PlainChanges,
        histories: &mut Vec<(HistoryKey, u64)>,
    ) -> Result<(), DbError> {
        self.write_plain_accounts(block, changes, histories)?;
        let mut storages: Vec<_> = changes.storages.iter().collect();
        storages.sort_unstable_by_key(|(address, _)| *address);
        let mut state = self.cursor(Table::PlainStorageState)?;
        let mut changesets = self.cursor(Table::StorageChangeSets)?;
        for (address, delta) in storages {
            let changed = self.write_plain_storage(&mut state, address, delta)?;
            let key = codec::storage_change_key(block, address);
            let mut row = Vec::with_capacity(64);
            for (slot, before) in changed {
                row.clear();
                codec::encode_slot(&slot, &before, &mut row);
                changesets
                    .append_dup(&key, &row)
                    .doing("append to", Table::StorageChangeSets.name())?;
                histories.push((HistoryKey::Slot(*address, slot), block));
            }
        }
        for (hash, code) in &changes.codes {
            self.put_code(*hash, code)?;
        }
        Ok(())
    }

    fn write_plain_accounts(
        &self,
        block: u64,
        changes: &PlainChanges,
        histories: &mut Vec<(HistoryKey, u64)>,
    ) -> Result<(), DbError> {
        let mut accounts: Vec<_> = changes
            .accounts
            .iter()
            .filter(|(_, delta)| delta.before != delta.after)
            .collect();
        accounts.sort_unstable_by_key(|(address, _)| *address);
        let mut changesets = self.cursor(Table::AccountChangeSets)?;
        let mut buf = Vec::with_capacity(128);
        for (address, delta) in accounts {
            buf.clear();
            buf.extend_from_slice(address.as_slice());
            if let Some(before) = &delta.before {
                codec::encode_account(before, &mut buf);
            }
            changesets
                .append_dup(&block.to_be_bytes(), &buf)
                .doing("append to", Table::AccountChangeSets.name())?;
            let after = delta.after.as_ref();
            self.set_account(
                Table::PlainAccountState,
                address.as_slice(),
                after,
                &mut buf,
            )?;
            histories.push((HistoryKey::Account(*address), block));
        }
        Ok(())
    }

    /// Writes one account's plain storage; returns the changed slots with their values before,
    /// sorted by slot.
    fn write_plain_storage(
        &self,
        state: &mut Cursor<'_, Rw>,
        address: &Address,
        delta: &StorageDelta,
    ) -> Result<Vec<(B256, U256)>, DbError> {
        let mut slots = delta.slots.clone();
        slots.sort_unstable_by_key(|delta| delta.slot);
        let mut changed = Vec::with_capacity(slots.len());
        if delta.wiped {
            let table = Table::PlainStorageState;
            let stored = stored_slots(state, address)?;
            if !stored.is_empty() {
                state
                    .del_all_dups_of(address.as_slice())
                    .doing("delete from", table.name())?;
            }
            changed.extend(stored.iter().copied());
            for delta in &slots {
                match stored.binary_search_by_key(&delta.slot, |(slot, _)| *slot) {
                    Ok(at) if stored[at].1 == delta.after => {
                        changed.retain(|(slot, _)| *slot != delta.slot);
                    }
                    Ok(_) => {}
                    Err(_) if delta.after.is_zero() => {}
                    Err(_) => changed.push((delta.slot, U256::ZERO)),
                }
            }
            changed.sort_unstable_by_key(|(slot, _)| *slot);
        } else {
            slots.retain(|delta| delta.before != delta.after);
            changed.extend(slots.iter().map(|delta| (delta.slot, delta.before)));
        }
        let after: Vec<_> = slots
            .iter()
            .map(|delta| (delta.slot, delta.after))
            .collect();
        self.set_plain_slots(state, address, &after)?;
        Ok(changed)
    }

    /// Moves all checkpoints to `block`.
    pub(crate) fn write_checkpoints(&self, block: u64) -> Result<(), DbError> {
        for stage in STAGES {
            self.put(
                Table::StageCheckpoints,
                stage.as_bytes(),
                &codec::encode_checkpoint(block),
            )?;
        }
        Ok(())
    }

    /// Sets a marker, unless `None`.
    pub(crate) fn put_marker(&self, marker: Marker, block: Option<u64>) -> Result<(), DbError> {
        let Some(block) = block else { return Ok(()) };
        self.put(
            Table::ChainState,
            &[marker as u8],
            &codec::encode_u64(block),
        )
    }
}

/// All slots an account has in plain state, in order.
fn stored_slots(
    cursor: &mut Cursor<'_, Rw>,
    address: &Address,
) -> Result<Vec<(B256, U256)>, DbError> {
    let table = Table::PlainStorageState;
    let mut slots = Vec::new();
    let mut row: Option<Cow<'_, [u8]>> =
        cursor.set(address.as_slice()).doing("read", table.name())?;
    while let Some(value) = row {
        slots.push(
            codec::decode_slot(&value).ok_or_else(|| undecodable(table, address.as_slice()))?,
        );
        row = cursor
            .next_dup::<(), _>()
            .doing("read", table.name())?
            .map(|((), value)| value);
    }
    Ok(slots)
}
