//! Starting, watching and stopping an engine: a process that answers two ports.
//!
//! Invariant: every process started here runs in its own group, dies with this program, and has
//! a pid file while it lives, so that none is left behind whichever of the two ends first.

mod adapter;
mod command;
mod geth;
mod help;
mod leftover;
mod process;
mod ready;
mod reth;
mod trial;
mod variables;

pub(crate) use adapter::of as adapter_of;
pub use command::{Endpoints, Launch};
pub use geth::{geth_init_commands, is_geth_datadir};
pub(crate) use help::{defaults, help, names_flag};
pub use leftover::{is_running, note_running, stop_leftover, stop_leftovers};
pub(crate) use process::output_of;
pub use process::{Engine, ToolRun, run_tool};
pub use ready::wait_until_ready;
pub use reth::init_command;
pub use trial::{can_try, refusal};
pub use variables::{Variables, kept_out};

use eyre::{Report, eyre};
use std::{
    io,
    path::{Path, PathBuf},
};

/// How many lines of a log an error quotes.
const QUOTED_LINES: usize = 5;

/// Characters of a quoted line at most.
const QUOTED_COLUMNS: usize = 200;

/// What a line of a log holds that says why a process ended, in the spellings of reth, geth and
/// Rust's runtime.
const REASON_MARKS: [&str; 6] = ["Error", "ERROR", "error", "Fatal", "lvl=crit", "panicked"];

/// Why a program or a file of an engine failed. In this module the first line of an error is the whole cause;
/// where a log says more, its end follows, a line each.
fn failed(action: &'static str, path: &Path) -> impl Fn(io::Error) -> Report {
    move |reason| eyre!("failed to {action} {}: {reason}", path.display())
}

/// The last lines of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogTail {
    path: PathBuf,
    lines: Vec<String>,
}

impl LogTail {
    /// Reads the end of a log; an unreadable one has no lines.
    pub fn of(path: &Path) -> Self {
        let text = std::fs::read(path).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let told = text
            .lines()
            .map(str::trim_end)
            .filter(|line| !line.is_empty());
        let cut = |line: &str| line.chars().take(QUOTED_COLUMNS).collect();
        let mut lines: Vec<String> = told.rev().take(QUOTED_LINES).map(cut).collect();
        lines.reverse();
        Self {
            path: path.to_owned(),
            lines,
        }
    }

    /// The last line that speaks of an error.
    fn reason(&self) -> Option<&str> {
        let speaks = |line: &&String| REASON_MARKS.iter().any(|mark| line.contains(mark));
        self.lines.iter().rfind(speaks).map(|line| line.trim())
    }
}

/// The reason in one line, then the lines. A command ends with its reason, so that its last line
/// (`{:#}`) serves where none speaks of an error; what a killed node said last is no reason.
impl std::fmt::Display for LogTail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path = self.path.display();
        let last = self.lines.last().filter(|_| f.alternate());
        match self.reason().or(last.map(String::as_str)) {
            Some(reason) => write!(f, "{reason} ({path})")?,
            None if self.lines.is_empty() => write!(f, "it printed nothing ({path})")?,
            None => write!(f, "its log, {path}, names no error")?,
        }
        for line in &self.lines {
            write!(f, "\n{line}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tail(log: &str, command: bool) -> String {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), log).unwrap();
        let tail = LogTail::of(file.path());
        let tail = if command {
            format!("{tail:#}")
        } else {
            tail.to_string()
        };
        tail.replace(file.path().to_str().unwrap(), "LOG")
    }

    #[test]
    fn a_log_is_quoted_short_and_its_error_first() {
        assert_eq!(tail("", true), "it printed nothing (LOG)");
        assert_eq!(tail("a\n\nb  \n", true), "b (LOG)\na\nb");
        assert_eq!(
            tail("a\n\nb  \n", false),
            "its log, LOG, names no error\na\nb"
        );
        assert_eq!(
            tail("0\n1\nError: no disk\n2\n3\n\n4\n", false),
            "Error: no disk (LOG)\n1\nError: no disk\n2\n3\n4"
        );
        let long = tail(&"é".repeat(1000), false);
        assert_eq!(long.lines().last().unwrap().chars().count(), QUOTED_COLUMNS);
    }
}
