//! The pool as whoever drives it sees it: counters, failures, cancelling. That roots are right is
//! shown by [`crate::trial`].

use crate::{
    chunk::ChunkPolicy,
    cursor::{CursorError, StateSource, StateView},
    error::RootError,
    hash::ChangedLeaves,
    mem::{MemCursor, MemSource, MemState},
    root::{RootCounters, RootOutcome, RootPool},
    stored::StoredBranch,
    strategy::{LateRoot, ProofConfig, RangeConfig, Strategy},
    trial::strategies::{any_strategy, any_value},
    updates::{Account, AccountChange, HashedChange, HashedState},
};
use alloy_primitives::{Address, B256, U256, keccak256};
use alloy_trie::Nibbles;
use proptest::{collection::vec, prelude::*};
use std::{
    collections::BTreeMap,
    num::NonZeroUsize,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicUsize, Ordering},
    },
};

type Accounts = BTreeMap<B256, Account>;
type Slots = BTreeMap<B256, BTreeMap<B256, U256>>;

fn count(count: usize) -> NonZeroUsize {
    NonZeroUsize::new(count).unwrap()
}

fn proofs(chunk_size: usize, policy: ChunkPolicy, workers: usize) -> Strategy {
    Strategy::Proofs(ProofConfig {
        policy,
        batch_keys: count(10),
        chunk_size: count(chunk_size),
        account_workers: count(workers),
        storage_workers: count(workers),
        kept_blocks: None,
        kept_bytes: 1 << 20,
    })
}

/// Both ways of finding out what is unknown.
fn both(size: usize, workers: usize) -> [Strategy; 2] {
    let ranges = Strategy::Ranges(RangeConfig {
        grain: count(size),
        threads: count(workers),
        kept_bytes: 1 << 20,
    });
    [proofs(size, ChunkPolicy::Always, workers), ranges]
}

fn hashed_state(changes: &[HashedChange]) -> HashedState {
    let mut leaves = ChangedLeaves::default();
    changes
        .iter()
        .for_each(|change| leaves.push(change.clone(), |_| ()));
    leaves.into_sorted()
}

/// The state after changes, with tries made from nothing but its leaves.
fn from_scratch(before: &MemState, changes: &HashedState) -> (MemState, B256) {
    let mut after = before.clone();
    after.apply(changes, &Default::default());
    MemState::from_leaves(after.accounts, after.slots).unwrap()
}

/// Sends `changes` in messages of at most `per_message`.
fn run(
    pool: &RootPool<MemSource>,
    state: &MemState,
    root: B256,
    changes: &[HashedChange],
    per_message: usize,
) -> RootOutcome {
    let job = pool.prepare(Arc::new(MemSource(Arc::new(state.clone()))), root);
    for message in changes.chunks(per_message) {
        job.update_hashed(message.to_vec());
    }
    job.finish().unwrap()
}

/// One block on top of a state, which becomes the one that its leaves make from scratch.
#[track_caller]
fn check_block(
    pool: &RootPool<MemSource>,
    (mut state, root): (MemState, B256),
    changes: &[HashedChange],
    per_message: usize,
) -> (MemState, B256) {
    let expected = from_scratch(&state, &hashed_state(changes));
    let outcome = run(pool, &state, root, changes, per_message);
    state.apply(&outcome.hashed_state, &outcome.trie_updates);
    assert_eq!((state, outcome.root.unwrap()), expected);
    expected
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn hashed_keys_and_order_of_delivery(
        strategy in any_strategy(),
        seeds in vec((0..200_u8, 0..20_u8, any_value()), 1..100),
        cut in 0..100_usize,
    ) {
        let changes: Vec<_> = seeds.iter().map(|&(account, slot, value)| AccountChange {
            address: Address::with_last_byte(account),
            account: Some(Account { balance: value, ..Account::default() }),
            storage_wiped: false,
            slots: vec![(B256::with_last_byte(slot), value)],
        }).collect();
        let leaves = HashedState::from_changes(&changes);
        let pool = RootPool::new(strategy).unwrap();
        let (before, root) = sample_state();
        let expected = from_scratch(&before, &leaves);
        let job = pool.prepare(Arc::new(MemSource(Arc::new(before))), root);
        let (early, late) = changes.split_at(cut.min(changes.len()));
        job.update(early.to_vec());
        late.iter().for_each(|change| job.update(vec![change.clone()]));
        let outcome = job.finish().unwrap();
        prop_assert_eq!(outcome.root, Some(expected.1));
        prop_assert_eq!(outcome.hashed_state, leaves);
    }
}

#[test]
fn a_skipped_root_is_not_known() {
    let (state, root) = sample_state();
    let pool = RootPool::new(Strategy::Late(LateRoot::Skip)).unwrap();
    let changes = [HashedChange {
        address: B256::ZERO,
        account: Some(Some(Account::default())),
        storage_wiped: false,
        slots: vec![(B256::ZERO, U256::from(1))],
    }];
    let outcome = run(&pool, &state, root, &changes, 1);
    let expected = RootOutcome {
        root: None,
        hashed_state: hashed_state(&changes),
        trie_updates: Default::default(),
        counters: Default::default(),
    };
    assert_eq!(outcome, expected);
}

/// Beside an extension lie targets before and after the branch it leads to, stored or not.
#[test]
fn targets_on_every_side_of_a_branch() {
    let slots = |entries: &[(&[u8], u64)]| {
        vec![HashedChange {
            address: B256::ZERO,
            account: Some(Some(Account::default())),
            storage_wiped: false,
            slots: entries
                .iter()
                .map(|(first, value)| (B256::right_padding_from(first), U256::from(*value)))
                .collect(),
        }]
    };
    let stored = slots(&[
        (&[0x11, 0x51], 1),
        (&[0x11, 0x52], 2),
        (&[0x11, 0x60], 3),
        (&[0x20], 4),
    ]);
    let not_stored = slots(&[(&[0x11, 0x51], 1), (&[0x11, 0x60], 3), (&[0x20], 4)]);
    let around = slots(&[
        (&[0x10], 5),
        (&[0x10, 1], 6),
        (&[0x10, 2], 7),
        (&[0x11, 0x51], 8),
        (&[0x12], 9),
    ]);
    for before in [stored, not_stored] {
        let empty = MemState::from_leaves(Accounts::new(), Slots::new()).unwrap();
        // A pool of its own, which knows nothing of the state it begins from.
        let fresh = || RootPool::new(proofs(60, ChunkPolicy::Always, 1)).unwrap();
        let ((state, root), pool) = (check_block(&fresh(), empty, &before, 1), fresh());
        // Every path is read at once: nothing has to be asked for again.
        let counters = run(&pool, &state, root, &around, 1).counters;
        assert_eq!((counters.storage_targets, counters.batches), (5, 1));
        check_block(&pool, (state, root), &around, 1);
    }
}

/// Some hundred accounts, a quarter with slots, under hashed keys.
fn sample_state() -> (MemState, B256) {
    static SAMPLE: LazyLock<(MemState, B256)> = LazyLock::new(make_sample_state);
    SAMPLE.clone()
}

fn make_sample_state() -> (MemState, B256) {
    let address = |seed: u16| keccak256(Address::left_padding_from(&seed.to_be_bytes()));
    let account = |seed: u16| Account {
        nonce: seed.into(),
        ..Account::default()
    };
    let slots = |seed: u16| {
        (0..seed).map(move |slot| (keccak256(B256::from(U256::from(slot))), U256::from(seed)))
    };
    MemState::from_leaves(
        (0..400)
            .map(|seed| (address(seed), account(seed)))
            .collect(),
        (0..400)
            .step_by(4)
            .map(|seed| (address(seed), slots(seed).collect()))
            .collect(),
    )
    .unwrap()
}

fn sample_changes(count: u16) -> Vec<HashedChange> {
    (0..count)
        .map(|seed| HashedChange {
            address: keccak256(Address::left_padding_from(&seed.to_be_bytes())),
            account: Some(Some(Account {
                nonce: 9,
                ..Account::default()
            })),
            storage_wiped: false,
            slots: vec![(keccak256(B256::ZERO), U256::from(7))],
        })
        .collect()
}

#[test]
fn a_block_without_changes_keeps_the_root() {
    for strategy in both(5, 1) {
        let pool = RootPool::new(strategy).unwrap();
        let outcome = run(&pool, &MemState::default(), B256::repeat_byte(3), &[], 1);
        assert_eq!(
            (outcome.root.unwrap(), outcome.counters),
            (B256::repeat_byte(3), RootCounters::default())
        );
    }
}

#[test]
fn jobs_follow_the_chunk_size() {
    let (state, root) = sample_state();
    let mut jobs = Vec::new();
    for chunk_size in [5, 60, 100_000] {
        let pool = RootPool::new(proofs(chunk_size, ChunkPolicy::Always, 2)).unwrap();
        let counters = run(&pool, &state, root, &sample_changes(100), 100).counters;
        assert_eq!(
            (counters.account_targets, counters.storage_targets),
            (100, 100)
        );
        assert_eq!(counters.batches, 1);
        assert_eq!(counters.unsplit_batches, u64::from(chunk_size > 200));
        assert!(counters.nodes_revealed > 100);
        jobs.push(counters.jobs);
    }
    assert_eq!(jobs, [40, 4, 1]);
}

#[test]
fn reth_policies_leave_small_batches_whole_without_idle_workers() {
    let (state, root) = sample_state();
    for policy in [ChunkPolicy::Reth1_11, ChunkPolicy::Reth2_5] {
        // One worker of each kind can never be two idle ones.
        let pool = RootPool::new(proofs(5, policy, 1)).unwrap();
        let small = run(&pool, &state, root, &sample_changes(100), 100).counters;
        let large = run(&pool, &state, root, &sample_changes(200), 200).counters;
        assert_eq!((small.jobs, small.unsplit_batches), (1, 1), "{policy:?}");
        assert_eq!((large.jobs, large.unsplit_batches), (80, 0), "{policy:?}");
    }
}

#[test]
fn dropping_a_job_leaves_the_pool_usable() {
    both(1, 2).into_iter().for_each(check_dropping);
}

#[track_caller]
fn check_dropping(strategy: Strategy) {
    let (state, root) = sample_state();
    let pool = RootPool::new(strategy).unwrap();
    let source = Arc::new(MemSource(Arc::new(state.clone())));
    for sent in [0, 1, 300] {
        let job = pool.prepare(Arc::clone(&source), root);
        job.update_hashed(sample_changes(sent));
        drop(job);
    }
    check_block(&pool, (state, root), &sample_changes(50), 3);
}

#[test]
fn a_wrong_parent_root_is_named() {
    both(5, 2).into_iter().for_each(check_wrong_parent);
}

#[track_caller]
fn check_wrong_parent(strategy: Strategy) {
    let (state, root) = sample_state();
    let pool = RootPool::new(strategy).unwrap();
    let job = pool.prepare(
        Arc::new(MemSource(Arc::new(state.clone()))),
        B256::repeat_byte(1),
    );
    job.update_hashed(sample_changes(3));
    match job.finish() {
        Err(RootError::ParentRoot { expected, found }) => {
            assert_eq!((expected, found), (B256::repeat_byte(1), root));
        }
        other => panic!("{other:?}"),
    }
    check_block(&pool, (state, root), &sample_changes(50), 3);
}

/// How a [`Broken`] view breaks.
#[derive(Debug, Clone, Copy)]
enum Breakage {
    Open,
    Read,
    Panic,
}

/// A state whose views break after `reads` cursors were opened.
struct Broken {
    state: Arc<MemState>,
    how: Breakage,
    reads: AtomicUsize,
}

impl Broken {
    fn spend(&self) -> Result<(), CursorError> {
        let left = self
            .reads
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
        match (left, self.how) {
            (Ok(_), _) => Ok(()),
            (Err(_), Breakage::Panic) => panic!("broken view"),
            (Err(_), _) => Err(CursorError::Database("broken view".to_owned())),
        }
    }
}

struct BrokenSource(Arc<Broken>);

impl StateSource for BrokenSource {
    type View = BrokenView;

    fn open(&self) -> Result<BrokenView, CursorError> {
        match self.0.how {
            Breakage::Open => self.0.spend()?,
            Breakage::Read | Breakage::Panic => {}
        }
        Ok(BrokenView(Arc::clone(&self.0)))
    }
}

struct BrokenView(Arc<Broken>);

impl StateView for BrokenView {
    type Trie<'a> = MemCursor<'a, Nibbles, StoredBranch>;
    type Accounts<'a> = MemCursor<'a, B256, Account>;
    type Slots<'a> = MemCursor<'a, B256, U256>;

    fn account_trie(&self) -> Result<Self::Trie<'_>, CursorError> {
        self.0.spend()?;
        self.0.state.account_trie()
    }

    fn storage_trie(&self, hashed_address: B256) -> Result<Self::Trie<'_>, CursorError> {
        self.0.spend()?;
        self.0.state.storage_trie(hashed_address)
    }

    fn accounts(&self) -> Result<Self::Accounts<'_>, CursorError> {
        self.0.spend()?;
        self.0.state.accounts()
    }

    fn slots(&self, hashed_address: B256) -> Result<Self::Slots<'_>, CursorError> {
        self.0.spend()?;
        self.0.state.slots(hashed_address)
    }
}

#[test]
fn a_broken_view_fails_the_job_and_not_the_pool() {
    both(3, 2).into_iter().for_each(check_broken_view);
}

#[track_caller]
fn check_broken_view(strategy: Strategy) {
    let (state, root) = sample_state();
    let state = Arc::new(state);
    let pool = RootPool::new(strategy).unwrap();
    let run = |how, reads| {
        let state = Arc::clone(&state);
        let broken = Broken {
            state,
            how,
            reads: AtomicUsize::new(reads),
        };
        let job = pool.prepare(Arc::new(BrokenSource(Arc::new(broken))), root);
        job.update_hashed(sample_changes(100));
        job.finish()
    };
    for reads in [0, 1, 2, 3, 10, 50, 100] {
        for how in [Breakage::Open, Breakage::Read, Breakage::Panic] {
            match (run(how, reads), how) {
                (Err(RootError::Cursor(error)), Breakage::Open | Breakage::Read) => {
                    assert!(error.to_string().contains("broken view"));
                }
                (Err(RootError::Panicked(text)), Breakage::Panic) => {
                    assert_eq!(text, "broken view")
                }
                // Four workers open no more than four views.
                (Ok(_), Breakage::Open) => assert!(reads >= 4),
                (other, _) => panic!("{how:?} after {reads}: {other:?}"),
            }
        }
    }
    run(Breakage::Read, usize::MAX).unwrap();
}

#[test]
fn views_are_dropped_when_the_block_ends() {
    both(3, 3).into_iter().for_each(check_views_are_dropped);
}

#[track_caller]
fn check_views_are_dropped(strategy: Strategy) {
    let (state, root) = sample_state();
    let state = Arc::new(state);
    let pool = RootPool::new(strategy).unwrap();
    let source = Arc::new(MemSource(Arc::clone(&state)));
    let job = pool.prepare(Arc::clone(&source), root);
    job.update_hashed(sample_changes(100));
    job.finish().unwrap();
    drop(source);
    while Arc::strong_count(&state) > 1 {
        std::thread::yield_now();
    }
}
