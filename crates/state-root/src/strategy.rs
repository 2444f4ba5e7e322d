//! When a block's root is computed, how, and over how many threads.

use crate::chunk::ChunkPolicy;
use std::num::{NonZeroU64, NonZeroUsize};

/// How the root of a block is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// During execution: what is unknown is cut into chunks of targets, which proof workers read.
    Proofs(ProofConfig),
    /// During execution: ranges of keys are read, changed and hashed, and idle threads take a part of
    /// them.
    Ranges(RangeConfig),
    /// After execution, from what is stored.
    Late(LateRoot),
}

/// How targets are cut into chunks, and who reads them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProofConfig {
    /// When a batch of targets is split.
    pub policy: ChunkPolicy,
    /// New keys that make a batch while changes come: the trie's thread lets them gather. A batch per
    /// message would have each job read the upper levels again for a few keys, and would leave
    /// nothing to cut. reth's batches come about by how late its thread looks at its queue.
    pub batch_keys: NonZeroUsize,
    /// Targets in one job, when a batch is split.
    pub chunk_size: NonZeroUsize,
    /// Threads that walk the account trie; as many more hash what has changed.
    pub account_workers: NonZeroUsize,
    /// Threads that walk storage tries.
    pub storage_workers: NonZeroUsize,
    /// Of the nodes, only those are kept that one of so many last blocks went through; `None` keeps all.
    pub kept_blocks: Option<NonZeroU64>,
    /// Memory of the nodes kept across blocks, in bytes. With none, each block begins blind.
    pub kept_bytes: usize,
}

/// How ranges are cut, and among how many threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RangeConfig {
    /// Leaves of a range that is not cut any further.
    pub grain: NonZeroUsize,
    /// Threads at work beside execution; one more once execution waits.
    pub threads: NonZeroUsize,
    /// Memory of the nodes kept across blocks, in bytes. With none, each block begins blind.
    pub kept_bytes: usize,
}

/// What is computed once all changes of a block are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LateRoot {
    /// The changed storage tries side by side on as many threads, then the account trie: what reth 1.11
    /// calls the parallel root.
    Parallel(NonZeroUsize),
    /// On one thread: the reference.
    Serial,
    /// Nothing: there is no root and there are no stored branches to change, so the stored tries
    /// are those of an earlier block from then on. For measuring what is left without a root, on a
    /// data directory that is thrown away.
    Skip,
}
