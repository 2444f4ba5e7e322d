//! Times payloads of transfers and stores on a small state: `cargo run --release -p node --example
//! payload_time [BLOCKS] [TRANSACTIONS]`. Prints engine time per payload; asserts nothing.

#[expect(dead_code, reason = "shared with the tests, which use more of it")]
#[path = "../tests/support/mod.rs"]
mod support;

use alloy_genesis::Genesis;
use alloy_primitives::{Address, B256, Bytes, U256};
use node::{
    chainspec::ChainSpec,
    engine::{EngineConfig, WaitFor},
};
use state_db::{LoadItem, Loader, StateDb, StoredBlock};
use state_root::Strategy;
use std::{num::NonZeroUsize, sync::Arc};
use support::{Fork, Net, STORE, address_of, config, genesis, store, transfer};

/// Accounts and slots beside the funded senders.
const ACCOUNTS: u64 = 200_000;
const SLOTS: u64 = 200_000;
/// Senders of the test genesis.
const SENDERS: u64 = 8;

/// Loads the genesis accounts, then many accounts and slots; the state root.
fn load(db: &StateDb, genesis: &Genesis) -> B256 {
    let mut loader = Loader::new(db).expect("an empty database");
    let mut push = |item| loader.push(item).expect("room for the state");
    let account = |address: Address, balance, nonce, code: Option<Bytes>| LoadItem::Account {
        address,
        nonce,
        balance,
        code,
    };
    for (address, known) in &genesis.alloc {
        let nonce = known.nonce.unwrap_or_default();
        push(account(*address, known.balance, nonce, known.code.clone()));
        for slot in (0..SLOTS).filter(|_| *address == STORE) {
            push(LoadItem::Slot {
                key: U256::from(slot).into(),
                value: U256::from(slot + 1),
            });
        }
    }
    for seed in 0..ACCOUNTS {
        push(account(address_of(seed), U256::from(seed + 1), 0, None));
    }
    loader.finish().expect("a state").state_root
}

/// A chain whose engine does not check roots twice.
fn start() -> Net {
    let dir = tempfile::TempDir::new().expect("a temporary folder");
    let db = support::open(&dir);
    let genesis = genesis(Fork::Prague);
    let root = load(&db, &genesis);
    let spec = Arc::new(ChainSpec::new(genesis, Some(root)).expect("a chain"));
    let block = StoredBlock {
        header: spec.genesis_header().clone(),
        hash: spec.genesis_hash(),
        withdrawals: Some(Default::default()),
        ..Default::default()
    };
    db.write_genesis(&block).expect("a genesis");
    let mut config = EngineConfig {
        gas_limit_target: 60_000_000,
        check_state_root: false,
        injected_slowdown: 0.0,
        ..config()
    };
    if let Strategy::Proofs(root) = &mut config.root {
        root.chunk_size = NonZeroUsize::new(60).expect("not zero");
    }
    let engine = node::engine::spawn(db, spec.clone(), config.clone()).expect("an engine");
    Net {
        dir,
        spec,
        config,
        engine,
    }
}

/// The `count` transactions of block `block`: transfers and stores in turn, to scattered keys.
fn traffic(block: u64, count: u64) -> Vec<Bytes> {
    (block * count..(block + 1) * count)
        .map(|n| {
            let (from, nonce) = ((n % SENDERS) as u8, n / SENDERS);
            let pick = u64::from(address_of(n).0[0]) << 16 | n;
            match n / SENDERS % 2 {
                0 => transfer(from, nonce, address_of(pick % ACCOUNTS), 1),
                _ => store(from, nonce, pick % SLOTS, n + 1),
            }
        })
        .collect()
}

fn number(position: usize, default: u64) -> u64 {
    std::env::args()
        .nth(position)
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

#[tokio::main]
async fn main() {
    let (blocks, transactions) = (number(1, 20), number(2, 277));
    let net = start();
    for number in 0..blocks {
        let block = net.build(net.head(), traffic(number, transactions)).await;
        let data = support::data(&block);
        let wait_for = WaitFor {
            persistence: true,
            caches: false,
        };
        let outcome = net
            .engine
            .new_payload(data, wait_for)
            .await
            .expect("an answer");
        assert!(outcome.status.is_valid(), "{:?}", outcome.status);
        net.choose(block.header.hash_slow()).await;
        println!(
            "{} gas {} {:?}",
            block.header.number, block.header.gas_used, outcome.latency
        );
    }
}
