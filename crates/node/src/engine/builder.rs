//! Builds blocks on any parent whose state is available, without changing the chain.

use super::reader::ChainReader;
use crate::primitives::SealedBlock;
use alloy_eips::eip7685::Requests;
use alloy_primitives::{B256, Bytes, U256};
use alloy_rpc_types_engine::PayloadAttributes;

/// What to build.
#[derive(Debug, Clone)]
pub struct BuildRequest {
    /// The block to build on.
    pub parent_hash: B256,
    /// Timestamp, randomness, fee recipient, withdrawals, beacon root.
    pub attributes: PayloadAttributes,
    /// EIP-2718 encoded transactions in order; `None` means none (there is no pool).
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
}

/// Why a block could not be built.
#[derive(Debug, thiserror::Error)]
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

pub(super) fn build(
    _chain: &ChainReader,
    _request: &BuildRequest,
    _skip_invalid: bool,
) -> Result<BuiltPayload, BuildError> {
    todo!()
}
