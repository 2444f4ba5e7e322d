//! `eth_subscribe`: heads and logs, pushed over a WebSocket.
//!
//! A subscriber is told about every canonical block in order, also when heads change faster than
//! it reads. After a reorganisation `newHeads` tells the new branch, and `logs` first repeats the
//! logs of the old one, marked as removed.

use super::{
    Answer, Module, Registered, follow,
    logs::{self, LogFilter},
};
use crate::{
    primitives::BlockNumHash,
    rpc::{
        Context,
        args::Arguments,
        convert,
        error::{internal, invalid_params},
    },
};
use jsonrpsee::{
    PendingSubscriptionSink, SubscriptionSink,
    core::SubscriptionResult,
    core::traits::IdProvider,
    types::{Params, SubscriptionId},
};
use serde::Serialize;
use serde_json::value::RawValue;
use std::{
    hash::{BuildHasher, RandomState},
    sync::Arc,
};

/// Ids of subscriptions: random quantities, as clients expect them.
#[derive(Debug, Clone, Copy)]
pub(in crate::rpc) struct SubscriptionIds;

impl IdProvider for SubscriptionIds {
    fn next_id(&self) -> SubscriptionId<'static> {
        // The standard hasher's keys are random.
        let id = RandomState::new().hash_one(());
        SubscriptionId::from(format!("{id:#x}"))
    }
}

/// What a subscriber is told.
enum Topic {
    Heads,
    Logs(LogFilter),
}

/// The subscription of the public ports.
pub(super) fn register(module: &mut Module) -> Registered {
    module.register_subscription(
        "eth_subscribe",
        "eth_subscription",
        "eth_unsubscribe",
        |params, pending, context, _| async move {
            match topic(&params) {
                Ok(topic) => follow_heads(pending, context, topic).await,
                Err(problem) => {
                    pending.reject(problem).await;
                    Ok(())
                }
            }
        },
    )?;
    Ok(())
}

fn topic(params: &Params<'_>) -> Answer<Topic> {
    let mut arguments = Arguments::new(params);
    let name: String = arguments.next("subscription")?;
    let topic = match name.as_str() {
        "newHeads" => Topic::Heads,
        "logs" => Topic::Logs(arguments.optional("filter")?.unwrap_or_default()),
        _ => {
            let problem = "no subscription of that name; known: newHeads, logs";
            return Err(invalid_params(format!(
                "parameter 1 (subscription): {problem}"
            )));
        }
    };
    arguments.end()?;
    Ok(topic)
}

async fn follow_heads(
    pending: PendingSubscriptionSink,
    context: Arc<Context>,
    topic: Topic,
) -> SubscriptionResult {
    let mut heads = context.chain.heads();
    let mut told = *heads.borrow_and_update();
    let sink = pending.accept().await?;
    let topic = Arc::new(topic);
    loop {
        tokio::select! {
            () = sink.closed() => return Ok(()),
            changed = heads.changed() => changed?,
        }
        let head = *heads.borrow_and_update();
        let (context, topic) = (context.clone(), topic.clone());
        let news = tokio::task::spawn_blocking(move || news(&context, &topic, told, head));
        send(&sink, news.await??).await?;
        told = head;
    }
}

async fn send(sink: &SubscriptionSink, news: Vec<Box<RawValue>>) -> SubscriptionResult {
    for one in news {
        sink.send(one).await?;
    }
    Ok(())
}

/// Everything to tell about the way from one head to another, in order.
fn news(
    context: &Context,
    topic: &Topic,
    told: BlockNumHash,
    head: BlockNumHash,
) -> Answer<Vec<Box<RawValue>>> {
    let way = follow::way(context, told, head)?;
    match topic {
        Topic::Logs(filter) => {
            let logs = logs::on_way(context, filter, way)?;
            logs.iter().map(json).collect()
        }
        Topic::Heads => {
            let mut headers = Vec::new();
            for number in way.came {
                let block = follow::block(context, number)?;
                let header = block
                    .map(|block| convert::rpc_header(block.block.hash, &block.block.header, None));
                headers.extend(header.as_ref().map(json));
            }
            headers.into_iter().collect()
        }
    }
}

fn json(value: &impl Serialize) -> Answer<Box<RawValue>> {
    serde_json::value::to_raw_value(value)
        .map_err(|problem| internal(format!("write a notification: {problem}")))
}
