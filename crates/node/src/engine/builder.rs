//! Builds blocks on any parent whose state is available, without changing the chain.
//!
//! State roots of built blocks come from the serial reference, so that a built block that is then
//! validated has had its root computed in two ways.

use super::{
    EngineError,
    era::{BlockRules, Era},
    execute::{BlockRun, ExecuteError, Executed, Rewarded, open_state},
    reader::{ChainReader, ReadError, Shared},
    receipts::ReceiptSummary,
    root::{account_changes, root_after},
    senders::{SenderError, SenderRecovery, SenderStream, SignatureRules},
    tree::ParentState,
    validate::{self, MAX_BLOCK_BYTES},
};
use crate::{
    chainspec::ChainSpec,
    pool::Best,
    primitives::{Block, SealedBlock, TransactionSigned},
};
use alloy_consensus::{
    BlockBody, EMPTY_OMMER_ROOT_HASH, Header, Transaction,
    proofs::{calculate_transaction_root, calculate_withdrawals_root},
    transaction::Recovered,
};
use alloy_eips::{
    eip2718::Encodable2718, eip4895::Withdrawals, eip7594::BlobTransactionSidecarVariant,
    eip7685::Requests,
};
use alloy_evm::block::{BlockExecutionError, BlockValidationError};
use alloy_hardforks::EthereumHardforks;
use alloy_primitives::{Address, B64, B256, Bytes, Keccak256, U256, map::AddressSet};
use alloy_rlp::Encodable;
use alloy_rpc_types_engine::{PayloadAttributes, PayloadId};
use state_root::updates::AccountChange;
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// Gas of the cheapest transaction: with less left a block is full.
const MIN_TRANSACTION_GAS: u64 = 21_000;
/// Room kept below the size limit for header and list prefixes, in bytes.
const BLOCK_OVERHEAD_BYTES: usize = 1024;

/// How often a block is begun when the database moves meanwhile.
const MAX_ATTEMPTS: usize = 16;
/// Time for the engine to take note that the database has moved.
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(2);

/// What to build.
#[derive(Debug, Clone)]
pub struct BuildRequest {
    /// The block to build on.
    pub parent_hash: B256,
    /// Timestamp, randomness, fee recipient, withdrawals, beacon root.
    pub attributes: PayloadAttributes,
    /// EIP-2718 encoded transactions in order; `None` means the best of the pool.
    pub transactions: Option<Vec<Bytes>>,
    /// Header extra data, at most 32 bytes; `None` means empty.
    pub extra_data: Option<Bytes>,
    /// Gas limit of the block; `None` means the parent's.
    pub gas_limit: Option<u64>,
}

/// A built block, ready to become a payload.
#[derive(Debug, Clone)]
pub struct BuiltPayload {
    /// The block and its hash.
    pub block: SealedBlock,
    /// EIP-7685 requests; empty before Prague.
    pub requests: Requests,
    /// Sum over transactions of priority fee per gas × gas used, in wei.
    pub fees: U256,
    /// Blobs of the transactions that came from the pool, in order.
    pub sidecars: Vec<Arc<BlobTransactionSidecarVariant>>,
}

/// Why a block could not be built.
#[derive(Debug, Clone, thiserror::Error)]
pub enum BuildError {
    /// The parent is not known, or its state can no longer be read.
    #[error("build on {0}: the block or its state is not available")]
    UnknownParent(B256),
    /// The attributes do not fit the parent or the fork.
    #[error("build a block: {0}")]
    InvalidAttributes(String),
    /// A transaction cannot be included.
    #[error("include transaction {index}: {reason}")]
    InvalidTransaction {
        /// Position in the request, from zero.
        index: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// Reading state or computing the root failed.
    #[error("build a block: {0}")]
    Internal(String),
}

impl From<ReadError> for BuildError {
    fn from(error: ReadError) -> Self {
        Self::Internal(error.to_string())
    }
}

impl From<EngineError> for BuildError {
    fn from(error: EngineError) -> Self {
        Self::Internal(error.to_string())
    }
}

impl From<ExecuteError> for BuildError {
    fn from(error: ExecuteError) -> Self {
        Self::Internal(error.to_string())
    }
}

/// The identity of a payload being built: equal for equal parents and attributes.
pub(super) fn payload_id(parent: B256, attributes: &PayloadAttributes) -> PayloadId {
    let mut hasher = Keccak256::new();
    hasher.update(parent);
    hasher.update(attributes.timestamp.to_be_bytes());
    hasher.update(attributes.prev_randao);
    hasher.update(attributes.suggested_fee_recipient);
    if let Some(withdrawals) = &attributes.withdrawals {
        hasher.update(alloy_rlp::encode(withdrawals));
    }
    if let Some(root) = attributes.parent_beacon_block_root {
        hasher.update(root);
    }
    PayloadId(B64::from_slice(&hasher.finalize()[..8]))
}

/// Checks attributes against the parent and the fork rules (Engine API, forkchoiceUpdated).
pub(super) fn check_attributes(
    chain: &ChainSpec,
    parent: &Header,
    attributes: &PayloadAttributes,
) -> Result<(), BuildError> {
    let at = attributes.timestamp;
    if at <= parent.timestamp {
        return Err(BuildError::InvalidAttributes(format!(
            "timestamp {at} is not after the parent's {}",
            parent.timestamp
        )));
    }
    let fields = [
        (
            "withdrawals",
            attributes.withdrawals.is_some(),
            chain.is_shanghai_active_at_timestamp(at),
        ),
        (
            "parentBeaconBlockRoot",
            attributes.parent_beacon_block_root.is_some(),
            chain.is_cancun_active_at_timestamp(at),
        ),
    ];
    for (field, present, required) in fields {
        if present != required {
            let problem = if required {
                "is missing"
            } else {
                "is not allowed before its fork"
            };
            return Err(BuildError::InvalidAttributes(format!(
                "{field} {problem} (timestamp {at})"
            )));
        }
    }
    Ok(())
}

/// Builds the block `request` describes.
///
/// Blocks are built beside the engine, so persistence or a reorganisation can take away the database
/// state that one was begun on; then it is begun anew.
pub(super) fn build(
    chain: &ChainReader,
    request: &BuildRequest,
    skip_invalid: bool,
) -> Result<BuiltPayload, BuildError> {
    let shared = &chain.shared;
    let mut attempts = 1;
    loop {
        let parent = shared.state_after(request.parent_hash)?;
        let parent = parent.ok_or(BuildError::UnknownParent(request.parent_hash))?;
        let built = build_on(chain, &parent, request, skip_invalid);
        if built.is_ok() || attempts == MAX_ATTEMPTS || shared.stored_head()? == parent.anchor {
            return built;
        }
        attempts += 1;
        std::thread::sleep(BETWEEN_ATTEMPTS);
    }
}

fn build_on(
    chain: &ChainReader,
    parent: &ParentState,
    request: &BuildRequest,
    skip_invalid: bool,
) -> Result<BuiltPayload, BuildError> {
    let shared = &chain.shared;
    let unknown = || BuildError::UnknownParent(request.parent_hash);
    let mut header = unexecuted_header(&shared.chain, &parent.tip.header, request)?;
    let withdrawals = request.attributes.withdrawals.clone().map(Withdrawals::new);

    let changes = Arc::new(Mutex::new(Vec::new()));
    let seen = changes.clone();
    let reader = shared.open_state(parent)?.ok_or_else(unknown)?;
    let mut state = open_state(reader, move |state| {
        seen.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend(account_changes(state));
    });
    let rewarded = Rewarded {
        withdrawals: withdrawals.as_ref(),
        ommers: &[],
    };
    let rules = rules(&shared.chain);
    let mut run = BlockRun::start(rules, &header, rewarded, &mut state)?;
    let mut packing = Packing::new(&shared.chain, &header, withdrawals.as_ref(), skip_invalid);
    match request.transactions.clone() {
        Some(given) => packing.pack(&mut run, given)?,
        None => {
            let base_fee = header.base_fee_per_gas.unwrap_or_default();
            let blob_params = shared.chain.blob_params_at(header.timestamp);
            let blob_fee = blob_params.and_then(|params| header.blob_fee(params));
            let best = shared
                .pool
                .best(chain, base_fee, blob_fee.unwrap_or_default());
            packing.pack_best(&mut run, best);
        }
    }
    let executed = run.finish()?;
    drop(state);

    let changes = std::mem::take(&mut *changes.lock().unwrap_or_else(PoisonError::into_inner));
    fill_header(&mut header, shared, parent, &executed, &changes)?;
    let Packing {
        transactions,
        fees,
        sidecars,
        ..
    } = packing;
    header.transactions_root = calculate_transaction_root(&transactions);
    let body = BlockBody {
        transactions,
        ommers: Vec::new(),
        withdrawals,
    };
    let block = SealedBlock::seal_slow(Block { header, body });
    Ok(BuiltPayload {
        block,
        requests: executed.requests,
        fees,
        sidecars,
    })
}

/// The rules of built blocks: there is no proof of work here.
fn rules(chain: &ChainSpec) -> BlockRules<'_> {
    BlockRules {
        chain,
        era: Era::ProofOfStake,
    }
}

/// The gas limit of a block on one with `parent`, as near to `target` as the step between two
/// blocks allows.
pub fn gas_limit_towards(parent: u64, target: u64) -> u64 {
    let step = (parent / validate::GAS_LIMIT_BOUND_DIVISOR).saturating_sub(1);
    let target = target.max(validate::MINIMUM_GAS_LIMIT);
    target.clamp(parent.saturating_sub(step), parent.saturating_add(step))
}

/// The header as far as it is known before execution.
fn unexecuted_header(
    chain: &ChainSpec,
    parent: &Header,
    request: &BuildRequest,
) -> Result<Header, BuildError> {
    let attributes = &request.attributes;
    check_attributes(chain, parent, attributes)?;
    let at = attributes.timestamp;
    let excess_blob_gas = chain.blob_params_at(at).map(|params| {
        parent
            .next_block_excess_blob_gas(params)
            .unwrap_or_default()
    });
    let header = Header {
        parent_hash: request.parent_hash,
        ommers_hash: EMPTY_OMMER_ROOT_HASH,
        beneficiary: attributes.suggested_fee_recipient,
        number: parent.number + 1,
        gas_limit: request.gas_limit.unwrap_or(parent.gas_limit),
        timestamp: at,
        extra_data: request.extra_data.clone().unwrap_or_default(),
        mix_hash: attributes.prev_randao,
        base_fee_per_gas: Some(chain.next_base_fee(parent)),
        withdrawals_root: attributes
            .withdrawals
            .as_ref()
            .map(|withdrawals| calculate_withdrawals_root(withdrawals)),
        blob_gas_used: excess_blob_gas.map(|_| 0),
        excess_blob_gas,
        parent_beacon_block_root: attributes.parent_beacon_block_root,
        requests_hash: chain
            .is_prague_active_at_timestamp(at)
            .then_some(B256::ZERO),
        ..Default::default()
    };
    validate::check_header(rules(chain), &header, parent)
        .map_err(|problem| BuildError::InvalidAttributes(problem.to_string()))?;
    Ok(header)
}

fn fill_header(
    header: &mut Header,
    shared: &Shared,
    parent: &ParentState,
    executed: &Executed,
    changes: &[AccountChange],
) -> Result<(), BuildError> {
    let receipts = ReceiptSummary::of(&executed.receipts);
    header.state_root = root_after(&shared.db, parent, changes)?;
    header.receipts_root = receipts.root;
    header.logs_bloom = receipts.bloom;
    header.gas_used = executed.gas_used;
    if header.blob_gas_used.is_some() {
        header.blob_gas_used = Some(executed.blob_gas_used);
    }
    if header.requests_hash.is_some() {
        header.requests_hash = Some(executed.requests.requests_hash());
    }
    Ok(())
}

/// Chooses transactions for a block, in the order given.
struct Packing {
    skip_invalid: bool,
    base_fee: u64,
    gas_limit: u64,
    max_blob_gas: u64,
    blob_gas: u64,
    /// Bytes left for transactions; unbounded before Osaka.
    room_bytes: usize,
    /// Senders whose transaction was left out: their later ones have a nonce gap.
    left_out: AddressSet,
    transactions: Vec<TransactionSigned>,
    fees: U256,
    sidecars: Vec<Arc<BlobTransactionSidecarVariant>>,
}

/// Whether a block takes more transactions.
enum Next {
    Continue,
    Full,
}

impl Packing {
    fn new(
        chain: &ChainSpec,
        header: &Header,
        withdrawals: Option<&Withdrawals>,
        skip_invalid: bool,
    ) -> Self {
        let fixed = BLOCK_OVERHEAD_BYTES + withdrawals.map_or(0, Encodable::length);
        let osaka = chain.is_osaka_active_at_timestamp(header.timestamp);
        let blobs = chain.blob_params_at(header.timestamp);
        Self {
            skip_invalid,
            base_fee: header.base_fee_per_gas.unwrap_or_default(),
            gas_limit: header.gas_limit,
            max_blob_gas: blobs.map_or(0, |params| params.max_blob_gas_per_block()),
            blob_gas: 0,
            room_bytes: if osaka {
                MAX_BLOCK_BYTES.saturating_sub(fixed)
            } else {
                usize::MAX
            },
            left_out: AddressSet::default(),
            transactions: Vec::new(),
            fees: U256::ZERO,
            sidecars: Vec::new(),
        }
    }

    fn pack(&mut self, run: &mut BlockRun<'_>, encoded: Vec<Bytes>) -> Result<(), BuildError> {
        let encoded = Arc::new(encoded);
        for (index, transaction) in SenderStream::start(
            encoded.clone(),
            SignatureRules::LATEST,
            SenderRecovery::default(),
        )
        .enumerate()
        {
            let transaction = match transaction {
                Ok(transaction) => transaction,
                Err(_) if self.skip_invalid => continue,
                Err(error) => return Err(invalid(index, undecodable(&error))),
            };
            if self.left_out.contains(transaction.signer_ref()) {
                continue;
            }
            let bytes = validate::transaction_bytes(&encoded[index]);
            match self.add(run, transaction, bytes) {
                Ok(Next::Continue) => {}
                Ok(Next::Full) => return Ok(()),
                Err(Refused { sender, reason }) if self.skip_invalid => {
                    tracing::debug!(target: "payload_builder", index, %sender, %reason, "Left out");
                    self.left_out.insert(sender);
                }
                Err(Refused { reason, .. }) => return Err(invalid(index, reason)),
            }
        }
        Ok(())
    }

    /// Takes from the pool until the block is full. What does not fit or cannot be included is left
    /// out with its sender's later ones.
    fn pack_best(&mut self, run: &mut BlockRun<'_>, mut best: Best) {
        self.skip_invalid = true;
        while let Some(entry) = best.take() {
            let bytes = validate::transaction_bytes(&entry.transaction.encoded_2718());
            match self.add(run, entry.transaction.clone(), bytes) {
                Ok(Next::Continue) => {
                    self.sidecars.extend(entry.sidecar.clone());
                    best.included(&entry);
                }
                Ok(Next::Full) => return,
                Err(Refused { sender, reason }) => {
                    tracing::debug!(target: "payload_builder", %sender, %reason, "Left out");
                }
            }
        }
    }

    fn add(
        &mut self,
        run: &mut BlockRun<'_>,
        transaction: Recovered<TransactionSigned>,
        bytes: usize,
    ) -> Result<Next, Refused> {
        let sender = transaction.signer();
        let refused = |reason: String| Refused { sender, reason };
        let gas_left = self.gas_limit - run.gas_used();
        if gas_left < MIN_TRANSACTION_GAS && self.skip_invalid {
            return Ok(Next::Full);
        }
        if bytes > self.room_bytes {
            return match self.skip_invalid {
                true => Ok(Next::Full),
                false => Err(refused(format!(
                    "the block would exceed {MAX_BLOCK_BYTES} bytes"
                ))),
            };
        }
        let blob_gas = self.blob_gas + transaction.blob_gas_used().unwrap_or_default();
        if blob_gas > self.max_blob_gas {
            return Err(refused(format!(
                "blob gas {blob_gas} exceeds {}",
                self.max_blob_gas
            )));
        }
        let gas = run
            .transact(&transaction)
            .map_err(|error| refused(reason(error)))?;
        let tip = transaction
            .effective_tip_per_gas(self.base_fee)
            .unwrap_or_default();
        self.fees += U256::from(tip) * U256::from(gas.tx_gas_used());
        self.blob_gas = blob_gas;
        self.room_bytes -= bytes;
        self.transactions.push(transaction.into_inner());
        Ok(Next::Continue)
    }
}

/// A transaction that does not fit or is not valid here.
struct Refused {
    sender: Address,
    reason: String,
}

fn invalid(index: usize, reason: String) -> BuildError {
    BuildError::InvalidTransaction { index, reason }
}

/// Without the position, which the caller names.
fn undecodable(error: &SenderError) -> String {
    match error {
        SenderError::Decode { reason, .. } => reason.clone(),
        SenderError::Protected { .. } | SenderError::Signature { .. } => "invalid signature".into(),
    }
}

fn reason(error: BlockExecutionError) -> String {
    match error {
        BlockExecutionError::Validation(BlockValidationError::InvalidTx { error, .. }) => {
            error.to_string()
        }
        other => other.to_string(),
    }
}
