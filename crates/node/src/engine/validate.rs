//! The rules a block must keep besides executing: payload shape, header against parent, results
//! against header.
//!
//! Every failure is a sentence with the value found and the value expected.

use super::{
    era::{BlockRules, check_era},
    execute::Executed,
    receipts::ReceiptSummary,
};
use crate::{
    chainspec::ChainSpec,
    primitives::{Block, TransactionSigned},
};
use alloy_consensus::{
    EMPTY_OMMER_ROOT_HASH, Header, Transaction,
    constants::MAXIMUM_EXTRA_DATA_SIZE,
    proofs::{calculate_ommers_root, calculate_withdrawals_root, ordered_trie_root_encoded},
};
use alloy_eips::{
    eip1559::DEFAULT_ELASTICITY_MULTIPLIER,
    eip2718::{Decodable2718, Encodable2718},
    eip4844::DATA_GAS_PER_BLOB,
    eip4895::Withdrawals,
};
use alloy_hardforks::EthereumHardforks;
use alloy_primitives::{B256, Bytes};
use alloy_rlp::Encodable;
use alloy_rpc_types_engine::{ExecutionData, ExecutionPayloadSidecar, PayloadError};
use std::sync::Arc;

/// Smallest gas limit of a block (yellow paper, equation 47).
pub(super) const MINIMUM_GAS_LIMIT: u64 = 5000;
/// A gas limit moves by less than this fraction of its parent's.
pub(super) const GAS_LIMIT_BOUND_DIVISOR: u64 = 1024;
/// Largest gas limit of a block (EIP-1985).
const MAXIMUM_GAS_LIMIT: u64 = i64::MAX as u64;
/// Extra data of the first blocks after the DAO fork, on the side that supports it (EIP-779).
const DAO_EXTRA_DATA: &[u8] = b"dao-hard-fork";
/// How many blocks carry it.
const DAO_EXTRA_DATA_BLOCKS: u64 = 10;
/// Largest RLP of a block, in bytes (EIP-7934: 10 MiB less a margin of 2 MiB).
pub(super) const MAX_BLOCK_BYTES: usize = 8 << 20;

/// What is wrong with a block.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub(super) struct Invalid {
    /// What was found and what was expected.
    pub(super) message: String,
    /// What it is wrong with, which decides the answer's latest valid hash.
    pub(super) blame: Blame,
}

/// What a problem says about (Engine API, `engine_newPayloadV1` point 6; V3 on blob hashes).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Blame {
    /// The payload is not the block it says it is; nothing is known about that block.
    Payload,
    /// The block is invalid, and the answer names no valid ancestor: a transaction is no
    /// transaction.
    Encoding,
    /// The block is invalid, and the answer names the last valid ancestor.
    Block,
}

impl Invalid {
    pub(super) fn block(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            blame: Blame::Block,
        }
    }

    fn payload(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            blame: Blame::Payload,
        }
    }

    /// Refuses when a field differs from what it must be.
    pub(super) fn unless_equal<T: PartialEq + std::fmt::Display>(
        field: &str,
        got: T,
        expected: T,
    ) -> Result<(), Self> {
        if got == expected {
            return Ok(());
        }
        Err(Self::block(format!(
            "{field} mismatch: got {got}, expected {expected}"
        )))
    }
}

impl From<PayloadError> for Invalid {
    fn from(error: PayloadError) -> Self {
        Self::block(error.to_string())
    }
}

/// A payload taken apart, transactions still encoded and shared with the worker threads.
pub(super) struct Payload {
    /// The header; its transactions root is the zero hash until [`Payload::seal`].
    pub(super) header: Header,
    /// The hash the payload claims.
    pub(super) hash: B256,
    /// EIP-2718 encoded transactions.
    pub(super) transactions: Arc<Vec<Bytes>>,
    /// Withdrawals; present from Shanghai.
    pub(super) withdrawals: Option<Withdrawals>,
    /// Ommers; only proof-of-work blocks have any.
    pub(super) ommers: Vec<Header>,
    origin: Origin,
}

/// Where a payload came from.
enum Origin {
    /// The Engine API: fields and a claimed hash. The header was made from the fields.
    EngineApi(ExecutionPayloadSidecar),
    /// A file of blocks: a header as it is, and a body that has to fit it.
    Block,
}

impl Payload {
    /// Takes the payload apart. The transactions root is left to a worker thread.
    pub(super) fn new(data: ExecutionData) -> Result<Self, Invalid> {
        let ExecutionData {
            mut payload,
            sidecar,
        } = data;
        let hash = payload.block_hash();
        let transactions = std::mem::take(payload.transactions_mut());
        let block =
            payload.into_block_with_sidecar_raw_with_transactions_root(&sidecar, B256::ZERO)?;
        Ok(Self {
            header: block.header,
            hash,
            transactions: Arc::new(transactions),
            withdrawals: block.body.withdrawals,
            ommers: Vec::new(),
            origin: Origin::EngineApi(sidecar),
        })
    }

    /// Takes a whole block apart.
    pub(super) fn of_block(block: Block) -> Self {
        let encoded = block.body.transactions.iter();
        let encoded = encoded.map(|transaction| transaction.encoded_2718().into());
        Self {
            hash: block.header.hash_slow(),
            transactions: Arc::new(encoded.collect()),
            header: block.header,
            withdrawals: block.body.withdrawals,
            ommers: block.body.ommers,
            origin: Origin::Block,
        }
    }

    /// Compares the body with the header, whose hash is known to be right or compared as well.
    pub(super) fn seal(&mut self, transactions_root: B256) -> Result<(), Invalid> {
        if matches!(self.origin, Origin::Block) {
            return self.check_body(transactions_root);
        }
        self.header.transactions_root = transactions_root;
        let computed = self.header.hash_slow();
        if computed == self.hash {
            return Ok(());
        }
        Err(Invalid::payload(format!(
            "block hash mismatch: payload says {}, its fields hash to {computed}",
            self.hash
        )))
    }

    /// Compares the roots of the body with those in the header.
    fn check_body(&self, transactions_root: B256) -> Result<(), Invalid> {
        let ommers = if self.ommers.is_empty() {
            EMPTY_OMMER_ROOT_HASH
        } else {
            calculate_ommers_root(&self.ommers)
        };
        let withdrawals = self.withdrawals.as_ref();
        let withdrawals = withdrawals.map(|list| calculate_withdrawals_root(list));
        let header = &self.header;
        let roots = [
            (
                "transactions root",
                Some(transactions_root),
                Some(header.transactions_root),
            ),
            ("ommers hash", Some(ommers), Some(header.ommers_hash)),
            ("withdrawals root", withdrawals, header.withdrawals_root),
        ];
        for (field, found, expected) in roots {
            if found != expected {
                let shown = |root: Option<B256>| root.map_or("none".into(), |r| r.to_string());
                return Err(Invalid::payload(format!(
                    "{field} mismatch: the body has {}, the header {}",
                    shown(found),
                    shown(expected)
                )));
            }
        }
        Ok(())
    }

    /// Checks what can be checked without the chain, on this thread: the claimed hash, that every
    /// transaction is one, and the blob hashes given beside the payload.
    pub(super) fn check_alone(&mut self) -> Result<(), Invalid> {
        let root = ordered_trie_root_encoded(&self.transactions);
        self.seal(root)?;
        let decoded: Result<Vec<_>, _> = self
            .transactions
            .iter()
            .enumerate()
            .map(|(index, encoded)| decode(index, encoded))
            .collect();
        self.check_blob_hashes(&decoded?)
    }

    /// Compares the blob hashes given beside the payload with those of its transactions.
    pub(super) fn check_blob_hashes(
        &self,
        transactions: &[TransactionSigned],
    ) -> Result<(), Invalid> {
        let Origin::EngineApi(sidecar) = &self.origin else {
            return Ok(());
        };
        let Some(expected) = sidecar.versioned_hashes() else {
            return Ok(());
        };
        let found = transactions
            .iter()
            .filter_map(|transaction| transaction.blob_versioned_hashes())
            .flatten();
        if found.eq(expected.iter()) {
            return Ok(());
        }
        Err(Invalid::payload(
            "expected blob versioned hashes do not match the transactions",
        ))
    }
}

fn decode(index: usize, encoded: &[u8]) -> Result<TransactionSigned, Invalid> {
    TransactionSigned::decode_2718_exact(encoded).map_err(|problem| Invalid {
        message: format!("transaction {index} cannot be decoded: {problem}"),
        blame: Blame::Encoding,
    })
}

/// Checks a header against its parent and the fork rules.
pub(super) fn check_header(
    rules: BlockRules<'_>,
    header: &Header,
    parent: &Header,
) -> Result<(), Invalid> {
    let chain = rules.chain;
    Invalid::unless_equal("block number", header.number, parent.number + 1)?;
    if header.timestamp <= parent.timestamp {
        return Err(Invalid::block(format!(
            "timestamp {} is not after the parent's {}",
            header.timestamp, parent.timestamp
        )));
    }
    check_extra_data(header)?;
    check_gas(chain, header, parent)?;
    check_fork_fields(chain, header)?;
    check_era(rules, header, parent)?;
    check_blob_gas(chain, header, parent)
}

/// The extra data of any block has at most 32 bytes.
pub(super) fn check_extra_data(header: &Header) -> Result<(), Invalid> {
    let bytes = header.extra_data.len();
    if bytes > MAXIMUM_EXTRA_DATA_SIZE {
        return Err(Invalid::block(format!(
            "extra data has {bytes} bytes, at most {MAXIMUM_EXTRA_DATA_SIZE} are allowed"
        )));
    }
    Ok(())
}

/// EIP-779: the first blocks after the fork carry its name on one side, and not on the other.
pub(super) fn check_dao_extra_data(chain: &ChainSpec, header: &Header) -> Result<(), Invalid> {
    let Some((supported, fork)) = chain.dao_fork() else {
        return Ok(());
    };
    let marked = header.number >= fork && header.number - fork < DAO_EXTRA_DATA_BLOCKS;
    if !marked || (header.extra_data.as_ref() == DAO_EXTRA_DATA) == supported {
        return Ok(());
    }
    Err(Invalid::block(format!(
        "extra data {} is that of the other side of the DAO fork",
        header.extra_data
    )))
}

/// Gas used, gas limit and base fee.
pub(super) fn check_gas(
    chain: &ChainSpec,
    header: &Header,
    parent: &Header,
) -> Result<(), Invalid> {
    if !chain.is_london_active_at_block(header.number) {
        if header.base_fee_per_gas.is_some() {
            return Err(Invalid::block(
                "base fee per gas is not allowed before London",
            ));
        }
        return check_gas_limit(header, parent.gas_limit);
    }
    let mut parent_limit = parent.gas_limit;
    if !chain.is_london_active_at_block(parent.number) {
        parent_limit = parent_limit.saturating_mul(DEFAULT_ELASTICITY_MULTIPLIER);
    }
    check_gas_limit(header, parent_limit)?;
    let base_fee = header
        .base_fee_per_gas
        .ok_or_else(|| Invalid::block("base fee per gas is missing"))?;
    Invalid::unless_equal("base fee per gas", base_fee, chain.next_base_fee(parent))
}

fn check_gas_limit(header: &Header, parent_limit: u64) -> Result<(), Invalid> {
    if header.gas_used > header.gas_limit {
        return Err(Invalid::block(format!(
            "gas used {} is above the gas limit {}",
            header.gas_used, header.gas_limit
        )));
    }
    let bound = parent_limit / GAS_LIMIT_BOUND_DIVISOR;
    if header.gas_limit.abs_diff(parent_limit) >= bound {
        return Err(Invalid::block(format!(
            "gas limit {} moves by {bound} or more from the parent's {parent_limit}",
            header.gas_limit
        )));
    }
    if !(MINIMUM_GAS_LIMIT..=MAXIMUM_GAS_LIMIT).contains(&header.gas_limit) {
        return Err(Invalid::block(format!(
            "gas limit {} is not from {MINIMUM_GAS_LIMIT} to {MAXIMUM_GAS_LIMIT}",
            header.gas_limit
        )));
    }
    Ok(())
}

/// Each optional field appears with the fork that introduced it.
pub(super) fn check_fork_fields(chain: &ChainSpec, header: &Header) -> Result<(), Invalid> {
    let at = header.timestamp;
    if chain.is_amsterdam_active_at_timestamp(at) {
        return Err(Invalid::block(format!(
            "the fork Amsterdam is not supported (timestamp {at})"
        )));
    }
    let cancun = chain.is_cancun_active_at_timestamp(at);
    let fields = [
        (
            "withdrawals root",
            header.withdrawals_root.is_some(),
            chain.is_shanghai_active_at_timestamp(at),
        ),
        ("blob gas used", header.blob_gas_used.is_some(), cancun),
        ("excess blob gas", header.excess_blob_gas.is_some(), cancun),
        (
            "parent beacon block root",
            header.parent_beacon_block_root.is_some(),
            cancun,
        ),
        (
            "requests hash",
            header.requests_hash.is_some(),
            chain.is_prague_active_at_timestamp(at),
        ),
        (
            "block access list hash",
            header.block_access_list_hash.is_some(),
            false,
        ),
        ("slot number", header.slot_number.is_some(), false),
    ];
    for (field, present, required) in fields {
        if present != required {
            let problem = if required {
                "is missing"
            } else {
                "is not allowed before its fork"
            };
            return Err(Invalid::block(format!(
                "{field} {problem} (timestamp {at})"
            )));
        }
    }
    Ok(())
}

/// EIP-4844 with the blob schedule of EIP-7840 and the reserve price of EIP-7918.
fn check_blob_gas(chain: &ChainSpec, header: &Header, parent: &Header) -> Result<(), Invalid> {
    let Some(params) = chain.blob_params_at(header.timestamp) else {
        return Ok(());
    };
    let used = header.blob_gas_used.unwrap_or_default();
    let maximum = params.max_blob_gas_per_block();
    if used > maximum || !used.is_multiple_of(DATA_GAS_PER_BLOB) {
        return Err(Invalid::block(format!(
            "blob gas used {used} is not a multiple of {DATA_GAS_PER_BLOB} up to {maximum}"
        )));
    }
    let expected = parent
        .next_block_excess_blob_gas(params)
        .unwrap_or_default();
    Invalid::unless_equal(
        "excess blob gas",
        header.excess_blob_gas.unwrap_or_default(),
        expected,
    )
}

/// EIP-7934: the RLP of a block is bounded from Osaka on.
pub(super) fn check_size(chain: &ChainSpec, payload: &Payload) -> Result<(), Invalid> {
    if !chain.is_osaka_active_at_timestamp(payload.header.timestamp) {
        return Ok(());
    }
    let bytes = block_bytes(
        &payload.header,
        &payload.transactions,
        payload.withdrawals.as_ref(),
    );
    if bytes > MAX_BLOCK_BYTES {
        return Err(Invalid::block(format!(
            "block is {bytes} bytes, above the limit of {MAX_BLOCK_BYTES}"
        )));
    }
    Ok(())
}

/// Length of a block's RLP in bytes, from its EIP-2718 encoded transactions.
fn block_bytes(header: &Header, encoded: &[Bytes], withdrawals: Option<&Withdrawals>) -> usize {
    let transactions = encoded
        .iter()
        .map(|transaction| transaction_bytes(transaction))
        .sum();
    let ommers = 1;
    let payload = header.length()
        + list_bytes(transactions)
        + ommers
        + withdrawals.map_or(0, |withdrawals| withdrawals.length());
    list_bytes(payload)
}

/// Length of a transaction inside a block: a legacy one is a list already, a typed one is wrapped
/// in a string.
pub(super) fn transaction_bytes(encoded: &[u8]) -> usize {
    let is_legacy = encoded
        .first()
        .is_some_and(|first| *first >= alloy_rlp::EMPTY_LIST_CODE);
    if is_legacy {
        encoded.len()
    } else {
        encoded.length()
    }
}

fn list_bytes(payload_length: usize) -> usize {
    alloy_rlp::Header {
        list: true,
        payload_length,
    }
    .length_with_payload()
}

/// Checks what execution produced against the header; the state root is checked by itself.
pub(super) fn check_results(
    header: &Header,
    executed: &Executed,
    receipts: &ReceiptSummary,
) -> Result<(), Invalid> {
    Invalid::unless_equal("gas used", executed.gas_used, header.gas_used)?;
    Invalid::unless_equal("receipts root", receipts.root, header.receipts_root)?;
    if header.logs_bloom != receipts.bloom {
        return Err(Invalid::block("logs bloom does not match the receipts"));
    }
    if let Some(expected) = header.requests_hash {
        let computed = executed.requests.requests_hash();
        Invalid::unless_equal("requests hash", computed, expected)?;
    }
    if let Some(expected) = header.blob_gas_used {
        Invalid::unless_equal("blob gas used", executed.blob_gas_used, expected)?;
    }
    Ok(())
}

/// Checks the state root.
pub(super) fn check_state_root(header: &Header, computed: B256) -> Result<(), Invalid> {
    if computed == header.state_root {
        return Ok(());
    }
    // Worded as reth words it: what was computed is what it got.
    Err(Invalid::block(format!(
        "mismatched block state root: got {computed}, expected {}",
        header.state_root
    )))
}
