//! Times the roots of a chain of synthetic blocks over an in-memory state: the strategies at
//! several chunk sizes, block by block in turns, beside the serial reference. Ratios are to
//! `always` at its default chunk size.
//!
//! `cargo run --release -p state-root --example timing [ACCOUNTS] [CHANGED]`

use alloy_primitives::{Address, B256, U256, keccak256};
use state_root::{
    ChunkPolicy, RootConfig, RootError, RootOutcome, RootPool,
    mem::{MemSource, MemState},
    reference,
    updates::{Account, AccountChange, HashedState},
};
use std::{
    collections::BTreeMap,
    error::Error,
    num::NonZeroUsize,
    sync::Arc,
    time::{Duration, Instant},
};

/// One account in this many is a contract.
const CONTRACT_EVERY: u64 = 20;
/// Slots of a contract.
const SLOTS: u64 = 50;
/// Blocks of the chain.
const BLOCKS: u64 = 20;
/// Changes handed over at once.
const PER_MESSAGE: usize = 64;

fn address(index: u64) -> Address {
    Address::left_padding_from(&index.to_be_bytes())
}

fn state(accounts: u64) -> Result<(MemState, B256), Box<dyn Error>> {
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

/// One way of computing roots, and its times over the blocks.
struct Contender {
    name: String,
    pool: RootPool<MemSource>,
    /// From the first change to the root.
    total: Vec<Duration>,
    /// From the last change to the root.
    blocked: Vec<Duration>,
    jobs: u64,
    nodes_revealed: u64,
}

impl Contender {
    fn new(chunk_policy: ChunkPolicy, chunk_size: usize) -> Result<Self, Box<dyn Error>> {
        let two = NonZeroUsize::MIN.saturating_add(1);
        let pool = RootPool::new(RootConfig {
            chunk_size: NonZeroUsize::new(chunk_size).ok_or("zero")?,
            chunk_policy,
            account_workers: two,
            storage_workers: two,
            kept_bytes: 1 << 30,
        })?;
        Ok(Self {
            name: format!("{chunk_policy} {chunk_size}"),
            pool,
            total: Vec::new(),
            blocked: Vec::new(),
            jobs: 0,
            nodes_revealed: 0,
        })
    }

    fn run(
        &mut self,
        (source, root): (&Arc<MemSource>, B256),
        changes: &[AccountChange],
    ) -> Result<RootOutcome, RootError> {
        let started = Instant::now();
        let job = self.pool.prepare(Arc::clone(source), root);
        changes
            .chunks(PER_MESSAGE)
            .for_each(|changes| job.update(changes.to_vec()));
        let sent = Instant::now();
        let outcome = job.finish()?;
        self.blocked.push(sent.elapsed());
        self.total.push(started.elapsed());
        self.jobs += outcome.counters.jobs;
        self.nodes_revealed += outcome.counters.nodes_revealed;
        Ok(outcome)
    }

    /// The first block, and the median of the others.
    fn figures(&self, base: &Self) -> String {
        let blocks = self.total.len() as u64;
        let (cold, warm) = (self.total[0], median(&self.total[1..]));
        let ratio = median(&base.total[1..]).as_secs_f64() / warm.as_secs_f64();
        format!(
            "{:>16}: first {cold:>9.2?}, then {warm:>9.2?} ({ratio:.2} x), blocked {:>9.2?}; {} jobs, {} nodes a block",
            self.name,
            median(&self.blocked[1..]),
            self.jobs / blocks,
            self.nodes_revealed / blocks,
        )
    }
}

fn median(times: &[Duration]) -> Duration {
    let mut times = times.to_vec();
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args()
        .skip(1)
        .map(|argument| argument.parse::<u64>());
    let accounts = arguments.next().transpose()?.unwrap_or(200_000);
    let changed = arguments.next().transpose()?.unwrap_or(1_000);
    let (mut state, mut root) = state(accounts)?;
    let mut contenders = Vec::new();
    for chunk_size in [5, 60, 100_000] {
        contenders.push(Contender::new(ChunkPolicy::Always, chunk_size)?);
    }
    contenders.push(Contender::new(ChunkPolicy::Reth2_5, 60)?);
    for grain in [15, 60, 240, 100_000] {
        contenders.push(Contender::new(ChunkPolicy::RangeSteal, grain)?);
    }
    let mut serial = Vec::new();
    for seed in 1..=BLOCKS {
        let changes = block(accounts, changed, seed);
        let source = Arc::new(MemSource(Arc::new(state.clone())));
        let leaves = HashedState::from_changes(&changes);
        let started = Instant::now();
        let (expected, nodes) = reference::incremental_root(&*source.0, &leaves)?;
        serial.push(started.elapsed());
        // Whoever came first in one block comes last in the next.
        contenders.rotate_left(1);
        for contender in &mut contenders {
            let outcome = contender.run((&source, root), &changes)?;
            assert_eq!(outcome.root, expected, "{}", contender.name);
        }
        state.apply(&leaves, &nodes);
        root = expected;
    }
    println!("serial reference: {:.2?} a block", median(&serial));
    contenders.sort_by(|a, b| a.name.cmp(&b.name));
    let base = contenders.iter().find(|one| one.name == "always 60");
    let base = base.ok_or("no contender to compare with")?;
    for contender in &contenders {
        println!("{}", contender.figures(base));
    }
    Ok(())
}
