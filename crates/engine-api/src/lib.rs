//! The wire between harness and engine: payload files, JWT, the JSON-RPC clients, and metrics.
//!
//! Invariant: everything that costs time (serialising a request, minting a token, parsing an
//! answer) happens outside the span that [`client::EngineClient::send_prepared`] times.

pub mod client;
pub mod error;
pub mod jwt;
pub mod metric;
pub mod payload;
pub mod set;
pub mod subscribe;

pub use alloy_rpc_types_engine::{
    ExecutionPayloadEnvelopeV4, ForkchoiceState, ForkchoiceUpdated, PayloadAttributes,
    PayloadStatus, PayloadStatusEnum,
};
pub use client::{EngineClient, Timed};
pub use error::{ClientError, RpcError};
pub use jwt::{JwtError, JwtSecret, SecretFileError};
pub use payload::{PayloadFile, PayloadFileError, PreparedPayload};
pub use set::{PayloadSet, PayloadSetError};
pub use subscribe::{PersistedBlock, PersistedBlocks, subscribe_persisted};
