//! Processes of an engine: the node, and its commands that run to an end.
//!
//! Invariant: a started process is signalled by its own pid or group only, as long as nobody else can
//! have that number: until it was waited for. What stands for it goes away after the whole group has,
//! so that nothing holds its files any more.

use super::{Launch, adapter, command::Endpoints, end_of_log, leftover::PidFile, variables};
use crate::{
    client::{ClientError, Node},
    files::failed,
    sweep::EngineKind,
};
use engine_api::JwtSecret;
use eyre::{Report, Result, bail, eyre};
use nix::{
    errno::Errno,
    sys::{
        prctl,
        signal::{Signal, kill, killpg},
        wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid},
    },
    unistd::Pid,
};
use serde_json::Value;
use std::{
    fs::{self, File},
    io::{self, Read as _, Seek as _},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

/// How long an engine may take to write what it has in memory and stop.
pub(super) const STOP_TIMEOUT: Duration = Duration::from_secs(60);

/// How long the kernel may take to end a process that was killed: it frees its memory, and waits for its disk.
const KILL_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a program may take to say what it is.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

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
    pub fn start(launch: &Launch<'_>) -> Result<Self> {
        let endpoints = Endpoints::free()?;
        let command = launch.command(&endpoints)?;
        let group = Group::spawn(command, &launch.log, launch.pid_file)?;
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
    /// When it has.
    pub fn check_alive(&mut self) -> Result<()> {
        let Some(status) = self.group.exited() else {
            return Ok(());
        };
        let log = self.end_of_log();
        bail!("the engine ended by itself ({status}); {log}")
    }

    /// Stops all its processes where they are, until [`Self::thaw`]; it answers nothing meanwhile.
    pub fn freeze(&self) {
        self.group.signal_all(Signal::SIGSTOP);
    }

    /// Lets a frozen engine go on.
    pub fn thaw(&self) {
        self.group.signal_all(Signal::SIGCONT);
    }

    /// Clients of its ports.
    ///
    /// # Errors
    /// When an address is not usable.
    pub fn node(&self, secret: &JwtSecret, timeout: Duration) -> Result<Node, ClientError> {
        let Endpoints { auth, http, .. } = self.endpoints;
        let [auth, http] = [auth, http].map(|port| format!("http://127.0.0.1:{port}"));
        Node::connect(&auth, &http, secret, timeout)
    }

    /// The end of its log, as errors quote it.
    pub(super) fn end_of_log(&self) -> String {
        end_of_log(&self.group.log, false)
    }

    /// Stops it: SIGTERM, and SIGKILL to its group when that takes more than a minute. It has ended then.
    ///
    /// # Errors
    /// When it had ended before; when it had to be killed, since blocks in its memory may be lost; and when
    /// even that did not end it.
    pub fn stop(mut self) -> Result<()> {
        self.check_alive()?;
        match self.group.terminate(STOP_TIMEOUT) {
            Stopped::InTime => Ok(()),
            Stopped::Killed => {
                let log = self.end_of_log();
                bail!(
                    "the engine did not stop within {STOP_TIMEOUT:?} of SIGTERM and was killed: {log}"
                )
            }
            Stopped::Stuck => Err(stuck(self.group.pid())),
        }
    }
}

/// That killing an engine did not end it.
pub(super) fn stuck(pid: Pid) -> Report {
    eyre!(
        "process {pid} of the engine has not ended {KILL_TIMEOUT:?} after SIGKILL and still holds its datadir; \
         wait until it has (a disk may be slow to answer), then resume"
    )
}

/// What a program said before it ended.
pub(crate) struct Answer {
    pub(crate) output: String,
    pub(super) errors: String,
    pub(super) succeeded: bool,
}

/// Asks a program about itself.
///
/// # Errors
/// When it cannot be run, or does not end in time: it may be no engine.
pub(crate) fn answer_of(program: &Path, words: &[&str]) -> io::Result<Answer> {
    // A pipe would fill up before anybody reads it.
    let mut files = [tempfile::tempfile()?, tempfile::tempfile()?];
    let mut command = variables::command(program);
    command.args(words).stdout(files[0].try_clone()?);
    let mut group = Group::start(command.stderr(files[1].try_clone()?))?;
    holds_within(ANSWER_TIMEOUT, &mut || group.exited().is_some());
    let Some(status) = group.exited() else {
        let words = words.join(" ");
        let late = format!("it did not answer {words} within {ANSWER_TIMEOUT:?}");
        return Err(io::Error::new(io::ErrorKind::TimedOut, late));
    };
    let mut said = Vec::new();
    for file in &mut files {
        file.rewind()?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        said.push(String::from_utf8_lossy(&text).into_owned());
    }
    let [output, errors] = said.try_into().unwrap_or_default();
    Ok(Answer {
        output,
        errors,
        succeeded: status.success(),
    })
}

/// Runs a command of the engine to its end; `log` gets its output, and `pid_file` holds its pid meanwhile. Dropping
/// the future stops the command.
///
/// # Errors
/// When it cannot be started or does not end with success.
pub async fn run_tool(command: Command, log: &Path, pid_file: &Path) -> Result<()> {
    let text = typed(&command);
    let mut group = Group::spawn(command, log, pid_file)?;
    // However long it takes: that depends on the database, and whoever waits may give up.
    let status = loop {
        if let Some(status) = group.exited() {
            break status;
        }
        tokio::time::sleep(POLL).await;
    };
    if status.success() {
        return Ok(());
    }
    bail!("`{text}` ended with {status}: {}", end_of_log(log, true))
}

/// A command as a person would type it.
fn typed(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    words.join(" ")
}

/// How a process ended that was asked to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stopped {
    InTime,
    Killed,
    /// It did not, although it was killed.
    Stuck,
}

/// Ends the leader of a group, also a frozen one; its group by force when it is not gone within `patience` of
/// SIGTERM. An error of a signal means that the process has just ended, which is found out.
pub(super) fn end(pid: Pid, patience: Duration, mut has_ended: impl FnMut() -> bool) -> Stopped {
    if !has_ended() {
        let _ = kill(pid, Signal::SIGTERM);
        // One that is frozen takes no other signal before it goes on.
        let _ = killpg(pid, Signal::SIGCONT);
    }
    if holds_within(patience, &mut has_ended) {
        return Stopped::InTime;
    }
    let _ = killpg(pid, Signal::SIGKILL);
    if holds_within(KILL_TIMEOUT, &mut has_ended) {
        Stopped::Killed
    } else {
        Stopped::Stuck
    }
}

/// Whether a condition holds within that time.
fn holds_within(patience: Duration, holds: &mut dyn FnMut() -> bool) -> bool {
    let deadline = Instant::now() + patience;
    while !holds() {
        if Instant::now() >= deadline {
            return false;
        }
        thread::sleep(POLL);
    }
    true
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
    fn spawn(mut command: Command, log: &Path, pid_file: &Path) -> Result<Self> {
        let output = open_log(log).map_err(failed("write", log))?;
        command.stdout(output.0).stderr(output.1);
        let started = Self::start(&mut command);
        let program = Path::new(command.get_program());
        let mut group = started.map_err(failed("start", program))?;
        group.log = log.to_owned();
        // Written after the start; dropping `group` on failure stops the process again.
        group.pid_file = Some(PidFile::write(pid_file, group.child.id())?);
        Ok(group)
    }

    fn start(command: &mut Command) -> io::Result<Self> {
        // What an engine started and left is this program's to wait for; where that cannot be had, init's.
        let _ = prctl::set_child_subreaper(true);
        die_with_parent(command);
        let child = command.stdin(Stdio::null()).process_group(0).spawn()?;
        Ok(Self {
            child,
            log: PathBuf::new(),
            status: None,
            pid_file: None,
        })
    }

    /// How it ended, once it has; its group has then, too.
    fn exited(&mut self) -> Option<ExitStatus> {
        let id = Id::Pid(self.pid());
        let look = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        let has_ended = || waitid(id, look).is_ok_and(|found| found != WaitStatus::StillAlive);
        if self.status.is_none() && has_ended() {
            // A helper of the engine must not outlive it. Its number is the group's until it is waited for.
            self.signal_all(Signal::SIGKILL);
            self.status = self.child.wait().ok();
            self.reap_members();
        }
        self.status
    }

    /// Waits for those of the group that its leader left, which were killed.
    fn reap_members(&self) {
        let members = Pid::from_raw(-self.pid().as_raw());
        let deadline = Instant::now() + KILL_TIMEOUT;
        while Instant::now() < deadline {
            match waitpid(members, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::StillAlive) => thread::sleep(POLL),
                Ok(_) | Err(Errno::EINTR) => {}
                Err(_) => return,
            }
        }
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id().cast_signed())
    }

    /// Signals every process of the group, unless its number may be another's by now. An error means that
    /// all have ended.
    fn signal_all(&self, signal: Signal) {
        if self.status.is_none() {
            let _ = killpg(self.pid(), signal);
        }
    }

    /// Ends the process; by force when it is not gone within `patience` of SIGTERM.
    fn terminate(&mut self, patience: Duration) -> Stopped {
        end(self.pid(), patience, || self.exited().is_some())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.terminate(STOP_TIMEOUT) == Stopped::Stuck {
            // Whoever wants the datadir next finds that it is still used.
            std::mem::forget(self.pid_file.take());
        }
    }
}

/// A new log file, for both outputs.
fn open_log(log: &Path) -> io::Result<(File, File)> {
    if let Some(parent) = log.parent() {
        fs::create_dir_all(parent)?;
    }
    let file = File::create(log)?;
    Ok((file.try_clone()?, file))
}

/// Asks the kernel to kill the process when the thread that started it, this program's main one,
/// ends for whatever reason.
fn die_with_parent(command: &mut Command) {
    let hook = || prctl::set_pdeathsig(Signal::SIGKILL).map_err(io::Error::from);
    // SAFETY: between fork and exec the hook makes one prctl call, which is async-signal-safe and
    // neither allocates nor takes a lock.
    unsafe {
        command.pre_exec(hook);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::{wait_for, wait_until};

    fn spawn(script: &str, dir: &Path) -> Group {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Group::spawn(command, &dir.join("log"), &dir.join("pid")).unwrap()
    }

    fn alive(pid: Pid) -> bool {
        kill(pid, None).is_ok()
    }

    /// The pid that a script wrote into the log, as its first line.
    fn told(dir: &Path) -> Pid {
        wait_for("a line in the log", || {
            let log = fs::read_to_string(dir.join("log")).unwrap();
            Some(Pid::from_raw(log.strip_suffix('\n')?.parse().unwrap()))
        })
    }

    #[test]
    fn one_that_ignores_sigterm_is_killed_with_its_children() {
        let dir = tempfile::tempdir().unwrap();
        let mut group = spawn("trap '' TERM; sleep 600 & echo $!; wait; wait", dir.path());
        let child = told(dir.path());
        assert!(alive(child));
        assert_eq!(group.terminate(Duration::from_millis(50)), Stopped::Killed);
        assert!(!alive(child) && !alive(group.pid()));
        drop(group);
        assert!(!dir.path().join("pid").exists());
    }

    #[test]
    fn what_one_that_ended_leaves_is_gone_when_that_is_known() {
        let dir = tempfile::tempdir().unwrap();
        let mut group = spawn("sleep 600 & echo $!", dir.path());
        let status = wait_for("the end", || group.exited());
        assert!(status.success() && !alive(told(dir.path())));
    }

    #[test]
    fn a_number_that_may_be_anothers_is_not_signalled() {
        let dir = tempfile::tempdir().unwrap();
        let mut group = spawn("exit 0", dir.path());
        wait_for("the end", || group.exited());
        // Another group gets the number, as far as this one can tell.
        let mut other = Command::new("sleep").arg("600").process_group(0).spawn();
        std::mem::swap(&mut group.child, other.as_mut().unwrap());
        let pid = group.pid();
        assert_eq!(group.terminate(STOP_TIMEOUT), Stopped::InTime);
        drop(group);
        kill(pid, Signal::SIGUSR1).unwrap();
        let ended = waitpid(pid, None).unwrap();
        assert_eq!(ended, WaitStatus::Signaled(pid, Signal::SIGUSR1, false));
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
        let child = told(dir.path());
        let both_are = |stopped: bool| {
            wait_until("both to stop or go on", || {
                [group.pid(), child].map(|pid| state(pid) == Some('T')) == [stopped; 2]
            });
        };
        group.signal_all(Signal::SIGSTOP);
        both_are(true);
        group.signal_all(Signal::SIGCONT);
        both_are(false);
        group.signal_all(Signal::SIGSTOP);
        both_are(true);
        assert_eq!(group.terminate(STOP_TIMEOUT), Stopped::InTime);
        let log = fs::read_to_string(dir.path().join("log")).unwrap();
        assert!(log.ends_with("ended\n"), "{log}");
    }
}
