//! Logs, filters and subscriptions: what is asked for, no less and no more, over reorganisations.

use crate::{CHAIN, Reader, TRUNK, WRITER, hex, list, trunk};
use jsonrpsee_core::{
    client::{Subscription, SubscriptionClientT},
    params::ArrayParams,
};
use jsonrpsee_ws_client::WsClientBuilder;
use serde_json::{Value, json};
use testkit::busy::FORK;

/// All logs of the receipts of canonical blocks, oldest first.
fn logs_of_receipts(reader: &Reader, blocks: std::ops::RangeInclusive<u64>) -> Vec<Value> {
    let logs = blocks.flat_map(|number| {
        let receipts = reader.ask("eth_getBlockReceipts", json!([hex(number)]));
        let logs: Vec<_> = list(&receipts)
            .iter()
            .flat_map(|receipt| list(&receipt["logs"]).clone())
            .collect();
        logs
    });
    logs.collect()
}

#[test]
fn logs_are_those_of_the_receipts() {
    let reader = trunk();
    let all = logs_of_receipts(&reader, 0..=TRUNK);
    assert_eq!(all.len() as u64, 5 * TRUNK);
    let nobody = format!("{:#042x}", 1);
    let topic = |number: u64| format!("{number:#066x}");
    let head = &CHAIN.block(false, TRUNK).unwrap().hash;
    let in_blocks = |first: u64, last: u64| {
        let first = (first.max(1) as usize - 1) * 5;
        json!(all[first..last as usize * 5])
    };
    for (filter, expected) in [
        (json!({"fromBlock": "earliest"}), in_blocks(0, TRUNK)),
        (
            json!({"fromBlock": "0x2b", "toBlock": "0x2e"}),
            in_blocks(43, 46),
        ),
        (json!({"address": WRITER}), in_blocks(TRUNK, TRUNK)),
        (
            json!({"address": [nobody, WRITER], "fromBlock": "0x30"}),
            in_blocks(TRUNK, TRUNK),
        ),
        (
            json!({"blockHash": head, "topics": []}),
            in_blocks(TRUNK, TRUNK),
        ),
        (
            json!({"fromBlock": "finalized", "toBlock": "safe"}),
            in_blocks(FORK, TRUNK - 3),
        ),
        (json!({"fromBlock": "0x0", "address": nobody}), json!([])),
        // Every log has the topic 7 and no other.
        (json!({"fromBlock": "0x0", "topics": [topic(1)]}), json!([])),
        (
            json!({"fromBlock": "0x0", "topics": [[topic(1), topic(7)]]}),
            in_blocks(0, TRUNK),
        ),
        (
            json!({"fromBlock": "0x0", "topics": [null]}),
            in_blocks(0, TRUNK),
        ),
        (
            json!({"fromBlock": "0x0", "topics": [null, null]}),
            json!([]),
        ),
    ] {
        let found = reader.ask("eth_getLogs", json!([filter]));
        assert!(found == expected, "{filter}: {} logs", list(&found).len());
    }
}

/// The block numbers of logs, and whether they were removed.
fn seen(logs: &Value) -> Vec<(String, bool)> {
    let mut seen: Vec<_> = list(logs)
        .iter()
        .map(|log| {
            let number = log["blockNumber"].as_str().unwrap().to_owned();
            (number, log["removed"].as_bool().unwrap())
        })
        .collect();
    seen.dedup();
    seen
}

#[test]
fn filters_tell_each_change_once() {
    let reader = Reader::at(FORK);
    let logs = reader.ask("eth_newFilter", json!([{"address": WRITER}]));
    let blocks = reader.ask("eth_newBlockFilter", json!([]));
    let changes = |filter: &Value| reader.ask("eth_getFilterChanges", json!([filter]));
    assert_eq!(changes(&logs), json!([]));
    for number in [FORK + 1, FORK + 2] {
        reader.send(false, number);
        reader.choose(false, number);
    }
    let hash = |branch, number| json!(CHAIN.block(branch, number).unwrap().hash);
    assert_eq!(
        changes(&blocks),
        json!([hash(false, FORK + 1), hash(false, FORK + 2)])
    );
    assert_eq!(
        seen(&changes(&logs)),
        [("0x15".to_owned(), false), ("0x16".to_owned(), false)]
    );
    assert_eq!((changes(&blocks), changes(&logs)), (json!([]), json!([])));

    reader.send(true, FORK + 1);
    reader.choose(true, FORK + 1);
    let expected = [("0x16", true), ("0x15", true), ("0x15", false)];
    assert_eq!(
        seen(&changes(&logs)),
        expected.map(|(number, removed)| (number.to_owned(), removed))
    );
    assert_eq!(changes(&blocks), json!([hash(true, FORK + 1)]));
    let latest = reader.ask("eth_getFilterLogs", json!([logs]));
    assert_eq!(
        latest,
        reader.ask("eth_getLogs", json!([{"address": WRITER}]))
    );

    assert_eq!(reader.ask("eth_uninstallFilter", json!([logs])), true);
    assert_eq!(reader.ask("eth_uninstallFilter", json!([logs])), false);
    let gone = reader.node.public("eth_getFilterChanges", json!([logs]));
    assert_eq!(gone.unwrap_err()["code"], -32000);
}

#[test]
fn subscribers_are_told_heads_and_logs() {
    let reader = Reader::at(FORK);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let url = format!("ws://{}", reader.node.ws);
        let client = WsClientBuilder::new().build(url).await.unwrap();
        let subscribe = async |name: &str| -> Subscription<Value> {
            let mut params = ArrayParams::new();
            params.insert(name).unwrap();
            client
                .subscribe("eth_subscribe", params, "eth_unsubscribe")
                .await
                .unwrap()
        };
        assert!(
            client
                .subscribe::<Value, _>("eth_subscribe", ArrayParams::new(), "eth_unsubscribe")
                .await
                .is_err()
        );
        let mut heads = subscribe("newHeads").await;
        let mut logs = subscribe("logs").await;
        for (branch, number) in [(false, FORK + 1), (true, FORK + 1)] {
            reader.send(branch, number);
            reader.choose(branch, number);
            let told = heads.next().await.unwrap().unwrap();
            let header = reader.ask("eth_getHeaderByNumber", json!([hex(number)]));
            assert_eq!(told, header);
            assert_eq!(told["hash"], CHAIN.block(branch, number).unwrap().hash);
        }
        // Five of the first block, the same removed, and five of the block that replaced it.
        let mut told = Vec::new();
        for _ in 0..15 {
            told.push(logs.next().await.unwrap().unwrap());
        }
        let removed: Vec<_> = told
            .iter()
            .map(|log| log["removed"].as_bool().unwrap())
            .collect();
        assert_eq!(removed, [[false; 5], [true; 5], [false; 5]].concat());
        let place = |log: &Value| (log["blockHash"].clone(), log["logIndex"].clone());
        let first: Vec<_> = told[..5].iter().map(place).collect();
        let mut again: Vec<_> = told[5..10].iter().map(place).collect();
        again.reverse();
        assert_eq!(again, first);
    });
}
