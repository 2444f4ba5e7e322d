//! Headers, bodies, receipts and senders, block by block, then the lookups by hash.

use super::{
    Audit,
    compare::{Comparison, Shape, numbers_differ},
    walk::{MISSING, Walk},
};
use crate::{
    codec::{self, BodyIndices},
    error::DbError,
    loader::Sorter,
    tables::Table,
    tx::DbView,
    types::{Receipt, TransactionSigned},
};
use alloy_consensus::{
    Header, TxReceipt as _,
    proofs::{
        calculate_ommers_root, calculate_receipt_root, calculate_transaction_root,
        calculate_withdrawals_root,
    },
    transaction::SignerRecoverable as _,
};
use alloy_eips::eip4895::Withdrawals;
use alloy_primitives::{Address, B256, Bloom};
use rayon::prelude::*;
use std::{borrow::Cow, collections::BTreeMap};

/// Checks every block from genesis to the head.
pub(super) fn check(view: &DbView, audit: &mut Audit<'_>) -> Result<(), DbError> {
    let mut blocks = Blocks {
        walks: Walks::new(view)?,
        hashes: audit.sorter(32, 1),
        lookups: audit.sorter(32, 3),
        parent: None,
        next_transaction: 0,
    };
    for number in 0..=audit.head {
        blocks.check(audit, number)?;
        audit.step();
    }
    blocks.walks.finish(audit)?;
    for (table, expected) in [
        (Table::HeaderNumbers, blocks.hashes),
        (Table::TransactionHashNumbers, blocks.lookups),
    ] {
        let comparison = Comparison {
            table,
            shape: Shape::Key,
            differs: numbers_differ,
        };
        comparison.run(view, audit, expected)?;
    }
    Ok(())
}

/// A walk over each table with one row a block or transaction.
struct Walks<'a> {
    canonical: Walk<'a>,
    headers: Walk<'a>,
    bodies: Walk<'a>,
    ommers: Walk<'a>,
    withdrawals: Walk<'a>,
    transactions: Walk<'a>,
    senders: Walk<'a>,
    receipts: Walk<'a>,
    last_transactions: Walk<'a>,
}

impl<'a> Walks<'a> {
    fn new(view: &'a DbView) -> Result<Self, DbError> {
        Ok(Self {
            canonical: Walk::new(view, Table::CanonicalHeaders)?,
            headers: Walk::new(view, Table::Headers)?,
            bodies: Walk::new(view, Table::BlockBodyIndices)?,
            ommers: Walk::new(view, Table::BlockOmmers)?,
            withdrawals: Walk::new(view, Table::BlockWithdrawals)?,
            transactions: Walk::new(view, Table::Transactions)?,
            senders: Walk::new(view, Table::TransactionSenders)?,
            receipts: Walk::new(view, Table::Receipts)?,
            last_transactions: Walk::new(view, Table::TransactionBlocks)?,
        })
    }

    fn finish(self, audit: &mut Audit<'_>) -> Result<(), DbError> {
        for walk in [
            self.canonical,
            self.headers,
            self.bodies,
            self.ommers,
            self.withdrawals,
            self.transactions,
            self.senders,
            self.receipts,
            self.last_transactions,
        ] {
            walk.finish(audit)?;
        }
        Ok(())
    }
}

struct Blocks<'a> {
    walks: Walks<'a>,
    /// Number of each block by its hash.
    hashes: Sorter,
    /// Number of each transaction by its hash.
    lookups: Sorter,
    /// Hash of the block before.
    parent: Option<B256>,
    /// First transaction number of the block to come.
    next_transaction: u64,
}

/// Decodes a row that must exist; whatever is wrong with it is found.
fn required<T>(
    audit: &mut Audit<'_>,
    table: Table,
    number: u64,
    row: Option<Cow<'_, [u8]>>,
    decode: impl FnOnce(&[u8]) -> Option<T>,
) -> Option<T> {
    let Some(row) = row else {
        audit.find(table, number.to_string(), MISSING);
        return None;
    };
    optional(audit, table, number, Some(row), decode)
}

/// Decodes a row that may be absent.
fn optional<T>(
    audit: &mut Audit<'_>,
    table: Table,
    number: u64,
    row: Option<Cow<'_, [u8]>>,
    decode: impl FnOnce(&[u8]) -> Option<T>,
) -> Option<T> {
    let decoded = decode(&row?);
    if decoded.is_none() {
        audit.find_undecodable(table, number.to_string());
    }
    decoded
}

impl Blocks<'_> {
    fn check(&mut self, audit: &mut Audit<'_>, number: u64) -> Result<(), DbError> {
        let row = self.walks.canonical.take(audit, number)?;
        let hash = required(audit, Table::CanonicalHeaders, number, row, |value| {
            B256::try_from(value).ok()
        });
        if let Some(hash) = hash {
            let value = codec::encode_u64(number);
            audit.push(&mut self.hashes, hash.as_slice(), &value)?;
        }
        let row = self.walks.headers.take(audit, number)?;
        let header: Option<Header> =
            required(audit, Table::Headers, number, row, codec::decode_compact);
        if let Some(header) = &header {
            self.check_header(audit, number, header, hash);
        }
        self.parent = hash;
        self.check_ommers(audit, number, header.as_ref())?;
        self.check_withdrawals(audit, number, header.as_ref())?;
        self.check_body(audit, number, header.as_ref())
    }

    fn check_header(
        &self,
        audit: &mut Audit<'_>,
        number: u64,
        header: &Header,
        hash: Option<B256>,
    ) {
        let mut find = |problem: String| audit.find(Table::Headers, number.to_string(), problem);
        if header.number != number {
            find(format!("says number {}", header.number));
        }
        let computed = header.hash_slow();
        if let Some(hash) = hash.filter(|hash| *hash != computed) {
            find(format!(
                "hashes to {computed}, the canonical hash is {hash}"
            ));
        }
        if let Some(parent) = self.parent.filter(|parent| *parent != header.parent_hash) {
            find(format!(
                "says parent {}, the block before is {parent}",
                header.parent_hash
            ));
        }
    }

    fn check_ommers(
        &mut self,
        audit: &mut Audit<'_>,
        number: u64,
        header: Option<&Header>,
    ) -> Result<(), DbError> {
        let table = Table::BlockOmmers;
        let row = self.walks.ommers.take(audit, number)?;
        let stored = row.is_some();
        let ommers: Option<Vec<Header>> = optional(audit, table, number, row, codec::decode_list);
        if let (Some(header), false) = (header, stored && ommers.is_none()) {
            let root = calculate_ommers_root(&ommers.unwrap_or_default());
            expect_root(audit, table, number, root, header.ommers_hash);
        }
        Ok(())
    }

    fn check_withdrawals(
        &mut self,
        audit: &mut Audit<'_>,
        number: u64,
        header: Option<&Header>,
    ) -> Result<(), DbError> {
        let table = Table::BlockWithdrawals;
        let row = self.walks.withdrawals.take(audit, number)?;
        let stored = row.is_some();
        let list: Option<Withdrawals> = optional(audit, table, number, row, codec::decode_list);
        let Some(header) = header.filter(|_| !stored || list.is_some()) else {
            return Ok(());
        };
        match header.withdrawals_root {
            Some(expected) => {
                let root = calculate_withdrawals_root(&list.unwrap_or_default());
                expect_root(audit, table, number, root, expected);
            }
            None if stored => audit.find(table, number.to_string(), "the header has none"),
            None => {}
        }
        Ok(())
    }

    fn check_body(
        &mut self,
        audit: &mut Audit<'_>,
        number: u64,
        header: Option<&Header>,
    ) -> Result<(), DbError> {
        let table = Table::BlockBodyIndices;
        let row = self.walks.bodies.take(audit, number)?;
        let Some(indices) = required(audit, table, number, row, BodyIndices::decode) else {
            return Ok(());
        };
        if indices.first != self.next_transaction {
            let problem = format!(
                "begins at transaction {}, should be {}",
                indices.first, self.next_transaction
            );
            audit.find(table, number.to_string(), problem);
        }
        if indices.first.checked_add(indices.count).is_none() {
            audit.find(
                table,
                number.to_string(),
                "has more transactions than numbers",
            );
            return Ok(());
        }
        self.next_transaction = indices.next();
        let transactions = self.transactions(audit, indices)?;
        let receipts = self.receipts(audit, indices)?;
        let senders = self.senders(audit, indices)?;
        if let Some(last) = indices.next().checked_sub(1).filter(|_| indices.count > 0) {
            let table = Table::TransactionBlocks;
            let row = self.walks.last_transactions.take(audit, last)?;
            let block = required(audit, table, last, row, codec::decode_u64);
            if let Some(block) = block.filter(|block| *block != number) {
                audit.find(
                    table,
                    last.to_string(),
                    format!("is {block}, should be {number}"),
                );
            }
        }
        let body = Body {
            number,
            first: indices.first,
            transactions,
            receipts,
            senders,
        };
        if let Some(header) = header {
            body.check(audit, header);
        }
        Ok(())
    }

    /// The block's transactions by number, as far as they decode.
    fn transactions(
        &mut self,
        audit: &mut Audit<'_>,
        indices: BodyIndices,
    ) -> Result<Rows<TransactionSigned>, DbError> {
        let mut found = Rows::default();
        for number in indices.first..indices.next() {
            let row = self.walks.transactions.take(audit, number)?;
            let transaction: Option<TransactionSigned> = required(
                audit,
                Table::Transactions,
                number,
                row,
                codec::decode_compact,
            );
            found.add(number, transaction);
            audit.step();
            if audit.findings_overflow(Table::Transactions) {
                break;
            }
        }
        for (number, transaction) in &found.rows {
            let value = codec::encode_u64(*number);
            let hash = transaction.tx_hash();
            audit.push(&mut self.lookups, hash.as_slice(), &value)?;
        }
        Ok(found)
    }

    fn receipts(
        &mut self,
        audit: &mut Audit<'_>,
        indices: BodyIndices,
    ) -> Result<Rows<Receipt>, DbError> {
        let mut found = Rows::default();
        for number in indices.first..indices.next() {
            let row = self.walks.receipts.take(audit, number)?;
            let receipt = required(audit, Table::Receipts, number, row, codec::decode_compact);
            found.add(number, receipt);
            if audit.findings_overflow(Table::Receipts) {
                break;
            }
        }
        Ok(found)
    }

    fn senders(
        &mut self,
        audit: &mut Audit<'_>,
        indices: BodyIndices,
    ) -> Result<Rows<Address>, DbError> {
        let table = Table::TransactionSenders;
        let mut found = Rows::default();
        for number in indices.first..indices.next() {
            let row = self.walks.senders.take(audit, number)?;
            let sender = required(audit, table, number, row, |value| {
                Address::try_from(value).ok()
            });
            found.add(number, sender);
            if audit.findings_overflow(table) {
                break;
            }
        }
        Ok(found)
    }
}

/// Rows of one block by transaction number.
struct Rows<T> {
    rows: BTreeMap<u64, T>,
    /// Whether none is missing.
    whole: bool,
}

impl<T> Default for Rows<T> {
    fn default() -> Self {
        Self {
            rows: BTreeMap::new(),
            whole: true,
        }
    }
}

impl<T> Rows<T> {
    fn add(&mut self, number: u64, row: Option<T>) {
        match row {
            Some(row) => drop(self.rows.insert(number, row)),
            None => self.whole = false,
        }
    }
}

/// What a header's roots are made of.
struct Body {
    number: u64,
    first: u64,
    transactions: Rows<TransactionSigned>,
    receipts: Rows<Receipt>,
    senders: Rows<Address>,
}

impl Body {
    fn check(&self, audit: &mut Audit<'_>, header: &Header) {
        if self.transactions.whole {
            let transactions: Vec<_> = self.transactions.rows.values().collect();
            let root = calculate_transaction_root(&transactions);
            let expected = header.transactions_root;
            if !expect_root(audit, Table::Transactions, self.number, root, expected) {
                return;
            }
        }
        self.check_senders(audit);
        if self.receipts.whole
            && let Some(problem) = self.receipts_problem(audit.options.receipts_root_from, header)
        {
            let key = format!("{} (block {})", self.first, self.number);
            audit.find(Table::Receipts, key, problem);
        }
    }

    fn check_senders(&self, audit: &mut Audit<'_>) {
        let wrong: Vec<_> = self
            .transactions
            .rows
            .par_iter()
            .filter_map(|(number, transaction)| {
                let stored = self.senders.rows.get(number)?;
                // Unchecked, because before Homestead any `s` was allowed.
                let signer = transaction.recover_signer_unchecked().ok();
                (signer != Some(*stored)).then_some((*number, *stored, signer))
            })
            .collect();
        for (number, stored, signer) in wrong {
            let problem = match signer {
                Some(signer) => format!("is {stored}, the signature is of {signer}"),
                None => format!("is {stored}, the signature is of nobody"),
            };
            audit.find(Table::TransactionSenders, number.to_string(), problem);
        }
    }

    /// The first thing that does not fit the header or the transactions.
    fn receipts_problem(&self, roots_from: u64, header: &Header) -> Option<String> {
        let receipts: Vec<&Receipt> = self.receipts.rows.values().collect();
        let mut gas_used = 0;
        let mut bloom = Bloom::ZERO;
        for (number, receipt) in &self.receipts.rows {
            if receipt.cumulative_gas_used < gas_used {
                return Some(format!("receipt {number} lowers the cumulative gas"));
            }
            gas_used = receipt.cumulative_gas_used;
            bloom.accrue_bloom(&receipt.bloom());
            let transaction = self.transactions.rows.get(number);
            if transaction.is_some_and(|t| t.tx_type() != receipt.tx_type) {
                return Some(format!("receipt {number} is of another transaction type"));
            }
        }
        if gas_used != header.gas_used {
            let expected = header.gas_used;
            return Some(format!(
                "gas used is {gas_used}, the header says {expected}"
            ));
        }
        if bloom != header.logs_bloom {
            return Some("the bloom of the logs is not the header's".to_owned());
        }
        let with_bloom: Vec<_> = receipts.iter().map(|r| r.with_bloom_ref()).collect();
        let root = calculate_receipt_root(&with_bloom);
        (self.number >= roots_from && root != header.receipts_root)
            .then(|| format!("root is {root}, the header says {}", header.receipts_root))
    }
}

/// Finds a root that is not the header's. The key is the block.
fn expect_root(
    audit: &mut Audit<'_>,
    table: Table,
    number: u64,
    root: B256,
    expected: B256,
) -> bool {
    if root != expected {
        let problem = format!("root is {root}, the header says {expected}");
        audit.find(table, format!("block {number}"), problem);
    }
    root == expected
}
