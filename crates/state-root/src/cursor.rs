//! How the trie algorithms read stored state: four kinds of cursor over one consistent view.
//!
//! A *view* is one snapshot of the state at a parent block. A [`StateSource`] opens any number of
//! views of the same state, one per worker thread.

use crate::{stored::StoredBranch, updates::Account};
use alloy_primitives::{B256, U256};
use alloy_trie::Nibbles;
use std::sync::Arc;

/// Why stored state could not be read.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CursorError {
    /// The database failed; the text is its own.
    #[error("failed to read the state database: {0}")]
    Database(String),
    /// The state the source was made for can no longer be read from the database, because blocks
    /// of another branch were written meanwhile.
    #[error("the state of block {0} is no longer available")]
    StateGone(B256),
}

/// A forward cursor over the stored branch nodes of one trie, in path order. Seeking backwards is
/// allowed, and rare.
///
/// Only branches that have a hashed or stored branch below them are stored; leaves, extensions
/// and the root branch (the empty path) are not.
pub trait TrieCursor {
    /// The node stored exactly at `path`.
    fn seek_exact(&mut self, path: &Nibbles) -> Result<Option<StoredBranch>, CursorError>;
    /// The first stored node whose path is `path` or after it.
    fn seek(&mut self, path: &Nibbles) -> Result<Option<(Nibbles, StoredBranch)>, CursorError>;
    /// The stored node after the last one returned.
    fn next(&mut self) -> Result<Option<(Nibbles, StoredBranch)>, CursorError>;
}

/// A forward cursor over hashed leaves, in key order. Seeking backwards is allowed, and rare.
pub trait HashedCursor {
    /// What a leaf holds: an [`Account`], or the [`U256`] of a slot (never zero).
    type Value;
    /// The first leaf whose key is `key` or after it.
    fn seek(&mut self, key: B256) -> Result<Option<(B256, Self::Value)>, CursorError>;
    /// The leaf after the last one returned.
    fn next(&mut self) -> Result<Option<(B256, Self::Value)>, CursorError>;
}

/// One consistent snapshot of the state, used by one thread.
pub trait StateView {
    /// Cursor over the stored branches of the account trie, or of one storage trie.
    type Trie<'a>: TrieCursor
    where
        Self: 'a;
    /// Cursor over hashed accounts.
    type Accounts<'a>: HashedCursor<Value = Account>
    where
        Self: 'a;
    /// Cursor over the hashed slots of one account.
    type Slots<'a>: HashedCursor<Value = U256>
    where
        Self: 'a;

    /// Opens a cursor over the account trie's stored branches.
    fn account_trie(&self) -> Result<Self::Trie<'_>, CursorError>;
    /// Opens a cursor over the stored branches of the storage trie of `hashed_address`.
    fn storage_trie(&self, hashed_address: B256) -> Result<Self::Trie<'_>, CursorError>;
    /// Opens a cursor over all hashed accounts.
    fn accounts(&self) -> Result<Self::Accounts<'_>, CursorError>;
    /// Opens a cursor over the hashed slots of `hashed_address`.
    fn slots(&self, hashed_address: B256) -> Result<Self::Slots<'_>, CursorError>;
}

impl<V: StateView> StateView for Arc<V> {
    type Trie<'a>
        = V::Trie<'a>
    where
        Self: 'a;
    type Accounts<'a>
        = V::Accounts<'a>
    where
        Self: 'a;
    type Slots<'a>
        = V::Slots<'a>
    where
        Self: 'a;

    fn account_trie(&self) -> Result<Self::Trie<'_>, CursorError> {
        (**self).account_trie()
    }

    fn storage_trie(&self, hashed_address: B256) -> Result<Self::Trie<'_>, CursorError> {
        (**self).storage_trie(hashed_address)
    }

    fn accounts(&self) -> Result<Self::Accounts<'_>, CursorError> {
        (**self).accounts()
    }

    fn slots(&self, hashed_address: B256) -> Result<Self::Slots<'_>, CursorError> {
        (**self).slots(hashed_address)
    }
}

/// Opens views of the state at one block, on whichever thread needs one.
pub trait StateSource: Send + Sync + 'static {
    /// The view it opens. It stays on the thread that opened it.
    type View: StateView;
    /// Opens a view.
    fn open(&self) -> Result<Self::View, CursorError>;
}
