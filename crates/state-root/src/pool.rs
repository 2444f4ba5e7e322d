//! placeholder
#![expect(clippy::todo, reason = "signatures first")]
use crate::{chunk::ChunkPolicy, cursor::StateSource, error::RootError, updates::*};
use alloy_primitives::B256;
use std::{io, num::NonZeroUsize, sync::Arc};

/// How the pipeline cuts and spreads its work.
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
#[derive(Debug)]
pub struct RootPool<S: StateSource> {
    marker: std::marker::PhantomData<S>,
}

impl<S: StateSource> RootPool<S> {
    /// Starts the threads.
    pub fn new(_config: RootConfig) -> io::Result<Self> {
        todo!()
    }
    /// Begins the root of one block.
    pub fn prepare(&self, _source: Arc<S>, _parent_root: B256) -> RootJob {
        todo!()
    }
}

/// The root of one block in the making. Dropping it cancels the work.
#[derive(Debug)]
pub struct RootJob {}

impl RootJob {
    /// Hands over what one execution step changed.
    pub fn update(&self, _changes: Vec<AccountChange>) {
        todo!()
    }
    /// Waits for the root.
    pub fn finish(self) -> Result<RootOutcome, RootError> {
        todo!()
    }
}

/// What a finished job answers.
#[derive(Debug, Clone)]
pub struct RootOutcome {
    /// State root after the block.
    pub root: B256,
    /// Changed leaves.
    pub hashed_state: HashedState,
    /// Changed stored branches.
    pub trie_updates: TrieUpdates,
    /// How the work was cut.
    pub counters: RootCounters,
}

/// How the work of one block was cut.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RootCounters {
    /// Account targets requested.
    pub account_targets: u64,
    /// Slot targets requested.
    pub storage_targets: u64,
    /// Batches dispatched.
    pub batches: u64,
    /// Account jobs dispatched: the chunks of all batches.
    pub jobs: u64,
    /// Batches that were dispatched whole, as one job.
    pub unsplit_batches: u64,
    /// Trie nodes the workers revealed.
    pub nodes_revealed: u64,
}
