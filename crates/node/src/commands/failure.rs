//! How a failure ends the program: what was asked cannot be done (exit code 1), or storage itself
//! failed (2).

use crate::engine::EngineError;
use eyre::eyre;
use state_db::{DbError, UnwindError};

/// Storage failed: no room is left, or the database file is damaged. The program ends with code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct StorageFailure(String);

/// A failure of storage as the user reads it.
pub(super) fn database(problem: DbError) -> eyre::Report {
    report(problem.is_storage_failure(), format!("failed to {problem}"))
}

/// The same, for an unwind.
pub(super) fn unwind(problem: UnwindError) -> eyre::Report {
    match problem {
        // reth's text, whole.
        above @ UnwindError::AboveTip { .. } => eyre!("{above}"),
        UnwindError::Database(problem) => database(problem),
        other => eyre!("failed to {other}"),
    }
}

/// A failure of the engine as the user reads it.
pub(super) fn engine(problem: EngineError) -> eyre::Report {
    report(problem.is_storage_failure(), format!("failed to {problem}"))
}

/// A text, marked when it tells of a failure of storage.
pub(super) fn report(storage: bool, text: String) -> eyre::Report {
    if storage {
        StorageFailure(text).into()
    } else {
        eyre!("{text}")
    }
}
