//! How the rest of the program talks to the engine thread: one message per request, one answer.

use super::{
    EngineError,
    builder::{BuildError, BuildRequest, BuiltPayload},
    reader::ChainReader,
};
use crate::primitives::{Block, BlockNumHash};
use alloy_rpc_types_engine::{
    ExecutionData, ForkchoiceState, ForkchoiceUpdated, PayloadAttributes, PayloadId, PayloadStatus,
};
use crossbeam_channel::Sender;
use std::time::Duration;
use tokio::sync::{oneshot, watch};

/// The engine's answer to one payload.
#[derive(Debug, Clone)]
pub struct NewPayloadOutcome {
    /// Validity as the Engine API words it.
    pub status: PayloadStatus,
    /// Time on the engine thread, without queueing and without `persistence_wait`.
    pub latency: Duration,
    /// Time from arrival until the engine took the payload, plus the wait for a running batch of persistence
    /// when that was asked for.
    pub persistence_wait: Duration,
    /// The wait for what is prepared after the block before, when that was asked for; else part of `latency`.
    pub cache_wait: Duration,
}

/// What a payload waits for before its time begins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WaitFor {
    /// For a running batch of persistence.
    pub persistence: bool,
    /// For what is prepared after the block before: the state cache and the merged changes.
    pub caches: bool,
}

/// A fork choice the engine refuses as a request (not as a block).
#[derive(Debug, thiserror::Error)]
pub enum ForkchoiceError {
    /// Safe or finalized block unknown or not on the head's chain (code -38002).
    #[error("invalid forkchoice state")]
    InvalidState,
    /// The head parts from the canonical chain too far below, or below the finalized block (code
    /// -38006).
    #[error("too deep reorg")]
    TooDeepReorg,
    /// Attributes do not fit the head or the fork (code -38003). The fork choice itself was
    /// applied.
    #[error("invalid payload attributes: {0}")]
    InvalidAttributes(String),
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// Why a payload could not be handed out.
#[derive(Debug, thiserror::Error)]
pub enum GetPayloadError {
    /// No payload of that id is kept (code -38001).
    #[error("unknown payload")]
    Unknown,
    /// The payload could not be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// One request to the engine thread.
pub(super) enum Message {
    NewPayload {
        data: Box<ExecutionData>,
        wait_for: WaitFor,
        received: std::time::Instant,
        /// The caller's span.
        span: tracing::Span,
        answer: oneshot::Sender<Result<NewPayloadOutcome, EngineError>>,
    },
    ForkchoiceUpdated {
        state: ForkchoiceState,
        attributes: Option<Box<PayloadAttributes>>,
        /// The caller's span.
        span: tracing::Span,
        answer: oneshot::Sender<Result<ForkchoiceUpdated, ForkchoiceError>>,
    },
    GetPayload {
        id: PayloadId,
        answer: oneshot::Sender<Result<BuiltPayload, GetPayloadError>>,
    },
    ImportBlock {
        block: Box<Block>,
        answer: oneshot::Sender<Result<PayloadStatus, EngineError>>,
    },
    Shutdown {
        answer: oneshot::Sender<Result<(), EngineError>>,
    },
}

/// A cheap, shareable way to reach the engine.
#[derive(Clone)]
pub struct EngineHandle {
    pub(super) requests: Sender<Message>,
    pub(super) chain: ChainReader,
    pub(super) persisted: watch::Receiver<BlockNumHash>,
    pub(super) skip_invalid_transactions: bool,
}

impl EngineHandle {
    /// Validates and executes a payload.
    ///
    /// With `wait_for_persistence` a running batch of persistence is waited for first, so that it does not
    /// compete with the payload; the wait is reported apart from the latency.
    pub async fn new_payload(
        &self,
        data: ExecutionData,
        wait_for: WaitFor,
    ) -> Result<NewPayloadOutcome, EngineError> {
        let (answer, reply) = oneshot::channel();
        let received = std::time::Instant::now();
        let data = Box::new(data);
        self.send(Message::NewPayload {
            data,
            wait_for,
            received,
            span: tracing::Span::current(),
            answer,
        })?;
        reply.await.map_err(|_| self.ended())?
    }

    /// Moves head, safe and finalized; with attributes also starts a payload on the new head.
    pub async fn fork_choice_updated(
        &self,
        state: ForkchoiceState,
        attributes: Option<PayloadAttributes>,
    ) -> Result<ForkchoiceUpdated, ForkchoiceError> {
        let (answer, reply) = oneshot::channel();
        let attributes = attributes.map(Box::new);
        self.send(Message::ForkchoiceUpdated {
            state,
            attributes,
            span: tracing::Span::current(),
            answer,
        })?;
        reply.await.map_err(|_| self.ended())?
    }

    /// The payload that a fork choice with attributes started.
    pub async fn get_payload(&self, id: PayloadId) -> Result<BuiltPayload, GetPayloadError> {
        let (answer, reply) = oneshot::channel();
        self.send(Message::GetPayload { id, answer })?;
        reply.await.map_err(|_| self.ended())?
    }

    /// Builds a block on any parent whose state is available. The chain does not change.
    pub async fn build_block(&self, request: BuildRequest) -> Result<BuiltPayload, BuildError> {
        let chain = self.chain.clone();
        let skip_invalid = self.skip_invalid_transactions;
        tokio::task::spawn_blocking(move || super::builder::build(&chain, &request, skip_invalid))
            .await
            .map_err(|error| BuildError::Internal(error.to_string()))?
    }

    /// Validates a whole block, also one of proof of work, whose seal is not checked.
    ///
    /// A valid block of proof of stake becomes the head; one of proof of work does when it has the
    /// most total difficulty. SYNCING says that its parent or the parent's state is not known.
    pub async fn import_block(&self, block: Block) -> Result<PayloadStatus, EngineError> {
        let (answer, reply) = oneshot::channel();
        let block = Box::new(block);
        self.send(Message::ImportBlock { block, answer })?;
        reply.await.map_err(|_| self.ended())?
    }

    /// Builds a block of exactly the transactions given, or fails.
    pub async fn build_exactly(&self, request: BuildRequest) -> Result<BuiltPayload, BuildError> {
        let chain = self.chain.clone();
        tokio::task::spawn_blocking(move || super::builder::build(&chain, &request, false))
            .await
            .map_err(|error| BuildError::Internal(error.to_string()))?
    }

    /// Reads the chain without going through the engine thread.
    pub fn chain(&self) -> ChainReader {
        self.chain.clone()
    }

    /// The last block in the database, after the engine has taken note of the batch.
    pub fn persisted(&self) -> watch::Receiver<BlockNumHash> {
        self.persisted.clone()
    }

    /// Writes every canonical in-memory block durably and stops the engine.
    ///
    /// Later requests fail with [`EngineError::Stopped`].
    pub async fn shutdown(&self) -> Result<(), EngineError> {
        let (answer, reply) = oneshot::channel();
        self.send(Message::Shutdown { answer })?;
        reply.await.map_err(|_| self.ended())?
    }

    fn send(&self, message: Message) -> Result<(), EngineError> {
        self.requests.send(message).map_err(|_| self.ended())
    }

    /// Why the engine does not answer.
    fn ended(&self) -> EngineError {
        match self.chain.shared.failure.get() {
            Some(reason) => EngineError::Persistence(reason.clone()),
            None => EngineError::Stopped,
        }
    }
}
