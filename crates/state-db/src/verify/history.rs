//! Changesets against history shards, in both directions, and against the values after them.

use super::{
    Audit,
    walk::{MISSING, SUPERFLUOUS, Walk, words},
};
use crate::{
    codec::{self, LAST_SHARD, SHARD_BLOCKS},
    error::{Context, DbError},
    history::decode_shard,
    loader::{Input, Sorter},
    tables::Table,
    tx::DbView,
};
use std::{borrow::Cow, collections::VecDeque};

/// Checks accounts, then slots.
pub(super) fn check(view: &DbView, audit: &mut Audit<'_>) -> Result<(), DbError> {
    let changes = account_changes(view, audit)?;
    ACCOUNTS.compare(view, audit, changes)?;
    let changes = slot_changes(view, audit)?;
    SLOTS.compare(view, audit, changes)
}

/// A changeset table and the history over it.
#[derive(Clone, Copy)]
struct Kind {
    changes: Table,
    history: Table,
    /// Length of a history's key without the block.
    prefix: usize,
}

const ACCOUNTS: Kind = Kind {
    changes: Table::AccountChangeSets,
    history: Table::AccountsHistory,
    prefix: 20,
};

const SLOTS: Kind = Kind {
    changes: Table::StorageChangeSets,
    history: Table::StoragesHistory,
    prefix: 52,
};

/// Every account change by address and block, with the account before.
fn account_changes(view: &DbView, audit: &mut Audit<'_>) -> Result<Sorter, DbError> {
    let table = Table::AccountChangeSets;
    let mut sorter = audit.sorter(28, 5);
    let mut rows = Walk::new(view, table)?;
    while let Some((key, value)) = rows.pop()? {
        audit.step();
        let decoded = codec::decode_account_change(&value).filter(|_| key.len() == 8);
        let Some((address, _)) = decoded else {
            audit.find_undecodable(table, words(table, &key));
            continue;
        };
        if check_block(audit, table, &key) {
            let full = [address.as_slice(), &key].concat();
            audit.push(&mut sorter, &full, &value[20..])?;
        }
    }
    Ok(sorter)
}

/// Every slot change by address, slot and block, with the value before.
fn slot_changes(view: &DbView, audit: &mut Audit<'_>) -> Result<Sorter, DbError> {
    let table = Table::StorageChangeSets;
    let mut sorter = audit.sorter(60, 5);
    let mut rows = Walk::new(view, table)?;
    while let Some((key, value)) = rows.pop()? {
        audit.step();
        let decoded = codec::decode_slot(&value).filter(|_| key.len() == 28);
        let Some((slot, _)) = decoded else {
            audit.find_undecodable(table, words(table, &key));
            continue;
        };
        if check_block(audit, table, &key) {
            let full = [&key[8..], slot.as_slice(), &key[..8]].concat();
            audit.push(&mut sorter, &full, &value[32..])?;
        }
    }
    Ok(sorter)
}

/// A change belongs to a block of the chain; genesis changes nothing.
fn check_block(audit: &mut Audit<'_>, table: Table, key: &[u8]) -> bool {
    let block = codec::decode_block_key(key);
    let known = block.is_some_and(|block| (1..=audit.head).contains(&block));
    if !known {
        audit.find(table, words(table, key), SUPERFLUOUS);
    }
    known
}

impl Kind {
    fn compare(self, view: &DbView, audit: &mut Audit<'_>, changes: Sorter) -> Result<(), DbError> {
        let folder = audit.options.sort_folder.clone();
        let mut changes = Input::new(changes, &folder)?;
        let mut shards = Shards::new(self, view)?;
        let mut before: Option<(Vec<u8>, Vec<u8>)> = None;
        while changes.live {
            while shards
                .next(audit)?
                .is_some_and(|next| next < &changes.key[..])
            {
                self.find_index(audit, shards.pop(), "names it, no such change is stored");
            }
            if shards
                .next(audit)?
                .is_some_and(|next| next == &changes.key[..])
            {
                shards.pop();
            } else {
                self.find_index(audit, Some(changes.key.clone()), MISSING);
            }
            if let Some(earlier) = before.take() {
                self.check_effect(view, audit, &earlier, Some(&changes))?;
            }
            let current = (changes.key.clone(), changes.value.clone());
            if changes.advance()? {
                self.find_change(audit, &current.0, "is stored twice");
            }
            before = Some(current);
        }
        if let Some(last) = before {
            self.check_effect(view, audit, &last, None)?;
        }
        while shards.next(audit)?.is_some() {
            self.find_index(audit, shards.pop(), "names it, no such change is stored");
        }
        Ok(())
    }

    /// A change leads from its value to that of the next change, or to the current one.
    fn check_effect(
        self,
        view: &DbView,
        audit: &mut Audit<'_>,
        (key, value): &(Vec<u8>, Vec<u8>),
        next: Option<&Input<'_>>,
    ) -> Result<(), DbError> {
        let prefix = &key[..self.prefix];
        let same = next.filter(|next| next.key.starts_with(prefix));
        let unchanged = match same {
            Some(next) => next.key != *key && next.value == *value,
            None => self.current(view, prefix)?.unwrap_or_default()[..] == value[..],
        };
        if unchanged {
            self.find_change(
                audit,
                key,
                "changes nothing: the value before is that after",
            );
        }
        Ok(())
    }

    /// The value of today, as a changeset writes it.
    fn current<'a>(
        self,
        view: &'a DbView,
        prefix: &[u8],
    ) -> Result<Option<Cow<'a, [u8]>>, DbError> {
        let (address, slot) = prefix.split_at(20);
        if slot.is_empty() {
            return view.get(Table::PlainAccountState, address);
        }
        let table = Table::PlainStorageState;
        let row: Option<Cow<'a, [u8]>> = view
            .cursor(table)?
            .get_both_range(address, slot)
            .doing("read", table.name())?;
        Ok(row
            .filter(|row| row.starts_with(slot))
            .map(|row| Cow::Owned(row[slot.len()..].to_vec())))
    }

    fn find_index(self, audit: &mut Audit<'_>, key: Option<Vec<u8>>, problem: &str) {
        if let Some(key) = key {
            audit.find(self.history, words(self.history, &key), problem);
        }
    }

    /// The key in the order of the changesets: the block first.
    fn find_change(self, audit: &mut Audit<'_>, key: &[u8], problem: &str) {
        let (place, block) = key.split_at(self.prefix);
        let block = words(Table::Headers, block);
        let place = words(self.history, &[place, &[0; 8]].concat());
        let place = place.strip_suffix("/0").unwrap_or(&place);
        audit.find(self.changes, format!("{block}/{place}"), problem);
    }
}

/// The blocks of all histories of a table, each as its key and the block.
struct Shards<'a> {
    kind: Kind,
    rows: Walk<'a>,
    /// What the current shard still holds.
    blocks: VecDeque<Vec<u8>>,
    /// The history under way and its highest block.
    history: (Vec<u8>, u64),
    /// Whether its last shard was seen.
    closed: bool,
}

impl<'a> Shards<'a> {
    fn new(kind: Kind, view: &'a DbView) -> Result<Self, DbError> {
        Ok(Self {
            kind,
            rows: Walk::new(view, kind.history)?,
            blocks: VecDeque::new(),
            history: (Vec::new(), 0),
            closed: true,
        })
    }

    /// The next entry, which stays.
    fn next(&mut self, audit: &mut Audit<'_>) -> Result<Option<&[u8]>, DbError> {
        while self.blocks.is_empty() {
            let Some((key, value)) = self.rows.pop()? else {
                self.close(audit);
                break;
            };
            self.open(audit, &key, &value);
        }
        Ok(self.blocks.front().map(Vec::as_slice))
    }

    fn pop(&mut self) -> Option<Vec<u8>> {
        self.blocks.pop_front()
    }

    /// Ends a history.
    fn close(&mut self, audit: &mut Audit<'_>) {
        if !std::mem::replace(&mut self.closed, true) {
            let key = [&self.history.0[..], &LAST_SHARD.to_be_bytes()].concat();
            let table = self.kind.history;
            audit.find(table, words(table, &key), MISSING);
        }
    }

    fn open(&mut self, audit: &mut Audit<'_>, key: &[u8], value: &[u8]) {
        let table = self.kind.history;
        let blocks = decode_shard(value).filter(|_| key.len() == self.kind.prefix + 8);
        let Some(blocks) = blocks else {
            audit.find_undecodable(table, words(table, key));
            return;
        };
        let (prefix, highest) = key.split_at(self.kind.prefix);
        if prefix != self.history.0 {
            self.close(audit);
            self.history = (prefix.to_vec(), 0);
        }
        let highest = codec::decode_block_key(highest).unwrap_or_default();
        self.closed = highest == LAST_SHARD;
        let length = blocks.len();
        let problem = match (blocks.min(), blocks.max()) {
            (Some(first), _) if first <= self.history.1 && self.history.1 > 0 => Some(format!(
                "begins at {first}, the shard before ends at {}",
                self.history.1
            )),
            (Some(_), Some(last)) if highest != LAST_SHARD && last != highest => {
                Some(format!("ends at {last}"))
            }
            (Some(_), _) if highest != LAST_SHARD && length != SHARD_BLOCKS as u64 => {
                Some(format!("holds {length} blocks, not {SHARD_BLOCKS}"))
            }
            (Some(_), _) if length > SHARD_BLOCKS as u64 => {
                Some(format!("holds {length} blocks, more than {SHARD_BLOCKS}"))
            }
            (None, _) => Some("is empty".to_owned()),
            _ => None,
        };
        if let Some(problem) = problem {
            audit.find(table, words(table, key), problem);
        }
        self.history.1 = blocks.max().unwrap_or(self.history.1);
        // A damaged shard may name more blocks than there are; one past the head tells enough.
        let named = blocks.iter().take(2 * SHARD_BLOCKS);
        self.blocks = named
            .map(|block| [prefix, &block.to_be_bytes()].concat())
            .collect();
    }
}
