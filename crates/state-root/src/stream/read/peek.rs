//! A leaf cursor that remembers the leaf it stopped at.
//!
//! Walking a branch asks for the leaves of one child, then of the next; where the first range ends
//! the second often begins, and then the database is not asked again.

use crate::cursor::{CursorError, HashedCursor};
use crate::nibbles::common_prefix;
use alloy_primitives::B256;

pub(super) struct PeekCursor<C: HashedCursor> {
    cursor: C,
    peeked: Option<Peeked<C::Value>>,
}

/// What is known of the leaves beyond the last range read.
struct Peeked<V> {
    /// No key from here up to the next leaf holds a leaf,
    floor: B256,
    /// except the floor itself, when that leaf was the last one read.
    floor_is_leaf: bool,
    next: Option<(B256, V)>,
}

impl<V> Peeked<V> {
    /// Whether `next` is the first leaf from `key` on.
    fn answers(&self, key: &B256) -> bool {
        let above_floor = *key > self.floor || (*key == self.floor && !self.floor_is_leaf);
        above_floor && self.next.as_ref().is_none_or(|(next, _)| key <= next)
    }
}

impl<C: HashedCursor> PeekCursor<C> {
    pub(super) fn new(cursor: C) -> Self {
        Self {
            cursor,
            peeked: None,
        }
    }

    /// Appends the leaves whose keys share the first `len` nibbles of `from`, the smallest such
    /// key, to `leaves`.
    pub(super) fn read_below(
        &mut self,
        from: B256,
        len: usize,
        leaves: &mut Vec<(B256, C::Value)>,
    ) -> Result<(), CursorError> {
        let mut next = match self.peeked.take() {
            Some(peeked) if peeked.answers(&from) => peeked.next,
            _ => self.cursor.seek(from)?,
        };
        let (mut floor, mut floor_is_leaf) = (from, false);
        while let Some(leaf) = next.take_if(|(key, _)| common_prefix(key, &from) >= len) {
            (floor, floor_is_leaf) = (leaf.0, true);
            leaves.push(leaf);
            next = self.cursor.next()?;
        }
        self.peeked = Some(Peeked {
            floor,
            floor_is_leaf,
            next,
        });
        Ok(())
    }
}
