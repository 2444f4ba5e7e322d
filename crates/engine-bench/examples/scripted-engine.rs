//! An engine for tests: enough of the command line and the RPC to be swept, and told by a file in
//! its datadir how to misbehave.
//!
//! `<datadir>/script` holds one word, and behind it a chunk size if only the cell of that size is meant: `ok`, `dies-at-start`, `never-ready`, `syncing`, `invalid`,
//! `answers-syncing`, `lies-about-its-head`, `dies-mid-pass`, `hangs`, `refuses-unwind`, `port-in-use`, `root-task-times-out`, `runs-its-pipeline`,
//! `runs-no-root-task`, `loses-its-tries`, `forgets-its-tip`. `<datadir>/chain` holds the
//! canonical block hashes, one a line, from block 0 on. Invariant: `stage unwind` and fork choices
//! write that file at once, so that a kill loses nothing.

use serde_json::{Value, json};
use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::exit,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};
use testkit::{Reply, Server, wait_for};

/// After how many payloads `invalid`, `dies-mid-pass` and `hangs` do so.
const GOOD_PAYLOADS: usize = 2;

struct Chain {
    datadir: PathBuf,
    script: String,
    hashes: Vec<String>,
    pending: Vec<(usize, String)>,
    payloads: usize,
    chunk: u64,
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let datadir = PathBuf::from(flag(&args, "--datadir").unwrap_or_default());
    let read = |name: &str| fs::read_to_string(datadir.join(name)).unwrap_or_default();
    let hashes: Vec<String> = read("chain").lines().map(str::to_owned).collect();
    let script = read("script").trim().to_owned();
    match args.first().map(String::as_str) {
        Some("db") => print_stats(&script),
        Some("stage") => unwind(&datadir, &script, hashes, args.last().expect("a block")),
        Some("node") => serve(&args, datadir, script, hashes),
        other => panic!("unknown command {other:?}"),
    }
}

/// What `db stats` prints, in part.
fn print_stats(script: &str) {
    let rows = if script == "loses-its-tries" { 0 } else { 300 };
    println!("| Table Name | # Entries | Total Size |\n|------------|-----------|------------|");
    println!("| AccountsTrie | {rows} | 1 MiB |\n| HashedAccounts | 2000 | 1 MiB |");
}

/// What upstream says of a block whose measurement it spoils.
fn said_beside(script: &str) -> Option<&'static str> {
    match script {
        "root-task-times-out" => {
            Some("State root task timed out, spawning sequential fallback timeout=1s")
        }
        "runs-its-pipeline" => Some("Preparing stage pipeline_stages=1/12 stage=Headers"),
        _ => None,
    }
}

fn flag(args: &[String], name: &str) -> Option<String> {
    let given = args
        .iter()
        .position(|arg| arg == name)
        .map(|at| args[at + 1].clone());
    let prefix = format!("{name}=");
    given.or_else(|| {
        args.iter()
            .find_map(|arg| arg.strip_prefix(&prefix))
            .map(str::to_owned)
    })
}

fn unwind(datadir: &Path, script: &str, mut hashes: Vec<String>, target: &str) {
    let target: usize = target.parse().expect("a block number");
    if script == "refuses-unwind" || target >= hashes.len() {
        eprintln!("Target block number {target} is higher than the latest block number");
        exit(1);
    }
    hashes.truncate(target + 1);
    write_chain(datadir, &hashes);
}

fn write_chain(datadir: &Path, hashes: &[String]) {
    fs::write(datadir.join("chain"), hashes.join("\n")).expect("a writable datadir");
}

fn serve(args: &[String], datadir: PathBuf, script: String, hashes: Vec<String>) {
    let chunk = flag(args, "--engine.multiproof-chunk-size");
    let script = match script.split_once(' ') {
        Some((script, only)) if chunk.as_deref() == Some(only) => script.to_owned(),
        Some(_) => "ok".to_owned(),
        None => script,
    };
    match script.as_str() {
        "dies-at-start" => {
            println!("Error: the database is damaged");
            exit(7);
        }
        "port-in-use" => {
            println!("address 127.0.0.1:8545 (HTTP-RPC server) is already in use (os error 98)");
            exit(1);
        }
        "never-ready" => loop {
            thread::sleep(Duration::from_secs(1));
        },
        _ => {}
    }
    let mut hashes = hashes;
    if script == "forgets-its-tip" {
        // The last block was in memory alone.
        hashes.truncate(hashes.len().saturating_sub(1).max(4));
    }
    let chunk = chunk.and_then(|size| size.parse().ok());
    let chain = Chain {
        datadir,
        script,
        hashes,
        pending: vec![],
        payloads: 0,
        chunk: chunk.unwrap_or(60),
    };
    let chain = Arc::new(Mutex::new(chain));
    let listen = |name| {
        let port: u16 = flag(args, name)
            .and_then(|port| port.parse().ok())
            .expect("a port");
        // A connection of somebody else may have it for a moment.
        wait_for("the port", || TcpListener::bind(("127.0.0.1", port)).ok())
    };
    let (http, auth) = (listen("--http.port"), listen("--authrpc.port"));
    let _servers = [http, auth].map(|listener| {
        let chain = Arc::clone(&chain);
        Server::on(listener, Duration::ZERO, move |request| {
            // This port may be one that another engine was given for metrics and does not serve.
            let Ok(asked) = serde_json::from_slice(&request.body) else {
                return Reply::nothing();
            };
            Reply::result(chain.lock().expect("no panic").answer(&asked))
        })
    });
    loop {
        thread::park();
    }
}

impl Chain {
    fn answer(&mut self, request: &Value) -> Value {
        let params = &request["params"];
        let method = request["method"].as_str().unwrap_or_default();
        match method {
            "engine_exchangeCapabilities" => json!([]),
            "eth_blockNumber" => json!(format!("{:#x}", self.hashes.len() - 1)),
            "eth_syncing" => json!(self.script == "syncing"),
            "web3_clientVersion" => json!("scripted/1"),
            "eth_getBlockByNumber" => self.block(&params[0]),
            _ if method.starts_with("engine_newPayload") => self.new_payload(&params[0]),
            _ if method.starts_with("engine_forkchoiceUpdated") => self.forkchoice(&params[0]),
            _ => Value::Null,
        }
    }

    fn block(&self, number: &Value) -> Value {
        let last = self.hashes.len() - 1;
        let text = number.as_str().unwrap_or_default().trim_start_matches("0x");
        let number = usize::from_str_radix(text, 16).unwrap_or(last);
        let Some(hash) = self.hashes.get(number) else {
            return Value::Null;
        };
        let root = match self.script.as_str() {
            "lies-about-its-head" => &self.hashes[0],
            _ => hash,
        };
        json!({
            "number": format!("{number:#x}"), "hash": hash,
            "stateRoot": root, "gasLimit": "0x3b9aca00",
        })
    }

    fn new_payload(&mut self, payload: &Value) -> Value {
        self.payloads += 1;
        if self.payloads > GOOD_PAYLOADS {
            match self.script.as_str() {
                "invalid" => {
                    return json!({"status": "INVALID", "latestValidHash": null,
                        "validationError": "mismatched block state root"});
                }
                "dies-mid-pass" => {
                    println!("thread 'engine' panicked");
                    exit(101);
                }
                "hangs" => loop {
                    thread::sleep(Duration::from_secs(1));
                },
                "answers-syncing" => return json!({"status": "SYNCING", "latestValidHash": null}),
                _ => {}
            }
        }
        let text = |key: &str| payload[key].as_str().unwrap_or_default().to_owned();
        let number = usize::from_str_radix(text("blockNumber").trim_start_matches("0x"), 16);
        let (number, hash) = (number.expect("a block number"), text("blockHash"));
        if self.payloads != 1
            && let Some(line) = said_beside(&self.script)
        {
            println!("2026-11-21T03:00:00Z  WARN {line}");
        }
        let jobs = 1 + 600 / self.chunk;
        if self.script == "runs-no-root-task" {
            println!("INFO Regular root task finished regular_state_root={hash} elapsed=1.5ms");
        } else {
            println!(
                "INFO State root task finished state_root={hash} elapsed=1.5ms account_targets=400 \
             storage_targets=200 batches=1 jobs={jobs} unsplit_batches={} nodes_revealed=9",
                u64::from(jobs == 1)
            );
        }
        println!("INFO Block added to canonical chain number={number} hash={hash} elapsed=2.5ms");
        self.pending.push((number, hash.clone()));
        json!({"status": "VALID", "latestValidHash": hash, "validationError": null})
    }

    fn forkchoice(&mut self, state: &Value) -> Value {
        let head = state["headBlockHash"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        if let Some((number, hash)) = self.pending.iter().find(|(_, hash)| *hash == head).cloned() {
            self.hashes.truncate(number);
            self.hashes.push(hash);
            write_chain(&self.datadir, &self.hashes);
        }
        let status = if self.hashes.last() == Some(&head) {
            "VALID"
        } else {
            "SYNCING"
        };
        json!({"payloadStatus": {"status": status, "latestValidHash": head}, "payloadId": null})
    }
}
