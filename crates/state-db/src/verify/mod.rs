//! Proving the database right: everything that follows from something else is computed again.
//!
//! ```text
//!   headers ──► hashes, parents, bodies, receipts, lookups      leaves ──► root = header's root
//!   plain state ──► hashed state, code                             └────► stored trie nodes
//!   changesets ◄──► history shards; undone block by block ──► the root of every header
//! ```
//!
//! Only reads. Memory is bounded: what has to be brought into another order goes through the
//! loader's sorter, and everything else is a walk in key order. Invariant: what cannot be decoded
//! or found is a finding; an error means that the check could not be made.

mod blocks;
mod codes;
mod compare;
mod history;
mod markers;
mod report;
mod roots;
mod state;
mod tries;
mod walk;

pub use report::{Finding, VerifyCheck, VerifyOptions, VerifyProgress, VerifyReport};

use crate::{
    codec,
    db::StateDb,
    error::DbError,
    loader::{Sorter, sort_error},
    tables::Table,
    tx::DbView,
    view::FINISH,
};
use alloy_primitives::B256;
use report::Findings;
use walk::Walk;

/// Rows between two reports of progress.
const PROGRESS_STEP: u64 = 4096;

impl StateDb {
    /// Checks every table of one snapshot. `progress` is told how far each check is.
    ///
    /// # Errors
    /// When there is no block, or something other than the content of the database stands in the
    /// way: findings are no errors.
    pub fn verify(
        &self,
        options: &VerifyOptions,
        progress: &mut dyn FnMut(VerifyProgress),
    ) -> Result<VerifyReport, DbError> {
        let view = self.view()?;
        let mut audit = Audit {
            options,
            progress,
            head: 0,
            findings: Findings::default(),
            notes: Vec::new(),
            orphan_codes: 0,
            state_root: None,
            current: (VerifyCheck::Markers, 0, 0),
        };
        audit.head = audit.find_head(&view)?;
        // A missing or damaged hash is found with the blocks.
        let head_hash = view.block_hash(audit.head).ok().flatten();
        audit.run(VerifyCheck::Markers, &view, markers::check)?;
        audit.run(VerifyCheck::Blocks, &view, blocks::check)?;
        audit.run(VerifyCheck::State, &view, state::check)?;
        audit.run(VerifyCheck::Codes, &view, codes::check)?;
        audit.run(VerifyCheck::Tries, &view, tries::check)?;
        audit.run(VerifyCheck::Histories, &view, history::check)?;
        let sound = audit.findings.is_empty();
        if sound {
            let undone = roots::check(view, &mut audit);
            audit.absorb(undone)?;
        } else if audit.head > 0 {
            let note = "state roots of earlier blocks were not recomputed because of the findings";
            audit.notes.push(note.into());
        }
        Ok(audit.report(head_hash))
    }
}

/// A verification under way.
pub(super) struct Audit<'a> {
    options: &'a VerifyOptions,
    progress: &'a mut dyn FnMut(VerifyProgress),
    /// Number of the last block.
    head: u64,
    findings: Findings,
    notes: Vec<String>,
    orphan_codes: u64,
    /// Root of the leaves, once computed.
    state_root: Option<B256>,
    /// The check, rows done, rows in all.
    current: (VerifyCheck, u64, u64),
}

impl Audit<'_> {
    /// The head by its checkpoint, or else the last canonical block.
    fn find_head(&mut self, view: &DbView) -> Result<u64, DbError> {
        match view.checkpoint(FINISH) {
            Ok(Some(head)) => return Ok(head),
            Ok(None) => {}
            // Reported with the other checkpoints.
            Err(DbError::CorruptRow { .. }) => {}
            Err(error) => return Err(error),
        }
        let last = Walk::last(view, Table::CanonicalHeaders)?;
        last.and_then(|(key, _)| codec::decode_block_key(&key))
            .ok_or(DbError::NoGenesis)
    }

    fn run(
        &mut self,
        check: VerifyCheck,
        view: &DbView,
        body: impl FnOnce(&DbView, &mut Self) -> Result<(), DbError>,
    ) -> Result<(), DbError> {
        let mut rows = 0;
        for table in check.tables() {
            rows += view.rows(*table)?;
        }
        self.begin(check, rows);
        let outcome = body(view, self);
        self.absorb(outcome)
    }

    fn begin(&mut self, check: VerifyCheck, rows: u64) {
        self.current = (check, 0, rows);
        self.report_progress();
    }

    /// Damage that ended a check early is a finding; other errors are the caller's.
    fn absorb(&mut self, outcome: Result<(), DbError>) -> Result<(), DbError> {
        let Err(error) = outcome else { return Ok(()) };
        let finding = Finding::of(&error).ok_or(error)?;
        self.findings.add(finding);
        Ok(())
    }

    /// Counts a row that was read.
    fn step(&mut self) {
        self.current.1 += 1;
        if self.current.1.is_multiple_of(PROGRESS_STEP) {
            self.report_progress();
        }
    }

    fn report_progress(&mut self) {
        let (check, done, total) = self.current;
        (self.progress)(VerifyProgress { check, done, total });
    }

    /// Notes that something is wrong with the row at `key`.
    fn find(&mut self, table: Table, key: impl Into<String>, problem: impl Into<String>) {
        self.findings.add(Finding {
            table: table.name(),
            key: key.into(),
            problem: problem.into(),
        });
    }

    /// Whether a table has so many findings that looking further tells nothing new.
    fn findings_overflow(&self, table: Table) -> bool {
        self.findings.overflow(table.name())
    }

    /// Notes that the row at `key` does not decode.
    fn find_undecodable(&mut self, table: Table, key: impl Into<String>) {
        self.find(table, key, report::UNDECODABLE);
    }

    /// Sorts records within `eighths` of the memory.
    fn sorter(&self, key_len: usize, eighths: usize) -> Sorter {
        let budget_bytes = self.options.sort_budget_bytes / 8 * eighths;
        Sorter::new(key_len, budget_bytes, self.options.sort_folder.clone())
    }

    /// Adds a record to a sorter.
    fn push(&self, sorter: &mut Sorter, key: &[u8], value: &[u8]) -> Result<(), DbError> {
        let pushed = sorter.push(key, value);
        pushed.map_err(|source| sort_error(&self.options.sort_folder, source))
    }

    fn report(self, head_hash: Option<B256>) -> VerifyReport {
        VerifyReport {
            head: self.head,
            head_hash,
            state_root: self.state_root,
            orphan_codes: self.orphan_codes,
            unlisted: self.findings.unlisted(),
            findings: self.findings.into_list(),
            notes: self.notes,
        }
    }
}
