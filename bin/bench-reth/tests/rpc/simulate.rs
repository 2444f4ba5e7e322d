//! Simulated blocks: a copy of a real block has its roots, and messages are told of as specified.

use crate::{FIRST_IN_MEMORY, Reader, TRUNK, hex, list, trunk};
use serde_json::{Value, json};

const SENDER: &str = "0x00000000000000000000000000000000005e0de5";
const HEIR: &str = "0x000000000000000000000000000000000000f001";
/// Passes on what it is sent to [`HEIR`].
const FORWARDS: &str = "0x5f5f5f5f3473000000000000000000000000000000000000f0015af100";
/// The same, and reverts.
const REVERTS: &str = "0x5f5f5f5f3473000000000000000000000000000000000000f0015af15f5ffd";
/// Passes it on to a contract it creates.
const CREATES: &str = "0x5f5f34f000";
/// Leaves it to [`HEIR`].
const DESTROYS: &str = "0x73000000000000000000000000000000000000f001ff";
/// Answers with the block's base fee.
const BASE_FEE: &str = "0x485f5260205ff3";
/// Answers with the hash of the block whose number it is sent.
const BLOCK_HASH: &str = "0x5f35405f5260205ff3";

/// The request that makes `block` anew, transaction by transaction.
fn copy_of(block: &Value, validation: bool) -> Value {
    let call = |transaction: &Value| {
        let fields = [
            "from",
            "to",
            "gas",
            "value",
            "input",
            "nonce",
            "maxFeePerGas",
            "maxPriorityFeePerGas",
        ];
        fields
            .into_iter()
            .map(|field| (field.to_owned(), transaction[field].clone()))
            .collect::<Value>()
    };
    let calls: Vec<Value> = list(&block["transactions"]).iter().map(call).collect();
    json!({
        "blockStateCalls": [{
            "blockOverrides": {
                "time": block["timestamp"],
                "gasLimit": block["gasLimit"],
                "feeRecipient": block["miner"],
                "prevRandao": block["mixHash"],
                "baseFeePerGas": block["baseFeePerGas"],
                "beaconRoot": block["parentBeaconBlockRoot"],
                "withdrawals": block["withdrawals"],
            },
            "calls": calls,
        }],
        "validation": validation,
    })
}

#[test]
fn a_copy_of_a_block_has_its_roots() {
    let reader = trunk();
    // On the genesis, far and near below the database's head, on it, and in memory.
    for number in [1, 10, FIRST_IN_MEMORY - 1, FIRST_IN_MEMORY, TRUNK] {
        let block = reader.ask("eth_getBlockByNumber", json!([hex(number), true]));
        let receipts = reader.ask("eth_getBlockReceipts", json!([hex(number)]));
        for validation in [false, true] {
            let request = copy_of(&block, validation);
            let copy = &reader.ask("eth_simulateV1", json!([request, hex(number - 1)]))[0];
            for field in [
                "number",
                "parentHash",
                "stateRoot",
                "receiptsRoot",
                "logsBloom",
                "gasUsed",
                "blobGasUsed",
                "excessBlobGas",
                "requestsHash",
                "withdrawalsRoot",
                "timestamp",
                "parentBeaconBlockRoot",
            ] {
                assert_eq!(copy[field], block[field], "{field} of block {number}");
            }
            for (call, receipt) in list(&copy["calls"]).iter().zip(list(&receipts)) {
                assert_eq!(call["gasUsed"], receipt["gasUsed"]);
                assert_eq!(call["status"], receipt["status"]);
                assert_eq!(places(&call["logs"]), places(&receipt["logs"]));
            }
        }
    }
}

/// Logs as far as they do not depend on the hashes of block and transactions.
fn places(logs: &Value) -> Vec<[Value; 5]> {
    let fields = ["address", "topics", "data", "logIndex", "transactionIndex"];
    let logs = list(logs).iter();
    logs.map(|log| fields.map(|field| log[field].clone()))
        .collect()
}

/// Accounts with code, and a rich sender.
fn accounts(codes: &[(&str, &str)]) -> Value {
    let mut accounts = json!({ SENDER: {"balance": "0xde0b6b3a7640000"} });
    for (address, code) in codes {
        accounts[*address] = json!({ "code": code });
    }
    accounts
}

#[test]
fn ether_that_moves_is_logged_unless_it_is_taken_back() {
    let reader = Reader::at(1);
    let contracts = [
        ("0x000000000000000000000000000000000000f010", FORWARDS),
        ("0x000000000000000000000000000000000000f011", REVERTS),
        ("0x000000000000000000000000000000000000f012", CREATES),
        ("0x000000000000000000000000000000000000f013", DESTROYS),
    ];
    let call = |to: &&(&str, &str)| json!({"from": SENDER, "to": to.0, "value": "0x5"});
    let calls: Vec<Value> = contracts.iter().map(|to| call(&to)).collect();
    let request = |traced| {
        json!({
            "blockStateCalls": [{"stateOverrides": accounts(&contracts), "calls": calls}],
            "traceTransfers": traced,
        })
    };
    let traced = &reader.ask("eth_simulateV1", json!([request(true)]))[0];
    let moved: Vec<Vec<(String, String)>> = list(&traced["calls"])
        .iter()
        .map(|call| list(&call["logs"]).iter().map(ends).collect())
        .collect();
    let pair = |from: &str, to: &str| (from.to_owned(), to.to_owned());
    let [forwards, _, creates, destroys] = contracts.map(|contract| contract.0);
    // The first contract that one with nonce 0 creates.
    let created = moved[2][1].1.clone();
    assert_eq!(
        moved,
        [
            vec![pair(SENDER, forwards), pair(forwards, HEIR)],
            vec![],
            vec![pair(SENDER, creates), pair(creates, &created)],
            vec![pair(SENDER, destroys), pair(destroys, HEIR)],
        ]
    );
    assert_eq!(traced["calls"][1]["error"]["code"], 3);
    let untraced = &reader.ask("eth_simulateV1", json!([request(false)]))[0];
    assert!(
        list(&untraced["calls"])
            .iter()
            .all(|call| call["logs"] == json!([]))
    );
    // Pseudo-logs are in no receipt and no bloom.
    assert_eq!(untraced["hash"], traced["hash"]);
}

/// Sender and receiver of a logged transfer.
fn ends(log: &Value) -> (String, String) {
    assert_eq!(log["address"], "0xeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee");
    assert_eq!(log["data"], format!("{:#066x}", 5));
    let end = |topic: &Value| format!("0x{}", &topic.as_str().unwrap()[26..]);
    (end(&log["topics"][1]), end(&log["topics"][2]))
}

#[test]
fn blocks_stand_on_each_other_and_see_what_was_asked_for() {
    let reader = Reader::at(1);
    let contracts = [
        ("0x000000000000000000000000000000000000f020", BASE_FEE),
        ("0x000000000000000000000000000000000000f021", BLOCK_HASH),
    ];
    let base_fee = json!({"to": contracts[0].0});
    let hash_of_3 = json!({"to": contracts[1].0, "input": format!("{:#066x}", 3)});
    let request = json!({"blockStateCalls": [
        {"stateOverrides": accounts(&contracts), "calls": [base_fee]},
        {"blockOverrides": {"number": "0x4", "baseFeePerGas": "0x7"}, "calls": [base_fee, hash_of_3]},
    ]});
    let blocks = reader.ask("eth_simulateV1", json!([request]));
    let blocks = list(&blocks);
    let numbers: Vec<&Value> = blocks.iter().map(|block| &block["number"]).collect();
    assert_eq!(numbers, ["0x2", "0x3", "0x4"]);
    for pair in blocks.windows(2) {
        assert_eq!(pair[1]["parentHash"], pair[0]["hash"]);
    }
    let returned = |block: usize, call: usize| blocks[block]["calls"][call]["returnData"].clone();
    assert_eq!(returned(0, 0), format!("{:#066x}", 0));
    assert_eq!(returned(2, 0), format!("{:#066x}", 7));
    assert_eq!(returned(2, 1), blocks[1]["hash"]);
    assert_eq!(blocks[2]["baseFeePerGas"], "0x7");
}

#[test]
#[expect(clippy::too_many_lines, reason = "one table of requests")]
fn what_cannot_be_simulated_has_its_code() {
    let reader = Reader::at(1);
    let one = |block: Value| json!({"blockStateCalls": [block], "validation": false});
    let checked = |call: Value| {
        json!({
            "blockStateCalls": [{"stateOverrides": accounts(&[]), "calls": [call]}],
            "validation": true,
        })
    };
    let precompile = |to: &str, more: Value| {
        let mut overrides = json!({
            "0x0000000000000000000000000000000000000001": {"movePrecompileToAddress": to},
        });
        overrides
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        one(json!({ "stateOverrides": overrides }))
    };
    let priced = |nonce: &str, gas: &str| json!({"from": SENDER, "to": HEIR, "nonce": nonce, "gas": gas, "maxFeePerGas": "0x2540be400"});
    for (request, code, reason) in [
        (json!({"blockStateCalls": []}), -32602, "empty input"),
        (json!({}), -32602, "empty input"),
        (
            json!({"blockStateCalls": vec![json!({}); 257]}),
            -38026,
            "too many blocks",
        ),
        (
            one(json!({"blockOverrides": {"number": "0x102"}})),
            -38026,
            "too many blocks",
        ),
        (
            one(json!({"calls": vec![json!({}); 5001]})),
            -38026,
            "5001 > 5000",
        ),
        (
            one(json!({"blockOverrides": {"number": "0x1"}})),
            -38020,
            "1 <= 1",
        ),
        (
            one(json!({"blockOverrides": {"time": "0x0"}})),
            -38021,
            "must be in order",
        ),
        (checked(priced("0x1", "0x5208")), -38011, "tx: 1 state: 0"),
        (
            checked(json!({"from": SENDER, "to": HEIR})),
            -38012,
            "less than block base fee",
        ),
        (
            checked(priced("0x0", "0x5207")),
            -38013,
            "have 20999, want 21000",
        ),
        (
            one(json!({"calls": [{"from": SENDER, "to": HEIR, "value": "0x1"}]})),
            -38014,
            "have 0 want 1",
        ),
        (
            one(
                json!({"blockOverrides": {"gasLimit": "0x5207"}, "calls": [{"gas": "0x5208", "to": HEIR}]}),
            ),
            -38015,
            "remaining: 20999, required: 21000",
        ),
        (
            one(json!({"calls": [{"input": format!("0x{}", "00".repeat(49_153))}]})),
            -38025,
            "max initcode size exceeded",
        ),
        (
            precompile("0x0000000000000000000000000000000000000001", json!({})),
            -38022,
            "moved to itself",
        ),
        (
            precompile(HEIR, json!({HEIR: {}})),
            -32000,
            "is already overridden",
        ),
        (
            one(json!({"stateOverrides": {HEIR: {"movePrecompileToAddress": SENDER}}})),
            -32000,
            "is not a precompile",
        ),
        (
            one(json!({"stateOverrides": {HEIR: {"state": {}, "stateDiff": {}}}})),
            -32000,
            "both 'state' and 'stateDiff'",
        ),
        (
            one(json!({"calls": [{"to": HEIR, "gasPrice": "0x1", "maxFeePerGas": "0x1"}]})),
            -32000,
            "both gasPrice and",
        ),
    ] {
        let error = reader
            .node
            .public("eth_simulateV1", json!([request]))
            .unwrap_err();
        let message = error["message"].as_str().unwrap();
        assert_eq!(error["code"], code, "{request}: {message}");
        assert!(message.contains(reason), "{request}: {message}");
    }
    let unknown = reader
        .node
        .public("eth_simulateV1", json!([one(json!({})), "0x9"]));
    assert_eq!(unknown.unwrap_err()["code"], -32000);
}
