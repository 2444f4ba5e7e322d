//! The command lines of an engine: reth's spelling, which bench-reth shares.
//!
//! Invariant: nothing listens anywhere but on the loopback address, and no peer is contacted.

use super::EngineError;
use crate::sweep::{EngineSpec, Settings};
use std::{
    ffi::OsString,
    net::{Ipv4Addr, TcpListener},
    path::{Path, PathBuf},
    process::Command,
};

/// Chain file of a datadir that bench-reth made.
const CHAIN_FILE: &str = "chain.json";

/// Flags every engine gets: no peers, no chatter, synchronous readiness.
const FIXED_FLAGS: [&str; 21] = [
    "--disable-discovery",
    "--trusted-only",
    "--max-outbound-peers=0",
    "--max-inbound-peers=0",
    "--no-persist-peers",
    "--disable-tx-gossip",
    "--nat=none",
    "--addr=127.0.0.1",
    "--ipcdisable",
    "--http",
    "--http.addr=127.0.0.1",
    "--http.api=eth,net,web3,reth,debug,testing",
    "--ws",
    "--ws.addr=127.0.0.1",
    "--ws.api=eth,reth",
    "--authrpc.addr=127.0.0.1",
    "--debug.startup-sync-state-idle",
    "--engine.accept-execution-requests-hash",
    "--testing.skip-invalid-transactions",
    "--log.file.max-files=0",
    "--color=never",
];

/// The ports of one start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endpoints {
    http: u16,
    ws: u16,
    auth: u16,
    peers: u16,
}

impl Endpoints {
    /// Four ports that are free now.
    ///
    /// # Errors
    /// When the system has none.
    pub fn free() -> Result<Self, EngineError> {
        let bind = || {
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|reason| EngineError::Io {
                action: "find a free port on",
                path: PathBuf::from("127.0.0.1"),
                reason,
            })
        };
        // All four are held until all are known, so that they differ.
        let held = [bind()?, bind()?, bind()?, bind()?];
        let port = |index: usize| held[index].local_addr().map_or(0, |address| address.port());
        Ok(Self {
            http: port(0),
            ws: port(1),
            auth: port(2),
            peers: port(3),
        })
    }

    /// The public HTTP port as an address.
    pub fn http_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.http)
    }

    /// The authenticated port as an address.
    pub fn auth_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.auth)
    }

    /// The public WebSocket port as an address.
    pub fn ws_url(&self) -> String {
        format!("ws://127.0.0.1:{}", self.ws)
    }
}

/// Everything one start of an engine needs.
#[derive(Debug, Clone)]
pub struct Launch<'a> {
    /// Which engine.
    pub engine: &'a EngineSpec,
    /// Its datadir.
    pub datadir: &'a Path,
    /// File with the secret of the authenticated port.
    pub jwt_file: &'a Path,
    /// Flags of the cell, without dashes.
    pub flags: &'a [(String, String)],
    /// Flags of the sweep, for example the persistence threshold; a cell's flag wins.
    pub defaults: Vec<(String, String)>,
    /// Where its output goes.
    pub log: PathBuf,
    /// Where its pid is kept while it runs.
    pub pid_file: &'a Path,
}

/// Flags that every start of a sweep shares.
pub(crate) fn shared_flags(settings: &Settings) -> Vec<(String, String)> {
    vec![
        (
            "engine.persistence-threshold".into(),
            settings.persistence_threshold.to_string(),
        ),
        ("engine.memory-block-buffer-target".into(), "0".into()),
    ]
}

impl Launch<'_> {
    /// The command that runs the node on these ports.
    pub fn command(&self, endpoints: &Endpoints) -> Command {
        let mut command = Command::new(&self.engine.program);
        command
            .arg("node")
            .args(datadir_flags(self.datadir))
            .args(FIXED_FLAGS);
        for (flag, port) in [
            ("--http.port", endpoints.http),
            ("--ws.port", endpoints.ws),
            ("--authrpc.port", endpoints.auth),
            ("--port", endpoints.peers),
        ] {
            command.arg(format!("{flag}={port}"));
        }
        command.arg("--authrpc.jwtsecret").arg(self.jwt_file);
        let overridden = |flag: &str| self.flags.iter().any(|(other, _)| other == flag);
        let defaults = self.defaults.iter().filter(|(flag, _)| !overridden(flag));
        for (flag, value) in defaults.chain(self.flags) {
            command.arg(format!("--{flag}={value}"));
        }
        command
            .env("RUST_LOG_STYLE", "never")
            .env("RUST_BACKTRACE", "1");
        command
    }
}

/// The command with which the embedded engine writes a generated state into an empty folder.
pub fn init_command(engine: &EngineSpec, profile: &str, seed: u64, datadir: &Path) -> Command {
    let mut command = Command::new(&engine.program);
    command.args(["bench-reth", "init", "--profile", profile, "--seed"]);
    command.arg(seed.to_string()).arg("--datadir").arg(datadir);
    command
}

/// The command that brings a datadir back to block `target`, which stays.
pub fn unwind_command(engine: &EngineSpec, datadir: &Path, target: u64) -> Command {
    let mut command = Command::new(&engine.program);
    command
        .args(["stage", "unwind"])
        .args(datadir_flags(datadir));
    command.arg("to-block").arg(target.to_string());
    command.env("RUST_LOG_STYLE", "never");
    command
}

/// Where the state is, and whose: a datadir without a chain file is of the engine's own chain.
fn datadir_flags(datadir: &Path) -> Vec<OsString> {
    let mut flags = vec!["--datadir".into(), datadir.into()];
    let chain = datadir.join(CHAIN_FILE);
    if chain.exists() {
        flags.extend(["--chain".into(), chain.into()]);
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_of_the_cell_replaces_the_shared_one() {
        let engine = EngineSpec {
            name: "e".into(),
            program: "/e".into(),
        };
        let flags = [("a.b".to_owned(), "7".to_owned())];
        let launch = Launch {
            engine: &engine,
            datadir: Path::new("/d"),
            jwt_file: Path::new("/jwt"),
            flags: &flags,
            defaults: vec![("a.b".into(), "1".into()), ("c".into(), "2".into())],
            log: "/log".into(),
            pid_file: Path::new("/pid"),
        };
        let command = launch.command(&Endpoints {
            http: 1,
            ws: 2,
            auth: 3,
            peers: 4,
        });
        let words: Vec<_> = command
            .get_args()
            .map(|arg| arg.to_string_lossy())
            .collect();
        insta::assert_snapshot!(words.join(" "));
    }

    #[test]
    fn ports_differ() {
        let Endpoints {
            http,
            ws,
            auth,
            peers,
        } = Endpoints::free().unwrap();
        let ports = std::collections::BTreeSet::from([http, ws, auth, peers]);
        assert_eq!(ports.len(), 4);
    }
}
