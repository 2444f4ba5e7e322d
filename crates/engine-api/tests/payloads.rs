//! Payload files and folders: both schemas are read, and every defect is told with its file.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use alloy_primitives::B256;
use engine_api::{PayloadFile, PayloadSet};
use serde_json::{Value, json};
use std::{fs, path::Path};

fn hash(n: u64) -> B256 {
    B256::from(alloy_primitives::U256::from(n + 1_000))
}

fn payload_json(number: u64) -> Value {
    json!({
        "parentHash": hash(number - 1), "feeRecipient": format!("0x{}", "00".repeat(20)),
        "stateRoot": hash(0), "receiptsRoot": hash(0), "logsBloom": format!("0x{}", "00".repeat(256)),
        "prevRandao": B256::ZERO, "blockNumber": format!("{number:#x}"), "gasLimit": "0x3b9aca00",
        "gasUsed": "0x5208", "timestamp": format!("{:#x}", number * 12), "extraData": "0x",
        "baseFeePerGas": "0x7", "blockHash": hash(number), "transactions": ["0x02ab"],
        "withdrawals": [], "blobGasUsed": "0x0", "excessBlobGas": "0x0",
    })
}

fn big_block(number: u64) -> Value {
    json!({
        "executionPayload": payload_json(number), "blockValue": "0x0",
        "blobsBundle": { "commitments": [], "proofs": [], "blobs": [] },
        "shouldOverrideBuilder": false, "executionRequests": ["0x00aa"],
    })
}

fn gas_ramp(number: u64, version: u8) -> Value {
    let params = json!([payload_json(number), [], B256::ZERO, []]);
    json!({ "version": version, "block_hash": hash(number), "params": params })
}

fn folder(files: &[(&str, String)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, content) in files {
        fs::write(dir.path().join(name), content).unwrap();
    }
    dir
}

/// The error of opening a folder with these files, without the folder's own path.
fn open_error(files: &[(&str, String)]) -> String {
    let dir = folder(files);
    let error = PayloadSet::open(dir.path()).unwrap_err().to_string();
    let path = dir.path().display().to_string();
    error.replace(&format!("{path}/"), "").replace(&path, "DIR")
}

fn prepare(value: &Value) -> engine_api::PreparedPayload {
    let path = Path::new("payload_block_5.json");
    PayloadFile::parse(path, value.to_string().as_bytes())
        .unwrap()
        .prepare(path)
        .unwrap()
}

#[test]
fn both_schemas_are_prepared_for_the_wire() {
    let payloads = [prepare(&big_block(5)), prepare(&gas_ramp(5, 4))];
    for (payload, requests) in payloads.into_iter().zip([json!(["0x00aa"]), json!([])]) {
        assert_eq!(
            (payload.number, payload.hash, payload.parent_hash),
            (5, hash(5), hash(4))
        );
        assert_eq!(
            (payload.gas_used, payload.gas_limit),
            (21_000, 1_000_000_000)
        );
        assert_eq!((payload.transaction_count, payload.timestamp), (1, 60));
        assert_eq!(payload.state_root, hash(0));
        let body: Value = serde_json::from_slice(&payload.new_payload).unwrap();
        let params = json!([payload_json(5), [], B256::ZERO, requests]);
        let expected = json!({
            "jsonrpc": "2.0", "id": 1, "method": "engine_newPayloadV4", "params": params
        });
        assert_eq!(body, expected);
        let body: Value = serde_json::from_slice(&payload.forkchoice).unwrap();
        let state = json!({
            "headBlockHash": hash(5), "safeBlockHash": hash(4), "finalizedBlockHash": hash(4)
        });
        assert_eq!(body["method"], "engine_forkchoiceUpdatedV3");
        assert_eq!(body["params"], json!([state, null]));
    }
}

#[test]
fn a_gas_ramp_names_its_own_versions() {
    for (version, forkchoice) in [(1, 1), (2, 2), (3, 3), (4, 3), (5, 4)] {
        let payload = prepare(&gas_ramp(5, version));
        assert_eq!(
            payload.new_payload_method,
            format!("engine_newPayloadV{version}")
        );
        assert_eq!(
            payload.forkchoice_method,
            format!("engine_forkchoiceUpdatedV{forkchoice}")
        );
    }
}

#[test]
fn blob_transactions_give_their_versioned_hashes() {
    use alloy_consensus::{SignableTransaction, TxEip4844};
    use alloy_eips::eip2718::Encodable2718;
    let transaction = TxEip4844 {
        blob_versioned_hashes: vec![hash(1), hash(2)],
        ..Default::default()
    };
    let raw = transaction
        .into_signed(alloy_primitives::Signature::test_signature())
        .encoded_2718();
    let mut value = big_block(5);
    value["executionPayload"]["transactions"] = json!([alloy_primitives::Bytes::from(raw)]);
    let body: Value = serde_json::from_slice(&prepare(&value).new_payload).unwrap();
    assert_eq!(body["params"][1], json!([hash(1), hash(2)]));
}

#[test]
fn files_are_written_as_they_are_read() {
    let dir = tempfile::tempdir().unwrap();
    for value in [big_block(5), gas_ramp(5, 4)] {
        let path = dir.path().join(PayloadFile::name(5));
        let file = PayloadFile::parse(&path, value.to_string().as_bytes()).unwrap();
        file.write(&path).unwrap();
        assert_eq!(PayloadFile::read(&path).unwrap(), file);
        let written: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        assert_eq!(written, value);
    }
}

#[test]
fn a_folder_is_a_chain_in_the_order_of_numbers() {
    let numbers = [11, 9, 10];
    let mut files: Vec<(String, String)> = numbers
        .map(|n| (PayloadFile::name(n), big_block(n).to_string()))
        .into();
    files.push(("manifest.json".into(), "{}".into()));
    files.push(("README".into(), "text".into()));
    files.push((".hidden.json".into(), "text".into()));
    let files: Vec<_> = files.iter().map(|(n, c)| (n.as_str(), c.clone())).collect();
    let dir = folder(&files);
    let set = PayloadSet::open(dir.path()).unwrap();
    let found: Vec<u64> = set
        .payloads()
        .iter()
        .map(|payload| payload.number)
        .collect();
    assert_eq!(found, [9, 10, 11]);
    assert_eq!((set.base(), set.gas_used()), ((8, hash(8)), 63_000));
}

fn check_errors(cases: Vec<(Vec<(&str, String)>, &str)>) {
    for (files, expected) in cases {
        let error = open_error(&files);
        assert!(
            error.starts_with(expected),
            "{error:?}\nshould begin\n{expected:?}"
        );
    }
}

#[test]
fn every_defect_of_a_file_is_told_with_its_name() {
    let good = big_block(5).to_string();
    let merged = json!({ "execution_data": {}, "big_block_data": {} }).to_string();
    let mut ramp = gas_ramp(5, 4);
    ramp["block_hash"] = json!(hash(6));
    let invalid = json!({ "executionPayload": {} }).to_string();
    let cases = [
        (
            good[..300].into(),
            "is truncated: its JSON ends too early, at line 1 column 300",
        ),
        (String::new(), "is truncated"),
        ("not json".into(), "is not a JSON object: "),
        (
            "{}".into(),
            "is not a payload file: it has neither \"executionPayload\" nor",
        ),
        (merged, "is a merged big block of reth-bench 2.x"),
    ];
    for (content, expected) in cases {
        let expected = format!("payload_block_5.json {expected}");
        check_errors(vec![(vec![("payload_block_5.json", content)], &expected)]);
    }
    let cases = [
        (invalid, "missing field"),
        (
            gas_ramp(5, 9).to_string(),
            "version 9 is not between 1 and 5",
        ),
        (ramp.to_string(), "block_hash is"),
    ];
    for (content, expected) in cases {
        let expected = format!("the payload in payload_block_5.json is not valid: {expected}");
        check_errors(vec![(vec![("payload_block_5.json", content)], &expected)]);
    }
}

#[test]
fn every_defect_of_a_folder_is_told() {
    let (five, six, eight) = (
        "payload_block_5.json",
        "payload_block_6.json",
        "payload_block_8.json",
    );
    let good = big_block(5).to_string();
    let merged = json!({ "execution_data": {}, "big_block_data": {} }).to_string();
    let mut orphan = big_block(6);
    orphan["executionPayload"]["parentHash"] = json!(hash(77));
    let empty = "the folder DIR holds no payload_block_<N>.json file; it holds";
    check_errors(vec![
        (vec![], &format!("{empty} nothing")),
        (
            ["a", "b", "c", "d"].map(|n| (n, "".into())).into(),
            &format!("{empty} a, b, c and 1 more"),
        ),
        (
            vec![("genesis.json", "{}".into())],
            "genesis.json does not belong in a payload folder",
        ),
        (
            vec![("big_block_1_to_9.json", merged)],
            "big_block_1_to_9.json is a merged big block of reth-bench 2.x",
        ),
        (
            vec![(six, good.clone())],
            "payload_block_6.json holds block 5",
        ),
        (
            vec![(five, good.clone()), (eight, big_block(8).to_string())],
            "DIR has no payload for block 6, between block 5 and block 8",
        ),
        (
            vec![(five, good), (six, orphan.to_string())],
            "payload_block_6.json builds on block 0x",
        ),
    ]);
    let missing = PayloadSet::open(Path::new("no-such-folder"))
        .unwrap_err()
        .to_string();
    assert!(missing.starts_with("failed to list the payload folder no-such-folder: "));
}
