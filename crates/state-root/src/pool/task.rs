//! The trie thread's work on one block: changes in, targets out, proofs in, root out.
//!
//! While changes arrive the sparse tries are only revealed. Changes are applied once, at the end,
//! because most of what a block changes early it changes again.

use super::{
    block::Block,
    workers::{Event, catch_panic, trie_account},
};
use crate::{
    chunk::{Batch, StorageTargets, Target},
    cursor::StateSource,
    error::RootError,
    hash::{ChangedLeaves, KeyHasher, NewKey},
    root::{Message, RootConfig, RootCounters, RootOutcome},
    sparse::{AccountTrie, Finished, StorageTrie},
    updates::{HashedChange, HashedState, HashedStorage, StorageTrieUpdates, TrieUpdates},
};
use alloy_primitives::{
    B256, U256,
    map::{B256Map, HashMap, hash_map::Entry},
};
use alloy_trie::{EMPTY_ROOT_HASH, TrieAccount};
use crossbeam_channel::{Receiver, Sender, select};
use rayon::prelude::*;
use std::{collections::BTreeMap, sync::Arc};
use tracing::{debug_span, field};

/// What the trie thread's spans belong to, as in reth.
const TARGET: &str = "engine::tree::payload_processor::sparse_trie";

/// The trie thread's share in a block.
#[derive(Debug)]
pub(super) struct Task<S> {
    pub(super) config: RootConfig,
    pub(super) parent_root: B256,
    pub(super) block: Arc<Block<S>>,
    pub(super) messages: Receiver<Message>,
    pub(super) events: Receiver<Event>,
    pub(super) jobs: Sender<Batch>,
    pub(super) outcome: Sender<Result<RootOutcome, RootError>>,
}

impl<S: StateSource> Task<S> {
    pub(super) fn run(self) {
        let outcome = self.outcome.clone();
        let state = Arc::clone(&self.block.state);
        let chunk_size = self.config.chunk_size.get();
        let parent = &self.block.span;
        let _span =
            debug_span!(target: TARGET, parent: parent, "sparse_trie_task", chunk_size).entered();
        let result = catch_panic(|| Running::new(self).run());
        if result.is_err() {
            state.cancel();
        }
        // Nobody waits when the job was dropped.
        let _ = outcome.send(result);
    }
}

/// A block being worked on.
struct Running<S> {
    task: Task<S>,
    hasher: KeyHasher,
    leaves: ChangedLeaves,
    /// Keys seen for the first time in this pass over the queued messages.
    new_keys: Vec<NewKey>,
    accounts: AccountTrie,
    /// Tries of all accounts with changed slots or wiped storage.
    storages: B256Map<StorageTrie>,
    finished: bool,
    /// Nodes of the largest proof.
    largest_proof: u64,
    /// Proofs that are awaited.
    in_flight: usize,
    counters: RootCounters,
}

impl<S: StateSource> Running<S> {
    fn new(task: Task<S>) -> Self {
        Self {
            task,
            hasher: KeyHasher::default(),
            leaves: ChangedLeaves::default(),
            new_keys: Vec::new(),
            accounts: AccountTrie::blind(),
            storages: HashMap::default(),
            finished: false,
            largest_proof: 0,
            in_flight: 0,
            counters: RootCounters::default(),
        }
    }

    fn run(mut self) -> Result<RootOutcome, RootError> {
        while !self.finished {
            self.wait()?;
            while let Ok(message) = self.task.messages.try_recv() {
                self.receive(message);
            }
            let batch = self.blind_targets();
            self.dispatch(batch)?;
        }
        self.await_proofs()?;
        let leaves = std::mem::take(&mut self.leaves).into_sorted();
        self.finish(leaves)
    }

    /// Waits for a message or a proof, whichever comes first.
    fn wait(&mut self) -> Result<(), RootError> {
        select! {
            recv(self.task.messages) -> message => {
                let message = message.map_err(|_| RootError::Cancelled)?;
                self.receive(message);
                Ok(())
            }
            recv(self.task.events) -> event => self.handle(event.map_err(|_| RootError::Stopped)?),
        }
    }

    /// Waits until every job is answered.
    fn await_proofs(&mut self) -> Result<(), RootError> {
        while self.in_flight > 0 {
            let event = self.task.events.recv().map_err(|_| RootError::Stopped)?;
            self.handle(event)?;
        }
        Ok(())
    }

    fn receive(&mut self, message: Message) {
        match message {
            Message::Changes(changes) => {
                for change in self.hasher.hash_all(&changes) {
                    self.push(change);
                }
            }
            Message::Hashed(changes) => changes.into_iter().for_each(|change| self.push(change)),
            Message::Finish => self.finished = true,
        }
    }

    fn push(&mut self, change: HashedChange) {
        if change.storage_wiped {
            self.storages.insert(change.address, StorageTrie::empty());
        }
        self.leaves.push(change, |key| self.new_keys.push(key));
    }

    fn handle(&mut self, event: Event) -> Result<(), RootError> {
        let nodes = match event {
            Event::Accounts(proof) => {
                let found = proof.root_hash().unwrap_or(self.task.parent_root);
                if found != self.task.parent_root {
                    return Err(RootError::ParentRoot {
                        expected: self.task.parent_root,
                        found,
                    });
                }
                let nodes = proof.arena.node_count();
                self.accounts.reveal(proof);
                nodes
            }
            Event::Slots(address, proof) => {
                let nodes = proof.arena.node_count();
                match self.storages.get_mut(&address) {
                    Some(trie) if !self.leaves.is_wiped(&address) => trie.reveal(proof),
                    _ => {}
                }
                nodes
            }
            Event::Failed(error) => return Err(error),
        };
        self.in_flight -= 1;
        self.counters.nodes_revealed += nodes as u64;
        self.largest_proof = self.largest_proof.max(nodes as u64);
        Ok(())
    }

    /// The new keys of this pass whose paths are unknown.
    fn blind_targets(&mut self) -> Batch {
        let new_keys = self.new_keys.len();
        let mut accounts = Vec::new();
        let mut slots: BTreeMap<B256, Vec<Target>> = BTreeMap::new();
        for new in self.new_keys.drain(..) {
            match new {
                NewKey::Account(key) => accounts.extend(
                    self.accounts
                        .blind_from(&key)
                        .map(|start| Target { key, start }),
                ),
                NewKey::Slot(address, _) if self.leaves.is_wiped(&address) => {}
                NewKey::Slot(address, key) => {
                    let trie = match self.storages.entry(address) {
                        Entry::Occupied(entry) => entry.into_mut(),
                        Entry::Vacant(entry) => entry.insert(StorageTrie::blind()),
                    };
                    if let Some(start) = trie.blind_from(&key) {
                        slots
                            .entry(address)
                            .or_default()
                            .push(Target { key, start });
                    }
                }
            }
        }
        accounts.sort_unstable();
        let sorted = |(address, mut slots): (B256, Vec<Target>)| {
            slots.sort_unstable();
            StorageTargets { address, slots }
        };
        let batch = Batch {
            accounts,
            storages: slots.into_iter().map(sorted).collect(),
        };
        self.counters.known_paths += (new_keys - batch.len()) as u64;
        batch
    }

    /// Cuts a batch into jobs and queues them.
    fn dispatch(&mut self, batch: Batch) -> Result<(), RootError> {
        let len = batch.len();
        if len == 0 {
            return Ok(());
        }
        self.counters.batches += 1;
        self.counters.account_targets += batch.accounts.len() as u64;
        self.counters.storage_targets += batch.slot_count() as u64;
        let RootConfig {
            chunk_size,
            chunk_policy,
            ..
        } = self.task.config;
        let span = debug_span!(
            target: TARGET,
            "dispatch_pending_targets",
            account_targets = batch.accounts.len(),
            storage_targets = batch.slot_count(),
            chunks = field::Empty
        );
        let _entered = span.enter();
        let batch = batch.listed_by(chunk_policy);
        let mut jobs = if chunk_policy.splits(len, chunk_size, self.task.block.state.idle_workers())
        {
            batch.split(chunk_size)
        } else {
            self.counters.unsplit_batches += 1;
            vec![batch]
        };
        self.counters.jobs += jobs.len() as u64;
        span.record("chunks", jobs.len());
        jobs.iter_mut().for_each(Batch::sort);
        for job in jobs {
            // Each storage is answered on its own.
            self.in_flight += 1 + job.storages.len();
            let sent = self.task.jobs.send(job);
            sent.map_err(|_| self.why_stopped())?;
        }
        Ok(())
    }

    /// Why no worker is left to take a job: the first of them to go has said it.
    fn why_stopped(&self) -> RootError {
        let failed = self.task.events.try_iter().find_map(|event| match event {
            Event::Failed(error) => Some(error),
            _ => None,
        });
        failed.unwrap_or(RootError::Stopped)
    }

    /// Dispatches what applying changes has asked for and waits for it.
    fn fetch(&mut self, batch: Batch, last: &mut Batch) -> Result<(), RootError> {
        if batch == *last {
            // What was asked for has come and is missing still.
            return Err(RootError::Inconsistent);
        }
        last.clone_from(&batch);
        self.dispatch(batch)?;
        self.await_proofs()
    }

    /// Applies the changes: storage tries first, since accounts hold their roots.
    fn finish(mut self, leaves: HashedState) -> Result<RootOutcome, RootError> {
        if leaves.accounts.is_empty() && leaves.storages.is_empty() {
            let (root, trie_updates) = (Some(self.task.parent_root), TrieUpdates::default());
            let counters = self.counters;
            return Ok(RootOutcome {
                root,
                hashed_state: leaves,
                trie_updates,
                counters,
            });
        }
        let span = debug_span!(target: TARGET, "root_with_updates", chunks = self.counters.jobs);
        let _entered = span.enter();
        self.apply_storages(&leaves)?;
        let tries = std::mem::take(&mut self.storages);
        let (storage_roots, storages) = finish_storages(tries, &leaves, &mut self.counters);
        self.apply_accounts(&leaves, &storage_roots)?;
        let Self {
            task,
            accounts,
            mut counters,
            largest_proof,
            ..
        } = self;
        // Closes the queues: the workers drop their views while the root is hashed.
        drop(task);
        let finished = accounts.finish();
        counters.longest_chain += largest_proof + finished.longest_chain;
        count_finished(&finished, &mut counters);
        let trie_updates = TrieUpdates {
            account_nodes: finished.updates,
            storages,
        };
        Ok(RootOutcome {
            root: Some(finished.root),
            hashed_state: leaves,
            trie_updates,
            counters,
        })
    }

    fn apply_storages(&mut self, leaves: &HashedState) -> Result<(), RootError> {
        let mut last = Batch::default();
        let mut unfinished: Option<Vec<B256>> = None;
        loop {
            let work: Vec<_> = self
                .storages
                .iter_mut()
                .filter(|(address, _)| {
                    unfinished
                        .as_ref()
                        .is_none_or(|some| some.binary_search(address).is_ok())
                })
                .filter_map(|(address, trie)| Some((*address, trie, leaves.storages.get(address)?)))
                .collect();
            let mut storages: Vec<_> = work
                .into_par_iter()
                .map(|(address, trie, changes)| StorageTargets {
                    address,
                    slots: trie.apply(&slot_changes(changes)),
                })
                .filter(|missing| !missing.slots.is_empty())
                .collect();
            if storages.is_empty() {
                return Ok(());
            }
            storages.sort_unstable_by_key(|missing| missing.address);
            unfinished = Some(storages.iter().map(|missing| missing.address).collect());
            self.fetch(
                Batch {
                    accounts: Vec::new(),
                    storages,
                },
                &mut last,
            )?;
        }
    }

    fn apply_accounts(
        &mut self,
        leaves: &HashedState,
        storage_roots: &B256Map<B256>,
    ) -> Result<(), RootError> {
        let mut last = Batch::default();
        loop {
            let changes = self.account_changes(leaves, storage_roots);
            let accounts = self.accounts.apply(&changes);
            if accounts.is_empty() {
                return Ok(());
            }
            self.fetch(
                Batch {
                    accounts,
                    storages: Vec::new(),
                },
                &mut last,
            )?;
        }
    }

    /// The changed account leaves, with the storage roots they get or keep.
    fn account_changes(
        &self,
        leaves: &HashedState,
        storage_roots: &B256Map<B256>,
    ) -> Vec<(B256, Option<TrieAccount>)> {
        let kept_root = |address: &B256| {
            self.accounts
                .get(address)
                .map_or(EMPTY_ROOT_HASH, |leaf| leaf.storage_root)
        };
        let mut changes: Vec<_> = leaves
            .accounts
            .iter()
            .map(|(address, account)| {
                let root = || storage_roots.get(address).copied();
                let root = || root().unwrap_or_else(|| kept_root(address));
                (
                    *address,
                    account
                        .as_ref()
                        .map(|account| trie_account(account, root())),
                )
            })
            .collect();
        let changed_alone = |address: &&B256| {
            leaves
                .accounts
                .binary_search_by_key(*address, |(address, _)| *address)
                .is_err()
        };
        for address in storage_roots.keys().filter(changed_alone) {
            if let Some(leaf) = self.accounts.get(address) {
                let storage_root = storage_roots[address];
                changes.push((
                    *address,
                    Some(TrieAccount {
                        storage_root,
                        ..*leaf
                    }),
                ));
            }
        }
        changes.sort_unstable_by_key(|(address, _)| *address);
        changes
    }
}

fn slot_changes(changes: &HashedStorage) -> Vec<(B256, Option<U256>)> {
    changes
        .slots
        .iter()
        .map(|&(slot, value)| (slot, Some(value).filter(|v| !v.is_zero())))
        .collect()
}

fn count_finished(finished: &Finished, counters: &mut RootCounters) {
    counters.nodes_hashed += finished.nodes_hashed;
    counters.nodes_reread += finished.nodes_reread;
}

/// The roots of all storage tries and the changes to their stored branches.
fn finish_storages(
    tries: B256Map<StorageTrie>,
    leaves: &HashedState,
    counters: &mut RootCounters,
) -> (B256Map<B256>, B256Map<StorageTrieUpdates>) {
    let tries: Vec<_> = tries.into_iter().collect();
    let finished: Vec<(B256, Finished)> = tries
        .into_par_iter()
        .map(|(address, trie)| (address, trie.finish()))
        .collect();
    let chains = finished.iter().map(|(_, trie)| trie.longest_chain);
    counters.longest_chain += chains.max().unwrap_or(0);
    let mut roots = B256Map::default();
    let mut updates = B256Map::default();
    for (address, finished) in finished {
        count_finished(&finished, counters);
        roots.insert(address, finished.root);
        let nodes = finished.updates;
        let wiped = leaves
            .storages
            .get(&address)
            .is_some_and(|storage| storage.wiped);
        if wiped || !nodes.is_empty() {
            updates.insert(address, StorageTrieUpdates { wiped, nodes });
        }
    }
    (roots, updates)
}
