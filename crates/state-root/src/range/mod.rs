//! The `range-steal` strategy: nodes kept across blocks, work cut into ranges of keys.
//!
//! ```text
//!  executing thread           one of the pool's threads                     its other threads
//!  ----------------           -------------------------                     -----------------
//!  prepare(parent) ─────────▶ (nothing runs yet, nothing is waited for)
//!  update(changes) ─queue───▶ take the kept trie of the parent, or a stub
//!                             hash keys, look for unknown paths
//!                             reveal them ═══ range ══════════════════════▶ take the other half
//!                               ║               nobody else looks below it    of a range, open a
//!                               ╚═ range ═ cut again above the grain ═════▶   view, read, go on
//!  update(changes) ─queue───▶ … until the queue is empty; then the thread is free
//!  end() ───────────queue───▶ change leaves and hash, by ranges in the same way
//!  (other work of the block)
//!  wait() ◀─────outcome────── keep the trie; answer; then trim what is kept
//!  drop ────────────cancel──▶ put the trie back, if nothing was changed in it
//! ```
//!
//! There is no thread for a block: whoever puts a message into an idle queue asks the pool to
//! drive it, and the driver stops when the queue is empty. No thread waits for another's range
//! either: one that needs the second half of a range works on other ranges until it is done. The
//! one wait is that of a block's first message for the trimming of what its parent left.
//!
//! A range is a subtree and the sorted changes below it ([`walk`]). Its owner reads what it lacks in
//! one walk through one view, which is open only meanwhile, straight into nodes ([`read`]); what lies
//! above is in memory since before the range was cut, so it is never read twice. Ranges are cut where
//! they stand for more leaves than the grain, for which the chunk size is taken (beside execution than
//! two grains), and while there are not enough of them for the threads; storage tries are cut like the
//! account trie, in which they hang. What has changed in a range is hashed level by level
//! ([`mod@encode`]), so that many nodes share the lanes of one permutation.
//!
//! A trie is a tree that is changed in place ([`node`]) and passed on from block to block
//! ([`kept`]). A node depends on nothing but the leaves below it, so what is kept under a root is
//! right wherever that root is the parent's.

mod branch;
mod change;
mod encode;
mod found;
mod kept;
mod kind;
mod node;
mod read;
mod region;
#[cfg(test)]
mod tests;
mod walk;

use crate::{
    cursor::StateSource,
    error::RootError,
    hash::{ChangedLeaves, KeyHasher, NewKey},
    pool::catch_panic,
    root::{Message, RootCounters, RootOutcome},
    updates::{HashedChange, HashedState, TrieUpdates},
};
use alloy_primitives::{B256, map::B256Map};
use alloy_trie::EMPTY_ROOT_HASH;
use change::{AccountChange, Keyed, SlotChange, changes_of};
use crossbeam_channel::{Receiver, Sender, bounded};
use found::{Found, Lane};
use kept::Kept;
use node::{BoxedAccount, Slot};
use std::{
    fmt, io,
    num::NonZeroUsize,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
};
use threads::Threads;
use tracing::{Span, debug_span, field};
use walk::{Pass, Work};

/// How many grains a range stands for, at least, that is cut beside execution: another thread that
/// takes a part of it takes a processor from execution.
const GRAINS_BESIDE_EXECUTION: usize = 2;

/// How many threads work, and on how much.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RangeConfig {
    pub(crate) grain: NonZeroUsize,
    /// Threads at work beside execution; at the end one more.
    pub(crate) threads: NonZeroUsize,
    /// Memory of the nodes kept across blocks, in bytes.
    pub(crate) kept_bytes: usize,
}

/// Threads, and the nodes they keep.
#[derive(Debug)]
pub(crate) struct RangePool {
    config: RangeConfig,
    threads: Threads,
    shared: Arc<Shared>,
}

/// What blocks have in common.
#[derive(Debug, Default)]
struct Shared {
    kept: Mutex<Kept>,
    /// Drivers at work.
    drivers: Mutex<usize>,
    driver_left: Condvar,
}

impl RangePool {
    pub(crate) fn new(config: RangeConfig) -> io::Result<Self> {
        // One more takes the place of the executing thread, which waits at the end.
        let count = config.threads.saturating_add(1);
        Ok(Self {
            config,
            threads: Threads::start("root-range", count)?,
            shared: Arc::default(),
        })
    }

    /// Leaves below which a range is not cut beside execution. A single thread cuts nothing, since
    /// there is no processor for another one, and several cut less finely than at the end.
    fn grain_beside_execution(&self) -> usize {
        let grains = match self.config.threads.get() {
            1 => usize::MAX,
            _ => GRAINS_BESIDE_EXECUTION,
        };
        self.config.grain.get().saturating_mul(grains)
    }

    pub(crate) fn prepare<S: StateSource>(&self, source: Arc<S>, parent_root: B256) -> RangeJob {
        let (outcome, awaited_outcome) = bounded(1);
        let block = Block {
            shared: Arc::clone(&self.shared),
            config: self.config,
            grain_beside_execution: self.grain_beside_execution(),
            parent_root,
            span: Span::current(),
            work: Arc::new(Work {
                threads: Arc::clone(self.threads.board()),
                source,
                cancelled: AtomicBool::new(false),
                epoch: AtomicU64::new(0),
                ranges: AtomicUsize::new(1),
            }),
            queue: Mutex::default(),
            running: Mutex::default(),
            outcome,
        };
        RangeJob {
            driver: Arc::new(Arc::new(block)),
            outcome: awaited_outcome,
        }
    }
}

impl Drop for RangePool {
    /// Waits for the drivers: what they read through must be closed when the pool is gone.
    fn drop(&mut self) {
        let mut drivers = lock(&self.shared.drivers);
        while *drivers > 0 {
            let woken = self.shared.driver_left.wait(drivers);
            drivers = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// The state root of one block in the making. Dropping it cancels the work.
pub(crate) struct RangeJob {
    driver: Arc<dyn Driver>,
    outcome: Receiver<Result<RootOutcome, RootError>>,
}

impl fmt::Debug for RangeJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RangeJob").finish_non_exhaustive()
    }
}

impl RangeJob {
    pub(crate) fn send(&self, message: Message) {
        self.driver.send(message);
    }

    pub(crate) fn end(&self) {
        self.send(Message::Finish);
    }

    pub(crate) fn wait(self) -> Result<RootOutcome, RootError> {
        self.outcome.recv().map_err(|_| RootError::Stopped)?
    }
}

impl Drop for RangeJob {
    fn drop(&mut self) {
        self.driver.cancel();
    }
}

/// A block's work, whatever its state is read from.
trait Driver: Send + Sync {
    fn send(&self, message: Message);
    fn cancel(&self);
}

/// One block.
struct Block<S> {
    shared: Arc<Shared>,
    config: RangeConfig,
    grain_beside_execution: usize,
    parent_root: B256,
    /// What the spans of the work belong to.
    span: Span,
    work: Arc<Work<S>>,
    queue: Mutex<Queue>,
    /// Touched by the driver alone.
    running: Mutex<Running>,
    outcome: Sender<Result<RootOutcome, RootError>>,
}

#[derive(Debug, Default)]
struct Queue {
    messages: Vec<Message>,
    has_driver: bool,
}

/// How far the block is.
#[derive(Debug, Default)]
struct Running {
    stage: Stage,
    trie: Slot<BoxedAccount>,
    hasher: KeyHasher,
    leaves: ChangedLeaves,
    counters: RootCounters,
}

/// Whose trie a block holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Stage {
    /// None yet.
    #[default]
    Begins,
    /// Its parent's, of which it may know more than the parent did.
    Reads,
    /// None that could be kept.
    Changes,
}

impl<S: StateSource> Driver for Arc<Block<S>> {
    fn send(&self, message: Message) {
        let mut queue = lock(&self.queue);
        queue.messages.push(message);
        if !std::mem::replace(&mut queue.has_driver, true) {
            drop(queue);
            *lock(&self.shared.drivers) += 1;
            let block = Self::clone(self);
            self.work.threads.spawn(move || block.drive());
        }
    }

    fn cancel(&self) {
        self.work.cancelled.store(true, Ordering::Relaxed);
    }
}

impl<S: StateSource> Block<S> {
    /// Works on the queue until it is empty.
    fn drive(self: Arc<Self>) {
        let shared = Arc::clone(&self.shared);
        loop {
            let messages = {
                let mut queue = lock(&self.queue);
                let messages = std::mem::take(&mut queue.messages);
                queue.has_driver = !messages.is_empty();
                messages
            };
            if messages.is_empty() {
                break;
            }
            self.work_on(messages);
        }
        // Nothing is read through the block's source when the pool has seen its driver leave.
        drop(self);
        *lock(&shared.drivers) -= 1;
        shared.driver_left.notify_all();
    }

    /// Takes in messages; a failure, even a panic, ends the block but not the thread.
    fn work_on(&self, messages: Vec<Message>) {
        if self.work.cancelled.load(Ordering::Relaxed) {
            return;
        }
        let mut running = lock(&self.running);
        if running.stage == Stage::Begins {
            let (trie, epoch) = lock(&self.shared.kept).take(self.parent_root);
            self.work.epoch.store(epoch, Ordering::Relaxed);
            running.trie = trie;
            running.stage = Stage::Reads;
        }
        match catch_panic(|| self.receive(&mut running, messages)) {
            Ok(None) => {}
            Ok(Some(outcome)) => {
                let trie = std::mem::take(&mut running.trie);
                running.stage = Stage::Changes;
                let mut kept = lock(&self.shared.kept);
                kept.keep(outcome.root.unwrap_or(self.parent_root), trie);
                // Nobody waits when the job was dropped.
                let _ = self.outcome.send(Ok(outcome));
                kept.trim(self.config.kept_bytes);
            }
            Err(error) => {
                if !matches!(error, RootError::Cancelled) {
                    running.stage = Stage::Changes;
                }
                self.work.cancelled.store(true, Ordering::Relaxed);
                let _ = self.outcome.send(Err(error));
            }
        }
    }

    fn receive(
        &self,
        running: &mut Running,
        messages: Vec<Message>,
    ) -> Result<Option<RootOutcome>, RootError> {
        let mut new_keys = NewKeys::default();
        let mut finished = false;
        for message in messages {
            let changes: Vec<HashedChange> = match message {
                Message::Changes(changes) => running.hasher.hash_all(&changes),
                Message::Hashed(changes) => changes,
                Message::Finish => {
                    finished = true;
                    break;
                }
            };
            for change in changes {
                running.leaves.push(change, |key| new_keys.push(key));
            }
        }
        if finished {
            let leaves = std::mem::take(&mut running.leaves);
            let unknown = count_blind(running, &leaves, new_keys);
            let outcome = self.finish(running, leaves.into_sorted(), &unknown)?;
            return Ok(Some(outcome));
        }
        let leaves = std::mem::take(&mut running.leaves);
        let unknown = count_blind(running, &leaves, new_keys);
        running.leaves = leaves;
        if !unknown.is_empty() {
            running.counters.batches += 1;
            self.pass(running, unknown, false)?;
        }
        Ok(None)
    }

    /// One pass over the trie, which hashes what has changed or only reads.
    fn pass(
        &self,
        running: &mut Running,
        changes: Vec<Keyed<AccountChange>>,
        hashes: bool,
    ) -> Result<Found, RootError> {
        let span = debug_span!(
            target: "trie::range",
            parent: &self.span,
            "range pass",
            keys = changes.len(),
            hashes,
            chunks = field::Empty
        );
        let _entered = span.enter();
        let pass = Pass::<S, BoxedAccount> {
            work: Arc::clone(&self.work),
            changes: Arc::new(changes),
            trie: (),
            hashes,
            grain: if hashes {
                self.config.grain.get()
            } else {
                self.grain_beside_execution
            },
        };
        let mut lane = Lane::default();
        pass.apply(&mut running.trie, &mut lane)?;
        let mut found = lane.found;
        found.ranges += 1;
        span.record("chunks", found.ranges);
        let counters = &mut running.counters;
        counters.jobs += found.ranges;
        counters.unsplit_batches += u64::from(found.ranges == 1);
        counters.nodes_revealed += found.nodes_revealed;
        counters.nodes_hashed += found.nodes_hashed;
        counters.longest_chain += found.longest_chain;
        Ok(found)
    }

    fn finish(
        &self,
        running: &mut Running,
        hashed_state: HashedState,
        unknown: &[Keyed<AccountChange>],
    ) -> Result<RootOutcome, RootError> {
        let changes = changes_of(&hashed_state, unknown);
        if changes.is_empty() {
            return Ok(RootOutcome {
                root: Some(self.parent_root),
                hashed_state,
                trie_updates: TrieUpdates::default(),
                counters: running.counters,
            });
        }
        running.counters.batches += 1;
        running.stage = Stage::Changes;
        let mut found = self.pass(running, changes, true)?;
        Ok(RootOutcome {
            root: Some(running.trie.root_hash()),
            hashed_state,
            trie_updates: TrieUpdates {
                account_nodes: found.take_updates(),
                storages: found.take_storages(),
            },
            counters: running.counters,
        })
    }
}

impl<S> Drop for Block<S> {
    /// Puts back what was taken and not changed.
    fn drop(&mut self) {
        let running = self.running.get_mut();
        let running = running.unwrap_or_else(PoisonError::into_inner);
        if running.stage == Stage::Reads {
            let mut kept = lock(&self.shared.kept);
            kept.keep(self.parent_root, std::mem::take(&mut running.trie));
            kept.trim(self.config.kept_bytes);
        }
    }
}

/// Keys whose first change has been seen.
#[derive(Debug, Default)]
struct NewKeys {
    accounts: Vec<B256>,
    /// Account and slot.
    slots: Vec<(B256, B256)>,
}

impl NewKeys {
    fn push(&mut self, key: NewKey) {
        match key {
            NewKey::Account(address) => self.accounts.push(address),
            NewKey::Slot(address, slot) => self.slots.push((address, slot)),
        }
    }
}

/// The changes that reveal those of `keys` whose paths are unknown. They are counted as targets.
fn count_blind(
    running: &mut Running,
    leaves: &ChangedLeaves,
    mut keys: NewKeys,
) -> Vec<Keyed<AccountChange>> {
    let mut unknown: B256Map<AccountChange> = B256Map::default();
    let (trie, counters) = (&running.trie, &mut running.counters);
    counters.known_paths += (keys.accounts.len() + keys.slots.len()) as u64;
    trie.blind_among(&keys.accounts, |address| {
        unknown.entry(*address).or_default();
        counters.account_targets += 1;
        counters.known_paths -= 1;
    });
    keys.slots.sort_unstable();
    for of_account in keys.slots.chunk_by(|a, b| a.0 == b.0) {
        let address = of_account[0].0;
        if leaves.is_wiped(&address) {
            continue;
        }
        let slots: Vec<_> = of_account.iter().map(|(_, slot)| *slot).collect();
        let mut blind = Vec::new();
        let mut find = |slot: &B256| blind.push((*slot, SlotChange::Reveal));
        match trie.get(&address) {
            Some(account) => match &account.storage {
                Some(storage) => storage.blind_among(&slots, find),
                None if account.account.storage_root == EMPTY_ROOT_HASH => {}
                None => slots.iter().for_each(&mut find),
            },
            None if trie.is_blind(&address) => slots.iter().for_each(&mut find),
            None => {}
        }
        if !blind.is_empty() {
            counters.storage_targets += blind.len() as u64;
            counters.known_paths -= blind.len() as u64;
            unknown.entry(address).or_default().slots = Arc::new(blind);
        }
    }
    let mut unknown: Vec<_> = unknown.into_iter().collect();
    unknown.sort_unstable_by_key(|(address, _)| *address);
    for (_, change) in &mut unknown {
        change.is_unknown = true;
    }
    unknown
}

/// Whoever panicked with a lock held has cancelled its block; what other blocks share is whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
