//! The command line of a start: the engine's own part, then the flags of sweep and cell.
//!
//! Invariant: a flag is given once; the cell's value wins.

use super::{adapter, variables};
use crate::files::failed;
use crate::sweep::{EngineSpec, SWITCH_OFF, SWITCH_ON, VARIABLE_PREFIX};
use eyre::Result;
use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::Command,
};

/// The ports of one start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endpoints {
    pub(super) http: u16,
    pub(super) ws: u16,
    pub(super) auth: u16,
    pub(super) peers: u16,
    pub(super) metrics: u16,
}

impl Endpoints {
    /// Five ports that are free now.
    ///
    /// # Errors
    /// When the system has none.
    pub fn free() -> Result<Self> {
        let bind = || {
            let failed = failed("find a free port on", Path::new("127.0.0.1"));
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)
        };
        // All are held until all are known, so that they differ.
        let held = [bind()?, bind()?, bind()?, bind()?, bind()?];
        let port = |index: usize| held[index].local_addr().map_or(0, |address| address.port());
        Ok(Self {
            http: port(0),
            ws: port(1),
            auth: port(2),
            peers: port(3),
            metrics: port(4),
        })
    }

    /// Where the engine serves metrics, if it does.
    pub fn metrics_address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.metrics).into()
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
    /// Knobs of the cell: flags without dashes, `env:NAME` for variables of the environment.
    pub flags: &'a [(String, String)],
    /// Flags of the sweep, for example the persistence threshold; a cell's flag wins.
    pub defaults: Vec<(String, String)>,
    /// Where its output goes.
    pub log: PathBuf,
    /// Where its pid is kept while it runs.
    pub pid_file: &'a Path,
}

impl Launch<'_> {
    /// The command that runs the node on these ports.
    ///
    /// # Errors
    /// When a file that it needs cannot be written.
    pub fn command(&self, endpoints: &Endpoints) -> Result<Command> {
        let mut command = adapter::of(self.engine.kind).node(self, endpoints)?;
        let defaults = self.defaults.iter().filter(|(flag, _)| !self.decides(flag));
        let knobs = defaults.chain(self.flags);
        for (flag, value) in knobs.filter(|(knob, _)| !knob.starts_with(VARIABLE_PREFIX)) {
            match value.as_str() {
                SWITCH_ON => command.arg(format!("--{flag}")),
                SWITCH_OFF => &mut command,
                value => command.arg(format!("--{flag}={value}")),
            };
        }
        command.envs(variables::set(self.engine, self.flags));
        Ok(command)
    }

    /// Whether a flag, given with or without dashes and value, is left to the cell, or the engine lacks it.
    pub(super) fn decides(&self, flag: &str) -> bool {
        self.engine.lacks(flag_name(flag)) || self.sets(flag)
    }

    /// Whether the cell decides about a flag, given with or without dashes and value.
    pub(super) fn sets(&self, flag: &str) -> bool {
        let name = flag_name(flag);
        self.flags.iter().any(|(other, _)| other == name)
    }
}

/// A flag without its dashes and its value.
pub(crate) fn flag_name(flag: &str) -> &str {
    let name = flag.trim_start_matches('-');
    name.split_once('=').map_or(name, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{engine::tests::engine, sweep::EngineKind};

    /// The command line of a start with these knobs, and the environment that it sets.
    fn started(kind: EngineKind, knobs: &[(&str, &str)]) -> (String, Vec<String>) {
        started_by(&engine(kind), knobs)
    }

    fn started_by(engine: &EngineSpec, knobs: &[(&str, &str)]) -> (String, Vec<String>) {
        let dir = tempfile::tempdir().unwrap();
        let owned = |(knob, value): &(&str, &str)| ((*knob).to_owned(), (*value).to_owned());
        let flags: Vec<_> = knobs.iter().map(owned).collect();
        let launch = Launch {
            engine,
            datadir: dir.path(),
            jwt_file: Path::new("/jwt"),
            flags: &flags,
            defaults: vec![("a.b".into(), "1".into()), ("c".into(), "2".into())],
            log: "/log".into(),
            pid_file: Path::new("/pid"),
        };
        let endpoints = Endpoints {
            http: 1,
            ws: 2,
            auth: 3,
            peers: 4,
            metrics: 5,
        };
        let command = launch.command(&endpoints).unwrap();
        let words = command.get_args().map(|arg| arg.to_string_lossy());
        let line = words.collect::<Vec<_>>().join(" ");
        let set = |(name, value): (&std::ffi::OsStr, Option<&std::ffi::OsStr>)| {
            format!("{}={}", name.display(), value.unwrap_or_default().display())
        };
        let line = line.replace(dir.path().to_str().unwrap(), "/d");
        (line, command.get_envs().map(set).collect())
    }

    #[test]
    fn a_flag_of_the_cell_replaces_the_shared_one() {
        let (line, _) = started(EngineKind::BenchReth, &[("a.b", "7")]);
        insta::assert_snapshot!(line);
    }

    #[test]
    fn geth_is_spoken_to_in_its_own_words() {
        let (line, _) = started(EngineKind::Geth, &[("cache", "512")]);
        insta::assert_snapshot!(line);
    }

    #[test]
    fn ethrex_is_spoken_to_in_its_own_words_and_is_of_the_chain_that_is_named() {
        let (line, _) = started(EngineKind::Ethrex, &[("log.level", "debug")]);
        insta::assert_snapshot!(line);
        let ethrex = EngineSpec {
            chain: Some("hoodi".into()),
            ..engine(EngineKind::Ethrex)
        };
        let (line, _) = started_by(&ethrex, &[]);
        assert!(line.contains(" --network hoodi "), "{line}");
        let (line, _) = started_by(&ethrex, &[("network", "mainnet")]);
        assert!(
            line.ends_with(" --network=mainnet") && !line.contains("hoodi"),
            "{line}"
        );
    }

    #[test]
    fn switches_stand_alone_or_not_at_all_and_variables_are_set() {
        let knobs = [
            ("x.y", "on"),
            ("z", "off"),
            ("engine.accept-execution-requests-hash", "off"),
            ("color", "always"),
            ("env:THREADS", "on"),
        ];
        let (line, environment) = started(EngineKind::Reth, &knobs);
        assert!(line.ends_with(" --c=2 --x.y --color=always"), "{line}");
        for absent in ["--z", "requests-hash", "--color=never", "THREADS"] {
            assert!(!line.contains(absent), "{absent}: {line}");
        }
        assert!(environment.contains(&"THREADS=on".to_owned()));
    }

    #[test]
    fn an_engine_is_of_the_chain_that_is_named_and_gets_no_flag_that_it_lacks() {
        let reth = EngineSpec {
            lacks: vec!["debug.startup-sync-state-idle".into(), "c".into()],
            chain: Some("hoodi".into()),
            ..engine(EngineKind::Reth)
        };
        let (line, _) = started_by(&reth, &[]);
        assert!(
            line.contains(" --chain hoodi ") && line.contains(" --a.b=1"),
            "{line}"
        );
        for absent in ["startup-sync-state-idle", "--c="] {
            assert!(!line.contains(absent), "{absent}: {line}");
        }
    }

    #[test]
    fn ports_differ() {
        let free = Endpoints::free().unwrap();
        let mut ports = vec![free.http, free.ws, free.auth, free.peers, free.metrics];
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 5);
    }
}
