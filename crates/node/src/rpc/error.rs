//! JSON-RPC error codes: the standard ones, the Engine API's, and reth's.
//!
//! Source: execution-apis, `engine/common.md` ("Errors"), `schemas/block.yaml` and EIP-1474.

use crate::engine::{BuildError, EngineError, ForkchoiceError, GetPayloadError, ReadError};
use jsonrpsee::types::ErrorObjectOwned;

pub(super) const INVALID_PARAMS: i32 = -32602;
pub(super) const INTERNAL_ERROR: i32 = -32603;
pub(super) const SERVER_ERROR: i32 = -32000;
pub(super) const RESOURCE_NOT_FOUND: i32 = -32001;
/// State that is no longer kept in a form that can be proven.
pub(super) const RESOURCE_UNAVAILABLE: i32 = -32002;
/// More of something than the node keeps.
pub(super) const LIMIT_EXCEEDED: i32 = -32005;
/// More than this client simulates.
pub(super) const LIMIT_OF_CLIENT: i32 = -38026;
/// No block has been named safe or finalized yet.
pub(super) const UNKNOWN_BLOCK: i32 = -39001;
/// geth's code for a call that reverted.
pub(super) const EXECUTION_REVERTED: i32 = 3;
/// geth's code for a transaction that did not get into a block while its sender waited.
pub(super) const NOT_MINED_IN_TIME: i32 = 4;
pub(super) const UNKNOWN_PAYLOAD: i32 = -38001;
pub(super) const INVALID_FORKCHOICE_STATE: i32 = -38002;
pub(super) const INVALID_PAYLOAD_ATTRIBUTES: i32 = -38003;
pub(super) const TOO_LARGE_REQUEST: i32 = -38004;
pub(super) const UNSUPPORTED_FORK: i32 = -38005;
pub(super) const TOO_DEEP_REORG: i32 = -38006;

/// An error without data.
pub(super) fn error(code: i32, message: impl Into<String>) -> ErrorObjectOwned {
    ErrorObjectOwned::owned(code, message, None::<()>)
}

/// A request whose parameters do not fit the method (-32602).
pub fn invalid_params(message: impl Into<String>) -> ErrorObjectOwned {
    error(INVALID_PARAMS, message)
}

/// A failure of the node itself (-32603).
pub(super) fn internal(problem: impl std::fmt::Display) -> ErrorObjectOwned {
    error(INTERNAL_ERROR, format!("failed to {problem}"))
}

/// A structure or a call of the wrong version for the fork (-38005).
pub(super) fn unsupported_fork(message: impl Into<String>) -> ErrorObjectOwned {
    error(UNSUPPORTED_FORK, message)
}

/// Attributes that do not fit (-38003).
pub(super) fn invalid_attributes(message: impl Into<String>) -> ErrorObjectOwned {
    error(INVALID_PAYLOAD_ATTRIBUTES, message)
}

pub(super) fn from_engine(problem: EngineError) -> ErrorObjectOwned {
    internal(problem)
}

pub(super) fn from_read(problem: ReadError) -> ErrorObjectOwned {
    internal(problem)
}

pub(super) fn from_forkchoice(problem: ForkchoiceError) -> ErrorObjectOwned {
    match problem {
        ForkchoiceError::InvalidState => {
            error(INVALID_FORKCHOICE_STATE, "Invalid forkchoice state")
        }
        ForkchoiceError::TooDeepReorg => error(TOO_DEEP_REORG, "Too deep reorg"),
        ForkchoiceError::InvalidAttributes(reason) => {
            invalid_attributes(format!("Invalid payload attributes: {reason}"))
        }
        ForkchoiceError::Engine(problem) => from_engine(problem),
    }
}

pub(super) fn from_get_payload(problem: GetPayloadError) -> ErrorObjectOwned {
    match problem {
        GetPayloadError::Unknown => error(UNKNOWN_PAYLOAD, "Unknown payload"),
        GetPayloadError::Build(problem) => internal(problem),
        GetPayloadError::Engine(problem) => from_engine(problem),
    }
}

pub(super) fn from_build(problem: BuildError) -> ErrorObjectOwned {
    let code = match problem {
        BuildError::UnknownParent(_) => INVALID_PARAMS,
        BuildError::InvalidAttributes(_) => INVALID_PAYLOAD_ATTRIBUTES,
        BuildError::InvalidTransaction { .. } => SERVER_ERROR,
        BuildError::Internal(_) => INTERNAL_ERROR,
    };
    error(code, format!("failed to {problem}"))
}
