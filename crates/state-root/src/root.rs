//! The pool of threads and the job of one block, whatever the strategy behind them.

use crate::{
    chunk::ChunkPolicy,
    cursor::StateSource,
    error::RootError,
    late::{LateJob, LatePool},
    pool::{ProofJob, ProofPool},
    range::{RangeConfig, RangeJob, RangePool},
    strategy::RootStrategy,
    updates::{AccountChange, HashedChange, HashedState, TrieUpdates},
};
use alloy_primitives::B256;
use std::{io, num::NonZeroUsize, sync::Arc};

/// How the pipeline cuts its work, and over how many threads it spreads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RootConfig {
    /// When the root is computed. All but [`RootStrategy::Task`] have no use for chunks, storage
    /// workers or kept nodes.
    pub root_strategy: RootStrategy,
    /// Targets in one job, when a batch is split; for [`ChunkPolicy::RangeSteal`] the leaves of a
    /// range that is not cut any further.
    pub chunk_size: NonZeroUsize,
    /// When a batch is split, and by that how the streaming pipeline works.
    pub chunk_policy: ChunkPolicy,
    /// Threads that walk the account trie; for [`ChunkPolicy::RangeSteal`] and
    /// [`RootStrategy::Parallel`] all threads, with one more for the former once execution waits.
    pub account_workers: NonZeroUsize,
    /// Threads that walk storage tries; [`ChunkPolicy::RangeSteal`] has none for that alone.
    pub storage_workers: NonZeroUsize,
    /// Memory of the nodes that [`ChunkPolicy::RangeSteal`] keeps across blocks, in bytes.
    pub kept_bytes: usize,
}

/// The threads of the pipeline, started once per process.
///
/// Dropping the pool waits for its threads, so its jobs must be finished or dropped before.
#[derive(Debug)]
pub struct RootPool<S: StateSource>(Pool<S>);

#[derive(Debug)]
enum Pool<S: StateSource> {
    Proofs(ProofPool<S>),
    Ranges(RangePool),
    Late(LatePool),
}

impl<S: StateSource> RootPool<S> {
    /// Starts the threads. Fails when the system refuses one.
    pub fn new(config: RootConfig) -> io::Result<Self> {
        let streaming = || match config.chunk_policy {
            ChunkPolicy::RangeSteal => {
                let ranges = RangeConfig {
                    grain: config.chunk_size,
                    threads: config.account_workers,
                    kept_bytes: config.kept_bytes,
                };
                Ok(Pool::Ranges(RangePool::new(ranges)?))
            }
            ChunkPolicy::Always | ChunkPolicy::Reth1_11 | ChunkPolicy::Reth2_5 => {
                Ok::<_, io::Error>(Pool::Proofs(ProofPool::new(config)?))
            }
        };
        Ok(Self(match config.root_strategy {
            RootStrategy::Task => streaming()?,
            RootStrategy::Parallel => Pool::Late(LatePool::parallel(config.account_workers)?),
            RootStrategy::Serial => Pool::Late(LatePool::serial()),
            RootStrategy::Skip => Pool::Late(LatePool::skip()),
        }))
    }

    /// Begins the root of one block on top of the state `source` shows, whose root is
    /// `parent_root`. A block that changes nothing is answered with that root unread.
    ///
    /// A pool of proof workers runs its jobs in the order they were prepared: a second one waits
    /// until the first is finished or dropped.
    pub fn prepare(&self, source: Arc<S>, parent_root: B256) -> RootJob {
        RootJob(match &self.0 {
            Pool::Proofs(pool) => Job::Proofs(pool.prepare(source, parent_root)),
            Pool::Ranges(pool) => Job::Ranges(pool.prepare(source, parent_root)),
            Pool::Late(pool) => Job::Late(pool.prepare(source, parent_root)),
        })
    }
}

/// The state root of one block in the making. Dropping it cancels the work.
#[derive(Debug)]
pub struct RootJob(Job);

#[derive(Debug)]
enum Job {
    Proofs(ProofJob),
    Ranges(RangeJob),
    Late(LateJob),
}

/// What the executing thread sends.
#[derive(Debug)]
pub(crate) enum Message {
    /// What one execution step changed.
    Changes(Vec<AccountChange>),
    /// The same with hashed keys.
    Hashed(Vec<HashedChange>),
    /// There are no more changes.
    Finish,
}

impl RootJob {
    /// Hands over what one execution step changed. Later changes override earlier ones. Cheap:
    /// nothing is hashed on the calling thread.
    pub fn update(&self, changes: Vec<AccountChange>) {
        self.send(Message::Changes(changes));
    }

    /// Hands over changes whose keys the caller has hashed already; otherwise like
    /// [`RootJob::update`], in one order with it.
    pub fn update_hashed(&self, changes: Vec<HashedChange>) {
        self.send(Message::Hashed(changes));
    }

    fn send(&self, message: Message) {
        match &self.0 {
            Job::Proofs(job) => job.send(message),
            Job::Ranges(job) => job.send(message),
            Job::Late(job) => job.send(message),
        }
    }

    /// Says that there are no more changes. Threads of the pool begin with what is left to do, while
    /// the caller may do something else.
    pub fn end(self) -> EndedJob {
        match &self.0 {
            Job::Proofs(job) => job.end(),
            Job::Ranges(job) => job.end(),
            // Computed by whoever waits.
            Job::Late(_) => {}
        }
        EndedJob(self.0)
    }

    /// Waits for the root of all changes handed over.
    pub fn finish(self) -> Result<RootOutcome, RootError> {
        self.end().wait()
    }
}

/// A job that has all changes of its block. Dropping it cancels the work.
#[derive(Debug)]
pub struct EndedJob(Job);

impl EndedJob {
    /// Waits for the root.
    pub fn wait(self) -> Result<RootOutcome, RootError> {
        match self.0 {
            Job::Proofs(job) => job.wait(),
            Job::Ranges(job) => job.wait(),
            Job::Late(job) => job.wait(),
        }
    }
}

/// What a finished job answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RootOutcome {
    /// State root after the block; `None` with [`RootStrategy::Skip`], which does not know it.
    pub root: Option<B256>,
    /// The changed leaves.
    pub hashed_state: HashedState,
    /// The changed stored branches; none with [`RootStrategy::Skip`].
    pub trie_updates: TrieUpdates,
    /// How the work was cut.
    pub counters: RootCounters,
}

/// How the work of one block was cut into jobs. All zero when it was done after execution.
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
    /// Those of them that were known already.
    pub nodes_reread: u64,
    /// Changed keys whose path was known when they first changed.
    pub known_paths: u64,
    /// Leaves and branches encoded anew.
    pub nodes_hashed: u64,
    /// Leaves and branches that are read and encoded one after another however many threads there
    /// are: the longest chain of each step, added up over the steps of the block.
    pub longest_chain: u64,
}
