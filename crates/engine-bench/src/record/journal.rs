//! The record of a sweep: one event a line, appended and synced, never changed.
//!
//! Invariant: whatever instant the program is killed at, the lines before it can be read; a last
//! line that was cut short is dropped. Every line carries a sum of itself and the sum before, so
//! that a line that was changed, removed or put in is noticed.

use super::{Event, Record};
use crate::plan::Format;
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

/// Why a journal cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct JournalError(String);

impl JournalError {
    /// What becomes of the system's reason when the file failed.
    fn io(action: &'static str, path: &Path) -> impl Fn(io::Error) -> Self {
        move |reason| Self(format!("failed to {action} {}: {reason}", path.display()))
    }
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
        let failed = JournalError::io("open", &path);
        let mut options = File::options();
        options.create(true).append(true).read(true);
        let mut file = options.open(&path).map_err(&failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let path = path.display();
                let said = format!("another run is writing {path}; wait for it");
                return Err(JournalError(said));
            }
            Err(TryLockError::Error(reason)) => return Err(failed(reason)),
        }
        let text = fs::read(&path).map_err(&failed)?;
        let whole = whole_lines(&text);
        if whole < text.len() {
            file.set_len(whole as u64).map_err(&failed)?;
        }
        if whole == 0 {
            let header = Format::of(FORMAT, VERSION);
            let header = serde_json::to_string(&header).map_err(|error| failed(error.into()))?;
            append(&mut file, header).map_err(&failed)?;
        }
        drop(failed);
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
        let failed = JournalError::io("write", &self.path);
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
    let failed = JournalError::io("read", &path);
    let mut text = fs::read(&path).map_err(&failed)?;
    // Before it is decoded: a line may be cut in the middle of a character.
    text.truncate(whole_lines(&text));
    let text = String::from_utf8(text)
        .map_err(|error| failed(io::Error::new(io::ErrorKind::InvalidData, error)))?;
    let mut lines = text.lines();
    let header = lines.next().unwrap_or_default();
    let path = path.display();
    Format::check(header.as_bytes(), FORMAT, VERSION)
        .map_err(|reason| JournalError(format!("failed to read the journal {path}: {reason}")))?;
    let mut before = String::new();
    let event = |(index, line): (usize, &str)| {
        let damaged = |how: &str| {
            let number = index + 2;
            JournalError(format!(
                "line {number} of {path} {how}; restore the file, since nothing else records the sweep"
            ))
        };
        if !follows(&mut before, line) {
            let how = "was changed after it was written, or one before it was removed";
            return Err(damaged(how));
        }
        let event = serde_json::from_str(line);
        event.map_err(|error| damaged(&format!("is not an event: {error}")))
    };
    lines.enumerate().map(event).collect()
}

/// How many bytes at the beginning are complete lines.
fn whole_lines(text: &[u8]) -> usize {
    let end = text.iter().rposition(|byte| *byte == b'\n');
    end.map_or(0, |at| at + 1)
}

/// Whether a line carries the sum that it has to behind one with the sum `before`, which becomes its
/// own.
fn follows(before: &mut String, line: &str) -> bool {
    let Some((text, sum)) = sum_of(line) else {
        return false;
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
    use crate::record::{Failure, VisitTimes};

    fn failed(visit: &str) -> Event {
        Event::VisitFailed {
            failure: Failure {
                visit: visit.into(),
                step: "ready".into(),
                cause: "line\nline × 2".into(),
                log: vec!["end".into()],
            },
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
            let mut journal = Journal::open(dir.path()).unwrap();
            journal.write(failed("2-b")).unwrap();
            let last = read(dir.path()).unwrap().pop().unwrap();
            assert_eq!(last.event, failed("2-b"));
        }
    }

    #[test]
    fn begins_with_its_format() {
        let dir = tempfile::tempdir().unwrap();
        drop(Journal::open(dir.path()).unwrap());
        drop(Journal::open(dir.path()).unwrap());
        let path = dir.path().join(JOURNAL_FILE);
        let text = fs::read_to_string(&path).unwrap();
        let header = r#"{"format":"engine-bench-journal","version":2}"#;
        assert_eq!(text, format!("{header}\n"));
        let old =
            "it is of version 1, and this program reads version 2: use the program that wrote it";
        for (header, said) in [
            ("{}", "it is not of the format engine-bench-journal"),
            (&header.replace('2', "1"), old),
        ] {
            fs::write(&path, format!("{header}\n")).unwrap();
            let refused = read(dir.path()).unwrap_err().to_string();
            assert!(refused.contains(said), "{refused}");
        }
    }

    #[test]
    fn a_line_that_was_changed_removed_moved_or_put_in_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(dir.path()).unwrap();
        for visit in ["1-a", "1-b", "2-a"] {
            journal.write(failed(visit)).unwrap();
        }
        journal.write(Event::SweepFinished).unwrap();
        let text = fs::read_to_string(dir.path().join(JOURNAL_FILE)).unwrap();
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let noticed = |lines: &[String]| {
            fs::write(dir.path().join(JOURNAL_FILE), lines.join("\n") + "\n").unwrap();
            match read(dir.path()) {
                Ok(_) => None,
                Err(error) => {
                    let said = error.to_string();
                    assert!(said.contains("was changed after it was written"), "{said}");
                    said.split(' ').nth(1)?.parse().ok()
                }
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
            (|lines| lines[3] = sum_of(&lines[3]).unwrap().0, Some(4)),
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
    fn two_processes_do_not_write_one_journal() {
        let dir = tempfile::tempdir().unwrap();
        let held = Journal::open(dir.path()).unwrap();
        let second = Journal::open(dir.path()).unwrap_err().to_string();
        assert!(second.starts_with("another run is writing "), "{second}");
        let child_has = held.file.try_clone().unwrap();
        drop(held);
        Journal::open(dir.path()).unwrap();
        drop(child_has);
    }
}
