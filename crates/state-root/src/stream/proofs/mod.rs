//! Finding out by proofs, as reth does: what is unknown is cut into chunks, and each is a job.
//!
//! ```text
//!  driver                          account workers               storage workers
//!  ------                          ---------------               ---------------
//!  (prepare) ─────────────────────▶ open a view                  open a view
//!  so many new keys
//!  = one batch, cut into jobs ────▶ job ──its slots, by account─▶ walk a storage trie
//!                                   walk the account trie             │
//!  put in ◀────────answer────────── wait for the rest ◀──────────────┘
//!  (end) ───── queue closed ──────▶ drop the view                drop the view
//! ```
//!
//! Account workers wait on storage workers, storage workers on nobody: there is no cycle, whatever
//! the number of threads. A worker that fails says so before it lets go of what others wait for, so
//! the first failure that the driver hears of is the cause.

mod workers;

use super::{
    Block,
    kind::Kind,
    node::{BoxedAccount, Slot},
    read::Read,
};
use crate::{
    chunk::{Batch, ChunkPolicy, IdleWorkers},
    cursor::StateSource,
    error::RootError,
    root::RootCounters,
    strategy::ProofConfig,
};
use alloy_primitives::{B256, U256, map::B256Map};
use crossbeam_channel::{Sender, unbounded};
use std::{
    io,
    mem::take,
    num::NonZeroUsize,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
};
use tracing::{Span, debug_span, field};
use workers::{AccountWork, Shared, StorageAnswer, StorageWork};

/// What the spans of the trie's work belong to, as in reth.
const TARGET: &str = "engine::tree::payload_processor::sparse_trie";

/// The threads that read.
#[derive(Debug)]
pub(super) struct ProofPool<S: StateSource> {
    config: ProofConfig,
    /// One queue for each worker: every worker takes part in every block.
    account_workers: Vec<Server<AccountWork<S>>>,
    storage_workers: Vec<Server<StorageWork<S>>>,
}

impl<S: StateSource> ProofPool<S> {
    /// Starts the threads. Fails when the system refuses one.
    pub(super) fn new(config: ProofConfig) -> io::Result<Self> {
        let spawn_account =
            |index| Server::start(format!("proof-acct-{index:02}"), AccountWork::run);
        let spawn_storage =
            |index| Server::start(format!("proof-strg-{index:02}"), StorageWork::run);
        Ok(Self {
            config,
            account_workers: (0..config.account_workers.get())
                .map(spawn_account)
                .collect::<io::Result<_>>()?,
            storage_workers: (0..config.storage_workers.get())
                .map(spawn_storage)
                .collect::<io::Result<_>>()?,
        })
    }

    /// Has the workers take part in a block until what is returned is dropped.
    pub(super) fn begin(&self, block: &Arc<Block<S>>) -> Proofs {
        let idle = Arc::<Idle>::default();
        let chunk_size = self.config.chunk_size;
        let span = debug_span!(
            target: TARGET,
            parent: &block.span,
            "sparse_trie_task",
            chunk_size = chunk_size.get()
        );
        let shared = Arc::new(Shared::of(block, Arc::clone(&idle)));
        let (jobs, queued_jobs) = unbounded();
        let (storage_jobs, queued_storage_jobs) = unbounded();
        for (worker_id, worker) in self.account_workers.iter().enumerate() {
            worker.send(AccountWork {
                worker_id,
                shared: Arc::clone(&shared),
                has_root_jobs: self.config.policy == ChunkPolicy::Reth1_11,
                jobs: queued_jobs.clone(),
                storage_jobs: storage_jobs.clone(),
            });
        }
        for (worker_id, worker) in self.storage_workers.iter().enumerate() {
            worker.send(StorageWork {
                worker_id,
                shared: Arc::clone(&shared),
                jobs: queued_storage_jobs.clone(),
            });
        }
        Proofs {
            policy: self.config.policy,
            batch_keys: self.config.batch_keys.get(),
            chunk_size,
            jobs,
            idle,
            awaited: 0,
            largest: 0,
            ahead: B256Map::default(),
            span,
        }
    }
}

/// Workers that have opened their view and run no job.
#[derive(Debug, Default)]
struct Idle {
    account: AtomicUsize,
    storage: AtomicUsize,
}

impl Idle {
    fn now(&self) -> IdleWorkers {
        IdleWorkers {
            account: self.account.load(Ordering::Relaxed),
            storage: self.storage.load(Ordering::Relaxed),
        }
    }
}

/// What a worker has read for one job.
#[derive(Debug)]
pub(super) struct Answer {
    accounts: Vec<Read<BoxedAccount>>,
    account_nodes: usize,
    storages: Vec<StorageAnswer>,
}

impl Answer {
    /// Leaves and branches.
    pub(super) fn nodes(&self) -> u64 {
        let of_storages: usize = self.storages.iter().map(|storage| storage.nodes).sum();
        (self.account_nodes + of_storages) as u64
    }

    /// Nodes of the largest trie part that one worker has read.
    fn largest(&self) -> u64 {
        let of_storages = self.storages.iter().map(|storage| storage.nodes).max();
        self.account_nodes.max(of_storages.unwrap_or(0)) as u64
    }
}

/// What one block asks of the workers. Dropping it ends their part in the block.
#[derive(Debug)]
pub(super) struct Proofs {
    policy: ChunkPolicy,
    /// Keys that are let gather while changes come.
    pub(super) batch_keys: usize,
    chunk_size: NonZeroUsize,
    jobs: Sender<Batch>,
    idle: Arc<Idle>,
    /// Jobs without an answer.
    awaited: usize,
    /// Nodes of the largest trie part that one worker has read.
    pub(super) largest: u64,
    /// Storage tries whose accounts are not known yet.
    pub(super) ahead: B256Map<Slot<U256>>,
    span: Span,
}

impl Proofs {
    /// Whether everything that was asked for has come.
    pub(super) fn are_in(&self) -> bool {
        self.awaited == 0
    }

    /// Cuts a batch into jobs and queues them.
    pub(super) fn dispatch(&mut self, batch: Batch, counters: &mut RootCounters) {
        counters.batches += 1;
        let len = batch.len();
        let span = debug_span!(
            target: TARGET,
            parent: &self.span,
            "dispatch_pending_targets",
            account_targets = batch.accounts.len(),
            storage_targets = batch.slot_count(),
            chunks = field::Empty
        );
        let _entered = span.enter();
        let batch = batch.listed_by(self.policy);
        let mut jobs = if self.policy.splits(len, self.chunk_size, self.idle.now()) {
            batch.split(self.chunk_size)
        } else {
            counters.unsplit_batches += 1;
            vec![batch]
        };
        counters.jobs += jobs.len() as u64;
        self.awaited += jobs.len();
        span.record("chunks", jobs.len());
        jobs.iter_mut().for_each(Batch::sort);
        for job in jobs {
            // Where no worker is left, each has said why: that ends the block.
            let _ = self.jobs.send(job);
        }
    }

    /// Puts in what was read. Answers how many nodes of it were known already.
    pub(super) fn reveal(
        &mut self,
        answer: Answer,
        trie: &mut Slot<BoxedAccount>,
        epoch: u64,
    ) -> Result<u64, RootError> {
        let span = self.span.clone();
        let _entered = span.enter();
        self.awaited -= 1;
        self.largest = self.largest.max(answer.largest());
        let mut known = 0;
        for read in answer.accounts {
            if read.start == 0 && trie.is_stub() {
                BoxedAccount::check_root(trie.root_hash(), read.slot.root_hash())?;
            }
            known += trie.reveal(read, epoch)?;
        }
        self.attach_known(trie);
        for storage in answer.storages {
            let address = storage.address;
            if trie.get(&address).is_some() {
                let attach = |account: &mut BoxedAccount| storage.attach(account, epoch);
                known += trie.with_leaf(&address, attach).unwrap_or(Ok(0))?;
            } else if trie.is_blind(&address) {
                let unread = || Slot::of_root(UNREAD_ROOT);
                let ahead = self.ahead.entry(address).or_insert_with(unread);
                known += storage.reveal(ahead, epoch)?;
            }
        }
        Ok(known)
    }

    /// Hangs storage tries on accounts that are known by now.
    fn attach_known(&mut self, trie: &mut Slot<BoxedAccount>) {
        self.ahead.retain(|address, storage| {
            trie.with_leaf(address, |account| {
                account.account.storage_root = storage.root_hash();
                account.storage = Some(Box::new(take(storage)));
            });
            trie.is_blind(address)
        });
    }
}

/// Stands for the storage root of an account while a worker reads it. No trie has it.
const UNREAD_ROOT: B256 = B256::ZERO;

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
