//! reth's own methods: payloads with the engine's timings, and the persisted-block subscription.

use super::{
    Context,
    args::Arguments,
    engine::apply_forkchoice,
    error::{from_engine, invalid_params},
};
use crate::{
    engine::WaitFor,
    primitives::{BlockNumHash, decode_block},
    telemetry::request_span,
};
use alloy_primitives::{B256, Bytes};
use alloy_rpc_types_engine::{
    ExecutionData, ExecutionPayload, ExecutionPayloadSidecar, ForkchoiceState, PayloadStatus,
};
use jsonrpsee::{
    PendingSubscriptionSink, RpcModule,
    core::{RegisterMethodError, SubscriptionResult},
    types::{ErrorObjectOwned, Params},
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tracing::{Instrument as _, debug_span};

/// A payload's status with what the engine measured, in microseconds.
#[derive(Debug, Clone, Serialize)]
struct TimedPayloadStatus {
    #[serde(flatten)]
    status: PayloadStatus,
    latency_us: u64,
    persistence_wait_us: u64,
    /// Absent unless the caller asked to wait. The state cache and the merged changes of the blocks before are
    /// prepared by one thread, so both waits are in this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    execution_cache_wait_us: Option<u64>,
    /// Zero, for the reason above; absent unless the caller asked to wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    sparse_trie_wait_us: Option<u64>,
}

/// A block in an object: as RLP, or as a payload and what comes beside it.
#[derive(Deserialize)]
struct BlockObject {
    block: Option<Bytes>,
    payload: Option<ExecutionPayload>,
    sidecar: Option<ExecutionPayloadSidecar>,
}

/// A persisted block; `number` is a plain JSON integer, as reth sends it.
#[derive(Serialize)]
struct PersistedBlock {
    number: u64,
    hash: B256,
}

/// The methods of the auth port.
pub(super) fn auth_module(
    context: Arc<Context>,
) -> Result<RpcModule<Context>, RegisterMethodError> {
    let mut module = RpcModule::from_arc(context);
    module.register_async_method("reth_newPayload", |params, context, extensions| {
        let span = request_span("reth_newPayload", &extensions);
        async move { new_payload(&params, &context).await }.instrument(span)
    })?;
    module.register_async_method("reth_forkchoiceUpdated", |params, context, extensions| {
        let span = request_span("reth_forkchoiceUpdated", &extensions);
        let updated = async move {
            let mut arguments = Arguments::new(&params);
            let state: ForkchoiceState = arguments.next("forkchoiceState")?;
            arguments.end()?;
            apply_forkchoice(&context, state, None).await
        };
        updated.instrument(span)
    })?;
    Ok(module)
}

/// The subscription of the public WebSocket port.
pub(super) fn public_module(
    context: Arc<Context>,
) -> Result<RpcModule<Context>, RegisterMethodError> {
    let mut module = RpcModule::from_arc(context);
    module.register_subscription(
        "reth_subscribePersistedBlock",
        "reth_subscribePersistedBlock",
        "reth_unsubscribePersistedBlock",
        |_, pending, context, _| forward_persisted_blocks(pending, context),
    )?;
    Ok(module)
}

async fn new_payload(
    params: &Params<'_>,
    context: &Context,
) -> Result<TimedPayloadStatus, ErrorObjectOwned> {
    let mut arguments = Arguments::new(params);
    let received = Instant::now();
    let data = debug_span!(target: "rpc::engine", "decode_payload")
        .in_scope(|| parse_input(arguments.next("input")?))?;
    context.metrics.decoded(received.elapsed());
    let wait_for = WaitFor {
        persistence: arguments.optional("waitForPersistence")?.unwrap_or(true),
        caches: arguments.optional("waitForCaches")?.unwrap_or(true),
    };
    arguments.end()?;
    let outcome = context.engine.new_payload(data, wait_for).await;
    let outcome = outcome.map_err(from_engine)?;
    let of_caches = |wait: Duration| wait_for.caches.then(|| micros(wait));
    Ok(TimedPayloadStatus {
        status: outcome.status,
        latency_us: micros(outcome.latency),
        persistence_wait_us: micros(outcome.persistence_wait),
        execution_cache_wait_us: of_caches(outcome.cache_wait),
        sparse_trie_wait_us: of_caches(Duration::ZERO),
    })
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Reads the block in any of its three forms: `ExecutionData`, `{"block": rlp}`, or bare RLP.
fn parse_input(input: &RawValue) -> Result<ExecutionData, ErrorObjectOwned> {
    let json = input.get();
    let unfit = |problem: serde_json::Error| invalid_params(format!("parameter 1: {problem}"));
    if json.starts_with('"') {
        return decode_data(&serde_json::from_str::<Bytes>(json).map_err(unfit)?);
    }
    let missing = |field| invalid_params(format!("parameter 1: missing field `{field}`"));
    let object: BlockObject = serde_json::from_str(json).map_err(unfit)?;
    match object.block {
        Some(block) => decode_data(&block),
        None => Ok(ExecutionData {
            payload: object.payload.ok_or_else(|| missing("payload"))?,
            sidecar: object.sidecar.ok_or_else(|| missing("sidecar"))?,
        }),
    }
}

fn decode_data(rlp: &[u8]) -> Result<ExecutionData, ErrorObjectOwned> {
    let block = decode_block(rlp)
        .map_err(|problem| invalid_params(format!("parameter 1: not a block in RLP: {problem}")))?;
    Ok(ExecutionData::from_block_unchecked(
        block.header.hash_slow(),
        &block,
    ))
}

/// Sends the last persisted block at once and then after every batch. Batches in quick succession may be
/// seen as one, so a listener tests for `at least`.
async fn forward_persisted_blocks(
    pending: PendingSubscriptionSink,
    context: Arc<Context>,
) -> SubscriptionResult {
    let mut persisted = context.engine.persisted();
    let sink = pending.accept().await?;
    loop {
        let BlockNumHash { number, hash } = *persisted.borrow_and_update();
        sink.send(serde_json::value::to_raw_value(&PersistedBlock {
            number,
            hash,
        })?)
        .await?;
        tokio::select! {
            () = sink.closed() => return Ok(()),
            changed = persisted.changed() => changed?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::primitives::Block;
    use alloy_primitives::hex;

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    #[test]
    fn a_block_is_read_in_every_form() {
        let block = Block::default();
        let rlp = hex::encode_prefixed(alloy_rlp::encode(&block));
        let data = ExecutionData::from_block_unchecked(block.header.hash_slow(), &block);
        let object = serde_json::to_string(&data).unwrap();
        for json in [
            format!("\"{rlp}\""),
            format!("{{\"block\":\"{rlp}\"}}"),
            object,
        ] {
            let read = parse_input(&raw(&json)).unwrap();
            assert_eq!(read.payload, data.payload, "{json}");
        }
    }

    #[test]
    fn what_is_no_block_is_refused() {
        let trailing =
            hex::encode_prefixed([alloy_rlp::encode(Block::default()), vec![0]].concat());
        for json in [
            "\"0x01\"",
            "\"0xzz\"",
            "{}",
            "7",
            &format!("\"{trailing}\""),
        ] {
            assert_eq!(
                parse_input(&raw(json)).unwrap_err().code(),
                -32602,
                "{json}"
            );
        }
    }
}
