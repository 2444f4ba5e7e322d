//! Trials drawn at random, and the shapes that chance would take long to find.

use super::{strategies::*, *};
use crate::{
    chunk::ChunkPolicy,
    strategy::{LateRoot, ProofConfig, RangeConfig, Strategy},
    updates::Account,
};
use alloy_primitives::{B256, U256, keccak256};
use proptest::{collection::vec, prelude::*};

#[track_caller]
fn check(trial: &Trial) {
    if let Err(error) = trial.run() {
        panic!("failed to {error}");
    }
}

proptest! {
    #[test]
    fn every_way_agrees_on_any_state(trial in any_trial()) {
        check(&trial);
    }

    #[test]
    fn every_way_agrees_on_one_whale_contract(trial in whale_trial()) {
        check(&trial);
    }

    #[test]
    fn every_way_agrees_on_any_bytes(bytes in vec(any::<u8>(), 0..600)) {
        check(&Trial::from_bytes(&bytes));
    }
}

/// Proofs and ranges, keeping everything or nothing, and all of it after execution.
fn all_strategies(size: usize, workers: usize) -> Vec<Strategy> {
    let (size, workers) = (count(size), count(workers));
    let keeping = |kept_bytes| {
        [
            Strategy::Proofs(ProofConfig {
                policy: ChunkPolicy::Always,
                batch_keys: count(20),
                chunk_size: size,
                account_workers: workers,
                storage_workers: workers,
                kept_blocks: None,
                kept_bytes,
            }),
            Strategy::Ranges(RangeConfig {
                grain: size,
                threads: workers,
                kept_bytes,
            }),
        ]
    };
    let late = [Strategy::Late(LateRoot::Parallel(workers))];
    [0, 1 << 30]
        .into_iter()
        .flat_map(keeping)
        .chain(late)
        .collect()
}

fn block(changes: Vec<HashedChange>) -> Step {
    Step::Block(Block {
        changes,
        per_message: count(100),
        rests: false,
    })
}

fn change(address: B256, nonce: u64, slots: Vec<(B256, U256)>) -> HashedChange {
    HashedChange {
        address,
        account: Some(Some(Account {
            nonce,
            ..Account::default()
        })),
        storage_wiped: false,
        slots,
    }
}

fn removal(address: B256) -> HashedChange {
    HashedChange {
        account: Some(None),
        storage_wiped: true,
        ..change(address, 0, Vec::new())
    }
}

fn wiped(change: HashedChange) -> HashedChange {
    HashedChange {
        storage_wiped: true,
        ..change
    }
}

/// Runs the blocks in order, then the last one again after a step back, in jobs of every size.
#[track_caller]
fn check_blocks(blocks: Vec<Vec<HashedChange>>) {
    let mut steps: Vec<_> = blocks.into_iter().map(block).collect();
    steps.extend([Step::Back(1), steps[steps.len() - 1].clone()]);
    for strategy in [1, 2, 100_000].map(|size| all_strategies(size, 2)).concat() {
        let steps = steps.clone();
        check(&Trial { strategy, steps });
    }
}

#[test]
fn an_account_that_only_loses_its_storage_changes() {
    let address = |n: u8| keccak256([n]);
    let slot = |value: u64| vec![(B256::repeat_byte(0xa6), U256::from(value))];
    let others = (0..100).map(|n| change(address(n), 1, Vec::new()));
    let made = others.chain((100..130).map(|n| change(address(n), 1, slot(7))));
    let emptied = (100..130).map(|n| change(address(n), 1, slot(0)));
    check_blocks(vec![made.collect(), emptied.collect()]);
}

/// A leaf: the first bytes of its key, then zeros, and its value; zero removes it.
type Leaf<'a> = (&'a [u8], u64);

/// The same blocks in the storage of one account and, with slots read as addresses, among accounts.
#[track_caller]
fn check_everywhere(blocks: &[&[Leaf<'_>]]) {
    let in_storage = |leaves: &&[Leaf<'_>]| {
        let slots = leaves.iter();
        let slots = slots.map(|(key, value)| (B256::right_padding_from(key), U256::from(*value)));
        vec![change(B256::repeat_byte(0x77), 1, slots.collect())]
    };
    let among_accounts = |leaves: &&[Leaf<'_>]| {
        let account = |(key, value): &Leaf<'_>| match (B256::right_padding_from(key), *value) {
            (address, 0) => removal(address),
            (address, nonce) => change(address, nonce, Vec::new()),
        };
        leaves.iter().map(account).collect()
    };
    check_blocks(blocks.iter().map(in_storage).collect());
    check_blocks(blocks.iter().map(among_accounts).collect());
}

#[test]
fn branches_collapse_at_the_root() {
    // Into a leaf.
    check_everywhere(&[&[(&[0x11], 1), (&[0x20], 2)], &[(&[0x20], 0)]]);
    // Into a branch that nobody asked for, stored or not, which gets an extension.
    check_everywhere(&[&[(&[0x11], 1), (&[0x12], 2), (&[0x20], 3)], &[(&[0x20], 0)]]);
    check_everywhere(&[
        &[(&[0x11, 1], 1), (&[0x11, 2], 2), (&[0x12], 3), (&[0x20], 4)],
        &[(&[0x20], 0)],
    ]);
    // Into an extension, which grows.
    check_everywhere(&[
        &[(&[0x11, 0x11], 1), (&[0x11, 0x12], 2), (&[0x20], 3)],
        &[(&[0x20], 0)],
    ]);
}

#[test]
fn branches_collapse_further_down() {
    let base: &[Leaf<'_>] = &[
        (&[0x11, 0x11, 0x11], 1),
        (&[0x11, 0x11, 0x12], 2),
        (&[0x11, 0x11, 0x22], 3),
        (&[0x11, 0x33], 4),
        (&[0x11, 0x34], 5),
        (&[0x44], 6),
    ];
    // One level, two, all of them, and another leaf put in the place in the same block.
    check_everywhere(&[base, &[(&[0x11, 0x11, 0x22], 0)]]);
    check_everywhere(&[base, &[(&[0x11, 0x33], 0), (&[0x11, 0x34], 0)]]);
    check_everywhere(&[
        base,
        &[(&[0x11, 0x33], 0), (&[0x11, 0x34], 0), (&[0x44], 0)],
    ]);
    check_everywhere(&[
        base,
        &[(&[0x11, 0x11, 0x22], 0), (&[0x11, 0x11, 0x13], 7)],
        &[(&[0x11, 0x11, 0x13], 0)],
    ]);
    let all: Vec<_> = base.iter().map(|(key, _)| (*key, 0)).collect();
    check_everywhere(&[base, &all, base]);
    check_everywhere(&[base, &all[..5], &all[5..], base]);
}

#[test]
fn nodes_below_32_bytes_are_embedded() {
    let end = |last: u8| {
        let mut key = [0x51; 32];
        key[31] = last;
        key
    };
    let [a, b, c, d] = [0x10, 0x11, 0x12, 0x23].map(end);
    // Embedded leaves make a branch, short or long; the branch grows over 32 bytes and back.
    check_everywhere(&[&[(&a, 1), (&b, 2)], &[(&c, 3)], &[(&d, 4)], &[(&c, 0)]]);
    check_everywhere(&[&[(&a, 1), (&b, 2), (&[0x60], 9)], &[(&a, 0)]]);
    let many: Vec<_> = (0..16).map(end).collect();
    let many: Vec<Leaf<'_>> = many.iter().map(|key| (&key[..], 1)).collect();
    let most: Vec<Leaf<'_>> = many[1..].iter().map(|(key, _)| (*key, 0)).collect();
    check_everywhere(&[&many, &most, &many]);
    // A value of one byte, then of two.
    check_everywhere(&[&[(&a, 0x7f), (&b, 1)], &[(&a, 0x80)]]);
}

#[test]
fn every_length_of_shared_prefix() {
    for at in 0..64 {
        let mut other = B256::repeat_byte(0x77);
        other[at / 2] ^= if at % 2 == 0 { 0x10 } else { 0x01 };
        let key = B256::repeat_byte(0x77);
        let (first, second): (Leaf<'_>, Leaf<'_>) = ((&key[..], 1), (&other[..], 2));
        check_everywhere(&[&[first], &[second], &[(first.0, 0)]]);
    }
}

/// `count` slots of which half differ in the upper levels and half in one long path.
fn slots(count: u64, value: u64) -> Vec<(B256, U256)> {
    (0..count)
        .map(|seed| {
            let mut key = keccak256(seed.to_be_bytes());
            if seed.is_multiple_of(2) {
                key[..20].fill(0x12);
            }
            (key, U256::from(value))
        })
        .collect()
}

#[test]
fn wiped_storage() {
    let owner = B256::repeat_byte(0x77);
    let set = |count, value| change(owner, 1, slots(count, value));
    // With other accounts, so that the account trie has its own branches.
    let others = (0..40_u8).map(|seed| change(keccak256([seed]), 1, slots(3, 1)));
    let first: Vec<_> = others.chain([set(120, 1)]).collect();
    let after = |steps: &[HashedChange]| vec![first.clone(), steps.to_vec(), vec![set(130, 5)]];
    check_blocks(after(&[wiped(set(0, 0))]));
    check_blocks(after(&[wiped(set(60, 2))]));
    check_blocks(after(&[set(60, 3), wiped(set(10, 2)), set(20, 4)]));
    check_blocks(after(&[set(60, 3), removal(owner), set(20, 4)]));
    check_blocks(after(&[removal(owner), set(20, 4), removal(owner)]));
    check_blocks(after(&[wiped(set(120, 1))]));
    // Wiped in one block, written in the next, wiped again in the one after.
    check_blocks(vec![
        first.clone(),
        vec![wiped(set(0, 0))],
        vec![set(50, 6)],
        vec![wiped(set(9, 7)), set(30, 0)],
        vec![removal(owner)],
        vec![set(70, 8)],
    ]);
}

#[test]
fn a_state_is_emptied_and_filled_again() {
    let address = |seed: u64| keccak256(seed.to_be_bytes());
    let all = || (0..150).map(|seed| change(address(seed), 1, slots(seed % 5, 3)));
    let none = || (0..150).map(|seed| removal(address(seed)));
    let both = all().zip(none()).flat_map(|(set, gone)| [set, gone]);
    check_blocks(vec![
        all().collect(),
        none().collect(),
        all().collect(),
        none().chain(all()).collect(),
        both.collect(),
        all().take(1).collect(),
    ]);
}

#[test]
fn thousands_of_small_contracts() {
    let address = |seed: u64| keccak256(seed.to_be_bytes());
    let all = (0..3_000).map(|seed| change(address(seed), 1, slots(1 + seed % 3, 3)));
    let some = (0..3_000)
        .step_by(3)
        .map(|seed| change(address(seed), 2, slots(3, seed % 2)));
    for strategy in [7, 100_000].map(|size| all_strategies(size, 8)).concat() {
        let steps = vec![block(all.clone().collect()), block(some.clone().collect())];
        check(&Trial { strategy, steps });
    }
}
