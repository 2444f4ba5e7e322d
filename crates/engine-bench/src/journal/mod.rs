//! The record of a sweep: one event a line, appended and synced, never changed.
//!
//! Invariant: whatever instant the program is killed at, the lines before it can be read; a last
//! line that was cut short is dropped. Every line carries a sum of itself and the sum before, so
//! that a line that was changed, removed or put in is noticed.

mod event;

pub use event::{
    DatabaseFacts, Decision, Event, Interleaving, LevelDecision, PassFacts, Record, StateFacts,
    VisitFacts, VisitTimes,
};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::{
    fs::{self, File, TryLockError},
    io::{self, Write as _},
    path::{Path, PathBuf},
    time::{Instant, SystemTime, UNIX_EPOCH},
};

/// Name of the journal inside a results folder.
pub const JOURNAL_FILE: &str = "journal.ndjson";

const FORMAT: &str = "engine-bench-journal";
const VERSION: u64 = 2;

/// First line of a journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Header {
    format: String,
    version: u64,
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
    /// Another process writes it.
    #[error("another run is writing {path}; wait for it")]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// A line is not the one that was written.
    #[error(
        "line {line} of {path} was changed after it was written, or one before it was removed; restore the file, since nothing else records the sweep"
    )]
    Edited {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
    },
    /// Another file, or another version of it.
    #[error("{path} is not a journal of version 2; give the results folder of a sweep")]
    Foreign {
        /// The file.
        path: PathBuf,
    },
}

/// What a line has behind its event.
const SUM_KEY: &str = ",\"sum\":\"";

/// Hexadecimal digits of a sum.
const SUM_DIGITS: usize = 16;

/// A journal being written; it is held by this process until it is dropped.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
    opened: Instant,
    /// Of the last line.
    sum: String,
    listener: Option<fn(&str)>,
}

impl Journal {
    /// Starts the journal of a results folder, or goes on with the one that is there after
    /// dropping a last line that was cut short.
    ///
    /// # Errors
    /// When the file cannot be written, or another process has it open.
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
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(JournalError::InUse { path }),
            Err(TryLockError::Error(reason)) => return Err(failed(reason)),
        }
        let text = fs::read(&path).map_err(failed)?;
        let whole = whole_lines(&text);
        if whole < text.len() {
            file.set_len(whole as u64).map_err(failed)?;
        }
        if whole == 0 {
            let header = Header {
                format: FORMAT.to_owned(),
                version: VERSION,
            };
            let text = serde_json::to_string(&header).map_err(|error| failed(error.into()))?;
            append(&mut file, text).map_err(failed)?;
        }
        let text = String::from_utf8_lossy(&text[..whole]);
        let last = text.lines().next_back().and_then(sum_of);
        Ok(Self {
            file,
            path,
            opened: Instant::now(),
            sum: last.map_or_else(String::new, |(_, sum)| sum.to_owned()),
            listener: None,
        })
    }

    /// Has every line told to `listener` once it is on disk, without its sum.
    pub fn listen(&mut self, listener: fn(&str)) {
        self.listener = Some(listener);
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
        let failed = |reason| JournalError::Io {
            action: "write",
            path: self.path.clone(),
            reason,
        };
        let text = serde_json::to_string(&record).map_err(|error| failed(error.into()))?;
        let sum = next_sum(&self.sum, &text);
        append(&mut self.file, with_sum(&text, &sum)).map_err(failed)?;
        self.sum = sum;
        if let Some(listener) = self.listener {
            listener(&text);
        }
        Ok(())
    }
}

impl Drop for Journal {
    /// Ends the lock, which closing the file would leave to a child that is just being started:
    /// until it executes its program it has every open file of this process.
    fn drop(&mut self) {
        // Without a lock there is nothing to end.
        let _ = self.file.unlock();
    }
}

/// Reads every complete line of a journal.
///
/// # Errors
/// When there is none, or a line other than an incomplete last one is not an event or not the one
/// that was written.
pub fn read(dir: &Path) -> Result<Vec<Record>, JournalError> {
    let path = dir.join(JOURNAL_FILE);
    let failed = |reason| JournalError::Io {
        action: "read",
        path: path.clone(),
        reason,
    };
    let mut text = fs::read(&path).map_err(&failed)?;
    // Before it is decoded: a line may be cut in the middle of a character.
    text.truncate(whole_lines(&text));
    let text = String::from_utf8(text)
        .map_err(|error| failed(io::Error::new(io::ErrorKind::InvalidData, error)))?;
    let mut lines = text.lines();
    let header: Option<Header> = lines
        .next()
        .and_then(|line| serde_json::from_str(line).ok());
    if !header.is_some_and(|header| header.format == FORMAT && header.version == VERSION) {
        return Err(JournalError::Foreign { path });
    }
    let mut before = String::new();
    let event = |(index, line): (usize, &str)| {
        let number = index + 2;
        if !follows(&mut before, line) {
            return Err(JournalError::Edited {
                path: path.clone(),
                line: number,
            });
        }
        serde_json::from_str(line).map_err(|error| JournalError::Line {
            path: path.clone(),
            line: number,
            reason: error.to_string(),
        })
    };
    lines.enumerate().map(event).collect()
}

/// How many bytes at the beginning are complete lines.
fn whole_lines(text: &[u8]) -> usize {
    let end = text.iter().rposition(|byte| *byte == b'\n');
    end.map_or(0, |at| at + 1)
}

/// Whether a line carries the sum that it has to behind one with the sum `before`, which becomes its
/// own. Lines of programs that wrote none have none, but none comes behind one that has.
fn follows(before: &mut String, line: &str) -> bool {
    let Some((text, sum)) = sum_of(line) else {
        return before.is_empty();
    };
    let right = next_sum(before, &text) == sum;
    sum.clone_into(before);
    right
}

/// A line as it was before it got its sum, and the sum.
fn sum_of(line: &str) -> Option<(String, &str)> {
    let (text, sum) = line.strip_suffix("\"}")?.rsplit_once(SUM_KEY)?;
    let is_sum = sum.len() == SUM_DIGITS && sum.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_sum.then(|| (format!("{text}}}"), sum))
}

fn with_sum(text: &str, sum: &str) -> String {
    let open = text.strip_suffix('}').unwrap_or(text);
    format!("{open}{SUM_KEY}{sum}\"}}")
}

fn next_sum(before: &str, text: &str) -> String {
    let digest = Sha256::new()
        .chain_update(before)
        .chain_update(text)
        .finalize();
    let mut sum = alloy_primitives::hex::encode(digest);
    sum.truncate(SUM_DIGITS);
    sum
}

fn append(file: &mut File, mut line: String) -> io::Result<()> {
    line.push('\n');
    // One write, so that a kill cuts at most this line.
    file.write_all(line.as_bytes())?;
    file.sync_data()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(visit: &str) -> Event {
        Event::VisitFailed {
            visit: visit.into(),
            step: "ready".into(),
            cause: "line\nline × 2".into(),
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
        drop(journal);
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
            "{\"format\":\"engine-bench-journal\",\"version\":2}\n"
        );
        fs::write(dir.path().join(JOURNAL_FILE), "{}\n").unwrap();
        assert!(matches!(
            read(dir.path()),
            Err(JournalError::Foreign { .. })
        ));
    }

    /// A journal of four events, as its lines.
    fn four_lines(dir: &Path) -> Vec<String> {
        let mut journal = Journal::open(dir).unwrap();
        for visit in ["1-a", "1-b", "2-a"] {
            journal.write(failed(visit)).unwrap();
        }
        journal.write(Event::SweepFinished).unwrap();
        let text = fs::read_to_string(dir.join(JOURNAL_FILE)).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_line_that_was_changed_removed_moved_or_put_in_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let lines = four_lines(dir.path());
        let noticed = |lines: &[String]| {
            fs::write(dir.path().join(JOURNAL_FILE), lines.join("\n") + "\n").unwrap();
            match read(dir.path()) {
                Ok(_) => None,
                Err(JournalError::Edited { line, .. }) => Some(line),
                Err(other) => panic!("{other}"),
            }
        };
        type Edit = fn(&mut Vec<String>);
        let edits: [(Edit, Option<usize>); 8] = [
            (|_| {}, None),
            // Cut between two lines, which a kill can do.
            (|lines| drop(lines.pop()), None),
            (|lines| lines[2] = lines[2].replace("1-b", "1-c"), Some(3)),
            (|lines| drop(lines.remove(2)), Some(3)),
            (|lines| lines.swap(2, 3), Some(3)),
            (|lines| lines.insert(3, lines[1].clone()), Some(4)),
            (
                |lines| {
                    let (text, _) = sum_of(&lines[3]).unwrap();
                    lines[3] = text;
                },
                Some(4),
            ),
            (
                |lines| {
                    let (text, sum) = sum_of(&lines[1]).unwrap();
                    lines[1] = with_sum(&text.replace("ready", "start"), sum);
                },
                Some(2),
            ),
        ];
        for (index, (edit, expected)) in edits.into_iter().enumerate() {
            let mut edited = lines.clone();
            edit(&mut edited);
            assert_eq!(noticed(&edited), expected, "edit {index}");
        }
    }

    #[test]
    fn a_journal_of_a_program_without_sums_goes_on_with_them() {
        let dir = tempfile::tempdir().unwrap();
        let lines = four_lines(dir.path());
        let without = |line: &String| sum_of(line).map_or(line.clone(), |(text, _)| text);
        let old: Vec<String> = lines.iter().map(without).collect();
        let path = dir.path().join(JOURNAL_FILE);
        fs::write(&path, old.join("\n") + "\n").unwrap();
        let mut journal = Journal::open(dir.path()).unwrap();
        journal.write(failed("3-a")).unwrap();
        drop(journal);
        Journal::open(dir.path())
            .unwrap()
            .write(failed("3-b"))
            .unwrap();
        assert_eq!(read(dir.path()).unwrap().len(), 6);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replacen("3-a", "3-c", 1)).unwrap();
        let edited = read(dir.path());
        assert!(matches!(edited, Err(JournalError::Edited { line: 6, .. })));
    }

    #[test]
    fn two_processes_do_not_write_one_journal() {
        let dir = tempfile::tempdir().unwrap();
        let held = Journal::open(dir.path()).unwrap();
        let second = Journal::open(dir.path());
        assert!(matches!(second, Err(JournalError::InUse { .. })));
        let child_has = held.file.try_clone().unwrap();
        drop(held);
        Journal::open(dir.path()).unwrap();
        drop(child_has);
    }
}
