//! What is to be done to leaves: sorted lists, of which any part is a list too.

use crate::updates::{Account, HashedState, HashedStorage};
use alloy_primitives::{B256, U256};
use std::sync::Arc;

/// One entry of a sorted list of changes.
pub(super) type Keyed<T> = (B256, T);

/// What is to be done to a leaf.
pub(super) trait Change: Send + Sync + 'static {
    /// Leaves it stands for: what deciding about a split counts.
    fn weight(&self) -> usize;
    /// Whether it makes a leaf where there is none.
    fn sets(&self) -> bool;
    /// Whether the path may have to be read first.
    fn is_unknown(&self) -> bool;
}

/// What is to be done to a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SlotChange {
    /// Its path is to be known.
    Reveal,
    /// A new value; zero removes it.
    Value {
        /// The value.
        value: U256,
        /// Whether the path is known already.
        is_known: bool,
    },
}

impl Change for SlotChange {
    fn weight(&self) -> usize {
        1
    }

    fn sets(&self) -> bool {
        matches!(self, Self::Value { value, .. } if !value.is_zero())
    }

    fn is_unknown(&self) -> bool {
        !matches!(self, Self::Value { is_known: true, .. })
    }
}

/// What is to be done to an account.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct AccountChange {
    /// Its new state: the outer `None` leaves it as it is.
    pub(super) account: Option<Option<Account>>,
    /// Whether all its slots are removed first.
    pub(super) wiped: bool,
    /// Whether its own path, or that of a slot, may have to be read first.
    pub(super) is_unknown: bool,
    /// Ascending by slot.
    pub(super) slots: Arc<Vec<Keyed<SlotChange>>>,
}

impl Change for AccountChange {
    fn weight(&self) -> usize {
        1 + self.slots.len()
    }

    fn sets(&self) -> bool {
        matches!(self.account, Some(Some(_)))
    }

    fn is_unknown(&self) -> bool {
        self.is_unknown
    }
}

/// The leaves a list stands for.
pub(super) fn weight<T: Change>(changes: &[Keyed<T>]) -> usize {
    changes.iter().map(|(_, change)| change.weight()).sum()
}

/// All changes of a block. `unknown` are those whose paths are not known yet.
pub(super) fn changes_of(
    leaves: &HashedState,
    unknown: &[Keyed<AccountChange>],
) -> Vec<Keyed<AccountChange>> {
    let mut changes: Vec<_> = leaves
        .accounts
        .iter()
        .map(|(address, account)| {
            let storage = leaves.storages.get(address);
            (*address, account_change(Some(*account), storage))
        })
        .collect();
    let changed = |address: &B256| {
        let found = leaves
            .accounts
            .binary_search_by_key(address, |(key, _)| *key);
        found.is_ok()
    };
    let alone = leaves.storages.iter().filter(|(key, _)| !changed(key));
    changes.extend(alone.map(|(address, storage)| (*address, account_change(None, Some(storage)))));
    changes.sort_unstable_by_key(|(address, _)| *address);
    for (address, unknown) in unknown {
        if let Some(change) = find(&mut changes, address) {
            change.is_unknown = true;
            let slots = Arc::make_mut(&mut change.slots);
            for (slot, _) in unknown.slots.iter() {
                if let Some(SlotChange::Value { is_known, .. }) = find(slots, slot) {
                    *is_known = false;
                }
            }
        }
    }
    changes
}

/// The entry of a sorted list.
fn find<'c, T>(changes: &'c mut [Keyed<T>], key: &B256) -> Option<&'c mut T> {
    let found = changes.binary_search_by_key(key, |(key, _)| *key);
    found.ok().map(|index| &mut changes[index].1)
}

fn account_change(
    account: Option<Option<Account>>,
    storage: Option<&HashedStorage>,
) -> AccountChange {
    let slots = storage.map_or(&[][..], |storage| &storage.slots);
    let slots = slots.iter().map(|&(slot, value)| {
        let is_known = true;
        (slot, SlotChange::Value { value, is_known })
    });
    AccountChange {
        account,
        wiped: storage.is_some_and(|storage| storage.wiped),
        is_unknown: false,
        slots: Arc::new(slots.collect()),
    }
}
