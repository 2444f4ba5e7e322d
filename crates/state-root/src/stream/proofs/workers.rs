//! The proof workers: each opens one view per block and walks tries for the jobs it takes.

use super::{Answer, Idle, UNREAD_ROOT};
use crate::{
    chunk::{Batch, StorageTargets},
    cursor::{StateSource, StateView},
    error::{RootError, catch_panic},
    stream::{
        Block, Driver, Input,
        kind::{Kind, Slots, with_root},
        node::{AccountContent, BoxedAccount, Slot},
        read::{Contents, Manner, Read, Reader, storage_root},
        rlp::Scratch,
        walk::Work,
    },
    updates::Account,
};
use alloy_primitives::{B256, U256, map::B256Map};
use alloy_trie::EMPTY_ROOT_HASH;
use crossbeam_channel::{Receiver, Sender, unbounded};
use std::sync::{
    Arc, Mutex, PoisonError, Weak,
    atomic::{AtomicUsize, Ordering},
};
use tracing::{Span, debug_span};

/// What the workers' spans belong to, as in reth.
const TARGET: &str = "trie::proof_task";

/// What the workers of one block share.
#[derive(Debug)]
pub(super) struct Shared<S> {
    /// Who drives the block, as long as anybody wants it.
    block: Weak<Block<S>>,
    work: Arc<Work<S>>,
    idle: Arc<Idle>,
    /// Storage roots of accounts in the parent state that have been computed.
    roots: Mutex<B256Map<B256>>,
    span: Span,
}

impl<S: StateSource> Shared<S> {
    pub(super) fn of(block: &Arc<Block<S>>, idle: Arc<Idle>) -> Self {
        Self {
            block: Arc::downgrade(block),
            work: Arc::clone(&block.work),
            idle,
            roots: Mutex::default(),
            span: block.span.clone(),
        }
    }

    fn put(&self, input: Input) {
        if let Some(block) = self.block.upgrade() {
            block.put(input);
        }
    }

    /// Opens a view and walks it for one job after another, until the block ends. A failure, even a
    /// panic, ends the worker's part in the block but not the thread; it is told before the job, and
    /// with it whoever waits for its answer, is let go.
    fn serve<J>(
        &self,
        idle: &AtomicUsize,
        jobs: &Receiver<J>,
        walk: impl Fn(&S::View, &J) -> Result<(), RootError>,
    ) {
        let view = match catch_panic(|| Ok(self.work.source.open()?)) {
            Ok(view) => view,
            Err(error) => return self.put(Input::Failed(error)),
        };
        idle.fetch_add(1, Ordering::Relaxed);
        for job in jobs {
            idle.fetch_sub(1, Ordering::Relaxed);
            if let Err(error) = catch_panic(|| walk(&view, &job)) {
                return self.put(Input::Failed(error));
            }
            idle.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Every update of the map is a single insertion, so a panic elsewhere cannot break it.
    fn known_root(&self, address: &B256) -> Option<B256> {
        let roots = self.roots.lock().unwrap_or_else(PoisonError::into_inner);
        roots.get(address).copied()
    }

    fn know_root(&self, address: B256, root: B256) {
        let mut roots = self.roots.lock().unwrap_or_else(PoisonError::into_inner);
        roots.insert(address, root);
    }

    /// The storage root of an account, computed here if nobody has done so.
    fn root(&self, view: &S::View, address: &B256) -> Result<B256, RootError> {
        if let Some(root) = self.known_root(address) {
            return Ok(root);
        }
        let root = storage_root(view, *address, &self.work.cancelled)?;
        if root != EMPTY_ROOT_HASH {
            self.know_root(*address, root);
        }
        Ok(root)
    }

    fn manner(&self) -> Manner {
        Manner {
            is_shallow: false,
            needs_root: true,
            epoch: self.work.epoch(),
        }
    }
}

/// An account worker's share in a block.
#[derive(Debug)]
pub(super) struct AccountWork<S> {
    pub(super) worker_id: usize,
    pub(super) shared: Arc<Shared<S>>,
    /// Whether the storage roots of accounts without slots are computed by storage workers.
    pub(super) has_root_jobs: bool,
    pub(super) jobs: Receiver<Batch>,
    pub(super) storage_jobs: Sender<StorageJob>,
}

/// What a storage worker is asked for.
#[derive(Debug)]
pub(super) struct StorageJob {
    /// Without slots it is the root that is asked for.
    targets: StorageTargets,
    answer: Sender<StorageAnswer>,
}

/// A storage worker's share in a block.
#[derive(Debug)]
pub(super) struct StorageWork<S> {
    pub(super) worker_id: usize,
    pub(super) shared: Arc<Shared<S>>,
    pub(super) jobs: Receiver<StorageJob>,
}

/// What was read of one storage trie.
#[derive(Debug)]
pub(super) struct StorageAnswer {
    pub(super) address: B256,
    reads: Vec<Read<U256>>,
    pub(super) nodes: usize,
    /// The root, where it was asked for.
    root: Option<B256>,
}

impl StorageAnswer {
    /// Puts it into a storage trie. Answers how many of its nodes were known already.
    pub(super) fn reveal(self, storage: &mut Slot<U256>, epoch: u64) -> Result<u64, RootError> {
        let reads = self.reads.into_iter();
        reads.map(|read| storage.reveal(read, epoch)).sum()
    }

    /// Hangs it on its account.
    pub(super) fn attach(self, account: &mut BoxedAccount, epoch: u64) -> Result<u64, RootError> {
        let own = &mut account.account;
        if let Some(root) = self.root {
            if own.storage_root != UNREAD_ROOT {
                U256::check_root(own.storage_root, root)?;
            }
            own.storage_root = root;
        }
        if self.reads.is_empty() {
            return Ok(0);
        }
        let unread = || Box::new(Slot::of_root(own.storage_root));
        self.reveal(account.storage.get_or_insert_with(unread), epoch)
    }
}

impl<S: StateSource> AccountWork<S> {
    pub(super) fn run(self) {
        let (shared, worker_id) = (&self.shared, self.worker_id);
        let _span = debug_span!(target: TARGET, parent: &shared.span, "account worker", worker_id)
            .entered();
        shared.serve(&shared.idle.account, &self.jobs, |view, job| {
            self.walk(view, job)
        });
    }

    /// Hands the job's slots to the storage workers, walks the account trie, and waits for them.
    fn walk(&self, view: &S::View, job: &Batch) -> Result<(), RootError> {
        let _span = debug_span!(
            target: TARGET,
            "Account V2 multiproof calculation",
            account_targets = job.accounts.len(),
            storage_targets = job.slot_count()
        )
        .entered();
        let (answer, answers) = unbounded();
        let mut asked = job.storages.clone();
        if self.has_root_jobs {
            let own = |address: &B256| {
                job.storages
                    .binary_search_by_key(address, |own| own.address)
            };
            let slotless = job.accounts.iter().map(|target| target.key);
            let slotless = slotless.filter(|address| own(address).is_err());
            asked.extend(slotless.map(|address| StorageTargets {
                address,
                slots: Vec::new(),
            }));
            asked.sort_unstable_by_key(|storage| storage.address);
        }
        for targets in &asked {
            let job = StorageJob {
                targets: targets.clone(),
                answer: answer.clone(),
            };
            self.storage_jobs
                .send(job)
                .map_err(|_| RootError::Stopped)?;
        }
        drop(answer);
        let values = AccountValues {
            view,
            shared: &self.shared,
            asked: &asked,
        };
        let manner = (self.shared.manner(), &self.shared.work.cancelled);
        let reader = Reader::new(view.account_trie()?, view.accounts()?, values, manner);
        let (accounts, account_nodes) = reader.run(&job.accounts)?;
        let storages: Vec<_> = answers.into_iter().collect();
        if storages.len() < asked.len() {
            // A storage worker has failed, and has said why.
            return Err(RootError::Stopped);
        }
        self.shared.put(Input::Proven(Answer {
            accounts,
            account_nodes,
            storages,
        }));
        Ok(())
    }
}

impl<S: StateSource> StorageWork<S> {
    pub(super) fn run(self) {
        let (shared, worker_id) = (&self.shared, self.worker_id);
        let _span = debug_span!(target: TARGET, parent: &shared.span, "storage worker", worker_id)
            .entered();
        shared.serve(&shared.idle.storage, &self.jobs, |view, job| {
            self.walk(view, job)
        });
    }

    fn walk(
        &self,
        view: &S::View,
        StorageJob { targets, answer }: &StorageJob,
    ) -> Result<(), RootError> {
        let StorageTargets { address, slots } = targets;
        let _span = debug_span!(
            target: TARGET,
            "V2 Storage proof calculation",
            targets = slots.len()
        )
        .entered();
        let answered = if slots.is_empty() {
            StorageAnswer {
                address: *address,
                reads: Vec::new(),
                nodes: 0,
                root: Some(self.shared.root(view, address)?),
            }
        } else {
            let (trie, leaves) = (view.storage_trie(*address)?, view.slots(*address)?);
            let manner = (self.shared.manner(), &self.shared.work.cancelled);
            let (reads, nodes) = Reader::new(trie, leaves, Slots, manner).run(slots)?;
            let root = reads.iter().find(|read| read.start == 0);
            let root = root.map(|read| read.slot.root_hash());
            if let Some(root) = root {
                self.shared.know_root(*address, root);
            }
            StorageAnswer {
                address: *address,
                reads,
                nodes,
                root,
            }
        };
        // Who asked may have failed meanwhile.
        let _ = answer.send(answered);
        Ok(())
    }
}

/// Supplies accounts with their storage roots.
struct AccountValues<'a, S: StateSource> {
    view: &'a S::View,
    shared: &'a Shared<S>,
    /// What storage workers were asked for, sorted by address.
    asked: &'a [StorageTargets],
}

impl<S: StateSource> AccountValues<'_, S> {
    /// Whether the storage root of an account comes from a storage worker of this job.
    fn is_root_asked(&self, address: &B256) -> bool {
        let asked = self.asked.binary_search_by_key(address, |own| own.address);
        asked.is_ok_and(|index| {
            let slots = &self.asked[index].slots;
            slots.is_empty() || slots.iter().any(|slot| slot.start == 0)
        })
    }
}

impl<S: StateSource> Contents for AccountValues<'_, S> {
    type Stored = Account;
    type Content = BoxedAccount;

    /// A target whose reference nobody needs is not waited for: its root is put in with the answers.
    fn content(
        &mut self,
        address: &B256,
        account: &Account,
        is_target: bool,
    ) -> Result<BoxedAccount, RootError> {
        let root = if is_target && self.is_root_asked(address) {
            UNREAD_ROOT
        } else {
            self.shared.root(self.view, address)?
        };
        Ok(Box::new(AccountContent {
            account: with_root(account, root),
            storage: None,
        }))
    }

    fn write(
        &mut self,
        leaf: (&B256, usize),
        account: &Account,
        scratch: &mut Scratch,
        out: &mut Vec<u8>,
    ) -> Result<(), RootError> {
        let root = self.shared.root(self.view, leaf.0)?;
        scratch.write_leaf(leaf, &with_root(account, root), out);
        Ok(())
    }
}
