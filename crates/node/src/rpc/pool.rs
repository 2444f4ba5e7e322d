//! Transactions that wait for a block: sending one, and the txpool namespace.
//!
//! Source: execution-apis, `eth/submit.yaml` and `txpool/pool.yaml`; `txpool_inspect` is geth's.

use super::{
    Context,
    args::Arguments,
    convert,
    error::{SERVER_ERROR, error, internal, invalid_params},
    eth::{Answer, Module, Registered, reading},
    forms::{Account, Data},
};
use crate::pool::{Entry, PoolError, SenderContent};
use alloy_consensus::Transaction as _;
use alloy_primitives::{B256, U64};
use jsonrpsee::{
    RpcModule,
    core::RegisterMethodError,
    types::{ErrorObjectOwned, Params},
};
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, sync::Arc};

/// The methods of the namespace.
pub(super) fn module(context: Arc<Context>) -> Result<Module, RegisterMethodError> {
    let mut module = RpcModule::from_arc(context);
    reading(&mut module, "txpool_status", status)?;
    reading(&mut module, "txpool_content", |params, context| {
        by_sender(params, context, full)
    })?;
    reading(&mut module, "txpool_inspect", |params, context| {
        by_sender(params, context, |entry| Ok(summary(entry).into()))
    })?;
    reading(&mut module, "txpool_contentFrom", content_from)?;
    Ok(module)
}

/// The methods the auth port has too.
pub(super) fn register_on_auth(module: &mut Module) -> Registered {
    reading(module, "eth_sendRawTransaction", send_raw)
}

/// Lets the pool take note of a new head, beside the caller.
pub(super) fn follow(context: &Context) {
    let chain = context.chain.clone();
    if chain.pool().is_idle() {
        return;
    }
    tokio::task::spawn_blocking(move || chain.pool().follow(&chain));
}

fn send_raw(params: &Params<'_>, context: &Context) -> Answer<B256> {
    let mut arguments = Arguments::new(params);
    let Data(encoded) = arguments.next("transaction")?;
    arguments.end()?;
    let pool = context.chain.pool();
    pool.add(&context.chain, &encoded, context.options.tx_fee_cap_wei)
        .map_err(refused)
}

fn refused(problem: PoolError) -> ErrorObjectOwned {
    match problem {
        PoolError::Undecodable(reason) => invalid_params(reason),
        PoolError::Read(reason) => internal(reason),
        problem => error(SERVER_ERROR, problem.to_string()),
    }
}

fn status(params: &Params<'_>, context: &Context) -> Answer<Value> {
    Arguments::new(params).end()?;
    let all = context.chain.pool().all(&context.chain);
    let count =
        |part: fn(&SenderContent) -> usize| U64::from(all.values().map(part).sum::<usize>());
    Ok(json!({
        "pending": count(|content| content.pending.len()),
        "queued": count(|content| content.queued.len()),
    }))
}

/// How one transaction is shown.
type Show = fn(&Entry) -> Answer<Value>;

fn by_sender(params: &Params<'_>, context: &Context, show: Show) -> Answer<Value> {
    Arguments::new(params).end()?;
    let (mut pending, mut queued) = (Map::new(), Map::new());
    for (sender, content) in context.chain.pool().all(&context.chain) {
        for (part, all) in [
            (&content.pending, &mut pending),
            (&content.queued, &mut queued),
        ] {
            if !part.is_empty() {
                all.insert(sender.to_checksum(None), by_nonce(part, show)?);
            }
        }
    }
    Ok(json!({ "pending": pending, "queued": queued }))
}

fn content_from(params: &Params<'_>, context: &Context) -> Answer<Value> {
    let mut arguments = Arguments::new(params);
    let Account(sender) = arguments.next("address")?;
    arguments.end()?;
    let content = context.chain.pool().of_sender(&context.chain, sender);
    Ok(json!({
        "pending": by_nonce(&content.pending, full)?,
        "queued": by_nonce(&content.queued, full)?,
    }))
}

fn by_nonce(entries: &BTreeMap<u64, Arc<Entry>>, show: Show) -> Answer<Value> {
    let shown: Answer<Map<_, _>> = entries
        .iter()
        .map(|(nonce, entry)| Ok((nonce.to_string(), show(entry)?)))
        .collect();
    shown.map(Value::Object)
}

fn full(entry: &Entry) -> Answer<Value> {
    serde_json::to_value(convert::pending_transaction(entry))
        .map_err(|problem| internal(format!("encode a transaction: {problem}")))
}

fn summary(entry: &Entry) -> String {
    let transaction = &entry.transaction;
    let to = transaction
        .to()
        .map_or_else(|| "contract creation".to_owned(), |to| to.to_checksum(None));
    format!(
        "{to}: {} wei + {} gas × {} wei",
        transaction.value(),
        transaction.gas_limit(),
        transaction.max_fee_per_gas()
    )
}
