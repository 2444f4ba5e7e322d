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

/// How pid files end.
const PID_SUFFIX: &str = "pid";

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

/// Stops every process that a pid file in a folder names, if it still runs, and removes the files.
///
/// # Errors
/// When a file cannot be removed.
pub fn stop_leftovers(folder: &Path) -> Result<(), EngineError> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let files = entries.map(|entry| entry.path());
    for file in files.filter(|path| path.extension().is_some_and(|end| end == PID_SUFFIX)) {
        stop_leftover(&file)?;
    }
    Ok(())
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
    // Engines that take turns are frozen when their harness is killed, and take no other signal then.
    let _ = killpg(pid, Signal::SIGCONT);
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
    use std::{
        io::Read as _,
        os::unix::process::CommandExt as _,
        process::{Command, Stdio},
    };

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
    fn every_file_of_a_folder_is_looked_at_and_frozen_ones_end_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let told = dir.path().join("told");
        let script = format!(
            "trap 'echo x >> {}; exit 0' TERM; echo; while :; do sleep 0.01; done",
            told.display()
        );
        let mut children: Vec<_> = (1..=3)
            .map(|number| {
                let mut shell = Command::new("sh");
                shell
                    .args(["-c", &script])
                    .process_group(0)
                    .stdout(Stdio::piped());
                let mut child = shell.spawn().unwrap();
                // Its trap is set once it has said something.
                child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
                note_running(&dir.path().join(format!("engine-{number}.pid")), child.id()).unwrap();
                killpg(Pid::from_raw(child.id().cast_signed()), Signal::SIGSTOP).unwrap();
                child
            })
            .collect();
        fs::write(dir.path().join("lock"), "1\n").unwrap();
        // Each is this program's child and stays until it is waited for.
        let ending = thread::spawn(move || {
            for child in &mut children {
                child.wait().unwrap();
            }
        });
        stop_leftovers(dir.path()).unwrap();
        ending.join().unwrap();
        assert_eq!(fs::read_to_string(&told).unwrap(), "x\nx\nx\n");
        let left: Vec<_> = fs::read_dir(dir.path()).unwrap().flatten().collect();
        assert_eq!(left.len(), 2, "{left:?}");
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
