//! The state root of a block: Merkle Patricia Tries computed beside execution.
//!
//! This crate knows no database and no async runtime. It reads stored state through the traits in
//! [`cursor`], takes account changes as they are executed, and answers with a root, the trie nodes
//! to store and the counters that say how the work was cut into jobs.

pub mod cursor;
pub mod updates;
