//! The proof strategies: the threads of the pipeline and the job of one block.
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
//!  end() ────────finish──────▶ apply all changes, hash
//!  wait() ◀──────outcome────── drop job queues ─────────────▶ drop the view       drop the view
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
    cursor::StateSource,
    error::RootError,
    root::{Message, RootConfig, RootOutcome},
};
use alloy_primitives::B256;
use block::{Block, BlockState};
use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use std::{
    io,
    sync::Arc,
    thread::{self, JoinHandle},
};
use task::Task;
use tracing::Span;
use workers::{AccountWork, StorageWork};

pub(crate) use workers::{catch_panic, panicked};

/// The threads of the pipeline.
///
/// Dropping the pool waits for its threads, so its jobs must be finished or dropped before.
#[derive(Debug)]
pub(crate) struct ProofPool<S: StateSource> {
    config: RootConfig,
    tasks: Server<Task<S>>,
    /// One queue for each worker: every worker takes part in every block.
    account_workers: Vec<Server<AccountWork<S>>>,
    storage_workers: Vec<Server<StorageWork<S>>>,
}

impl<S: StateSource> ProofPool<S> {
    /// Starts the threads. Fails when the system refuses one.
    pub(crate) fn new(config: RootConfig) -> io::Result<Self> {
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

    /// Jobs of one pool run in the order they were prepared: a second one waits until the first is
    /// finished or dropped.
    pub(crate) fn prepare(&self, source: Arc<S>, parent_root: B256) -> ProofJob {
        let state = Arc::new(BlockState::default());
        let block = Arc::new(Block {
            source,
            state: Arc::clone(&state),
            span: Span::current(),
        });
        let (messages, queued_messages) = unbounded();
        let (events, queued_events) = unbounded();
        let (jobs, queued_jobs) = unbounded();
        let (storage_jobs, queued_storage_jobs) = unbounded();
        let (outcome, awaited_outcome) = bounded(1);
        for (worker_id, worker) in self.account_workers.iter().enumerate() {
            worker.send(AccountWork {
                worker_id,
                block: Arc::clone(&block),
                jobs: queued_jobs.clone(),
                storage_jobs: storage_jobs.clone(),
                events: events.clone(),
            });
        }
        for (worker_id, worker) in self.storage_workers.iter().enumerate() {
            worker.send(StorageWork {
                worker_id,
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
        ProofJob {
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
pub(crate) struct ProofJob {
    messages: Sender<Message>,
    outcome: Receiver<Result<RootOutcome, RootError>>,
    state: Arc<BlockState>,
}

impl ProofJob {
    pub(crate) fn send(&self, message: Message) {
        // After a failure nobody listens; `wait` tells.
        let _ = self.messages.send(message);
    }

    pub(crate) fn end(&self) {
        self.send(Message::Finish);
    }

    pub(crate) fn wait(self) -> Result<RootOutcome, RootError> {
        self.outcome.recv().map_err(|_| RootError::Stopped)?
    }
}

impl Drop for ProofJob {
    fn drop(&mut self) {
        self.state.cancel();
    }
}
