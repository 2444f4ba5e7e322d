//! The threads of the pipeline and the job of one block.
//!
//! ```text
//!  executing thread            trie thread (one)              account workers     storage workers
//!  ----------------            -----------------              ---------------     ---------------
//!  prepare ───────────────────▶ block ───────────────────────▶ open a view         open a view
//!  update(changes) ──changes──▶ hash keys, find blind paths
//!                               one pass over what is queued
//!                               = one batch, cut into jobs ──▶ job ──slot targets─▶ walk storage trie
//!                               reveal ◀───────────────────────────slot proofs───── │
//!                                                             walk accounts ◀─root─ ┘
//!                               reveal ◀──account proof─────── │
//!  finish() ─────finish──────▶ apply all changes, hash
//!           ◀────outcome─────── drop job queues ─────────────▶ drop the view       drop the view
//! ```
//!
//! Every arrow is a channel made for the block, so its end is the closing of its channels, and a
//! worker's view lives exactly as long. Account workers wait on storage workers, storage workers on
//! nobody: there is no cycle, whatever the number of threads. A worker that fails says so before it
//! releases the others, so the first failure the trie thread hears of is the cause.

mod block;
mod task;
#[cfg(test)]
mod tests;
mod workers;

use crate::{
    chunk::ChunkPolicy,
    cursor::StateSource,
    error::RootError,
    updates::{AccountChange, HashedChange, HashedState, TrieUpdates},
};
use alloy_primitives::B256;
use block::{Block, BlockState};
use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use std::{
    io,
    num::NonZeroUsize,
    sync::Arc,
    thread::{self, JoinHandle},
};
use task::{Message, Task};
use workers::{AccountWork, StorageWork};

/// How the pipeline cuts its work, and over how many threads it spreads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RootConfig {
    /// Targets in one job, when a batch is split.
    pub chunk_size: NonZeroUsize,
    /// When a batch is split.
    pub chunk_policy: ChunkPolicy,
    /// Threads that walk the account trie.
    pub account_workers: NonZeroUsize,
    /// Threads that walk storage tries.
    pub storage_workers: NonZeroUsize,
}

/// The threads of the pipeline, started once per process.
///
/// Dropping the pool waits for its threads, so its jobs must be finished or dropped before.
#[derive(Debug)]
pub struct RootPool<S: StateSource> {
    config: RootConfig,
    tasks: Server<Task<S>>,
    /// One queue for each worker: every worker takes part in every block.
    account_workers: Vec<Server<AccountWork<S>>>,
    storage_workers: Vec<Server<StorageWork<S>>>,
}

impl<S: StateSource> RootPool<S> {
    /// Starts the threads. Fails when the system refuses one.
    pub fn new(config: RootConfig) -> io::Result<Self> {
        let spawn_account =
            |index| Server::start(format!("proof-acct-{index:02}"), AccountWork::run);
        let spawn_storage =
            |index| Server::start(format!("proof-strg-{index:02}"), StorageWork::run);
        Ok(Self {
            config,
            tasks: Server::start("sparse-trie".to_owned(), Task::run)?,
            account_workers: (0..config.account_workers.get())
                .map(spawn_account)
                .collect::<io::Result<_>>()?,
            storage_workers: (0..config.storage_workers.get())
                .map(spawn_storage)
                .collect::<io::Result<_>>()?,
        })
    }

    /// Begins the root of one block on top of the state `source` shows, whose root is
    /// `parent_root`. A block that changes nothing is answered with that root unread.
    ///
    /// Jobs of one pool run in the order they were prepared: a second one waits until the first is
    /// finished or dropped.
    pub fn prepare(&self, source: Arc<S>, parent_root: B256) -> RootJob {
        let state = Arc::new(BlockState::default());
        let block = Arc::new(Block {
            source,
            state: Arc::clone(&state),
        });
        let (messages, queued_messages) = unbounded();
        let (events, queued_events) = unbounded();
        let (jobs, queued_jobs) = unbounded();
        let (storage_jobs, queued_storage_jobs) = unbounded();
        let (outcome, awaited_outcome) = bounded(1);
        for worker in &self.account_workers {
            worker.send(AccountWork {
                block: Arc::clone(&block),
                jobs: queued_jobs.clone(),
                storage_jobs: storage_jobs.clone(),
                events: events.clone(),
            });
        }
        for worker in &self.storage_workers {
            worker.send(StorageWork {
                block: Arc::clone(&block),
                jobs: queued_storage_jobs.clone(),
                events: events.clone(),
            });
        }
        self.tasks.send(Task {
            config: self.config,
            parent_root,
            block,
            messages: queued_messages,
            events: queued_events,
            jobs,
            outcome,
        });
        RootJob {
            messages,
            outcome: awaited_outcome,
            state,
        }
    }
}

/// A thread that serves one request after another, and its queue.
#[derive(Debug)]
struct Server<T> {
    requests: Option<Sender<T>>,
    thread: Option<JoinHandle<()>>,
}

impl<T: Send + 'static> Server<T> {
    fn start(name: String, serve: fn(T)) -> io::Result<Self> {
        let (requests, queue) = unbounded();
        let thread = thread::Builder::new()
            .name(name)
            .spawn(move || queue.into_iter().for_each(serve))?;
        Ok(Self {
            requests: Some(requests),
            thread: Some(thread),
        })
    }

    /// A thread that is gone drops what it is sent, and the job then ends with an error.
    fn send(&self, request: T) {
        let _ = self
            .requests
            .as_ref()
            .map(|requests| requests.send(request));
    }
}

impl<T> Drop for Server<T> {
    /// Waits for the thread: what it read through must be closed when the pool is gone.
    fn drop(&mut self) {
        self.requests = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The state root of one block in the making. Dropping it cancels the work.
#[derive(Debug)]
pub struct RootJob {
    messages: Sender<Message>,
    outcome: Receiver<Result<RootOutcome, RootError>>,
    state: Arc<BlockState>,
}

impl RootJob {
    /// Hands over what one execution step changed. Later changes override earlier ones. Cheap:
    /// nothing is hashed on the calling thread.
    pub fn update(&self, changes: Vec<AccountChange>) {
        // After a failure nobody listens; `finish` tells.
        let _ = self.messages.send(Message::Changes(changes));
    }

    /// Hands over changes whose keys the caller has hashed already; otherwise like
    /// [`RootJob::update`], in one order with it.
    pub fn update_hashed(&self, changes: Vec<HashedChange>) {
        let _ = self.messages.send(Message::Hashed(changes));
    }

    /// Waits for the root of all changes handed over.
    pub fn finish(self) -> Result<RootOutcome, RootError> {
        let _ = self.messages.send(Message::Finish);
        self.outcome.recv().map_err(|_| RootError::Stopped)?
    }
}

impl Drop for RootJob {
    fn drop(&mut self) {
        self.state.cancel();
    }
}

/// What a finished job answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RootOutcome {
    /// State root after the block.
    pub root: B256,
    /// The changed leaves.
    pub hashed_state: HashedState,
    /// The changed stored branches.
    pub trie_updates: TrieUpdates,
    /// How the work was cut.
    pub counters: RootCounters,
}

/// How the work of one block was cut into jobs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RootCounters {
    /// Account targets: changed accounts, and siblings of removed ones, whose path had to be read.
    pub account_targets: u64,
    /// Slot targets, likewise.
    pub storage_targets: u64,
    /// Passes over the queued messages that found targets.
    pub batches: u64,
    /// Jobs the batches were cut into.
    pub jobs: u64,
    /// Batches that stayed whole, as one job.
    pub unsplit_batches: u64,
    /// Leaves and branches the jobs brought; one that several jobs brought counts for each.
    pub nodes_revealed: u64,
}
