//! What an engine exports around a measured pass.
//!
//! Invariant: asked before the first payload is sent and after the last answer, never between; an
//! engine that exports nothing is measured all the same.

use crate::engine::Engine;
use engine_api::metric;
use std::time::Duration;

/// How long an engine may take for its metrics.
const PATIENCE: Duration = Duration::from_secs(5);

/// The engine's metrics as it exports them; `None` when it does not.
pub(super) async fn take(engine: &Engine) -> Option<String> {
    let address = engine.endpoints().metrics_address();
    metric::fetch(address, PATIENCE).await.ok()
}
