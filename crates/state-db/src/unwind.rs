//! Taking the database back to an earlier block.
//!
//! The changesets above the target give every changed key's value at the target. From them the
//! target's root is recomputed and checked before anything is written; then one transaction
//! restores the state and removes the blocks. A marker, committed first, names the target as long
//! as the work is under way, so that an interruption at any moment is noticed by whoever opens the
//! database next.
//!
//! Code stays: it is addressed by its hash, and nothing tells who else uses it.

use crate::{
    batch::HashedBatch,
    codec,
    db::StateDb,
    error::{Context, DbError, UnwindError},
    history::HistoryKey,
    overlay::Overlay,
    state_write::{set_account, set_slots},
    tables::Table,
    tx::{DbTx, DbView, DbWrite, Row},
    types::{BlockNumHash, UnwindProgress, UnwindStage, UnwindSummary},
    view::{Marker, missing, undecodable},
};
use alloy_primitives::{Address, B256, U256, keccak256, map::AddressMap};
use signet_libmdbx::TransactionKind;
use state_root::{
    reference,
    updates::{Account, HashedState, HashedStorage, TrieUpdates},
};
use std::collections::BTreeMap;

/// Metadata key under which the target of an unwind is kept while it is under way.
const PENDING_UNWIND: &[u8] = b"pending_unwind";

impl StateDb {
    /// The target of an unwind that was begun and not finished; unwinding to it finishes it.
    pub fn pending_unwind(&self) -> Result<Option<u64>, DbError> {
        self.view()?.pending_unwind()
    }

    /// Goes back to block `target`, which stays. `progress` is told when a step begins.
    ///
    /// The state root of the target is recomputed and compared with its header, also when there is
    /// nothing to remove. On an error nothing has changed.
    pub fn unwind(
        &self,
        target: u64,
        progress: &mut dyn FnMut(UnwindProgress),
    ) -> Result<UnwindSummary, UnwindError> {
        let view = self.view()?;
        let head = view.head()?.ok_or(DbError::NoGenesis)?;
        if target > head.number {
            return Err(UnwindError::AboveTip {
                target,
                latest: head.number,
            });
        }
        if target < head.number {
            self.explain(self.set_pending(Some(target)))?;
        }
        match self.unwind_from(&view, head, target, progress) {
            Ok(summary) => Ok(summary),
            Err(error) => {
                let error = self.explain_unwind(error);
                if let Err(second) = self.set_pending(None) {
                    tracing::warn!(error = %second, "failed to clear the mark of a failed unwind");
                }
                Err(error)
            }
        }
    }

    fn unwind_from(
        &self,
        view: &DbView,
        head: BlockNumHash,
        target: u64,
        progress: &mut dyn FnMut(UnwindProgress),
    ) -> Result<UnwindSummary, UnwindError> {
        let mut report = |stage, items| progress(UnwindProgress { stage, items });
        report(UnwindStage::Changesets, head.number - target);
        let before = Before::collect(view, target)?;
        report(UnwindStage::StateRoot, before.leaves());
        let (hashed, trie, state_root) = before.check_root(view, target)?;
        let summary = UnwindSummary {
            head: BlockNumHash {
                number: target,
                hash: target_hash(view, target)?,
            },
            state_root,
            blocks: head.number - target,
            accounts: before.accounts.len() as u64,
            slots: before.slots.values().map(|slots| slots.len() as u64).sum(),
        };
        if target == head.number && self.pending_unwind()?.is_none() {
            return Ok(summary);
        }
        let tx = self.write()?;
        report(UnwindStage::State, before.leaves());
        tx.restore_plain(&before)?;
        tx.write_hashed(&HashedBatch::of(&[(&hashed, &trie)]))?;
        report(UnwindStage::History, before.leaves());
        tx.remove_changes(&before, target)?;
        report(UnwindStage::Blocks, summary.blocks);
        tx.remove_blocks(target, head.number)?;
        tx.lower_markers(target)?;
        tx.delete(Table::Metadata, PENDING_UNWIND)?;
        report(UnwindStage::Commit, 0);
        tx.commit()?;
        Ok(summary)
    }

    fn explain_unwind(&self, error: UnwindError) -> UnwindError {
        match error {
            UnwindError::Database(error) => error.explained(&self.inner.folder).into(),
            other => other,
        }
    }

    fn set_pending(&self, target: Option<u64>) -> Result<(), DbError> {
        let tx = self.write()?;
        match target {
            Some(target) => {
                let value = codec::encode_bytes(target.to_be_bytes().to_vec());
                tx.put(Table::Metadata, PENDING_UNWIND, &value)?;
            }
            None => tx.delete(Table::Metadata, PENDING_UNWIND)?,
        }
        tx.commit()
    }
}

impl DbView {
    /// The changes that take the state of the head back to block `target`, and the trie nodes that
    /// go with them: the head's tables under this overlay read as they did after `target`.
    ///
    /// Costs memory and time in proportion to what the blocks above `target` changed. The root is
    /// recomputed and compared with the target's header.
    pub fn overlay_back_to(&self, target: u64) -> Result<Overlay, UnwindError> {
        let (hashed, trie, _) = Before::collect(self, target)?.check_root(self, target)?;
        Ok(Overlay::default().extend(hashed, trie))
    }
}

fn target_hash(view: &DbView, target: u64) -> Result<B256, DbError> {
    view.block_hash(target)?
        .ok_or_else(|| missing(Table::CanonicalHeaders, target))
}

impl<K: TransactionKind> DbTx<K> {
    /// The target of an unfinished unwind.
    pub(crate) fn pending_unwind(&self) -> Result<Option<u64>, DbError> {
        self.decoded(Table::Metadata, PENDING_UNWIND, |value| {
            codec::decode_block_key(&codec::decode_bytes(value)?)
        })
    }
}

/// Every key that blocks above the target changed, with its value at the target.
#[derive(Debug, Default)]
struct Before {
    accounts: BTreeMap<Address, Option<Account>>,
    slots: BTreeMap<Address, Vec<(B256, U256)>>,
}

impl Before {
    /// Reads the changesets above `target`, oldest first: a key's first row has its value.
    fn collect<K: TransactionKind>(tx: &DbTx<K>, target: u64) -> Result<Self, DbError> {
        let first = (target.saturating_add(1)).to_be_bytes();
        let mut accounts: AddressMap<Option<Account>> = AddressMap::default();
        tx.rows_from(Table::AccountChangeSets, &first, |_, value| {
            let (address, before) = codec::decode_account_change(value)?;
            accounts.entry(address).or_insert(before);
            Some(())
        })?;
        let mut slots: AddressMap<Vec<(B256, U256)>> = AddressMap::default();
        tx.rows_from(Table::StorageChangeSets, &first, |key, value| {
            let address = Address::try_from(key.get(8..)?).ok()?;
            slots
                .entry(address)
                .or_default()
                .push(codec::decode_slot(value)?);
            Some(())
        })?;
        for slots in slots.values_mut() {
            // Stable, and each slot's rows are in block order: the first of equals is the oldest.
            slots.sort_by_key(|(slot, _)| *slot);
            slots.dedup_by_key(|(slot, _)| *slot);
        }
        Ok(Self {
            accounts: accounts.into_iter().collect(),
            slots: slots.into_iter().collect(),
        })
    }

    fn leaves(&self) -> u64 {
        let slots: usize = self.slots.values().map(Vec::len).sum();
        (self.accounts.len() + slots) as u64
    }

    fn hashed(&self) -> HashedState {
        let mut accounts: Vec<_> = self
            .accounts
            .iter()
            .map(|(address, account)| (keccak256(address), *account))
            .collect();
        accounts.sort_unstable_by_key(|(key, _)| *key);
        let storages = self.slots.iter().map(|(address, slots)| {
            let mut slots: Vec<_> = slots
                .iter()
                .map(|(slot, value)| (keccak256(slot), *value))
                .collect();
            slots.sort_unstable_by_key(|(key, _)| *key);
            (
                keccak256(address),
                HashedStorage {
                    wiped: false,
                    slots,
                },
            )
        });
        HashedState {
            accounts,
            storages: storages.collect(),
        }
    }

    /// Computes the target's root over the head's tries and compares it with the header's.
    fn check_root(
        &self,
        view: &DbView,
        target: u64,
    ) -> Result<(HashedState, TrieUpdates, B256), UnwindError> {
        let hashed = self.hashed();
        let (computed, trie) =
            reference::incremental_root(view, &hashed).map_err(|e| UnwindError::Root {
                target,
                problem: e.to_string(),
            })?;
        let header = view
            .header(target)?
            .ok_or_else(|| missing(Table::Headers, target))?;
        if computed != header.state_root {
            return Err(UnwindError::RootMismatch {
                target,
                computed,
                expected: header.state_root,
            });
        }
        Ok((hashed, trie, computed))
    }
}

impl<K: TransactionKind> DbTx<K> {
    /// What turns the head's state into the state after `block`: every key changed since, with its
    /// value then. `None` when the changesets above `block` have more than `max_rows` rows.
    pub fn changes_back_to(
        &self,
        block: u64,
        max_rows: usize,
    ) -> Result<Option<HashedState>, DbError> {
        let first = (block.saturating_add(1)).to_be_bytes();
        let accounts = self.count_rows_from(Table::AccountChangeSets, &first, max_rows)?;
        let slots = self.count_rows_from(Table::StorageChangeSets, &first, max_rows)?;
        if accounts + slots > max_rows {
            return Ok(None);
        }
        Ok(Some(Before::collect(self, block)?.hashed()))
    }

    /// Number of rows from `first` on; counting stops above `limit`.
    fn count_rows_from(&self, table: Table, first: &[u8], limit: usize) -> Result<usize, DbError> {
        let mut cursor = self.cursor(table)?;
        let mut row: Option<Row<'_>> = cursor.set_range(first).doing("read", table.name())?;
        let mut rows = 0;
        while row.is_some() && rows <= limit {
            rows += 1;
            row = cursor.next().doing("read", table.name())?;
        }
        Ok(rows)
    }

    /// Calls `each` with every row from `first` on; `None` from it means an undecodable row.
    fn rows_from(
        &self,
        table: Table,
        first: &[u8],
        mut each: impl FnMut(&[u8], &[u8]) -> Option<()>,
    ) -> Result<(), DbError> {
        let mut cursor = self.cursor(table)?;
        let mut row: Option<Row<'_>> = cursor.set_range(first).doing("read", table.name())?;
        while let Some((key, value)) = row {
            each(&key, &value).ok_or_else(|| undecodable(table, &key))?;
            row = cursor.next().doing("read", table.name())?;
        }
        Ok(())
    }
}

impl DbWrite {
    fn restore_plain(&self, before: &Before) -> Result<(), DbError> {
        let mut rows = self.writer(Table::PlainAccountState)?;
        let mut buf = Vec::with_capacity(128);
        for (address, account) in &before.accounts {
            set_account(&mut rows, address.as_slice(), account.as_ref(), &mut buf)?;
        }
        let mut rows = self.writer(Table::PlainStorageState)?;
        for (address, slots) in &before.slots {
            let slots = slots.iter().map(|(slot, value)| (slot, value));
            set_slots(&mut rows, address.as_slice(), slots, &mut buf)?;
        }
        Ok(())
    }

    fn remove_changes(&self, before: &Before, target: u64) -> Result<(), DbError> {
        let accounts = before.accounts.keys().copied().map(HistoryKey::Account);
        let slots = before.slots.iter().flat_map(|(address, slots)| {
            slots
                .iter()
                .map(|(slot, _)| HistoryKey::Slot(*address, *slot))
        });
        let keys: Vec<_> = accounts.chain(slots).collect();
        self.cut_histories(&keys, target)?;
        let first = (target + 1).to_be_bytes();
        self.delete_from(Table::AccountChangeSets, &first)?;
        self.delete_from(Table::StorageChangeSets, &first)
    }

    fn remove_blocks(&self, target: u64, head: u64) -> Result<(), DbError> {
        let mut transaction_hashes = Vec::new();
        for number in target + 1..=head {
            let block = self
                .block(number)?
                .ok_or_else(|| missing(Table::Headers, number))?;
            self.delete(Table::HeaderNumbers, block.hash.as_slice())?;
            let transactions = block.transactions.iter();
            transaction_hashes.extend(transactions.map(|transaction| *transaction.tx_hash()));
        }
        // In key order, so that neighbours are found on the page at hand.
        transaction_hashes.sort_unstable();
        for hash in transaction_hashes {
            self.delete(Table::TransactionHashNumbers, hash.as_slice())?;
        }
        let first_transaction = self.body_indices(target)?.next().to_be_bytes();
        for table in [
            Table::Transactions,
            Table::TransactionSenders,
            Table::Receipts,
            Table::TransactionBlocks,
        ] {
            self.delete_from(table, &first_transaction)?;
        }
        let first = (target + 1).to_be_bytes();
        for table in [
            Table::CanonicalHeaders,
            Table::Headers,
            Table::BlockBodyIndices,
            Table::BlockOmmers,
            Table::BlockWithdrawals,
        ] {
            self.delete_from(table, &first)?;
        }
        Ok(())
    }

    /// Lowers the checkpoints and the markers that are above `target`.
    fn lower_markers(&self, target: u64) -> Result<(), DbError> {
        self.write_checkpoints(target)?;
        for marker in [Marker::Safe, Marker::Finalized] {
            let lowered = self
                .marker(marker)?
                .filter(|block| *block > target)
                .map(|_| target);
            self.put_marker(marker, lowered)?;
        }
        Ok(())
    }
}
