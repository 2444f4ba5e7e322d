//! A running `bench-reth` on a tiny chain, and how to talk to it: small words for the tests.

use alloy_consensus::TxEnvelope;
use alloy_eips::eip7685::Requests;
use alloy_primitives::{B256, Bytes};
use alloy_rpc_types_engine::{
    CancunPayloadFields, ExecutionPayload, ExecutionPayloadSidecar, PraguePayloadFields,
};
use engine_api::jwt::{JwtSecret, unix_time_s};
use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Output, Stdio},
    time::Duration,
};
use tempfile::TempDir;

pub(crate) const ZERO: &str = "0x0000000000000000000000000000000000000000000000000000000000000000";
/// The account every test block pays a withdrawal of one gwei to.
pub(crate) const PAID: &str = "0x00000000000000000000000000000000000000aa";

/// A datadir on a tiny Prague chain.
pub(crate) struct World {
    pub(crate) folder: TempDir,
}

impl World {
    pub(crate) fn new() -> Self {
        let world = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        std::fs::write(world.genesis(), tiny_genesis().to_string()).unwrap();
        world
    }

    pub(crate) fn genesis(&self) -> PathBuf {
        self.folder.path().join("genesis.json")
    }

    pub(crate) fn datadir(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Runs a command to its end, with this world's datadir.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bench-reth"));
        command.args(arguments).arg("--datadir").arg(self.datadir());
        command.env_remove("RUST_LOG").output().unwrap()
    }

    /// Starts a node with ports chosen by the system and waits until it is ready.
    pub(crate) fn node(&self, flags: &[&str]) -> Node {
        self.node_of(Command::new(env!("CARGO_BIN_EXE_bench-reth")), flags)
    }

    /// The same with a command that ends as the program: with an environment, or within limits.
    pub(crate) fn node_of(&self, mut command: Command, flags: &[&str]) -> Node {
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
        let command = command.env_remove("RUST_LOG").stdout(Stdio::piped());
        Node::ready(command.spawn().unwrap(), &self.datadir())
    }
}

/// A node that answers. It is killed when dropped.
pub(crate) struct Node {
    pub(crate) child: Child,
    pub(crate) auth: String,
    pub(crate) http: String,
    pub(crate) ws: String,
    pub(crate) log: Vec<String>,
    pub(crate) secret: JwtSecret,
    stdout: BufReader<ChildStdout>,
}

impl Node {
    /// Reads the log until the node says that it is ready.
    fn ready(mut child: Child, datadir: &Path) -> Self {
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut log = Vec::new();
        while !log
            .last()
            .is_some_and(|line: &String| line.contains("Starting consensus engine"))
        {
            let mut line = String::new();
            let read = stdout.read_line(&mut line).unwrap();
            assert_ne!(read, 0, "the node ended before it was ready: {log:#?}");
            log.push(line.trim_end().to_owned());
        }
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
            child,
            auth,
            http,
            ws,
            log,
            secret,
            stdout,
        }
    }

    /// Calls a method of the public server.
    pub(crate) fn public(&self, method: &str, params: Value) -> Result<Value, Value> {
        call(&self.http, None, method, params)
    }

    /// Calls a method of the auth server with a fresh token.
    pub(crate) fn engine(&self, method: &str, params: Value) -> Result<Value, Value> {
        let token = self.secret.mint(unix_time_s());
        call(&self.auth, Some(&format!("Bearer {token}")), method, params)
    }

    pub(crate) fn head(&self) -> Value {
        self.public("eth_getBlockByNumber", json!(["latest", false]))
            .unwrap()
    }

    pub(crate) fn balance(&self, address: &str) -> Value {
        self.public("eth_getBalance", json!([address, "latest"]))
            .unwrap()
    }

    /// Builds a block on the head that pays one gwei to [`PAID`].
    pub(crate) fn build(&self) -> Value {
        let params = json!([self.head()["hash"], self.attributes(), [], null]);
        self.public("testing_buildBlockV1", params).unwrap()
    }

    /// Attributes of a block on the head.
    pub(crate) fn attributes(&self) -> Value {
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

    pub(crate) fn new_payload(&self, envelope: &Value) -> Value {
        self.try_new_payload(envelope).unwrap()
    }

    /// The same; an error answer is the error.
    pub(crate) fn try_new_payload(&self, envelope: &Value) -> Result<Value, Value> {
        let params = json!([
            envelope["executionPayload"],
            [],
            ZERO,
            envelope["executionRequests"]
        ]);
        self.engine("engine_newPayloadV4", params)
    }

    pub(crate) fn forkchoice(&self, head: &Value) -> Value {
        let state =
            json!({"headBlockHash": head, "safeBlockHash": ZERO, "finalizedBlockHash": ZERO});
        self.engine("engine_forkchoiceUpdatedV3", json!([state, null]))
            .unwrap()
    }

    /// Makes `count` blocks the head, one after another.
    pub(crate) fn advance(&self, count: usize) {
        for _ in 0..count {
            let envelope = self.build();
            assert_eq!(self.new_payload(&envelope)["status"], "VALID");
            let updated = self.forkchoice(&envelope["executionPayload"]["blockHash"]);
            assert_eq!(updated["payloadStatus"]["status"], "VALID");
        }
    }

    /// Sends SIGTERM, waits for the end, and gives the exit code and what was logged.
    pub(crate) fn terminate(mut self) -> (Option<i32>, String) {
        let pid = self.child.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-TERM", &pid])
                .status()
                .unwrap()
                .success()
        );
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).unwrap();
        (self.child.wait().unwrap().code(), rest)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Calls a JSON-RPC method; the error object is the error.
pub(crate) fn call(
    address: &str,
    authorization: Option<&str>,
    method: &str,
    params: Value,
) -> Result<Value, Value> {
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let (status, body) = post(address, authorization, &request.to_string());
    assert_eq!(status, 200, "{method}: {body}");
    let mut answer: Value = serde_json::from_str(&body).unwrap();
    match answer.get("error") {
        Some(error) => Err(error.clone()),
        None => Ok(answer["result"].take()),
    }
}

/// Posts JSON and gives status and body.
pub(crate) fn post(address: &str, authorization: Option<&str>, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let authorization = authorization.map(|value| format!("authorization: {value}\r\n"));
    let head = format!(
        "POST / HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n{}\r\n",
        body.len(),
        authorization.unwrap_or_default()
    );
    stream
        .write_all(format!("{head}{body}").as_bytes())
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, body.to_owned())
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The RLP of a built block.
pub(crate) fn block_rlp(envelope: &Value) -> Vec<u8> {
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
pub(crate) fn tiny_genesis() -> Value {
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
