//! Starting, watching and stopping an engine: a process that answers two ports.
//!
//! Invariant: every process started here runs in its own group, dies with this program, and has
//! a pid file while it lives, so that none is left behind whichever of the two ends first.

mod command;
mod leftover;
mod process;
mod ready;

pub(crate) use command::shared_flags;
pub use command::{Endpoints, Launch, unwind_command};
pub use leftover::stop_leftover;
pub use process::{Engine, ToolRun, run_tool};
pub use ready::wait_until_ready;

use crate::client::ClientError;
use std::{io, path::PathBuf, time::Duration};

/// How many lines of a log an error quotes.
const QUOTED_LINES: usize = 8;

/// Why an engine cannot be used. Texts quote the end of its log where that says more.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The program could not be started, or its files not be made.
    #[error("failed to {action} {path}: {reason}")]
    Io {
        /// What was attempted.
        action: &'static str,
        /// The program or file.
        path: PathBuf,
        /// The system's reason.
        reason: io::Error,
    },
    /// It ended by itself.
    #[error("the engine ended by itself ({status}); {log}")]
    Died {
        /// Exit code or signal.
        status: String,
        /// The end of its log.
        log: LogTail,
    },
    /// It did not become ready in time.
    #[error("the engine was not ready after {waited:?}: {last}; {log}")]
    NotReady {
        /// How long it was waited for.
        waited: Duration,
        /// What it last answered.
        last: String,
        /// The end of its log.
        log: LogTail,
    },
    /// It refused a question that a ready engine answers.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A command of the engine, such as an unwind, failed.
    #[error("`{command}` ended with {status}; {log}")]
    Command {
        /// The command line.
        command: String,
        /// Exit code or signal.
        status: String,
        /// The end of its output.
        log: LogTail,
    },
    /// It had to be killed.
    #[error("the engine did not stop within {waited:?} of SIGTERM and was killed; {log}")]
    Killed {
        /// How long it was waited for.
        waited: Duration,
        /// The end of its log.
        log: LogTail,
    },
}

/// The last lines of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogTail {
    path: PathBuf,
    lines: Vec<String>,
}

impl LogTail {
    /// Reads the end of a log; an unreadable one has no lines.
    pub fn of(path: &std::path::Path) -> Self {
        let text = std::fs::read(path).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let mut lines: Vec<String> = text
            .lines()
            .rev()
            .take(QUOTED_LINES)
            .map(str::to_owned)
            .collect();
        lines.reverse();
        Self {
            path: path.to_owned(),
            lines,
        }
    }
}

impl std::fmt::Display for LogTail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.lines.is_empty() {
            return write!(f, "{} is empty", self.path.display());
        }
        write!(f, "the end of {}:", self.path.display())?;
        for line in &self.lines {
            write!(f, "\n    {line}")?;
        }
        Ok(())
    }
}
