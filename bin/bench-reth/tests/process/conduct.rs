//! The Engine API over HTTP: which code each request that does not fit gets, what is served where,
//! and what a restart remembers.

use serde_json::{Value, json};
use testkit::node::{Node, World, ZERO};

const NOBODY: &str = "0x1111111111111111111111111111111111111111111111111111111111111111";

fn code(answer: Result<Value, Value>) -> i64 {
    answer.unwrap_err()["code"].as_i64().unwrap()
}

/// A forkchoice state with markers.
fn choice(head: &Value, safe: &Value, finalized: &Value) -> Value {
    json!({"headBlockHash": head, "safeBlockHash": safe, "finalizedBlockHash": finalized})
}

fn block(node: &Node, tag: &str) -> Value {
    node.public("eth_getBlockByNumber", json!([tag, false]))
        .unwrap()
}

/// Calls without parameters tell a method that exists from one that does not.
fn exists(answer: Result<Value, Value>) -> bool {
    !matches!(&answer, Err(error) if error["code"] == -32601)
}

#[test]
fn a_payload_with_missing_null_or_extra_fields_is_refused() {
    let world = World::new();
    let node = world.node(&[]);
    let envelope = node.build();
    let send = |change: &dyn Fn(&mut Value)| {
        let mut payload = envelope["executionPayload"].clone();
        change(&mut payload);
        node.engine(
            "engine_newPayloadV4",
            json!([payload, [], ZERO, envelope["executionRequests"]]),
        )
    };
    let fields: Vec<String> = envelope["executionPayload"]
        .as_object()
        .unwrap()
        .keys()
        .cloned()
        .collect();
    assert_eq!(fields.len(), 17, "{fields:?}");
    for field in &fields {
        let removed = send(&|payload| {
            payload.as_object_mut().unwrap().remove(field);
        });
        assert_eq!(code(removed), -32602, "without {field}");
        assert_eq!(
            code(send(&|payload| payload[field] = Value::Null)),
            -32602,
            "{field} null"
        );
        assert_eq!(
            code(send(&|payload| payload[field] = json!("0xzz"))),
            -32602,
            "{field} junk"
        );
    }
    let amsterdam = send(&|payload| {
        payload["blockAccessList"] = json!("0xc0");
        payload["slotNumber"] = json!("0x1");
    });
    assert_eq!(code(amsterdam), -32602, "fields of a later fork");
    assert_eq!(send(&|_| {}).unwrap()["status"], "VALID");
}

#[test]
fn parameters_beside_the_payload_must_be_all_there_and_fit() {
    let world = World::new();
    let node = world.node(&[]);
    let payload = node.build()["executionPayload"].clone();
    for params in [
        json!([]),
        json!([payload]),
        json!([payload, [], ZERO]),
        json!([payload, null, ZERO, []]),
        json!([payload, [], null, []]),
        json!([payload, [], ZERO, null]),
        json!([payload, [], "0x00", []]),
        json!([payload, ["0x00"], ZERO, []]),
        json!([payload, [], ZERO, ["0x"]]),
        json!([payload, [], ZERO, ["0x00"]]),
        json!([payload, [], ZERO, ["0x0100", "0x0000"]]),
        json!([payload, [], ZERO, ["0x0000", "0x0001"]]),
        json!([payload, [], ZERO, [], []]),
    ] {
        let answer = node.engine("engine_newPayloadV4", params.clone());
        assert_eq!(
            code(answer),
            -32602,
            "{}",
            &params.to_string()[..40.min(params.to_string().len())]
        );
    }
    for (hashes, requests) in [(json!([NOBODY]), json!([])), (json!([]), json!(["0x0001"]))] {
        let answer = node.engine(
            "engine_newPayloadV4",
            json!([payload, hashes, ZERO, requests]),
        );
        let status = answer.unwrap();
        assert_eq!(
            (&status["status"], &status["latestValidHash"]),
            (&json!("INVALID"), &Value::Null)
        );
    }
}

#[test]
fn attributes_that_do_not_fit_are_refused_after_the_fork_choice_was_applied() {
    let world = World::new();
    let node = world.node(&[]);
    let changes: [(&str, Value, i64); 8] = [
        ("timestamp", json!("0x1"), -38003),
        ("timestamp", Value::Null, -38003),
        ("prevRandao", Value::Null, -38003),
        ("suggestedFeeRecipient", json!("0x00"), -38003),
        ("withdrawals", Value::Null, -38003),
        ("withdrawals", json!([{}]), -38003),
        ("parentBeaconBlockRoot", Value::Null, -38003),
        ("slotNumber", json!("0x1"), -38003),
    ];
    for (field, value, expected) in changes {
        let envelope = node.build();
        assert_eq!(node.new_payload(&envelope)["status"], "VALID");
        let head = &envelope["executionPayload"]["blockHash"];
        let mut attributes = node.attributes();
        attributes["timestamp"] = json!("0xffff");
        attributes[field] = value;
        let state = choice(head, &json!(ZERO), &json!(ZERO));
        let answer = node.engine("engine_forkchoiceUpdatedV3", json!([state, attributes]));
        assert_eq!(code(answer), expected, "{field}");
        assert_eq!(&node.head()["hash"], head, "{field}");
    }
    for state in [
        json!({}),
        json!({"headBlockHash": ZERO}),
        json!(null),
        json!([]),
    ] {
        let answer = node.engine("engine_forkchoiceUpdatedV3", json!([state, null]));
        assert_eq!(code(answer), -32602, "{state}");
    }
    // Attributes say nothing about a head that is not there.
    let unknown = choice(&json!(NOBODY), &json!(ZERO), &json!(ZERO));
    let answer = node.engine("engine_forkchoiceUpdatedV3", json!([unknown, {}]));
    assert_eq!(answer.unwrap()["payloadStatus"]["status"], "SYNCING");
}

#[test]
fn bodies_and_blobs_within_their_bounds() {
    let world = World::new();
    let node = world.node(&[]);
    node.advance(3);
    let many = |count: usize| json!([vec![NOBODY; count]]);
    for (method, params, expected) in [
        (
            "engine_getPayloadBodiesByRangeV1",
            json!(["0x1", "0x0"]),
            -32602,
        ),
        (
            "engine_getPayloadBodiesByRangeV1",
            json!(["0x0", "0x1"]),
            -32602,
        ),
        (
            "engine_getPayloadBodiesByRangeV1",
            json!(["0x1", "0x401"]),
            -38004,
        ),
        ("engine_getPayloadBodiesByRangeV1", json!(["0x1"]), -32602),
        ("engine_getPayloadBodiesByHashV1", many(1025), -38004),
        ("engine_getBlobsV1", many(129), -38004),
        ("engine_getBlobsV2", many(1), -38005),
        ("engine_getBlobsV3", many(1), -38005),
        ("engine_getPayloadV4", json!(["0x00000000000000ff"]), -38001),
        ("engine_getPayloadV4", json!(["0xff"]), -32602),
    ] {
        assert_eq!(code(node.engine(method, params)), expected, "{method}");
    }
    let count = |method, params| {
        node.engine(method, params)
            .unwrap()
            .as_array()
            .unwrap()
            .len()
    };
    assert_eq!(
        count("engine_getPayloadBodiesByRangeV1", json!(["0x2", "0x400"])),
        2
    );
    assert_eq!(
        count("engine_getPayloadBodiesByRangeV1", json!(["0x4", "0x1"])),
        0
    );
    assert_eq!(
        count("engine_getPayloadBodiesByRangeV1", json!(["0x1", "0x20"])),
        3
    );
    assert_eq!(count("engine_getPayloadBodiesByHashV1", many(1024)), 1024);
    assert_eq!(
        node.engine("engine_getBlobsV1", many(2)).unwrap(),
        json!([null, null])
    );
}

#[test]
fn capabilities_are_what_is_served_and_never_on_the_public_port() {
    let world = World::new();
    let node = world.node(&["--http.api", "all"]);
    let listed = node
        .engine("engine_exchangeCapabilities", json!([[]]))
        .unwrap();
    let listed: Vec<&str> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|name| name.as_str().unwrap())
        .collect();
    let versions = (1..=9).flat_map(|version| {
        [
            "newPayload",
            "forkchoiceUpdated",
            "getPayload",
            "getBlobs",
            "getPayloadBodiesByHash",
            "getPayloadBodiesByRange",
            "getClientVersion",
        ]
        .map(|method| format!("engine_{method}V{version}"))
    });
    for method in versions {
        let served = exists(node.engine(&method, json!([])));
        assert_eq!(served, listed.contains(&method.as_str()), "{method}");
        assert!(
            !exists(node.public(&method, json!([]))),
            "{method} on the public port"
        );
    }
    assert!(!exists(
        node.public("engine_exchangeCapabilities", json!([[]]))
    ));
}

#[test]
fn the_auth_port_serves_of_eth_only_what_the_specification_names() {
    let world = World::new();
    let node = world.node(&["--http.api", "all"]);
    for method in [
        "eth_getBalance",
        "eth_getTransactionCount",
        "eth_getBlockReceipts",
        "eth_gasPrice",
        "eth_accounts",
        "eth_getProof",
        "eth_estimateGas",
        "eth_feeHistory",
        "debug_getRawBlock",
        "debug_executionWitness",
        "net_version",
        "web3_clientVersion",
        "testing_buildBlockV1",
        "rpc_modules",
        "txpool_content",
        "admin_nodeInfo",
    ] {
        assert!(
            !exists(node.engine(method, json!([]))),
            "{method} on the auth port"
        );
    }
}

#[test]
fn a_side_chain_is_taken_and_left_again_below_the_database_head() {
    let world = World::new();
    let node = world.node(&["--engine.persistence-threshold", "0"]);
    let genesis = node.head();
    let side = {
        let mut attributes = node.attributes();
        attributes["suggestedFeeRecipient"] = json!("0x00000000000000000000000000000000000000bb");
        let params = json!([genesis["hash"], attributes, [], null]);
        node.public("testing_buildBlockV1", params).unwrap()
    };
    node.advance(4);
    let main = node.head();
    assert_eq!(node.new_payload(&side)["status"], "VALID");
    let side = side["executionPayload"]["blockHash"].clone();
    for head in [&side, &main["hash"], &side] {
        let status = node.forkchoice(head)["payloadStatus"].clone();
        assert_eq!(
            (&status["status"], &status["latestValidHash"]),
            (&json!("VALID"), head)
        );
        assert_eq!(&node.head()["hash"], head);
    }
    let (code, log) = node.terminate();
    assert_eq!(code, Some(0), "{log}");
    assert_eq!(world.node(&[]).head()["hash"], side);
}

#[test]
fn safe_and_finalized_outlive_a_kill() {
    let world = World::new();
    let mut node = world.node(&["--engine.persistence-threshold", "0"]);
    node.advance(4);
    let (finalized, safe, head) = (block(&node, "0x2"), block(&node, "0x3"), node.head());
    let state = choice(&head["hash"], &safe["hash"], &finalized["hash"]);
    let answer = node.engine("engine_forkchoiceUpdatedV3", json!([state, null]));
    assert_eq!(answer.unwrap()["payloadStatus"]["status"], "VALID");
    // The next blocks are persisted with the markers.
    node.advance(2);
    wait_until_persisted(&node, 5);
    node.kill();
    let node = world.node(&[]);
    assert_eq!(block(&node, "safe"), safe);
    assert_eq!(block(&node, "finalized"), finalized);
}

/// Returns once the database holds block `number`.
fn wait_until_persisted(node: &Node, number: u64) {
    crate::in_time(async {
        let url = format!("ws://{}", node.ws);
        let mut persisted = engine_api::subscribe::subscribe_persisted(&url)
            .await
            .unwrap();
        persisted.wait_for(number).await.unwrap();
    });
}
