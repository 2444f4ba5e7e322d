//! The engine: one thread that owns the chain, one that writes it to disk.
//!
//! ```text
//!   servers ──EngineHandle──► engine thread ──► tree (in-memory blocks, head, safe, finalized)
//!      │                       │   │   │             ▲
//!      │                       │   │   └─ executed blocks ─► persistence thread ─► database
//!      │                       │   └─ state changes ─► state root pipeline ─► root, trie nodes
//!      │                       └─ encoded transactions ─► rayon ─► transactions with senders
//!      └──ChainReader (short read locks, own database snapshots)
//! ```
//!
//! Invariants: only the engine thread changes the tree; a block is in the tree only when every
//! field of its header was checked; blocks reach the database in canonical order. Once a save has
//! failed, no request is served any more: memory must not fill with blocks that cannot be stored.

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
mod reorg;
mod report;
mod root;
mod root_check;
mod senders;
mod state_cache;
mod step_roots;
mod tree;
mod trial;
mod validate;
mod waiting;
pub mod witness;

use crate::{chainspec::ChainSpec, primitives::BlockNumHash};
use alloy_primitives::B256;
use alloy_rpc_types_engine::{
    ExecutionData, ForkchoiceState, ForkchoiceUpdated, PayloadAttributes, PayloadId,
};
pub use builder::{BuildError, BuildRequest, BuiltPayload, gas_limit_towards};
use crossbeam_channel::{Receiver, select_biased};
use era::TotalDifficulties;
use forkchoice::FollowUp;
use handle::Message;
pub use handle::{EngineHandle, ForkchoiceError, GetPayloadError, NewPayloadOutcome};
use insert::beside;
pub use persistence::SaveError;
use persistence::{Markers, Persistence, Saved};
pub use proof::ProofError;
pub use reader::{ChainReader, ReadError, StateReader};
use reader::{Shared, stored_tip};
use report::Added;
use state_cache::StateCache;
use state_db::{DbError, DbView, OverlaySource, StateDb, UnwindError};
use state_root::{RootConfig, RootPool, RootStrategy};
use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::{oneshot, watch};
use tree::{ExecutedBlock, Tree};
pub use trial::{Trial, TrialBlock, TrialError, TrialEvm, TrialState};
use waiting::{InvalidBlocks, Waiting};

/// Payloads kept for `engine_getPayload`.
const MAX_KEPT_PAYLOADS: usize = 10;

/// How the engine works. Flags are resolved into this once.
#[derive(Debug, Clone)]
pub struct EngineConfig {
    /// Blocks are saved when the head is more than this many blocks above the database.
    pub persistence_threshold: u64,
    /// How many of the newest blocks a save leaves in memory.
    pub memory_block_buffer_target: u64,
    /// While a save runs, no request is served once this many blocks wait for the next one.
    pub persistence_backpressure_threshold: u64,
    /// Memory of the state that is kept across blocks, in bytes; 0 keeps none.
    pub state_cache_bytes: usize,
    /// Workers, chunk size and chunk policy of the state root.
    pub root: RootConfig,
    /// Compare every parallel root with the serial reference.
    pub check_state_root: bool,
    /// For tests of the harness: part of its own time that every payload takes longer; 0 is none.
    pub injected_slowdown: f64,
    /// When building: leave out transactions that cannot be included, and their sender's later
    /// ones, instead of failing.
    pub skip_invalid_transactions: bool,
    /// Gas limit that blocks built for a fork choice move towards.
    pub gas_limit_target: u64,
}

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
    /// A worker thread ended without a result.
    #[error("hash a block: a worker thread panicked")]
    WorkerPanicked,
    /// Stored blocks could not be taken out of the database for another chain; nothing changed.
    #[error(transparent)]
    Unwind(Box<UnwindError>),
    /// The database has no genesis, belongs to another chain, or a thread could not be started.
    #[error("start the engine: {0}")]
    Start(String),
    /// Saving blocks failed; nothing of the batch was written. The engine takes no more payloads.
    #[error("save blocks: {0}")]
    Persistence(SaveError),
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
    let saved_markers = numbers(tree.safe(), tree.finalized());
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
        saved_markers,
        waiting: Waiting::default(),
        invalid: InvalidBlocks::default(),
        payloads: VecDeque::new(),
        difficulties: TotalDifficulties::default(),
        preparation: None,
    };
    std::thread::Builder::new()
        .name("engine".into())
        .spawn(move || {
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
    /// The markers as the database has them, or will once the save under way is done.
    saved_markers: Markers,
    waiting: Waiting,
    invalid: InvalidBlocks,
    payloads: VecDeque<(PayloadId, Result<BuiltPayload, BuildError>)>,
    difficulties: TotalDifficulties,
    /// Says when [`Self::prepare_for_child`] is done.
    preparation: Option<Receiver<()>>,
}

impl Engine {
    /// Serves requests until shutdown, or until every handle is gone. Who asked for the shutdown
    /// is to be told its result.
    fn run(mut self, requests: &Receiver<Message>) -> Option<Farewell> {
        loop {
            if self.has_fallen_behind() {
                // A failure is seen below.
                let _ = self.settle_save();
                self.start_save();
            }
            select_biased! {
                recv(self.persistence.results()) -> result => match result {
                    Ok(result) => self.absorb_save(result),
                    Err(_) => self.fail(SaveError::Stopped),
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
            self.start_save();
            if self.ready().is_err() {
                return self.decline(requests);
            }
        }
    }

    /// Whether so many blocks wait for the end of a save that it must come before the next block.
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
                wait_for_persistence,
                received,
                answer,
            } => {
                self.serve_payload(*data, wait_for_persistence, received, answer);
            }
            Message::ForkchoiceUpdated {
                state,
                attributes,
                answer,
            } => {
                self.serve_forkchoice(state, attributes.map(|attributes| *attributes), answer);
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

    /// Answers first, logs and prepares for the next block afterwards.
    fn serve_payload(
        &mut self,
        data: ExecutionData,
        wait_for_persistence: bool,
        received: Instant,
        answer: oneshot::Sender<Result<NewPayloadOutcome, EngineError>>,
    ) {
        let waited = if wait_for_persistence {
            self.settle_save()
        } else {
            Ok(())
        };
        let start = Instant::now();
        let persistence_wait = start.duration_since(received);
        let (number, hash) = (data.block_number(), data.block_hash());
        let inserted = waited
            .and_then(|()| self.ready())
            .and_then(|()| self.insert_payload(data));
        match inserted {
            Ok(mut inserted) => {
                if self.config.injected_slowdown > 0.0 {
                    let delay = slow_down(start, self.config.injected_slowdown);
                    inserted
                        .added
                        .iter_mut()
                        .for_each(|added| added.elapsed += delay);
                }
                let latency = start.elapsed();
                let status = inserted.status;
                let kind = status.status.clone();
                let outcome = NewPayloadOutcome {
                    status,
                    latency,
                    persistence_wait,
                };
                if answer.send(Ok(outcome)).is_err() {
                    tracing::warn!(target: "engine::tree", "Failed to deliver newPayload response");
                }
                report::received(number, hash);
                report::outcome(number, hash, &kind, inserted.added.as_ref());
                self.after_insert(inserted.added.as_ref());
            }
            Err(error) => {
                tracing::error!(target: "engine::tree", number, ?hash, %error, "Payload failed");
                let _ = answer.send(Err(error));
            }
        }
    }

    fn serve_forkchoice(
        &mut self,
        state: ForkchoiceState,
        attributes: Option<PayloadAttributes>,
        answer: oneshot::Sender<Result<ForkchoiceUpdated, ForkchoiceError>>,
    ) {
        let (result, follow_up) = match self.ready() {
            Ok(()) => self.update_forkchoice(state, attributes),
            Err(error) => (Err(error.into()), FollowUp::default()),
        };
        let _ = answer.send(result);
        self.shared.announce_head();
        follow_up.log();
        if let Some(request) = follow_up.into_build() {
            self.build_payload(&request);
        }
    }

    /// Prepares for the children of a new block, and executes payloads that were waiting for it.
    fn after_insert(&mut self, added: Option<&Added>) {
        let mut parents: Vec<_> = added.map(|added| added.block.clone()).into_iter().collect();
        while let Some(block) = parents.pop() {
            self.prepare_for_child(&block);
            for child in self.waiting.children(block.hash()) {
                let (number, hash) = (child.block_number(), child.block_hash());
                self.waiting.remove(hash);
                match self.insert_payload(child) {
                    Ok(inserted) => {
                        let status = &inserted.status.status;
                        report::outcome(number, hash, status, inserted.added.as_ref());
                        parents.extend(inserted.added.map(|added| added.block));
                    }
                    Err(error) => {
                        tracing::error!(target: "engine::tree", number, %error, "Payload failed");
                    }
                }
            }
        }
    }

    /// Moves the state cache on to a new block, and merges the block into the overlay through
    /// which the roots of its children are computed.
    ///
    /// Runs beside the engine thread, which answers the fork choice meanwhile.
    fn prepare_for_child(&mut self, block: &Arc<ExecutedBlock>) {
        self.await_preparation();
        let (cache, shared) = (self.state_cache.clone(), self.shared.clone());
        let (block, state) = (block.clone(), self.shared.tree().state_after(block.hash()));
        self.preparation = Some(beside(move || {
            if let Some(cache) = &cache {
                let parent = block.header().parent_hash;
                cache.advance(parent, block.chain_block.num_hash(), &block.bundle);
            }
            if let Some(Err(error)) = state.map(|state| state.overlay(&shared.db)) {
                tracing::warn!(target: "engine::tree", %error, "Failed to merge a block's changes");
            }
        }));
    }

    /// Waits until what was prepared for the next block is ready. The state cache may be asked
    /// only then.
    fn await_preparation(&mut self) {
        if let Some(prepared) = self.preparation.take() {
            // Without an answer the next block finds no cache, and merges the changes itself.
            let _ = prepared.recv();
        }
    }

    /// Fails once a save has failed.
    fn ready(&self) -> Result<(), EngineError> {
        match self.shared.failure.get() {
            Some(reason) => Err(EngineError::Persistence(reason.clone())),
            None => Ok(()),
        }
    }

    /// Ends the engine's work for good: requests fail with `reason` from now on, and whoever
    /// listens for saved blocks is told that there will be no more.
    fn fail(&mut self, reason: SaveError) {
        tracing::error!(target: "engine", %reason, "Failed to save blocks");
        // The first reason is the one that matters.
        let _ = self.shared.failure.set(reason);
        let last = *self.persisted.borrow();
        self.persisted = watch::channel(last).0;
    }

    /// Saves when the head is far enough above the database and no save is under way; also markers
    /// that no block to come will take along.
    fn start_save(&mut self) {
        if self.persistence.in_flight() || self.ready().is_err() {
            return;
        }
        let (head, persisted) = self.head_and_persisted();
        if head.saturating_sub(persisted) > self.config.persistence_threshold {
            self.save_up_to(head.saturating_sub(self.config.memory_block_buffer_target));
        } else if head == persisted {
            self.save_up_to(head);
        }
    }

    /// Hands canonical blocks up to `last`, and the markers if they moved, to the thread.
    ///
    /// Without state roots nothing is saved: the stored tries would no longer be those of the
    /// stored state.
    fn save_up_to(&mut self, last: u64) {
        if self.config.root.root_strategy == RootStrategy::Skip {
            return;
        }
        let blocks = self.shared.tree().unsaved(last);
        let markers = self.markers_up_to(last);
        if blocks.is_empty() && markers == self.saved_markers {
            return;
        }
        self.saved_markers = markers;
        if !self.persistence.save(blocks, markers) {
            self.fail(SaveError::Stopped);
        }
    }

    /// Safe and finalized block as the database can know them: an ancestor of either is one too.
    fn markers_up_to(&self, last: u64) -> Markers {
        let tree = self.shared.tree();
        let (safe, finalized) = numbers(tree.safe(), tree.finalized());
        let stored = |number: u64| number.min(last);
        (safe.map(stored), finalized.map(stored))
    }

    /// Takes note of a finished save. A save of markers alone moves no block.
    fn absorb_save(&mut self, result: Saved) {
        self.persistence.finished();
        match result {
            Ok(Some(last)) => {
                self.shared.tree_mut().advance_persisted(last);
                self.persisted.send_replace(last);
            }
            Ok(None) => {}
            Err(reason) => self.fail(reason),
        }
    }

    /// Waits for the save under way, if any, and takes note of it.
    fn settle_save(&mut self) -> Result<(), EngineError> {
        if self.persistence.in_flight() {
            let result = self.persistence.results().recv();
            let result = result.unwrap_or(Err(SaveError::Stopped));
            self.absorb_save(result);
        }
        self.ready()
    }

    /// Writes every canonical in-memory block and the markers.
    fn flush(&mut self) -> Result<(), EngineError> {
        self.await_preparation();
        self.settle_save()?;
        let head = self.shared.tree().head().header.number;
        self.save_up_to(head);
        self.settle_save()
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

/// Takes `part` of the time since `start` longer, on this CPU as slower code would.
fn slow_down(start: Instant, part: f64) -> Duration {
    let delay = start.elapsed().mul_f64(part);
    let began = Instant::now();
    while began.elapsed() < delay {
        std::hint::spin_loop();
    }
    began.elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slowdown_takes_its_part_of_the_time_until_then() {
        let before = Duration::from_millis(8);
        let start = Instant::now().checked_sub(before).unwrap();
        assert!(slow_down(start, 0.25) >= before / 4);
        assert!(start.elapsed() >= before + before / 4);
    }
}
