//! What a verification is asked and what it answers.

use crate::{error::DbError, tables::Table};
use alloy_primitives::B256;
use signet_libmdbx::{MdbxError, ReadError};
use std::{collections::HashMap, path::PathBuf};

/// Findings kept of each table; more of the same tell nothing new.
const FINDINGS_PER_TABLE: usize = 20;

/// What is said of a row that does not decode.
pub(super) const UNDECODABLE: &str = "does not decode";

/// How to verify.
#[derive(Debug, Clone)]
pub struct VerifyOptions {
    /// The first block whose receipts root can be recomputed: the first of Byzantium. Before, a
    /// receipt holds a state root that is not stored.
    pub receipts_root_from: u64,
    /// How many blocks are undone to compare every state root on the way; the newest first.
    pub state_roots: u64,
    /// Where sorted runs go that do not fit in memory.
    pub sort_folder: PathBuf,
    /// Memory for sorting in bytes.
    pub sort_budget_bytes: usize,
}

/// A part of the verification, in the order in which they are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum VerifyCheck {
    /// Checkpoints, safe and finalized block.
    Markers,
    /// Headers, bodies, receipts, senders and the lookups by hash.
    Blocks,
    /// Plain state against hashed state.
    State,
    /// Code against its hash and its users.
    Codes,
    /// The root of the leaves, and every stored trie node.
    Tries,
    /// Changesets against history shards.
    Histories,
    /// The state root of every block, by undoing them from the head down.
    StateRoots,
}

impl VerifyCheck {
    /// What it is called.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Markers => "checkpoints",
            Self::Blocks => "blocks",
            Self::State => "state",
            Self::Codes => "code",
            Self::Tries => "tries",
            Self::Histories => "histories",
            Self::StateRoots => "state roots",
        }
    }

    /// The tables whose rows are counted as its progress.
    pub(super) const fn tables(self) -> &'static [Table] {
        match self {
            Self::Markers | Self::StateRoots => &[],
            Self::Blocks => &[Table::Headers, Table::Transactions],
            Self::State => &[Table::PlainAccountState, Table::PlainStorageState],
            Self::Codes => &[Table::PlainAccountState, Table::AccountChangeSets],
            Self::Tries => &[Table::HashedAccounts, Table::HashedStorages],
            Self::Histories => &[Table::AccountChangeSets, Table::StorageChangeSets],
        }
    }
}

/// How far a verification has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerifyProgress {
    /// The check under way.
    pub check: VerifyCheck,
    /// Rows (or blocks) done.
    pub done: u64,
    /// Rows (or blocks) in all.
    pub total: u64,
}

/// Something wrong with one row, or with what rows make together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The table.
    pub table: &'static str,
    /// The row's key in words: numbers decimal, hashes hexadecimal, a subkey behind a slash.
    pub key: String,
    /// What is wrong, as text that continues table and key.
    pub problem: String,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}: {}", self.table, self.key, self.problem)
    }
}

impl Finding {
    /// The damage an error tells of; `None` when it tells of something else.
    pub(super) fn of(error: &DbError) -> Option<Self> {
        let (table, key, problem) = match error {
            DbError::CorruptRow { table, key } => (*table, key.clone(), UNDECODABLE.to_owned()),
            DbError::Corrupt { table, problem } => (*table, String::new(), problem.clone()),
            DbError::Mdbx {
                table,
                source: ReadError::Mdbx(source @ (MdbxError::Corrupted | MdbxError::PageNotFound)),
                ..
            } => (*table, String::new(), format!("cannot be read: {source}")),
            _ => return None,
        };
        Some(Self {
            table,
            key,
            problem,
        })
    }
}

/// The outcome of a verification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifyReport {
    /// Number of the head.
    pub head: u64,
    /// Its canonical hash, when there is one.
    pub head_hash: Option<B256>,
    /// Root of the stored leaves; `None` when they could not all be read.
    pub state_root: Option<B256>,
    /// Codes that no account uses or ever used. They are no fault: an unwind leaves code.
    pub orphan_codes: u64,
    /// What is wrong.
    pub findings: Vec<Finding>,
    /// Number of findings that were not kept, because their table has many.
    pub unlisted: u64,
    /// What the user should know besides: an unfinished unwind, parts not checked.
    pub notes: Vec<String>,
}

/// Findings, a bounded number of each table.
#[derive(Debug, Default)]
pub(super) struct Findings {
    list: Vec<Finding>,
    by_table: HashMap<&'static str, usize>,
    unlisted: u64,
}

impl Findings {
    pub(super) fn add(&mut self, finding: Finding) {
        let count = self.by_table.entry(finding.table).or_default();
        *count += 1;
        if *count <= FINDINGS_PER_TABLE {
            self.list.push(finding);
        } else {
            self.unlisted += 1;
        }
    }

    /// Whether nothing more of a table will be kept.
    pub(super) fn overflow(&self, table: &'static str) -> bool {
        self.by_table
            .get(table)
            .is_some_and(|count| *count > FINDINGS_PER_TABLE)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(super) fn unlisted(&self) -> u64 {
        self.unlisted
    }

    pub(super) fn into_list(self) -> Vec<Finding> {
        self.list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_with_many_findings_is_cut_and_counted() {
        let mut findings = Findings::default();
        for (table, count) in [("Headers", 25), ("Receipts", 3)] {
            for row in 0..count {
                findings.add(Finding {
                    table,
                    key: row.to_string(),
                    problem: String::new(),
                });
            }
        }
        assert_eq!(findings.unlisted(), 5);
        assert_eq!(findings.into_list().len(), 23);
    }
}
