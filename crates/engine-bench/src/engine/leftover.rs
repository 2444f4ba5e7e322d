//! Engines of an earlier run that is gone: found by pid file, stopped before anything else.
//!
//! Invariant: a process is signalled only when both its pid and its start time are those that we
//! wrote down, since pids are used again; a file goes only when its process has.

use super::process::{STOP_TIMEOUT, Stopped, end, stuck};
use crate::{files::failed, owner::Owner};
use eyre::Result;
use nix::unistd::Pid;
use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

/// How pid files end.
const PID_SUFFIX: &str = "pid";

/// The file that names a process we started; removed when dropped.
#[derive(Debug)]
pub(super) struct PidFile(PathBuf);

impl PidFile {
    pub(super) fn write(path: &Path, pid: u32) -> Result<Self> {
        let owner = Owner::running(pid).unwrap_or(Owner { pid, start_time: 0 });
        let json = serde_json::to_vec(&owner).map_err(io::Error::from);
        let written = json.and_then(|json| fs::write(path, json));
        written.map_err(failed("write", path))?;
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
pub fn note_running(pid_file: &Path, pid: u32) -> Result<()> {
    std::mem::forget(PidFile::write(pid_file, pid)?);
    Ok(())
}

/// Whether the process that a pid file names still runs.
pub fn is_running(pid_file: &Path) -> bool {
    Owner::of_file(pid_file).is_some()
}

/// Stops every process that a pid file in a folder names, if it still runs, and removes the files.
///
/// # Errors
/// When a process does not end or a file cannot be removed.
pub fn stop_leftovers(folder: &Path) -> Result<()> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let files = entries.map(|entry| entry.path());
    for file in files.filter(|path| path.extension().is_some_and(|end| end == PID_SUFFIX)) {
        stop_leftover(&file)?;
    }
    Ok(())
}

/// Stops the process that a pid file names, if it still runs, waits until it has ended, and removes the file.
///
/// Whether there was one.
///
/// # Errors
/// When it does not end or the file cannot be removed.
pub fn stop_leftover(pid_file: &Path) -> Result<bool> {
    if !pid_file.exists() {
        return Ok(false);
    }
    let running = Owner::of_file(pid_file);
    if let Some(owner) = running {
        stop(owner, STOP_TIMEOUT)?;
    }
    fs::remove_file(pid_file).map_err(failed("remove", pid_file))?;
    Ok(running.is_some())
}

/// Ends a process, by force when it does not go within `patience` of being asked to.
fn stop(owner: Owner, patience: Duration) -> Result<()> {
    let pid = Pid::from_raw(owner.pid.cast_signed());
    // Until its last thread is gone it holds its database.
    match end(pid, patience, || !owner.is_running()) {
        Stopped::Stuck => Err(stuck(pid)),
        Stopped::InTime | Stopped::Killed => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::signal::{Signal, killpg};
    use std::{
        io::Read as _,
        os::unix::process::CommandExt as _,
        process::{Child, Command, Stdio},
        thread,
    };

    /// A script in a group of its own, once it has said something: then its traps are set.
    fn started(script: &str) -> Child {
        let mut shell = Command::new("sh");
        shell.args(["-c", script]).process_group(0);
        let mut child = shell.stdout(Stdio::piped()).spawn().unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        child
    }

    #[test]
    fn stops_what_the_file_names_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pid");
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        note_running(&path, child.id()).unwrap();
        let mut other = Owner::of_file(&path).unwrap();

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
    fn one_that_must_be_killed_is_waited_for() {
        let mut child = started("trap '' TERM; echo; while :; do sleep 0.01; done");
        let owner = Owner::running(child.id()).unwrap();
        stop(owner, Duration::from_millis(50)).unwrap();
        assert!(!owner.is_running(), "it may still hold its database");
        child.wait().unwrap();
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
                let child = started(&script);
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
