//! The real program among clients that mean harm: every malformed request gets the specified
//! answer, memory stays within the configured limits, and others are served meanwhile.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod abuse;
mod http;
mod import;
mod payloads;
mod websocket;
mod wire;
