//! Metrics of the Engine API's handlers.

use super::recorder::summary;
use engine_api::metric;
use metrics::Histogram;
use std::time::{Duration, Instant};

/// Handles of the metrics of requests.
pub(crate) struct RpcMetrics {
    decode: Histogram,
    new_payload: [Histogram; 4],
    forkchoice: [Histogram; 3],
}

impl RpcMetrics {
    pub(crate) fn new() -> Self {
        Self {
            decode: summary(metric::PAYLOAD_DECODE),
            new_payload: [
                metric::RPC_NEW_PAYLOAD_V1,
                metric::RPC_NEW_PAYLOAD_V2,
                metric::RPC_NEW_PAYLOAD_V3,
                metric::RPC_NEW_PAYLOAD_V4,
            ]
            .map(summary),
            forkchoice: [
                metric::RPC_FORKCHOICE_V1,
                metric::RPC_FORKCHOICE_V2,
                metric::RPC_FORKCHOICE_V3,
            ]
            .map(summary),
        }
    }

    /// A payload's parameters were read.
    pub(crate) fn decoded(&self, elapsed: Duration) {
        self.decode.record(elapsed);
    }

    /// `engine_newPayloadV<version>` was answered; `decoded` is when its parameters had been read.
    pub(crate) fn new_payload(&self, version: u8, decoded: Instant) {
        record(&self.new_payload, version, decoded);
    }

    /// `engine_forkchoiceUpdatedV<version>` was answered.
    pub(crate) fn forkchoice(&self, version: u8, decoded: Instant) {
        record(&self.forkchoice, version, decoded);
    }
}

fn record(versions: &[Histogram], version: u8, decoded: Instant) {
    let index = usize::from(version).checked_sub(1);
    if let Some(histogram) = index.and_then(|index| versions.get(index)) {
        histogram.record(decoded.elapsed());
    }
}
