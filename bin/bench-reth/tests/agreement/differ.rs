//! Where two engines part: the first account, slot or receipt of a block that they see differently.

use crate::{
    duel::{Duel, short},
    engines::{Answer, Port, Side},
    payload::{NewPayload, transactions},
    transactions::Signed,
};
use alloy_consensus::{Transaction, TxEnvelope, transaction::SignerRecoverable};
use alloy_eips::eip2718::Decodable2718;
use alloy_primitives::{Address, B256, Bytes, U256};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The blocks they built from the same transactions, and how their states differ.
pub(crate) fn built(duel: &mut Duel, own: &[NewPayload; 2], envelopes: [&Value; 2]) -> String {
    let mut report = String::from("the blocks they build differ\n");
    let [ours, theirs] = own.each_ref().map(|own| &own.payload);
    for (field, ours) in ours.as_object().unwrap() {
        let theirs = theirs.get(field).unwrap_or(&Value::Null);
        if ours != theirs && field != "transactions" {
            report += &format!("  {field}: bench-reth {ours}, geth {theirs}\n");
        }
    }
    for part in ["executionRequests", "blockValue"] {
        let [ours, theirs] = envelopes.map(|envelope| &envelope[part]);
        if ours != theirs {
            report += &format!("  {part}: bench-reth {ours}, geth {theirs}\n");
        }
    }
    report += &states(duel, own.each_ref());
    report + &list_of(transactions(ours).iter())
}

/// The block one of them refuses: built again by each, and how the states differ.
pub(crate) fn judged(duel: &mut Duel, parent: &Value, payload: &NewPayload) -> String {
    let fields = &payload.payload;
    let attributes = json!({
        "timestamp": fields["timestamp"],
        "prevRandao": fields["prevRandao"],
        "suggestedFeeRecipient": fields["feeRecipient"],
        "withdrawals": fields["withdrawals"],
        "parentBeaconBlockRoot": payload.beacon_root,
    });
    let params = json!([
        parent,
        attributes,
        fields["transactions"],
        fields["extraData"]
    ]);
    let list = transactions(fields);
    let holds_blobs = list.iter().any(|encoded| encoded[0] == 3);
    let mut report = String::new();
    // geth builds no block of blob transactions whose blobs it does not have.
    if !holds_blobs {
        let method = "testing_buildBlockV1";
        let answers = duel
            .engines
            .ask_both(Port::Public, method, [&params, &params]);
        if let [Ok(ours), Ok(theirs)] = &answers {
            let own = [ours, theirs]
                .map(|envelope| NewPayload::new(payload.fork, envelope, &payload.beacon_root));
            report += &states(duel, [&own[0], &own[1]]);
        } else {
            let [ours, theirs] = answers.each_ref().map(short);
            report += &format!("built again: bench-reth {ours}\n  geth {theirs}\n");
        }
    }
    report + &list_of(list.iter())
}

/// Each takes its own block; then what the block may have touched is compared.
fn states(duel: &mut Duel, own: [&NewPayload; 2]) -> String {
    for (side, payload) in [Side::BenchReth, Side::Geth].into_iter().zip(own) {
        let state = json!({
            "headBlockHash": payload.hash(),
            "safeBlockHash": crate::ZERO,
            "finalizedBlockHash": crate::ZERO,
        });
        for (method, params) in [
            (payload.fork.new_payload(), payload.params()),
            ("engine_forkchoiceUpdatedV3", json!([state, null])),
        ] {
            let answer = duel.engines.ask(side, Port::Engine, method, &params);
            let text = short(&answer);
            if !text.contains("\"VALID\"") {
                return format!("{side:?} does not take its own block: {text}\n");
            }
        }
    }
    if let Some(difference) = first_receipt(duel) {
        return difference;
    }
    let touched = touched(duel, own[1]);
    let difference = touched
        .iter()
        .find_map(|(address, slots)| account(duel, *address, slots));
    difference.unwrap_or_else(|| {
        format!(
            "no difference in the {} accounts geth's tracer names\n",
            touched.len()
        )
    })
}

fn first_receipt(duel: &mut Duel) -> Option<String> {
    let params = json!(["latest"]);
    let answers = duel
        .engines
        .ask_both(Port::Public, "eth_getBlockReceipts", [&params, &params]);
    let [ours, theirs] = answers.map(|answer| answer.ok());
    let (ours, theirs) = (ours?, theirs?);
    let pairs = ours.as_array()?.iter().zip(theirs.as_array()?);
    let parts = ["status", "gasUsed", "contractAddress", "logs"];
    for (index, (ours, theirs)) in pairs.enumerate() {
        let part = parts
            .iter()
            .find(|part| strip(&ours[*part]) != strip(&theirs[*part]));
        if let Some(part) = part {
            return Some(format!(
                "first difference: receipt {index} {part}: bench-reth {}, geth {}\n",
                ours[part], theirs[part]
            ));
        }
    }
    None
}

/// Logs without the place of the block, whose hash differs.
fn strip(value: &Value) -> Value {
    let mut value = value.clone();
    for log in value.as_array_mut().into_iter().flatten() {
        let keep = ["address", "topics", "data"];
        if let Some(log) = log.as_object_mut() {
            log.retain(|name, _| keep.contains(&name.as_str()));
        }
    }
    value
}

/// Accounts and slots that geth's tracer saw the block touch, and those that blocks touch anyway.
fn touched(duel: &mut Duel, payload: &NewPayload) -> Vec<(Address, BTreeSet<B256>)> {
    let options = json!({"tracer": "prestateTracer", "tracerConfig": {"diffMode": true}});
    let params = json!([payload.hash(), options]);
    let traced = duel
        .engines
        .ask(Side::Geth, Port::Public, "debug_traceBlockByHash", &params);
    let traced = traced.unwrap_or_default();
    let mut touched = std::collections::BTreeMap::<Address, BTreeSet<B256>>::new();
    for part in traced.as_array().into_iter().flatten() {
        for state in ["pre", "post"] {
            let accounts = part["result"][state].as_object();
            for (address, account) in accounts.into_iter().flatten() {
                let slots = account["storage"].as_object().into_iter().flatten();
                let slots = slots.filter_map(|(slot, _)| slot.parse::<B256>().ok());
                let address = address.parse().unwrap();
                touched.entry(address).or_default().extend(slots);
            }
        }
    }
    let fields = &payload.payload;
    let withdrawals = fields["withdrawals"].as_array().into_iter().flatten();
    let paid = withdrawals.map(|withdrawal| &withdrawal["address"]);
    for address in paid.chain([&fields["feeRecipient"]]) {
        let address: Address = serde_json::from_value(address.clone()).unwrap();
        touched.entry(address).or_default();
    }
    let (time_s, number) = (payload.number("timestamp"), payload.number("blockNumber"));
    let ring = [
        time_s % 8191,
        time_s % 8191 + 8191,
        number.wrapping_sub(1) % 8191,
    ];
    let system = ring.into_iter().chain(0..12);
    let system: Vec<B256> = system.map(|slot| U256::from(slot).into()).collect();
    for address in &duel.chain.known {
        touched.entry(*address).or_default().extend(&system);
    }
    touched.into_iter().collect()
}

fn account(duel: &mut Duel, address: Address, slots: &BTreeSet<B256>) -> Option<String> {
    for (method, params) in [
        ("eth_getTransactionCount", json!([address, "latest"])),
        ("eth_getBalance", json!([address, "latest"])),
        ("eth_getCode", json!([address, "latest"])),
    ]
    .into_iter()
    .chain(
        slots
            .iter()
            .map(|slot| ("eth_getStorageAt", json!([address, slot, "latest"]))),
    ) {
        let answers = duel
            .engines
            .ask_both(Port::Public, method, [&params, &params]);
        let [ours, theirs] = answers.map(Answer::ok);
        if ours != theirs {
            return Some(format!(
                "first differing account: {method} {params}: bench-reth {ours:?}, geth {theirs:?}\n"
            ));
        }
    }
    None
}

/// Transactions as people read them.
pub(crate) fn list(list: &[Signed]) -> String {
    list_of(list.iter().map(|signed| &signed.encoded))
}

fn list_of<'a>(list: impl Iterator<Item = &'a Bytes>) -> String {
    let line = |(index, encoded): (usize, &Bytes)| {
        let Ok(decoded) = TxEnvelope::decode_2718_exact(encoded) else {
            return format!("  {index}: {encoded}\n");
        };
        format!(
            "  {index}: type {} from {:?} nonce {} to {:?} value {} gas {} input {} bytes\n",
            encoded[0].min(5) % 5,
            decoded.recover_signer().ok(),
            decoded.nonce(),
            decoded.kind(),
            decoded.value(),
            decoded.gas_limit(),
            decoded.input().len(),
        )
    };
    "transactions:\n".to_owned() + &list.enumerate().map(line).collect::<String>()
}
