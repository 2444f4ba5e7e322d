//! go-ethereum: its command line, and its databases made from a genesis file.
//!
//! geth keeps the last states in memory and writes them to a journal when it stops; it has no
//! command that unwinds a datadir. A datadir is therefore never reset in place but copied again from
//! a pristine copy, in which nothing but the genesis was ever written.
//!
//! Invariant: nothing listens anywhere but on the loopback address, and no peer is contacted.

use super::{
    adapter::Adapter,
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

    /// geth answers with an object for as long as any index is behind the head, at block 0 for ever:
    /// only blocks that it knows of and does not have count.
    fn is_syncing(&self, answer: &Value) -> bool {
        let number = |field: &str| {
            let text = answer[field].as_str()?.strip_prefix("0x")?;
            u64::from_str_radix(text, 16).ok()
        };
        match (number("currentBlock"), number("highestBlock")) {
            (Some(current), Some(highest)) => current < highest,
            _ => *answer != Value::Bool(false),
        }
    }
}

/// Whether a datadir is one of geth's.
pub fn is_geth_datadir(datadir: &Path) -> bool {
    datadir.join(DATABASE).is_dir()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_index_behind_the_head_is_not_syncing() {
        let answer = |current: &str, highest: &str| json!({ "currentBlock": current, "highestBlock": highest, "txIndexRemainingBlocks": "0x1" });
        for (answer, syncing) in [
            (json!(false), false),
            (answer("0x0", "0x0"), false),
            (answer("0x9", "0x9"), false),
            (answer("0x9", "0xa"), true),
            (json!({}), true),
            (json!(true), true),
        ] {
            assert_eq!(Geth.is_syncing(&answer), syncing, "{answer}");
        }
    }
}
