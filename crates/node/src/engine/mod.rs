//! The engine: one thread that owns the chain, one that writes it to disk.
//!
//! ```text
//!   servers ──EngineHandle──► engine thread ──► tree (in-memory blocks, head, safe, finalized)
//!      │                       │   │   │             ▲
//!      │                       │   │   └─ executed blocks ─► persistence thread ─► database
//!      │                       │   └─ state changes ─► state root pipeline ─► root, trie nodes
//!      │                       └─ encoded transactions ─► beside ─► transactions with senders
//!      └──ChainReader (short read locks, own database snapshots)
//! ```
//!
//! Invariants: only the engine thread changes the tree; a block is in the tree only when every
//! field of its header was checked; blocks reach the database in canonical order. Once persistence has
//! failed, no request is served any more: memory must not fill with blocks that cannot be stored.

mod beside;
pub mod builder;
mod constantinople;
mod deposits;
mod era;
mod execute;
mod forkchoice;
pub mod handle;
mod import;
mod insert;
mod persistence;
mod proof;
mod provider;
pub mod reader;
mod receipts;
mod reorg;
mod report;
mod root;
mod root_check;
mod senders;
mod serve;
mod state_cache;
mod step_roots;
mod tree;
mod trial;
mod validate;
mod waiting;
pub mod witness;

use crate::{chainspec::ChainSpec, primitives::BlockNumHash, telemetry::EngineMetrics};
use alloy_primitives::B256;
use alloy_rpc_types_engine::PayloadId;
pub use builder::{BuildError, BuildRequest, BuiltPayload, gas_limit_towards};
use crossbeam_channel::{Receiver, select_biased};
use era::TotalDifficulties;
use handle::Message;
pub use handle::{EngineHandle, ForkchoiceError, GetPayloadError, NewPayloadOutcome, WaitFor};
pub use persistence::PersistError;
use persistence::{Markers, Persisted, Persistence};
pub use proof::ProofError;
pub use reader::{ChainReader, ReadError, StateReader};
use reader::{Shared, stored_tip};
pub use senders::SenderRecovery;
use serve::PayloadRequest;
use state_cache::StateCache;
use state_db::{DbError, DbView, HeldWriter, OverlaySource, StateDb, UnwindError};
use state_root::{LateRoot, RootPool, Strategy};
use std::{collections::VecDeque, sync::Arc, time::Instant};
use tokio::sync::{oneshot, watch};
use tree::Tree;
pub use trial::{Trial, TrialBlock, TrialError, TrialEvm, TrialState};
use waiting::{InvalidBlocks, Waiting};

/// Payloads kept for `engine_getPayload`.
const MAX_KEPT_PAYLOADS: usize = 10;

/// How the engine works. Flags are resolved into this once.
#[derive(Debug, Clone)]
pub struct EngineConfig {
    /// Blocks are persisted when the head is more than this many blocks above the database.
    pub persistence_threshold: u64,
    /// How many of the newest blocks stay in memory when blocks are persisted.
    pub memory_block_buffer_target: u64,
    /// While a batch is persisted, no request is served once this many blocks wait for the next one.
    pub persistence_backpressure_threshold: u64,
    /// Memory of the state that is kept across blocks, in bytes; 0 keeps none.
    pub state_cache_bytes: usize,
    /// Workers, chunk size and chunk policy of the state root.
    pub root: Strategy,
    /// Compare every parallel root with the serial reference.
    pub check_state_root: bool,
    /// How the senders of a payload's transactions are recovered.
    pub sender_recovery: SenderRecovery,
    /// For tests of the harness: part of its own time that every payload takes longer; 0 is none.
    pub injected_slowdown: f64,
    /// When building: leave out transactions that cannot be included, and their sender's later
    /// ones, instead of failing.
    pub skip_invalid_transactions: bool,
    /// Gas limit that blocks built for a fork choice move towards.
    pub gas_limit_target: u64,
}

/// Blocks that are held in memory where nothing is persisted.
const MAX_UNSAVED_BLOCKS: u64 = 1024;

/// A failure of the engine itself; a bad block is a status, not an error.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The engine was shut down or its thread ended.
    #[error("reach the engine: it has stopped")]
    Stopped,
    /// The database failed.
    #[error(transparent)]
    Database(Box<DbError>),
    /// State could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The state after a block can no longer be read from the database.
    #[error("read the state of block {0}: the database has moved to another chain")]
    StateGone(B256),
    /// The state root could not be computed, or differs from the serial reference.
    #[error("compute the state root: {0}")]
    StateRoot(String),
    /// Without state roots nothing is persisted, and as many blocks are in memory as may be.
    #[error(
        "execute another block: --bench.root-strategy skip persists nothing, and {MAX_UNSAVED_BLOCKS} blocks \
         are in memory; restart the engine on its data directory, or leave the flag out"
    )]
    Unsaved,
    /// A worker thread ended without a result.
    #[error("hash a block: a worker thread panicked")]
    WorkerPanicked,
    /// Stored blocks could not be taken out of the database for another chain; nothing changed.
    #[error(transparent)]
    Unwind(Box<UnwindError>),
    /// The database has no genesis, belongs to another chain, or a thread could not be started.
    #[error("start the engine: {0}")]
    Start(String),
    /// Persisting blocks failed; nothing of the batch was written. The engine takes no more payloads.
    #[error("persist blocks: {0}")]
    Persistence(PersistError),
}

impl EngineError {
    /// Whether storage itself failed (no room, a damaged file).
    pub fn is_storage_failure(&self) -> bool {
        match self {
            Self::Database(error) => error.is_storage_failure(),
            Self::Unwind(error) => {
                matches!(&**error, UnwindError::Database(error) if error.is_storage_failure())
            }
            Self::Persistence(error) => error.is_storage_failure(),
            _ => false,
        }
    }
}

impl From<DbError> for EngineError {
    fn from(error: DbError) -> Self {
        Self::Database(Box::new(error))
    }
}

impl From<UnwindError> for EngineError {
    fn from(error: UnwindError) -> Self {
        Self::Unwind(Box::new(error))
    }
}

/// Starts the threads `engine` and `persistence`. The head is the last block in the database.
pub fn spawn(
    db: StateDb,
    chain: Arc<ChainSpec>,
    config: EngineConfig,
) -> Result<EngineHandle, EngineError> {
    let tree = stored_tree(&db, &chain)?;
    let head = tree.head().num_hash();
    let persisted_markers = numbers(tree.safe(), tree.finalized());
    let pool = RootPool::new(config.root)
        .map_err(|error| EngineError::Start(format!("start the state root threads: {error}")))?;
    let skip_invalid_transactions = config.skip_invalid_transactions;
    let persistence = Persistence::spawn(db.clone())?;
    let state_cache = StateCache::new(config.state_cache_bytes);
    let shared = Arc::new(Shared::new(chain, db, tree));
    let (requests, received) = crossbeam_channel::unbounded();
    let (persisted_sender, persisted) = watch::channel(head);
    let engine = Engine {
        shared: shared.clone(),
        config,
        pool,
        persistence,
        state_cache,
        persisted: persisted_sender,
        persisted_markers,
        waiting: Waiting::default(),
        invalid: InvalidBlocks::default(),
        payloads: VecDeque::new(),
        difficulties: TotalDifficulties::default(),
        preparation: None,
        metrics: EngineMetrics::new(),
    };
    engine.note_heads();
    std::thread::Builder::new()
        .name("engine".into())
        .spawn(move || {
            beside::start();
            // Answered once everything the engine holds is closed, so that the database can be
            // opened again.
            if let Some((answer, result)) = engine.run(&received) {
                let _ = answer.send(result);
            }
        })
        .map_err(|error| EngineError::Start(format!("start the engine thread: {error}")))?;
    let chain = ChainReader { shared };
    Ok(EngineHandle {
        requests,
        chain,
        persisted,
        skip_invalid_transactions,
    })
}

/// The tree over the database as it is, after checking that it holds this chain.
fn stored_tree(db: &StateDb, chain: &ChainSpec) -> Result<Tree, EngineError> {
    let view = db.view()?;
    let no_genesis = || EngineError::Start("the database has no genesis block".into());
    let head = view.head()?.ok_or_else(no_genesis)?;
    let genesis = view.block_hash(0)?.ok_or_else(no_genesis)?;
    if genesis != chain.genesis_hash() {
        return Err(EngineError::Start(format!(
            "the database belongs to the chain with genesis {genesis}, not {}",
            chain.genesis_hash()
        )));
    }
    let tip = stored_tip(&view, head)?;
    let safe = stored_marker(&view, view.safe()?)?;
    let finalized = stored_marker(&view, view.finalized()?)?;
    Ok(Tree::new(tip, safe, finalized))
}

fn stored_marker(view: &DbView, number: Option<u64>) -> Result<Option<BlockNumHash>, EngineError> {
    let Some(number) = number else {
        return Ok(None);
    };
    Ok(view
        .block_hash(number)?
        .map(|hash| BlockNumHash { number, hash }))
}

fn numbers(safe: Option<BlockNumHash>, finalized: Option<BlockNumHash>) -> Markers {
    let number = |block: BlockNumHash| block.number;
    (safe.map(number), finalized.map(number))
}

/// Whom to tell about the end, and what.
type Farewell = (
    oneshot::Sender<Result<(), EngineError>>,
    Result<(), EngineError>,
);

/// What the engine thread owns.
struct Engine {
    shared: Arc<Shared>,
    config: EngineConfig,
    pool: RootPool<OverlaySource>,
    persistence: Persistence,
    state_cache: Option<Arc<StateCache>>,
    persisted: watch::Sender<BlockNumHash>,
    /// The markers as the database has them, or will once the batch under way is done.
    persisted_markers: Markers,
    waiting: Waiting,
    invalid: InvalidBlocks,
    payloads: VecDeque<(PayloadId, Result<BuiltPayload, BuildError>)>,
    difficulties: TotalDifficulties,
    /// Says when [`Self::prepare_for_child`] is done.
    preparation: Option<Receiver<()>>,
    metrics: EngineMetrics,
}

impl Engine {
    /// Serves requests until shutdown, or until every handle is gone. Who asked for the shutdown
    /// is to be told its result.
    fn run(mut self, requests: &Receiver<Message>) -> Option<Farewell> {
        loop {
            if self.has_fallen_behind() {
                let stalled = Instant::now();
                // A failure is seen below.
                let _ = self.finish_persisting();
                self.metrics.stalled(stalled.elapsed());
                self.start_persisting();
            }
            select_biased! {
                recv(self.persistence.results()) -> result => match result {
                    Ok(result) => self.absorb_persisted(result),
                    Err(_) => self.fail(PersistError::Stopped),
                },
                recv(requests) -> message => match message {
                    Ok(Message::Shutdown { answer }) => {
                        let result = self.flush();
                        return Some((answer, result));
                    }
                    Ok(message) => self.serve(message),
                    Err(_) => {
                        if let Err(error) = self.flush() {
                            tracing::error!(target: "engine", %error, "Blocks were lost");
                        }
                        return None;
                    }
                },
            }
            self.start_persisting();
            if self.ready().is_err() {
                return self.decline(requests);
            }
        }
    }

    /// Whether so many blocks wait for the end of a batch that it must come before the next block.
    fn has_fallen_behind(&self) -> bool {
        let (head, persisted) = self.head_and_persisted();
        let waiting = head
            .saturating_sub(persisted)
            .saturating_sub(self.config.memory_block_buffer_target);
        self.persistence.in_flight() && waiting >= self.config.persistence_backpressure_threshold
    }

    /// Numbers of the head and of the last block in the database.
    fn head_and_persisted(&self) -> (u64, u64) {
        let tree = self.shared.tree();
        (tree.head().header.number, tree.persisted().header.number)
    }

    /// Records where the chain and the database are.
    fn note_heads(&self) {
        let (head, persisted) = self.head_and_persisted();
        self.metrics.heads(head, persisted);
    }

    /// Answers every request with the reason of the failure, until shutdown.
    fn decline(mut self, requests: &Receiver<Message>) -> Option<Farewell> {
        for message in requests {
            if let Message::Shutdown { answer } = message {
                self.await_preparation();
                return Some((answer, self.ready()));
            }
            self.serve(message);
        }
        None
    }

    fn serve(&mut self, message: Message) {
        match message {
            Message::NewPayload {
                data,
                wait_for,
                received,
                span,
                answer,
            } => {
                let request = PayloadRequest {
                    data: *data,
                    wait_for,
                    received,
                    span,
                };
                self.serve_payload(request, answer);
            }
            Message::ForkchoiceUpdated {
                state,
                attributes,
                span,
                answer,
            } => {
                let attributes = attributes.map(|attributes| *attributes);
                self.serve_forkchoice(&span, state, attributes, answer);
            }
            Message::GetPayload { id, answer } => {
                let _ = answer.send(self.payload(id));
            }
            Message::ImportBlock { block, answer } => {
                let _ = answer.send(self.import_block(*block));
            }
            Message::Shutdown { .. } => {}
        }
    }

    /// Fails once persistence has failed.
    fn ready(&self) -> Result<(), EngineError> {
        match self.shared.failure.get() {
            Some(reason) => Err(EngineError::Persistence(reason.clone())),
            None => Ok(()),
        }
    }

    /// Ends the engine's work for good: requests fail with `reason` from now on, and whoever
    /// listens for persisted blocks is told that there will be no more.
    fn fail(&mut self, reason: PersistError) {
        tracing::error!(target: "engine", %reason, "Failed to persist blocks");
        // The first reason is the one that matters.
        let _ = self.shared.failure.set(reason);
        let last = *self.persisted.borrow();
        self.persisted = watch::channel(last).0;
    }

    /// Keeps the persistence thread from taking a processor while a block needs all of them. Its priority
    /// does not: whoever wakes when both are taken, one by that thread, may be given the other.
    ///
    /// Not when so many blocks wait to be persisted that the engine might have to wait for it: then one
    /// processor would persist and the others be idle.
    fn hold_writer(&self) -> Option<HeldWriter> {
        let (head, persisted) = self.head_and_persisted();
        let waiting = head.saturating_sub(persisted);
        let is_few = waiting < self.config.persistence_backpressure_threshold / 2;
        is_few.then(|| self.shared.db.hold_writer())
    }

    /// Persists when the head is far enough above the database and no batch is under way; also markers
    /// that no block to come will take along.
    fn start_persisting(&mut self) {
        if self.persistence.in_flight() || self.ready().is_err() {
            return;
        }
        let (head, persisted) = self.head_and_persisted();
        if head.saturating_sub(persisted) > self.config.persistence_threshold {
            self.persist_up_to(head.saturating_sub(self.config.memory_block_buffer_target));
        } else if head == persisted {
            self.persist_up_to(head);
        }
    }

    /// Refuses to hold more blocks that are never persisted.
    fn check_unsaved(&self) -> Result<(), EngineError> {
        let (head, persisted) = self.head_and_persisted();
        if self.persists() || head.saturating_sub(persisted) < MAX_UNSAVED_BLOCKS {
            return Ok(());
        }
        Err(EngineError::Unsaved)
    }

    /// Without state roots nothing is persisted: the stored tries would no longer be those of the
    /// stored state.
    fn persists(&self) -> bool {
        self.config.root != Strategy::Late(LateRoot::Skip)
    }

    /// Hands canonical blocks up to `last`, and the markers if they moved, to the thread.
    fn persist_up_to(&mut self, last: u64) {
        if !self.persists() {
            return;
        }
        let blocks = self.shared.tree().unpersisted(last);
        let markers = self.markers_up_to(last);
        if blocks.is_empty() && markers == self.persisted_markers {
            return;
        }
        self.persisted_markers = markers;
        if let Some(newest) = blocks.last() {
            self.shared.tree_mut().begin_storing(newest.header().number);
        }
        if !self.persistence.persist(blocks, markers) {
            self.fail(PersistError::Stopped);
        }
    }

    /// Safe and finalized block as the database can know them: an ancestor of either is one too.
    fn markers_up_to(&self, last: u64) -> Markers {
        let tree = self.shared.tree();
        let (safe, finalized) = numbers(tree.safe(), tree.finalized());
        let stored = |number: u64| number.min(last);
        (safe.map(stored), finalized.map(stored))
    }

    /// Takes note of a finished batch. A batch of markers alone moves no block.
    fn absorb_persisted(&mut self, result: Persisted) {
        if let Some(elapsed) = self.persistence.finished() {
            self.metrics.persisted(elapsed);
        }
        match result {
            Ok(Some(last)) => {
                self.shared.tree_mut().advance_persisted(last);
                self.persisted.send_replace(last);
                self.note_heads();
            }
            Ok(None) => {}
            Err(reason) => self.fail(reason),
        }
    }

    /// Waits for the batch under way, if any, and takes note of it.
    fn finish_persisting(&mut self) -> Result<(), EngineError> {
        if self.persistence.in_flight() {
            let result = self.persistence.results().recv();
            let result = result.unwrap_or(Err(PersistError::Stopped));
            self.absorb_persisted(result);
        }
        self.ready()
    }

    /// Writes every canonical in-memory block and the markers.
    fn flush(&mut self) -> Result<(), EngineError> {
        self.await_preparation();
        self.finish_persisting()?;
        let head = self.shared.tree().head().header.number;
        self.persist_up_to(head);
        self.finish_persisting()
    }

    fn build_payload(&mut self, request: &BuildRequest) {
        let id = builder::payload_id(request.parent_hash, &request.attributes);
        if self.payloads.iter().any(|(kept, _)| *kept == id) {
            return;
        }
        let reader = ChainReader {
            shared: self.shared.clone(),
        };
        let built = builder::build(&reader, request, self.config.skip_invalid_transactions);
        if self.payloads.len() == MAX_KEPT_PAYLOADS {
            self.payloads.pop_front();
        }
        self.payloads.push_back((id, built));
    }

    fn payload(&self, id: PayloadId) -> Result<BuiltPayload, GetPayloadError> {
        let kept = self.payloads.iter().find(|(kept, _)| *kept == id);
        let (_, built) = kept.ok_or(GetPayloadError::Unknown)?;
        Ok(built.clone()?)
    }
}
