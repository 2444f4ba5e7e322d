//! The reference against tries encoded by hand, and over a state whose leaves are already written.

use super::*;
use crate::{
    mem::MemState,
    stored::{Masks, StoredBranch},
    updates::{Account, HashedState, HashedStorage, StorageTrieUpdates, TrieUpdates},
};
use alloy_primitives::{B256, U256, keccak256};
use alloy_trie::{EMPTY_ROOT_HASH, Nibbles, TrieMask};
use std::collections::BTreeMap;

const OWNER: B256 = B256::repeat_byte(0xaa);

/// A key of these first bytes, then zeros.
fn key(first: &[u8]) -> B256 {
    B256::right_padding_from(first)
}

/// A leaf that begins at an even nibble, whose value is below 0x80.
fn even_leaf(key: B256, start: usize, value: u8) -> Vec<u8> {
    let rest = &key[start / 2..];
    let path_len = 0x81 + rest.len() as u8;
    let header = 0xc0 + 3 + rest.len() as u8;
    [&[header, path_len, 0x20][..], rest, &[value]].concat()
}

/// The same beginning at an odd nibble.
fn odd_leaf(key: B256, start: usize, value: u8) -> Vec<u8> {
    let mut rest = key[start / 2..].to_vec();
    rest[0] = 0x30 | rest[0] & 0xf;
    let path_len = 0x80 + rest.len() as u8;
    let header = 0xc0 + 2 + rest.len() as u8;
    [&[header, path_len][..], &rest, &[value]].concat()
}

/// A branch of hashed children, given by nibble.
fn branch(children: &[(usize, Vec<u8>)]) -> Vec<u8> {
    let mut payload = Vec::new();
    for nibble in 0..16 {
        match children.iter().find(|(at, _)| *at == nibble) {
            Some((_, child)) => {
                payload.push(0xa0);
                payload.extend(keccak256(child));
            }
            None => payload.push(0x80),
        }
    }
    payload.push(0x80);
    let header = [0xf8, u8::try_from(payload.len()).unwrap()];
    [&header[..], &payload].concat()
}

type Slots = Vec<(B256, U256)>;

fn slots(slots: &[(&[u8], u64)]) -> Slots {
    let slots = slots.iter();
    slots
        .map(|(first, value)| (key(first), U256::from(*value)))
        .collect()
}

fn storage(wiped: bool, changed: &[(&[u8], u64)]) -> HashedStorage {
    HashedStorage {
        wiped,
        slots: slots(changed),
    }
}

/// Four slots: two below a branch at nibble 1, and one at each of nibbles 2 and 3.
fn four_slots() -> Slots {
    slots(&[(&[0x11], 1), (&[0x12], 2), (&[0x20], 3), (&[0x30], 4)])
}

/// The root of [`four_slots`], by hand.
fn root_of_four() -> B256 {
    let inner = branch(&[
        (1, even_leaf(key(&[0x11]), 2, 1)),
        (2, even_leaf(key(&[0x12]), 2, 2)),
    ]);
    keccak256(branch(&[
        (1, inner),
        (2, odd_leaf(key(&[0x20]), 1, 3)),
        (3, odd_leaf(key(&[0x30]), 1, 4)),
    ]))
}

/// The account [`OWNER`] with these slots, and some others without.
fn state(slots: Slots) -> (MemState, B256) {
    let others = (0..40_u8).map(|seed| (keccak256([seed]), Account::default()));
    MemState::from_leaves(
        others.chain([(OWNER, Account::default())]).collect(),
        BTreeMap::from([(OWNER, slots.into_iter().collect())]),
    )
    .unwrap()
}

#[test]
fn storage_roots_are_those_encoded_by_hand() {
    let one = slots(&[(&[0x11], 1)]);
    assert_eq!(root_of_storage_leaves([]).0, EMPTY_ROOT_HASH);
    assert_eq!(
        root_of_storage_leaves(one),
        (
            keccak256(even_leaf(key(&[0x11]), 0, 1)),
            StorageTrieUpdates::default()
        )
    );
    let (root, updates) = root_of_storage_leaves(four_slots());
    // The branch below nibble 1 has but leaves, and the root is never stored.
    assert_eq!((root, updates), (root_of_four(), Default::default()));
}

#[test]
fn a_branch_over_a_branch_is_stored() {
    let leaves = slots(&[
        (&[0x11, 0x10], 1),
        (&[0x11, 0x20], 2),
        (&[0x12], 3),
        (&[0x20], 4),
    ]);
    let inner = branch(&[
        (1, odd_leaf(leaves[0].0, 3, 1)),
        (2, odd_leaf(leaves[1].0, 3, 2)),
    ]);
    let stored = StoredBranch::new(
        Masks {
            state: TrieMask::new(0b110),
            tree: TrieMask::new(0),
            hash: TrieMask::new(0b010),
        },
        vec![keccak256(inner)],
    );
    let (_, updates) = root_of_storage_leaves(leaves);
    assert!(!updates.wiped);
    assert_eq!(updates.nodes, [(Nibbles::from_nibbles([1]), Some(stored))]);
}

#[test]
fn storage_root_takes_changes_over_what_is_stored() {
    let (view, _) = state(slots(&[(&[0x11], 1), (&[0x20], 9), (&[0x40], 5)]));
    let root = |changes: Option<&HashedStorage>| storage_root(&view, OWNER, changes).unwrap();
    let stored = slots(&[(&[0x11], 1), (&[0x20], 9), (&[0x40], 5)]);
    assert_eq!(
        root(None),
        (root_of_storage_leaves(stored).0, Default::default())
    );
    // Added, changed, removed and left alone.
    let changed = storage(
        false,
        &[(&[0x12], 2), (&[0x20], 3), (&[0x30], 4), (&[0x40], 0)],
    );
    assert_eq!(root(Some(&changed)).0, root_of_four());
    // A wipe leaves nothing but the slots set with it.
    let (wiped_root, updates) = root(Some(&storage(true, &[(&[0x30], 4)])));
    assert_eq!(wiped_root, keccak256(even_leaf(key(&[0x30]), 0, 4)));
    assert_eq!((updates.wiped, updates.nodes), (true, vec![]));
    assert_eq!(root(Some(&storage(true, &[]))).0, EMPTY_ROOT_HASH);
    let all_removed = storage(false, &[(&[0x11], 0), (&[0x20], 0), (&[0x40], 0)]);
    assert_eq!(root(Some(&all_removed)).0, EMPTY_ROOT_HASH);
    let unknown = storage_root(&view, B256::ZERO, None).unwrap();
    assert_eq!(unknown, (EMPTY_ROOT_HASH, Default::default()));
}

/// Writes leaves, leaves the stored branches as they were, and has them caught up.
#[track_caller]
fn check_written(before: &MemState, changes: &HashedState) {
    let mut written = before.clone();
    written.apply(changes, &TrieUpdates::default());
    let (expected, root) =
        MemState::from_leaves(written.accounts.clone(), written.slots.clone()).unwrap();
    let (found, nodes) = root_of_prefixes(&written, &PrefixSets::from(changes)).unwrap();
    written.apply(&HashedState::default(), &nodes);
    assert_eq!(found, root);
    assert_eq!(written, expected);
}

#[test]
fn written_leaves_are_caught_up_with() {
    let many = |from: u64, count: u64| -> Slots {
        let mut slots: Slots = (from..from + count)
            .map(|seed| (keccak256(seed.to_be_bytes()), U256::from(seed + 1)))
            .collect();
        slots.sort();
        slots
    };
    let (before, _) = state(many(0, 300));
    assert!(before.storage_tries[&OWNER].len() > 1 && !before.account_trie.is_empty());
    let storage_changes = |wiped, slots| HashedState {
        accounts: Vec::new(),
        storages: [(OWNER, HashedStorage { wiped, slots })]
            .into_iter()
            .collect(),
    };
    let removed: Slots = many(0, 299)
        .into_iter()
        .map(|(slot, _)| (slot, U256::ZERO))
        .collect();
    check_written(&before, &HashedState::default());
    check_written(&before, &storage_changes(false, many(250, 200)));
    check_written(&before, &storage_changes(false, removed));
    check_written(&before, &storage_changes(true, many(250, 200)));
    check_written(&before, &storage_changes(true, Vec::new()));
    let gone = (0..39_u8).map(|seed| (keccak256([seed]), None));
    let mut accounts: Vec<_> = gone.collect();
    accounts.sort_by_key(|(address, _)| *address);
    check_written(
        &before,
        &HashedState {
            accounts,
            ..Default::default()
        },
    );
}
