//! Processes of an engine: the node, and its commands that run to an end.
//!
//! Invariant: a started process is signalled by its own pid or group only, and the value that
//! stands for it does not go away before the process has.

use super::{EngineError, Launch, LogTail, adapter, command::Endpoints, leftover::PidFile};
use crate::sweep::EngineKind;
use nix::{
    sys::signal::{Signal, kill, killpg},
    unistd::Pid,
};
use serde_json::Value;
use std::{
    fs::{self, File},
    io,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

/// How long an engine may take to write what it has in memory and stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(60);

/// Pause between two looks at a process that is to end.
const POLL: Duration = Duration::from_millis(5);

/// A running node. Dropping it stops it.
#[derive(Debug)]
pub struct Engine {
    group: Group,
    endpoints: Endpoints,
    kind: EngineKind,
}

impl Engine {
    /// Starts the node on free ports; its output goes to a new log.
    ///
    /// # Errors
    /// When the program cannot be started or its files cannot be written.
    pub fn start(launch: &Launch<'_>) -> Result<Self, EngineError> {
        let endpoints = Endpoints::free()?;
        let command = launch.command(&endpoints)?;
        let group = Group::spawn(command, &launch.log, Some(launch.pid_file))?;
        Ok(Self {
            group,
            endpoints,
            kind: launch.engine.kind,
        })
    }

    /// Whether an answer of `eth_syncing` means that it is fetching blocks.
    pub(super) fn is_syncing(&self, answer: &Value) -> bool {
        adapter::of(self.kind).is_syncing(answer)
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.group.child.id()
    }

    /// Where it listens.
    pub fn endpoints(&self) -> &Endpoints {
        &self.endpoints
    }

    /// Fails with the end of the log when the process has ended.
    ///
    /// # Errors
    /// [`EngineError::Died`].
    pub fn check_alive(&mut self) -> Result<(), EngineError> {
        match self.group.exited() {
            None => Ok(()),
            Some(status) => Err(EngineError::Died {
                status: status.to_string(),
                log: self.log_tail(),
            }),
        }
    }

    /// Stops all its processes where they are, until [`Self::thaw`]; it answers nothing meanwhile.
    pub fn freeze(&self) {
        self.group.signal_all(Signal::SIGSTOP);
    }

    /// Lets a frozen engine go on.
    pub fn thaw(&self) {
        self.group.signal_all(Signal::SIGCONT);
    }

    /// The end of its log.
    pub fn log_tail(&self) -> LogTail {
        LogTail::of(&self.group.log)
    }

    /// Stops it: SIGTERM, and SIGKILL to its group when that takes more than a minute.
    ///
    /// # Errors
    /// [`EngineError::Died`] when it had ended before, [`EngineError::Killed`] when it had to be
    /// killed: blocks in its memory may be lost.
    pub fn stop(mut self) -> Result<(), EngineError> {
        self.check_alive()?;
        if self.group.terminate(STOP_TIMEOUT) {
            return Ok(());
        }
        Err(EngineError::Killed {
            waited: STOP_TIMEOUT,
            log: self.log_tail(),
        })
    }
}

/// What a program prints about itself; nothing when it cannot be run.
pub(crate) fn output_of(program: &Path, words: &[&str]) -> String {
    let run = Command::new(program)
        .args(words)
        .stdin(Stdio::null())
        .output();
    run.map(|run| String::from_utf8_lossy(&run.stdout).into_owned())
        .unwrap_or_default()
}

/// How a command of the engine is to be run.
#[derive(Debug)]
pub struct ToolRun<'a> {
    /// The command.
    pub command: Command,
    /// Where its output goes.
    pub log: &'a Path,
    /// Where its pid is kept while it runs.
    pub pid_file: &'a Path,
}

/// Runs a command of the engine to its end. Dropping the future stops the command.
///
/// # Errors
/// When it cannot be started or does not end with success.
pub async fn run_tool(run: ToolRun<'_>) -> Result<(), EngineError> {
    let text = typed(&run.command);
    let mut group = Group::spawn(run.command, run.log, Some(run.pid_file))?;
    let status = loop {
        if let Some(status) = group.exited() {
            break status;
        }
        tokio::time::sleep(POLL).await;
    };
    if status.success() {
        return Ok(());
    }
    let log = LogTail::of(run.log);
    Err(EngineError::Command {
        command: text,
        status: status.to_string(),
        log,
    })
}

/// A command as a person would type it.
fn typed(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    words.join(" ")
}

/// A child process that leads its own group.
#[derive(Debug)]
struct Group {
    child: Child,
    log: PathBuf,
    status: Option<ExitStatus>,
    pid_file: Option<PidFile>,
}

impl Group {
    fn spawn(
        mut command: Command,
        log: &Path,
        pid_file: Option<&Path>,
    ) -> Result<Self, EngineError> {
        let output = open_log(log)?;
        let duplicate = output.0.try_clone().map_err(|reason| output.1(reason))?;
        command
            .stdin(Stdio::null())
            .stdout(output.0)
            .stderr(duplicate)
            .process_group(0);
        die_with_parent(&mut command);
        let child = command.spawn().map_err(|reason| EngineError::Io {
            action: "start",
            path: PathBuf::from(command.get_program()),
            reason,
        })?;
        let mut group = Self {
            child,
            log: log.to_owned(),
            status: None,
            pid_file: None,
        };
        // Written after the start; dropping `group` on failure stops the process again.
        group.pid_file = pid_file
            .map(|path| PidFile::write(path, group.child.id()))
            .transpose()?;
        Ok(group)
    }

    fn exited(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            self.status = self.child.try_wait().ok().flatten();
        }
        self.status
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id().cast_signed())
    }

    /// Signals every process of the group. An error means that all have ended.
    fn signal_all(&self, signal: Signal) {
        if self.status.is_none() {
            let _ = killpg(self.pid(), signal);
        }
    }

    /// Ends the process, also a frozen one; whether it went by itself within `patience` of SIGTERM.
    fn terminate(&mut self, patience: Duration) -> bool {
        if self.exited().is_none() {
            // An error means that it has just ended, which the loop below finds out.
            let _ = kill(self.pid(), Signal::SIGTERM);
            // One that is frozen takes no other signal before it goes on.
            self.signal_all(Signal::SIGCONT);
        }
        let deadline = Instant::now() + patience;
        while self.exited().is_none() && Instant::now() < deadline {
            thread::sleep(POLL);
        }
        let gone = self.exited().is_some();
        // Also after an orderly end: a helper of the engine must not outlive it.
        let _ = killpg(self.pid(), Signal::SIGKILL);
        if !gone {
            self.status = self.child.wait().ok();
        }
        gone
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.terminate(STOP_TIMEOUT);
    }
}

/// A new log file and the error that talks about it.
fn open_log(log: &Path) -> Result<(File, impl Fn(io::Error) -> EngineError), EngineError> {
    let failed = {
        let path = log.to_owned();
        move |reason| EngineError::Io {
            action: "write",
            path: path.clone(),
            reason,
        }
    };
    if let Some(parent) = log.parent() {
        fs::create_dir_all(parent).map_err(&failed)?;
    }
    let file = File::create(log).map_err(&failed)?;
    Ok((file, failed))
}

/// Asks the kernel to kill the process when the thread that started it, this program's main one,
/// ends for whatever reason.
fn die_with_parent(command: &mut Command) {
    let hook = || nix::sys::prctl::set_pdeathsig(Signal::SIGKILL).map_err(io::Error::from);
    // SAFETY: between fork and exec the hook makes one prctl call, which is async-signal-safe and
    // neither allocates nor takes a lock.
    unsafe {
        command.pre_exec(hook);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spawn(script: &str, dir: &Path) -> Group {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Group::spawn(command, &dir.join("log"), Some(&dir.join("pid"))).unwrap()
    }

    fn alive(pid: Pid) -> bool {
        kill(pid, None).is_ok()
    }

    #[test]
    fn one_that_ignores_sigterm_is_killed_with_its_children() {
        let dir = tempfile::tempdir().unwrap();
        let mut group = spawn("trap '' TERM; sleep 600 & echo $!; wait; wait", dir.path());
        let child = loop {
            let log = fs::read_to_string(dir.path().join("log")).unwrap();
            if let Some(line) = log.strip_suffix('\n') {
                break Pid::from_raw(line.parse().unwrap());
            }
            thread::sleep(POLL);
        };
        assert!(alive(child));
        assert!(!group.terminate(Duration::from_millis(50)));
        // The orphan is reaped by init some time after it was killed.
        while fs::read_to_string(format!("/proc/{child}/stat"))
            .is_ok_and(|stat| !stat.contains(") Z "))
        {
            thread::sleep(POLL);
        }
        drop(group);
        assert!(!dir.path().join("pid").exists());
    }

    #[test]
    fn dropping_one_ends_it() {
        let dir = tempfile::tempdir().unwrap();
        let group = spawn("exec sleep 600", dir.path());
        let pid = group.pid();
        assert!(alive(pid));
        drop(group);
        assert!(!alive(pid));
    }

    /// The state of a process, as `/proc` names it by a letter.
    fn state(pid: Pid) -> Option<char> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(") ")?.1.chars().next()
    }

    #[test]
    fn a_frozen_one_goes_on_when_it_is_told_and_ends_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let script = "trap 'echo ended; exit 0' TERM; sleep 600 & echo $!; wait";
        let mut group = spawn(script, dir.path());
        let log = || fs::read_to_string(dir.path().join("log")).unwrap();
        let child = loop {
            if let Some(line) = log().strip_suffix('\n') {
                break Pid::from_raw(line.parse().unwrap());
            }
            thread::sleep(POLL);
        };
        let both_are = |stopped: bool| loop {
            let states = [group.pid(), child].map(|pid| state(pid) == Some('T'));
            if states == [stopped; 2] {
                break;
            }
            thread::sleep(POLL);
        };
        group.signal_all(Signal::SIGSTOP);
        both_are(true);
        group.signal_all(Signal::SIGCONT);
        both_are(false);
        group.signal_all(Signal::SIGSTOP);
        both_are(true);
        assert!(group.terminate(STOP_TIMEOUT), "by itself");
        assert!(log().ends_with("ended\n"), "{}", log());
    }
}
