//! The rules a block must keep besides executing: payload shape, header against parent, results
//! against header.
//!
//! Every failure is a sentence with the value found and the value expected.

use super::execute::Executed;
use crate::{
    chainspec::ChainSpec,
    primitives::{Receipt, TransactionSigned},
};
use alloy_consensus::{
    Header, Transaction, TxReceipt,
    proofs::{calculate_receipt_root, ordered_trie_root_encoded},
};
use alloy_eips::{eip4844::DATA_GAS_PER_BLOB, eip4895::Withdrawals};
use alloy_hardforks::EthereumHardforks;
use alloy_primitives::{B256, Bloom, Bytes};
use alloy_rlp::Encodable;
use alloy_rpc_types_engine::{ExecutionData, ExecutionPayloadSidecar, PayloadError};
use std::sync::Arc;

/// Smallest gas limit of a block (yellow paper, equation 47).
const MINIMUM_GAS_LIMIT: u64 = 5000;
/// A gas limit moves by less than this fraction of its parent's.
const GAS_LIMIT_BOUND_DIVISOR: u64 = 1024;
/// Largest RLP of a block, in bytes (EIP-7934: 10 MiB less a margin of 2 MiB).
pub(super) const MAX_BLOCK_BYTES: usize = 8 << 20;

/// What is wrong with a block.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub(super) struct Invalid {
    /// What was found and what was expected.
    pub(super) message: String,
    /// Whether the answer names the parent as latest valid block. Not so when the payload is not
    /// the block it says it is (Engine API, `engine_newPayloadV1` point 6; V3 on blob hashes).
    pub(super) names_parent: bool,
}

impl Invalid {
    pub(super) fn block(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            names_parent: true,
        }
    }

    fn payload(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            names_parent: false,
        }
    }

    /// Refuses when a field differs from what it must be.
    fn unless_equal<T: PartialEq + std::fmt::Display>(
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
    sidecar: ExecutionPayloadSidecar,
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
            sidecar,
        })
    }

    /// Sets the transactions root and compares the block hash with the claimed one.
    pub(super) fn seal(&mut self, transactions_root: B256) -> Result<(), Invalid> {
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

    /// Checks the claimed hash on this thread, for payloads that are not executed now.
    pub(super) fn check_hash(&mut self) -> Result<(), Invalid> {
        let root = ordered_trie_root_encoded(&self.transactions);
        self.seal(root)
    }

    /// Compares the blob hashes given beside the payload with those of its transactions.
    pub(super) fn check_blob_hashes(
        &self,
        transactions: &[TransactionSigned],
    ) -> Result<(), Invalid> {
        let Some(expected) = self.sidecar.versioned_hashes() else {
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

/// Checks a header against its parent and the fork rules.
pub(super) fn check_header(
    chain: &ChainSpec,
    header: &Header,
    parent: &Header,
) -> Result<(), Invalid> {
    Invalid::unless_equal("block number", header.number, parent.number + 1)?;
    if header.timestamp <= parent.timestamp {
        return Err(Invalid::block(format!(
            "timestamp {} is not after the parent's {}",
            header.timestamp, parent.timestamp
        )));
    }
    check_gas_limit(header, parent)?;
    let base_fee = header.base_fee_per_gas.unwrap_or_default();
    Invalid::unless_equal("base fee per gas", base_fee, chain.next_base_fee(parent))?;
    check_fork_fields(chain, header)?;
    check_blob_gas(chain, header, parent)
}

fn check_gas_limit(header: &Header, parent: &Header) -> Result<(), Invalid> {
    if header.gas_used > header.gas_limit {
        return Err(Invalid::block(format!(
            "gas used {} is above the gas limit {}",
            header.gas_used, header.gas_limit
        )));
    }
    let bound = parent.gas_limit / GAS_LIMIT_BOUND_DIVISOR;
    if header.gas_limit.abs_diff(parent.gas_limit) >= bound.max(1)
        && header.gas_limit != parent.gas_limit
    {
        return Err(Invalid::block(format!(
            "gas limit {} moves by {bound} or more from the parent's {}",
            header.gas_limit, parent.gas_limit
        )));
    }
    if header.gas_limit < MINIMUM_GAS_LIMIT {
        return Err(Invalid::block(format!(
            "gas limit {} is below {MINIMUM_GAS_LIMIT}",
            header.gas_limit
        )));
    }
    Ok(())
}

/// Each optional field appears with the fork that introduced it.
fn check_fork_fields(chain: &ChainSpec, header: &Header) -> Result<(), Invalid> {
    let at = header.timestamp;
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

/// Fields of a header that depend on the receipts alone.
pub(super) struct ReceiptSummary {
    /// Root of the trie of receipts.
    pub(super) root: B256,
    /// Union of the receipts' blooms.
    pub(super) bloom: Bloom,
}

impl ReceiptSummary {
    /// Hashes every receipt, which is worth a thread of its own.
    pub(super) fn of(receipts: &[Receipt]) -> Self {
        let with_bloom: Vec<_> = receipts.iter().map(TxReceipt::with_bloom_ref).collect();
        let mut bloom = Bloom::ZERO;
        for receipt in &with_bloom {
            bloom.accrue_bloom(&receipt.logs_bloom);
        }
        Self {
            root: calculate_receipt_root(&with_bloom),
            bloom,
        }
    }
}

/// Checks what execution produced against the header; the state root is checked by itself.
pub(super) fn check_results(
    header: &Header,
    executed: &Executed,
    receipts: &ReceiptSummary,
) -> Result<(), Invalid> {
    Invalid::unless_equal("gas used", header.gas_used, executed.gas_used)?;
    Invalid::unless_equal("receipts root", header.receipts_root, receipts.root)?;
    if header.logs_bloom != receipts.bloom {
        return Err(Invalid::block("logs bloom does not match the receipts"));
    }
    if let Some(expected) = header.requests_hash {
        Invalid::unless_equal("requests hash", expected, executed.requests.requests_hash())?;
    }
    if let Some(blob_gas_used) = header.blob_gas_used {
        Invalid::unless_equal("blob gas used", blob_gas_used, executed.blob_gas_used)?;
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
