//! What is read is what the leaves make.

use super::*;
use crate::{
    cursor::StateView,
    mem::MemState,
    nibbles::{KEY_LEN, first_key},
    trial::strategies::{any_key, any_value},
};
use alloy_primitives::{U256, keccak256};
use proptest::{
    collection::{btree_map, vec},
    prelude::*,
    sample::Index,
};
use std::collections::BTreeMap;

/// A node: its key and how much of it is its path (all of it for a leaf), if it is kept; how it is
/// referred to; whether it is stored.
type Seen = (Option<(B256, usize)>, Option<Encoded>, bool);

fn contract(slots: BTreeMap<B256, U256>) -> MemState {
    let accounts = BTreeMap::from([(B256::ZERO, Default::default())]);
    let storages = BTreeMap::from([(B256::ZERO, slots)]);
    MemState::from_leaves(accounts, storages).unwrap().0
}

fn read(
    state: &MemState,
    targets: &[Target],
    (is_shallow, needs_root): (bool, bool),
) -> (Vec<Read<U256>>, usize) {
    let trie = state.storage_trie(B256::ZERO).unwrap();
    let slots = state.slots(B256::ZERO).unwrap();
    let manner = Manner {
        is_shallow,
        needs_root,
        epoch: 0,
    };
    let cancelled = AtomicBool::new(false);
    let reader = Reader::new(trie, slots, Slots, (manner, &cancelled));
    reader.run(targets).unwrap()
}

/// Nodes as they are kept, and references to children that are not.
fn see(node: &Node<U256>, encoded: Option<Encoded>, seen: &mut Vec<Seen>) {
    match node {
        Node::None => seen.push((None, encoded, false)),
        Node::Leaf(leaf) => seen.push((Some((leaf.key, 64)), encoded, false)),
        Node::Branch(branch) => {
            let depth = branch.head.depth();
            let first = first_key(&branch.head.key, depth);
            seen.push((Some((first, depth)), encoded, branch.head.stored));
            for (nibble, reference) in branch.references() {
                let child = branch.child(nibble).unwrap_or(&Node::None);
                see(child, reference, seen);
            }
        }
    }
}

/// The same of the trie that leaves make, and how its root is referred to: kept is what lies on the
/// path of a target.
fn see_leaves(
    leaves: &[(B256, U256)],
    start: usize,
    targets: &[Target],
    seen: &mut Vec<Seen>,
) -> Encoded {
    let (first, last) = (leaves[0].0, leaves[leaves.len() - 1].0);
    let depth = common_prefix(&first, &last);
    let place = seen.len();
    seen.push((None, None, false));
    let (path, encoded, stored) = if depth == KEY_LEN {
        let mut rlp = Vec::new();
        Scratch::default().write_leaf((&first, start), &leaves[0].1, &mut rlp);
        (first, Encoded::plain(ChildRef::to_node(&rlp)), false)
    } else {
        let mut encoder = BranchEncoder::new();
        for group in leaves.chunk_by(|(a, _), (b, _)| nibble(a, depth) == nibble(b, depth)) {
            let here = |target: &&Target| common_prefix(&target.key, &group[0].0) > depth;
            let below: Vec<_> = targets.iter().filter(here).copied().collect();
            let child = see_leaves(group, depth + 1, &below, seen);
            encoder.push(nibble(&group[0].0, depth), &child);
        }
        let encoded = encoder.finish((&first, depth), start, &mut Scratch::default());
        let path = first_key(&first, depth);
        (path, encoded, encoder.is_stored(depth))
    };
    if targets.is_empty() {
        seen.truncate(place + 1);
        seen[place] = (None, Some(encoded), false);
    } else {
        seen[place] = (Some((path, depth)), Some(encoded), stored);
    }
    encoded
}

/// Reads what is on the paths of targets, and references to all that is beside them.
fn check(slots: BTreeMap<B256, U256>, targets: &[Target]) -> usize {
    let present = slots.iter().filter(|(_, value)| !value.is_zero());
    let present: Vec<_> = present.map(|(key, value)| (*key, *value)).collect();
    let state = contract(slots);
    let (all, nodes) = read(&state, targets, (false, true));
    let mut kept = 0;
    for read in &all {
        let here = |key: &B256| common_prefix(key, &read.key) >= read.start;
        let leaves: Vec<_> = present
            .iter()
            .filter(|(key, _)| here(key))
            .copied()
            .collect();
        let below = targets.iter().filter(|target| here(&target.key));
        let below: Vec<_> = below.copied().collect();
        let (mut seen, mut expected) = (Vec::new(), Vec::new());
        if !read.slot.is_empty() {
            see(&read.slot.node, read.slot.encoded, &mut seen);
        }
        if !leaves.is_empty() {
            see_leaves(&leaves, read.start, &below, &mut expected);
        }
        if read.start == 0 && !expected.is_empty() {
            assert_eq!(seen[0].1, expected[0].1, "the root is known");
        }
        compare(seen, &expected);
        kept += expected.iter().filter(|(kept, ..)| kept.is_some()).count();
    }
    assert_eq!(nodes, kept);
    let roots: std::collections::BTreeSet<_> = targets
        .iter()
        .map(|target| (first_key(&target.key, target.start), target.start))
        .collect();
    assert_eq!(all.len(), roots.len());
    // Without its root, kept nodes may lack a reference, and nothing else.
    let (later, nodes_later) = read(&state, targets, (false, false));
    assert_eq!(nodes_later, nodes);
    for (read, now) in later.iter().zip(&all) {
        let (mut seen, mut expected) = (Vec::new(), Vec::new());
        see(&read.slot.node, None, &mut seen);
        see(&now.slot.node, None, &mut expected);
        let known = |(seen, ..): &Seen| seen.is_some();
        assert!(seen.iter().map(known).eq(expected.iter().map(known)));
        compare(seen, &expected);
    }
    nodes
}

/// A kept node may lack its reference, which its parent knows.
#[track_caller]
fn compare(mut seen: Vec<Seen>, expected: &[Seen]) {
    for ((kept, reference, _), (_, expected, _)) in seen.iter_mut().zip(expected) {
        if kept.is_some() {
            *reference = reference.or(*expected);
        }
    }
    assert_eq!(seen, expected);
}

/// A few hundred evenly spread slots.
fn spread() -> BTreeMap<B256, U256> {
    let slot = |seed: u64| (keccak256(seed.to_be_bytes()), U256::from(seed + 1));
    (0..400).map(slot).collect()
}

#[test]
fn paths_that_begin_below_the_root_are_read() {
    for (step, start) in [(1, 1), (7, 1), (40, 1), (3, 2), (400, 1), (5, 0)] {
        let keys = spread();
        let targets = keys.keys().step_by(step);
        let targets: Vec<_> = targets.map(|&key| Target { key, start }).collect();
        let nodes = check(keys, &targets);
        assert!(nodes > targets.len(), "every {step}th from {start}");
    }
}

#[test]
fn a_shallow_walk_stops_at_the_topmost_stored_branches() {
    let state = contract(spread());
    let keys = spread().into_keys();
    let targets: Vec<_> = keys.map(|key| Target { key, start: 0 }).collect();
    let [shallow, deep] = [true, false].map(|is_shallow| {
        let (mut all, nodes) = read(&state, &targets, (is_shallow, true));
        (all.pop().unwrap().slot.root_hash(), nodes)
    });
    assert_eq!(shallow.0, deep.0);
    // The root, its children, and of theirs the leaves, and what an extension leads to.
    assert!((17..200).contains(&shallow.1), "{shallow:?}");
    assert!(deep.1 > 500, "{deep:?}");
}

proptest! {
    /// Keys that crowd, some of them there and some not.
    #[test]
    fn reads_what_the_leaves_make(
        slots in btree_map(any_key(), any_value(), 0..120),
        present in vec(any::<Index>(), 0..40),
        absent in vec(any_key(), 0..20),
    ) {
        let keys: Vec<_> = slots.keys().copied().collect();
        let mut targets: Vec<_> = absent;
        if !keys.is_empty() {
            targets.extend(present.iter().map(|index| *index.get(&keys)));
        }
        targets.sort_unstable();
        targets.dedup();
        let targets: Vec<_> = targets.into_iter().map(|key| Target { key, start: 0 }).collect();
        check(slots, &targets);
    }
}
