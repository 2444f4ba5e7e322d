//! Resetting a datadir to the base block between passes.
//!
//! Invariant: a datadir that the user gave is only ever read, unless it is worked on in place.

mod copy;
mod overlay;

pub use copy::{
    Extents, Pristine, Tables, check_unused, copied_bytes, copy_datadir, file_bytes, held_bytes,
    try_reflink,
};
pub use overlay::{Mounts, try_overlay};

use crate::{
    engine,
    sweep::{EngineSpec, ResetMethod},
};
use eyre::{Result, bail, eyre};
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
    /// Makes the datadir what the pristine one is.
    ///
    /// # Errors
    /// When it cannot be copied, or laid over.
    pub fn renew(&self) -> Result<()> {
        let Self {
            pristine,
            datadir,
            method,
            ..
        } = self;
        match method {
            ResetMethod::Overlay => {
                check_unused(&pristine.path)?;
                overlay::lay_over(&pristine.path, datadir)
            }
            ResetMethod::Reflink => copy_datadir(pristine, datadir, Extents::Shared),
            _ => copy_datadir(pristine, datadir, Extents::Any),
        }
    }

    /// Brings the datadir back to block `target`, which stays. No engine may be running on it.
    ///
    /// # Errors
    /// When the copy, the user's command or the engine's unwind fails.
    pub async fn reset(&self, target: u64, log: &Path) -> Result<()> {
        if let ResetMethod::Command(words) = &self.method {
            let command = self.user_command(words, target)?;
            return engine::run_tool(command, log, &self.pid_file).await;
        }
        if self.method.starts_afresh() {
            self.renew()?;
            if self.pristine_head == target {
                return Ok(());
            }
        }
        let command = self.unwind_command(target)?;
        engine::run_tool(command, log, &self.pid_file).await
    }

    /// Keeps the datadir as it is at `kept`, and begins from there ever after.
    ///
    /// # Errors
    /// When it cannot be copied.
    pub fn keep_as(&mut self, kept: &Path) -> Result<()> {
        let now = Pristine {
            path: self.datadir.clone(),
            tables: Tables::Copied,
        };
        copy_datadir(&now, kept, Extents::Any)?;
        self.pristine = Pristine {
            path: kept.to_owned(),
            tables: Tables::Shared,
        };
        self.renew()
    }

    /// What a reset to block `target` consists of.
    pub fn method_name(&self, target: u64) -> String {
        let name = self.method.name();
        let unwinds = self.method.starts_afresh() && self.pristine_head != target;
        let then = if unwinds { ", unwind" } else { "" };
        format!("{name}{then}")
    }

    /// The user's own command, which learns from its environment what to bring back.
    fn user_command(&self, words: &[String], target: u64) -> Result<Command> {
        let [program, arguments @ ..] = words else {
            bail!("--reset command: names no program; give one behind the colon");
        };
        let mut command = engine::command(Path::new(program));
        command
            .args(arguments)
            .env("ENGINE_BENCH_DATADIR", &self.datadir)
            .env("ENGINE_BENCH_PRISTINE", &self.pristine.path)
            .env("ENGINE_BENCH_TARGET_BLOCK", target.to_string());
        Ok(command)
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
