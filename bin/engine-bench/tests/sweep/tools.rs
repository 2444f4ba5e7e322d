//! Programs of others that tests run beside ours: where they are, and running them for a while.

use std::{
    io::{Read as _, Write as _},
    net::{Ipv4Addr, TcpListener, TcpStream},
    process::{Child, Command, Stdio},
};

/// The program that a variable names, else the one on the PATH; nothing when this machine has none and
/// need not.
pub(crate) fn find(program: &str, variable: &str) -> Option<String> {
    let named = std::env::var(variable).ok();
    let found = named.or_else(|| {
        let answered = Command::new(program).arg("--version").output();
        answered.is_ok().then(|| program.to_owned())
    });
    let in_ci = std::env::var("CI").is_ok_and(|value| value == "true" || value == "1");
    assert!(
        found.is_some() || !in_ci,
        "nothing is skipped in CI: no {program} on the PATH and {variable} is not set"
    );
    if found.is_none() {
        eprintln!(
            "SKIPPED: no {program} on the PATH and {variable} is not set; cargo xtask test sets it"
        );
    }
    found
}

/// A port of this machine that nothing listens on now.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap().port()
}

/// The body of a successful answer: as much of HTTP as talking to programs on this machine takes.
pub(crate) fn get(port: u16, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let is_ok = head.lines().next()?.contains(" 200");
    is_ok.then(|| body.to_owned())
}

/// A program that runs until this is dropped.
pub(crate) struct Beside(Child);

impl Beside {
    pub(crate) fn start(command: &mut Command) -> Self {
        let command = command.stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().unwrap())
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        // Both fail when it has ended, which is what is wanted.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
