//! The real program as a user meets it: start, calls, signals, exit codes and error texts.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

#[path = "process/conduct.rs"]
mod conduct;

use engine_api::jwt::{JwtSecret, unix_time_s};
use serde_json::{Value, json};
use std::net::TcpListener;
use testkit::{
    http,
    node::{Node, PAID, World, ZERO, block_rlp, program, stderr},
};

/// Waits for something, which has to come within a test's patience.
fn in_time<T>(what: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let what = async { tokio::time::timeout(testkit::PATIENCE, what).await };
    runtime.block_on(what).expect("an end in time")
}

#[test]
fn the_auth_port_refuses_whatever_has_no_fresh_token() {
    let world = World::new();
    let node = world.node(&[]);
    let now = unix_time_s();
    let good = node.secret.mint(now);
    let (header_and_claims, signature) = good.rsplit_once('.').unwrap();
    let claims = header_and_claims.split_once('.').unwrap().1;
    // {"alg":"none","typ":"JWT"}
    let unsigned = format!("eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0.{claims}.");
    let reversed: String = signature.chars().rev().collect();
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":[]}"#;
    let bearer = |token: &str| Some(format!("Bearer {token}"));
    let post = |authorization: Option<&str>| {
        let header = authorization.map(|value| format!("authorization: {value}"));
        let headers: Vec<&str> = header.iter().map(String::as_str).collect();
        let answer = http::post_json(&node.auth, &headers, body).unwrap();
        (answer.status, answer.body)
    };
    for (authorization, expected) in [
        (None, "missing token"),
        (Some("Basic x".to_owned()), "missing token"),
        (bearer(&node.secret.mint(now - 120)), "stale token"),
        (bearer(&node.secret.mint(now + 120)), "future token"),
        (bearer(&unsigned), "invalid token"),
        (
            bearer(&JwtSecret::from_bytes([9; 32]).mint(now)),
            "invalid token",
        ),
        (
            bearer(&format!("{header_and_claims}.{reversed}")),
            "invalid token",
        ),
    ] {
        let answer = post(authorization.as_deref());
        assert_eq!(answer, (401, expected.to_owned()), "{authorization:?}");
    }
    let (status, answer) = post(bearer(&good).as_deref());
    assert_eq!((status, answer.contains("0x539")), (200, true), "{answer}");
}

#[test]
fn blocks_are_built_in_both_forms_validated_and_become_the_head() {
    let world = World::new();
    // The genesis block's, which the second form keeps and the first moves towards.
    let node = world.node(&["--builder.gaslimit", "30000000"]);
    let genesis = node.head();
    let positional = node.build();
    let object = json!([{
        "parentBlockHash": genesis["hash"],
        "payloadAttributes": node.attributes(),
        "transactions": [],
    }]);
    assert_eq!(
        node.public("testing_buildBlockV1", object).unwrap(),
        positional
    );
    assert_eq!(node.head(), genesis, "building must not move the head");
    assert_eq!(node.new_payload(&positional)["status"], "VALID");
    let hash = positional["executionPayload"]["blockHash"].clone();
    assert_eq!(
        node.forkchoice(&hash)["payloadStatus"]["latestValidHash"],
        hash
    );
    assert_eq!(node.head()["hash"], hash);
    assert_eq!(node.balance(PAID), "0x3b9aca00");
}

#[test]
fn requests_that_do_not_fit_get_the_specified_codes() {
    let world = World::new();
    let node = world.node(&[]);
    let envelope = node.build();
    let payload = &envelope["executionPayload"];
    let head = node.head()["hash"].clone();
    let state = json!({"headBlockHash": head, "safeBlockHash": ZERO, "finalizedBlockHash": ZERO});
    let unknown_safe = json!({"headBlockHash": head, "safeBlockHash": PAYLOAD_OF_NOBODY, "finalizedBlockHash": ZERO});
    let mut old = node.attributes();
    old["timestamp"] = json!("0x1");
    for (method, params, code) in [
        ("engine_newPayloadV3", json!([payload, [], ZERO]), -38005),
        ("engine_newPayloadV4", json!([payload, [], ZERO]), -32602),
        (
            "engine_newPayloadV4",
            json!([payload, [], ZERO, ZERO]),
            -32602,
        ),
        (
            "engine_newPayloadV4",
            json!([payload, [], ZERO, null]),
            -32602,
        ),
        (
            "engine_newPayloadV4",
            json!([payload, [], ZERO, ["0x00"]]),
            -32602,
        ),
        (
            "engine_forkchoiceUpdatedV3",
            json!([unknown_safe, null]),
            -38002,
        ),
        ("engine_forkchoiceUpdatedV3", json!([state, old]), -38003),
        (
            "engine_forkchoiceUpdatedV2",
            json!([state, node.attributes()]),
            -38003,
        ),
        ("engine_getPayloadV4", json!(["0x0000000000000001"]), -38001),
        (
            "engine_getPayloadBodiesByRangeV1",
            json!(["0x1", "0x401"]),
            -38004,
        ),
        (
            "engine_getPayloadBodiesByRangeV1",
            json!(["0x0", "0x1"]),
            -32602,
        ),
        ("engine_unknown", json!([]), -32601),
    ] {
        let error = node.engine(method, params.clone()).unwrap_err();
        assert_eq!(error["code"], code, "{method}: {error}");
    }
}

const PAYLOAD_OF_NOBODY: &str =
    "0x1111111111111111111111111111111111111111111111111111111111111111";

#[test]
fn a_payload_started_by_a_fork_choice_can_be_fetched() {
    let world = World::new();
    let node = world.node(&[]);
    let head = node.head()["hash"].clone();
    let state = json!({"headBlockHash": head, "safeBlockHash": ZERO, "finalizedBlockHash": ZERO});
    let updated = node
        .engine(
            "engine_forkchoiceUpdatedV3",
            json!([state, node.attributes()]),
        )
        .unwrap();
    let id = updated["payloadId"].clone();
    let envelope = node.engine("engine_getPayloadV4", json!([id])).unwrap();
    assert_eq!(envelope["executionPayload"]["parentHash"], head);
    assert_eq!(
        node.engine("engine_getPayloadV5", json!([id])).unwrap_err()["code"],
        -38005
    );
    assert_eq!(node.new_payload(&envelope)["status"], "VALID");
}

#[test]
fn a_wrong_state_root_is_invalid_and_names_the_parent() {
    let world = World::new();
    let node = world.node(&[]);
    let mut envelope = node.build();
    envelope["executionPayload"]["stateRoot"] = json!(ZERO);
    let status = node.new_payload(&envelope);
    assert_eq!(status["status"], "INVALID", "{status}");
}

#[test]
fn capabilities_identity_bodies_and_requests_hash() {
    let world = World::new();
    let node = world.node(&["--engine.accept-execution-requests-hash"]);
    let listed = node
        .engine("engine_exchangeCapabilities", json!([[]]))
        .unwrap();
    for method in [
        "engine_newPayloadV4",
        "engine_forkchoiceUpdatedV3",
        "engine_getPayloadV5",
    ] {
        assert!(
            listed.as_array().unwrap().contains(&json!(method)),
            "{method}"
        );
    }
    assert!(!listed.to_string().contains("exchangeCapabilities"));
    let identity = node
        .engine("engine_getClientVersionV1", json!([{}]))
        .unwrap();
    assert_eq!(identity[0]["name"], "bench-reth");

    let envelope = node.build();
    let requests_hash = node.head()["requestsHash"].clone();
    let params = json!([envelope["executionPayload"], [], ZERO, requests_hash]);
    assert_eq!(
        node.engine("engine_newPayloadV4", params).unwrap()["status"],
        "VALID"
    );
    let hash = envelope["executionPayload"]["blockHash"].clone();
    node.forkchoice(&hash);
    let body =
        json!({"transactions": [], "withdrawals": envelope["executionPayload"]["withdrawals"]});
    let by_range = node
        .engine("engine_getPayloadBodiesByRangeV1", json!(["0x1", "0x5"]))
        .unwrap();
    assert_eq!(by_range, json!([body]));
    let hashes = json!([[PAYLOAD_OF_NOBODY, hash]]);
    let by_hash = node
        .engine("engine_getPayloadBodiesByHashV1", hashes)
        .unwrap();
    assert_eq!(by_hash, json!([null, body]));
}

#[test]
fn reths_own_methods_carry_timings() {
    let world = World::new();
    let node = world.node(&[]);
    let envelope = node.build();
    let data = json!({
        "payload": envelope["executionPayload"],
        "sidecar": {
            "cancun": {"fields": {"parent_beacon_block_root": ZERO, "versioned_hashes": []}},
            "prague": {"fields": {"requests": []}},
        },
    });
    let status = node.engine("reth_newPayload", json!([data, false, false]));
    let status = status.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(status["status"], "VALID");
    let waits = ["execution_cache_wait_us", "sparse_trie_wait_us"];
    let has = |status: &Value, key| status[key].is_u64();
    for key in ["latency_us", "persistence_wait_us"] {
        assert!(has(&status, key), "{key}: {status}");
    }
    assert!(waits.iter().all(|key| !has(&status, key)), "{status}");
    let again = node.engine("reth_newPayload", json!([data])).unwrap();
    assert!(waits.iter().all(|key| has(&again, key)), "{again}");
    let hash = envelope["executionPayload"]["blockHash"].clone();
    let state = json!({"headBlockHash": hash, "safeBlockHash": ZERO, "finalizedBlockHash": ZERO});
    let updated = node
        .engine("reth_forkchoiceUpdated", json!([state]))
        .unwrap();
    assert_eq!(updated["payloadStatus"]["status"], "VALID");
}

#[test]
fn the_public_port_serves_only_the_namespaces_it_was_given() {
    let world = World::new();
    let node = world.node(&["--http.api", "web3,net,trace"]);
    assert!(
        node.log
            .iter()
            .any(|line| line.contains("--http.api trace has no effect"))
    );
    assert_eq!(node.public("net_version", json!([])).unwrap(), "1337");
    let version = node.public("web3_clientVersion", json!([])).unwrap();
    assert!(version.as_str().unwrap().starts_with("bench-reth/v"));
    for method in [
        "eth_blockNumber",
        "engine_newPayloadV4",
        "testing_buildBlockV1",
    ] {
        assert_eq!(
            node.public(method, json!([])).unwrap_err()["code"],
            -32601,
            "{method}"
        );
    }
}

#[test]
fn syncing_is_told_until_the_first_fork_choice_unless_idle_at_startup() {
    let world = World::new();
    let node = world.node(&[]);
    assert!(node.public("eth_syncing", json!([])).unwrap().is_object());
    node.forkchoice(&node.head()["hash"]);
    assert_eq!(node.public("eth_syncing", json!([])).unwrap(), false);
    node.terminate();
    let node = world.node(&["--debug.startup-sync-state-idle"]);
    assert_eq!(node.public("eth_syncing", json!([])).unwrap(), false);
}

#[test]
fn a_signal_persists_every_block_and_a_restart_continues_from_the_head() {
    let world = World::new();
    let node = world.node(&["--engine.persistence-threshold", "100"]);
    node.advance(5);
    let (head, balance) = (node.head(), node.balance(PAID));
    let (code, log) = node.terminate();
    assert_eq!(code, Some(0), "{log}");
    let node = world.node(&[]);
    assert_eq!((node.head(), node.balance(PAID)), (head, balance));
    node.advance(1);
    assert_eq!(node.head()["number"], "0x6");
}

#[test]
fn unwinding() {
    let world = World::new();
    let node = world.node(&[]);
    let genesis = node.head();
    node.advance(4);
    node.terminate();

    let above = world.run(&["stage", "unwind", "to-block", "5"]);
    assert_eq!(above.status.code(), Some(1));
    let text = "Error: Target block number 5 is higher than the latest block number 4\n";
    assert_eq!(stderr(&above), text);

    let two = world.run(&["stage", "unwind", "--offline", "to-block", "2"]);
    assert!(two.status.success(), "{}", stderr(&two));
    let node = world.node(&[]);
    assert_eq!(
        (&node.head()["number"], node.balance(PAID)),
        (&json!("0x2"), json!("0x77359400"))
    );
    node.advance(1);
    node.terminate();

    let zero = world.run(&["stage", "unwind", "num-blocks", "3"]);
    assert!(zero.status.success(), "{}", stderr(&zero));
    let node = world.node(&[]);
    assert_eq!((node.head(), node.balance(PAID)), (genesis, json!("0x0")));
}

#[test]
fn a_second_opener_is_refused_and_told_who_holds_the_datadir() {
    let world = World::new();
    let node = world.node(&[]);
    let second = world.run(&["stage", "unwind", "to-block", "0"]);
    assert_eq!(second.status.code(), Some(1));
    let owner = format!(
        "in use as read-write by another process: PID {}",
        node.process.id()
    );
    assert!(stderr(&second).contains(&owner), "{}", stderr(&second));
    let stats = world.run(&["db", "stats"]);
    assert!(
        String::from_utf8_lossy(&stats.stdout).contains("HashedAccounts"),
        "{}",
        stderr(&stats)
    );
}

#[test]
fn a_killed_node_leaves_a_datadir_that_opens() {
    let world = World::new();
    let mut node = world.node(&["--engine.persistence-threshold", "0"]);
    node.advance(1);
    node.kill();
    let node = world.node(&[]);
    node.advance(1);
}

#[test]
fn a_port_in_use_is_named_with_its_flag() {
    let world = World::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let genesis = world.genesis();
    for (flags, server, flag) in [
        (&["--authrpc.port"][..], "auth server", "--authrpc.port"),
        (
            &["--authrpc.port", "0", "--http", "--http.port"],
            "HTTP-RPC server",
            "--http.port",
        ),
        (
            &["--authrpc.port", "0", "--ws", "--ws.port"],
            "WS-RPC server",
            "--ws.port",
        ),
    ] {
        let chain = ["--chain", genesis.to_str().unwrap()];
        let arguments = [&["node"], flags, &[&port], &chain].concat();
        let output = world.run(&arguments);
        let expected = format!(
            "Error: address 127.0.0.1:{port} ({server}) is already in use (os error 98). Choose a \
             different port using {flag}\n"
        );
        assert_eq!((output.status.code(), stderr(&output)), (Some(1), expected));
    }
}

#[test]
fn a_bad_jwt_file_stops_the_start_before_anything_is_made() {
    let world = World::new();
    let file = world.folder.path().join("secret");
    for (content, expected) in [
        ("abcd", "4 hexadecimal digits"),
        ("not hexadecimal", "is not hexadecimal"),
    ] {
        std::fs::write(&file, content).unwrap();
        let (genesis, file) = (world.genesis(), file.to_str().unwrap());
        let chain = genesis.to_str().unwrap();
        let output = world.run(&["node", "--chain", chain, "--authrpc.jwtsecret", file]);
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains(expected) && text.contains(file), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(!world.datadir().exists());
    }
}

#[test]
fn a_datadir_of_another_chain_is_refused_with_both_hashes() {
    let world = World::new();
    let node = world.node(&[]);
    let hash = node.head()["hash"].as_str().unwrap().to_owned();
    node.terminate();
    let other = std::fs::read_to_string(world.genesis())
        .unwrap()
        .replace("0x1c9c380", "0x1c9c381");
    let file = world.folder.path().join("other.json");
    std::fs::write(&file, other).unwrap();
    let output = world.run(&[
        "node",
        "--chain",
        file.to_str().unwrap(),
        "--authrpc.port",
        "0",
    ]);
    assert_eq!(output.status.code(), Some(1));
    let text = stderr(&output);
    assert!(
        text.contains(&hash) && text.contains("chainspec is 0x"),
        "{text}"
    );
}

#[test]
fn commands_without_a_datadir_say_what_to_do() {
    for arguments in [
        &["node"][..],
        &["stage", "unwind", "to-block", "0"],
        &["init"],
    ] {
        let output = World::new().run(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(
            stderr(&output).contains("`init`"),
            "{arguments:?}: {}",
            stderr(&output)
        );
    }
}

#[test]
fn a_state_dump_becomes_a_datadir_of_the_same_chain() {
    let world = World::new();
    let root = world.node(&[]).head();
    let genesis: Value =
        serde_json::from_str(&std::fs::read_to_string(world.genesis()).unwrap()).unwrap();
    let mut dump = format!("{}\n", json!({"root": root["stateRoot"]}));
    for (address, account) in genesis["alloc"].as_object().unwrap() {
        let mut line = account.clone();
        line["address"] = json!(address);
        dump.push_str(&format!("{line}\n"));
    }
    let copy = World::new();
    let file = copy.folder.path().join("dump.jsonl");
    std::fs::write(&file, dump.replace("0x1\"", "0x2\"")).unwrap();
    let chain = copy.genesis();
    let arguments = [
        "init-state",
        "--chain",
        chain.to_str().unwrap(),
        file.to_str().unwrap(),
    ];
    let wrong = copy.run(&arguments);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(
        stderr(&wrong).contains("its accounts have 0x"),
        "{}",
        stderr(&wrong)
    );

    let copy = World::new();
    std::fs::write(copy.folder.path().join("dump.jsonl"), &dump).unwrap();
    let (chain, file) = (copy.genesis(), copy.folder.path().join("dump.jsonl"));
    let arguments = [
        "init-state",
        "--chain",
        chain.to_str().unwrap(),
        file.to_str().unwrap(),
    ];
    let made = copy.run(&arguments);
    assert!(made.status.success(), "{}", stderr(&made));
    assert_eq!(copy.node(&[]).head()["hash"], root["hash"]);
}

#[test]
fn a_chain_file_is_imported_up_to_the_first_bad_block() {
    let world = World::new();
    let node = world.node(&[]);
    let mut file = Vec::new();
    for _ in 0..4 {
        file.extend(block_rlp(&node.build()));
        node.advance(1);
    }
    let head = node.head();

    let copy = World::new();
    let path = copy.folder.path().join("chain.rlp");
    let (genesis, path) = (copy.genesis(), path.to_str().unwrap());
    let arguments = ["import", "--chain", genesis.to_str().unwrap(), path];
    std::fs::write(path, &file[..file.len() - 1]).unwrap();
    let cut = copy.run(&arguments);
    assert_eq!(cut.status.code(), Some(2));
    assert!(stderr(&cut).contains("ends within it"), "{}", stderr(&cut));
    let partial = copy.node(&[]);
    assert_eq!(partial.head()["number"], "0x3", "what was valid is kept");
    partial.terminate();

    std::fs::write(path, &file).unwrap();
    let whole = copy.run(&arguments);
    assert!(whole.status.success(), "{}", stderr(&whole));
    assert_eq!(copy.node(&[]).head(), head);
}

#[test]
fn saved_blocks_are_announced_on_the_websocket() {
    let world = World::new();
    let node = world.node(&["--engine.persistence-threshold", "1"]);
    in_time(async {
        let url = format!("ws://{}", node.ws);
        let mut persisted = engine_api::subscribe::subscribe_persisted(&url)
            .await
            .unwrap();
        let first = persisted.next().await.unwrap();
        assert_eq!(first.number, 0);
        node.advance(2);
        let next = persisted.wait_for(2).await.unwrap();
        assert_eq!(
            (next.number, json!(next.hash)),
            (2, node.head()["hash"].clone())
        );
    });
}

#[test]
fn an_unknown_flag_is_refused_with_a_suggestion() {
    let output = World::new().run(&["node", "--engine.multiproof-chunk-sise", "5"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("--engine.multiproof-chunk-size"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn the_help_text_is_the_recorded_one() {
    let output = program().args(["node", "-h"]).output();
    insta::assert_snapshot!(String::from_utf8(output.unwrap().stdout).unwrap());
}

#[test]
fn the_auth_port_also_serves_the_eth_methods_the_specification_demands() {
    let world = World::new();
    let node: Node = world.node(&[]);
    for (method, params) in [
        ("eth_blockNumber", json!([])),
        ("eth_chainId", json!([])),
        ("eth_syncing", json!([])),
        ("eth_getBlockByNumber", json!(["0x0", true])),
        ("eth_getBlockByHash", json!([node.head()["hash"], false])),
        ("eth_getCode", json!([PAID, "latest"])),
        ("eth_getLogs", json!([{"fromBlock": "0x0"}])),
        ("eth_call", json!([{"to": PAID}, "latest"])),
    ] {
        let answer = node.engine(method, params);
        assert!(answer.is_ok(), "{method}: {answer:?}");
    }
    let unknown = json!([{"to": PAID}, {"blockNumber": "0x63"}]);
    assert!(node.public("eth_call", unknown).is_err());
}
