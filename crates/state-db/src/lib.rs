//! The node's storage: MDBX tables in reth's v1 layout, and everything that reads and writes them.
//!
//! The only crate that links MDBX. It knows blocks, plain and hashed state, changesets and trie
//! nodes; it knows neither execution nor the network.
//!
//! ```text
//!   Loader ──► write_genesis ──► append ──► append ──► unwind        one writer at a time,
//!                                  │                                 one durable commit each
//!        DbView  (one read transaction: blocks, plain state, history)
//!          └── OverlaySource  (the same state with in-memory blocks on top, for trie workers)
//! ```
//!
//! Every write is one MDBX transaction: it happens completely or not at all.

mod batch;
mod codec;
mod contain;
mod cursors;
mod db;
mod error;
mod history;
mod loader;
mod lock;
mod overlay;
mod overlay_cursor;
mod pause;
pub mod rows;
mod state_write;
mod stats;
mod tables;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod tx;
mod types;
mod unwind;
mod verify;
mod view;
mod write;

pub use cursors::{DbAccountCursor, DbSlotCursor, DbTrieCursor};
pub use db::{OpenOptions, StateDb, SyncMode, replace_file};
pub use error::{DbError, UnwindError};
pub use loader::Loader;
pub use overlay::Overlay;
pub use overlay_cursor::{OverlaySource, OverlayView};
pub use pause::HeldWriter;
pub use stats::{DbStats, TableStats};
pub use tables::Table;
pub use tx::{DbTx, DbView};
pub use types::{
    AccountDelta, BlockNumHash, BlockWrite, LoadItem, LoadSummary, PlainChanges, Receipt,
    SlotDelta, StorageDelta, StoredBlock, TransactionLocation, TransactionSigned, UnwindProgress,
    UnwindStage, UnwindSummary,
};
pub use verify::{Finding, VerifyCheck, VerifyOptions, VerifyProgress, VerifyReport};
