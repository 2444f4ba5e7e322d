//! Simulated blocks: geth must give the same answer to the same request, hashes and roots included.

use crate::{
    chain::{Chain, Fork},
    engines::{self, Engines, Port},
};
use serde_json::{Value, json};
use testkit::Tool;

const RICH: &str = "0x00000000000000000000000000000000000051c4";
const POOR: &str = "0x0000000000000000000000000000000000009004";
const CODE: &str = "0x000000000000000000000000000000000000c0de";
const ECRECOVER: &str = "0x0000000000000000000000000000000000000001";
/// Code that stores the time in slot 0, logs it, sends its value on, and answers with the base fee.
const BUSY: &str = "0x425f55425f525f60205fa05f5f5f5f3473000000000000000000000000000000000000beef5af150485f5260205ff3";

/// Requests, each with a name.
#[expect(clippy::too_many_lines, reason = "a table of requests")]
fn requests() -> Vec<(&'static str, Value)> {
    let rich = json!({"balance": "0xde0b6b3a7640000"});
    let accounts = json!({ RICH: rich, CODE: {"code": BUSY} });
    let pay = json!({"from": RICH, "to": POOR, "value": "0x5"});
    let run = json!({"from": RICH, "to": CODE, "value": "0x7"});
    let block = |calls: Value| json!({"stateOverrides": accounts, "calls": calls});
    let priced = |mut call: Value| {
        call["maxFeePerGas"] = json!("0x174876e800");
        call["maxPriorityFeePerGas"] = json!("0x1");
        call
    };
    let legacy = |mut call: Value| {
        call["gasPrice"] = json!("0x174876e800");
        call
    };
    let of = |blocks: Value| json!({ "blockStateCalls": blocks });
    let full = |mut request: Value| {
        request["traceTransfers"] = json!(true);
        request["validation"] = json!(true);
        request["returnFullTransactions"] = json!(true);
        request
    };
    let delegation = format!("0xef0100{}", &CODE[2..]);
    vec![
        ("empty", of(json!([{}]))),
        ("calls", of(json!([block(json!([pay, run, pay]))]))),
        (
            "blocks",
            of(json!([block(json!([run])), {"calls": [pay]}, {"calls": [run]}])),
        ),
        (
            "gap",
            of(json!([block(json!([])), {"blockOverrides": {"number": "0x6"}, "calls": [run]}])),
        ),
        (
            "validated",
            full(of(json!([block(json!([
                priced(pay.clone()),
                priced(run.clone())
            ]))]))),
        ),
        (
            "base fee",
            of(
                json!([{"blockOverrides": {"baseFeePerGas": "0x9"}, "stateOverrides": accounts, "calls": [run]}]),
            ),
        ),
        (
            "creation",
            of(json!([block(
                json!([{"from": RICH, "input": "0x6001600c60003960016000f300", "value": "0x1"}])
            )])),
        ),
        (
            "revert",
            of(json!([block(
                json!([{"from": RICH, "input": "0x5f5ffd"}, {"from": RICH, "input": "0xfe", "gas": "0x30d40"}])
            )])),
        ),
        ("legacy", of(json!([block(json!([legacy(pay.clone())]))]))),
        (
            "storage",
            of(json!([{"stateOverrides": {
            RICH: {"balance": "0x0", "nonce": "0x5"},
            POOR: {"balance": "0x0"},
            CODE: {"code": BUSY, "stateDiff": {format!("{:#066x}", 1): format!("{:#066x}", 2)}},
        }, "calls": [{"to": CODE}]}, {"stateOverrides": {CODE: {"state": {}}}}])),
        ),
        (
            "delegated",
            of(json!([{"stateOverrides": {
            CODE: {"code": BUSY}, RICH: {"balance": "0x64", "code": delegation},
        }, "calls": [{"from": RICH, "to": RICH}]}])),
        ),
        (
            "precompile",
            of(json!([{"stateOverrides": {
            ECRECOVER: {"movePrecompileToAddress": POOR}, RICH: {"balance": "0x1"},
        }, "calls": [{"from": RICH, "to": ECRECOVER}, {"from": RICH, "to": POOR, "input": "0x00"}]}])),
        ),
        (
            "fields",
            of(json!([{"blockOverrides": {
            "time": "0x6fffffff", "gasLimit": "0x5f5e100", "feeRecipient": POOR,
            "prevRandao": format!("{:#066x}", 3), "blobBaseFee": "0x9",
            "withdrawals": [{"index": "0x0", "validatorIndex": "0x1", "address": POOR, "amount": "0x2"}],
        }, "stateOverrides": accounts, "calls": [priced(run.clone())]}])),
        ),
        (
            "nonce too low",
            full(of(json!([block(
                json!([priced(pay.clone()), {"from": RICH, "to": POOR, "nonce": "0x0"}])
            )]))),
        ),
        (
            "poor",
            of(json!([{"calls": [{"from": POOR, "to": RICH, "value": "0x1"}]}])),
        ),
        ("number", of(json!([{"blockOverrides": {"number": "0x0"}}]))),
        ("far", of(json!([{"blockOverrides": {"number": "0x101"}}]))),
        ("time", of(json!([{"blockOverrides": {"time": "0x1"}}]))),
        (
            "gas",
            of(json!([block(
                json!([{"from": RICH, "to": POOR, "gas": "0xffffffffffff"}])
            )])),
        ),
        (
            "cap",
            of(json!([block(
                json!([{"from": RICH, "input": "0x5b5f56"}, pay])
            )])),
        ),
        ("nothing", of(json!([]))),
    ]
}

/// The answer, or the error by its code: some texts differ.
fn told(answer: engines::Answer) -> Value {
    match answer {
        Ok(result) => result,
        Err(error) => json!({"code": error.code}),
    }
}

/// Takes away what geth tells of an unsigned legacy transaction's chain: it has none.
fn without_chains(mut answer: Value) -> Value {
    for block in answer.as_array_mut().into_iter().flatten() {
        for transaction in block["transactions"].as_array_mut().into_iter().flatten() {
            if transaction["type"] == "0x0" {
                transaction.as_object_mut().unwrap().remove("chainId");
            }
        }
    }
    answer
}

pub(crate) fn compare(first: Fork) -> Option<usize> {
    let geth = testkit::require(Tool::Geth)?;
    let chain = Chain::new(4, first, 1_000);
    let mut engines = Engines::start(&geth, &chain.genesis);
    let requests = requests();
    for (name, request) in &requests {
        let params = json!([request, "latest"]);
        let answers = engines.ask_both(Port::Public, "eth_simulateV1", [&params, &params]);
        let [ours, theirs] = answers.map(told).map(without_chains);
        assert_eq!(ours, theirs, "{first:?}, {name}: {request}");
    }
    Some(requests.len())
}
