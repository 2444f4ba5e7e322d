//! The subscription that says which blocks an engine has written to disk.
//!
//! Source: reth's `reth_subscribePersistedBlock` on the public WebSocket port. Invariant: the
//! engine may skip intermediate blocks, so a reader compares numbers with `>=`, never `==`.

use crate::error::ClientError;
use alloy_primitives::B256;
use jsonrpsee_core::client::{Subscription, SubscriptionClientT};
use jsonrpsee_core::params::ArrayParams;
use jsonrpsee_ws_client::{WsClient, WsClientBuilder};
use serde::{Deserialize, Serialize};
use std::time::Duration;

const SUBSCRIBE: &str = "reth_subscribePersistedBlock";
const UNSUBSCRIBE: &str = "reth_unsubscribePersistedBlock";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The newest block on disk. On the wire its number is a plain JSON integer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PersistedBlock {
    /// Block number.
    pub number: u64,
    /// Block hash.
    pub hash: B256,
}

/// An open subscription; it ends when dropped.
#[derive(Debug)]
pub struct PersistedBlocks {
    url: String,
    subscription: Subscription<PersistedBlock>,
    /// The subscription lives only as long as its connection.
    _connection: WsClient,
}

/// Subscribes at `ws://host:port`.
///
/// # Errors
/// [`ClientError::Subscription`] when there is no connection or the engine refuses.
pub async fn subscribe_persisted(url: &str) -> Result<PersistedBlocks, ClientError> {
    let failed = |e: jsonrpsee_core::client::Error| ClientError::Subscription {
        url: url.to_owned(),
        reason: e.to_string(),
    };
    let connection = WsClientBuilder::new()
        .connection_timeout(CONNECT_TIMEOUT)
        .build(url)
        .await
        .map_err(failed)?;
    let subscription = connection
        .subscribe(SUBSCRIBE, ArrayParams::new(), UNSUBSCRIBE)
        .await
        .map_err(failed)?;
    Ok(PersistedBlocks {
        url: url.to_owned(),
        subscription,
        _connection: connection,
    })
}

impl PersistedBlocks {
    /// Waits for the next announcement.
    ///
    /// # Errors
    /// [`ClientError::Subscription`] when the engine ended it or sent something else.
    pub async fn next(&mut self) -> Result<PersistedBlock, ClientError> {
        let failed = |reason: String| ClientError::Subscription {
            url: self.url.clone(),
            reason,
        };
        match self.subscription.next().await {
            Some(Ok(block)) => Ok(block),
            Some(Err(e)) => Err(failed(e.to_string())),
            None => Err(failed("the engine closed it".to_owned())),
        }
    }

    /// Waits until block `number` or a later one is on disk.
    ///
    /// # Errors
    /// As [`Self::next`].
    pub async fn wait_for(&mut self, number: u64) -> Result<PersistedBlock, ClientError> {
        loop {
            let block = self.next().await?;
            if block.number >= number {
                return Ok(block);
            }
        }
    }
}
