//! A view with changed leaves laid over it. Stored branches stay those of the view below.

use crate::{
    cursor::{CursorError, HashedCursor, StateView},
    updates::{Account, HashedState},
};
use alloy_primitives::{B256, U256};

/// The leaves of `base` after `changes`.
pub(super) struct Overlay<'a, V> {
    pub(super) base: &'a V,
    pub(super) changes: &'a HashedState,
}

/// Two sorted sequences of leaves read as one; a change hides the leaf below it.
pub(super) struct OverlayCursor<'a, C: HashedCursor, R> {
    /// `None` when everything below is hidden.
    base: Option<C>,
    base_leaf: Option<(B256, C::Value)>,
    changes: &'a [(B256, R)],
    next_change: usize,
    /// What a change leaves at its key.
    leaf: fn(&R) -> Option<C::Value>,
}

impl<'a, C: HashedCursor, R> OverlayCursor<'a, C, R> {
    fn new(base: Option<C>, changes: &'a [(B256, R)], leaf: fn(&R) -> Option<C::Value>) -> Self {
        Self {
            base,
            base_leaf: None,
            changes,
            next_change: 0,
            leaf,
        }
    }

    fn advance_base(&mut self) -> Result<(), CursorError> {
        self.base_leaf = match &mut self.base {
            Some(base) => base.next()?,
            None => None,
        };
        Ok(())
    }
}

impl<C: HashedCursor, R> HashedCursor for OverlayCursor<'_, C, R> {
    type Value = C::Value;

    fn seek(&mut self, key: B256) -> Result<Option<(B256, C::Value)>, CursorError> {
        self.base_leaf = match &mut self.base {
            Some(base) => base.seek(key)?,
            None => None,
        };
        self.next_change = self.changes.partition_point(|(changed, _)| *changed < key);
        self.next()
    }

    fn next(&mut self) -> Result<Option<(B256, C::Value)>, CursorError> {
        while let Some((changed, change)) = self.changes.get(self.next_change) {
            match &self.base_leaf {
                Some((key, _)) if key < changed => break,
                Some((key, _)) if key == changed => self.advance_base()?,
                _ => {}
            }
            self.next_change += 1;
            if let Some(value) = (self.leaf)(change) {
                return Ok(Some((*changed, value)));
            }
        }
        let leaf = self.base_leaf.take();
        if leaf.is_some() {
            self.advance_base()?;
        }
        Ok(leaf)
    }
}

impl<V: StateView> StateView for Overlay<'_, V> {
    type Trie<'a>
        = V::Trie<'a>
    where
        Self: 'a;
    type Accounts<'a>
        = OverlayCursor<'a, V::Accounts<'a>, Option<Account>>
    where
        Self: 'a;
    type Slots<'a>
        = OverlayCursor<'a, V::Slots<'a>, U256>
    where
        Self: 'a;

    fn account_trie(&self) -> Result<Self::Trie<'_>, CursorError> {
        self.base.account_trie()
    }

    fn storage_trie(&self, hashed_address: B256) -> Result<Self::Trie<'_>, CursorError> {
        self.base.storage_trie(hashed_address)
    }

    fn accounts(&self) -> Result<Self::Accounts<'_>, CursorError> {
        let base = self.base.accounts()?;
        Ok(OverlayCursor::new(
            Some(base),
            &self.changes.accounts,
            |account| *account,
        ))
    }

    fn slots(&self, hashed_address: B256) -> Result<Self::Slots<'_>, CursorError> {
        let storage = self.changes.storages.get(&hashed_address);
        let hidden = storage.is_some_and(|storage| storage.wiped);
        let base = if hidden {
            None
        } else {
            Some(self.base.slots(hashed_address)?)
        };
        let changes = storage.map_or(&[][..], |storage| &storage.slots);
        Ok(OverlayCursor::new(base, changes, |value| {
            (!value.is_zero()).then_some(*value)
        }))
    }
}
