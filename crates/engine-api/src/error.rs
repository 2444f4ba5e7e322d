//! Why a call to an engine failed.
//!
//! Invariant: every text says who failed and how in one line, without the causes being read.

use serde::Deserialize;
use serde_json::Value;
use std::{io, time::Duration};

/// Why a request got no usable answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The address is not one this client can use.
    #[error("the address {url:?} is not usable: {reason}")]
    Address {
        /// What was given.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Nothing listens there.
    #[error("connection refused by {url}: is the engine running?")]
    Refused {
        /// The address tried.
        url: String,
    },
    /// No connection, for another reason.
    #[error("failed to connect to {url}: {reason}")]
    Connect {
        /// The address tried.
        url: String,
        /// The system's reason.
        reason: io::Error,
    },
    /// The connection ended after the request was sent and before the answer was complete.
    #[error("{url} closed the connection before it answered")]
    Closed {
        /// The address.
        url: String,
    },
    /// No complete answer in time.
    #[error("{url} did not answer within {timeout:?}")]
    Timeout {
        /// The address.
        url: String,
        /// The limit.
        timeout: Duration,
    },
    /// An HTTP status other than success; 401 means that the token was refused.
    #[error("{url} answered HTTP {status}: {body}")]
    Status {
        /// The address.
        url: String,
        /// The status code.
        status: u16,
        /// The beginning of the body.
        body: String,
    },
    /// A JSON-RPC error object.
    #[error(transparent)]
    Rpc(#[from] RpcError),
    /// The answer is not the JSON-RPC response expected.
    #[error("the answer is not the expected JSON-RPC response: {reason}; it begins {excerpt:?}")]
    Malformed {
        /// What is wrong.
        reason: String,
        /// The beginning of the answer.
        excerpt: String,
    },
    /// The exchange broke the HTTP protocol.
    #[error("failed to exchange HTTP messages with {url}: {reason}")]
    Http {
        /// The address.
        url: String,
        /// The library's reason.
        reason: String,
    },
    /// The parameters cannot be written as JSON.
    #[error("failed to serialise the request: {0}")]
    Request(String),
    /// A subscription could not be opened or ended by itself.
    #[error("the subscription at {url} failed: {reason}")]
    Subscription {
        /// The address.
        url: String,
        /// Why.
        reason: String,
    },
}

impl ClientError {
    /// The code of the JSON-RPC error object, if this is one.
    pub const fn rpc_code(&self) -> Option<i64> {
        match self {
            Self::Rpc(error) => Some(error.code),
            _ => None,
        }
    }
}

/// The error object of a JSON-RPC response.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, thiserror::Error)]
#[error("the engine answered with error {code}: {message}{}", details(.data))]
pub struct RpcError {
    /// For example -32602 (invalid params) or -38002 (invalid fork choice state).
    pub code: i64,
    /// The engine's text.
    pub message: String,
    /// What it adds. Engines that take a message from the specification have the reason here.
    #[serde(default)]
    pub data: Value,
}

/// The reason in what an engine adds to an error.
fn details(data: &Value) -> String {
    let reason = data.get("err").unwrap_or(data).as_str();
    reason.map_or(String::new(), |reason| format!(" ({reason})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_the_reason_that_the_engine_adds() {
        for (data, said) in [
            ("", "error -1: no"),
            (r#", "data": null"#, "error -1: no"),
            (r#", "data": [1]"#, "error -1: no"),
            (r#", "data": "why""#, "error -1: no (why)"),
            (r#", "data": {"err": "why"}"#, "error -1: no (why)"),
        ] {
            let json = format!(r#"{{"code": -1, "message": "no"{data}}}"#);
            let error: RpcError = serde_json::from_str(&json).unwrap();
            assert_eq!(
                error.to_string(),
                format!("the engine answered with {said}")
            );
        }
    }
}
