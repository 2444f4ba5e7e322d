//! Programs under way beside a test, which end with it.

use crate::{Deadline, wait_for};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::{
    fs,
    io::{BufRead as _, BufReader, Read},
    net::{Ipv4Addr, TcpListener},
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    sync::{
        atomic::{AtomicU16, Ordering},
        mpsc,
    },
    thread,
};

/// The file of a program, or of `examples/NAME`, that cargo builds with the tests.
pub fn built(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let file = test.ancestors().nth(2).unwrap().join(name);
    assert!(
        file.exists(),
        "{} is not built: run cargo test for the whole package",
        file.display()
    );
    file
}

/// How a program ended, and what it said.
#[derive(Debug)]
pub struct Ended {
    /// The exit code; `None` after a signal.
    pub code: Option<i32>,
    /// What it wrote to standard output, as far as it was kept and not read before.
    pub stdout: String,
    /// The same of standard error.
    pub stderr: String,
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// One of a program's two outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pipe {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// A program under way, with what it says kept. It is killed when dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    out: mpsc::Receiver<String>,
    err: mpsc::Receiver<String>,
}

impl Running {
    /// Starts a program; both of its outputs are kept.
    pub fn start(command: &mut Command) -> Self {
        let command = command.stdin(Stdio::null());
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (out, err) = (child.stdout.take(), child.stderr.take());
        Self {
            out: follow(out.unwrap()),
            err: follow(err.unwrap()),
            child,
        }
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The lines of an output, each without its end, up to the one that contains `last`.
    ///
    /// # Panics
    /// When the program ends before it writes such a line, or takes too long.
    pub fn lines_until(&self, pipe: Pipe, last: &str) -> Vec<String> {
        let lines = match pipe {
            Pipe::Out => &self.out,
            Pipe::Err => &self.err,
        };
        let deadline = Deadline::of(last);
        let mut seen: Vec<String> = Vec::new();
        while !seen.last().is_some_and(|line| line.contains(last)) {
            match lines.recv_timeout(deadline.left()) {
                Ok(line) => seen.push(line.trim_end().to_owned()),
                Err(_) => panic!(
                    "no {last:?}: the program ended or hangs: {seen:#?}\n{}",
                    self.err.try_iter().collect::<String>()
                ),
            }
        }
        seen
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        send_signal(self.id(), signal);
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// When it takes too long.
    pub fn end(mut self) -> Ended {
        let deadline = Deadline::of("a program's end");
        let rest = |lines: &mpsc::Receiver<String>| {
            let mut text = String::new();
            // The lines end with the program.
            while let Ok(line) = lines.recv_timeout(deadline.left()) {
                text += &line;
            }
            text
        };
        let (stdout, stderr) = (rest(&self.out), rest(&self.err));
        let status = wait_for("a program's end", || self.child.try_wait().unwrap());
        Ended {
            code: status.code(),
            stdout,
            stderr,
        }
    }

    /// Kills it and waits for its end.
    pub fn kill(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        self.child.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail when it has ended, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The lines of an output as they come, each with its end.
fn follow(pipe: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (lines, kept) = mpsc::channel();
    thread::spawn(move || {
        let mut pipe = BufReader::new(pipe);
        let mut line = Vec::new();
        while pipe.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            let text = String::from_utf8_lossy(&line).into_owned();
            line.clear();
            // Nobody listens any more once the test has ended; the program is not to wait for that.
            let _ = lines.send(text);
        }
    });
    kept
}

/// Sends a signal to one process.
pub fn send_signal(process: u32, signal: Signal) {
    kill(Pid::from_raw(process.try_into().unwrap()), signal).unwrap();
}

/// Whether a process is stopped by a signal.
pub fn is_frozen(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // Its name, in parentheses, may hold anything.
    let fields = stat.rsplit_once(") ").map(|(_, fields)| fields);
    fields.is_some_and(|fields| fields.starts_with('T'))
}

/// As many programs that do nothing but use a CPU. They end when this is dropped.
#[derive(Debug)]
pub struct Hogs(Vec<Child>);

impl Hogs {
    /// Starts them; each is called `sh`.
    pub fn start(count: usize) -> Self {
        let hog = |_| {
            let mut shell = Command::new("sh");
            shell.args(["-c", "while :; do :; done"]).spawn().unwrap()
        };
        Self((0..count).map(hog).collect())
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        for hog in &mut self.0 {
            let _ = hog.kill();
            let _ = hog.wait();
        }
    }
}

/// Ports that [`free_port`] chooses from, at the most.
const PORTS: u16 = 10_000;

/// A port of this machine that nothing listens on and that nobody else is given before it is used: it lies
/// below those that the system gives to whoever asks for any, and each call gives another.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let first_given = range
        .split_whitespace()
        .next()
        .and_then(|port| port.parse().ok());
    let end: u16 = first_given.unwrap_or(32_768);
    let begin = end.saturating_sub(PORTS).max(1024);
    let ports = end - begin;
    // Test programs that run at the same time begin at different places.
    let from = (std::process::id() % u32::from(ports)) as u16;
    for _ in 0..ports {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = begin + (from.wrapping_add(step)) % ports;
        if is_free(port) {
            return port;
        }
    }
    panic!("every port from {begin} to {end} is taken")
}

/// Whether nothing listens on a port of this machine.
pub fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}
