//! The debug check: the pipeline's root and stored nodes against the serial reference's.
//!
//! Updates are compared by their effect: an entry that equals what is stored already says nothing.

use super::EngineError;
use alloy_primitives::{B256, map::B256Set};
use alloy_trie::Nibbles;
use state_root::{
    RootOutcome, StoredBranch,
    cursor::{CursorError, StateView, TrieCursor},
    reference,
    updates::{StorageTrieUpdates, TrieUpdates},
};

type Nodes = Vec<(Nibbles, Option<StoredBranch>)>;

/// Compares an outcome with the serial reference over the parent state `view`. One without a root
/// has nothing to compare.
pub(super) fn check(view: &impl StateView, outcome: &RootOutcome) -> Result<(), EngineError> {
    let Some(found) = outcome.root else {
        return Ok(());
    };
    let (root, updates) =
        reference::incremental_root(view, &outcome.hashed_state).map_err(unreadable)?;
    let place = difference(view, &outcome.trie_updates, &updates).map_err(unreadable)?;
    if root != found {
        let place = place.unwrap_or_else(|| "stored nodes are equal".to_owned());
        return Err(EngineError::StateRoot(format!(
            "the parallel root {found} differs from the serial reference {root}: {place}"
        )));
    }
    match place {
        None => Ok(()),
        Some(place) => Err(EngineError::StateRoot(format!(
            "the stored nodes of root {root} differ from the serial reference's: {place}"
        ))),
    }
}

fn unreadable(error: CursorError) -> EngineError {
    EngineError::StateRoot(error.to_string())
}

/// Where two sets of updates have different effects, in words.
fn difference(
    view: &impl StateView,
    ours: &TrieUpdates,
    expected: &TrieUpdates,
) -> Result<Option<String>, CursorError> {
    let effect = |nodes: &Nodes| effect(&mut view.account_trie()?, nodes, false);
    let in_accounts = first_difference(
        &effect(&ours.account_nodes)?,
        &effect(&expected.account_nodes)?,
    );
    if let Some(place) = in_accounts {
        return Ok(Some(format!("in the account trie, {place}")));
    }
    let addresses: B256Set = ours
        .storages
        .keys()
        .chain(expected.storages.keys())
        .copied()
        .collect();
    for address in addresses {
        let [ours, expected] = [ours, expected].map(|updates| updates.storages.get(&address));
        if let Some(place) = storage_difference(view, address, ours, expected)? {
            return Ok(Some(format!("in the storage trie of {address}, {place}")));
        }
    }
    Ok(None)
}

fn storage_difference(
    view: &impl StateView,
    address: B256,
    ours: Option<&StorageTrieUpdates>,
    expected: Option<&StorageTrieUpdates>,
) -> Result<Option<String>, CursorError> {
    let none = StorageTrieUpdates::default();
    let (ours, expected) = (ours.unwrap_or(&none), expected.unwrap_or(&none));
    let mut stored = view.storage_trie(address)?;
    let is_stored = stored.seek(&Nibbles::default())?.is_some();
    if is_stored && ours.wiped != expected.wiped {
        return Ok(Some("only one of the two wipes it".to_owned()));
    }
    let wiped = ours.wiped || expected.wiped;
    let ours = effect(&mut stored, &ours.nodes, wiped)?;
    let expected = effect(&mut stored, &expected.nodes, wiped)?;
    Ok(first_difference(&ours, &expected))
}

/// The entries that change what is stored.
fn effect(stored: &mut impl TrieCursor, nodes: &Nodes, wiped: bool) -> Result<Nodes, CursorError> {
    let mut changing = Vec::with_capacity(nodes.len());
    for (path, node) in nodes {
        let before = if wiped {
            None
        } else {
            stored.seek_exact(path)?
        };
        if before != *node {
            changing.push((*path, node.clone()));
        }
    }
    Ok(changing)
}

fn first_difference(ours: &Nodes, expected: &Nodes) -> Option<String> {
    let at = ours
        .iter()
        .zip(expected)
        .position(|(ours, expected)| ours != expected);
    let at = at.or((ours.len() != expected.len()).then(|| ours.len().min(expected.len())))?;
    let shown = |nodes: &Nodes| match nodes.get(at) {
        Some((path, Some(node))) => format!("{path:?} = {:?}", node.masks()),
        Some((path, None)) => format!("{path:?} removed"),
        None => "no further change".to_owned(),
    };
    Some(format!(
        "parallel {}, serial {}",
        shown(ours),
        shown(expected)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::{Address, U256};
    use state_root::{
        mem::MemState,
        updates::{Account, AccountChange, HashedState},
    };

    /// The outcome of giving many accounts a balance, as the serial reference sees it.
    fn outcome(view: &impl StateView) -> RootOutcome {
        let changes = (0..200u64).map(|i| AccountChange {
            address: Address::from_word(B256::from(U256::from(i))),
            account: Some(Account {
                balance: U256::from(i),
                ..Account::default()
            }),
            storage_wiped: false,
            slots: Vec::new(),
        });
        let changes: Vec<_> = changes.collect();
        let hashed_state = HashedState::from_changes(&changes);
        let (root, trie_updates) = reference::incremental_root(view, &hashed_state).unwrap();
        RootOutcome {
            root: Some(root),
            hashed_state,
            trie_updates,
            counters: Default::default(),
        }
    }

    #[track_caller]
    fn check_error(spoil: impl FnOnce(&mut RootOutcome), expected: &str) {
        let view = MemState::default();
        let mut outcome = outcome(&view);
        assert!(check(&view, &outcome).is_ok());
        spoil(&mut outcome);
        let error = check(&view, &outcome).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn a_wrong_root_or_node_is_named() {
        check_error(
            |outcome| outcome.root = Some(B256::ZERO),
            "differs from the serial reference",
        );
        check_error(
            |outcome| outcome.trie_updates.account_nodes[0].1 = None,
            "in the account trie",
        );
        check_error(
            |outcome| drop(outcome.trie_updates.account_nodes.pop()),
            "no further change",
        );
    }

    #[test]
    fn an_entry_without_effect_says_nothing() {
        let view = MemState::default();
        let mut outcome = outcome(&view);
        let absent = Nibbles::from_nibbles([15, 15, 15, 15, 15, 15]);
        outcome.trie_updates.account_nodes.push((absent, None));
        assert!(check(&view, &outcome).is_ok());
    }
}
