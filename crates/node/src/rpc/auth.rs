//! The gate of the auth port: a request without a fresh token is answered 401 and goes no further.
//!
//! It stands before HTTP requests and WebSocket upgrades alike. Source: execution-apis,
//! `engine/authentication.md`; the bodies are geth's.

use super::listen::text;
use engine_api::jwt::{JwtError, JwtSecret, unix_time_s};
use http::{HeaderMap, Response, StatusCode, header};
use jsonrpsee::server::HttpBody;

/// Lets a request with exactly one fresh token pass; the error is the answer to any other.
pub(super) fn check(
    secret: &JwtSecret,
    headers: &HeaderMap,
) -> Result<(), Box<Response<HttpBody>>> {
    let mut tokens = headers.get_all(header::AUTHORIZATION).iter();
    // A header that is not text cannot be a token.
    let token = tokens
        .next()
        .map(|value| value.to_str().unwrap_or_default());
    let checked = match tokens.next() {
        // Which of several counts would be a matter of taste, and a proxy's may differ.
        Some(_) => Err(JwtError::Invalid),
        None => secret.validate(token, unix_time_s()),
    };
    checked.map_err(|reason| Box::new(text(StatusCode::UNAUTHORIZED, reason.to_string())))
}
