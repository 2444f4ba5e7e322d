//! One replay of a payload list: the loop that is measured.
//!
//! Invariant: between sending a request and having read its answer nothing is logged, formatted
//! or allocated here; every answer is looked at before the next request is sent, and the first
//! one that is not VALID ends the pass.

use crate::{
    client::{ClientError, status_text},
    record::Sample,
};
use engine_api::{
    EngineClient, ForkchoiceUpdated, PayloadStatus, PersistedBlocks, PreparedPayload, client,
};
use eyre::{Result, bail, ensure, eyre};
use hyper::body::Bytes;
use serde::de::DeserializeOwned;
use std::time::{Duration, Instant};

/// How long blocks may take to be persisted.
const PERSISTENCE_TIMEOUT: Duration = Duration::from_secs(120);

/// Deliberate waiting between payloads.
#[derive(Debug, Default)]
pub struct Waits {
    /// Pause after every payload.
    pub time: Duration,
    /// The subscription, and after how many payloads it is waited for.
    pub persistence: Option<(PersistedBlocks, u64)>,
}

impl Waits {
    /// Waits as long as is due after the payload `index` (from 0) with block `number`.
    pub(super) async fn after(&mut self, index: usize, number: u64) -> Result<()> {
        if !self.time.is_zero() {
            tokio::time::sleep(self.time).await;
        }
        let Some((blocks, every)) = &mut self.persistence else {
            return Ok(());
        };
        if !(index as u64 + 1).is_multiple_of(*every) {
            return Ok(());
        }
        match tokio::time::timeout(PERSISTENCE_TIMEOUT, blocks.wait_for(number)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => bail!("persistence of block {number}: {error}"),
            Err(_) => bail!(
                "block {number} was not persisted within {PERSISTENCE_TIMEOUT:?}; --wait-for-persistence needs an \
                 engine that persists at its persistence threshold, with --engine.memory-block-buffer-target 0"
            ),
        }
    }
}

/// The clock of a pass, which stands still while others have their turns.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    began: Instant,
    before_ns: u64,
}

impl Clock {
    /// A clock that goes on from `before_ns`.
    pub(super) fn from(before_ns: u64) -> Self {
        let began = Instant::now();
        Self { began, before_ns }
    }

    /// Nanoseconds since the pass began.
    fn now_ns(&self) -> u64 {
        let since = u64::try_from(self.began.elapsed().as_nanos());
        self.before_ns.saturating_add(since.unwrap_or(u64::MAX))
    }
}

/// Replays payloads in order. `samples` gets one row per payload that was answered VALID twice,
/// also when the pass ends early; `on_payload` is called between payloads.
///
/// # Errors
/// The first request without a usable answer, or whose answer is not VALID; a block that does not reach the disk.
pub async fn replay(
    client: &mut EngineClient,
    payloads: &[PreparedPayload],
    waits: &mut Waits,
    samples: &mut Vec<Sample>,
    mut on_payload: impl FnMut(),
) -> Result<()> {
    samples.reserve(payloads.len());
    let clock = Clock::from(0);
    for (index, payload) in payloads.iter().enumerate() {
        let sample = send(client, (index, payload), waits, clock).await?;
        on_payload();
        samples.push(sample);
    }
    Ok(())
}

/// Sends a payload, the `index`-th from 0, and its fork choice, and waits as long as is due then.
pub(super) async fn send(
    client: &mut EngineClient,
    (index, payload): (usize, &PreparedPayload),
    waits: &mut Waits,
    clock: Clock,
) -> Result<Sample> {
    let start_ns = clock.now_ns();
    let new_payload_ns = new_payload(client, payload).await?;
    let forkchoice_updated_ns = forkchoice(client, payload).await?;
    let answered_ns = clock.now_ns();
    waits.after(index, payload.number).await?;
    let end_ns = clock.now_ns();
    Ok(Sample {
        start_ns,
        answered_ns,
        end_ns,
        wait_ns: end_ns - answered_ns,
        block_number: payload.number,
        block_hash: payload.hash,
        gas_used: payload.gas_used,
        gas_limit: payload.gas_limit,
        transaction_count: payload.transaction_count,
        new_payload_ns,
        forkchoice_updated_ns,
        ..Sample::default()
    })
}

pub(super) async fn new_payload(
    client: &mut EngineClient,
    payload: &PreparedPayload,
) -> Result<u64> {
    let (method, request) = (&payload.new_payload_method, &payload.new_payload);
    let status = |answer: PayloadStatus| answer;
    ask(client, (method, payload.number), request, status).await
}

pub(super) async fn forkchoice(
    client: &mut EngineClient,
    payload: &PreparedPayload,
) -> Result<u64> {
    let (method, request) = (&payload.forkchoice_method, &payload.forkchoice);
    let status = |answer: ForkchoiceUpdated| answer.payload_status;
    ask(client, (method, payload.number), request, status).await
}

/// Sends a request about a block; how long its answer took, in nanoseconds, if that has the status VALID.
async fn ask<A: DeserializeOwned>(
    client: &mut EngineClient,
    (method, block): (&str, u64),
    request: &Bytes,
    status: impl FnOnce(A) -> PayloadStatus,
) -> Result<u64> {
    let failed = |error: ClientError| eyre!("{method} of block {block}: {error}");
    let answer = client.send_prepared(request).await.map_err(failed)?;
    let status = status(client::parse(&answer.body).map_err(failed)?);
    ensure!(
        status.is_valid(),
        "{method} of block {block} was answered {}",
        status_text(&status)
    );
    Ok(answer.elapsed_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::B256;
    use serde_json::json;
    use testkit::{Reply, Server};

    /// How long the server takes over a payload and over a fork choice, and the pause behind both.
    const PAYLOAD: Duration = Duration::from_millis(80);
    const CHOICE: Duration = Duration::from_millis(20);
    const PAUSE: Duration = Duration::from_millis(50);

    fn payload(number: u64) -> PreparedPayload {
        let body = |method| client::request_body(number, method, ()).unwrap();
        PreparedPayload {
            number,
            hash: B256::with_last_byte(1),
            parent_hash: B256::ZERO,
            state_root: B256::ZERO,
            gas_used: 1,
            gas_limit: 2,
            transaction_count: 3,
            timestamp: 4,
            new_payload_method: "newPayload".into(),
            new_payload: body("newPayload"),
            forkchoice_method: "forkchoiceUpdated".into(),
            forkchoice: body("forkchoiceUpdated"),
        }
    }

    /// Only lower bounds: whatever else the machine does comes on top.
    #[tokio::test]
    async fn each_time_of_a_sample_is_that_of_its_own_step() {
        let server = Server::start(|request| {
            let status = json!({"status": "VALID", "latestValidHash": null});
            let (result, takes) = match request.json()["method"].as_str() {
                Some("newPayload") => (status, PAYLOAD),
                _ => (json!({"payloadStatus": status, "payloadId": null}), CHOICE),
            };
            Reply::result(result).slowly(takes, Duration::ZERO)
        });
        let mut client = EngineClient::new(&server.url(), None).unwrap();
        let mut waits = Waits {
            time: PAUSE,
            persistence: None,
        };
        let (payloads, mut samples) = ([payload(7), payload(8)], Vec::new());
        let replayed = replay(&mut client, &payloads, &mut waits, &mut samples, || ());
        replayed.await.unwrap();
        assert_eq!(samples.len(), 2);
        let [takes_new, takes_choice, pause] =
            [PAYLOAD, CHOICE, PAUSE].map(|takes| takes.as_nanos() as u64);
        let mut before_ns = 0;
        for sample in samples {
            assert!(sample.start_ns >= before_ns, "{sample:?}");
            assert!(sample.new_payload_ns >= takes_new, "{sample:?}");
            assert!(sample.forkchoice_updated_ns >= takes_choice, "{sample:?}");
            assert!(
                sample.answered_ns >= sample.start_ns + sample.total_ns(),
                "{sample:?}"
            );
            assert!(sample.wait_ns >= pause, "{sample:?}");
            assert_eq!(sample.end_ns, sample.answered_ns + sample.wait_ns);
            before_ns = sample.end_ns;
        }
    }
}
