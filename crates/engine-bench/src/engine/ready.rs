//! When a started engine may be asked to work: polled, never slept for.
//!
//! Invariant: ready means that the process lives, the authenticated port accepts our token, the
//! public port answers, and the engine says that it is not syncing.

use super::Engine;
use crate::client::ClientError;
use engine_api::JwtSecret;
use eyre::{Result, bail};
use std::time::{Duration, Instant};

/// Pause between two questions.
const POLL: Duration = Duration::from_millis(50);

/// How long one answer may take while polling.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// Waits until the engine is ready.
///
/// # Errors
/// When it ends, after `timeout`, and at once when it refuses the token.
pub async fn wait_until_ready(
    engine: &mut Engine,
    secret: &JwtSecret,
    timeout: Duration,
) -> Result<()> {
    let started = Instant::now();
    let mut node = engine.node(secret, ANSWER_TIMEOUT)?;
    loop {
        engine.check_alive()?;
        let last = match node.answers().await {
            Ok(syncing) if !engine.is_syncing(&syncing) => return Ok(()),
            Ok(_) => "it says that it is syncing".to_owned(),
            Err(refused @ ClientError::Status { status: 401, .. }) => return Err(refused.into()),
            Err(error) => error.to_string(),
        };
        if started.elapsed() >= timeout {
            let log = engine.end_of_log();
            bail!("the engine was not ready after {timeout:?}: {last}; {log}");
        }
        tokio::time::sleep(POLL).await;
    }
}
