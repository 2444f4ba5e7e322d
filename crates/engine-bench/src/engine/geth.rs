//! go-ethereum: its command line, and its databases made from a genesis file.
//!
//! geth keeps the last states in memory and writes them to a journal when it stops; it has no
//! command that unwinds a datadir. A datadir is therefore never reset in place but copied again from
//! a pristine copy, in which nothing but the genesis was ever written.
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
use std::{fs, path::Path, process::Command};

/// Flags every node gets. Blocks are executed as they come (`full`); caches, state scheme and
/// background indexers are geth's own defaults.
const FIXED_FLAGS: [&str; 12] = [
    "--syncmode=full",
    "--nodiscover",
    "--maxpeers=0",
    "--nat=none",
    "--ipcdisable",
    "--http",
    "--http.addr=127.0.0.1",
    "--http.api=eth,net,web3,debug",
    "--ws",
    "--ws.addr=127.0.0.1",
    "--authrpc.addr=127.0.0.1",
    "--log.format=logfmt",
];

/// Configuration that has no flag: without it geth listens for peers on every address, also when it
/// takes none.
const CONFIGURATION: &str = "[Node.P2P]\nListenAddr = \"\"\n";

/// Name of the file with the configuration, in the datadir.
const CONFIGURATION_FILE: &str = "engine-bench.toml";

/// Folder that every datadir of geth has.
const DATABASE: &str = "geth/chaindata";

/// go-ethereum.
pub(super) struct Geth;

impl Adapter for Geth {
    fn node(&self, launch: &Launch<'_>, endpoints: &Endpoints) -> Result<Command> {
        let configuration = launch.datadir.join(CONFIGURATION_FILE);
        let written = fs::write(&configuration, CONFIGURATION);
        written.map_err(failed("write", &configuration))?;
        let mut command = variables::command(&launch.engine.program);
        command
            .arg("--config")
            .arg(configuration)
            .arg("--datadir")
            .arg(launch.datadir)
            .args(FIXED_FLAGS.iter().filter(|flag| !launch.sets(flag)));
        for (flag, port) in [
            ("--http.port", endpoints.http),
            ("--ws.port", endpoints.ws),
            ("--authrpc.port", endpoints.auth),
        ] {
            command.arg(format!("{flag}={port}"));
        }
        command.arg("--authrpc.jwtsecret").arg(launch.jwt_file);
        Ok(command)
    }

    /// The database is written, then compacted, so that no pass begins with what the writing left to do.
    fn init(&self, engine: &EngineSpec, datadir: &Path, genesis: &Path) -> Result<Vec<Command>> {
        let mut init = variables::command(&engine.program);
        init.args(["init", "--state.scheme=path", "--datadir"]);
        init.arg(datadir).arg(genesis);
        let mut compact = variables::command(&engine.program);
        compact.args(["db", "compact", "--datadir"]).arg(datadir);
        Ok(vec![init, compact])
    }

    /// geth answers with an object for as long as any index is behind the head, at block 0 for ever.
    fn is_syncing(&self, answer: &Value) -> bool {
        adapter::is_behind(answer)
    }
}

/// Whether a datadir is one of geth's.
pub fn is_geth_datadir(datadir: &Path) -> bool {
    datadir.join(DATABASE).is_dir()
}
