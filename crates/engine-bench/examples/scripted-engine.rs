//! An engine for tests: enough of the command line and the RPC to be swept, and told by a file in
//! its datadir how to misbehave.
//!
//! `<datadir>/script` holds one word, and behind it a chunk size if only the cell of that size is meant: `ok`, `never-ready`, `syncing`,
//! `half-unwound`, `refuses-the-token`, `invalid`, `rejected-ancestor`, `rejects-requests-hash`, `answers-syncing`, `forkchoice-syncing`, `forkchoice-refused`,
//! `lies-about-its-head`, `hangs`, `root-task-times-out`, `runs-its-pipeline`, `runs-no-root-task`, `loses-its-tries`, `forgets-its-tip`, or one of [`AT_START`], [`AT_UNWIND`]
//! and [`MID_PASS`]. `<datadir>/chain` holds the canonical block hashes, one a line, from block 0 on. Invariant: `stage unwind` and fork choices
//! write that file at once, so that a kill loses nothing.

use serde_json::{Value, json};
use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Command, exit},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};
use testkit::{Reply, Server, wait_for};

/// After how many payloads those that fail in a pass do so.
const GOOD_PAYLOADS: usize = 2;

/// A script, the code that the program ends with, and what reth prints then.
type LastWords = (&'static str, i32, &'static str);

/// What keeps a node from starting.
const AT_START: [LastWords; 8] = [
    ("dies-at-start", 7, "Error: the database is damaged"),
    (
        "port-in-use",
        1,
        "Error: address 127.0.0.1:8545 (HTTP-RPC server) is already in use (os error 98). Choose a different port \
         using --http.port",
    ),
    (
        "storage-in-use",
        1,
        "Error: storage directory is currently in use as read-write by another process: PID 4242",
    ),
    (
        "database-busy",
        1,
        "Error: failed to open the database: another write transaction is running (-30778)",
    ),
    (
        "damaged-static-files",
        101,
        "thread 'main' panicked at crates/node/builder/src/launch/common.rs:525:13:\n\
         A static file inconsistency was found that would trigger an unwind to block 0\n  left: 0\n right: 0\n\
         stack backtrace:\n   0: one\n   1: two\n   2: three\n   3: four\n   4: five",
    ),
    (
        "other-chain",
        1,
        "Error: genesis hash in the storage does not match the specified chainspec: chainspec is 0x01, database is \
         0x02",
    ),
    (
        "other-generation",
        1,
        "Error: failed to decode a key from a table",
    ),
    (
        "other-database-version",
        1,
        "Error: breaking database change detected: your database version (v1) is incompatible with the latest \
         database version (v2)",
    ),
];

/// What keeps a datadir from being unwound.
const AT_UNWIND: [LastWords; 2] = [
    (
        "refuses-unwind",
        1,
        "Error: Target block number 3 is higher than the latest block number 2",
    ),
    (
        "history-is-pruned",
        1,
        "Error: Cannot unwind to block 3 as it is beyond the AccountHistory limit. Latest block: 5, History limit: 1",
    ),
];

/// What ends a node among payloads.
const MID_PASS: [LastWords; 4] = [
    ("dies-mid-pass", 101, "thread 'engine' panicked"),
    (
        "disk-full",
        1,
        "Error: failed to commit transaction changes: No space left on device (28)",
    ),
    (
        "map-full",
        1,
        "Error: failed to commit transaction changes: environment map size limit reached (-30792)",
    ),
    ("is-killed", -9, "INFO Status connected_peers=0"),
];

/// Ends as the script says, if it is one of these.
fn end_as(script: &str, those: &[LastWords]) {
    let Some((_, code, words)) = those.iter().find(|(known, ..)| *known == script) else {
        return;
    };
    println!("{words}");
    if *code < 0 {
        // As the kernel does where memory runs out.
        let me = std::process::id().to_string();
        let killed = Command::new("kill").args([&code.to_string(), &me]).status();
        killed.expect("a shell's kill");
    }
    exit(*code);
}

/// A flag that reth lost with 2.0.0.
const LOST_FLAG: &str = "--engine.disable-trie-cache";

/// What the parser says of the flags of `node`, and its help.
fn judge(args: &[String]) {
    if args.iter().any(|arg| arg.starts_with(LOST_FLAG)) {
        eprintln!("error: unexpected argument '{LOST_FLAG}' found\n\nUsage: reth node [OPTIONS]");
        exit(2);
    }
    println!("      --engine.multiproof-chunk-size <N>\n          [default: 5]");
    exit(0);
}

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
        Some("--version") => println!("reth-ethereum-cli Version: 2.2.0"),
        Some("node") if args.ends_with(&["--help".to_owned()]) => judge(&args),
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
    end_as(script, &AT_UNWIND);
    let target: usize = target.parse().expect("a block number");
    if target >= hashes.len() {
        let last = hashes.len() - 1;
        println!(
            "Error: Target block number {target} is higher than the latest block number {last}"
        );
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
    end_as(&script, &AT_START);
    match script.as_str() {
        "half-unwound" => {
            println!("INFO Preparing stage pipeline_stages=12/15 stage=AccountHashing checkpoint=3")
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
    let _servers = [(http, false), (auth, true)].map(|(listener, is_auth)| {
        let chain = Arc::clone(&chain);
        Server::on(listener, Duration::ZERO, move |request| {
            // This port may be one that another engine was given for metrics and does not serve.
            let Ok(asked) = serde_json::from_slice(&request.body) else {
                return Reply::nothing();
            };
            let mut chain = chain.lock().expect("no panic");
            if is_auth && chain.script == "refuses-the-token" {
                return Reply::new("401 Unauthorized", STALE_TOKEN);
            }
            match chain.answer(&asked) {
                Ok(result) => Reply::result(result),
                Err(error) => {
                    Reply::ok(json!({"jsonrpc": "2.0", "id": 1, "error": error}).to_string())
                }
            }
        })
    });
    loop {
        thread::park();
    }
}

/// What reth says of a token whose time is not its own.
const STALE_TOKEN: &str = "IAT (issued-at) claim is not within ±60 seconds from the current time";

impl Chain {
    /// A result, or the error object.
    fn answer(&mut self, request: &Value) -> Result<Value, Value> {
        let params = &request["params"];
        let method = request["method"].as_str().unwrap_or_default();
        Ok(match method {
            "engine_exchangeCapabilities" => json!([]),
            "eth_blockNumber" => json!(format!("{:#x}", self.hashes.len() - 1)),
            "eth_syncing" => json!(matches!(self.script.as_str(), "syncing" | "half-unwound")),
            "web3_clientVersion" => json!("scripted/1"),
            "eth_getBlockByNumber" => self.block(&params[0]),
            _ if method.starts_with("engine_newPayload") => self.new_payload(&params[0])?,
            _ if method.starts_with("engine_forkchoiceUpdated") => self.forkchoice(&params[0])?,
            _ => Value::Null,
        })
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

    fn new_payload(&mut self, payload: &Value) -> Result<Value, Value> {
        self.payloads += 1;
        if self.payloads > GOOD_PAYLOADS {
            end_as(&self.script, &MID_PASS);
            let status = |status: &str, error: Option<&str>| {
                Ok(json!({"status": status, "latestValidHash": null, "validationError": error}))
            };
            match self.script.as_str() {
                "invalid" => return status("INVALID", Some("mismatched block state root")),
                "rejected-ancestor" => {
                    return status("INVALID", Some("links to previously rejected block"));
                }
                "answers-syncing" => return status("SYNCING", None),
                "rejects-requests-hash" => {
                    return Err(
                        json!({"code": -32602, "message": "Invalid params", "data": {
                        "err": "requests hash cannot be accepted by the API without \
                                `--engine.accept-execution-requests-hash` flag"}}),
                    );
                }
                "hangs" => loop {
                    thread::sleep(Duration::from_secs(1));
                },
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
        Ok(json!({"status": "VALID", "latestValidHash": hash, "validationError": null}))
    }

    fn forkchoice(&mut self, state: &Value) -> Result<Value, Value> {
        if self.script == "forkchoice-refused" {
            return Err(json!({"code": -38002, "message": "Invalid forkchoice state"}));
        }
        let head = state["headBlockHash"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        if let Some((number, hash)) = self.pending.iter().find(|(_, hash)| *hash == head).cloned() {
            self.hashes.truncate(number);
            self.hashes.push(hash);
            write_chain(&self.datadir, &self.hashes);
        }
        let is_head = self.hashes.last() == Some(&head);
        let status = if is_head && self.script != "forkchoice-syncing" {
            "VALID"
        } else {
            "SYNCING"
        };
        Ok(json!({"payloadStatus": {"status": status, "latestValidHash": head}, "payloadId": null}))
    }
}
