//! The Engine API methods (namespace `engine`).
//!
//! Source: execution-apis, `engine/*.md`. A payload's problems are a status; only a request that
//! does not fit its method is an error.

use super::{
    Context,
    args::Arguments,
    blobs,
    error::{TOO_LARGE_REQUEST, internal},
    error::{
        error, from_engine, from_forkchoice, from_get_payload, from_read, invalid_attributes,
        invalid_params,
    },
    forks::{Fork, check_attributes, check_get_payload, check_new_payload, check_requests},
    pool,
};
use crate::{
    engine::{BuiltPayload, WaitFor},
    primitives::{Block, ChainBlock},
    telemetry::request_span,
};
use alloy_eips::{eip7594::BlobTransactionSidecarVariant, eip7685::RequestsOrHash};
use alloy_primitives::{B256, U64};
use alloy_rpc_types_engine::{
    BlobsBundleV1, BlobsBundleV2, CancunPayloadFields, ExecutionData, ExecutionPayload,
    ExecutionPayloadBodyV1, ExecutionPayloadEnvelopeV2, ExecutionPayloadEnvelopeV3,
    ExecutionPayloadEnvelopeV4, ExecutionPayloadEnvelopeV5, ExecutionPayloadFieldV2,
    ExecutionPayloadSidecar, ExecutionPayloadV1, ExecutionPayloadV3, ForkchoiceState,
    ForkchoiceUpdated, PayloadAttributes, PayloadId, PayloadStatus, PraguePayloadFields,
};
use jsonrpsee::{
    RpcModule,
    core::RegisterMethodError,
    types::{ErrorObjectOwned, Params},
};
use serde::Serialize;
use serde_json::{Value, json, value::RawValue};
use std::{sync::Arc, time::Instant};
use tracing::{Instrument as _, debug_span};

/// Most bodies one request may ask for, as in reth and geth.
const MAX_BODIES: u64 = 1024;

/// Most bytes of transactions in one answer of bodies, which takes twice as many as text: more than the
/// most bodies of mainnet have.
const MAX_BODIES_BYTES: usize = 256 << 20;

/// Every method a consensus client may rely on; the specification leaves out
/// `engine_exchangeCapabilities` itself.
const CAPABILITIES: &[&str] = &[
    "engine_forkchoiceUpdatedV1",
    "engine_forkchoiceUpdatedV2",
    "engine_forkchoiceUpdatedV3",
    "engine_getBlobsV1",
    "engine_getBlobsV2",
    "engine_getBlobsV3",
    "engine_getClientVersionV1",
    "engine_getPayloadBodiesByHashV1",
    "engine_getPayloadBodiesByRangeV1",
    "engine_getPayloadV1",
    "engine_getPayloadV2",
    "engine_getPayloadV3",
    "engine_getPayloadV4",
    "engine_getPayloadV5",
    "engine_newPayloadV1",
    "engine_newPayloadV2",
    "engine_newPayloadV3",
    "engine_newPayloadV4",
];

/// The methods of the namespace.
pub(super) fn module(context: Arc<Context>) -> Result<RpcModule<Context>, RegisterMethodError> {
    let mut module = RpcModule::from_arc(context);
    for (version, name) in (1..).zip([
        "engine_newPayloadV1",
        "engine_newPayloadV2",
        "engine_newPayloadV3",
        "engine_newPayloadV4",
    ]) {
        module.register_async_method(name, move |params, context, extensions| {
            let span = request_span(name, &extensions);
            async move { new_payload(version, &params, &context).await }.instrument(span)
        })?;
    }
    for (version, name) in (1..).zip([
        "engine_forkchoiceUpdatedV1",
        "engine_forkchoiceUpdatedV2",
        "engine_forkchoiceUpdatedV3",
    ]) {
        module.register_async_method(name, move |params, context, extensions| {
            let span = request_span(name, &extensions);
            async move { forkchoice_updated(version, &params, &context).await }.instrument(span)
        })?;
    }
    for (version, name) in (1..).zip([
        "engine_getPayloadV1",
        "engine_getPayloadV2",
        "engine_getPayloadV3",
        "engine_getPayloadV4",
        "engine_getPayloadV5",
    ]) {
        module.register_async_method(name, move |params, context, _| async move {
            get_payload(version, &params, &context).await
        })?;
    }
    blobs::register(&mut module)?;
    module.register_blocking_method("engine_getPayloadBodiesByHashV1", |params, context, _| {
        bodies_by_hash(&params, &context)
    })?;
    module.register_blocking_method("engine_getPayloadBodiesByRangeV1", |params, context, _| {
        bodies_by_range(&params, &context)
    })?;
    module.register_method("engine_exchangeCapabilities", |params, _, _| {
        let mut arguments = Arguments::new(&params);
        arguments.next::<Vec<String>>("capabilities")?;
        arguments.end()?;
        Ok::<_, ErrorObjectOwned>(CAPABILITIES)
    })?;
    module.register_method("engine_getClientVersionV1", |_, _, _| client_version())?;
    Ok(module)
}

async fn new_payload(
    version: u8,
    params: &Params<'_>,
    context: &Context,
) -> Result<PayloadStatus, ErrorObjectOwned> {
    let received = Instant::now();
    let data = debug_span!(target: "rpc::engine", "decode_payload")
        .in_scope(|| parse_new_payload(version, params, context))?;
    let decoded = Instant::now();
    context.metrics.decoded(decoded - received);
    let outcome = context.engine.new_payload(data, WaitFor::default()).await;
    context.metrics.new_payload(version, decoded);
    Ok(outcome.map_err(from_engine)?.status)
}

/// Reads and checks the parameters of `engine_newPayloadV<version>`.
fn parse_new_payload(
    version: u8,
    params: &Params<'_>,
    context: &Context,
) -> Result<ExecutionData, ErrorObjectOwned> {
    let mut arguments = Arguments::new(params);
    let payload: ExecutionPayload = arguments.next("executionPayload")?;
    let cancun = if version >= 3 {
        let versioned_hashes = arguments.next("expectedBlobVersionedHashes")?;
        let parent_beacon_block_root = arguments.next("parentBeaconBlockRoot")?;
        Some(CancunPayloadFields {
            parent_beacon_block_root,
            versioned_hashes,
        })
    } else {
        None
    };
    let requests: Option<RequestsOrHash> = if version >= 4 {
        Some(arguments.next("executionRequests")?)
    } else {
        None
    };
    arguments.end()?;
    match &requests {
        Some(RequestsOrHash::Requests(requests)) => check_requests(requests)?,
        Some(RequestsOrHash::Hash(_)) if !context.options.accept_requests_hash => {
            return Err(invalid_params(
                "executionRequests: a hash needs --engine.accept-execution-requests-hash",
            ));
        }
        _ => {}
    }
    let fork = Fork::at(context.chain.chain_spec(), payload.timestamp());
    check_new_payload(version, &payload, fork)?;
    let sidecar = match (cancun, requests) {
        (None, _) => ExecutionPayloadSidecar::none(),
        (Some(cancun), None) => ExecutionPayloadSidecar::v3(cancun),
        (Some(cancun), Some(requests)) => {
            ExecutionPayloadSidecar::v4(cancun, PraguePayloadFields::new(requests))
        }
    };
    Ok(ExecutionData { payload, sidecar })
}

async fn forkchoice_updated(
    version: u8,
    params: &Params<'_>,
    context: &Context,
) -> Result<ForkchoiceUpdated, ErrorObjectOwned> {
    let mut arguments = Arguments::new(params);
    let state: ForkchoiceState = arguments.next("forkchoiceState")?;
    let attributes: Option<&RawValue> = arguments.optional("payloadAttributes")?;
    arguments.end()?;
    let attributes = attributes.map(|json| parse_attributes(version, json, context));
    // Unfit attributes do not undo the fork choice: it is applied first, then they are refused.
    let (attributes, unfit) = match attributes.transpose() {
        Ok(attributes) => (attributes, None),
        Err(problem) => (None, Some(problem)),
    };
    let decoded = Instant::now();
    let updated = apply_forkchoice(context, state, attributes).await;
    context.metrics.forkchoice(version, decoded);
    let updated = updated?;
    match unfit {
        Some(problem) if updated.payload_status.is_valid() => Err(problem),
        _ => Ok(updated),
    }
}

/// Reads and checks the attributes of `engine_forkchoiceUpdatedV<version>`.
fn parse_attributes(
    version: u8,
    json: &RawValue,
    context: &Context,
) -> Result<PayloadAttributes, ErrorObjectOwned> {
    let attributes: PayloadAttributes = serde_json::from_str(json.get())
        .map_err(|problem| invalid_attributes(format!("Invalid payload attributes: {problem}")))?;
    let fork = Fork::at(context.chain.chain_spec(), attributes.timestamp);
    check_attributes(version, &attributes, fork)?;
    Ok(attributes)
}

/// Hands a fork choice to the engine and takes note when it was valid.
pub(super) async fn apply_forkchoice(
    context: &Context,
    state: ForkchoiceState,
    attributes: Option<PayloadAttributes>,
) -> Result<ForkchoiceUpdated, ErrorObjectOwned> {
    let updated = context
        .engine
        .fork_choice_updated(state, attributes)
        .await
        .map_err(from_forkchoice)?;
    if updated.payload_status.is_valid() {
        context.note_valid_forkchoice();
        pool::follow(context);
    }
    Ok(updated)
}

async fn get_payload(
    version: u8,
    params: &Params<'_>,
    context: &Context,
) -> Result<Value, ErrorObjectOwned> {
    let mut arguments = Arguments::new(params);
    let id: PayloadId = arguments.next("payloadId")?;
    arguments.end()?;
    let built = context
        .engine
        .get_payload(id)
        .await
        .map_err(from_get_payload)?;
    check_get_payload(
        version,
        Fork::at(context.chain.chain_spec(), built.block.timestamp),
    )?;
    envelope(version, built).map_err(|problem| internal(format!("encode the payload: {problem}")))
}

/// A built payload in the shape of `engine_getPayloadV<version>`.
///
/// Blobs of transactions that were given, not sent, are unknown: they are left out of the bundle.
pub(super) fn envelope(version: u8, built: BuiltPayload) -> serde_json::Result<Value> {
    let BuiltPayload {
        block,
        requests,
        fees,
        sidecars,
    } = built;
    let hash = block.hash();
    let block: Block = block.into_block();
    let v3 = |block: &Block| ExecutionPayloadV3::from_block_unchecked(hash, block);
    match version {
        1 => to_value(ExecutionPayloadV1::from_block_unchecked(hash, &block)),
        2 => to_value(ExecutionPayloadEnvelopeV2 {
            execution_payload: ExecutionPayloadFieldV2::from_block_unchecked(hash, &block),
            block_value: fees,
        }),
        3 => to_value(envelope_v3(v3(&block), fees, &sidecars)),
        4 => to_value(ExecutionPayloadEnvelopeV4 {
            envelope_inner: envelope_v3(v3(&block), fees, &sidecars),
            execution_requests: requests,
        }),
        _ => to_value(ExecutionPayloadEnvelopeV5 {
            execution_payload: v3(&block),
            block_value: fees,
            blobs_bundle: bundle_v2(&sidecars),
            should_override_builder: false,
            execution_requests: requests,
        }),
    }
}

fn envelope_v3(
    execution_payload: ExecutionPayloadV3,
    block_value: alloy_primitives::U256,
    sidecars: &[Arc<BlobTransactionSidecarVariant>],
) -> ExecutionPayloadEnvelopeV3 {
    ExecutionPayloadEnvelopeV3 {
        execution_payload,
        block_value,
        blobs_bundle: bundle_v1(sidecars),
        should_override_builder: false,
    }
}

/// One proof a blob (Cancun, Prague).
fn bundle_v1(sidecars: &[Arc<BlobTransactionSidecarVariant>]) -> BlobsBundleV1 {
    let mut bundle = BlobsBundleV1::empty();
    for sidecar in sidecars.iter().filter_map(|sidecar| sidecar.as_eip4844()) {
        bundle.commitments.extend(&sidecar.commitments);
        bundle.proofs.extend(&sidecar.proofs);
        bundle.blobs.extend(&sidecar.blobs);
    }
    bundle
}

/// 128 cell proofs a blob (from Osaka on).
fn bundle_v2(sidecars: &[Arc<BlobTransactionSidecarVariant>]) -> BlobsBundleV2 {
    let mut bundle = BlobsBundleV2::empty();
    for sidecar in sidecars.iter().filter_map(|sidecar| sidecar.as_eip7594()) {
        bundle.commitments.extend(&sidecar.commitments);
        bundle.proofs.extend(&sidecar.cell_proofs);
        bundle.blobs.extend(&sidecar.blobs);
    }
    bundle
}

fn to_value(envelope: impl Serialize) -> serde_json::Result<Value> {
    serde_json::to_value(envelope)
}

type Bodies = Vec<Option<ExecutionPayloadBodyV1>>;

fn bodies_by_hash(params: &Params<'_>, context: &Context) -> Result<Bodies, ErrorObjectOwned> {
    let mut arguments = Arguments::new(params);
    let hashes: Vec<B256> = arguments.next("blockHashes")?;
    arguments.end()?;
    check_count(hashes.len() as u64)?;
    let read = |hash| {
        let block = context.chain.block_by_hash(hash).map_err(from_read)?;
        Ok(block.map(|block| body(&block)))
    };
    within(hashes.into_iter().map(read), MAX_BODIES_BYTES)
}

fn bodies_by_range(params: &Params<'_>, context: &Context) -> Result<Bodies, ErrorObjectOwned> {
    let mut arguments = Arguments::new(params);
    let start = arguments.next::<U64>("start")?.to::<u64>();
    let count = arguments.next::<U64>("count")?.to::<u64>();
    arguments.end()?;
    if start == 0 || count == 0 {
        return Err(invalid_params(format!(
            "start ({start}) and count ({count}) begin at 1"
        )));
    }
    check_count(count)?;
    // Blocks past the head are left out, not padded.
    let end = start
        .saturating_add(count)
        .min(context.chain.head().number + 1);
    let read = |number| {
        let block = context.chain.block_by_number(number).map_err(from_read)?;
        Ok(block.map(|block| body(&block)))
    };
    within((start..end).map(read), MAX_BODIES_BYTES)
}

/// Bodies, which are read one after another and no further than the answer may hold.
fn within(
    read: impl Iterator<Item = Result<Option<ExecutionPayloadBodyV1>, ErrorObjectOwned>>,
    max_bytes: usize,
) -> Result<Bodies, ErrorObjectOwned> {
    let mut bodies = Bodies::new();
    let mut bytes = 0;
    for body in read {
        let body = body?;
        let transactions = body.iter().flat_map(|body| &body.transactions);
        bytes += transactions
            .map(|transaction| transaction.len())
            .sum::<usize>();
        if bytes > max_bytes {
            let place = bodies.len() + 1;
            let message = format!(
                "Too large request: the first {place} bodies have {bytes} bytes of transactions, at \
                 most {max_bytes}; ask for fewer"
            );
            return Err(error(TOO_LARGE_REQUEST, message));
        }
        bodies.push(body);
    }
    Ok(bodies)
}

fn check_count(count: u64) -> Result<(), ErrorObjectOwned> {
    if count > MAX_BODIES {
        let message = format!("Too large request: {count} bodies, at most {MAX_BODIES}");
        return Err(error(TOO_LARGE_REQUEST, message));
    }
    Ok(())
}

fn body(block: &ChainBlock) -> ExecutionPayloadBodyV1 {
    let block = &block.block;
    ExecutionPayloadBodyV1::new(block.withdrawals.clone(), &block.transactions)
}

/// `ClientVersionV1`. There is no registered code for this engine; it answers as reth does.
fn client_version() -> Value {
    json!([{
        "code": "RH",
        "name": "bench-reth",
        "version": concat!("v", env!("CARGO_PKG_VERSION")),
        "commit": "0x00000000",
    }])
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::Bytes;

    #[test]
    fn no_more_bodies_are_read_than_an_answer_holds() {
        let body = ExecutionPayloadBodyV1 {
            transactions: vec![Bytes::from(vec![0; 40]), Bytes::from(vec![0; 10])],
            withdrawals: None,
        };
        let mut read = 0;
        let mut answer = |count, max_bytes| {
            read = 0;
            let bodies = (0..count).map(|_| Ok(Some(body.clone())));
            let answer = within(bodies.inspect(|_| read += 1), max_bytes);
            (
                answer
                    .map(|bodies| bodies.len())
                    .map_err(|error| error.code()),
                read,
            )
        };
        assert_eq!(answer(1000, 1000 * 50), (Ok(1000), 1000));
        assert_eq!(answer(1000, 149), (Err(TOO_LARGE_REQUEST), 3));
    }
}
