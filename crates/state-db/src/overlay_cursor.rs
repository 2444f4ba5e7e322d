//! The state of in-memory blocks over the database, for the trie algorithms.
//!
//! The writer may commit blocks of the overlay while a source is in use: what the database then
//! says about them is what the overlay says, and the overlay is asked first. The database may hold
//! nothing else, which [`OverlaySource`] checks by its head.

use crate::{
    cursors::{DbAccountCursor, DbSlotCursor, DbTrieCursor},
    db::StateDb,
    error::DbError,
    overlay::{Newest, Overlay},
    tx::DbView,
};
use alloy_primitives::{B256, U256};
use alloy_trie::Nibbles;
use state_root::{
    StoredBranch,
    cursor::{CursorError, HashedCursor, StateSource, StateView, TrieCursor},
    updates::Account,
};
use std::sync::Arc;

/// Opens views of the state after a run of in-memory blocks.
#[derive(Debug, Clone)]
pub struct OverlaySource {
    db: StateDb,
    overlay: Arc<Overlay>,
    ancestors: Arc<[B256]>,
}

impl OverlaySource {
    /// The state of `overlay` over the database. `ancestors` are the hashes the database's head
    /// may have: the block below the overlay, and the overlay's blocks.
    pub fn new(db: StateDb, overlay: Arc<Overlay>, ancestors: Arc<[B256]>) -> Self {
        Self {
            db,
            overlay,
            ancestors,
        }
    }
}

impl StateSource for OverlaySource {
    type View = OverlayView;

    fn open(&self) -> Result<OverlayView, CursorError> {
        let view = self.db.view()?;
        let head = view.head()?.ok_or(DbError::NoGenesis)?;
        if !self.ancestors.contains(&head.hash) {
            let parent = self.ancestors.last().copied().unwrap_or_default();
            return Err(CursorError::StateGone(parent));
        }
        Ok(OverlayView {
            view,
            overlay: self.overlay.clone(),
        })
    }
}

/// One snapshot of the database with in-memory blocks on top.
#[derive(Debug)]
pub struct OverlayView {
    view: DbView,
    overlay: Arc<Overlay>,
}

impl OverlayView {
    /// The state of `overlay` over one snapshot.
    pub fn new(view: DbView, overlay: Arc<Overlay>) -> Self {
        Self { view, overlay }
    }

    /// The snapshot.
    pub(crate) fn view(&self) -> &DbView {
        &self.view
    }

    /// What lies over it.
    pub fn overlay(&self) -> &Overlay {
        &self.overlay
    }

    /// Puts another overlay over the same snapshot.
    pub fn set_overlay(&mut self, overlay: Arc<Overlay>) {
        self.overlay = overlay;
    }
}

impl StateView for OverlayView {
    type Trie<'a>
        = Merged<'a, DbTrieCursor<'a>, Nibbles, Option<StoredBranch>>
    where
        Self: 'a;
    type Accounts<'a>
        = Merged<'a, DbAccountCursor<'a>, B256, Option<Account>>
    where
        Self: 'a;
    type Slots<'a>
        = Merged<'a, DbSlotCursor<'a>, B256, U256>
    where
        Self: 'a;

    fn account_trie(&self) -> Result<Self::Trie<'_>, CursorError> {
        let changes = Newest::new(self.overlay.account_nodes());
        Ok(Merged::new(Some(self.view.account_trie()?), changes))
    }

    fn storage_trie(&self, hashed_address: B256) -> Result<Self::Trie<'_>, CursorError> {
        let (changes, wiped) = self.overlay.storage_nodes(&hashed_address);
        let base = if wiped {
            None
        } else {
            Some(self.view.storage_trie(hashed_address)?)
        };
        Ok(Merged::new(base, Newest::new(changes)))
    }

    fn accounts(&self) -> Result<Self::Accounts<'_>, CursorError> {
        let changes = Newest::new(self.overlay.accounts());
        Ok(Merged::new(Some(self.view.accounts()?), changes))
    }

    fn slots(&self, hashed_address: B256) -> Result<Self::Slots<'_>, CursorError> {
        let (changes, wiped) = self.overlay.slots(&hashed_address);
        let base = if wiped {
            None
        } else {
            Some(self.view.slots(hashed_address)?)
        };
        Ok(Merged::new(base, Newest::new(changes)))
    }
}

/// A change to one row.
pub trait Change: Clone {
    /// What the row holds.
    type Value;
    /// The row's new value; `None` when it is removed.
    fn value(&self) -> Option<Self::Value>;
}

impl<V: Clone> Change for Option<V> {
    type Value = V;
    fn value(&self) -> Option<V> {
        self.clone()
    }
}

impl Change for U256 {
    type Value = Self;
    fn value(&self) -> Option<Self> {
        (!self.is_zero()).then_some(*self)
    }
}

/// What the cursors of the database have in common.
pub trait Rows<K> {
    /// What a row holds.
    type Value;
    /// The first row at or after `key`.
    fn seek_row(&mut self, key: &K) -> Result<Option<(K, Self::Value)>, CursorError>;
    /// The row after the last one returned.
    fn next_row(&mut self) -> Result<Option<(K, Self::Value)>, CursorError>;
}

impl Rows<Nibbles> for DbTrieCursor<'_> {
    type Value = StoredBranch;
    fn seek_row(&mut self, key: &Nibbles) -> Result<Option<(Nibbles, Self::Value)>, CursorError> {
        self.seek(key)
    }
    fn next_row(&mut self) -> Result<Option<(Nibbles, Self::Value)>, CursorError> {
        TrieCursor::next(self)
    }
}

impl<C: HashedCursor> Rows<B256> for C {
    type Value = C::Value;
    fn seek_row(&mut self, key: &B256) -> Result<Option<(B256, C::Value)>, CursorError> {
        self.seek(*key)
    }
    fn next_row(&mut self) -> Result<Option<(B256, C::Value)>, CursorError> {
        HashedCursor::next(self)
    }
}

/// Where a database cursor stands.
#[derive(Debug)]
enum Ahead<K, V> {
    /// Its current row has been returned; the following one is not read yet.
    Behind,
    /// It must be moved behind this key before it is read.
    After(K),
    /// This row is read and not yet returned.
    Row(K, V),
    /// There are no more rows.
    End,
}

/// A cursor over database rows (none when everything stored is void) and sorted changes to them.
#[derive(Debug)]
pub struct Merged<'a, C, K, E: Change> {
    base: Option<C>,
    ahead: Ahead<K, E::Value>,
    changes: Newest<'a, K, E>,
}

impl<'a, C, K, E> Merged<'a, C, K, E>
where
    K: Ord + Copy,
    E: Change,
    C: Rows<K, Value = E::Value>,
{
    fn new(base: Option<C>, changes: Newest<'a, K, E>) -> Self {
        let ahead = if base.is_some() {
            Ahead::Behind
        } else {
            Ahead::End
        };
        Self {
            base,
            ahead,
            changes,
        }
    }

    fn seek_from(&mut self, key: &K) -> Result<Option<(K, E::Value)>, CursorError> {
        if self.changes.is_void() {
            return self.stored_row(|base| base.seek_row(key));
        }
        self.changes.seek(key);
        if let Some(base) = &mut self.base {
            self.ahead = match base.seek_row(key)? {
                Some((key, value)) => Ahead::Row(key, value),
                None => Ahead::End,
            };
        }
        self.advance()
    }

    /// The smaller of the next stored row and the next change, until one is not a removal.
    fn advance(&mut self) -> Result<Option<(K, E::Value)>, CursorError> {
        if self.changes.is_void() && matches!(self.ahead, Ahead::Behind) {
            return self.stored_row(Rows::next_row);
        }
        loop {
            self.read_ahead()?;
            let stored = match &self.ahead {
                Ahead::Row(key, _) => Some(*key),
                _ => None,
            };
            let change = self.changes.peek();
            match (stored, change) {
                (None, None) => return Ok(None),
                (Some(key), change) if change.is_none_or(|(changed, _)| key < *changed) => {
                    let Ahead::Row(key, value) = std::mem::replace(&mut self.ahead, Ahead::Behind)
                    else {
                        continue;
                    };
                    return Ok(Some((key, value)));
                }
                (stored, Some((key, change))) => {
                    self.changes.pass();
                    if stored == Some(*key) {
                        self.ahead = Ahead::Behind;
                    }
                    if let Some(value) = change.value() {
                        return Ok(Some((*key, value)));
                    }
                }
                (Some(_), None) => {}
            }
        }
    }

    /// A stored row that no change hides.
    fn stored_row(
        &mut self,
        read: impl FnOnce(&mut C) -> Result<Option<(K, E::Value)>, CursorError>,
    ) -> Result<Option<(K, E::Value)>, CursorError> {
        let row = self.base.as_mut().map_or(Ok(None), read)?;
        self.ahead = if row.is_some() {
            Ahead::Behind
        } else {
            Ahead::End
        };
        Ok(row)
    }

    /// Reads the next stored row unless it is known.
    fn read_ahead(&mut self) -> Result<(), CursorError> {
        let Some(base) = &mut self.base else {
            return Ok(());
        };
        let row = match &self.ahead {
            Ahead::Row(..) | Ahead::End => return Ok(()),
            Ahead::Behind => base.next_row()?,
            Ahead::After(key) => match base.seek_row(key)? {
                Some((found, _)) if found == *key => base.next_row()?,
                row => row,
            },
        };
        self.ahead = row.map_or(Ahead::End, |(key, value)| Ahead::Row(key, value));
        Ok(())
    }
}

impl TrieCursor for Merged<'_, DbTrieCursor<'_>, Nibbles, Option<StoredBranch>> {
    fn seek_exact(&mut self, path: &Nibbles) -> Result<Option<StoredBranch>, CursorError> {
        let found = self.changes.seek_exact(path);
        if let Some(base) = &mut self.base {
            self.ahead = Ahead::After(*path);
            if found.is_none() {
                return base.seek_exact(path);
            }
        }
        Ok(found.cloned().flatten())
    }

    fn seek(&mut self, path: &Nibbles) -> Result<Option<(Nibbles, StoredBranch)>, CursorError> {
        self.seek_from(path)
    }

    fn next(&mut self) -> Result<Option<(Nibbles, StoredBranch)>, CursorError> {
        self.advance()
    }
}

impl<C, E> HashedCursor for Merged<'_, C, B256, E>
where
    E: Change,
    C: Rows<B256, Value = E::Value>,
{
    type Value = E::Value;

    fn seek(&mut self, key: B256) -> Result<Option<(B256, E::Value)>, CursorError> {
        self.seek_from(&key)
    }

    fn next(&mut self) -> Result<Option<(B256, E::Value)>, CursorError> {
        self.advance()
    }
}
