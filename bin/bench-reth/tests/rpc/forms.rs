//! The forms of answers, field by field. The chain is the same everywhere, so answers are too.

use crate::{FIRST_IN_MEMORY, Reader, WRITER, hex, trunk};
use serde_json::{Value, json};

/// The answer as it is recorded: long data cut, so that the form stays in sight.
fn recorded(reader: &Reader, method: &str, params: Value) -> String {
    let mut answer = reader.ask(method, params);
    cut(&mut answer);
    serde_json::to_string_pretty(&answer).unwrap()
}

fn cut(value: &mut Value) {
    match value {
        Value::String(text) if text.len() > 70 => {
            *text = format!("{}… {} characters", &text[..10], text.len());
        }
        Value::Array(values) => values.iter_mut().for_each(cut),
        Value::Object(fields) => fields.values_mut().for_each(cut),
        _ => {}
    }
}

#[test]
fn blocks_transactions_and_receipts() {
    let reader = trunk();
    let block = hex(FIRST_IN_MEMORY);
    for (name, method, params) in [
        ("genesis", "eth_getBlockByNumber", json!(["0x0", true])),
        ("block", "eth_getBlockByNumber", json!([block, false])),
        ("header", "eth_getHeaderByNumber", json!([block])),
        (
            "payment",
            "eth_getTransactionByBlockNumberAndIndex",
            json!([block, "0x5"]),
        ),
        (
            "creation",
            "eth_getTransactionByBlockNumberAndIndex",
            json!([block, "0xa"]),
        ),
        (
            "logs",
            "eth_getLogs",
            json!([{"fromBlock": block, "toBlock": block}]),
        ),
    ] {
        insta::assert_snapshot!(name, recorded(&reader, method, params));
    }
    for (name, index) in [("payment_receipt", "0x5"), ("creation_receipt", "0xa")] {
        let place = json!([block, index]);
        let transaction = reader.ask("eth_getTransactionByBlockNumberAndIndex", place);
        let hash = json!([transaction["hash"]]);
        insta::assert_snapshot!(name, recorded(&reader, "eth_getTransactionReceipt", hash));
    }
}

#[test]
fn state_proofs_and_settings() {
    let reader = trunk();
    let absent = format!("{:#042x}", 0xdead);
    for (name, method, params) in [
        (
            "proof",
            "eth_getProof",
            json!([WRITER, ["0x1", format!("{:#066x}", 1)], "latest"]),
        ),
        (
            "proof_of_absence",
            "eth_getProof",
            json!([absent, ["0x0"], "latest"]),
        ),
        (
            "storage_values",
            "eth_getStorageValues",
            json!([{WRITER: [format!("{:#066x}", 1)]}]),
        ),
        ("config", "eth_config", json!([])),
        ("capabilities", "eth_capabilities", json!([])),
        ("node_info", "admin_nodeInfo", json!([])),
    ] {
        insta::assert_snapshot!(name, recorded(&reader, method, params));
    }
    for (method, expected) in [
        ("net_version", json!("1337")),
        ("eth_chainId", json!("0x539")),
        ("eth_syncing", json!(false)),
        ("eth_accounts", json!([])),
        ("net_listening", json!(false)),
        ("net_peerCount", json!("0x0")),
    ] {
        assert_eq!(reader.ask(method, json!([])), expected, "{method}");
    }
    // keccak-256 of nothing.
    let empty = "0xc5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470";
    assert_eq!(reader.ask("web3_sha3", json!(["0x"])), empty);
}
