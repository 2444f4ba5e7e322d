//! Undoing blocks from the head down: the state root of every header on the way.
//!
//! What is undone lives in an overlay over the snapshot, so that each block costs what it changed.
//! Runs only when nothing was found before: it reads the trie tables it would otherwise doubt.

use super::{Audit, Finding, VerifyCheck};
use crate::{
    codec,
    error::{Context, DbError},
    overlay_cursor::OverlayView,
    tables::Table,
    tx::{DbView, Row},
};
use alloy_primitives::{Address, keccak256};
use state_root::{reference, updates::HashedState};
use std::{collections::BTreeMap, sync::Arc};

/// Changed leaves kept at most, so that memory stays bounded.
const MAX_LEAVES: usize = 1 << 20;

/// Undoes block after block and compares the root with the header before.
pub(super) fn check(view: DbView, audit: &mut Audit<'_>) -> Result<(), DbError> {
    let last = audit.head.saturating_sub(audit.options.state_roots);
    audit.begin(VerifyCheck::StateRoots, audit.head - last);
    let mut state = OverlayView::new(view, Arc::default());
    for number in (last + 1..=audit.head).rev() {
        if state.overlay().leaves() > MAX_LEAVES {
            let note = format!("state roots below block {number} were not recomputed");
            audit.notes.push(note);
            return Ok(());
        }
        let changes = changes_of(state.view(), number)?;
        let undone = reference::incremental_root(&state, &changes);
        let (root, trie) = undone.map_err(|error| DbError::Corrupt {
            table: "the state tries",
            problem: error.to_string(),
        })?;
        let parent = state.view().header(number - 1)?;
        let expected = parent.map(|header| header.state_root).unwrap_or_default();
        if root != expected {
            let problem = format!(
                "undoing the block gives root {root}, header {} says {expected}",
                number - 1
            );
            // The root does not tell in which of the two the wrong value is.
            audit.findings.add(Finding {
                table: "AccountChangeSets, StorageChangeSets",
                key: format!("block {number}"),
                problem,
            });
            return Ok(());
        }
        let overlay = Arc::new(state.overlay().extend(changes, trie));
        state.set_overlay(overlay);
        audit.step();
    }
    if last > 0 {
        let note = format!("state roots below block {last} were not recomputed");
        audit.notes.push(note);
    }
    Ok(())
}

/// The values before a block, by hashed key.
fn changes_of(view: &DbView, number: u64) -> Result<HashedState, DbError> {
    let block = number.to_be_bytes();
    let mut accounts = Vec::new();
    each_row(view, Table::AccountChangeSets, &block, |_, value| {
        let (address, before) = codec::decode_account_change(value)?;
        accounts.push((keccak256(address), before));
        Some(())
    })?;
    accounts.sort_unstable_by_key(|(key, _)| *key);
    let mut storages: BTreeMap<Address, Vec<_>> = BTreeMap::new();
    each_row(view, Table::StorageChangeSets, &block, |key, value| {
        let address = Address::try_from(key.get(8..)?).ok()?;
        let (slot, before) = codec::decode_slot(value)?;
        let slots = storages.entry(address).or_default();
        slots.push((keccak256(slot), before));
        Some(())
    })?;
    let mut state = HashedState {
        accounts,
        ..HashedState::default()
    };
    for (address, mut slots) in storages {
        slots.sort_unstable_by_key(|(key, _)| *key);
        let storage = state_root::updates::HashedStorage {
            wiped: false,
            slots,
        };
        state.storages.insert(keccak256(address), storage);
    }
    Ok(state)
}

/// Calls `each` with every row whose key begins with `prefix`; `None` from it means damage.
fn each_row(
    view: &DbView,
    table: Table,
    prefix: &[u8],
    mut each: impl FnMut(&[u8], &[u8]) -> Option<()>,
) -> Result<(), DbError> {
    let mut cursor = view.cursor(table)?;
    let mut row: Option<Row<'_>> = cursor.set_range(prefix).doing("read", table.name())?;
    while let Some((key, value)) = row.filter(|(key, _)| key.starts_with(prefix)) {
        each(&key, &value).ok_or_else(|| crate::view::undecodable(table, &key))?;
        row = cursor.next().doing("read", table.name())?;
    }
    Ok(())
}
