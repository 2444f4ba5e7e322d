//! ethrex: its command line, and its state, which it makes from a genesis file when it starts.
//!
//! ethrex has no command that makes a datadir and none that unwinds one. The datadir of a generated state is
//! a folder with its genesis file: the client writes its database into a copy of that at every start, and a
//! build that keeps its state in memory makes that anew. A datadir that was given is copied.
//!
//! Invariant: nothing listens anywhere but on the loopback address, and no peer is contacted.

use super::{
    adapter::{self, Adapter},
    command::{Endpoints, Launch},
    variables,
};
use crate::{files::failed, sweep::EngineSpec};
use eyre::Result;
use serde_json::Value;
use std::{ffi::OsString, fs, path::Path, process::Command};

/// Flags every node gets. Blocks are executed as they come (`full`): by default ethrex downloads state, and
/// answers `SYNCING` to every payload until it has one.
const FIXED_FLAGS: [&str; 6] = [
    "--syncmode=full",
    "--p2p.disabled",
    "--http.addr=127.0.0.1",
    "--authrpc.addr=127.0.0.1",
    "--log.level=info",
    "--log.color=never",
];

/// Where the chain of a node is given.
const NETWORK_FLAG: &str = "--network";

/// The genesis file in the datadir of a generated state.
const GENESIS_FILE: &str = "chain.json";

/// A file of every database of ethrex: in the datadir, or in the folder that it makes there for a chain that
/// it knows by name.
const DATABASE: &str = "metadata.json";

/// ethrex.
pub(super) struct Ethrex;

impl Adapter for Ethrex {
    fn node(&self, launch: &Launch<'_>, endpoints: &Endpoints) -> Result<Command> {
        let mut command = variables::command(&launch.engine.program);
        command.arg("--datadir").arg(launch.datadir);
        if let Some(network) = network(launch).filter(|_| !launch.sets(NETWORK_FLAG)) {
            command.arg(NETWORK_FLAG).arg(network);
        }
        command.args(FIXED_FLAGS.iter().filter(|flag| !launch.sets(flag)));
        for (flag, port) in [
            ("--http.port", endpoints.http),
            ("--authrpc.port", endpoints.auth),
        ] {
            command.arg(format!("{flag}={port}"));
        }
        command.arg("--authrpc.jwtsecret").arg(launch.jwt_file);
        Ok(command)
    }

    /// The genesis file is all that a node needs.
    fn init(&self, _engine: &EngineSpec, datadir: &Path, genesis: &Path) -> Result<Vec<Command>> {
        let chain = datadir.join(GENESIS_FILE);
        fs::copy(genesis, &chain).map_err(failed("write", &chain))?;
        Ok(Vec::new())
    }

    /// Until it has been told of a head for the first time, ethrex answers with an object.
    fn is_syncing(&self, answer: &Value) -> bool {
        adapter::is_behind(answer)
    }
}

/// The chain of a node: what was given, or the genesis in its datadir. Of neither, it is ethrex' own default.
fn network(launch: &Launch<'_>) -> Option<OsString> {
    let beside = Some(launch.datadir.join(GENESIS_FILE)).filter(|file| file.exists());
    let given = launch.engine.chain.as_ref().map(OsString::from);
    given.or(beside.map(OsString::from))
}

/// Whether a datadir is one of ethrex'.
pub fn is_ethrex_datadir(datadir: &Path) -> bool {
    let holds = |folder: &Path| folder.join(DATABASE).is_file();
    let mut inside = datadir.read_dir().into_iter().flatten().flatten();
    holds(datadir) || inside.any(|entry| holds(&entry.path()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_is_found_in_a_datadir_and_in_the_folder_of_a_chain() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!is_ethrex_datadir(dir.path()));
        assert!(!is_ethrex_datadir(&dir.path().join("nowhere")));
        let chain = dir.path().join("mainnet");
        fs::create_dir(&chain).unwrap();
        fs::write(chain.join(DATABASE), "").unwrap();
        assert!(is_ethrex_datadir(dir.path()) && is_ethrex_datadir(&chain));
    }
}
