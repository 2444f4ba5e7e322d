//! Questions the harness asks an engine, over the two ports every engine has.
//!
//! Invariant: nothing here is timed; the measured requests are sent by [`crate::run`].

pub use engine_api::ClientError;

use alloy_primitives::{B256, U64};
use engine_api::{
    EngineClient, ForkchoiceState, ForkchoiceUpdated, JwtSecret, PayloadStatus, PayloadStatusEnum,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::time::Duration;

/// What identifies a block and its state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BlockIdentity {
    /// Block number.
    pub number: U64,
    /// Block hash.
    pub hash: B256,
    /// Root of the state after the block.
    pub state_root: B256,
    /// Gas the block may use.
    pub gas_limit: U64,
}

impl BlockIdentity {
    /// The block number.
    pub fn number(&self) -> u64 {
        self.number.to()
    }
}

/// One engine, seen through its authenticated and its public port.
#[derive(Debug)]
pub struct Node {
    /// The authenticated port.
    pub auth: EngineClient,
    /// The public HTTP port.
    pub public: EngineClient,
}

impl Node {
    /// Clients of both ports; they connect at the first question.
    ///
    /// # Errors
    /// When an address is not usable.
    pub fn connect(
        auth_url: &str,
        public_url: &str,
        secret: &JwtSecret,
        timeout: Duration,
    ) -> Result<Self, ClientError> {
        let auth = EngineClient::new(auth_url, Some(secret.clone()))?;
        let public = EngineClient::new(public_url, None)?;
        Ok(Self {
            auth: auth.with_timeout(timeout),
            public: public.with_timeout(timeout),
        })
    }

    /// Asks both ports; gives what the engine says of syncing (`eth_syncing`).
    ///
    /// # Errors
    /// When one does not answer.
    pub async fn answers(&mut self) -> Result<Value, ClientError> {
        let methods = json!([["engine_newPayloadV4", "engine_forkchoiceUpdatedV3"]]);
        let _: Vec<String> = self
            .auth
            .call("engine_exchangeCapabilities", methods)
            .await?;
        let _: U64 = self.public.call("eth_blockNumber", json!([])).await?;
        self.public.call("eth_syncing", json!([])).await
    }

    /// The head of the chain.
    ///
    /// # Errors
    /// When the engine does not answer.
    pub async fn head(&mut self) -> Result<BlockIdentity, ClientError> {
        self.public
            .call("eth_getBlockByNumber", json!(["latest", false]))
            .await
    }

    /// The canonical block of that number; `None` when there is none.
    ///
    /// # Errors
    /// When the engine does not answer.
    pub async fn block(&mut self, number: u64) -> Result<Option<BlockIdentity>, ClientError> {
        self.public
            .call("eth_getBlockByNumber", json!([U64::from(number), false]))
            .await
    }

    /// The engine's name and version as it gives them.
    ///
    /// # Errors
    /// When the engine does not answer.
    pub async fn version(&mut self) -> Result<String, ClientError> {
        self.public.call("web3_clientVersion", json!([])).await
    }

    /// Makes `hash` head, safe and finalized block.
    ///
    /// # Errors
    /// When the engine does not answer.
    pub async fn forkchoice(
        &mut self,
        method: &str,
        hash: B256,
    ) -> Result<PayloadStatus, ClientError> {
        let state = ForkchoiceState {
            head_block_hash: hash,
            safe_block_hash: hash,
            finalized_block_hash: hash,
        };
        let updated: ForkchoiceUpdated = self.auth.call(method, json!([state, null])).await?;
        Ok(updated.payload_status)
    }
}

/// The status in one line, for records: `INVALID: mismatched block state root: …`.
pub(crate) fn status_text(status: &PayloadStatus) -> String {
    match &status.status {
        PayloadStatusEnum::Valid => "VALID".to_owned(),
        PayloadStatusEnum::Syncing => "SYNCING (the engine does not know the parent block)".into(),
        PayloadStatusEnum::Accepted => "ACCEPTED (on a side chain, not executed)".to_owned(),
        PayloadStatusEnum::Invalid { validation_error } => format!("INVALID: {validation_error}"),
    }
}
