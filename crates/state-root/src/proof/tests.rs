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
fn check_roots(shallow: bool, targets: &[(B256, usize)], expected: &[(usize, usize)]) {
    let (state, _) = contract();
    let trie = state.storage_trie(B256::ZERO).unwrap();
    let slots = state.slots(B256::ZERO).unwrap();
    let targets: Vec<_> = targets
        .iter()
        .map(|&(key, start)| Target { key, start })
        .collect();
    let cancelled = AtomicBool::new(false);
    let proof = Walk::new(trie, slots, SlotValues, &cancelled)
        .shallow(shallow)
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
    check_roots(false, &[(a, 0), (b, 0)], &[(0, 2)]);
    check_roots(false, &[(a, 1), (a_last, 1), (b, 1)], &[(1, 2), (1, 1)]);
    check_roots(false, &[(a, 1), (b, 2), (c, 1)], &[(1, 1), (2, 1), (1, 1)]);
}

#[test]
fn a_shallow_walk_stops_at_the_topmost_stored_branches() {
    let (_, keys) = contract();
    let all: Vec<_> = keys.iter().map(|key| (*key, 0)).collect();
    check_roots(false, &all, &[(0, 400)]);
    // Of 400 keys, some hang on one of the 16 topmost branches.
    let (state, _) = contract();
    let targets: Vec<_> = keys.iter().map(|&key| Target { key, start: 0 }).collect();
    let nodes = [true, false].map(|shallow| {
        let trie = state.storage_trie(B256::ZERO).unwrap();
        let slots = state.slots(B256::ZERO).unwrap();
        let walk = Walk::new(trie, slots, SlotValues, &AtomicBool::new(false))
            .shallow(shallow)
            .run(&targets);
        let proof = walk.unwrap();
        (proof.root_hash(), proof.arena.branches.len())
    });
    assert_eq!(nodes[0].0, nodes[1].0);
    // The root, its children, and the few of theirs that an extension leads to.
    assert!((17..25).contains(&nodes[0].1), "{nodes:?}");
    assert!(nodes[1].1 > 100, "{nodes:?}");
}

#[test]
fn leaves_hashed_together_have_the_same_hashes() {
    let (state, keys) = contract();
    let mut stubs = 0;
    for (step, start) in [(1, 1), (7, 1), (40, 1), (3, 2), (400, 1), (5, 0)] {
        let targets = keys.iter().step_by(step);
        let targets: Vec<_> = targets.map(|&key| Target { key, start }).collect();
        let walk = |together: bool| {
            let trie = state.storage_trie(B256::ZERO).unwrap();
            let slots = state.slots(B256::ZERO).unwrap();
            let cancelled = AtomicBool::new(false);
            let walk = Walk::new(trie, slots, SlotValues, &cancelled);
            let walk = if together { walk.together() } else { walk };
            walk.run(&targets).unwrap().arena
        };
        let (alone, together) = (walk(false), walk(true));
        assert_eq!(alone.stubs, together.stubs, "every {step}th from {start}");
        stubs += together.stubs.len();
        assert!(
            !together
                .stubs
                .iter()
                .any(|stub| stub.rlp.hash() == Some(B256::ZERO))
        );
    }
    assert!(stubs > 200, "{stubs}");
}
