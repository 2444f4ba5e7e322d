//! The state root of a block: Merkle Patricia Tries computed beside execution.
//!
//! This crate knows no database and no async runtime. It reads stored state through the traits in
//! [`cursor`], takes account changes as they are executed, and answers with a root, the trie nodes
//! to store and the counters that say how the work was cut into jobs.
//!
//! Two computations of the same thing live here and share no trie code: the streaming pipeline,
//! which keeps one trie in memory and finds out what that lacks by proofs, as reth does, or by
//! ranges; and the serial [`mod@reference`], which is its oracle and serves whoever has no block to
//! execute (loading, unwinding, checking). Behind [`RootPool`] stands the one or the other, as
//! [`Strategy`] says.

pub mod chunk;
pub mod cursor;
mod error;
mod hash;
mod keccak;
mod late;
pub mod mem;
mod nibbles;
pub mod reference;
mod root;
mod stored;
mod strategy;
mod stream;
pub mod trial;
pub mod updates;

pub use chunk::ChunkPolicy;
pub use error::RootError;
pub use root::{EndedJob, RootCounters, RootJob, RootOutcome, RootPool};
pub use stored::{Masks, StoredBranch};
pub use strategy::{LateRoot, ProofConfig, RangeConfig, Strategy};
