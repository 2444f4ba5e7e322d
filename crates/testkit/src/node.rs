//! A running `bench-reth` on a tiny chain, and how to talk to it: small words for the tests.

use crate::{Pipe, Running, Signal, built, http};
use alloy_consensus::TxEnvelope;
use alloy_eips::eip7685::Requests;
use alloy_primitives::{B256, Bytes};
use alloy_rpc_types_engine::{
    CancunPayloadFields, ExecutionPayload, ExecutionPayloadSidecar, PraguePayloadFields,
};
use engine_api::jwt::{JwtSecret, unix_time_s};
use serde_json::{Value, json};
use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};
use tempfile::TempDir;

/// Thirty-two zero bytes.
pub const ZERO: &str = "0x0000000000000000000000000000000000000000000000000000000000000000";
/// The account every test block pays a withdrawal of one gwei to.
pub const PAID: &str = "0x00000000000000000000000000000000000000aa";

/// A datadir on a tiny Prague chain.
#[derive(Debug)]
pub struct World {
    /// The folder with everything in it.
    pub folder: TempDir,
}

impl Default for World {
    fn default() -> Self {
        Self::new()
    }
}

impl World {
    /// A folder with the genesis file of [`tiny_genesis`].
    pub fn new() -> Self {
        let world = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        std::fs::write(world.genesis(), tiny_genesis().to_string()).unwrap();
        world
    }

    /// The genesis file.
    pub fn genesis(&self) -> PathBuf {
        self.folder.path().join("genesis.json")
    }

    /// The datadir, which the first command makes.
    pub fn datadir(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Runs a command to its end, with this world's datadir.
    pub fn run(&self, arguments: &[&str]) -> Output {
        let mut command = program();
        command.args(arguments).arg("--datadir").arg(self.datadir());
        command.output().unwrap()
    }

    /// Starts a node with ports chosen by the system and waits until it is ready.
    pub fn node(&self, flags: &[&str]) -> Node {
        self.node_of(program(), flags)
    }

    /// The same with a command that ends as the program: with an environment, or within limits.
    pub fn node_of(&self, mut command: Command, flags: &[&str]) -> Node {
        command
            .args([
                "node",
                "--with-unused-ports",
                "--color",
                "never",
                "--http",
                "--ws",
            ])
            .args(flags)
            .arg("--chain")
            .arg(self.genesis())
            .arg("--datadir")
            .arg(self.datadir());
        if !flags.contains(&"--http.api") {
            command.args(["--http.api", "eth,net,web3,testing", "--ws.api", "eth,reth"]);
        }
        command.env_remove("RUST_LOG");
        Node::ready(Running::start(&mut command), &self.datadir())
    }
}

/// The program, logging as it does by itself.
pub fn program() -> Command {
    let mut command = Command::new(built("bench-reth"));
    command.env_remove("RUST_LOG");
    command
}

/// A node that answers. It is killed when dropped.
#[derive(Debug)]
pub struct Node {
    /// Its process.
    pub process: Running,
    /// `host:port` of the authenticated server.
    pub auth: String,
    /// The same of the public one.
    pub http: String,
    /// The same of the WebSocket.
    pub ws: String,
    /// What it logged until it was ready, line by line.
    pub log: Vec<String>,
    /// The secret of the authenticated server.
    pub secret: JwtSecret,
}

impl Node {
    /// Reads the log until the node says that it is ready.
    fn ready(process: Running, datadir: &Path) -> Self {
        let log = process.lines_until(Pipe::Out, "Starting consensus engine");
        let url = |message: &str| {
            let line = log.iter().find(|line| line.contains(message)).unwrap();
            line.rsplit_once("url=").unwrap().1.to_owned()
        };
        let (auth, http) = (
            url("RPC auth server started"),
            url("RPC HTTP server started"),
        );
        let ws = url("RPC WS server started");
        let secret = JwtSecret::read(&datadir.join("jwt.hex")).unwrap();
        Self {
            process,
            auth,
            http,
            ws,
            log,
            secret,
        }
    }

    /// Calls a method of the public server.
    pub fn public(&self, method: &str, params: Value) -> Result<Value, Value> {
        http::call(&self.http, &[], method, &params)
    }

    /// A fresh `authorization` header line.
    pub fn token(&self) -> String {
        format!("authorization: Bearer {}", self.secret.mint(unix_time_s()))
    }

    /// Calls a method of the auth server with a fresh token.
    pub fn engine(&self, method: &str, params: Value) -> Result<Value, Value> {
        http::call(&self.auth, &[&self.token()], method, &params)
    }

    /// The head's block.
    pub fn head(&self) -> Value {
        self.public("eth_getBlockByNumber", json!(["latest", false]))
            .unwrap()
    }

    /// The balance of an account at the head.
    pub fn balance(&self, address: &str) -> Value {
        self.public("eth_getBalance", json!([address, "latest"]))
            .unwrap()
    }

    /// Builds a block on the head that pays one gwei to [`PAID`].
    pub fn build(&self) -> Value {
        let params = json!([self.head()["hash"], self.attributes(), [], null]);
        self.public("testing_buildBlockV1", params).unwrap()
    }

    /// Attributes of a block on the head.
    pub fn attributes(&self) -> Value {
        let timestamp = self.head()["timestamp"].as_str().unwrap().to_owned();
        let timestamp = u64::from_str_radix(&timestamp[2..], 16).unwrap() + 12;
        json!({
            "timestamp": format!("{timestamp:#x}"),
            "prevRandao": ZERO,
            "suggestedFeeRecipient": PAID,
            "withdrawals": [{"index": "0x0", "validatorIndex": "0x0", "address": PAID, "amount": "0x1"}],
            "parentBeaconBlockRoot": ZERO,
        })
    }

    /// Sends a block; gives its status.
    pub fn new_payload(&self, envelope: &Value) -> Value {
        self.try_new_payload(envelope).unwrap()
    }

    /// The same; an error answer is the error.
    pub fn try_new_payload(&self, envelope: &Value) -> Result<Value, Value> {
        let params = json!([
            envelope["executionPayload"],
            [],
            ZERO,
            envelope["executionRequests"]
        ]);
        self.engine("engine_newPayloadV4", params)
    }

    /// Makes a block the head; gives the answer.
    pub fn forkchoice(&self, head: &Value) -> Value {
        let state =
            json!({"headBlockHash": head, "safeBlockHash": ZERO, "finalizedBlockHash": ZERO});
        self.engine("engine_forkchoiceUpdatedV3", json!([state, null]))
            .unwrap()
    }

    /// Makes `count` blocks the head, one after another.
    pub fn advance(&self, count: usize) {
        for _ in 0..count {
            let envelope = self.build();
            assert_eq!(self.new_payload(&envelope)["status"], "VALID");
            let updated = self.forkchoice(&envelope["executionPayload"]["blockHash"]);
            assert_eq!(updated["payloadStatus"]["status"], "VALID");
        }
    }

    /// Sends SIGTERM, waits for the end, and gives the exit code and what was logged.
    pub fn terminate(self) -> (Option<i32>, String) {
        self.process.signal(Signal::SIGTERM);
        let ended = self.process.end();
        (ended.code, ended.stdout)
    }

    /// Kills it.
    pub fn kill(&mut self) {
        self.process.kill();
    }
}

/// What a command wrote to standard error.
pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The RLP of a built block.
pub fn block_rlp(envelope: &Value) -> Vec<u8> {
    let payload: ExecutionPayload =
        serde_json::from_value(envelope["executionPayload"].clone()).unwrap();
    let requests: Vec<Bytes> =
        serde_json::from_value(envelope["executionRequests"].clone()).unwrap();
    let sidecar = ExecutionPayloadSidecar::v4(
        CancunPayloadFields::new(B256::ZERO, vec![]),
        PraguePayloadFields::new(Requests::new(requests)),
    );
    let block = payload
        .try_into_block_with_sidecar::<TxEnvelope>(&sidecar)
        .unwrap();
    alloy_rlp::encode(block)
}

/// Prague from the start, with the system contracts the fork demands.
pub fn tiny_genesis() -> Value {
    use alloy_eips::{eip2935, eip4788, eip7002, eip7251};
    let contract =
        |code: &dyn ToString| json!({"balance": "0x0", "nonce": "0x1", "code": code.to_string()});
    json!({
        "config": {
            "chainId": 1337, "homesteadBlock": 0, "eip150Block": 0, "eip155Block": 0,
            "eip158Block": 0, "byzantiumBlock": 0, "constantinopleBlock": 0, "petersburgBlock": 0,
            "istanbulBlock": 0, "berlinBlock": 0, "londonBlock": 0, "mergeNetsplitBlock": 0,
            "terminalTotalDifficulty": 0, "terminalTotalDifficultyPassed": true,
            "shanghaiTime": 0, "cancunTime": 0, "pragueTime": 0,
            "depositContractAddress": "0x00000000219ab540356cBB839Cbe05303d7705Fa",
            "blobSchedule": {
                "cancun": {"target": 3, "max": 6, "baseFeeUpdateFraction": 3338477},
                "prague": {"target": 6, "max": 9, "baseFeeUpdateFraction": 5007716},
            },
        },
        "nonce": "0x0", "timestamp": "0x1", "extraData": "0x", "gasLimit": "0x1c9c380",
        "difficulty": "0x0", "mixHash": ZERO, "coinbase": "0x0000000000000000000000000000000000000000",
        "alloc": {
            eip4788::BEACON_ROOTS_ADDRESS.to_string(): contract(&eip4788::BEACON_ROOTS_CODE),
            eip2935::HISTORY_STORAGE_ADDRESS.to_string(): contract(&eip2935::HISTORY_STORAGE_CODE),
            eip7002::WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS.to_string():
                contract(&eip7002::WITHDRAWAL_REQUEST_PREDEPLOY_CODE),
            eip7251::CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS.to_string():
                contract(&eip7251::CONSOLIDATION_REQUEST_PREDEPLOY_CODE),
        },
    })
}
