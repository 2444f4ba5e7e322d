//! Why a transaction is not taken into the pool, in the words users know from geth.

use crate::engine::ReadError;
use alloy_primitives::U256;

/// Why a transaction was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    /// Not an EIP-2718 transaction in the form it is sent in.
    #[error("{0}")]
    Undecodable(String),
    /// The very transaction is in the pool.
    #[error("already known")]
    AlreadyKnown,
    /// A blob transaction without its blobs.
    #[error("missing sidecar in blob transaction")]
    MissingSidecar,
    /// Blobs, commitments, proofs and hashes do not fit together.
    #[error("{0}")]
    Sidecar(String),
    /// The type comes with a later fork.
    #[error("transaction type not supported: type {0} rejected, its fork is not active yet")]
    TypeNotSupported(u8),
    /// More bytes than the pool takes.
    #[error("oversized data: transaction size {bytes}, limit {limit}")]
    Oversized {
        /// Bytes of the transaction.
        bytes: usize,
        /// Most bytes.
        limit: usize,
    },
    /// EIP-3860.
    #[error("max initcode size exceeded: code size {bytes}, limit {limit}")]
    InitCode {
        /// Bytes of the code.
        bytes: usize,
        /// Most bytes.
        limit: usize,
    },
    /// No block has that much gas.
    #[error("exceeds block gas limit")]
    GasLimit,
    /// EIP-7825.
    #[error("transaction gas limit too high (cap: {cap}, tx: {gas})")]
    GasCap {
        /// Most gas of a transaction.
        cap: u64,
        /// Its gas limit.
        gas: u64,
    },
    /// EIP-1559.
    #[error("max priority fee per gas higher than max fee per gas")]
    TipAboveFeeCap,
    /// The fees could be more than a user can mean to pay.
    #[error("tx fee ({fee} wei) exceeds the configured cap ({cap} wei)")]
    FeeAboveCap {
        /// Gas limit × price.
        fee: U256,
        /// The most.
        cap: U256,
    },
    /// Signed for another chain.
    #[error("invalid chain id for signer: have {have} want {want}")]
    ChainId {
        /// The transaction's.
        have: u64,
        /// The chain's.
        want: u64,
    },
    /// No key could have made the signature.
    #[error("invalid sender")]
    Signature,
    /// EIP-3607.
    #[error("sender not an eoa")]
    SenderHasCode,
    /// EIP-2681.
    #[error("nonce has max value")]
    NonceMax,
    /// Not enough gas to begin.
    #[error("intrinsic gas too low: gas {gas}, minimum needed {needed}")]
    IntrinsicGas {
        /// Its gas limit.
        gas: u64,
        /// What it takes.
        needed: u64,
    },
    /// EIP-7623.
    #[error("insufficient gas for floor data gas cost: gas {gas}, minimum needed {needed}")]
    FloorGas {
        /// Its gas limit.
        gas: u64,
        /// What it takes.
        needed: u64,
    },
    /// EIP-4844, EIP-7594.
    #[error("blob transaction has {have} blobs, permitted 1 to {most}")]
    BlobCount {
        /// Its blobs.
        have: usize,
        /// Most blobs.
        most: u64,
    },
    /// EIP-7702.
    #[error("set code tx must have at least one authorization tuple")]
    NoAuthorization,
    /// A transaction of that nonce is in the chain.
    #[error("nonce too low: next nonce {next}, tx nonce {nonce}")]
    NonceTooLow {
        /// The sender's nonce.
        next: u64,
        /// The transaction's.
        nonce: u64,
    },
    /// The sender cannot pay for it, or not for it and those before.
    #[error("insufficient funds for gas * price + value: balance {balance}, tx cost {cost}, overshot {}", .cost.saturating_sub(*.balance))]
    InsufficientFunds {
        /// What the sender has, less what its other transactions may cost.
        balance: U256,
        /// What the transaction may cost.
        cost: U256,
    },
    /// A replacement that does not pay enough more.
    #[error("replacement transaction underpriced")]
    ReplacementUnderpriced,
    /// The pool is full of transactions that pay more.
    #[error("transaction underpriced: the pool is full")]
    Underpriced,
    /// The sender has as many transactions in the pool as one may have.
    #[error("account limit exceeded: {0} transactions of one sender")]
    AccountLimit(usize),
    /// The chain's state could not be read.
    #[error("failed to {0}")]
    Read(String),
}

impl From<ReadError> for PoolError {
    fn from(problem: ReadError) -> Self {
        Self::Read(problem.to_string())
    }
}
