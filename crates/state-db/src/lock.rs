//! The lock of a datadir: one process may have it open for writing.
//!
//! The file names its owner: the process id on the first line and the process's start time
//! (seconds since the epoch) on the second, as reth writes it. A file left behind by a process
//! that is gone, or whose id now belongs to another process, is taken over. An advisory lock on
//! the file closes the window between looking and writing.

use crate::error::DbError;
use std::{
    fs::{self, File, TryLockError},
    io::{Read, Seek, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

/// Clock ticks a second in `/proc/<pid>/stat`; fixed by the kernel's user interface.
const TICKS_PER_SECOND: u64 = 100;

/// How far two computations of the same start time may differ, in seconds, because the kernel
/// derives the boot time from a clock that is being adjusted.
const START_TIME_TOLERANCE_S: u64 = 2;

/// Held as long as the datadir is open for writing; removes the file when dropped.
#[derive(Debug)]
pub(crate) struct StorageLock {
    path: PathBuf,
    _file: File,
}

impl StorageLock {
    /// Takes the lock at `path`, or names its live owner.
    pub(crate) fn acquire(path: &Path) -> Result<Self, DbError> {
        loop {
            if let Some(lock) = Self::try_acquire(path)? {
                return Ok(lock);
            }
        }
    }

    /// One attempt; `None` when the file was replaced meanwhile.
    fn try_acquire(path: &Path) -> Result<Option<Self>, DbError> {
        let fail = |action| {
            move |source| DbError::File {
                action,
                path: path.to_path_buf(),
                source,
            }
        };
        let mut file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(fail("open the lock file"))?;
        let mut text = String::new();
        file.read_to_string(&mut text)
            .map_err(fail("read the lock file"))?;
        let owner = Owner::parse(&text);
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(DbError::InUse {
                    pid: owner.map_or(0, |owner| owner.pid),
                });
            }
            Err(TryLockError::Error(source)) => return Err(fail("lock")(source)),
        }
        // The file may have been removed by its previous owner between opening and locking.
        let same = fs::metadata(path).is_ok_and(|now| {
            file.metadata()
                .is_ok_and(|opened| opened.ino() == now.ino())
        });
        if !same {
            return Ok(None);
        }
        if let Some(owner) = owner.filter(Owner::is_alive) {
            return Err(DbError::InUse { pid: owner.pid });
        }
        file.set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| file.write_all(Owner::this().text().as_bytes()))
            .map_err(fail("write the lock file"))?;
        Ok(Some(Self {
            path: path.to_path_buf(),
            _file: file,
        }))
    }
}

impl Drop for StorageLock {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "failed to remove the lock file");
        }
    }
}

/// A process, told apart from later ones with the same id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Owner {
    pid: u32,
    start_time_s: u64,
}

impl Owner {
    fn this() -> Self {
        let pid = std::process::id();
        Self {
            pid,
            start_time_s: start_time_s(pid).unwrap_or_default(),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines().map(|line| line.trim().parse::<u64>());
        let pid = lines.next()?.ok()?.try_into().ok()?;
        let start_time_s = lines.next()?.ok()?;
        Some(Self { pid, start_time_s })
    }

    fn text(&self) -> String {
        format!("{}\n{}", self.pid, self.start_time_s)
    }

    fn is_alive(&self) -> bool {
        start_time_s(self.pid)
            .is_some_and(|start| start.abs_diff(self.start_time_s) <= START_TIME_TOLERANCE_S)
    }
}

/// When a living process began, in seconds since the epoch.
fn start_time_s(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command (second field) may contain anything, also spaces and parentheses.
    let after_command = &stat[stat.rfind(')')? + 1..];
    let ticks: u64 = after_command.split_whitespace().nth(19)?.parse().ok()?;
    let uptime = fs::read_to_string("/proc/uptime").ok()?;
    let uptime_s: f64 = uptime.split_whitespace().next()?.parse().ok()?;
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .ok()?
        .as_secs_f64();
    Some((now - uptime_s) as u64 + ticks / TICKS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock_over(text: &str) -> (tempfile::TempDir, PathBuf, Result<StorageLock, DbError>) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        fs::write(&path, text).unwrap();
        let lock = StorageLock::acquire(&path);
        (dir, path, lock)
    }

    #[test]
    fn names_this_process_and_goes_with_it() {
        let (_dir, path, lock) = lock_over("");
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(Owner::parse(&text), Some(Owner::this()));
        drop(lock.unwrap());
        assert!(!path.exists());
    }

    #[test]
    fn a_second_opener_is_refused_with_the_owners_pid() {
        let (_dir, path, lock) = lock_over("");
        let error = StorageLock::acquire(&path).unwrap_err().to_string();
        assert_eq!(
            error,
            format!(
                "storage directory is currently in use as read-write by another process: PID {}",
                std::process::id()
            )
        );
        drop(lock);
        StorageLock::acquire(&path).unwrap();
    }

    #[test]
    fn a_live_owner_without_advisory_lock_is_respected() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let owner = Owner {
            pid: child.id(),
            start_time_s: start_time_s(child.id()).unwrap(),
        };
        let (_dir, _path, lock) = lock_over(&owner.text());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(matches!(lock, Err(DbError::InUse { pid }) if pid == owner.pid));
    }

    #[test]
    fn stale_and_foreign_files_are_taken_over() {
        let this = Owner::this();
        let reused = Owner {
            start_time_s: this.start_time_s - 1000,
            ..this
        };
        for text in [
            reused.text(),
            "4194304999\n1".into(),
            "not a lock".into(),
            "12".into(),
        ] {
            let (_dir, path, lock) = lock_over(&text);
            lock.unwrap_or_else(|e| panic!("{text:?}: {e}"));
            drop(path);
        }
    }
}
