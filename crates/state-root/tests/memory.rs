//! Memory as the allocator sees it: what is kept between blocks honours its bound, block after
//! block, and nothing else stays.
//!
//! One test alone is in this program, so that nobody else allocates beside it.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use alloy_primitives::{B256, U256, keccak256};
use state_root::{
    ChunkPolicy, ProofConfig, RangeConfig, RootPool, Strategy,
    mem::{MemSource, MemState},
    updates::{Account, HashedChange},
};
use std::{
    alloc::{GlobalAlloc, Layout, System},
    collections::BTreeMap,
    num::NonZeroUsize,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

/// The system's allocator with a count of the bytes in use.
struct Counting;

static IN_USE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on to the system's allocator as it is; counting touches no memory
// of it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        IN_USE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promises about the layout are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the memory comes from the same allocator, with the same layout.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const SLOTS: u64 = 20_000;
const CHANGED: u64 = 300;
const BLOCKS: u64 = 120;

fn key(number: u64) -> B256 {
    keccak256(number.to_be_bytes())
}

fn change(number: u64, value: u64) -> HashedChange {
    HashedChange {
        address: key(number % 7),
        account: Some(Some(Account::default())),
        storage_wiped: false,
        slots: vec![(key(number), U256::from(value))],
    }
}

/// Bytes in use, block by block, beyond those in use before the first.
fn use_by_block(strategy: Strategy) -> Vec<usize> {
    let accounts = (0..7).map(|n| (key(n), Account::default())).collect();
    let mut slots: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
    for number in 0..SLOTS {
        let of = slots.entry(key(number % 7)).or_default();
        of.insert(key(number), U256::from(1));
    }
    let (state, mut root) = MemState::from_leaves(accounts, slots).unwrap();
    let mut state = Arc::new(state);
    let pool = RootPool::new(strategy);
    let pool = pool.unwrap();
    let before = IN_USE.load(Ordering::Relaxed);
    let block = |number: u64| {
        let job = pool.prepare(Arc::new(MemSource(Arc::clone(&state))), root);
        let first = number * 977;
        let changes = (first..first + CHANGED).map(|n| change(n % SLOTS, number + 2));
        job.update_hashed(changes.collect());
        let outcome = job.finish().unwrap();
        root = outcome.root.unwrap();
        // Who has answered trims what is kept, and lets go of the state after that.
        while Arc::get_mut(&mut state).is_none() {
            thread::yield_now();
        }
        let written = Arc::make_mut(&mut state);
        written.apply(&outcome.hashed_state, &outcome.trie_updates);
        drop(outcome);
        IN_USE.load(Ordering::Relaxed).saturating_sub(before)
    };
    (0..BLOCKS).map(block).collect()
}

#[test]
fn what_is_kept_honours_its_bound() {
    // What threads, with their room to encode in, and maps hold on their own.
    const BESIDE: usize = 500_000;
    let count = |n| NonZeroUsize::new(n).unwrap();
    let ranges = |kept_bytes| {
        Strategy::Ranges(RangeConfig {
            grain: count(40),
            threads: count(2),
            kept_bytes,
        })
    };
    let proofs = |kept_bytes| {
        Strategy::Proofs(ProofConfig {
            policy: ChunkPolicy::Always,
            batch_keys: count(20),
            chunk_size: count(40),
            account_workers: count(2),
            storage_workers: count(1),
            kept_blocks: None,
            kept_bytes,
        })
    };
    let bounds = [0, 500_000, 2_000_000];
    for (bound, strategy) in bounds
        .map(|bound| [ranges(bound), proofs(bound)].map(|way| (bound, way)))
        .concat()
    {
        let used = use_by_block(strategy);
        let (most, last) = (used.iter().max().unwrap(), used.last().unwrap());
        assert!(*most <= bound + BESIDE, "{most} of {bound}");
        assert!(*last + BESIDE >= bound / 2, "{last} of {bound}");
        // It is as much after many blocks as after some.
        let early = used[BLOCKS as usize / 3..BLOCKS as usize / 2].iter().max();
        assert!(*last <= early.unwrap() + BESIDE, "{last} after {early:?}");
    }
}
