//! Scripts drawn at random, on keys that crowd.

use super::{Block, Step, Trial};
use crate::{
    chunk::ChunkPolicy,
    nibbles::KEY_LEN,
    strategy::{LateRoot, ProofConfig, RangeConfig},
    updates::{Account, HashedChange},
};
use alloy_primitives::{B256, U256, keccak256};
use proptest::{collection::vec, prelude::*};
use std::num::{NonZeroU64, NonZeroUsize};

pub(crate) fn count(count: usize) -> NonZeroUsize {
    NonZeroUsize::new(count).unwrap()
}

pub(crate) fn any_strategy() -> impl Strategy<Value = crate::Strategy> {
    let size = prop_oneof![
        2 => 1..8_usize,
        1 => 8..300_usize,
        1 => prop_oneof![Just(301_usize), Just(1_000), Just(100_000)],
    ];
    // Nothing is kept, a part of the tries, or all of them.
    let kept_bytes = prop_oneof![Just(0_usize), 1_000..100_000_usize, Just(1 << 30)];
    let workers = (1..=8_usize, 1..=8_usize);
    let batch = prop_oneof![Just(1_usize), 2..200_usize];
    (0..8_usize, size, batch, workers, kept_bytes).prop_map(
        |(way, size, batch, workers, kept_bytes)| match way {
            0..3 => crate::Strategy::Proofs(ProofConfig {
                policy: ChunkPolicy::ALL[way],
                batch_keys: count(batch),
                chunk_size: count(size),
                account_workers: count(workers.0),
                storage_workers: count(workers.1),
                kept_blocks: NonZeroU64::new(batch as u64 % 4),
                kept_bytes,
            }),
            3..6 => crate::Strategy::Ranges(RangeConfig {
                grain: count(size),
                threads: count(workers.0),
                kept_bytes,
            }),
            6 => crate::Strategy::Late(LateRoot::Parallel(count(workers.0))),
            _ => crate::Strategy::Late(LateRoot::Serial),
        },
    )
}

/// `pattern` with some nibbles replaced.
fn with_nibbles(pattern: B256, nibbles: &[(usize, u8)]) -> B256 {
    let mut key = pattern;
    for &(at, nibble) in nibbles {
        let shift = if at.is_multiple_of(2) { 4 } else { 0 };
        key[at / 2] = key[at / 2] & !(0xf << shift) | nibble << shift;
    }
    key
}

/// Keys that crowd: spread evenly; or any prefix of one pattern shared, one or two nibbles apart
/// from it; or a run at the very end of one long path, where leaves are embedded in their branch.
pub(crate) fn any_key() -> impl Strategy<Value = B256> {
    let spread = any::<u16>().prop_map(|seed| keccak256((seed % 97).to_be_bytes()));
    let pattern = prop_oneof![Just(B256::ZERO), Just(B256::repeat_byte(0x5a))];
    let apart = (pattern, vec((0..KEY_LEN, 0..16_u8), 0..3))
        .prop_map(|(pattern, nibbles)| with_nibbles(pattern, &nibbles));
    let top = (0..3_u8, 0..40_u8).prop_map(|(first, second)| {
        let mut key = B256::with_last_byte(1);
        (key[0], key[1]) = (first * 0x11, second);
        key
    });
    let end = (0..2_u8, 0..3_u8, 0..40_u8).prop_map(|(first, middle, last)| {
        let mut key = B256::ZERO;
        (key[0], key[30], key[31]) = (first * 0x40, middle, last);
        key
    });
    prop_oneof![3 => spread, 3 => apart, 2 => top, 3 => end]
}

pub(crate) fn any_value() -> impl Strategy<Value = U256> {
    prop_oneof![
        3 => Just(U256::ZERO),
        // The last value of one byte, and the first that takes a header.
        4 => (1..=0x80_u64).prop_map(U256::from),
        1 => any::<[u8; 32]>().prop_map(U256::from_be_bytes),
    ]
}

fn any_account() -> impl Strategy<Value = Account> {
    let other = (0..3_u64, any_value()).prop_map(|(nonce, balance)| Account {
        nonce,
        balance,
        ..Account::default()
    });
    // Often the same, so that blocks name accounts of which only the storage changes.
    prop_oneof![1 => other, 1 => Just(Account::default())]
}

fn any_change() -> impl Strategy<Value = HashedChange> {
    let few = vec((any_key(), any_value()), 0..4);
    let many = vec((any_key(), any_value()), 0..60);
    let account = prop_oneof![
        5 => any_account().prop_map(|account| Some(Some(account))),
        1 => Just(Some(None)),
        1 => Just(None),
    ];
    (
        any_key(),
        account,
        prop::bool::weighted(0.1),
        prop_oneof![8 => few, 1 => many],
    )
        .prop_map(|(address, account, storage_wiped, slots)| HashedChange {
            address,
            account,
            storage_wiped,
            slots,
        })
}

fn any_changes() -> impl Strategy<Value = Vec<HashedChange>> {
    prop_oneof![
        4 => vec(any_change(), 0..6),
        3 => vec(any_change(), 0..60),
        // Few accounts, changed again and again.
        2 => (vec(any_key(), 1..3), vec((any_change(), any::<prop::sample::Index>()), 0..40))
            .prop_map(|(addresses, changes)| {
                let on_few = |(change, index): (HashedChange, prop::sample::Index)| HashedChange {
                    address: *index.get(&addresses),
                    ..change
                };
                changes.into_iter().map(on_few).collect()
            }),
    ]
}

pub(crate) fn blocks_of(
    changes: impl Strategy<Value = Vec<HashedChange>>,
) -> impl Strategy<Value = Block> {
    (changes, 1..20_usize, any::<bool>()).prop_map(|(changes, per_message, rests)| Block {
        changes,
        per_message: count(per_message),
        // Resting after each of many messages would take long and show nothing more.
        rests: rests && per_message > 4,
    })
}

pub(crate) fn trial_of(
    changes: impl Strategy<Value = Vec<HashedChange>>,
) -> impl Strategy<Value = Trial> {
    let step = prop_oneof![
        5 => blocks_of(changes).prop_map(Step::Block),
        1 => (0..4_usize).prop_map(Step::Back),
    ];
    (any_strategy(), vec(step, 1..8)).prop_map(|(strategy, steps)| Trial { strategy, steps })
}

pub(crate) fn any_trial() -> impl Strategy<Value = Trial> {
    trial_of(any_changes())
}

/// All changes in the storage of one account, a few slots at a time.
pub(crate) fn whale_trial() -> impl Strategy<Value = Trial> {
    let change = |slots: &[(B256, U256)]| HashedChange {
        address: B256::ZERO,
        account: Some(Some(Account::default())),
        storage_wiped: false,
        slots: slots.to_vec(),
    };
    let slots = prop_oneof![
        3 => vec((any_key(), any_value()), 1..200),
        // Taken away again: most of a trie, in one block.
        1 => vec((any_key(), Just(U256::ZERO)), 1..300),
    ];
    trial_of(slots.prop_map(move |slots| slots.chunks(7).map(change).collect()))
}
