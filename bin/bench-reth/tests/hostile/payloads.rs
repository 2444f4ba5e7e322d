//! Payloads whose transactions are no transactions. The block hash is right each time, so that the
//! transaction itself has to be found wanting. One that decodes leaves the parent as the last valid
//! block.

use super::wire::assert_alive;
use alloy_consensus::{SignableTransaction, TxEip1559, TxEip4844, TxEnvelope, TxLegacy};
use alloy_eips::eip2718::Encodable2718;
use alloy_primitives::{Address, B256, Bytes, Signature, U256, hex};
use alloy_rpc_types_engine::{
    CancunPayloadFields, ExecutionPayload, ExecutionPayloadSidecar, PraguePayloadFields,
};
use serde_json::{Value, json};
use testkit::node::{Node, World, ZERO};

/// Half the order of the curve: the largest `s` a transaction may have.
const HALF_ORDER: U256 = U256::from_limbs([
    0xdfe9_2f46_681b_20a0,
    0x5d57_6e73_57a4_501d,
    0xffff_ffff_ffff_ffff,
    0x7fff_ffff_ffff_ffff,
]);

fn dynamic(r: U256, s: U256) -> Bytes {
    let transaction = TxEip1559 {
        chain_id: 1337,
        gas_limit: 21_000,
        max_fee_per_gas: 1 << 40,
        ..Default::default()
    };
    TxEnvelope::from(transaction.into_signed(Signature::new(r, s, false)))
        .encoded_2718()
        .into()
}

fn legacy(chain_id: Option<u64>) -> Bytes {
    let transaction = TxLegacy {
        chain_id,
        gas_limit: 21_000,
        gas_price: 1 << 40,
        ..Default::default()
    };
    TxEnvelope::from(transaction.into_signed(Signature::test_signature()))
        .encoded_2718()
        .into()
}

fn blobs(hashes: Vec<B256>) -> Bytes {
    let transaction = TxEip4844 {
        chain_id: 1337,
        gas_limit: 21_000,
        max_fee_per_gas: 1 << 40,
        max_fee_per_blob_gas: 1,
        to: Address::ZERO,
        blob_versioned_hashes: hashes,
        ..Default::default()
    };
    TxEnvelope::from(transaction.into_signed(Signature::test_signature()))
        .encoded_2718()
        .into()
}

/// Puts `transactions` into a built payload and gives it the hash that goes with them.
fn with_transactions(envelope: &Value, transactions: Vec<Bytes>) -> Value {
    let mut payload: ExecutionPayload =
        serde_json::from_value(envelope["executionPayload"].clone()).unwrap();
    *payload.transactions_mut() = transactions;
    let sidecar = ExecutionPayloadSidecar::v4(
        CancunPayloadFields::new(B256::ZERO, Vec::new()),
        PraguePayloadFields::new(alloy_eips::eip7685::Requests::default()),
    );
    let block = payload
        .clone()
        .into_block_with_sidecar_raw(&sidecar)
        .unwrap();
    let mut json = serde_json::to_value(&payload).unwrap();
    json["blockHash"] = json!(block.header.hash_slow());
    json
}

fn send(node: &Node, payload: &Value) -> Result<Value, Value> {
    node.engine("engine_newPayloadV4", json!([payload, [], ZERO, []]))
}

#[test]
fn a_transaction_that_is_none_makes_the_block_invalid() {
    let world = World::new();
    let node = world.node(&[]);
    node.advance(1);
    let envelope = node.build();
    let parent = envelope["executionPayload"]["parentHash"].clone();
    let one = U256::from(1);
    let good = dynamic(one, one);
    let (cut, longer) = (
        good.slice(..good.len() - 1),
        [&good[..], &[0]].concat().into(),
    );
    let bytes = |hex: &str| Bytes::from(hex::decode(hex).unwrap());
    let cases: Vec<(&str, Bytes)> = vec![
        ("empty", Bytes::new()),
        ("type 0 without a body", bytes("00")),
        ("type 2 without a body", bytes("02")),
        ("type 2 with an empty list", bytes("02c0")),
        ("type 5", [&[5], &good[1..]].concat().into()),
        ("type 127", [&[0x7f], &good[1..]].concat().into()),
        ("a bare number", bytes("80")),
        ("an empty list", bytes("c0")),
        ("a length beyond the end", bytes("f8ff")),
        ("a length beyond everything", bytes("02ffffffffffffffffff")),
        ("a length with leading zeros", bytes("f90001c0")),
        ("cut", cut),
        ("a byte more", longer),
        (
            "a number with a leading zero",
            bytes("c9820001808080808080808080"),
        ),
        ("no r", dynamic(U256::ZERO, one)),
        ("no s", dynamic(one, U256::ZERO)),
        ("an r beyond the curve", dynamic(U256::MAX, one)),
        ("a large s", dynamic(one, HALF_ORDER + one)),
        ("another chain", legacy(Some(1))),
        ("no money", legacy(None)),
        ("no blobs", blobs(Vec::new())),
        ("a hundred thousand zeros", vec![0; 100_000].into()),
        (
            "lists in lists",
            [vec![0xc1; 100_000], vec![0xc0]].concat().into(),
        ),
    ];
    for (name, transaction) in cases {
        let payload = with_transactions(&envelope, vec![transaction]);
        let status = send(&node, &payload).unwrap();
        assert_eq!(status["status"], "INVALID", "{name}: {status}");
        let reason = status["validationError"].as_str().unwrap();
        assert!(!reason.is_empty() && reason.len() < 500, "{name}: {reason}");
        // What does not decode is no block, so its claim to a parent counts for nothing.
        let known = match reason.contains("cannot be decoded") {
            true => &Value::Null,
            false => &parent,
        };
        assert_eq!(&status["latestValidHash"], known, "{name}: {status}");
        assert_eq!(
            send(&node, &payload).unwrap()["status"],
            "INVALID",
            "{name}"
        );
    }
    node.advance(1);
}

#[test]
fn a_million_transactions_are_refused_like_one() {
    let world = World::new();
    let node = world.node(&[]);
    let envelope = node.build();
    for transaction in [
        Bytes::new(),
        Bytes::from(vec![0xc0]),
        dynamic(U256::from(1), U256::from(1)),
    ] {
        let count = if transaction.len() > 1 {
            100_000
        } else {
            1_000_000
        };
        let payload = with_transactions(&envelope, vec![transaction; count]);
        assert_eq!(send(&node, &payload).unwrap()["status"], "INVALID");
    }
    assert_alive(&node);
    node.advance(1);
}

#[test]
fn what_is_no_payload_is_an_error_not_a_status() {
    let world = World::new();
    let node = world.node(&[]);
    let envelope = node.build();
    let payload = &envelope["executionPayload"];
    let with = |field: &str, value: Value| {
        let mut payload = payload.clone();
        payload[field] = value;
        payload
    };
    let without = |field: &str| {
        let mut payload = payload.clone();
        payload.as_object_mut().unwrap().remove(field);
        payload
    };
    for wrong in [
        json!(null),
        json!([]),
        json!("0x"),
        with("transactions", json!(null)),
        with("transactions", json!("0x")),
        with("transactions", json!([7])),
        with("transactions", json!([null])),
        with("transactions", json!(["0xzz"])),
        with("transactions", json!(["0x0"])),
        with("transactions", json!([["0x00"]])),
        with("gasLimit", json!("0x10000000000000000")),
        with("gasLimit", json!("-0x1")),
        with("gasLimit", json!({})),
        with("blockHash", json!("0x00")),
        with("logsBloom", json!("0x00")),
        with("feeRecipient", json!(ZERO)),
        with("withdrawals", json!([{}])),
        with("baseFeePerGas", json!(format!("0x1{}", "0".repeat(64)))),
        without("blockHash"),
        without("transactions"),
        without("stateRoot"),
        without("extraData"),
    ] {
        let error = send(&node, &wrong).unwrap_err();
        assert_eq!(error["code"], -32602, "{wrong}: {error}");
        let message = error["message"].as_str().unwrap();
        assert!(message.len() < 1000, "{message}");
    }
    assert_alive(&node);
}
