//! Transactions that wait for a block: sending one, and the txpool namespace.
//!
//! Source: execution-apis, `eth/submit.yaml` and `txpool/pool.yaml`; `txpool_inspect` is geth's.

use super::{
    Context,
    args::Arguments,
    convert,
    error::{LIMIT_EXCEEDED, NOT_MINED_IN_TIME, SERVER_ERROR, error, internal, invalid_params},
    eth::{Answer, Module, Registered, reading, receipt_of},
    forms::{Account, Data},
};
use crate::pool::{Entry, PoolError, SenderContent};
use alloy_consensus::Transaction as _;
use alloy_primitives::{B256, U64};
use alloy_rpc_types_eth::TransactionReceipt;
use jsonrpsee::{
    RpcModule,
    core::RegisterMethodError,
    types::{ErrorObjectOwned, Params},
};
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// Most requests that wait for a transaction at a time: each holds a turn of its server.
pub(super) const MAX_WAITING: usize = 8;
/// How long they wait unless they say how long, as in geth.
const DEFAULT_WAIT: Duration = Duration::from_secs(20);
/// How long they wait at most, as in geth.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

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

/// The methods of the public port alone.
pub(super) fn register(module: &mut Module) -> Registered {
    module.register_async_method("eth_sendRawTransactionSync", |params, context, _| {
        send_and_wait(params, context)
    })?;
    Ok(())
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

/// `eth_sendRawTransactionSync`: answers when the transaction is in a block, with its receipt.
async fn send_and_wait(
    params: Params<'static>,
    context: Arc<Context>,
) -> Answer<TransactionReceipt> {
    let mut arguments = Arguments::new(&params);
    let Data(encoded) = arguments.next("transaction")?;
    let longest: Option<u64> = arguments.optional("timeout")?;
    arguments.end()?;
    let longest = match longest {
        None | Some(0) => DEFAULT_WAIT,
        Some(longest_ms) => Duration::from_millis(longest_ms).min(LONGEST_WAIT),
    };
    let full = || {
        error(
            LIMIT_EXCEEDED,
            format!("{MAX_WAITING} requests wait already"),
        )
    };
    let _place = context.waiting.try_acquire().map_err(|_| full())?;
    // Before the transaction can be mined: no head is missed.
    let mut heads = context.chain.heads();
    let hash = blocking(&context, move |context| {
        let cap = context.options.tx_fee_cap_wei;
        let added = context.chain.pool().add(&context.chain, &encoded, cap);
        added.map_err(refused)
    })
    .await?;
    let mined = async {
        loop {
            let receipt = blocking(&context, move |context| receipt_of(context, hash)).await?;
            if let Some(receipt) = receipt {
                return Ok(receipt);
            }
            let next = heads.changed().await;
            next.map_err(|_| internal("follow the chain: the engine has stopped"))?;
        }
    };
    let in_time = tokio::time::timeout(longest, mined).await;
    in_time.unwrap_or_else(|_| Err(not_mined(hash, longest)))
}

/// Runs `work` on a thread where it may block.
async fn blocking<T: Send + 'static>(
    context: &Arc<Context>,
    work: impl FnOnce(&Context) -> Answer<T> + Send + 'static,
) -> Answer<T> {
    let context = context.clone();
    let done = tokio::task::spawn_blocking(move || work(&context)).await;
    done.map_err(|problem| internal(format!("serve the request: {problem}")))?
}

/// The transaction goes on waiting in the pool.
fn not_mined(hash: B256, waited: Duration) -> ErrorObjectOwned {
    let text = format!(
        "The transaction was added to the transaction pool but wasn't processed in {waited:?}"
    );
    ErrorObjectOwned::owned(NOT_MINED_IN_TIME, text, Some(hash))
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
