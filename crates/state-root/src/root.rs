//! The pool of threads and the job of one block, whatever the strategy behind them.

use crate::{
    cursor::StateSource,
    error::RootError,
    late::{LateJob, LatePool},
    strategy::Strategy,
    stream::{StreamJob, StreamPool},
    updates::{AccountChange, HashedChange, HashedState, TrieUpdates},
};
use alloy_primitives::B256;
use std::{io, sync::Arc};

/// The threads of the pipeline, started once per process.
///
/// Dropping the pool waits for its threads, so its jobs must be finished or dropped before.
#[derive(Debug)]
pub struct RootPool<S: StateSource>(Pool<S>);

#[derive(Debug)]
enum Pool<S: StateSource> {
    Stream(StreamPool<S>),
    Late(LatePool),
}

impl<S: StateSource> RootPool<S> {
    /// Starts the threads. Fails when the system refuses one.
    pub fn new(strategy: Strategy) -> io::Result<Self> {
        Ok(Self(match strategy {
            Strategy::Proofs(config) => Pool::Stream(StreamPool::proofs(config)?),
            Strategy::Ranges(config) => Pool::Stream(StreamPool::ranges(config)?),
            Strategy::Late(late) => Pool::Late(LatePool::new(late)?),
        }))
    }

    /// Begins the root of one block on top of the state `source` shows, whose root is
    /// `parent_root`. A block that changes nothing is answered with that root unread.
    ///
    /// A pool of proof workers runs its jobs in the order they were prepared: a second one waits
    /// until the first is finished or dropped.
    pub fn prepare(&self, source: Arc<S>, parent_root: B256) -> RootJob {
        RootJob(match &self.0 {
            Pool::Stream(pool) => Job::Stream(pool.prepare(source, parent_root)),
            Pool::Late(pool) => Job::Late(pool.prepare(source, parent_root)),
        })
    }
}

/// The state root of one block in the making. Dropping it cancels the work.
#[derive(Debug)]
pub struct RootJob(Job);

#[derive(Debug)]
enum Job {
    Stream(StreamJob),
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
            Job::Stream(job) => job.send(message),
            Job::Late(job) => job.send(message),
        }
    }

    /// Says that there are no more changes. Threads of the pool begin with what is left to do, while
    /// the caller may do something else.
    pub fn end(self) -> EndedJob {
        match &self.0 {
            Job::Stream(job) => job.end(),
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
            Job::Stream(job) => job.wait(),
            Job::Late(job) => job.wait(),
        }
    }
}

/// What a finished job answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RootOutcome {
    /// State root after the block; `None` with [`LateRoot::Skip`](crate::LateRoot::Skip), which does not know it.
    pub root: Option<B256>,
    /// The changed leaves.
    pub hashed_state: HashedState,
    /// The changed stored branches; none with [`LateRoot::Skip`](crate::LateRoot::Skip).
    pub trie_updates: TrieUpdates,
    /// How the work was cut.
    pub counters: RootCounters,
}

/// How the work of one block was cut into jobs. All zero when it was done after execution.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RootCounters {
    /// Account targets: changed accounts whose path had to be read.
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
