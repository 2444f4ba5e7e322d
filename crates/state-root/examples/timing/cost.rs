//! A state in memory that answers as slowly as a database does.
//!
//! Every open, seek and step spins for a configured time on top of what the map itself takes, so
//! that the work a strategy saves or repeats counts as it does over MDBX with a warm page cache.

use alloy_primitives::{B256, U256};
use alloy_trie::Nibbles;
use state_root::{
    StoredBranch,
    cursor::{CursorError, HashedCursor, StateSource, StateView, TrieCursor},
    mem::{MemCursor, MemState},
    updates::Account,
};
use std::{
    hint::spin_loop,
    sync::Arc,
    time::{Duration, Instant},
};

/// What reading costs beyond the memory it touches.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost {
    /// Opening a view.
    pub(crate) open: Duration,
    /// Opening a cursor, or seeking with one.
    pub(crate) seek: Duration,
    /// Stepping to the next entry.
    pub(crate) next: Duration,
}

/// Keeps this thread busy, as whatever it stands for would.
pub(crate) fn spin(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        spin_loop();
    }
}

/// Opens views of one state.
#[derive(Debug)]
pub(crate) struct CostlySource {
    pub(crate) state: Arc<MemState>,
    pub(crate) cost: Cost,
}

/// A view that takes its time.
#[derive(Debug)]
pub(crate) struct CostlyView {
    state: Arc<MemState>,
    cost: Cost,
}

/// A cursor that takes its time.
#[derive(Debug)]
pub(crate) struct CostlyCursor<C> {
    cursor: C,
    cost: Cost,
}

impl StateSource for CostlySource {
    type View = CostlyView;

    fn open(&self) -> Result<CostlyView, CursorError> {
        spin(self.cost.open);
        Ok(CostlyView {
            state: Arc::clone(&self.state),
            cost: self.cost,
        })
    }
}

impl CostlyView {
    fn cursor<C>(&self, cursor: Result<C, CursorError>) -> Result<CostlyCursor<C>, CursorError> {
        spin(self.cost.seek);
        let cost = self.cost;
        cursor.map(|cursor| CostlyCursor { cursor, cost })
    }
}

impl StateView for CostlyView {
    type Trie<'a> = CostlyCursor<MemCursor<'a, Nibbles, StoredBranch>>;
    type Accounts<'a> = CostlyCursor<MemCursor<'a, B256, Account>>;
    type Slots<'a> = CostlyCursor<MemCursor<'a, B256, U256>>;

    fn account_trie(&self) -> Result<Self::Trie<'_>, CursorError> {
        self.cursor(self.state.account_trie())
    }

    fn storage_trie(&self, hashed_address: B256) -> Result<Self::Trie<'_>, CursorError> {
        self.cursor(self.state.storage_trie(hashed_address))
    }

    fn accounts(&self) -> Result<Self::Accounts<'_>, CursorError> {
        self.cursor(self.state.accounts())
    }

    fn slots(&self, hashed_address: B256) -> Result<Self::Slots<'_>, CursorError> {
        self.cursor(self.state.slots(hashed_address))
    }
}

impl<C: TrieCursor> TrieCursor for CostlyCursor<C> {
    fn seek_exact(&mut self, path: &Nibbles) -> Result<Option<StoredBranch>, CursorError> {
        spin(self.cost.seek);
        self.cursor.seek_exact(path)
    }

    fn seek(&mut self, path: &Nibbles) -> Result<Option<(Nibbles, StoredBranch)>, CursorError> {
        spin(self.cost.seek);
        self.cursor.seek(path)
    }

    fn next(&mut self) -> Result<Option<(Nibbles, StoredBranch)>, CursorError> {
        spin(self.cost.next);
        self.cursor.next()
    }
}

impl<C: HashedCursor> HashedCursor for CostlyCursor<C> {
    type Value = C::Value;

    fn seek(&mut self, key: B256) -> Result<Option<(B256, C::Value)>, CursorError> {
        spin(self.cost.seek);
        self.cursor.seek(key)
    }

    fn next(&mut self) -> Result<Option<(B256, C::Value)>, CursorError> {
        spin(self.cost.next);
        self.cursor.next()
    }
}
