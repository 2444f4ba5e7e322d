//! Counting the state leaves that blocks touch.
//!
//! Counted is what the transactions aim at: each account and slot named by an action, once per
//! block. A leaf that is changed and read counts as changed. A leaf is cold when no earlier
//! transaction of the payload set named it.

use alloy_primitives::{Address, B256};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};

/// One leaf, as a transaction touches it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leaf {
    address: Address,
    slot: Option<B256>,
    changed: bool,
}

/// How many distinct leaves one block touches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeafCounts {
    /// Accounts changed, including those of which only the storage root changes.
    pub changed_accounts: u64,
    /// Slots changed.
    pub changed_slots: u64,
    /// Accounts read and not changed.
    pub read_accounts: u64,
    /// Slots read and not changed.
    pub read_slots: u64,
    /// Of all these accounts, those first seen in this block of the set.
    pub cold_accounts: u64,
    /// Of all these slots, those first seen in this block of the set.
    pub cold_slots: u64,
}

/// The leaves a payload set has touched so far.
#[derive(Debug, Default)]
pub struct SeenLeaves(HashSet<(Address, Option<B256>)>);

impl Leaf {
    pub(crate) const fn changed_account(address: Address) -> Self {
        Self {
            address,
            slot: None,
            changed: true,
        }
    }
    pub(crate) const fn read_account(address: Address) -> Self {
        Self {
            address,
            slot: None,
            changed: false,
        }
    }
    pub(crate) const fn changed_slot(address: Address, slot: B256) -> Self {
        Self {
            address,
            slot: Some(slot),
            changed: true,
        }
    }
    pub(crate) const fn read_slot(address: Address, slot: B256) -> Self {
        Self {
            address,
            slot: Some(slot),
            changed: false,
        }
    }
}

impl SeenLeaves {
    /// Counts the leaves of one block and remembers them.
    pub fn count(&mut self, leaves: impl Iterator<Item = Leaf>) -> LeafCounts {
        let mut block: HashMap<(Address, Option<B256>), bool> = HashMap::new();
        for leaf in leaves {
            *block.entry((leaf.address, leaf.slot)).or_default() |= leaf.changed;
        }
        let mut counts = LeafCounts::default();
        for (leaf, changed) in block {
            let (kind, cold) = match (leaf.1.is_some(), changed) {
                (false, true) => (&mut counts.changed_accounts, &mut counts.cold_accounts),
                (false, false) => (&mut counts.read_accounts, &mut counts.cold_accounts),
                (true, true) => (&mut counts.changed_slots, &mut counts.cold_slots),
                (true, false) => (&mut counts.read_slots, &mut counts.cold_slots),
            };
            *kind += 1;
            *cold += u64::from(self.0.insert(leaf));
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_each_leaf_once_and_cold_ones_only_at_first() {
        let [a, b] = [1, 2].map(Address::repeat_byte);
        let slot = B256::repeat_byte(3);
        let leaves = [
            Leaf::changed_account(a),
            Leaf::changed_account(a),
            Leaf::read_account(b),
            Leaf::read_slot(b, slot),
            Leaf::changed_slot(b, slot),
            Leaf::read_slot(a, slot),
        ];
        let mut seen = SeenLeaves::default();
        let first = seen.count(leaves.into_iter());
        let expected = LeafCounts {
            changed_accounts: 1,
            changed_slots: 1,
            read_accounts: 1,
            read_slots: 1,
            cold_accounts: 2,
            cold_slots: 2,
        };
        assert_eq!(first, expected);
        let again = seen.count(leaves.into_iter());
        assert_eq!(
            again,
            LeafCounts {
                cold_accounts: 0,
                cold_slots: 0,
                ..expected
            }
        );
    }
}
