//! Starting, watching and stopping an engine: a process that answers two ports.
//!
//! Invariant: every process started here runs in its own group, dies with this program, and has
//! a pid file while it lives, so that none is left behind whichever of the two ends first. The first line of an
//! error is the whole cause; where a log says more, its end follows, a line each.

mod adapter;
mod advice;
mod command;
mod ethrex;
mod geth;
mod help;
mod leftover;
mod process;
mod ready;
mod reth;
mod trial;
mod variables;

pub(crate) use adapter::of as adapter_of;
pub(crate) use advice::advised;
pub(crate) use command::flag_name;
pub use command::{Endpoints, Launch};
pub use ethrex::is_ethrex_datadir;
pub use geth::is_geth_datadir;
pub(crate) use help::{defaults, help, help_command, names_flag};
pub use leftover::{is_running, note_running, stop_leftover, stop_leftovers};
pub(crate) use process::{Answer, answer_of};
pub use process::{Engine, run_tool};
pub use ready::wait_until_ready;
pub use reth::init_command;
pub(crate) use reth::missing_fixed_flags;
pub use trial::{can_try, refusal};
pub(crate) use variables::command;
pub use variables::{Variables, kept_out};

use std::path::Path;

/// How many lines of a log an error quotes.
const QUOTED_LINES: usize = 5;

/// Characters of a quoted line at most.
const QUOTED_COLUMNS: usize = 200;

/// What a line of a log holds that says why a process ended, in the spellings of reth, geth, ethrex
/// and Rust's runtime.
const REASON_MARKS: [&str; 6] = ["Error", "ERROR", "error", "Fatal", "lvl=crit", "panicked"];

/// The end of a log, as an error quotes it: the reason in one line, then the last lines. A command ends with its
/// reason, so that the last line serves where none speaks of an error; what a killed node said last is no reason. A
/// line that is known goes before all others, wherever it stands.
fn end_of_log(log: &Path, of_command: bool) -> String {
    // One that cannot be read has no lines.
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let told = text.lines().map(str::trim_end);
    let told = told.filter(|line| !line.is_empty()).rev();
    let cut = |line: &str| line.chars().take(QUOTED_COLUMNS).collect();
    let mut lines: Vec<String> = told.take(QUOTED_LINES).map(cut).collect();
    lines.reverse();
    let speaks = |line: &&String| REASON_MARKS.iter().any(|mark| line.contains(mark));
    // Frames of a backtrace may stand between it and the end.
    let known = text.lines().rfind(|line| advice::is_known(line)).map(cut);
    let reason = lines.iter().rfind(speaks).map(|line| line.trim());
    let reason = known.as_deref().map(str::trim).or(reason);
    let last = lines.last().filter(|_| of_command).map(String::as_str);
    let log = log.display();
    let first = match reason.or(last) {
        Some(reason) => format!("{reason} ({log})"),
        None if lines.is_empty() => format!("it printed nothing ({log})"),
        None => format!("its log, {log}, names no error"),
    };
    lines.insert(0, first);
    lines.join("\n")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::sweep::{EngineKind, EngineSpec};

    /// An engine of this kind, which no machine has.
    pub(crate) fn engine(kind: EngineKind) -> EngineSpec {
        EngineSpec {
            name: "e".into(),
            program: "/e".into(),
            kind,
            ..EngineSpec::default()
        }
    }

    fn tail(log: &str, of_command: bool) -> String {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), log).unwrap();
        let said = end_of_log(file.path(), of_command);
        said.replace(file.path().to_str().unwrap(), "LOG")
    }

    #[test]
    fn a_log_is_quoted_short_and_its_error_first() {
        let error = "Error: no disk (LOG)\n1\nError: no disk\n2\n3\n4";
        let busy = "x MDBX_BUSY (LOG)\n1\n2\n3\n4\nError: 5";
        for (log, command, said) in [
            ("", true, "it printed nothing (LOG)"),
            ("a\n\nb  \n", true, "b (LOG)\na\nb"),
            ("a\n\nb  \n", false, "its log, LOG, names no error\na\nb"),
            ("0\n1\nError: no disk\n2\n3\n\n4\n", false, error),
            ("x MDBX_BUSY \n1\n2\n3\n4\nError: 5", false, busy),
        ] {
            assert_eq!(tail(log, command), said);
        }
        let long = tail(&"é".repeat(1000), false);
        assert_eq!(long.lines().last().unwrap().chars().count(), QUOTED_COLUMNS);
    }
}
