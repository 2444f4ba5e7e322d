//! One walk over the targets of several subtries.

use super::*;
use crate::mem::MemState;
use alloy_primitives::{U256, keccak256};
use std::collections::BTreeMap;

/// The slots of a contract of several hundred, sorted, and a state that has them.
fn contract() -> (MemState, Vec<B256>) {
    let slots: BTreeMap<_, _> = (0..400_u64)
        .map(|seed| (keccak256(seed.to_be_bytes()), U256::from(seed + 1)))
        .collect();
    let keys = slots.keys().copied().collect();
    let accounts = BTreeMap::from([(B256::ZERO, Default::default())]);
    let storages = BTreeMap::from([(B256::ZERO, slots)]);
    (MemState::from_leaves(accounts, storages).unwrap().0, keys)
}

/// Walks for targets given by key and where its path is blind, and tells where each subtree that
/// came back begins and which of the keys it holds.
#[track_caller]
fn check_roots(targets: &[(B256, usize)], expected: &[(usize, usize)]) {
    let (state, _) = contract();
    let trie = state.storage_trie(B256::ZERO).unwrap();
    let slots = state.slots(B256::ZERO).unwrap();
    let targets: Vec<_> = targets
        .iter()
        .map(|&(key, start)| Target { key, start })
        .collect();
    let cancelled = AtomicBool::new(false);
    let proof = Walk::new(trie, slots, SlotValues, &cancelled)
        .run(&targets)
        .unwrap();
    let leaves = |root: &ProofRoot| {
        let known = |leaf: &&crate::sparse::Leaf<U256>| {
            let is_target = targets.iter().any(|target| target.key == leaf.key);
            is_target && common_prefix(&leaf.key, &root.key) >= root.start
        };
        proof.arena.leaves.iter().filter(known).count()
    };
    let found: Vec<_> = proof
        .roots
        .iter()
        .map(|root| (root.start, leaves(root)))
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn every_subtree_is_read_once_and_with_all_its_targets() {
    let (_, keys) = contract();
    let of = |nibble: usize| {
        keys.iter()
            .copied()
            .filter(move |key| super::nibble(key, 0) == nibble)
    };
    let [a, b, c] = [1, 2, 3].map(|nibble| of(nibble).next().unwrap());
    let a_last = of(1).next_back().unwrap();
    check_roots(&[(a, 0), (b, 0)], &[(0, 2)]);
    check_roots(&[(a, 1), (a_last, 1), (b, 1)], &[(1, 2), (1, 1)]);
    check_roots(&[(a, 1), (b, 2), (c, 1)], &[(1, 1), (2, 1), (1, 1)]);
}
