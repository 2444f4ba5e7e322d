//! One thing asked in different ways is one answer, wherever its block is.

use crate::{Reader, TRUNK, hex, list, trunk};
use alloy_primitives::{Bytes, keccak256};
use serde_json::{Value, json};

/// Blocks in the database, at its edge, and in memory.
const BLOCKS: [u64; 5] = [0, 1, 30, 44, TRUNK];

fn raw(value: &Value) -> Bytes {
    value.as_str().unwrap().parse().unwrap()
}

#[test]
fn transactions_and_receipts_are_where_their_block_says() {
    let reader = trunk();
    for number in BLOCKS {
        let block = reader.ask("eth_getBlockByNumber", json!([hex(number), true]));
        let hash = &block["hash"];
        assert_eq!(reader.ask("eth_getBlockByHash", json!([hash, true])), block);
        let receipts = reader.ask("eth_getBlockReceipts", json!([hash]));
        assert_eq!(
            reader.ask("eth_getBlockReceipts", json!([hex(number)])),
            receipts
        );
        let transactions = list(&block["transactions"]);
        let count = hex(transactions.len() as u64);
        let counts = [
            ("eth_getBlockTransactionCountByNumber", json!([hex(number)])),
            ("eth_getBlockTransactionCountByHash", json!([hash])),
        ];
        for (method, params) in counts {
            assert_eq!(reader.ask(method, params), count, "{method} {number}");
        }
        assert_eq!(list(&receipts).len(), transactions.len());
        for (index, transaction) in transactions.iter().enumerate() {
            let place = hex(index as u64);
            check_transaction(&reader, transaction, [&hex(number), hash, &place]);
            let receipt = reader.ask("eth_getTransactionReceipt", json!([transaction["hash"]]));
            assert_eq!(receipt, receipts[index]);
            assert_eq!(receipt["transactionIndex"], place);
        }
    }
}

fn check_transaction(reader: &Reader, transaction: &Value, [number, hash, index]: [&Value; 3]) {
    for (method, params) in [
        ("eth_getTransactionByHash", json!([transaction["hash"]])),
        (
            "eth_getTransactionByBlockNumberAndIndex",
            json!([number, index]),
        ),
        (
            "eth_getTransactionByBlockHashAndIndex",
            json!([hash, index]),
        ),
    ] {
        assert_eq!(reader.ask(method, params), *transaction, "{method}");
    }
    for (method, params) in [
        ("eth_getRawTransactionByHash", json!([transaction["hash"]])),
        (
            "eth_getRawTransactionByBlockNumberAndIndex",
            json!([number, index]),
        ),
        (
            "eth_getRawTransactionByBlockHashAndIndex",
            json!([hash, index]),
        ),
        ("debug_getRawTransaction", json!([transaction["hash"]])),
    ] {
        let encoded = raw(&reader.ask(method, params));
        assert_eq!(json!(keccak256(encoded)), transaction["hash"], "{method}");
    }
}

#[test]
fn raw_headers_and_blocks_have_the_hash_they_are_asked_by() {
    let reader = trunk();
    for number in BLOCKS {
        let block = reader.ask("eth_getBlockByNumber", json!([hex(number), false]));
        let header = raw(&reader.ask("debug_getRawHeader", json!([block["hash"]])));
        assert_eq!(json!(keccak256(&header)), block["hash"]);
        let encoded = raw(&reader.ask("debug_getRawBlock", json!([hex(number)])));
        assert_eq!(hex(encoded.len() as u64), block["size"]);
        // A block is a list that begins with its header.
        assert!(
            encoded[1..]
                .windows(header.len())
                .take(9)
                .any(|part| *part == *header)
        );
        let receipts = reader.ask("debug_getRawReceipts", json!([hex(number)]));
        assert_eq!(list(&receipts).len(), list(&block["transactions"]).len());
    }
}

#[test]
fn what_does_not_exist_is_null() {
    let reader = trunk();
    let nothing = format!("{:#066x}", 0xdead);
    let above = hex(TRUNK + 1);
    for (method, params) in [
        ("eth_getBlockByNumber", json!([above, false])),
        ("eth_getBlockByHash", json!([nothing, true])),
        ("eth_getBlockReceipts", json!([above])),
        ("eth_getBlockReceipts", json!([nothing])),
        ("eth_getBlockTransactionCountByNumber", json!([above])),
        ("eth_getBlockTransactionCountByHash", json!([nothing])),
        ("eth_getUncleCountByBlockNumber", json!([above])),
        ("eth_getUncleCountByBlockHash", json!([nothing])),
        ("eth_getUncleByBlockNumberAndIndex", json!(["0x1", "0x0"])),
        ("eth_getUncleByBlockHashAndIndex", json!([nothing, "0x0"])),
        ("eth_getTransactionByHash", json!([nothing])),
        (
            "eth_getTransactionByBlockNumberAndIndex",
            json!(["0x1", "0xb"]),
        ),
        (
            "eth_getTransactionByBlockNumberAndIndex",
            json!(["0x1", "0xffffffffffffffff"]),
        ),
        (
            "eth_getTransactionByBlockHashAndIndex",
            json!([nothing, "0x0"]),
        ),
        ("eth_getTransactionReceipt", json!([nothing])),
        ("debug_getRawReceipts", json!([above])),
    ] {
        assert_eq!(
            reader.ask(method, params.clone()),
            Value::Null,
            "{method} {params}"
        );
    }
    for (method, params) in [
        ("debug_getRawHeader", json!([above])),
        ("debug_getRawBlock", json!([above])),
        ("debug_getRawTransaction", json!([nothing])),
        (
            "eth_getRawTransactionByBlockNumberAndIndex",
            json!(["0x1", "0xb"]),
        ),
    ] {
        assert_eq!(
            reader.ask(method, params.clone()),
            "0x",
            "{method} {params}"
        );
    }
}

#[test]
fn tags_name_the_blocks_of_the_fork_choice() {
    let reader = trunk();
    for (tag, number) in [
        ("earliest", 0),
        ("latest", TRUNK),
        ("safe", TRUNK - 3),
        ("finalized", testkit::busy::FORK),
    ] {
        let block = reader.ask("eth_getBlockByNumber", json!([tag, false]));
        assert_eq!(block["number"], hex(number), "{tag}");
        let nonce = |block: Value| {
            let sender = &reader.ask(
                "eth_getTransactionByBlockNumberAndIndex",
                json!(["0x1", "0x0"]),
            )["from"];
            reader.ask("eth_getTransactionCount", json!([sender, block]))
        };
        assert_eq!(nonce(json!(tag)), hex(number * 11), "{tag}");
        assert_eq!(
            nonce(json!({"blockHash": block["hash"], "requireCanonical": true})),
            hex(number * 11)
        );
    }
}
