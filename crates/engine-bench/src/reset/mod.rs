//! Bringing a datadir back to the base block between passes.
//!
//! Invariant: a datadir that the user brought is only ever read, unless it is worked on in place.

mod copy;

pub use copy::{CopyError, copy_datadir, lock_owner};

use crate::{
    engine::{self, EngineError, ToolRun},
    sweep::{EngineSpec, ResetMethod},
};
use std::path::{Path, PathBuf};

/// One engine's datadir and what it takes to bring it back.
#[derive(Debug, Clone)]
pub struct Workspace {
    /// The engine that works in it.
    pub engine: EngineSpec,
    /// The datadir worked on.
    pub datadir: PathBuf,
    /// The datadir it is a copy of; itself when worked on in place.
    pub pristine: PathBuf,
    /// Head of the pristine datadir.
    pub pristine_head: u64,
    /// How it is brought back.
    pub method: ResetMethod,
}

/// Why a reset failed.
#[derive(Debug, thiserror::Error)]
pub enum ResetError {
    /// The copy failed.
    #[error(transparent)]
    Copy(#[from] CopyError),
    /// The engine's unwind failed.
    #[error(transparent)]
    Unwind(#[from] EngineError),
}

impl Workspace {
    /// Brings the datadir back to block `target`, which stays. No engine may be running on it.
    ///
    /// # Errors
    /// When the copy or the engine's unwind fails.
    pub async fn reset(&self, target: u64, log: &Path, pid_file: &Path) -> Result<(), ResetError> {
        if self.method == ResetMethod::Copy {
            copy_datadir(&self.pristine, &self.datadir)?;
            if self.pristine_head == target {
                return Ok(());
            }
        }
        let command = engine::unwind_command(&self.engine, &self.datadir, target);
        Ok(engine::run_tool(ToolRun {
            command,
            log,
            pid_file,
        })
        .await?)
    }
}
