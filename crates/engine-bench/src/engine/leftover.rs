//! Engines of an earlier run that is gone: found by pid file, stopped before anything else.
//!
//! Invariant: a process is signalled only when both its pid and its start time are those that we
//! wrote down, since pids are used again.

use super::EngineError;
use nix::{
    sys::signal::{Signal, kill, killpg},
    unistd::Pid,
};
use serde::{Deserialize, Serialize};
use std::{
    fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

/// How long a leftover may take to stop before it is killed.
const STOP_TIMEOUT: Duration = Duration::from_secs(60);

/// Pause between two looks at a process that is to end.
const POLL: Duration = Duration::from_millis(5);

/// Identity of a process: a pid alone may have been reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Owner {
    pid: u32,
    /// Clock ticks since boot (field 22 of `/proc/<pid>/stat`).
    start_time: u64,
}

impl Owner {
    /// The running process of that pid; `None` when there is none or it is only waited for.
    fn running(pid: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The command name in parentheses may hold anything, so fields count from its end.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        let state = fields.next()?;
        let start_time = fields.nth(18)?.parse().ok()?;
        (state != "Z").then_some(Self { pid, start_time })
    }

    fn is_running(self) -> bool {
        Self::running(self.pid) == Some(self)
    }
}

/// The file that names a process we started; removed when dropped.
#[derive(Debug)]
pub(super) struct PidFile(PathBuf);

impl PidFile {
    pub(super) fn write(path: &Path, pid: u32) -> Result<Self, EngineError> {
        let owner = Owner::running(pid).unwrap_or(Owner { pid, start_time: 0 });
        let failed = |reason| EngineError::Io {
            action: "write",
            path: path.to_owned(),
            reason,
        };
        let json = serde_json::to_vec(&owner).map_err(|error| failed(error.into()))?;
        fs::write(path, json).map_err(failed)?;
        Ok(Self(path.to_owned()))
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        // Were it to stay, the next run finds that no such process exists.
        let _ = fs::remove_file(&self.0);
    }
}

/// Writes the file that names a process which outlives this program.
///
/// # Errors
/// When it cannot be written.
pub fn note_running(pid_file: &Path, pid: u32) -> Result<(), EngineError> {
    std::mem::forget(PidFile::write(pid_file, pid)?);
    Ok(())
}

/// Whether the process that a pid file names still runs.
pub fn is_running(pid_file: &Path) -> bool {
    let owner = fs::read(pid_file).ok();
    let owner: Option<Owner> = owner.and_then(|json| serde_json::from_slice(&json).ok());
    owner.is_some_and(Owner::is_running)
}

/// Stops the process that a pid file names, if it still runs, and removes the file.
///
/// Whether there was one.
///
/// # Errors
/// When the file cannot be removed.
pub fn stop_leftover(pid_file: &Path) -> Result<bool, EngineError> {
    let Ok(json) = fs::read(pid_file) else {
        return Ok(false);
    };
    let owner: Option<Owner> = serde_json::from_slice(&json).ok();
    let running = owner.filter(|owner| owner.is_running());
    if let Some(owner) = running {
        stop(owner);
    }
    fs::remove_file(pid_file).map_err(|reason| EngineError::Io {
        action: "remove",
        path: pid_file.to_owned(),
        reason,
    })?;
    Ok(running.is_some())
}

fn stop(owner: Owner) {
    let pid = Pid::from_raw(owner.pid.cast_signed());
    // An error means that it has just ended.
    let _ = kill(pid, Signal::SIGTERM);
    let deadline = Instant::now() + STOP_TIMEOUT;
    while owner.is_running() && Instant::now() < deadline {
        thread::sleep(POLL);
    }
    if owner.is_running() {
        let _ = killpg(pid, Signal::SIGKILL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn stops_what_the_file_names_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pid");
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        std::mem::forget(PidFile::write(&path, child.id()).unwrap());
        let mut other = Owner::running(child.id()).unwrap();

        other.start_time += 1;
        fs::write(&path, serde_json::to_vec(&other).unwrap()).unwrap();
        assert!(
            !stop_leftover(&path).unwrap(),
            "a reused pid is another process"
        );
        assert_eq!(child.try_wait().unwrap(), None);

        note_running(&path, child.id()).unwrap();
        assert!(is_running(&path));
        assert!(stop_leftover(&path).unwrap());
        assert!(!is_running(&path));
        assert!(!child.wait().unwrap().success());
        assert!(!path.exists());
        assert!(!stop_leftover(&path).unwrap());
    }

    #[test]
    fn an_unreadable_file_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pid");
        fs::write(&path, "{").unwrap();
        assert!(!stop_leftover(&path).unwrap());
        assert!(!path.exists());
    }
}
