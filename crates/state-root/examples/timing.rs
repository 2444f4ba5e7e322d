//! Times the root of synthetic blocks over an in-memory state: the pipeline at several chunk sizes
//! beside the serial reference.
//!
//! `cargo run --release -p state-root --example timing [ACCOUNTS] [CHANGED]`

use alloy_primitives::{Address, B256, U256, keccak256};
use state_root::{
    ChunkPolicy, RootConfig, RootPool,
    mem::{MemSource, MemState},
    reference,
    updates::{Account, AccountChange, HashedState},
};
use std::{collections::BTreeMap, num::NonZeroUsize, sync::Arc, time::Instant};

/// One account in this many is a contract.
const CONTRACT_EVERY: u64 = 20;
/// Slots of a contract.
const SLOTS: u64 = 50;
/// Blocks timed for each chunk size.
const BLOCKS: u64 = 20;

fn address(index: u64) -> Address {
    Address::left_padding_from(&index.to_be_bytes())
}

fn state(accounts: u64) -> Result<(MemState, B256), Box<dyn std::error::Error>> {
    let mut leaves = BTreeMap::new();
    let mut storages = BTreeMap::new();
    for index in 0..accounts {
        let key = keccak256(address(index));
        leaves.insert(
            key,
            Account {
                nonce: index,
                balance: U256::from(1) << 60,
                ..Account::default()
            },
        );
        if index.is_multiple_of(CONTRACT_EVERY) {
            let slot = |slot: u64| {
                (
                    keccak256(B256::from(U256::from(slot))),
                    U256::from(slot + 1),
                )
            };
            storages.insert(key, (0..SLOTS).map(slot).collect());
        }
    }
    Ok(MemState::from_leaves(leaves, storages)?)
}

/// Half of the changed leaves are accounts, half are slots.
fn block(accounts: u64, changed: u64, seed: u64) -> Vec<AccountChange> {
    (0..changed / 2)
        .map(|step| {
            let random = U256::from_be_bytes(keccak256((seed << 32 | step).to_be_bytes()).0);
            let index = (random % U256::from(accounts)).to::<u64>();
            let contract = index.is_multiple_of(CONTRACT_EVERY) || step.is_multiple_of(2);
            let index = if contract {
                index - index % CONTRACT_EVERY
            } else {
                index
            };
            let slot = |n: u64| {
                (
                    B256::from(U256::from((seed + n) % (2 * SLOTS))),
                    U256::from(seed + 7),
                )
            };
            AccountChange {
                address: address(index),
                account: Some(Account {
                    nonce: seed,
                    ..Account::default()
                }),
                storage_wiped: false,
                slots: if contract {
                    vec![slot(0), slot(step)]
                } else {
                    Vec::new()
                },
            }
        })
        .collect()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args()
        .skip(1)
        .map(|argument| argument.parse::<u64>());
    let accounts = arguments.next().transpose()?.unwrap_or(200_000);
    let changed = arguments.next().transpose()?.unwrap_or(1_000);
    let started = Instant::now();
    let (state, root) = state(accounts)?;
    println!("{accounts} accounts from scratch: {:?}", started.elapsed());
    let source = Arc::new(MemSource(Arc::new(state)));

    let blocks: Vec<_> = (1..=BLOCKS)
        .map(|seed| block(accounts, changed, seed))
        .collect();
    let started = Instant::now();
    let roots = blocks
        .iter()
        .map(|changes| {
            Ok(reference::incremental_root(&*source.0, &HashedState::from_changes(changes))?.0)
        })
        .collect::<Result<Vec<_>, state_root::cursor::CursorError>>()?;
    println!(
        "serial reference: {:?} a block",
        started.elapsed() / BLOCKS as u32
    );

    for chunk_size in [5, 15, 60, 240, 100_000] {
        let pool = RootPool::new(RootConfig {
            chunk_size: NonZeroUsize::new(chunk_size).ok_or("zero")?,
            chunk_policy: ChunkPolicy::Always,
            account_workers: NonZeroUsize::MIN.saturating_add(1),
            storage_workers: NonZeroUsize::MIN.saturating_add(1),
            kept_bytes: 64 << 20,
        })?;
        let (mut elapsed, mut jobs) = (std::time::Duration::ZERO, 0);
        for (changes, expected) in blocks.iter().zip(&roots) {
            let started = Instant::now();
            let job = pool.prepare(Arc::clone(&source), root);
            changes
                .chunks(10)
                .for_each(|changes| job.update(changes.to_vec()));
            let outcome = job.finish()?;
            elapsed += started.elapsed();
            jobs += outcome.counters.jobs;
            assert_eq!(outcome.root, *expected);
        }
        let (elapsed, jobs) = (elapsed / BLOCKS as u32, jobs / BLOCKS);
        println!("chunk size {chunk_size}: {elapsed:?} and {jobs} jobs a block");
    }
    Ok(())
}
