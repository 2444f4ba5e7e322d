//! The steps of a state root on their own: reading paths, walking to leaves, hashing, proving.
//!
//! `cargo bench -p state-root` times, for a block of 1,000 changed slots in one large contract or
//! in many small ones, over a state in memory:
//!
//! - `reveal`: nothing is known and no value differs, so the paths are read and no more;
//! - `update`: everything is known and no value differs, so the leaves are visited and no more;
//! - `hash`: everything is known and every value differs, so the changed paths are hashed too;
//! - `proof`: the serial reference proves the same leaves.

use alloy_primitives::{
    B256, U256, keccak256,
    map::{B256Map, B256Set},
};
use divan::{Bencher, black_box};
use state_root::{
    ChunkPolicy, ProofConfig, RangeConfig, RootPool, Strategy,
    mem::{MemSource, MemState},
    reference,
    updates::{Account, HashedChange, HashedState},
};
use std::{collections::BTreeMap, num::NonZeroUsize, sync::Arc};

/// Changed slots of a block.
const CHANGED: u64 = 1_000;
/// Slots of the state for each changed one.
const SLOTS_PER_CHANGE: u64 = 50;

/// How the slots are spread over contracts.
#[derive(Debug, Clone, Copy)]
enum Spread {
    OneContract,
    ManyContracts,
}

const SPREADS: [Spread; 2] = [Spread::OneContract, Spread::ManyContracts];
const TWO: NonZeroUsize = NonZeroUsize::new(2).unwrap();
const SIXTY: NonZeroUsize = NonZeroUsize::new(60).unwrap();

impl Spread {
    /// Which contract and which slot a number stands for.
    fn key(self, number: u64) -> (B256, B256) {
        let contract = match self {
            Self::OneContract => 0,
            Self::ManyContracts => number % 200,
        };
        (
            keccak256(contract.to_be_bytes()),
            keccak256(number.to_be_bytes()),
        )
    }

    /// A state in which every slot holds `value`, with its root.
    fn state(self, value: u64) -> Chain {
        let mut accounts = BTreeMap::new();
        let mut slots: BTreeMap<B256, BTreeMap<B256, U256>> = BTreeMap::new();
        for number in 0..CHANGED * SLOTS_PER_CHANGE {
            let (contract, slot) = self.key(number);
            let changed = number.is_multiple_of(SLOTS_PER_CHANGE);
            let value = if changed { value } else { 1 };
            accounts.insert(contract, Account::default());
            slots
                .entry(contract)
                .or_default()
                .insert(slot, U256::from(value));
        }
        let (state, root) = MemState::from_leaves(accounts, slots).expect("maps can be read");
        Chain {
            source: Arc::new(MemSource(Arc::new(state))),
            root,
        }
    }

    /// The block that sets every changed slot to `value`.
    fn block(self, value: u64) -> Vec<HashedChange> {
        let number = |index| index * SLOTS_PER_CHANGE;
        let change = |index| {
            let (address, slot) = self.key(number(index));
            HashedChange {
                address,
                account: None,
                storage_wiped: false,
                slots: vec![(slot, U256::from(value))],
            }
        };
        (0..CHANGED).map(change).collect()
    }
}

/// A state to begin from.
struct Chain {
    source: Arc<MemSource>,
    root: B256,
}

fn proofs(kept_bytes: usize) -> Strategy {
    Strategy::Proofs(ProofConfig {
        policy: ChunkPolicy::Always,
        batch_keys: SIXTY,
        chunk_size: SIXTY,
        account_workers: TWO,
        storage_workers: TWO,
        kept_blocks: None,
        kept_bytes,
    })
}

fn ranges(kept_bytes: usize) -> Strategy {
    Strategy::Ranges(RangeConfig {
        grain: SIXTY,
        threads: TWO,
        kept_bytes,
    })
}

fn pool(strategy: Strategy) -> RootPool<MemSource> {
    RootPool::new(strategy).expect("threads can be started")
}

fn run(pool: &RootPool<MemSource>, parent: &Chain, block: Vec<HashedChange>) -> Option<B256> {
    let job = pool.prepare(Arc::clone(&parent.source), parent.root);
    job.update_hashed(block);
    job.finish().expect("the state can be read").root
}

#[divan::bench(args = SPREADS, consts = [false, true])]
fn reveal<const BY_RANGES: bool>(bencher: Bencher<'_, '_>, spread: Spread) {
    let strategy = if BY_RANGES { ranges(0) } else { proofs(0) };
    let (pool, parent) = (pool(strategy), spread.state(1));
    bencher
        .with_inputs(|| spread.block(1))
        .bench_values(|block| run(&pool, &parent, block));
}

#[divan::bench(args = SPREADS)]
fn update(bencher: Bencher<'_, '_>, spread: Spread) {
    let pool = pool(ranges(1 << 30));
    let parent = spread.state(1);
    run(&pool, &parent, spread.block(1));
    bencher
        .with_inputs(|| spread.block(1))
        .bench_values(|block| run(&pool, &parent, block));
}

#[divan::bench(args = SPREADS)]
fn hash(bencher: Bencher<'_, '_>, spread: Spread) {
    let pool = pool(ranges(1 << 30));
    // From one state to the other and back, so that each block finds its parent's nodes.
    let states = [spread.state(1), spread.state(2)];
    let mut next = 0;
    bencher
        .with_inputs(|| {
            let from = next;
            next = 1 - next;
            (from, spread.block(2 - from))
        })
        .bench_local_values(|(from, block)| {
            let from = &states[usize::from(from == 1)];
            run(&pool, from, block)
        });
}

#[divan::bench(args = SPREADS)]
fn proof(bencher: Bencher<'_, '_>, spread: Spread) {
    let parent = spread.state(1);
    let mut targets: B256Map<B256Set> = B256Map::default();
    for index in 0..CHANGED {
        let (contract, slot) = spread.key(index * SLOTS_PER_CHANGE);
        targets.entry(contract).or_default().insert(slot);
    }
    bencher.bench(|| {
        reference::multi_proof(
            &*parent.source.0,
            &HashedState::default(),
            black_box(&targets),
        )
        .map(drop)
    });
}

fn main() {
    divan::main();
}
