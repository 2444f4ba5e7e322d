//! Why no payloads were made.

use super::MAX_BUILDS;
use crate::{action::TRANSFER_GAS, genesis::CHAIN_ID, manifest::ManifestError};
use engine_api::{ClientError, PayloadFileError};
use std::io;

/// Why no payloads were made.
#[derive(Debug, thiserror::Error)]
pub enum GenerateError {
    /// A call failed.
    #[error("failed to call {method}: {error}")]
    Call {
        /// The method.
        method: String,
        /// Why.
        error: ClientError,
    },
    /// The gas target cannot be met.
    #[error(
        "the gas target {target} is not between {TRANSFER_GAS} and the block gas limit {limit}"
    )]
    Target {
        /// What was asked for.
        target: u64,
        /// The limit of the engine's head block.
        limit: u64,
    },
    /// The engine is on another chain.
    #[error("the engine is on chain {found}, but the base state is of chain {CHAIN_ID}")]
    Chain {
        /// Its chain id.
        found: u64,
    },
    /// The engine holds another state.
    #[error("the engine does not hold the base state {profile} of seed {seed}: {reason}")]
    State {
        /// Profile of the base state.
        profile: String,
        /// Its seed.
        seed: u64,
        /// What is different.
        reason: String,
    },
    /// The engine's own block did not pass.
    #[error("the engine answered {method} for its own block {number} with {status}")]
    NotValid {
        /// The method.
        method: String,
        /// The block.
        number: u64,
        /// The status, with the validation error if there is one.
        status: String,
    },
    /// The engine built a block on another parent or with transactions of its own.
    #[error("the engine built block {number} with {reason}")]
    Foreign {
        /// The block.
        number: u64,
        /// What was not asked for.
        reason: String,
    },
    /// The gas came no nearer to the target.
    #[error(
        "block {number} uses {gas_used} gas after {MAX_BUILDS} attempts to reach {target}; \
         {dropped} transactions were left out by the engine"
    )]
    Unreached {
        /// The block.
        number: u64,
        /// Gas of the last attempt.
        gas_used: u64,
        /// The target.
        target: u64,
        /// Transactions sent and not included.
        dropped: usize,
    },
    /// The folder holds payloads already.
    #[error("the folder {dir} already holds payloads, for example {name}")]
    Occupied {
        /// The folder.
        dir: String,
        /// One of them.
        name: String,
    },
    /// The folder cannot be made.
    #[error("failed to create the folder {dir}: {reason}")]
    Folder {
        /// The folder.
        dir: String,
        /// The system's reason.
        reason: io::Error,
    },
    /// A payload cannot be written.
    #[error(transparent)]
    File(#[from] PayloadFileError),
    /// The manifest cannot be written.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
}
