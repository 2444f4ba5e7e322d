//! What the threads that work on one block share.

use crate::{chunk::IdleWorkers, error::RootError};
use alloy_primitives::{B256, map::B256Map};
use std::sync::{
    Arc, Condvar, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};
use tracing::Span;

/// One block: where its state is read, and the state of the work.
#[derive(Debug)]
pub(super) struct Block<S> {
    pub(super) source: Arc<S>,
    pub(super) state: Arc<BlockState>,
    /// What the spans of the work belong to.
    pub(super) span: Span,
}

/// The state of the work on one block.
#[derive(Debug, Default)]
pub(super) struct BlockState {
    /// Set when the job was dropped or a thread failed: everyone stops.
    pub(super) cancelled: AtomicBool,
    /// Storage roots of accounts in the parent state; `None` while a storage worker computes one.
    roots: Mutex<B256Map<Option<B256>>>,
    root_known: Condvar,
    idle_account_workers: AtomicUsize,
    idle_storage_workers: AtomicUsize,
}

/// Which workers a count is about.
#[derive(Debug, Clone, Copy)]
pub(super) enum Workers {
    Account,
    Storage,
}

impl BlockState {
    /// Makes every thread stop soon.
    pub(super) fn cancel(&self) {
        // Under the lock, so that nobody who has just looked at the flag begins to wait.
        let _roots = self.lock_roots();
        self.cancelled.store(true, Ordering::Relaxed);
        self.root_known.notify_all();
    }

    /// Announces that a storage worker was asked for the storage root of an account.
    pub(super) fn expect_root(&self, address: B256) {
        self.lock_roots().entry(address).or_insert(None);
    }

    /// Tells everyone the storage root of an account.
    pub(super) fn set_root(&self, address: B256, root: B256) {
        self.lock_roots().insert(address, Some(root));
        self.root_known.notify_all();
    }

    /// The storage root of an account, waiting for it when it is being computed; `None` when
    /// nobody was asked for it.
    pub(super) fn root(&self, address: &B256) -> Result<Option<B256>, RootError> {
        let mut roots = self.lock_roots();
        loop {
            match roots.get(address) {
                None => return Ok(None),
                Some(Some(root)) => return Ok(Some(*root)),
                Some(None) if self.cancelled.load(Ordering::Relaxed) => {
                    return Err(RootError::Cancelled);
                }
                Some(None) => {
                    roots = self
                        .root_known
                        .wait(roots)
                        .unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    /// Every update of the map is a single insertion, so a panic elsewhere cannot break it.
    fn lock_roots(&self) -> MutexGuard<'_, B256Map<Option<B256>>> {
        self.roots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a worker as idle from now on; it begins so when it has opened its view.
    pub(super) fn enter_idle(&self, workers: Workers) {
        self.idle(workers).fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a worker as busy.
    pub(super) fn leave_idle(&self, workers: Workers) {
        self.idle(workers).fetch_sub(1, Ordering::Relaxed);
    }

    fn idle(&self, workers: Workers) -> &AtomicUsize {
        match workers {
            Workers::Account => &self.idle_account_workers,
            Workers::Storage => &self.idle_storage_workers,
        }
    }

    pub(super) fn idle_workers(&self) -> IdleWorkers {
        IdleWorkers {
            account: self.idle_account_workers.load(Ordering::Relaxed),
            storage: self.idle_storage_workers.load(Ordering::Relaxed),
        }
    }
}
