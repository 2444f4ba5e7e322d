//! reth-bench's payload files, and the requests made of them before any clock starts.
//!
//! Two schemas share the name `payload_block_<N>.json`, so a file is known by its keys, never by
//! its name: a big block (`executionPayload`, the result of `engine_getPayloadV4`) and a step of a
//! gas ramp (`version`, `block_hash`, `params`: finished `engine_newPayload` parameters).
//! Invariant: a [`PreparedPayload`] needs no further work than being written to a socket.

use crate::client::request_body;
use alloy_consensus::{EthereumTxEnvelope, Transaction, TxEip4844};
use alloy_eips::eip2718::Decodable2718;
use alloy_primitives::{B256, Bytes as HexBytes, U64};
use alloy_rpc_types_engine::{ExecutionPayloadEnvelopeV4, ForkchoiceState};
use bytes::Bytes;
use serde::{Deserialize, Serialize, de::IgnoredAny};
use serde_json::Value;
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// The transaction type byte of EIP-4844.
const BLOB_TRANSACTION: u8 = 3;

/// A payload as it lies on disk.
#[derive(Debug, Clone, PartialEq)]
pub enum PayloadFile {
    /// A block packed by `testing_buildBlockV1`.
    BigBlock(Box<ExecutionPayloadEnvelopeV4>),
    /// A block of a gas ramp.
    GasRamp(GasRampPayload),
}

/// A block of a gas ramp: the parameters of the call, already made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GasRampPayload {
    /// N of `engine_newPayloadV<N>`, 1 to 5.
    pub version: u8,
    /// The hash of the block.
    pub block_hash: B256,
    /// Parameters of `engine_newPayloadV<N>`.
    pub params: Vec<Value>,
}

/// Why a payload file cannot be used. Every text names the file.
#[derive(Debug, thiserror::Error)]
pub enum PayloadFileError {
    /// The file cannot be read.
    #[error("failed to read {path}: {reason}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        reason: io::Error,
    },
    /// The file cannot be written.
    #[error("failed to write {path}: {reason}")]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        reason: io::Error,
    },
    /// The file ends in the middle of its JSON.
    #[error("{path} is truncated: its JSON ends too early, at line {line} column {column}")]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Where it ends.
        line: usize,
        /// Where it ends.
        column: usize,
    },
    /// The file is not a JSON object.
    #[error("{path} is not a JSON object: {reason}")]
    NotJson {
        /// The file.
        path: PathBuf,
        /// The parser's reason.
        reason: String,
    },
    /// A merged big block of reth-bench 2.x.
    #[error(
        "{path} is a merged big block of reth-bench 2.x (keys \"execution_data\" and \
         \"big_block_data\"), which only reth-bb can execute; generate payload_block_<N>.json files \
         instead"
    )]
    MergedBigBlock {
        /// The file.
        path: PathBuf,
    },
    /// An object of neither schema.
    #[error(
        "{path} is not a payload file: it has neither \"executionPayload\" nor \"version\" and \
         \"params\""
    )]
    UnknownSchema {
        /// The file.
        path: PathBuf,
    },
    /// The right keys with wrong values.
    #[error("the payload in {path} is not valid: {reason}")]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

/// One payload, ready to be sent: both request bodies and what a result row needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreparedPayload {
    /// Block number.
    pub number: u64,
    /// Block hash.
    pub hash: B256,
    /// The block it builds on.
    pub parent_hash: B256,
    /// The state root the engine has to find.
    pub state_root: B256,
    /// Gas the block uses.
    pub gas_used: u64,
    /// Gas the block may use.
    pub gas_limit: u64,
    /// Number of transactions.
    pub transaction_count: u64,
    /// Seconds of Unix time.
    pub timestamp: u64,
    /// `engine_newPayloadV<N>`.
    pub new_payload_method: String,
    /// The complete HTTP body of that call.
    pub new_payload: Bytes,
    /// `engine_forkchoiceUpdatedV<N>`.
    pub forkchoice_method: String,
    /// The complete HTTP body of that call: this block as head, its parent as safe and finalized,
    /// without payload attributes.
    pub forkchoice: Bytes,
}

/// The keys that tell the schemas apart.
#[derive(Deserialize)]
struct Keys {
    #[serde(rename = "executionPayload")]
    execution_payload: Option<IgnoredAny>,
    version: Option<IgnoredAny>,
    params: Option<IgnoredAny>,
    execution_data: Option<IgnoredAny>,
    big_block_data: Option<IgnoredAny>,
}

/// What of a payload's JSON a row of results needs.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Summary {
    block_number: U64,
    block_hash: B256,
    parent_hash: B256,
    state_root: B256,
    gas_used: U64,
    gas_limit: U64,
    timestamp: U64,
    transactions: Vec<IgnoredAny>,
}

impl PayloadFile {
    /// The name of the file that holds block `number`.
    pub fn name(number: u64) -> String {
        format!("payload_block_{number}.json")
    }

    /// Reads a file of either schema.
    ///
    /// # Errors
    /// See [`PayloadFileError`].
    pub fn read(path: &Path) -> Result<Self, PayloadFileError> {
        let bytes = fs::read(path).map_err(|reason| PayloadFileError::Read {
            path: path.to_owned(),
            reason,
        })?;
        Self::parse(path, &bytes)
    }

    /// Reads the content of `path`, which is only named in errors.
    ///
    /// # Errors
    /// See [`PayloadFileError`].
    pub fn parse(path: &Path, bytes: &[u8]) -> Result<Self, PayloadFileError> {
        let keys: Keys = serde_json::from_slice(bytes).map_err(|e| json_error(path, &e))?;
        let invalid = |e: serde_json::Error| invalid(path, e);
        if keys.execution_payload.is_some() {
            let envelope = serde_json::from_slice(bytes).map_err(invalid)?;
            return Ok(Self::BigBlock(Box::new(envelope)));
        }
        if keys.version.is_some() && keys.params.is_some() {
            return Ok(Self::GasRamp(
                serde_json::from_slice(bytes).map_err(invalid)?,
            ));
        }
        if keys.execution_data.is_some() || keys.big_block_data.is_some() {
            return Err(PayloadFileError::MergedBigBlock {
                path: path.to_owned(),
            });
        }
        Err(PayloadFileError::UnknownSchema {
            path: path.to_owned(),
        })
    }

    /// The content of the file, as reth-bench writes it: indented JSON.
    ///
    /// # Errors
    /// Never for a payload that was read; the type allows values that are not JSON.
    pub fn to_json(&self) -> Result<Vec<u8>, serde_json::Error> {
        match self {
            Self::BigBlock(envelope) => serde_json::to_vec_pretty(envelope),
            Self::GasRamp(payload) => serde_json::to_vec_pretty(payload),
        }
    }

    /// Writes the file, replacing it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), PayloadFileError> {
        let json = self.to_json().map_err(|e| invalid(path, e))?;
        fs::write(path, json).map_err(|reason| PayloadFileError::Write {
            path: path.to_owned(),
            reason,
        })
    }

    /// Makes both requests. `path` is only named in errors.
    ///
    /// As reth-bench's replay does, the parent beacon block root is zero for a big block, whose
    /// file does not hold one.
    ///
    /// # Errors
    /// [`PayloadFileError::Invalid`].
    pub fn prepare(&self, path: &Path) -> Result<PreparedPayload, PayloadFileError> {
        match self {
            Self::BigBlock(envelope) => prepare_big_block(envelope),
            Self::GasRamp(payload) => prepare_gas_ramp(payload),
        }
        .map_err(|reason| invalid(path, reason))
    }
}

fn prepare_big_block(envelope: &ExecutionPayloadEnvelopeV4) -> Result<PreparedPayload, String> {
    let payload = &envelope.execution_payload;
    let header = &payload.payload_inner.payload_inner;
    let hashes = versioned_hashes(&header.transactions)?;
    let params = (payload, hashes, B256::ZERO, &envelope.execution_requests);
    let calls = calls(4, &params, header.block_hash, header.parent_hash)?;
    Ok(PreparedPayload {
        number: header.block_number,
        hash: header.block_hash,
        parent_hash: header.parent_hash,
        state_root: header.state_root,
        gas_used: header.gas_used,
        gas_limit: header.gas_limit,
        transaction_count: header.transactions.len() as u64,
        timestamp: header.timestamp,
        new_payload_method: calls.new_payload_method,
        new_payload: calls.new_payload,
        forkchoice_method: calls.forkchoice_method,
        forkchoice: calls.forkchoice,
    })
}

fn prepare_gas_ramp(payload: &GasRampPayload) -> Result<PreparedPayload, String> {
    if !(1..=5).contains(&payload.version) {
        return Err(format!(
            "version {} is not between 1 and 5",
            payload.version
        ));
    }
    let first = payload.params.first().ok_or("its params are empty")?;
    let summary = Summary::deserialize(first).map_err(|e| e.to_string())?;
    if summary.block_hash != payload.block_hash {
        let (named, held) = (payload.block_hash, summary.block_hash);
        return Err(format!(
            "block_hash is {named}, but the payload's blockHash is {held}"
        ));
    }
    let calls = calls(
        payload.version,
        &payload.params,
        summary.block_hash,
        summary.parent_hash,
    )?;
    Ok(PreparedPayload {
        number: summary.block_number.to(),
        hash: summary.block_hash,
        parent_hash: summary.parent_hash,
        state_root: summary.state_root,
        gas_used: summary.gas_used.to(),
        gas_limit: summary.gas_limit.to(),
        transaction_count: summary.transactions.len() as u64,
        timestamp: summary.timestamp.to(),
        new_payload_method: calls.new_payload_method,
        new_payload: calls.new_payload,
        forkchoice_method: calls.forkchoice_method,
        forkchoice: calls.forkchoice,
    })
}

struct Calls {
    new_payload_method: String,
    new_payload: Bytes,
    forkchoice_method: String,
    forkchoice: Bytes,
}

fn calls(version: u8, params: impl Serialize, head: B256, parent: B256) -> Result<Calls, String> {
    let new_payload_method = format!("engine_newPayloadV{version}");
    // V3 serves Cancun to Osaka, V4 begins with Amsterdam, as newPayloadV5 does.
    let forkchoice_version = match version {
        1 | 2 => version,
        3 | 4 => 3,
        _ => 4,
    };
    let forkchoice_method = format!("engine_forkchoiceUpdatedV{forkchoice_version}");
    let state = ForkchoiceState {
        head_block_hash: head,
        safe_block_hash: parent,
        finalized_block_hash: parent,
    };
    let no_attributes = None::<()>;
    Ok(Calls {
        new_payload: request_body(1, &new_payload_method, params).map_err(|e| e.to_string())?,
        forkchoice: request_body(1, &forkchoice_method, (state, no_attributes))
            .map_err(|e| e.to_string())?,
        new_payload_method,
        forkchoice_method,
    })
}

/// The versioned hashes of all blob transactions, in order, as `engine_newPayload` wants them.
fn versioned_hashes(transactions: &[HexBytes]) -> Result<Vec<B256>, String> {
    let mut hashes = Vec::new();
    for (i, raw) in transactions.iter().enumerate() {
        if raw.first() != Some(&BLOB_TRANSACTION) {
            continue;
        }
        let transaction = EthereumTxEnvelope::<TxEip4844>::decode_2718(&mut raw.as_ref())
            .map_err(|e| format!("transaction {i} cannot be decoded: {e}"))?;
        hashes.extend_from_slice(transaction.blob_versioned_hashes().unwrap_or_default());
    }
    Ok(hashes)
}

fn invalid(path: &Path, reason: impl ToString) -> PayloadFileError {
    PayloadFileError::Invalid {
        path: path.to_owned(),
        reason: reason.to_string(),
    }
}

fn json_error(path: &Path, error: &serde_json::Error) -> PayloadFileError {
    let path = path.to_owned();
    if error.is_eof() {
        return PayloadFileError::Truncated {
            path,
            line: error.line(),
            column: error.column(),
        };
    }
    PayloadFileError::NotJson {
        path,
        reason: error.to_string(),
    }
}
