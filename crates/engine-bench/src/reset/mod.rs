//! Resetting a datadir to the base block between passes.
//!
//! Invariant: a datadir that the user gave is only ever read, unless it is worked on in place.

mod copy;

pub use copy::{
    Pristine, Tables, check_unused, copied_bytes, copy_datadir, file_bytes, held_bytes,
};

use crate::{
    engine,
    sweep::{EngineSpec, ResetMethod},
};
use eyre::{Result, eyre};
use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// One engine's datadir and what it takes to bring it back.
#[derive(Debug, Clone)]
pub struct Workspace {
    /// The engine that works in it.
    pub engine: EngineSpec,
    /// The datadir worked on.
    pub datadir: PathBuf,
    /// The datadir it is a copy of; itself when worked on in place.
    pub pristine: Pristine,
    /// Head of the pristine datadir.
    pub pristine_head: u64,
    /// How it is reset.
    pub method: ResetMethod,
    /// Memory that the engine took for itself when it was asked for its head, in bytes; 0 while unknown.
    pub asked_bytes: u64,
    /// Where the pid of a process that works in it is kept.
    pub pid_file: PathBuf,
}

impl Workspace {
    /// Brings the datadir back to block `target`, which stays. No engine may be running on it.
    ///
    /// # Errors
    /// When the copy or the engine's unwind fails.
    pub async fn reset(&self, target: u64, log: &Path) -> Result<()> {
        if self.method == ResetMethod::Copy {
            copy_datadir(&self.pristine, &self.datadir)?;
            if self.pristine_head == target {
                return Ok(());
            }
        }
        let command = self.unwind_command(target)?;
        engine::run_tool(command, log, &self.pid_file).await
    }

    /// Whether the datadir is the only one there is.
    pub fn is_in_place(&self) -> bool {
        self.datadir == self.pristine.path
    }

    /// The command that brings the datadir back to block `target`.
    ///
    /// # Errors
    /// When the engine has none.
    pub fn unwind_command(&self, target: u64) -> Result<Command> {
        let (engine, head) = (&self.engine, self.pristine_head);
        let command = engine::adapter_of(engine.kind).unwind(engine, &self.datadir, target);
        command.ok_or_else(|| {
            eyre!(
                "{} has no command that unwinds a datadir, and the one given ends at block {head}, not at \
                 block {target}; omit --target-block, or give a datadir that ends there",
                engine.name
            )
        })
    }
}
