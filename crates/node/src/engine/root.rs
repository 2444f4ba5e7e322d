//! Streams state changes from execution to the state root pipeline.

use super::{EngineError, root_check, tree::ParentState};
use alloy_primitives::B256;
use revm::{
    database_interface::OnStateHook,
    state::{Account as EvmAccount, EvmState},
};
use state_db::{Overlay, OverlaySource, StateDb};
use state_root::{
    EndedJob, RootJob, RootOutcome, RootPool,
    cursor::StateSource,
    reference,
    updates::{AccountChange, HashedState},
};
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};
use tracing::debug_span;

/// The root of one block in the making.
pub(super) struct BlockRoot {
    started: Instant,
    job: Arc<RootJob>,
    source: Arc<OverlaySource>,
}

impl BlockRoot {
    /// Begins the root of a block on `parent`.
    pub(super) fn start(
        pool: &RootPool<OverlaySource>,
        db: &StateDb,
        parent: &ParentState,
    ) -> Result<Self, EngineError> {
        let started = Instant::now();
        let source = Arc::new(source(db, parent, parent.overlay(db)?));
        let job = Arc::new(pool.prepare(source.clone(), parent.tip.header.state_root));
        Ok(Self {
            started,
            job,
            source,
        })
    }

    /// The state hook: sends committed changes. The job cannot finish before it is dropped.
    pub(super) fn hook(&self) -> RootHook {
        RootHook(self.job.clone())
    }

    /// Says that execution has ended. The state hook is gone by now.
    pub(super) fn end(self) -> Result<EndedRoot, EngineError> {
        let job = Arc::into_inner(self.job)
            .ok_or_else(|| EngineError::StateRoot("execution has not ended".into()))?;
        Ok(EndedRoot {
            started: self.started,
            ended: Instant::now(),
            job: job.end(),
            source: self.source,
        })
    }
}

/// The root of a block whose changes are all known. The pool works on it.
pub(super) struct EndedRoot {
    started: Instant,
    ended: Instant,
    job: EndedJob,
    source: Arc<OverlaySource>,
}

impl EndedRoot {
    /// Waits for the root.
    pub(super) fn wait(self, check: bool) -> Result<(RootOutcome, RootWait), EngineError> {
        let _span =
            debug_span!(target: "engine::tree::payload_validator", "await_state_root").entered();
        let start = Instant::now();
        let outcome = self
            .job
            .wait()
            .map_err(|error| EngineError::StateRoot(error.to_string()))?;
        let wait = RootWait {
            blocked: start.elapsed(),
            after_execution: self.ended.elapsed(),
            total: self.started.elapsed(),
        };
        if check {
            let view = self
                .source
                .open()
                .map_err(|error| EngineError::StateRoot(error.to_string()))?;
            root_check::check(&view, &outcome)?;
        }
        Ok((outcome, wait))
    }
}

/// How long a root took.
pub(super) struct RootWait {
    /// How long the executing thread was blocked at the end.
    pub(super) blocked: Duration,
    /// From the end of execution.
    pub(super) after_execution: Duration,
    /// From the start of its job, execution included.
    pub(super) total: Duration,
}

/// Sends the changes of each execution step to the pipeline, as reth does: what is queued when the
/// pipeline looks is worked on together.
pub(super) struct RootHook(Arc<RootJob>);

impl OnStateHook for RootHook {
    fn on_state(&mut self, state: EvmState) {
        let changes = account_changes(state);
        if !changes.is_empty() {
            self.0.update(changes);
        }
    }
}

/// The serial reference root after `changes` over the state of `source`.
fn serial_root(source: &OverlaySource, changes: &HashedState) -> Result<B256, EngineError> {
    let failed = |error: state_root::cursor::CursorError| EngineError::StateRoot(error.to_string());
    let view = source.open().map_err(failed)?;
    Ok(reference::incremental_root(&view, changes)
        .map_err(failed)?
        .0)
}

/// The root after `changes` on `parent`, computed serially: for blocks being built, which have no
/// pipeline of their own.
pub(super) fn root_after(
    db: &StateDb,
    parent: &ParentState,
    changes: &[AccountChange],
) -> Result<B256, EngineError> {
    let source = source(db, parent, parent.overlay(db)?);
    serial_root(&source, &HashedState::from_changes(changes))
}

/// State roots after each step of a block: what receipts name before Byzantium (EIP-658).
pub(super) struct StepRoots {
    db: StateDb,
    parent: ParentState,
    changes: Arc<Mutex<Vec<AccountChange>>>,
    /// One root for each call of [`StepRoots::note`].
    pub(super) roots: Vec<B256>,
}

impl StepRoots {
    pub(super) fn new(db: &StateDb, parent: &ParentState) -> Self {
        Self {
            db: db.clone(),
            parent: parent.clone(),
            changes: Arc::default(),
            roots: Vec::new(),
        }
    }

    /// A hook that keeps the changes and passes them on.
    pub(super) fn hook(&self, mut next: RootHook) -> impl OnStateHook + use<> {
        let changes = self.changes.clone();
        move |state: EvmState| {
            changes
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .extend(account_changes(state.clone()));
            next.on_state(state);
        }
    }

    /// Takes the root after everything committed so far.
    pub(super) fn note(&mut self) -> Result<(), EngineError> {
        let changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        self.roots
            .push(root_after(&self.db, &self.parent, &changes)?);
        Ok(())
    }
}

fn source(db: &StateDb, parent: &ParentState, overlay: Arc<Overlay>) -> OverlaySource {
    OverlaySource::new(db.clone(), overlay, parent.ancestors())
}

/// What one execution step changed, as the state root takes it.
pub(super) fn account_changes(state: EvmState) -> Vec<AccountChange> {
    state
        .into_iter()
        .filter(|(_, account)| account.is_touched())
        .filter_map(|(address, account)| {
            let slots = changed_slots(&account);
            let destroyed = account.is_selfdestructed();
            let created = account.is_created();
            let unchanged = !destroyed && !created && slots.is_empty() && !account.is_changed();
            // An empty account that is touched is removed (EIP-161), whether it existed or not.
            // Before that fork the ones that stay come marked as created.
            let gone = destroyed || (account.is_empty() && !created);
            let was_absent = account.is_loaded_as_not_existing();
            if (unchanged && !gone) || (gone && was_absent) {
                return None;
            }
            Some(AccountChange {
                address,
                account: (!gone).then(|| super::persistence::stored_account(&account.info)),
                storage_wiped: destroyed,
                slots: if destroyed { Vec::new() } else { slots },
            })
        })
        .collect()
}

fn changed_slots(account: &EvmAccount) -> Vec<(B256, alloy_primitives::U256)> {
    account
        .changed_storage_slots()
        .map(|(slot, value)| (B256::from(*slot), value.present_value))
        .collect()
}
