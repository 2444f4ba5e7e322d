//! Reading blocks, plain state and markers from one snapshot.

use crate::{
    codec::{self, BodyIndices, decode_compact},
    error::{Context, DbError},
    tables::Table,
    tx::{DbTx, Row},
    types::{BlockNumHash, Receipt, StoredBlock, TransactionLocation, TransactionSigned},
};
use alloy_consensus::Header;
use alloy_eips::eip4895::Withdrawals;
use alloy_primitives::{Address, B256, Bytes, U256, hex};
use reth_primitives_traits::Bytecode;
use signet_libmdbx::TransactionKind;
use state_root::updates::Account;
use std::borrow::Cow;

/// The stage whose checkpoint is the head.
pub(crate) const FINISH: &str = "Finish";

/// Keys of the markers in `ChainState`.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Marker {
    /// The last finalized block.
    Finalized = 0,
    /// The last safe block.
    Safe = 1,
}

/// The error of the row at `key` that does not decode.
pub(crate) fn undecodable(table: Table, key: &[u8]) -> DbError {
    DbError::CorruptRow {
        table: table.name(),
        key: hex::encode_prefixed(key),
    }
}

/// The error of a row that must exist.
pub(crate) fn missing(table: Table, what: impl std::fmt::Display) -> DbError {
    DbError::Corrupt {
        table: table.name(),
        problem: format!("no row for {what}"),
    }
}

impl<K: TransactionKind> DbTx<K> {
    /// The last block of the database; `None` before genesis.
    pub fn head(&self) -> Result<Option<BlockNumHash>, DbError> {
        let Some(number) = self.checkpoint(FINISH)? else {
            return Ok(None);
        };
        let hash = self
            .block_hash(number)?
            .ok_or_else(|| missing(Table::CanonicalHeaders, format_args!("head {number}")))?;
        Ok(Some(BlockNumHash { number, hash }))
    }

    /// The highest block a stage has done.
    pub fn checkpoint(&self, stage: &str) -> Result<Option<u64>, DbError> {
        self.decoded(
            Table::StageCheckpoints,
            stage.as_bytes(),
            codec::decode_checkpoint,
        )
    }

    /// Hash of block 0.
    pub fn genesis_hash(&self) -> Result<Option<B256>, DbError> {
        self.block_hash(0)
    }

    /// Hash of a canonical block.
    pub fn block_hash(&self, number: u64) -> Result<Option<B256>, DbError> {
        self.decoded(Table::CanonicalHeaders, &number.to_be_bytes(), |value| {
            B256::try_from(value).ok()
        })
    }

    /// Number of a canonical block.
    pub fn block_number(&self, hash: B256) -> Result<Option<u64>, DbError> {
        self.decoded(Table::HeaderNumbers, hash.as_slice(), codec::decode_u64)
    }

    /// Header of a canonical block.
    pub fn header(&self, number: u64) -> Result<Option<Header>, DbError> {
        self.decoded(Table::Headers, &number.to_be_bytes(), decode_compact)
    }

    /// A canonical block with its senders.
    pub fn block(&self, number: u64) -> Result<Option<StoredBlock>, DbError> {
        let Some(header) = self.header(number)? else {
            return Ok(None);
        };
        let hash = self
            .block_hash(number)?
            .ok_or_else(|| missing(Table::CanonicalHeaders, number))?;
        let indices = self.body_indices(number)?;
        let key = number.to_be_bytes();
        let ommers = self.decoded(Table::BlockOmmers, &key, codec::decode_list)?;
        let withdrawals = self.decoded(Table::BlockWithdrawals, &key, codec::decode_list)?;
        Ok(Some(StoredBlock {
            hash,
            transactions: self.numbered(Table::Transactions, indices, decode_compact)?,
            senders: self.numbered(Table::TransactionSenders, indices, |value| {
                Address::try_from(value).ok()
            })?,
            ommers: ommers.unwrap_or_default(),
            // An empty list is not stored; the header tells it from none.
            withdrawals: withdrawals
                .or_else(|| header.withdrawals_root.map(|_| Withdrawals::default())),
            header,
        }))
    }

    /// Receipts of a canonical block, in transaction order.
    pub fn receipts(&self, number: u64) -> Result<Option<Vec<Receipt>>, DbError> {
        if self
            .get(Table::BlockBodyIndices, &number.to_be_bytes())?
            .is_none()
        {
            return Ok(None);
        }
        let indices = self.body_indices(number)?;
        self.numbered(Table::Receipts, indices, codec::decode_receipt)
            .map(Some)
    }

    /// Where the transaction with this hash is.
    pub fn transaction_location(&self, hash: B256) -> Result<Option<TransactionLocation>, DbError> {
        let number = self.decoded(
            Table::TransactionHashNumbers,
            hash.as_slice(),
            codec::decode_u64,
        )?;
        let Some(transaction_number) = number else {
            return Ok(None);
        };
        let mut cursor = self.cursor(Table::TransactionBlocks)?;
        let block: Option<Row<'_>> = cursor
            .set_range(&transaction_number.to_be_bytes())
            .doing("read", Table::TransactionBlocks.name())?;
        let block_number = block
            .and_then(|(_, value)| codec::decode_u64(&value))
            .ok_or_else(|| missing(Table::TransactionBlocks, transaction_number))?;
        let index = transaction_number - self.body_indices(block_number)?.first;
        Ok(Some(TransactionLocation {
            block_number,
            index,
            transaction_number,
        }))
    }

    /// The transaction with this number in the chain.
    pub fn transaction(&self, number: u64) -> Result<Option<TransactionSigned>, DbError> {
        self.decoded(Table::Transactions, &number.to_be_bytes(), decode_compact)
    }

    /// An account of the head state.
    pub fn account(&self, address: Address) -> Result<Option<Account>, DbError> {
        self.decoded(
            Table::PlainAccountState,
            address.as_slice(),
            codec::decode_account,
        )
    }

    /// A slot of the head state; zero when absent.
    pub fn storage(&self, address: Address, slot: B256) -> Result<U256, DbError> {
        let table = Table::PlainStorageState;
        let row: Option<Cow<'_, [u8]>> = self
            .cursor(table)?
            .get_both_range(address.as_slice(), slot.as_slice())
            .doing("read", table.name())?;
        let Some(row) = row else {
            return Ok(U256::ZERO);
        };
        let (found, value) =
            codec::decode_slot(&row).ok_or_else(|| undecodable(table, address.as_slice()))?;
        Ok(if found == slot { value } else { U256::ZERO })
    }

    /// Code by its keccak-256, with the jump table it was stored with.
    pub fn analyzed_bytecode(&self, code_hash: B256) -> Result<Option<Bytecode>, DbError> {
        self.decoded(Table::Bytecodes, code_hash.as_slice(), decode_compact)
    }

    /// Code by its keccak-256.
    pub fn bytecode(&self, code_hash: B256) -> Result<Option<Bytes>, DbError> {
        Ok(self
            .analyzed_bytecode(code_hash)?
            .map(|code| code.original_bytes()))
    }

    /// Number of the last block marked safe.
    pub fn safe(&self) -> Result<Option<u64>, DbError> {
        self.marker(Marker::Safe)
    }

    /// Number of the last block marked finalized.
    pub fn finalized(&self) -> Result<Option<u64>, DbError> {
        self.marker(Marker::Finalized)
    }

    pub(crate) fn marker(&self, marker: Marker) -> Result<Option<u64>, DbError> {
        self.decoded(Table::ChainState, &[marker as u8], codec::decode_u64)
    }

    /// Transaction numbers of a block that must exist.
    pub(crate) fn body_indices(&self, number: u64) -> Result<BodyIndices, DbError> {
        self.decoded(
            Table::BlockBodyIndices,
            &number.to_be_bytes(),
            BodyIndices::decode,
        )?
        .ok_or_else(|| missing(Table::BlockBodyIndices, number))
    }

    /// The decoded value at `key`.
    pub(crate) fn decoded<T>(
        &self,
        table: Table,
        key: &[u8],
        decode: impl FnOnce(&[u8]) -> Option<T>,
    ) -> Result<Option<T>, DbError> {
        let Some(value) = self.get(table, key)? else {
            return Ok(None);
        };
        decode(&value)
            .map(Some)
            .ok_or_else(|| undecodable(table, key))
    }

    /// The values of a block's transactions in a table keyed by transaction number.
    fn numbered<T>(
        &self,
        table: Table,
        indices: BodyIndices,
        decode: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<Vec<T>, DbError> {
        let mut cursor = self.cursor(table)?;
        let mut values = Vec::with_capacity(indices.count as usize);
        for number in indices.first..indices.next() {
            let value: Option<Cow<'_, [u8]>> = cursor
                .set(&number.to_be_bytes())
                .doing("read", table.name())?;
            let value = value.ok_or_else(|| missing(table, number))?;
            let row = decode(&value).ok_or_else(|| undecodable(table, &number.to_be_bytes()));
            values.push(row?);
        }
        Ok(values)
    }
}
