//! The record of a sweep: one event a line, appended and synced, never changed.
//!
//! Invariant: whatever instant the program is killed at, the lines before it can be read; a last
//! line that was cut short is dropped.

use crate::client::BlockIdentity;
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
    time::{Instant, SystemTime, UNIX_EPOCH},
};

/// Name of the journal inside a results folder.
pub const JOURNAL_FILE: &str = "journal.ndjson";

const FORMAT: &str = "engine-bench-journal";
const VERSION: u64 = 1;

/// First line of a journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Header {
    format: String,
    version: u64,
}

/// One line after the first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Unix time in milliseconds.
    pub unix_ms: u64,
    /// Seconds since the journal was opened by the process that wrote the line.
    pub at_s: f64,
    /// What happened.
    pub event: Event,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Event {
    /// State and payloads exist: the clock of the sweep starts.
    SweepStarted {
        /// The block that every pass starts from.
        base: BlockIdentity,
        /// Engines as they call themselves, in the order of the plan.
        engine_versions: Vec<String>,
        /// The machine.
        environment: crate::run::Environment,
    },
    /// State or payloads could not be made: nothing is measured.
    PreparationFailed {
        /// Which step failed.
        step: String,
        /// Why, in one line.
        cause: String,
        /// The end of the engine's log, when it says more.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        log: Vec<String>,
    },
    /// A visit begins.
    VisitStarted {
        /// Its id.
        visit: String,
    },
    /// A visit in which everything was valid; its files are complete.
    VisitFinished {
        /// Its id.
        visit: String,
        /// What it spent its time on.
        times: VisitTimes,
    },
    /// A visit that gives no number.
    VisitFailed {
        /// Its id.
        visit: String,
        /// Which step failed.
        step: String,
        /// Why, in one line.
        cause: String,
        /// The end of the engine's log, when it says more.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        log: Vec<String>,
        /// What it spent its time on until then.
        times: VisitTimes,
    },
    /// What an adaptive sweep visits next.
    Decided(Decision),
    /// The sweep was interrupted from outside.
    Interrupted,
    /// Every visit was made.
    SweepFinished,
}

/// What the next round of an adaptive sweep visits, and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// The round it was made after.
    pub after_round: u64,
    /// Ids of the cells of the next round, in the order of the plan; none ends the sweep.
    pub next: Vec<String>,
    /// Seconds left of the budget.
    pub left_s: Option<f64>,
    /// What it rests on, by gas level.
    pub levels: Vec<LevelDecision>,
}

impl Decision {
    /// The end of a sweep.
    pub fn end(after_round: u64) -> Self {
        Self {
            after_round,
            next: Vec::new(),
            left_s: None,
            levels: Vec::new(),
        }
    }
}

/// A gas level when a decision was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LevelDecision {
    /// The level.
    #[serde(flatten)]
    pub load: crate::plan::Load,
    /// Relative half width of its intervals; `None` while unknown.
    pub resolved: Option<f64>,
    /// Rounds in all that the wanted resolution takes.
    pub wanted_rounds: u64,
    /// Further rounds that the budget allows.
    pub given_rounds: u64,
    /// What a round of it costs, in seconds.
    pub round_s: f64,
    /// Ids of cells that leave because they are clearly beaten.
    pub settled: Vec<String>,
}

/// What a visit spent its time on, in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct VisitTimes {
    /// Bringing the datadir back.
    pub reset_s: f64,
    /// From starting the engine to its first fork choice.
    pub start_s: f64,
    /// Stopping the engine.
    pub stop_s: f64,
    /// Σ (newPayload + forkchoiceUpdated) of the warm-up.
    pub warmup_s: f64,
    /// Σ (newPayload + forkchoiceUpdated) of the measured pass.
    pub measured_s: f64,
    /// Deliberate waiting between payloads.
    pub wait_s: f64,
}

/// Why a journal cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The file failed.
    #[error("failed to {action} {path}: {reason}")]
    Io {
        /// What was attempted.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's reason.
        reason: io::Error,
    },
    /// A line is not an event.
    #[error(
        "line {line} of {path} is not an event: {reason}; restore the file, since nothing else records the sweep"
    )]
    Line {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// Another file, or another version of it.
    #[error("{path} is not a journal of version 1; give the results folder of a sweep")]
    Foreign {
        /// The file.
        path: PathBuf,
    },
}

/// A journal being written.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
    opened: Instant,
}

impl Journal {
    /// Starts the journal of a results folder, or goes on with the one that is there after
    /// dropping a last line that was cut short.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn open(dir: &Path) -> Result<Self, JournalError> {
        let path = dir.join(JOURNAL_FILE);
        let failed = |reason| JournalError::Io {
            action: "open",
            path: path.clone(),
            reason,
        };
        let mut file = File::options()
            .create(true)
            .append(true)
            .read(true)
            .open(&path)
            .map_err(failed)?;
        let text = fs::read(&path).map_err(failed)?;
        let whole = text
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1);
        if whole < text.len() {
            file.set_len(whole as u64).map_err(failed)?;
        }
        if whole == 0 {
            let header = Header {
                format: FORMAT.to_owned(),
                version: VERSION,
            };
            append(&mut file, &header).map_err(failed)?;
        }
        Ok(Self {
            file,
            path,
            opened: Instant::now(),
        })
    }

    /// Appends an event and waits until it is on disk.
    ///
    /// # Errors
    /// When it cannot be written, for example on a full disk.
    pub fn write(&mut self, event: Event) -> Result<(), JournalError> {
        let unix = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let record = Record {
            unix_ms: u64::try_from(unix.as_millis()).unwrap_or(u64::MAX),
            at_s: self.opened.elapsed().as_secs_f64(),
            event,
        };
        append(&mut self.file, &record).map_err(|reason| JournalError::Io {
            action: "write",
            path: self.path.clone(),
            reason,
        })
    }
}

/// Reads every complete line of a journal.
///
/// # Errors
/// When there is none, or a line other than an incomplete last one is not an event.
pub fn read(dir: &Path) -> Result<Vec<Record>, JournalError> {
    let path = dir.join(JOURNAL_FILE);
    let text = fs::read_to_string(&path).map_err(|reason| JournalError::Io {
        action: "read",
        path: path.clone(),
        reason,
    })?;
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let mut lines = whole.lines();
    let header: Option<Header> = lines
        .next()
        .and_then(|line| serde_json::from_str(line).ok());
    if !header.is_some_and(|header| header.format == FORMAT && header.version == VERSION) {
        return Err(JournalError::Foreign { path });
    }
    let event = |(index, line): (usize, &str)| {
        serde_json::from_str(line).map_err(|error| JournalError::Line {
            path: path.clone(),
            line: index + 2,
            reason: error.to_string(),
        })
    };
    lines.enumerate().map(event).collect()
}

fn append(file: &mut File, line: &impl Serialize) -> io::Result<()> {
    let mut text = serde_json::to_vec(line)?;
    text.push(b'\n');
    // One write, so that a kill cuts at most this line.
    file.write_all(&text)?;
    file.sync_data()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(visit: &str) -> Event {
        Event::VisitFailed {
            visit: visit.into(),
            step: "ready".into(),
            cause: "line\nline".into(),
            log: vec!["end".into()],
            times: VisitTimes {
                start_s: 1.5,
                ..Default::default()
            },
        }
    }

    #[test]
    fn survives_being_cut_at_any_byte() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(JOURNAL_FILE);
        let mut journal = Journal::open(dir.path()).unwrap();
        journal.write(failed("1-a")).unwrap();
        journal.write(Event::SweepFinished).unwrap();
        let text = fs::read(&path).unwrap();
        let header = text.iter().position(|byte| *byte == b'\n').unwrap();
        for cut in header + 1..=text.len() {
            fs::write(&path, &text[..cut]).unwrap();
            let whole = text[..cut].iter().filter(|byte| **byte == b'\n').count();
            assert_eq!(read(dir.path()).unwrap().len(), whole - 1, "cut at {cut}");
            Journal::open(dir.path())
                .unwrap()
                .write(failed("2-b"))
                .unwrap();
            assert_eq!(
                read(dir.path()).unwrap().last().unwrap().event,
                failed("2-b")
            );
        }
    }

    #[test]
    fn begins_with_its_format() {
        let dir = tempfile::tempdir().unwrap();
        drop(Journal::open(dir.path()).unwrap());
        drop(Journal::open(dir.path()).unwrap());
        let text = fs::read_to_string(dir.path().join(JOURNAL_FILE)).unwrap();
        assert_eq!(
            text,
            "{\"format\":\"engine-bench-journal\",\"version\":1}\n"
        );
        fs::write(dir.path().join(JOURNAL_FILE), "{}\n").unwrap();
        assert!(matches!(
            read(dir.path()),
            Err(JournalError::Foreign { .. })
        ));
    }
}
