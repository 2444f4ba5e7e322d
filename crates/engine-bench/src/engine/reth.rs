//! Engines with reth's command line: bench-reth, and reth of 1.11 and 2.x.
//!
//! Invariant: nothing listens anywhere but on the loopback address, and no peer is contacted.

use super::{
    adapter::Adapter,
    command::{Endpoints, Launch, flag_name},
    help::names_flag,
    trial::refusal,
    variables,
};
use crate::{
    files::failed,
    sweep::{EngineKind, EngineSpec, Settings},
};
use eyre::Result;
use std::{ffi::OsString, fs, path::Path, process::Command};

/// Chain file of a datadir that bench-reth made.
const CHAIN_FILE: &str = "chain.json";

/// Flags every node gets: no peers, no chatter, synchronous readiness.
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

/// What makes logs readable, and tells where a node panicked.
const VARIABLES: [(&str, &str); 2] = [("RUST_BACKTRACE", "1"), ("RUST_LOG_STYLE", "never")];

/// Where metrics are served.
const METRICS_FLAG: &str = "--metrics";

/// Engines with reth's command line.
pub(super) struct Reth;

impl Adapter for Reth {
    fn node(&self, launch: &Launch<'_>, endpoints: &Endpoints) -> Result<Command> {
        let mut command = variables::command(&launch.engine.program);
        command
            .arg("node")
            .args(datadir_flags(launch.engine, launch.datadir))
            .args(FIXED_FLAGS.iter().filter(|flag| !launch.decides(flag)));
        for (flag, port) in [
            ("--http.port", endpoints.http),
            ("--ws.port", endpoints.ws),
            ("--authrpc.port", endpoints.auth),
            ("--port", endpoints.peers),
        ] {
            command.arg(format!("{flag}={port}"));
        }
        if !launch.sets(METRICS_FLAG) {
            command.arg(format!("{METRICS_FLAG}={}", endpoints.metrics_address()));
        }
        command.arg("--authrpc.jwtsecret").arg(launch.jwt_file);
        Ok(command)
    }

    fn variables(&self) -> &'static [(&'static str, &'static str)] {
        &VARIABLES
    }

    fn shared_flags(&self, settings: &Settings) -> Vec<(String, String)> {
        let threshold = settings.persistence_threshold.to_string();
        let target = (BUFFER_FLAG.into(), "0".into());
        vec![("engine.persistence-threshold".into(), threshold), target]
    }

    fn unwind(&self, engine: &EngineSpec, datadir: &Path, target: u64) -> Option<Command> {
        let mut command = variables::command(&engine.program);
        command
            .args(["stage", "unwind"])
            .args(datadir_flags(engine, datadir));
        command.arg("to-block").arg(target.to_string());
        command.envs(VARIABLES);
        Some(command)
    }

    fn stats(&self, engine: &EngineSpec, datadir: &Path) -> Option<Command> {
        let mut command = variables::command(&engine.program);
        let datadir = datadir_flags(engine, datadir);
        match engine.kind {
            EngineKind::BenchReth => command.args(["db", "stats", "--json"]).args(datadir),
            // Without the flag it reads all static files.
            _ => {
                command.arg("db").args(datadir).arg("stats");
                command.args(["--skip-consistency-checks", "--color=never"])
            }
        };
        Some(command)
    }

    /// The genesis stays in the datadir: the node is to be of the same chain whenever it is started.
    fn init(&self, engine: &EngineSpec, datadir: &Path, genesis: &Path) -> Result<Vec<Command>> {
        let chain = datadir.join(CHAIN_FILE);
        fs::copy(genesis, &chain).map_err(failed("write", &chain))?;
        let mut init = variables::command(&engine.program);
        init.arg("init").args(datadir_flags(engine, datadir));
        init.args(["--log.file.max-files=0", "--color=never"]);
        Ok(vec![init])
    }
}

/// The command with which the embedded engine writes a generated state into an empty folder.
pub fn init_command(engine: &EngineSpec, profile: &str, seed: u64, datadir: &Path) -> Command {
    let mut command = variables::command(&engine.program);
    command.args(["bench-reth", "init", "--profile", profile, "--seed"]);
    command.arg(seed.to_string()).arg("--datadir").arg(datadir);
    command
}

/// Where the state is, and whose: what was given, or the chain file in it; a datadir without either is of the
/// engine's own chain.
fn datadir_flags(engine: &EngineSpec, datadir: &Path) -> Vec<OsString> {
    let mut flags = vec!["--datadir".into(), datadir.into()];
    let beside = Some(datadir.join(CHAIN_FILE)).filter(|chain| chain.exists());
    let given = engine.chain.as_ref().map(OsString::from);
    if let Some(chain) = given.or(beside.map(OsString::from)) {
        flags.extend(["--chain".into(), chain]);
    }
    flags
}

/// A flag that every sweep shares, and that a release may lack.
const BUFFER_FLAG: &str = "engine.memory-block-buffer-target";

/// Which of the flags that every node gets an engine lacks, without their dashes: `help` does not name them and
/// its parser refuses them.
pub(crate) fn missing_fixed_flags(engine: &EngineSpec, help: &str) -> Vec<String> {
    let shared = format!("--{BUFFER_FLAG}=0");
    let every = FIXED_FLAGS.into_iter().chain([shared.as_str()]);
    let unnamed = every.filter(|flag| !names_flag(help, flag_name(flag)));
    // One that has no help may not judge flags before it starts.
    if help.is_empty() {
        return Vec::new();
    }
    let refused = |flag: &&str| refusal(engine, &[(*flag).to_owned()]).is_some();
    let lacked = unnamed.filter(refused);
    lacked.map(|flag| flag_name(flag).to_owned()).collect()
}
