//! The root beside execution: one trie in memory, kept across blocks, and two ways of finding out
//! what it lacks.
//!
//! ```text
//!  executing thread           one of the pool's threads                     others
//!  ----------------           -------------------------                     ------
//!  prepare(parent) ─────────▶ (nothing runs yet, nothing is waited for)
//!  update(changes) ─queue───▶ take the kept trie of the parent, or a stub
//!                             hash keys, look for unknown paths
//!    proofs:                  cut them into chunks ─────────────────────────▶ workers read each,
//!                             put in what they read ◀──────────queue──────── beside each other
//!    ranges:                  reveal them ═══ range ═══════════════════════▶ take the other half
//!                               ║               nobody else looks below it    of a range, open a
//!                               ╚═ range ═ cut again above the grain ══════▶  view, read, go on
//!  update(changes) ─queue───▶ … until the queue is empty; then the thread is free
//!  end() ───────────queue───▶ once nothing is awaited: change leaves and hash, by ranges
//!  (other work of the block)
//!  wait() ◀─────outcome────── keep the trie; answer; then trim what is kept
//!  drop ────────────cancel──▶ put the trie back, if nothing was changed in it
//! ```
//!
//! There is no thread for a block: whoever puts something into an idle queue asks the pool to
//! drive it, and the driver stops when the queue is empty. No thread waits for another's range
//! either: one that needs the second half of a range works on other ranges until it is done. The
//! one wait is that of a block's first message for the trimming of what its parent left.
//!
//! With proofs ([`proofs`]), new keys gather to a batch, which is cut by reth's rules. A range is a subtree and the sorted changes below it ([`walk`]). Its owner reads what it lacks in
//! one walk through one view, which is open only meanwhile, straight into nodes ([`read`]); what lies
//! above is in memory since before the range was cut, so it is never read twice. Ranges are cut where
//! they stand for more leaves than the grain (beside execution than two grains), and while there are
//! not enough of them for the threads; storage tries are cut like the account trie, in which they
//! hang. What has changed in a range is hashed level by level ([`mod@encode`]), so that many nodes
//! share the lanes of one permutation.
//!
//! A trie is a tree that is changed in place ([`node`]) and passed on from block to block
//! ([`kept`]). A node depends on nothing but the leaves below it, so what is kept under a root is
//! right wherever that root is the parent's.

mod branch;
mod change;
mod child_ref;
mod encode;
mod found;
mod kept;
#[cfg(test)]
mod kept_tests;
mod kind;
mod node;
mod proofs;
mod read;
mod region;
mod reveal;
mod rlp;
#[cfg(test)]
mod tests;
mod unknown;
mod walk;

use crate::{
    cursor::StateSource,
    error::{RootError, catch_panic},
    hash::{ChangedLeaves, KeyHasher},
    root::{Message, RootCounters, RootOutcome},
    strategy::{ProofConfig, RangeConfig},
    updates::{HashedChange, TrieUpdates},
};
use alloy_primitives::{B256, map::B256Map};
use change::{AccountChange, Keyed, changes_of};
use crossbeam_channel::{Receiver, Sender, bounded};
use found::{Found, Lane};
use kept::{Bound, Kept};
use node::{BoxedAccount, Slot};
use proofs::{Answer, ProofPool, Proofs};
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
use unknown::{Known, NewKeys, Unknown};
use walk::{Pass, Work};

/// How many grains a range stands for, at least, that is cut beside execution: another thread that
/// takes a part of it takes a processor from execution.
const GRAINS_BESIDE_EXECUTION: usize = 2;

/// Changed leaves below which a range is not cut when proofs are in: as many as reth 2.x hashes on one
/// thread, whatever the chunk size.
const HASHED_TOGETHER: usize = 64;

/// Threads, the nodes they keep, and how they find out what they do not know.
#[derive(Debug)]
pub(crate) struct StreamPool<S: StateSource> {
    finding: Finding<S>,
    bound: Bound,
    threads: Threads,
    shared: Arc<Shared>,
}

#[derive(Debug)]
enum Finding<S: StateSource> {
    Proofs(ProofPool<S>),
    Ranges(RangeConfig),
}

/// What blocks have in common.
#[derive(Debug, Default)]
struct Shared {
    kept: Mutex<Kept>,
    /// Drivers at work.
    drivers: Mutex<usize>,
    driver_left: Condvar,
}

impl<S: StateSource> StreamPool<S> {
    pub(crate) fn ranges(config: RangeConfig) -> io::Result<Self> {
        // One more takes the place of the executing thread, which waits at the end.
        let count = config.threads.saturating_add(1);
        Ok(Self {
            finding: Finding::Ranges(config),
            bound: Bound {
                bytes: config.kept_bytes,
                blocks: None,
            },
            threads: Threads::start("root-range", count)?,
            shared: Arc::default(),
        })
    }

    pub(crate) fn proofs(config: ProofConfig) -> io::Result<Self> {
        Ok(Self {
            finding: Finding::Proofs(ProofPool::new(config)?),
            bound: Bound {
                bytes: config.kept_bytes,
                blocks: config.kept_blocks,
            },
            threads: Threads::start("sparse-trie", config.account_workers)?,
            shared: Arc::default(),
        })
    }

    /// Proof workers take part in one block after the other, in the order in which they were
    /// prepared.
    pub(crate) fn prepare(&self, source: Arc<S>, parent_root: B256) -> StreamJob {
        let (outcome, awaited_outcome) = bounded(1);
        let grains = match &self.finding {
            Finding::Proofs(_) => Grains {
                beside_execution: usize::MAX,
                at_the_end: HASHED_TOGETHER,
            },
            Finding::Ranges(config) => Grains::of(config),
        };
        let block = Arc::new(Block {
            shared: Arc::clone(&self.shared),
            bound: self.bound,
            grains,
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
        });
        if let Finding::Proofs(pool) = &self.finding {
            lock(&block.running).proofs = Some(pool.begin(&block));
        }
        StreamJob {
            driver: block,
            outcome: awaited_outcome,
        }
    }
}

/// Leaves below which a range is not cut.
#[derive(Debug, Clone, Copy)]
struct Grains {
    beside_execution: usize,
    at_the_end: usize,
}

impl Grains {
    /// A single thread cuts nothing beside execution, since there is no processor for another one, and
    /// several cut less finely than at the end.
    fn of(config: &RangeConfig) -> Self {
        let grain = config.grain.get();
        let is_alone = config.threads == NonZeroUsize::MIN;
        let beside_execution = if is_alone {
            usize::MAX
        } else {
            grain.saturating_mul(GRAINS_BESIDE_EXECUTION)
        };
        Self {
            beside_execution,
            at_the_end: grain,
        }
    }
}

impl<S: StateSource> Drop for StreamPool<S> {
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
pub(crate) struct StreamJob {
    driver: Arc<dyn Driver>,
    outcome: Receiver<Result<RootOutcome, RootError>>,
}

impl fmt::Debug for StreamJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamJob").finish_non_exhaustive()
    }
}

impl StreamJob {
    pub(crate) fn send(&self, message: Message) {
        Arc::clone(&self.driver).put(Input::Sent(message));
    }

    pub(crate) fn end(&self) {
        self.send(Message::Finish);
    }

    pub(crate) fn wait(self) -> Result<RootOutcome, RootError> {
        self.outcome.recv().map_err(|_| RootError::Stopped)?
    }
}

impl Drop for StreamJob {
    fn drop(&mut self) {
        self.driver.cancel();
    }
}

/// A block's work, whatever its state is read from.
trait Driver: Send + Sync {
    /// Puts something into the queue, and has a thread of the pool drive it if none does.
    fn put(self: Arc<Self>, input: Input);
    fn cancel(&self);
}

/// What a block's driver works on.
#[derive(Debug)]
enum Input {
    /// By whoever executes.
    Sent(Message),
    /// By a proof worker.
    Proven(Answer),
    /// A proof worker cannot go on.
    Failed(RootError),
}

/// One block.
#[derive(Debug)]
struct Block<S> {
    shared: Arc<Shared>,
    bound: Bound,
    grains: Grains,
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
    inputs: Vec<Input>,
    has_driver: bool,
}

/// How far the block is.
#[derive(Debug, Default)]
struct Running {
    stage: Stage,
    /// Whether all changes have come.
    is_ended: bool,
    trie: Slot<BoxedAccount>,
    hasher: KeyHasher,
    leaves: ChangedLeaves,
    /// Keys that are not looked for yet.
    new_keys: NewKeys,
    /// What is asked of proof workers, if they find out what is unknown. Dropping it sends them away.
    proofs: Option<Proofs>,
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

impl Running {
    fn push(&mut self, changes: Vec<HashedChange>) {
        for change in changes {
            self.leaves.push(change, |key| self.new_keys.push(key));
        }
    }

    /// Those of the new keys whose paths are unknown.
    fn unknown(&mut self) -> Unknown {
        let keys = std::mem::take(&mut self.new_keys);
        let nothing = B256Map::default();
        let known = Known {
            trie: &self.trie,
            ahead: self
                .proofs
                .as_ref()
                .map_or(&nothing, |proofs| &proofs.ahead),
        };
        keys.unknown(known, &self.leaves, &mut self.counters)
    }

    /// Whether nothing is left but to change leaves and to hash.
    fn is_complete(&self) -> bool {
        self.is_ended && self.proofs.as_ref().is_none_or(Proofs::are_in)
    }
}

impl<S: StateSource> Driver for Block<S> {
    fn put(self: Arc<Self>, input: Input) {
        let mut queue = lock(&self.queue);
        queue.inputs.push(input);
        if !std::mem::replace(&mut queue.has_driver, true) {
            drop(queue);
            *lock(&self.shared.drivers) += 1;
            let block = Arc::clone(&self);
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
            let inputs = {
                let mut queue = lock(&self.queue);
                let inputs = std::mem::take(&mut queue.inputs);
                queue.has_driver = !inputs.is_empty();
                inputs
            };
            if inputs.is_empty() {
                break;
            }
            self.work_on(inputs);
        }
        // Nothing is read through the block's source when the pool has seen its driver leave.
        drop(self);
        *lock(&shared.drivers) -= 1;
        shared.driver_left.notify_all();
    }

    /// Takes in what has come; a failure, even a panic, ends the block but not the thread.
    fn work_on(&self, inputs: Vec<Input>) {
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
        match catch_panic(|| self.receive(&mut running, inputs)) {
            Ok(None) => {}
            Ok(Some(outcome)) => {
                let trie = std::mem::take(&mut running.trie);
                running.stage = Stage::Changes;
                let mut kept = lock(&self.shared.kept);
                kept.keep(outcome.root.unwrap_or(self.parent_root), trie);
                // Nobody waits when the job was dropped.
                let _ = self.outcome.send(Ok(outcome));
                kept.trim(self.bound);
            }
            Err(error) => {
                if !matches!(error, RootError::Cancelled) {
                    running.stage = Stage::Changes;
                }
                running.proofs = None;
                self.work.cancelled.store(true, Ordering::Relaxed);
                let _ = self.outcome.send(Err(error));
            }
        }
    }

    fn receive(
        &self,
        running: &mut Running,
        inputs: Vec<Input>,
    ) -> Result<Option<RootOutcome>, RootError> {
        for input in inputs {
            match input {
                Input::Sent(Message::Changes(changes)) => {
                    let changes = running.hasher.hash_all(&changes);
                    running.push(changes);
                }
                Input::Sent(Message::Hashed(changes)) => running.push(changes),
                Input::Sent(Message::Finish) => running.is_ended = true,
                Input::Proven(answer) => self.reveal(running, answer)?,
                Input::Failed(error) => return Err(error),
            }
        }
        if running.proofs.is_some() {
            self.ask(running);
            if running.is_complete() {
                return self.finish(running, &[]).map(Some);
            }
            return Ok(None);
        }
        let changes = running.unknown().into_changes();
        if running.is_complete() {
            return self.finish(running, &changes).map(Some);
        }
        if !changes.is_empty() {
            running.counters.batches += 1;
            self.range_pass(running, changes, false)?;
        }
        Ok(None)
    }

    /// Asks proof workers for what is unknown, if enough keys have gathered.
    fn ask(&self, running: &mut Running) {
        let gathered = running.new_keys.len();
        let is_batch = |proofs: &Proofs| running.is_ended || gathered >= proofs.batch_keys;
        if !running.proofs.as_ref().is_some_and(is_batch) {
            return;
        }
        let unknown = running.unknown();
        if let Some(proofs) = &mut running.proofs
            && !unknown.is_empty()
        {
            let known = Known {
                trie: &running.trie,
                ahead: &proofs.ahead,
            };
            let batch = unknown.into_batch(known);
            proofs.dispatch(batch, &mut running.counters);
        }
    }

    /// Puts in what a proof worker has read.
    fn reveal(&self, running: &mut Running, answer: Answer) -> Result<(), RootError> {
        let epoch = self.work.epoch();
        let Some(proofs) = &mut running.proofs else {
            return Ok(());
        };
        running.counters.nodes_revealed += answer.nodes();
        running.counters.nodes_reread += proofs.reveal(answer, &mut running.trie, epoch)?;
        Ok(())
    }

    /// One pass over the trie that counts as a batch of ranges.
    fn range_pass(
        &self,
        running: &mut Running,
        changes: Vec<Keyed<AccountChange>>,
        hashes: bool,
    ) -> Result<Found, RootError> {
        let found = self.pass(running, changes, hashes)?;
        let counters = &mut running.counters;
        counters.jobs += found.ranges;
        counters.unsplit_batches += u64::from(found.ranges == 1);
        Ok(found)
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
                self.grains.at_the_end
            } else {
                self.grains.beside_execution
            },
        };
        let mut lane = Lane::default();
        pass.apply(&mut running.trie, &mut lane)?;
        let mut found = lane.found;
        found.ranges += 1;
        span.record("chunks", found.ranges);
        let counters = &mut running.counters;
        counters.nodes_revealed += found.nodes_revealed;
        counters.nodes_hashed += found.nodes_hashed;
        counters.longest_chain += found.longest_chain;
        Ok(found)
    }

    /// Changes the leaves and hashes. `unknown` are those whose paths are not known yet.
    fn finish(
        &self,
        running: &mut Running,
        unknown: &[Keyed<AccountChange>],
    ) -> Result<RootOutcome, RootError> {
        let hashed_state = std::mem::take(&mut running.leaves).into_sorted();
        let changes = changes_of(&hashed_state, unknown);
        // The workers drop their views while the root is hashed.
        let proofs = running.proofs.take();
        if changes.is_empty() {
            return Ok(RootOutcome {
                root: Some(self.parent_root),
                hashed_state,
                trie_updates: TrieUpdates::default(),
                counters: running.counters,
            });
        }
        running.stage = Stage::Changes;
        let mut found = match proofs {
            Some(proofs) => {
                running.counters.longest_chain += proofs.largest;
                drop(proofs);
                self.pass(running, changes, true)?
            }
            None => {
                running.counters.batches += 1;
                self.range_pass(running, changes, true)?
            }
        };
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
            kept.trim(self.bound);
        }
    }
}

/// Whoever panicked with a lock held has cancelled its block; what other blocks share is whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
