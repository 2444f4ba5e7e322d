//! The engine: one thread that owns the chain, one that writes it to disk.

pub mod builder;
pub mod handle;
pub mod reader;

use crate::chainspec::ChainSpec;
pub use builder::{BuildError, BuildRequest, BuiltPayload};
pub use handle::{EngineHandle, ForkchoiceError, GetPayloadError, NewPayloadOutcome};
pub use reader::{ChainReader, ReadError, StateReader};
use state_db::{DbError, StateDb};
use state_root::RootConfig;
use std::sync::Arc;

/// How the engine works. Flags are resolved into this once.
#[derive(Debug, Clone)]
pub struct EngineConfig {
    /// Blocks are saved when the head is more than this many blocks above the database.
    pub persistence_threshold: u64,
    /// How many of the newest blocks a save leaves in memory.
    pub memory_block_buffer_target: u64,
    /// Workers, chunk size and chunk policy of the state root.
    pub root: RootConfig,
    /// Compare every parallel root with the serial reference.
    pub check_state_root: bool,
    /// When building: leave out transactions that cannot be included, and their sender's later
    /// ones, instead of failing.
    pub skip_invalid_transactions: bool,
}

/// A failure of the engine itself; a bad block is a status, not an error.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The engine was shut down or its thread ended.
    #[error("reach the engine: it has stopped")]
    Stopped,
    /// The database failed.
    #[error(transparent)]
    Database(#[from] DbError),
    /// State could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The state root could not be computed, or differs from the serial reference.
    #[error("compute the state root: {0}")]
    StateRoot(String),
    /// The database has no genesis, or belongs to another chain.
    #[error("start the engine: {0}")]
    Start(String),
    /// Saving blocks failed; nothing of the batch was written.
    #[error("save blocks: {0}")]
    Persistence(String),
}

/// Starts the threads `engine` and `persistence`. The head is the last block in the database.
pub fn spawn(
    _db: StateDb,
    _chain: Arc<ChainSpec>,
    _config: EngineConfig,
) -> Result<EngineHandle, EngineError> {
    todo!()
}
