//! The thread that writes blocks to the database, one batch at a time.
//!
//! The engine hands over shared blocks and goes on; it takes note of the result between two
//! requests. At most one batch is under way.

use super::{EngineError, tree::ExecutedBlock};
use crate::{primitives::BlockNumHash, priority::yield_to_blocks, telemetry::PersistenceMetrics};
use alloy_primitives::{B256, KECCAK256_EMPTY, U256};
use crossbeam_channel::{Receiver, Sender};
use revm::{
    database::{AccountStatus, BundleAccount, BundleState},
    state::AccountInfo,
};
use state_db::{AccountDelta, BlockWrite, DbError, PlainChanges, SlotDelta, StateDb, StorageDelta};
use state_root::updates::Account;
use std::{
    sync::Arc,
    thread::JoinHandle,
    time::{Duration, Instant},
};
use tracing::debug_span;

/// Numbers of the safe and the finalized block, as far as they are in the database.
pub(super) type Markers = (Option<u64>, Option<u64>);

/// One batch, oldest block first, and the markers that go with it.
struct Batch {
    blocks: Vec<Arc<ExecutedBlock>>,
    markers: Markers,
}

/// Why a batch was not persisted. Cheap to repeat: every later request is answered with it.
#[derive(Debug, Clone, thiserror::Error)]
pub enum PersistError {
    /// The database failed.
    #[error(transparent)]
    Database(Arc<DbError>),
    /// The persistence thread is gone.
    #[error("the persistence thread has ended")]
    Stopped,
}

impl From<DbError> for PersistError {
    fn from(error: DbError) -> Self {
        Self::Database(Arc::new(error))
    }
}

impl PersistError {
    /// Whether storage itself failed.
    pub(super) fn is_storage_failure(&self) -> bool {
        matches!(self, Self::Database(error) if error.is_storage_failure())
    }
}

/// The last block of a batch; `None` when it had markers alone.
pub(super) type Persisted = Result<Option<BlockNumHash>, PersistError>;

/// The engine's end of the persistence thread.
pub(super) struct Persistence {
    jobs: Option<Sender<Batch>>,
    results: Receiver<Persisted>,
    /// When the batch under way was handed over.
    in_flight: Option<Instant>,
    thread: Option<JoinHandle<()>>,
}

impl Persistence {
    /// Starts the thread.
    pub(super) fn spawn(db: StateDb) -> Result<Self, EngineError> {
        let (jobs, received) = crossbeam_channel::bounded::<Batch>(1);
        let (sender, results) = crossbeam_channel::bounded(1);
        let metrics = PersistenceMetrics::new();
        let thread = std::thread::Builder::new()
            .name("persistence".into())
            .spawn(move || {
                // Persistence takes as much CPU time as execution. What it does not get done in a burst
                // of blocks accumulates into larger batches, which cost less; the engine waits when
                // too much has accumulated.
                yield_to_blocks();
                for job in received {
                    if sender.send(persist(&db, &job, &metrics)).is_err() {
                        return;
                    }
                }
            })
            .map_err(|error| {
                EngineError::Start(format!("start the persistence thread: {error}"))
            })?;
        Ok(Self {
            jobs: Some(jobs),
            results,
            in_flight: None,
            thread: Some(thread),
        })
    }

    /// Whether a batch is under way.
    pub(super) fn in_flight(&self) -> bool {
        self.in_flight.is_some()
    }

    /// Delivers the result of each batch.
    pub(super) fn results(&self) -> &Receiver<Persisted> {
        &self.results
    }

    /// Starts writing `blocks`, oldest first, with the markers. Only when no batch is under way.
    /// Whether there is a thread to do it.
    pub(super) fn persist(&mut self, blocks: Vec<Arc<ExecutedBlock>>, markers: Markers) -> bool {
        let job = Batch { blocks, markers };
        let sent = self
            .jobs
            .as_ref()
            .is_some_and(|jobs| jobs.send(job).is_ok());
        self.in_flight = sent.then(Instant::now);
        sent
    }

    /// Takes note that the result of the batch under way was received. How long ago it was handed over.
    pub(super) fn finished(&mut self) -> Option<Duration> {
        self.in_flight.take().map(|since| since.elapsed())
    }
}

impl Drop for Persistence {
    /// A batch under way is finished, not cut.
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn persist(db: &StateDb, job: &Batch, metrics: &PersistenceMetrics) -> Persisted {
    let start = Instant::now();
    let _span = debug_span!(target: "engine::persistence", "on_save_blocks", block_count = job.blocks.len()).entered();
    let (safe, finalized) = job.markers;
    let Some(last) = job.blocks.last().map(|block| block.chain_block.num_hash()) else {
        db.set_forkchoice(safe, finalized)?;
        return Ok(None);
    };
    let changes: Vec<_> = job
        .blocks
        .iter()
        .map(|block| plain_changes(&block.bundle))
        .collect();
    let writes: Vec<_> = job
        .blocks
        .iter()
        .zip(&changes)
        .map(|(block, changes)| BlockWrite {
            block: &block.chain_block.block,
            receipts: &block.chain_block.receipts,
            changes,
            hashed: &block.hashed,
            trie: &block.trie,
        })
        .collect();
    let span = debug_span!(target: "providers::db", "save_blocks", block_count = writes.len());
    span.in_scope(|| db.append_marked(&writes, safe, finalized))?;
    metrics.persisted(writes.len(), start.elapsed());
    tracing::debug!(
        target: "engine::persistence",
        blocks = writes.len(),
        last = last.number,
        elapsed = ?start.elapsed(),
        "Finished persisting"
    );
    Ok(Some(last))
}

/// What a block did to plain state, as storage takes it.
pub(super) fn plain_changes(bundle: &BundleState) -> PlainChanges {
    let mut changes = PlainChanges::default();
    for (address, account) in &bundle.state {
        let before = account.original_info.as_ref().map(stored_account);
        let after = account.info.as_ref().map(stored_account);
        if before != after {
            changes
                .accounts
                .push((*address, AccountDelta { before, after }));
        }
        let storage = storage_delta(account);
        if storage.wiped || !storage.slots.is_empty() {
            changes.storages.push((*address, storage));
        }
    }
    changes.codes = bundle
        .contracts
        .iter()
        .filter(|(hash, _)| **hash != KECCAK256_EMPTY)
        .map(|(hash, code)| (*hash, code.original_bytes()))
        .collect();
    changes
}

fn storage_delta(account: &BundleAccount) -> StorageDelta {
    let wiped = account.was_destroyed() && had_storage(account);
    let slots = account
        .storage
        .iter()
        .filter(|(_, slot)| wiped || slot.is_changed())
        .map(|(key, slot)| SlotDelta {
            slot: B256::from(*key),
            before: if wiped {
                U256::ZERO
            } else {
                slot.previous_or_original_value
            },
            after: slot.present_value,
        })
        .collect();
    StorageDelta { wiped, slots }
}

/// Whether the database may hold slots of a destroyed account. It cannot when the account did not
/// exist before the block.
pub(super) fn had_storage(account: &BundleAccount) -> bool {
    account.original_info.is_some() && account.status != AccountStatus::LoadedNotExisting
}

/// An account as the state tables hold it.
pub(super) fn stored_account(info: &AccountInfo) -> Account {
    Account {
        nonce: info.nonce,
        balance: info.balance,
        code_hash: info.code_hash,
    }
}
