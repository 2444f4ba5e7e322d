//! Adding blocks: everything of a batch in one commit.
//!
//! Blocks and changesets are written block by block. What they leave, of plain and hashed state,
//! trie nodes and histories, is merged over the batch ([`crate::batch`]) and written once, in key
//! order. A block that wipes a storage must see what its predecessors left there: before it, what
//! waits of plain state is written.

use crate::{
    batch::{HashedBatch, PlainBatch},
    codec::{self, BodyIndices},
    db::StateDb,
    error::{Context, DbError},
    history::HistoryKey,
    state_write::{set_account, set_slots},
    tables::Table,
    tx::DbWrite,
    types::{BlockNumHash, BlockWrite, PlainChanges, SlotDelta, StorageDelta, StoredBlock},
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
        let mut plain = PlainBatch::default();
        for write in blocks {
            check_next(head, write)?;
            next_transaction =
                tx.write_block(write.block, write.receipts, next_transaction, &mut lookups)?;
            let number = write.block.header.number;
            tx.write_changes((number, write.changes), &mut plain, &mut histories)?;
            head = write.block.num_hash();
        }
        tx.write_plain(&mut plain)?;
        tx.write_lookups(lookups)?;
        let hashed = blocks.iter().map(|write| (write.hashed, write.trie));
        tx.write_hashed(&HashedBatch::of(&hashed.collect::<Vec<_>>()))?;
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

/// A value as it is stored, in a buffer.
fn compact<'b>(value: &impl Compact, buf: &'b mut Vec<u8>) -> &'b [u8] {
    buf.clear();
    value.to_compact(buf);
    buf
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
        let mut transactions = self.writer(Table::Transactions)?;
        let mut senders = self.writer(Table::TransactionSenders)?;
        let mut logs = self.writer(Table::Receipts)?;
        let appended = block.transactions.iter().zip(&block.senders).zip(receipts);
        for (number, ((transaction, sender), receipt)) in (first..).zip(appended) {
            let key = number.to_be_bytes();
            transactions.append(&key, compact(transaction, &mut buf))?;
            senders.append(&key, sender.as_slice())?;
            logs.append(&key, compact(receipt, &mut buf))?;
            lookups.push((*transaction.tx_hash(), number));
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
        self.put(table, key, compact(value, buf))
    }

    fn write_lookups(&self, mut lookups: Vec<(B256, u64)>) -> Result<(), DbError> {
        lookups.sort_unstable();
        let mut rows = self.writer(Table::TransactionHashNumbers)?;
        for (hash, number) in lookups {
            rows.upsert(hash.as_slice(), Some(&codec::encode_u64(number)))?;
        }
        Ok(())
    }

    /// Writes a block's changesets, and notes what it changed and what it leaves in plain state.
    fn write_changes(
        &self,
        (block, changes): (u64, &PlainChanges),
        plain: &mut PlainBatch,
        histories: &mut Vec<(HistoryKey, u64)>,
    ) -> Result<(), DbError> {
        if changes.storages.iter().any(|(_, delta)| delta.wiped) {
            self.write_plain(plain)?;
        }
        self.write_account_changes((block, changes), plain, histories)?;
        let mut storages: Vec<_> = changes.storages.iter().collect();
        storages.sort_unstable_by_key(|(address, _)| *address);
        let mut changesets = self.writer(Table::StorageChangeSets)?;
        for (address, delta) in storages {
            let changed = self.slots_before(address, delta)?;
            let key = codec::storage_change_key(block, address);
            let mut row = Vec::with_capacity(64);
            for (slot, before) in changed {
                row.clear();
                codec::encode_slot(&slot, &before, &mut row);
                changesets.append_dup(&key, &row)?;
                histories.push((HistoryKey::Slot(*address, slot), block));
            }
            for slot in delta.slots.iter().filter(|slot| delta.touches(slot)) {
                plain.slot(*address, slot.slot, slot.after);
            }
        }
        for (hash, code) in &changes.codes {
            self.put_code(*hash, code)?;
        }
        Ok(())
    }

    fn write_account_changes(
        &self,
        (block, changes): (u64, &PlainChanges),
        plain: &mut PlainBatch,
        histories: &mut Vec<(HistoryKey, u64)>,
    ) -> Result<(), DbError> {
        let mut accounts: Vec<_> = changes
            .accounts
            .iter()
            .filter(|(_, delta)| delta.before != delta.after)
            .collect();
        accounts.sort_unstable_by_key(|(address, _)| *address);
        let mut changesets = self.writer(Table::AccountChangeSets)?;
        let mut buf = Vec::with_capacity(128);
        for (address, delta) in accounts {
            buf.clear();
            buf.extend_from_slice(address.as_slice());
            if let Some(before) = &delta.before {
                codec::encode_account(before, &mut buf);
            }
            changesets.append_dup(&block.to_be_bytes(), &buf)?;
            plain.account(*address, delta.after);
            histories.push((HistoryKey::Account(*address), block));
        }
        Ok(())
    }

    /// The slots of an account that a block changes, with their values before, sorted by slot.
    /// Those of a wiped storage are read, and removed.
    fn slots_before(
        &self,
        address: &Address,
        delta: &StorageDelta,
    ) -> Result<Vec<(B256, U256)>, DbError> {
        let mut changed: Vec<_> = if delta.wiped {
            let mut state = self.writer(Table::PlainStorageState)?;
            let stored = stored_slots(state.raw(), address)?;
            if !stored.is_empty() {
                state.delete_all_of(address.as_slice())?;
            }
            before_wiping(stored, &delta.slots)
        } else {
            let changed = delta.slots.iter().filter(|slot| delta.touches(slot));
            changed.map(|slot| (slot.slot, slot.before)).collect()
        };
        changed.sort_unstable_by_key(|(slot, _)| *slot);
        Ok(changed)
    }

    /// Writes what waits of plain state.
    fn write_plain(&self, plain: &mut PlainBatch) -> Result<(), DbError> {
        let mut rows = self.writer(Table::PlainAccountState)?;
        let mut buf = Vec::with_capacity(128);
        for (address, account) in plain.take_accounts() {
            set_account(&mut rows, address.as_slice(), account.as_ref(), &mut buf)?;
        }
        let mut rows = self.writer(Table::PlainStorageState)?;
        for of_account in plain.take_slots().chunk_by(|a, b| a.0.0 == b.0.0) {
            let slots = of_account.iter().map(|((_, slot), value)| (slot, value));
            let address = &of_account[0].0.0;
            set_slots(&mut rows, address.as_slice(), slots, &mut buf)?;
        }
        Ok(())
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

/// What changes when `stored` slots, sorted, are wiped and then `set`: with the values before.
fn before_wiping(stored: Vec<(B256, U256)>, set: &[SlotDelta]) -> Vec<(B256, U256)> {
    let mut changed = stored.clone();
    for delta in set {
        match stored.binary_search_by_key(&delta.slot, |(slot, _)| *slot) {
            Ok(at) if stored[at].1 == delta.after => {
                changed.retain(|(slot, _)| *slot != delta.slot);
            }
            Ok(_) => {}
            Err(_) if delta.after.is_zero() => {}
            Err(_) => changed.push((delta.slot, U256::ZERO)),
        }
    }
    changed
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
