//! An overlay over a database at any of its blocks reads as the database that has them all.

use super::chain::{Chain, blocks, fixed_blocks};
use crate::{Overlay, OverlaySource};
use alloy_primitives::{B256, keccak256, map::B256Set};
use alloy_trie::Nibbles;
use proptest::prelude::*;
use state_root::cursor::{CursorError, HashedCursor, StateSource, StateView, TrieCursor};
use std::sync::Arc;

fn leaves<C: HashedCursor>(mut cursor: C) -> Vec<(B256, C::Value)> {
    let mut leaves = Vec::new();
    let mut leaf = cursor.seek(B256::ZERO).unwrap();
    while let Some(found) = leaf {
        leaves.push(found);
        leaf = cursor.next().unwrap();
    }
    leaves
}

/// Every node, by a walk from the start; then by exact seeks, each followed by a step.
fn assert_same_trie<L: TrieCursor, R: TrieCursor>(mut left: L, mut right: R) -> usize {
    let mut count = 0;
    let mut paths = vec![Nibbles::from_nibbles([0xf, 0xf, 0xf, 0xf])];
    let mut node = left.seek(&Nibbles::new()).unwrap();
    assert_eq!(node, right.seek(&Nibbles::new()).unwrap());
    while let Some((path, _)) = node {
        count += 1;
        let mut absent = path;
        absent.push(3);
        paths.extend([path, absent]);
        node = left.next().unwrap();
        assert_eq!(node, right.next().unwrap());
    }
    for path in paths {
        assert_eq!(
            left.seek_exact(&path).unwrap(),
            right.seek_exact(&path).unwrap()
        );
        assert_eq!(
            left.next().unwrap(),
            right.next().unwrap(),
            "after {path:?}"
        );
        assert_eq!(left.seek(&path).unwrap(), right.seek(&path).unwrap());
        assert_eq!(left.next().unwrap(), right.next().unwrap());
    }
    count
}

fn assert_same_leaves<L, R, V>(mut left: L, mut right: R, all: &[(B256, V)])
where
    L: HashedCursor<Value = V>,
    R: HashedCursor<Value = V>,
    V: PartialEq + std::fmt::Debug,
{
    for (key, _) in all.iter().step_by(7) {
        for key in [*key, keccak256(key)] {
            assert_eq!(left.seek(key).unwrap(), right.seek(key).unwrap());
            assert_eq!(left.next().unwrap(), right.next().unwrap());
        }
    }
}

fn assert_same_state<L: StateView, R: StateView>(left: &L, right: &R, accounts: &B256Set) {
    let all = leaves(left.accounts().unwrap());
    assert_eq!(all, leaves(right.accounts().unwrap()));
    assert_same_leaves(left.accounts().unwrap(), right.accounts().unwrap(), &all);
    let nodes = assert_same_trie(left.account_trie().unwrap(), right.account_trie().unwrap());
    assert!(nodes > 0);
    for account in accounts {
        let all = leaves(left.slots(*account).unwrap());
        assert_eq!(all, leaves(right.slots(*account).unwrap()));
        assert_same_leaves(
            left.slots(*account).unwrap(),
            right.slots(*account).unwrap(),
            &all,
        );
        assert_same_trie(
            left.storage_trie(*account).unwrap(),
            right.storage_trie(*account).unwrap(),
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn overlay_equals_database(ops in blocks(), anchor in any::<proptest::sample::Index>()) {
        let chain = Chain::new(&ops);
        let anchor = anchor.index(ops.len());
        let (_dir, db) = chain.copy(anchor, 3);
        let above = &chain.blocks[anchor..];
        let overlay = above.iter().fold(Overlay::default(), |overlay, block| {
            overlay.extend(block.hashed.clone(), block.trie.clone())
        });
        let mut ancestors = vec![db.view().unwrap().head().unwrap().unwrap().hash];
        ancestors.extend(above.iter().map(|block| block.stored().hash));
        let source = OverlaySource::new(db.clone(), Arc::new(overlay), ancestors.into());
        let accounts = (0..13).map(|index| keccak256(super::chain::address(index))).collect();
        let full = chain.db.view().unwrap();
        assert_same_state(&source.open().unwrap(), &full, &accounts);
        // The writer catches up, block by block.
        for block in above {
            db.append(&[block.write()]).unwrap();
            assert_same_state(&source.open().unwrap(), &full, &accounts);
        }
    }
}

#[test]
fn a_head_outside_the_overlay_is_refused() {
    let chain = Chain::new(&fixed_blocks());
    let ancestors: Arc<[B256]> = chain.blocks[2..].iter().map(|b| b.stored().hash).collect();
    let source = OverlaySource::new(chain.db.clone(), Arc::default(), ancestors.clone());
    source.open().unwrap();
    chain.db.unwind(3, &mut |_| {}).unwrap();
    source.open().unwrap();
    chain.db.unwind(2, &mut |_| {}).unwrap();
    let error = source.open().unwrap_err();
    assert!(matches!(error, CursorError::StateGone(hash) if Some(&hash) == ancestors.last()));
}
