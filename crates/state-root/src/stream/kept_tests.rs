//! What the trie in memory promises besides right roots, which [`crate::trial`] shows.

use super::{
    kept::OLDER_TRIES,
    node::{AccountContent, Node, Slot},
    *,
};
use crate::{
    chunk::ChunkPolicy,
    mem::{MemSource, MemState},
    updates::Account,
};
use alloy_primitives::{U256, keccak256};
use std::{
    mem::{size_of, size_of_val},
    num::NonZeroU64,
    thread,
};

type Pool = StreamPool<MemSource>;

fn count(count: usize) -> NonZeroUsize {
    NonZeroUsize::new(count).unwrap()
}

fn ranges(grain: usize, threads: usize, kept_bytes: usize) -> Pool {
    let config = RangeConfig {
        grain: count(grain),
        threads: count(threads),
        kept_bytes,
    };
    Pool::ranges(config).unwrap()
}

fn proofs(chunk_size: usize, workers: usize, kept_bytes: usize) -> Pool {
    proofs_keeping(None, (chunk_size, workers, kept_bytes))
}

fn proofs_keeping(
    kept_blocks: Option<NonZeroU64>,
    (chunk_size, workers, kept_bytes): (usize, usize, usize),
) -> Pool {
    let config = ProofConfig {
        policy: ChunkPolicy::Always,
        batch_keys: count(10),
        chunk_size: count(chunk_size),
        account_workers: count(workers),
        storage_workers: count(workers),
        kept_blocks,
        kept_bytes,
    };
    Pool::proofs(config).unwrap()
}

/// Both ways of finding out what is unknown: size, threads, memory.
const BOTH: [fn(usize, usize, usize) -> Pool; 2] = [ranges, proofs];

fn address(seed: u64) -> B256 {
    keccak256(seed.to_be_bytes())
}

/// A change of an account, and of a few of its slots when it is one of every five.
fn change(seed: u64, nonce: u64) -> HashedChange {
    let slots = if seed.is_multiple_of(5) { 30 } else { 0 };
    HashedChange {
        address: address(seed),
        account: Some(Some(Account {
            nonce,
            ..Account::default()
        })),
        storage_wiped: false,
        slots: (0..slots)
            .map(|slot| (address(slot), U256::from(nonce)))
            .collect(),
    }
}

/// A state with its root, and the blocks made on the way to it.
#[derive(Clone)]
struct Chain {
    state: Arc<MemState>,
    root: B256,
}

impl Chain {
    /// A state of `accounts` accounts.
    fn of(accounts: u64) -> Self {
        let (empty, root) = MemState::from_leaves(Default::default(), Default::default()).unwrap();
        let state = Arc::new(empty);
        let mut chain = Self { state, root };
        let genesis: Vec<_> = (0..accounts).map(|seed| change(seed, 1)).collect();
        chain.extend(&ranges(1_000, 1, 0), &[genesis]);
        chain
    }

    /// Adds a block, sent in the given messages.
    fn extend(&mut self, pool: &Pool, messages: &[Vec<HashedChange>]) -> RootCounters {
        let job = pool.prepare(Arc::new(MemSource(Arc::clone(&self.state))), self.root);
        for message in messages {
            job.send(Message::Hashed(message.clone()));
        }
        job.end();
        let outcome = job.wait().unwrap();
        let mut state = MemState::clone(&self.state);
        state.apply(&outcome.hashed_state, &outcome.trie_updates);
        (self.state, self.root) = (Arc::new(state), outcome.root.unwrap());
        outcome.counters
    }
}

/// Waits until nobody works for the pool any more: what is kept is trimmed then.
fn settle(pool: &Pool) {
    while *lock(&pool.shared.drivers) > 0 {
        thread::yield_now();
    }
}

#[test]
fn what_a_block_has_read_its_descendants_know() {
    BOTH.into_iter().for_each(check_descendants);
}

#[track_caller]
fn check_descendants(pool: fn(usize, usize, usize) -> Pool) {
    let (pool, mut chain) = (pool(20, 2, 1 << 30), Chain::of(500));
    let block = |nonce| vec![(100..200).map(|seed| change(seed, nonce)).collect()];
    let first = chain.extend(&pool, &block(2));
    assert!(first.nodes_revealed > 200 && first.account_targets == 100);
    let parent = chain.clone();
    let again = |chain: &mut Chain, nonce| {
        let counters = chain.extend(&pool, &block(nonce));
        let read = (
            counters.nodes_revealed,
            counters.account_targets,
            counters.storage_targets,
        );
        assert_eq!(read, (0, 0, 0), "block {nonce}");
    };
    again(&mut chain, 3);
    again(&mut chain, 4);
    // A block that is given up takes nothing away.
    let source = Arc::new(MemSource(Arc::clone(&chain.state)));
    let job = pool.prepare(source, chain.root);
    job.send(Message::Hashed(block(9).remove(0)));
    drop(job);
    settle(&pool);
    again(&mut chain, 5);
    // Another branch has to read, once.
    let mut other = parent;
    assert!(other.extend(&pool, &block(6)).nodes_revealed > 200);
    again(&mut chain, 7);
    again(&mut other, 8);
    again(&mut chain, 9);
}

#[test]
fn only_what_the_last_blocks_went_through_is_kept() {
    let (pool, mut chain) = (
        proofs_keeping(NonZeroU64::new(2), (20, 2, 1 << 30)),
        Chain::of(500),
    );
    let mut targets = |accounts: std::ops::Range<u64>, nonce| {
        let counters = chain.extend(&pool, &[accounts.map(|n| change(n, nonce)).collect()]);
        settle(&pool);
        (counters.account_targets, counters.storage_targets)
    };
    assert_eq!(targets(0..50, 2), (50, 300));
    assert_eq!(targets(50..100, 3).1, 300);
    assert_eq!(targets(0..50, 4), (0, 0));
    assert_eq!(targets(50..100, 5), (0, 0));
    assert_eq!(targets(50..100, 6), (0, 0));
    // Two blocks have gone elsewhere. Leaves that hang on shared branches remain.
    let (accounts, slots) = targets(0..50, 7);
    assert!(accounts > 10 && slots > 200, "{accounts} and {slots}");
}

#[test]
fn slots_that_were_read_for_nothing_are_hashed_with_their_account() {
    BOTH.into_iter().for_each(check_slots_read_for_nothing);
}

#[track_caller]
fn check_slots_read_for_nothing(pool: fn(usize, usize, usize) -> Pool) {
    let (pool, mut chain) = (pool(20, 2, 1 << 30), Chain::of(500));
    let (before, contract) = (chain.root, 250);
    // The account and its slots change and change back.
    let there_and_back = [2, 1].map(|nonce| vec![change(contract, nonce)]);
    let counters = chain.extend(&pool, &there_and_back);
    assert_eq!((chain.root, counters.storage_targets), (before, 30));
    let touched = HashedChange {
        slots: Vec::new(),
        ..change(contract, 3)
    };
    let counters = chain.extend(&pool, &[vec![touched]]);
    assert_eq!(counters.nodes_revealed, 0);
    let state = MemState::clone(&chain.state);
    let scratch = MemState::from_leaves(state.accounts.clone(), state.slots.clone());
    assert_eq!(scratch.unwrap(), (state, chain.root));
}

#[test]
fn ranges_are_cut_down_to_the_grain() {
    let block = [(0..200).map(|seed| change(seed, 2)).collect()];
    let jobs = [1, 50, 1_000_000].map(|grain| {
        let mut chain = Chain::of(500);
        let counters = chain.extend(&ranges(grain, 3, 1 << 30), &block);
        assert_eq!(
            counters.unsplit_batches == counters.batches,
            grain == 1_000_000
        );
        counters.jobs / counters.batches
    });
    assert!(jobs[0] > jobs[1] && jobs[1] > 10, "{jobs:?}");
    assert_eq!(jobs[2], 1);
}

/// The memory of a subtree, added up anew.
fn recount<C>(node: &Node<C>, hanging: &impl Fn(&C) -> usize) -> usize {
    match node {
        Node::None => 0,
        Node::Leaf(leaf) => hanging(&leaf.content),
        Node::Branch(branch) => {
            let below: usize = branch
                .nodes
                .iter()
                .map(|child| recount(child, hanging))
                .sum();
            below + size_of_val(&*branch.refs) + size_of_val(&*branch.nodes)
        }
    }
}

/// The memory of what hangs on an account, added up anew.
fn recount_account(account: &BoxedAccount) -> usize {
    let of_storage = |storage: &Slot<U256>| size_of_val(storage) + recount(&storage.node, &|_| 0);
    size_of::<AccountContent>() + account.storage.as_deref().map_or(0, of_storage)
}

/// A block that changes a part of the state, makes some accounts and removes others.
fn moving_block(number: u64) -> Vec<HashedChange> {
    let first = number * 37 % 900;
    let gone = (0..number).map(|seed| HashedChange {
        account: Some(None),
        storage_wiped: true,
        slots: Vec::new(),
        ..change(seed * 3, 0)
    });
    let changed = (first..first + 60).map(|seed| change(seed, number));
    changed.chain(gone).collect()
}

#[test]
fn memory_stays_within_its_bound() {
    BOTH.into_iter().for_each(check_memory);
}

#[track_caller]
fn check_memory(pool: fn(usize, usize, usize) -> Pool) {
    for bound in [0, 30_000, 300_000, 1 << 30] {
        let (pool, mut chain) = (pool(50, 2, bound), Chain::of(1_000));
        let mut most = 0;
        for number in 2..30 {
            // The sibling is the newest for a moment, and then a side block.
            let mut sibling = chain.clone();
            sibling.extend(&pool, &[moving_block(number + 100)]);
            chain.extend(&pool, &[moving_block(number)]);
            settle(&pool);
            let kept = lock(&pool.shared.kept);
            let recount_trie = |trie: &Slot<_>| recount(&trie.node, &recount_account);
            let together: usize = kept.tries().map(recount_trie).sum();
            assert_eq!(together, kept.bytes());
            assert!(kept.bytes() <= bound, "{} of {bound}", kept.bytes());
            assert!(kept.tries().count() <= OLDER_TRIES + 1);
            most = most.max(together);
        }
        let state = MemState::clone(&chain.state);
        let scratch = MemState::from_leaves(state.accounts.clone(), state.slots.clone());
        assert_eq!(scratch.unwrap(), (state, chain.root));
        // What is allowed is used.
        assert!(most >= bound.min(1_000_000) / 4, "{most} of {bound}");
    }
}
