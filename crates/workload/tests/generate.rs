//! Packing against an engine of a few lines that charges what a test tells it to: every block
//! comes within 1 % below the target, and whatever goes wrong is told.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use alloy_primitives::{B256, Bytes, U64, hex, keccak256};
use engine_api::{EngineClient, PayloadSet};
use serde_json::{Value, json};
use std::{
    fs,
    path::Path,
    sync::{Arc, Mutex},
};
use testkit::{Reply, Server};
use workload::{
    BaseState, GenerateConfig, Manifest, Mix, Ports, Profile,
    contracts::{Token, Whale},
    generate, verify_manifest,
};

const PROFILE: Profile = Profile::Large {
    accounts: 2_000,
    slots: 10_000,
};
const CONFIG: GenerateConfig = GenerateConfig {
    gas_target: 5_000_000,
    count: 3,
    mix: Mix::Transfers,
    seed: 4,
};

/// An engine that believes everything and charges each transaction the same gas.
#[derive(Clone)]
struct Fake {
    gas_per_transaction: u64,
    /// It leaves out every transaction after so many.
    room: usize,
    positional: bool,
    chain_id: u64,
    holds_state: bool,
    status: &'static str,
    /// It calls every payload INVALID from this block on.
    invalid_from: u64,
    /// The numbers of transactions it was asked to build with.
    builds: Arc<Mutex<Vec<usize>>>,
    /// Number of the last block built.
    number: Arc<Mutex<u64>>,
}

impl Fake {
    fn new() -> Self {
        Self {
            gas_per_transaction: 21_000,
            room: usize::MAX,
            positional: true,
            chain_id: 1337,
            holds_state: true,
            status: "VALID",
            invalid_from: u64::MAX,
            builds: Arc::default(),
            number: Arc::default(),
        }
    }

    fn start(&self) -> String {
        let fake = self.clone();
        let server = Server::start(move |request| {
            let call = request.json();
            let method = call["method"].as_str().unwrap();
            match fake.answer(method, &call["params"]) {
                Ok(result) => Reply::result(result),
                Err(code) => {
                    let error = json!({ "code": code, "message": "refused" });
                    Reply::ok(json!({ "error": error }).to_string())
                }
            }
        });
        server.url()
    }

    fn answer(&self, method: &str, params: &Value) -> Result<Value, i64> {
        let filled = json!(B256::with_last_byte(u8::from(self.holds_state)));
        Ok(match method {
            "eth_chainId" => json!(U64::from(self.chain_id)),
            "eth_getBlockByNumber" => json!({
                "number": "0x0", "hash": B256::ZERO, "stateRoot": B256::ZERO,
                "timestamp": "0x0", "gasLimit": "0x3b9aca00",
            }),
            "eth_getCode" => json!(Token::code()),
            "eth_getStorageAt" => filled,
            "eth_getTransactionCount" => json!("0x0"),
            "testing_buildBlockV1" => return self.build(params),
            "engine_newPayloadV4" => {
                let built = *self.number.lock().unwrap() + 1;
                self.payload_status(built)
            }
            "engine_forkchoiceUpdatedV3" => {
                let mut number = self.number.lock().unwrap();
                *number += 1;
                json!({ "payloadStatus": self.payload_status(*number), "payloadId": null })
            }
            _ => return Err(-32601),
        })
    }

    fn payload_status(&self, number: u64) -> Value {
        let invalid = number >= self.invalid_from;
        let status = if invalid { "INVALID" } else { self.status };
        json!({ "status": status, "latestValidHash": null, "validationError": "no reason" })
    }

    fn build(&self, params: &Value) -> Result<Value, i64> {
        let (parent, transactions, attributes) = match (self.positional, &params[0]) {
            (true, parent) => (parent, &params[2], &params[1]),
            (false, Value::Object(one)) => (
                &one["parentBlockHash"],
                &one["transactions"],
                &one["payloadAttributes"],
            ),
            (false, _) => return Err(-32602),
        };
        let mut transactions: Vec<Bytes> = serde_json::from_value(transactions.clone()).unwrap();
        self.builds.lock().unwrap().push(transactions.len());
        transactions.truncate(self.room);
        let content = format!("{parent}{transactions:?}");
        let payload = json!({
            "parentHash": parent, "feeRecipient": attributes["suggestedFeeRecipient"],
            "stateRoot": B256::ZERO, "receiptsRoot": B256::ZERO,
            "logsBloom": format!("0x{}", "00".repeat(256)), "prevRandao": attributes["prevRandao"],
            "blockNumber": U64::from(*self.number.lock().unwrap() + 1), "gasLimit": "0x3b9aca00",
            "gasUsed": U64::from(self.gas_per_transaction * transactions.len() as u64),
            "timestamp": attributes["timestamp"], "extraData": "0x", "baseFeePerGas": "0x7",
            "blockHash": keccak256(content), "transactions": transactions, "withdrawals": [],
            "blobGasUsed": "0x0", "excessBlobGas": "0x0",
        });
        Ok(json!({
            "executionPayload": payload, "blockValue": "0x0", "shouldOverrideBuilder": false,
            "blobsBundle": { "commitments": [], "proofs": [], "blobs": [] },
            "executionRequests": [],
        }))
    }
}

fn run(fake: &Fake, config: GenerateConfig, out: &Path) -> Result<Manifest, String> {
    let url = fake.start();
    let base = BaseState::new(PROFILE, 1);
    let client = || EngineClient::new(&url, None).unwrap();
    let (mut public, mut engine) = (client(), client());
    let ports = Ports {
        public: &mut public,
        engine: &mut engine,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime
        .block_on(generate(ports, &base, config, out, &mut |_| ()))
        .map_err(|error| error.to_string())
}

fn error_of(fake: &Fake, config: GenerateConfig) -> String {
    let dir = tempfile::tempdir().unwrap();
    let error = run(fake, config, dir.path()).unwrap_err();
    assert!(!dir.path().join("manifest.json").exists());
    error
}

#[test]
fn blocks_come_near_the_target_whatever_a_transaction_costs() {
    for (gas_per_transaction, positional) in [
        (21_000, true),
        (23_000, true),
        (19_000, false),
        (12_000, false),
        (40_000, true),
    ] {
        let fake = Fake {
            gas_per_transaction,
            positional,
            ..Fake::new()
        };
        let dir = tempfile::tempdir().unwrap();
        let manifest = run(&fake, CONFIG, dir.path()).unwrap();
        assert_eq!(manifest.blocks.len(), 3);
        for block in &manifest.blocks {
            let missing = CONFIG.gas_target.checked_sub(block.gas_used);
            assert!(
                missing.is_some_and(|gas| gas <= 50_000),
                "{gas_per_transaction}: {block:?}"
            );
            // Transfers name two accounts each, some of them more than once.
            assert!(block.leaves.changed_accounts <= 2 * block.transaction_count);
            assert!(block.leaves.changed_accounts > block.transaction_count / 2);
            assert_eq!(block.leaves.changed_slots, 0);
        }
        assert_eq!(verify_manifest(dir.path()).unwrap(), manifest);
        let set = PayloadSet::open(dir.path()).unwrap();
        assert_eq!(
            (set.payloads().len(), set.gas_used()),
            (3, manifest.gas_used())
        );
    }
}

#[test]
fn a_right_estimate_needs_one_build_a_block() {
    let fake = Fake::new();
    let dir = tempfile::tempdir().unwrap();
    run(&fake, CONFIG, dir.path()).unwrap();
    assert_eq!(*fake.builds.lock().unwrap(), [238, 238, 238]);
}

#[test]
fn the_same_inputs_give_the_same_bytes() {
    let folders = [4, 4, 5].map(|seed| {
        let dir = tempfile::tempdir().unwrap();
        run(&Fake::new(), GenerateConfig { seed, ..CONFIG }, dir.path()).unwrap();
        let mut files: Vec<_> = fs::read_dir(dir.path())
            .unwrap()
            .map(|e| e.unwrap())
            .collect();
        files.sort_by_key(|file| file.file_name());
        let content = files.iter().flat_map(|file| fs::read(file.path()).unwrap());
        hex::encode(keccak256(content.collect::<Vec<u8>>()))
    });
    assert_eq!(folders[0], folders[1]);
    assert_ne!(folders[0], folders[2]);
}

#[test]
fn everything_that_goes_wrong_is_told() {
    let cases = [
        (
            Fake {
                room: 10,
                ..Fake::new()
            },
            CONFIG,
            "block 1 uses 210000 gas after 6 attempts to reach 5000000; ",
        ),
        (
            Fake {
                chain_id: 1,
                ..Fake::new()
            },
            CONFIG,
            "the engine is on chain 1, but the base state",
        ),
        (
            Fake {
                holds_state: false,
                ..Fake::new()
            },
            CONFIG,
            "the engine does not hold the base state large:2000:10000 of seed 1: slot 0x",
        ),
        (
            Fake {
                status: "INVALID",
                ..Fake::new()
            },
            CONFIG,
            "the engine answered engine_newPayloadV4 for its own block 1 with INVALID: no reason",
        ),
        (
            Fake {
                status: "SYNCING",
                ..Fake::new()
            },
            CONFIG,
            "the engine answered engine_newPayloadV4 for its own block 1 with SYNCING",
        ),
        (
            Fake::new(),
            GenerateConfig {
                gas_target: 2_000_000_000,
                ..CONFIG
            },
            "the gas target 2000000000 is not between 21000 and the block gas limit 1000000000",
        ),
        (
            Fake::new(),
            GenerateConfig {
                gas_target: 20_999,
                ..CONFIG
            },
            "the gas target 20999 is not between 21000 and",
        ),
    ];
    for (fake, config, expected) in cases {
        let error = error_of(&fake, config);
        assert!(
            error.starts_with(expected),
            "{error:?} should begin {expected:?}"
        );
    }
}

#[test]
fn what_was_finished_before_a_failure_is_a_whole_list() {
    let (whole, part) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let fake = Fake {
        invalid_from: 3,
        ..Fake::new()
    };
    let error = run(&fake, CONFIG, part.path()).unwrap_err();
    assert!(error.contains("its own block 3 with INVALID"), "{error}");
    let kept = verify_manifest(part.path()).unwrap();
    let all = run(&Fake::new(), CONFIG, whole.path()).unwrap();
    assert_eq!(kept.blocks, all.blocks[..2]);
}

#[test]
fn a_folder_with_payloads_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("payload_block_9.json"), "kept").unwrap();
    let error = run(&Fake::new(), CONFIG, dir.path()).unwrap_err();
    assert!(
        error.ends_with("already holds payloads, for example payload_block_9.json"),
        "{error}"
    );
    assert_eq!(
        fs::read_to_string(dir.path().join("payload_block_9.json")).unwrap(),
        "kept"
    );
}

#[test]
fn the_deed_that_proves_the_size_of_a_state_is_its_last() {
    let base = BaseState::new(PROFILE, 1);
    let last = Whale::deed_slot(base.layout().deeds - 1);
    assert!(
        base.items()
            .any(|item| matches!(item, workload::StateItem::Slot { key, .. } if key == last))
    );
}
