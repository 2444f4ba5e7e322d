//! What is to be done to leaves: sorted lists, of which any part is a list too.

use crate::updates::{Account, HashedState, HashedStorage};
use alloy_primitives::{B256, U256};

/// One entry of a sorted list of changes.
pub(super) type Keyed<T> = (B256, T);

/// What is to be done to a leaf.
pub(super) trait Change: Send + Sync {
    /// Leaves it stands for: what deciding about a split counts.
    fn weight(&self) -> usize;
    /// Whether it makes a leaf where there is none.
    fn sets(&self) -> bool;
}

/// What is to be done to a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SlotChange {
    /// Its path is to be known.
    Reveal,
    /// A new value; zero removes it.
    Value(U256),
}

impl Change for SlotChange {
    fn weight(&self) -> usize {
        1
    }

    fn sets(&self) -> bool {
        matches!(self, Self::Value(value) if !value.is_zero())
    }
}

/// What is to be done to an account.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct AccountChange {
    /// Its new state: the outer `None` leaves it as it is.
    pub(super) account: Option<Option<Account>>,
    /// Whether all its slots are removed first.
    pub(super) wiped: bool,
    /// Ascending by slot.
    pub(super) slots: Vec<Keyed<SlotChange>>,
}

impl Change for AccountChange {
    fn weight(&self) -> usize {
        1 + self.slots.len()
    }

    fn sets(&self) -> bool {
        matches!(self.account, Some(Some(_)))
    }
}

/// The leaves a list stands for.
pub(super) fn weight<T: Change>(changes: &[Keyed<T>]) -> usize {
    changes.iter().map(|(_, change)| change.weight()).sum()
}

/// All changes of a block.
pub(super) fn changes_of(leaves: &HashedState) -> Vec<Keyed<AccountChange>> {
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
    changes
}

fn account_change(
    account: Option<Option<Account>>,
    storage: Option<&HashedStorage>,
) -> AccountChange {
    let slots = storage.map_or(&[][..], |storage| &storage.slots);
    AccountChange {
        account,
        wiped: storage.is_some_and(|storage| storage.wiped),
        slots: slots
            .iter()
            .map(|&(slot, value)| (slot, SlotChange::Value(value)))
            .collect(),
    }
}
