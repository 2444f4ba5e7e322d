//! The two programs: started from one genesis, asked the same questions, ended by their ids.

use engine_api::{
    client::EngineClient,
    error::{ClientError, RpcError},
    jwt::JwtSecret,
};
use serde_json::{Value, json};
use std::{ffi::OsString, path::Path, process::Command};
use tempfile::TempDir;
use testkit::{Pipe, Running, node::program};
use tokio::runtime::Runtime;

/// geth's error code for a request of the public port that took longer than its server waits;
/// sometimes it only closes the connection.
const GETH_TIMED_OUT: i64 = -32002;
/// How often such a request is sent.
const ATTEMPTS: usize = 5;

/// Which of an engine's two ports a question goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Port {
    Public,
    Engine,
}

/// The result of a method, or the error object.
pub(crate) type Answer = Result<Value, RpcError>;

/// An engine that answers.
struct Engine {
    public: EngineClient,
    engine: EngineClient,
    _process: Running,
}

impl Engine {
    async fn call(&mut self, port: Port, method: &str, params: &Value) -> Answer {
        let client = match port {
            Port::Public => &mut self.public,
            Port::Engine => &mut self.engine,
        };
        for _ in 0..ATTEMPTS {
            match client.call(method, params).await {
                Ok(result) => return Ok(result),
                // Nothing a block is judged by: the machine is busy.
                Err(ClientError::Rpc(error)) if error.code == GETH_TIMED_OUT => {}
                Err(ClientError::Closed { .. }) if port == Port::Public => {}
                Err(ClientError::Rpc(error)) => return Err(error),
                Err(other) => panic!("{method}: {other}"),
            }
        }
        panic!("{method}: no answer in time, {ATTEMPTS} times")
    }
}

/// Which of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    BenchReth,
    Geth,
}

/// bench-reth and geth on one chain.
pub(crate) struct Engines {
    // Before the folder: the programs end before their files are removed.
    bench_reth: Engine,
    geth: Engine,
    runtime: Runtime,
    _folder: TempDir,
}

impl Engines {
    pub(crate) fn start(geth: &OsString, genesis: &Value) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let genesis_file = folder.path().join("genesis.json");
        std::fs::write(&genesis_file, genesis.to_string()).unwrap();
        let secret = folder.path().join("jwt.hex");
        JwtSecret::create(&secret).unwrap();
        let gas_limit = genesis["gasLimit"].as_str().unwrap();
        Self {
            bench_reth: start_bench_reth(folder.path()),
            geth: start_geth(geth, folder.path(), gas_limit),
            runtime: tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap(),
            _folder: folder,
        }
    }

    /// Asks one engine.
    pub(crate) fn ask(&mut self, side: Side, port: Port, method: &str, params: &Value) -> Answer {
        let engine = match side {
            Side::BenchReth => &mut self.bench_reth,
            Side::Geth => &mut self.geth,
        };
        self.runtime.block_on(engine.call(port, method, params))
    }

    /// Asks both at once: bench-reth's answer and geth's.
    pub(crate) fn ask_both(
        &mut self,
        port: Port,
        method: &str,
        params: [&Value; 2],
    ) -> [Answer; 2] {
        let ours = self.bench_reth.call(port, method, params[0]);
        let theirs = self.geth.call(port, method, params[1]);
        let (ours, theirs) = self.runtime.block_on(async { tokio::join!(ours, theirs) });
        [ours, theirs]
    }

    /// Block 0 of both, which must be the same.
    pub(crate) fn genesis(&mut self) -> Value {
        let params = json!(["0x0", false]);
        let [ours, theirs] =
            self.ask_both(Port::Public, "eth_getBlockByNumber", [&params, &params]);
        let (ours, theirs) = (ours.unwrap(), theirs.unwrap());
        assert_eq!(ours["hash"], theirs["hash"], "{ours:#}\n{theirs:#}");
        theirs
    }
}

fn start_bench_reth(folder: &Path) -> Engine {
    let mut command = program();
    command
        .args(["node", "--with-unused-ports", "--color", "never", "--http"])
        .args(["--http.api", "eth,net,web3,debug,testing"])
        // A transaction that does not fit is to be named, not left out.
        .arg("--testing.skip-invalid-transactions=false")
        // Reorgs reach back to blocks in memory only.
        .args(["--engine.persistence-threshold", "10"])
        .args(["--engine.memory-block-buffer-target", "8"])
        .arg("--authrpc.jwtsecret")
        .arg(folder.join("jwt.hex"))
        .arg("--chain")
        .arg(folder.join("genesis.json"))
        .arg("--datadir")
        .arg(folder.join("bench-reth"));
    let process = Running::start(&mut command);
    let log = process.lines_until(Pipe::Out, "Starting consensus engine");
    let url = |message: &str| {
        let line = log.iter().find(|line| line.contains(message)).unwrap();
        line.rsplit_once("url=").unwrap().1.to_owned()
    };
    let addresses = [
        url("RPC HTTP server started"),
        url("RPC auth server started"),
    ];
    connect(process, &addresses, folder)
}

fn start_geth(geth: &OsString, folder: &Path, gas_limit: &str) -> Engine {
    let datadir = folder.join("geth");
    let init = Command::new(geth)
        .arg("init")
        .arg("--datadir")
        .arg(&datadir)
        .arg(folder.join("genesis.json"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&init.stderr);
    assert!(init.status.success(), "geth init: {text}");
    let gas_limit = u64::from_str_radix(&gas_limit[2..], 16).unwrap();
    let mut command = Command::new(geth);
    command
        .args(["--syncmode", "full", "--nodiscover", "--maxpeers", "0"])
        .args(["--port", "0", "--nat", "none", "--ipcdisable"])
        .args([
            "--cache",
            "128",
            "--cache.preimages",
            "--log.format",
            "logfmt",
        ])
        .args(["--http", "--http.addr", "127.0.0.1", "--http.port", "0"])
        .args(["--http.api", "eth,net,web3,debug,txpool,testing"])
        .args(["--authrpc.addr", "127.0.0.1", "--authrpc.port", "0"])
        .args(["--rpc.txfeecap", "0", "--txpool.pricelimit", "1"])
        .args(["--miner.gasprice", "0", "--miner.recommit", "2s"])
        .args(["--miner.gaslimit", &gas_limit.to_string()])
        .arg("--authrpc.jwtsecret")
        .arg(folder.join("jwt.hex"))
        .arg("--datadir")
        .arg(&datadir);
    let process = Running::start(&mut command);
    let log = process.lines_until(Pipe::Err, "auth=true");
    let endpoint = |auth: &str| {
        let started = |line: &&String| line.contains("HTTP server started") && line.contains(auth);
        let line = log.iter().find(started).unwrap();
        let rest = line.split_once("endpoint=").unwrap().1;
        rest.split(' ').next().unwrap().to_owned()
    };
    let addresses = [endpoint("auth=false"), endpoint("auth=true")];
    connect(process, &addresses, folder)
}

fn connect(process: Running, [public, auth]: &[String; 2], folder: &Path) -> Engine {
    let secret = JwtSecret::read(&folder.join("jwt.hex")).unwrap();
    Engine {
        public: EngineClient::new(&format!("http://{public}"), None).unwrap(),
        engine: EngineClient::new(&format!("http://{auth}"), Some(secret)).unwrap(),
        _process: process,
    }
}
