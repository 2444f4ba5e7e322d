//! Calls, estimates, the pool, built blocks and witnesses, asked for over HTTP as a user asks.

#![expect(
    clippy::unwrap_used,
    reason = "a failure here fails the test that called"
)]

#[path = "../support/mod.rs"]
mod support;
mod witness;

use alloy_primitives::{Address, B256, Bytes, U256, hex, keccak256};
use clap::Parser as _;
use node::{
    cli::{Cli, Commands, resolve},
    rpc::{self, RunningServers, ServersConfig},
};
use serde_json::{Value, json};
use support::{Fork, Net, STORE, address_of, attributes, sender, state, store, transfer};
use testkit::http;

/// A chain with a public server.
struct Node {
    net: Net,
    servers: RunningServers,
}

impl Node {
    fn start(fork: Fork) -> Self {
        let net = Net::new(fork);
        let line = "bench-reth node --datadir unused --http --with-unused-ports \
                    --http.api eth,debug,txpool,testing,net,web3,rpc";
        let cli = Cli::try_parse_from(line.split_whitespace()).unwrap();
        let Commands::Node(args) = cli.command else {
            panic!("not the node command");
        };
        let flags = resolve::node(*args).unwrap();
        let config = ServersConfig {
            auth: None,
            http: flags.http,
            ws: None,
            public_limits: flags.public_limits,
            methods: flags.methods,
        };
        let servers = rpc::start(net.engine.clone(), config).unwrap();
        Self { net, servers }
    }

    /// The whole answer.
    async fn ask(&self, method: &str, params: Value) -> Value {
        let (address, method) = (self.servers.http.unwrap(), method.to_owned());
        let call = move || http::call_raw(&address.to_string(), &[], &method, &params);
        tokio::task::spawn_blocking(call).await.unwrap().unwrap()
    }

    async fn result(&self, method: &str, params: Value) -> Value {
        let mut answer = self.ask(method, params.clone()).await;
        assert!(answer.get("error").is_none(), "{method} {params}: {answer}");
        answer["result"].take()
    }

    /// Code and message of the error.
    async fn error(&self, method: &str, params: Value) -> (i64, String) {
        let answer = self.ask(method, params.clone()).await;
        let error = &answer["error"];
        assert!(error.is_object(), "{method} {params}: {answer}");
        let message = error["message"].as_str().unwrap().to_owned();
        (error["code"].as_i64().unwrap(), message)
    }

    async fn send(&self, transaction: &Bytes) -> Value {
        self.result("eth_sendRawTransaction", json!([transaction]))
            .await
    }

    async fn status(&self) -> (Value, Value) {
        let mut status = self.result("txpool_status", json!([])).await;
        (status["pending"].take(), status["queued"].take())
    }
}

/// Code that returns the word `expression` leaves on the stack.
fn returning(expression: &str) -> String {
    format!("0x{expression}60005260206000f3")
}

const CONTRACT: Address = Address::repeat_byte(0xcc);

/// `eth_call` of code that is put in place by an override.
async fn run(node: &Node, code: &str, more: Value) -> Value {
    let mut request = json!({"to": CONTRACT});
    request
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    node.ask(
        "eth_call",
        json!([request, "latest", {CONTRACT.to_string(): {"code": code}}]),
    )
    .await
}

fn word(value: u64) -> Value {
    json!(B256::from(U256::from(value)))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_sees_what_it_is_told_to_see() {
    let node = Node::start(Fork::Osaka);
    let request = json!({"to": CONTRACT});
    let code = |expression: &str| json!({CONTRACT.to_string(): {"code": returning(expression)}});
    let with = |expression: &str, field: &str, value: Value| {
        let mut accounts = code(expression);
        accounts[CONTRACT.to_string()][field] = value;
        accounts
    };
    let slot = |value| json!({B256::ZERO.to_string(): word(value)});
    for (overrides, block, expected) in [
        (code("43"), json!({}), word(0)),
        (code("43"), json!({"number": "0x99"}), word(0x99)),
        (code("42"), json!({"time": "0x7"}), word(7)),
        (code("45"), json!({"gasLimit": "0x5"}), word(5)),
        (code("600054"), json!({}), word(0)),
        (with("600054", "state", slot(5)), json!({}), word(5)),
        (with("600054", "stateDiff", slot(6)), json!({}), word(6)),
        (with("47", "balance", json!("0x8")), json!({}), word(8)),
        (code("48"), json!({"baseFeePerGas": "0x9"}), word(0)),
    ] {
        let params = json!([request, "latest", overrides, block]);
        assert_eq!(
            node.result("eth_call", params.clone()).await,
            expected,
            "{params}"
        );
    }
    // sha256 at another address, and nothing where it was.
    let moved = Address::repeat_byte(0x77);
    let sha256 = Address::with_last_byte(2);
    let overrides = json!({sha256.to_string(): {"movePrecompileToAddress": moved}});
    let at = |to| json!([{"to": to, "input": "0x"}, "latest", overrides]);
    let hash = "0xe3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    assert_eq!(node.result("eth_call", at(moved)).await, hash);
    assert_eq!(node.result("eth_call", at(sha256)).await, "0x");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_fails_says_why() {
    let node = Node::start(Fork::Osaka);
    let reason = concat!(
        "6308c379a060e01b600052602060045260046024526362616421",
        "60e01b60445260646000fd"
    );
    let out_of_funds = json!({"value": "0x1", "from": CONTRACT});
    for (code, request, code_expected, message) in [
        ("0x60006000fd", json!({}), 3, "execution reverted"),
        (
            &*format!("0x{reason}"),
            json!({}),
            3,
            "execution reverted: bad!",
        ),
        ("0xfe", json!({}), -32000, "invalid opcode: INVALID"),
        (
            "0x0c",
            json!({}),
            -32000,
            "invalid opcode: opcode 0xc not defined",
        ),
        ("0x600056", json!({}), -32000, "invalid jump destination"),
        ("0x01", json!({}), -32000, "stack underflow (0 <=> 2)"),
        ("0x5b600056", json!({}), -32000, "out of gas"),
        (
            "0x",
            json!({"gas": "0x5207"}),
            -32000,
            "err: intrinsic gas too low: have 20999, want 21000 (supplied gas 20999)",
        ),
        (
            "0x",
            out_of_funds,
            -32000,
            "err: insufficient funds for gas * price + value: address \
             0xCcCCccccCCCCcCCCCCCcCcCccCcCCCcCcccccccC have 0 want 1 (supplied gas 50000000)",
        ),
        (
            "0x",
            json!({"input": "0x01", "data": "0x02"}),
            -32602,
            "both \"data\" and \"input\" are set and not equal; use \"input\" to pass call data",
        ),
    ] {
        let answer = run(&node, code, request.clone()).await;
        let error = &answer["error"];
        assert_eq!(error["code"], code_expected, "{code} {request}: {answer}");
        assert_eq!(error["message"], message, "{code} {request}");
        assert_eq!(error.get("data").is_some(), code_expected == 3, "{code}");
    }
}

async fn estimates_are_the_least_that_works(fork: Fork) -> Node {
    let node = Node::start(fork);
    let input = |slot: u64, value: u64| {
        let words = [B256::from(U256::from(slot)), B256::from(U256::from(value))];
        hex::encode_prefixed(words.concat())
    };
    // Fails when the contract it calls does: that gets all gas but a 64th, so the limit matters more
    // than the use.
    let forward = format!("0x6000600060006000600073{}5af115600157", hex::encode(STORE));
    for (request, overrides) in [
        (json!({"to": address_of(1), "value": "0x1"}), json!({})),
        (json!({"to": STORE, "input": input(1, 5)}), json!({})),
        (json!({"to": STORE, "input": input(0, 0)}), json!({})),
        (json!({"input": "0x60016000f3"}), json!({})),
        (
            json!({"to": CONTRACT}),
            json!({CONTRACT.to_string(): {"code": forward}}),
        ),
        (
            json!({"to": STORE, "input": format!("0x{}", "11".repeat(3_000))}),
            json!({}),
        ),
    ] {
        let mut request = request;
        request["from"] = json!(sender(0));
        let params = json!([request, "latest", overrides]);
        let estimate = node.result("eth_estimateGas", params.clone()).await;
        let gas = u64::from_str_radix(&estimate.as_str().unwrap()[2..], 16).unwrap();
        for (gas, works) in [(gas, true), (gas - 1, false)] {
            request["gas"] = json!(format!("{gas:#x}"));
            let answer = node
                .ask("eth_call", json!([request, "latest", overrides]))
                .await;
            assert_eq!(answer.get("result").is_some(), works, "{params}: {answer}");
        }
    }
    node
}

#[tokio::test(flavor = "multi_thread")]
async fn an_estimate_is_the_least_that_works_at_prague() {
    estimates_are_the_least_that_works(Fork::Prague).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_estimate_is_the_least_that_works_at_osaka() {
    let node = estimates_are_the_least_that_works(Fork::Osaka).await;
    let (code, message) = node
        .error("eth_estimateGas", json!([{"input": "0x5b600056"}]))
        .await;
    assert_eq!(
        (code, &*message),
        (-32000, "gas required exceeds allowance (16777216)")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_access_list_names_what_is_touched() {
    let node = Node::start(Fork::Osaka);
    let other = address_of(9);
    // Loads slot 1, and asks for the balances of `other` and of a precompile.
    let code = format!("0x60015460015073{}316004315050", hex::encode(other));
    let params = json!([{"to": CONTRACT}, "latest", {CONTRACT.to_string(): {"code": code}}]);
    let list = node.result("eth_createAccessList", params).await;
    let slot = B256::from(U256::from(1));
    let mut expected = [
        json!({"address": other, "storageKeys": []}),
        json!({"address": CONTRACT, "storageKeys": [slot]}),
    ];
    expected.sort_by_key(|item| item["address"].as_str().unwrap().to_owned());
    assert_eq!(list["accessList"], json!(expected));
    assert_eq!(list.get("error"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pool_refuses_what_cannot_be_mined() {
    let node = Node::start(Fork::Osaka);
    node.net
        .extend(node.net.head(), vec![transfer(0, 0, address_of(1), 1)])
        .await;
    let poor = transfer(0, 1, address_of(1), u64::MAX);
    node.send(&transfer(0, 1, address_of(2), 1)).await;
    for (transaction, code, part) in [
        (Bytes::from_static(&[2, 3]), -32602, "failed to decode"),
        (
            transfer(0, 0, address_of(1), 1),
            -32000,
            "nonce too low: next nonce 1, tx nonce 0",
        ),
        (transfer(0, 1, address_of(2), 1), -32000, "already known"),
        (poor, -32000, "replacement transaction underpriced"),
        (
            transfer(200, 0, address_of(1), 1),
            -32000,
            "insufficient funds",
        ),
    ] {
        let (got, message) = node
            .error("eth_sendRawTransaction", json!([transaction]))
            .await;
        assert_eq!(got, code, "{message}");
        assert!(message.contains(part), "{message} does not say {part}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_waits_is_mined_and_returns_after_a_reorg() {
    let node = Node::start(Fork::Osaka);
    let genesis = node.net.head();
    let waiting = [
        transfer(0, 0, address_of(1), 1),
        store(1, 0, 5, 6),
        transfer(0, 2, address_of(1), 1),
    ];
    let mut hashes = Vec::new();
    for transaction in &waiting {
        hashes.push(node.send(transaction).await);
    }
    assert_eq!(node.status().await, (json!("0x2"), json!("0x1")));
    let nonce = |tag: &'static str| {
        let params = json!([sender(0), tag]);
        node.result("eth_getTransactionCount", params)
    };
    assert_eq!(
        (nonce("latest").await, nonce("pending").await),
        (json!("0x0"), json!("0x1"))
    );
    let found = node
        .result("eth_getTransactionByHash", json!([hashes[0]]))
        .await;
    assert_eq!(found["blockHash"], Value::Null);
    assert_eq!(found["from"], json!(sender(0)));
    let content = node.result("txpool_contentFrom", json!([sender(0)])).await;
    assert_eq!(content["pending"]["0"]["hash"], hashes[0]);
    assert_eq!(content["queued"]["2"]["hash"], hashes[2]);

    // A block built for a fork choice takes what is pending.
    let updated = node
        .net
        .engine
        .fork_choice_updated(state(genesis), Some(attributes(12)))
        .await
        .unwrap();
    let built = node
        .net
        .engine
        .get_payload(updated.payload_id.unwrap())
        .await
        .unwrap();
    let block = built.block.into_block();
    assert_eq!(block.body.transactions.len(), 2);
    assert!(node.net.send(&block).await.is_valid());
    let mined = block.header.hash_slow();
    node.net.choose(mined).await;
    assert_eq!(node.status().await, (json!("0x0"), json!("0x1")));

    // The same height without them: they wait again.
    let other = node
        .net
        .extend(genesis, vec![transfer(7, 0, address_of(3), 1)])
        .await;
    assert_eq!(node.net.head(), other);
    assert_eq!(node.status().await, (json!("0x2"), json!("0x1")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_is_waited_for_until_it_is_in_a_block() {
    let node = Node::start(Fork::Osaka);
    let late = transfer(1, 0, address_of(1), 1);
    let answer = node
        .ask("eth_sendRawTransactionSync", json!([late, 1]))
        .await;
    assert_eq!(answer["error"]["code"], 4, "{answer}");
    assert_eq!(answer["error"]["data"], json!(keccak256(&late)));
    // It goes on waiting.
    assert_eq!(node.status().await, (json!("0x1"), json!("0x0")));

    let mined = transfer(0, 0, address_of(1), 1);
    let hash = keccak256(&mined);
    let sent = node.result("eth_sendRawTransactionSync", json!([mined]));
    let block = async {
        while node.status().await.0 != "0x2" {
            tokio::task::yield_now().await;
        }
        node.net.extend(node.net.head(), vec![mined.clone()]).await
    };
    let (receipt, block) = tokio::join!(sent, block);
    assert_eq!(receipt["transactionHash"], json!(hash));
    assert_eq!(receipt["blockHash"], json!(block));
    assert_eq!(receipt["status"], "0x1");
    // What cannot wait is refused like any other.
    let (code, message) = node
        .error("eth_sendRawTransactionSync", json!([mined]))
        .await;
    assert_eq!(code, -32000, "{message}");
}
