//! The proof workers: each opens one view per block and walks tries for the jobs it takes.

use super::block::{Block, BlockState, Workers};
use crate::{
    chunk::{Batch, StorageTargets},
    cursor::{StateSource, StateView},
    error::RootError,
    proof::{LeafValues, SlotValues, Walk, storage_root},
    sparse::Proof,
    updates::Account,
};
use alloy_primitives::{B256, U256};
use alloy_trie::{EMPTY_ROOT_HASH, TrieAccount};
use crossbeam_channel::{Receiver, Sender};
use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};
use tracing::debug_span;

/// What the workers' spans belong to, as in reth.
const TARGET: &str = "trie::proof_task";

/// What workers tell the trie thread.
#[derive(Debug)]
pub(super) enum Event {
    /// The account part of a job.
    Accounts(Proof<TrieAccount>),
    /// One account's slots of a job.
    Slots(B256, Proof<U256>),
    /// A worker cannot go on.
    Failed(RootError),
}

/// An account worker's share in a block.
#[derive(Debug)]
pub(super) struct AccountWork<S> {
    pub(super) worker_id: usize,
    pub(super) block: Arc<Block<S>>,
    pub(super) jobs: Receiver<Batch>,
    pub(super) storage_jobs: Sender<StorageTargets>,
    pub(super) events: Sender<Event>,
}

/// A storage worker's share in a block.
#[derive(Debug)]
pub(super) struct StorageWork<S> {
    pub(super) worker_id: usize,
    pub(super) block: Arc<Block<S>>,
    pub(super) jobs: Receiver<StorageTargets>,
    pub(super) events: Sender<Event>,
}

impl<S: StateSource> AccountWork<S> {
    pub(super) fn run(self) {
        let worker_id = self.worker_id;
        let parent = &self.block.span;
        let _span =
            debug_span!(target: TARGET, parent: parent, "account worker", worker_id).entered();
        report_failure(&self.events, &self.block.state, || {
            serve(&self.block, Workers::Account, &self.jobs, |view, job| {
                self.walk(view, &job)
            })
        });
    }

    /// Hands the job's slots to the storage workers, then walks the account trie.
    fn walk(&self, view: &S::View, job: &Batch) -> Result<(), RootError> {
        let _span = debug_span!(
            target: TARGET,
            "Account V2 multiproof calculation",
            account_targets = job.accounts.len(),
            storage_targets = job.slot_count()
        )
        .entered();
        let state = &*self.block.state;
        for storage in &job.storages {
            if storage.slots.iter().any(|slot| slot.start == 0) {
                state.expect_root(storage.address);
            }
            self.storage_jobs
                .send(storage.clone())
                .map_err(|_| RootError::Stopped)?;
        }
        let values = AccountValues {
            view,
            state,
            storages: &job.storages,
        };
        let proof = Walk::new(
            view.account_trie()?,
            view.accounts()?,
            values,
            &state.cancelled,
        )
        .run(&job.accounts)?;
        self.events
            .send(Event::Accounts(proof))
            .map_err(|_| RootError::Stopped)
    }
}

impl<S: StateSource> StorageWork<S> {
    pub(super) fn run(self) {
        let worker_id = self.worker_id;
        let parent = &self.block.span;
        let _span =
            debug_span!(target: TARGET, parent: parent, "storage worker", worker_id).entered();
        report_failure(&self.events, &self.block.state, || {
            serve(&self.block, Workers::Storage, &self.jobs, |view, job| {
                self.walk(view, &job)
            })
        });
    }

    fn walk(&self, view: &S::View, job: &StorageTargets) -> Result<(), RootError> {
        let state = &*self.block.state;
        let targets = job.slots.len();
        let _span = debug_span!(target: TARGET, "V2 Storage proof calculation", targets).entered();
        let (trie, slots) = (view.storage_trie(job.address)?, view.slots(job.address)?);
        let proof = Walk::new(trie, slots, SlotValues, &state.cancelled).run(&job.slots)?;
        if let Some(root) = proof.root_hash() {
            state.set_root(job.address, root);
        }
        self.events
            .send(Event::Slots(job.address, proof))
            .map_err(|_| RootError::Stopped)
    }
}

/// Opens a view and walks it for one job after another, until the block ends.
fn serve<S: StateSource, J>(
    block: &Block<S>,
    workers: Workers,
    jobs: &Receiver<J>,
    walk: impl Fn(&S::View, J) -> Result<(), RootError>,
) -> Result<(), RootError> {
    let view = block.source.open()?;
    block.state.enter_idle(workers);
    for job in jobs {
        block.state.leave_idle(workers);
        walk(&view, job)?;
        block.state.enter_idle(workers);
    }
    Ok(())
}

/// Runs a worker's share in a block; a failure, even a panic, ends the block but not the thread.
fn report_failure(
    events: &Sender<Event>,
    state: &BlockState,
    work: impl FnOnce() -> Result<(), RootError>,
) {
    if let Err(error) = catch_panic(work) {
        // First the cause, then what makes others fail.
        let _ = events.send(Event::Failed(error));
        state.cancel();
    }
}

/// Turns a panic into an error.
pub(crate) fn catch_panic<T>(work: impl FnOnce() -> Result<T, RootError>) -> Result<T, RootError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(panicked(&*panic)))
}

/// The error that a panic is.
pub(crate) fn panicked(panic: &(dyn Any + Send)) -> RootError {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    RootError::Panicked(text.unwrap_or("no message").to_owned())
}

/// Stands for the storage root of an account that gets a new one. It must not be a root that a
/// trie can have: a leaf that equals its new value is taken for unchanged.
const TO_BE_REPLACED: B256 = B256::ZERO;

/// Supplies accounts with their storage roots.
struct AccountValues<'a, V> {
    view: &'a V,
    state: &'a BlockState,
    /// Slot targets of the job, sorted by address.
    storages: &'a [StorageTargets],
}

impl<V: StateView> LeafValues for AccountValues<'_, V> {
    type Stored = Account;
    type Value = TrieAccount;

    fn complete(&mut self, address: &B256, account: &Account) -> Result<TrieAccount, RootError> {
        let root = match self.state.root(address)? {
            Some(root) => root,
            None => {
                let root = storage_root(self.view, *address, &self.state.cancelled)?;
                if root != EMPTY_ROOT_HASH {
                    self.state.set_root(*address, root);
                }
                root
            }
        };
        Ok(trie_account(account, root))
    }

    /// An account with slot targets gets a new storage root before its leaf is encoded, so the old
    /// one is not worth waiting for.
    fn of_target(&mut self, address: &B256, account: &Account) -> Result<TrieAccount, RootError> {
        match self
            .storages
            .binary_search_by_key(address, |storage| storage.address)
        {
            Ok(_) => Ok(trie_account(account, TO_BE_REPLACED)),
            Err(_) => self.complete(address, account),
        }
    }
}

/// An account as its leaf holds it.
pub(super) fn trie_account(account: &Account, storage_root: B256) -> TrieAccount {
    TrieAccount::new(
        account.nonce,
        account.balance,
        storage_root,
        account.code_hash,
    )
}
