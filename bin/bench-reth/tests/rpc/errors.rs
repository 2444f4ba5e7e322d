//! Requests that do not fit get the specified codes and are told why.

use crate::{CHAIN, Reader, WRITER, hex, list, trunk};
use serde_json::{Value, json};
use std::collections::BTreeSet;

#[track_caller]
fn check(reader: &Reader, method: &str, params: Value, code: i32, reason: &str) {
    let error = reader.node.public(method, params.clone()).unwrap_err();
    let message = error["message"].as_str().unwrap();
    assert_eq!(error["code"], code, "{method} {params}: {message}");
    assert!(message.contains(reason), "{method} {params}: {message}");
}

#[test]
#[expect(clippy::too_many_lines, reason = "one table of questions")]
fn malformed_parameters_are_shown_with_their_place() {
    let reader = Reader::at(1);
    let hash = &CHAIN.block(false, 1).unwrap().hash;
    for (method, params, reason) in [
        (
            "eth_getBlockByNumber",
            json!(["2", false]),
            "parameter 1 (block): hex string without 0x prefix",
        ),
        (
            "eth_getBlockByNumber",
            json!(["0x01", false]),
            "leading zero digits",
        ),
        (
            "eth_getBlockByNumber",
            json!(["0x10000000000000000", false]),
            "more than 64 bits",
        ),
        (
            "eth_getBlockByNumber",
            json!([1, false]),
            "invalid type: integer `1`",
        ),
        ("eth_getBlockByNumber", json!([]), "parameter 1 (block)"),
        (
            "eth_getBlockByNumber",
            json!(["latest", 1]),
            "parameter 2 (full)",
        ),
        (
            "eth_getBlockByNumber",
            json!(["latest", false, 1]),
            "more than 2 parameters",
        ),
        (
            "eth_getBlockByHash",
            json!(["0x12", false]),
            "1 bytes instead of 32",
        ),
        (
            "eth_getBalance",
            json!(["0x12", "latest"]),
            "parameter 1 (address): 1 bytes instead of 20",
        ),
        (
            "eth_getBalance",
            json!([WRITER, "newest"]),
            "parameter 2 (block)",
        ),
        (
            "eth_getBalance",
            json!([WRITER, {"blockHash": hash, "blockNumber": "0x1"}]),
            "both",
        ),
        (
            "eth_getTransactionByHash",
            json!([&hash[2..]]),
            "without 0x prefix",
        ),
        (
            "eth_getTransactionByBlockHashAndIndex",
            json!([hash, "0x00"]),
            "parameter 2 (index)",
        ),
        (
            "eth_getStorageAt",
            json!([WRITER, "0xasdf"]),
            "invalid hex in storage key: \"0xasdf\"",
        ),
        (
            "eth_getStorageAt",
            json!([WRITER, format!("0x{}", "0".repeat(65))]),
            "storage key too long",
        ),
        ("eth_getStorageValues", json!([{}]), "empty request"),
        (
            "eth_getProof",
            json!([WRITER, vec!["0x0"; 1025]]),
            "too many storage keys",
        ),
        ("debug_getRawBlock", json!(["2"]), "without 0x prefix"),
        (
            "eth_getLogs",
            json!([{"fromBlock": "0x1", "toBlock": "0x0"}]),
            "invalid block range",
        ),
        (
            "eth_getLogs",
            json!([{"fromBlock": "0x0", "toBlock": "0x2"}]),
            "beyond current head",
        ),
        ("eth_getLogs", json!([{"fromBlock": "pending"}]), "pending"),
        (
            "eth_getLogs",
            json!([{"blockHash": hash, "toBlock": "0x1"}]),
            "both blockHash",
        ),
        (
            "eth_getLogs",
            json!([{"topics": [null, null, null, null, null]}]),
            "more than 4 topics",
        ),
        ("web3_sha3", json!(["0x6"]), "odd length"),
    ] {
        check(&reader, method, params, -32602, reason);
    }
}

#[test]
fn unknown_blocks_methods_and_filters_have_their_codes() {
    let reader = Reader::at(1);
    let nothing = format!("{:#066x}", 0xdead);
    for (method, params, code, reason) in [
        (
            "eth_getBalance",
            json!([WRITER, "0x2"]),
            -32001,
            "block not found: 0x2",
        ),
        (
            "eth_getProof",
            json!([WRITER, [], nothing]),
            -32001,
            "block not found",
        ),
        (
            "eth_getLogs",
            json!([{"blockHash": nothing}]),
            -32001,
            "block not found",
        ),
        (
            "debug_getRawHeader",
            json!([nothing]),
            -32001,
            "block not found",
        ),
        (
            "eth_getFilterChanges",
            json!(["0x1"]),
            -32000,
            "filter not found",
        ),
        (
            "eth_getFilterLogs",
            json!(["nonsense"]),
            -32000,
            "filter not found",
        ),
        ("eth_noSuchMethod", json!([]), -32601, ""),
        // The fork choice named neither.
        (
            "eth_getBlockByNumber",
            json!(["safe", false]),
            -39001,
            "Unknown block",
        ),
        (
            "eth_getBalance",
            json!([WRITER, "finalized"]),
            -39001,
            "Unknown block",
        ),
    ] {
        check(&reader, method, params, code, reason);
    }
}

#[test]
fn a_block_of_a_side_chain_is_not_canonical() {
    let reader = trunk();
    let side = testkit::busy::FORK + 1;
    reader.send(true, side);
    let hash = &CHAIN.block(true, side).unwrap().hash;
    let block = reader.ask("eth_getBlockByHash", json!([hash, false]));
    assert_eq!(block["number"], hex(side));
    reader.ask("eth_getBalance", json!([WRITER, {"blockHash": hash}]));
    let canonical = json!([WRITER, {"blockHash": hash, "requireCanonical": true}]);
    check(
        &reader,
        "eth_getBalance",
        canonical,
        -32000,
        "not currently canonical",
    );
}

#[test]
fn each_port_serves_its_own_methods() {
    let reader = Reader::at(1);
    let modules = reader.ask("rpc_modules", json!([]));
    let names: BTreeSet<_> = modules
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    assert_eq!(
        names,
        ["admin", "debug", "eth", "net", "rpc", "web3"].into()
    );
    for method in [
        "engine_exchangeCapabilities",
        "testing_buildBlockV1",
        "txpool_status",
    ] {
        check(&reader, method, json!([]), -32601, "");
    }
    for method in [
        "eth_getBalance",
        "eth_getProof",
        "debug_getRawBlock",
        "net_version",
        "eth_newFilter",
    ] {
        let error = reader.node.engine(method, json!([])).unwrap_err();
        assert_eq!(error["code"], -32601, "{method}");
    }
    let logs = reader
        .node
        .engine("eth_getLogs", json!([{"fromBlock": "0x0"}]))
        .unwrap();
    assert_eq!(list(&logs).len(), 5);
}
