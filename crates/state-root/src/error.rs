//! Why a block's state root could not be computed.

use crate::cursor::CursorError;
use alloy_primitives::B256;
use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
};

/// Why a block's state root could not be computed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RootError {
    /// Stored state could not be read.
    #[error(transparent)]
    Cursor(#[from] CursorError),
    /// The stored tries are not those of the parent block.
    #[error("match the stored state to its parent block: root {expected} expected, {found} stored")]
    ParentRoot {
        /// The parent block's state root.
        expected: B256,
        /// What the stored tries hash to.
        found: B256,
    },
    /// A stored branch names a child of which no leaf is stored, or a path cannot be followed.
    #[error("read the stored tries: branches and leaves contradict each other")]
    Inconsistent,
    /// The job was dropped before it had an answer.
    #[error("compute the state root: the job was cancelled")]
    Cancelled,
    /// A thread of the pool panicked; the text is the panic's own.
    #[error("compute the state root: a worker panicked: {0}")]
    Panicked(String),
    /// The pool's threads are gone.
    #[error("compute the state root: the worker pool has stopped")]
    Stopped,
}

/// Turns a panic into an error.
pub(crate) fn catch_panic<T>(work: impl FnOnce() -> Result<T, RootError>) -> Result<T, RootError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(panicked(&*panic)))
}

/// The error that a panic is.
pub(crate) fn panicked(panic: &(dyn Any + Send)) -> RootError {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    RootError::Panicked(text.unwrap_or("no message").to_owned())
}
