//! What a block leaves behind, in the plainest way: sorted maps, one change after another.

use crate::{
    mem::MemState,
    updates::{Account, HashedChange, HashedState, HashedStorage, TrieUpdates},
};
use alloy_primitives::{B256, U256, map::B256Set};
use alloy_trie::{TrieAccount, root};
use std::{collections::BTreeMap, fmt::Debug};

/// The leaves of `before` after `changes`, without stored branches, and the changes themselves as
/// a chain can have them: no account has slots after it is gone or before it exists.
pub(super) fn leaves_after(
    before: &MemState,
    changes: &[HashedChange],
) -> (MemState, Vec<HashedChange>) {
    let mut after = MemState {
        accounts: before.accounts.clone(),
        slots: before.slots.clone(),
        ..MemState::default()
    };
    let lawful = |change: &HashedChange| {
        let change = lawful(&after, change.clone());
        apply(&mut after, &change);
        change
    };
    let changes = changes.iter().map(lawful).collect();
    (after, changes)
}

fn lawful(state: &MemState, mut change: HashedChange) -> HashedChange {
    match change.account {
        Some(None) => {
            change.slots.clear();
            // Without slots there is nothing to wipe, and a node says so or not.
            change.storage_wiped |= state.slots.contains_key(&change.address);
        }
        None if !state.accounts.contains_key(&change.address) => {
            change.account = Some(Some(Account::default()));
        }
        _ => {}
    }
    change
}

fn apply(state: &mut MemState, change: &HashedChange) {
    match change.account {
        Some(Some(account)) => state.accounts.insert(change.address, account),
        Some(None) => state.accounts.remove(&change.address),
        None => None,
    };
    let slots = state.slots.entry(change.address).or_default();
    if change.storage_wiped {
        slots.clear();
    }
    slots.extend(change.slots.iter().copied());
}

/// The root of a state's leaves, by `alloy-trie` alone.
pub(super) fn alloy_root(state: &MemState) -> B256 {
    root::state_root(state.accounts.iter().map(|(address, account)| {
        let slots = state.slots.get(address).into_iter().flatten();
        let storage_root = root::storage_root(slots.map(|(slot, value)| (*slot, *value)));
        let account = TrieAccount::new(
            account.nonce,
            account.balance,
            storage_root,
            account.code_hash,
        );
        (*address, account)
    }))
}

/// The changed leaves that lead from one state to another.
pub(super) fn difference(from: &MemState, to: &MemState) -> HashedState {
    let mut changes = HashedState::default();
    for (address, now) in changed_entries(&from.accounts, &to.accounts) {
        changes.accounts.push((address, now.copied()));
    }
    for (address, now) in changed_entries(&from.slots, &to.slots) {
        let (none, was) = (BTreeMap::new(), from.slots.get(&address));
        let slots = changed_entries(was.unwrap_or(&none), now.unwrap_or(&none));
        let slots = slots.map(|(slot, value)| (slot, value.copied().unwrap_or(U256::ZERO)));
        let storage = HashedStorage {
            wiped: false,
            slots: slots.collect(),
        };
        changes.storages.insert(address, storage);
    }
    changes
}

/// Keys whose values differ, ascending, with what the second map has.
fn changed_entries<'a, V: PartialEq>(
    from: &'a BTreeMap<B256, V>,
    to: &'a BTreeMap<B256, V>,
) -> impl Iterator<Item = (B256, Option<&'a V>)> {
    let keys: std::collections::BTreeSet<_> = from.keys().chain(to.keys()).copied().collect();
    keys.into_iter()
        .map(|key| (key, to.get(&key)))
        .filter(|(key, now)| from.get(key) != *now)
}

/// Where two states differ first, in words.
pub(super) fn first_difference(found: &MemState, expected: &MemState) -> Option<String> {
    let [ours, theirs] = [found, expected].map(|state| &state.accounts);
    let [our_slots, their_slots] = [found, expected].map(|state| &state.slots);
    let [our_trie, their_trie] = [found, expected].map(|state| &state.account_trie);
    let [our_tries, their_tries] = [found, expected].map(|state| &state.storage_tries);
    differing("account", ours, theirs)
        .or_else(|| differing("the slots of", our_slots, their_slots))
        .or_else(|| differing("stored branch", our_trie, their_trie))
        .or_else(|| differing("the stored branches of", our_tries, their_tries))
}

fn differing<K: Ord + Debug, V: PartialEq + Debug>(
    what: &str,
    found: &BTreeMap<K, V>,
    expected: &BTreeMap<K, V>,
) -> Option<String> {
    let key = found
        .keys()
        .chain(expected.keys())
        .find(|key| found.get(key) != expected.get(key))?;
    let (found, expected) = (found.get(key), expected.get(key));
    Some(format!(
        "{what} {key:?}: {found:?} where {expected:?} is right"
    ))
}

/// How an answer breaks its promise to be sorted, if it does.
pub(super) fn disorder(leaves: &HashedState, nodes: &TrieUpdates) -> Option<String> {
    let ascending = |sorted: bool, what: &str| (!sorted).then(|| format!("the order of {what}"));
    let is_sorted = leaves.accounts.is_sorted_by(|(a, _), (b, _)| a < b);
    let mut found = ascending(is_sorted, "accounts");
    for storage in leaves.storages.values() {
        let is_sorted = storage.slots.is_sorted_by(|(a, _), (b, _)| a < b);
        found = found.or_else(|| ascending(is_sorted, "slots"));
    }
    let tries = nodes.storages.values().map(|updates| &updates.nodes);
    for nodes in tries.chain([&nodes.account_nodes]) {
        let is_sorted = nodes.is_sorted_by(|(a, _), (b, _)| a < b);
        let has_root = nodes.first().is_some_and(|(path, _)| path.is_empty());
        found = found.or_else(|| ascending(is_sorted && !has_root, "stored branches"));
    }
    let changed: B256Set = leaves.storages.keys().copied().collect();
    found.or_else(|| {
        let stray = nodes.storages.keys().find(|key| !changed.contains(*key))?;
        Some(format!(
            "stored branches of {stray}, whose slots did not change"
        ))
    })
}
