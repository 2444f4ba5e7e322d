//! Roots computed after execution: until `finish` the changes are only collected.

use crate::{
    cursor::StateSource,
    error::{RootError, catch_panic},
    hash::{ChangedLeaves, KeyHasher},
    reference,
    root::{Message, RootCounters, RootOutcome},
    strategy::LateRoot,
    updates::{HashedState, TrieUpdates},
};
use alloy_primitives::{B256, map::B256Map};
use rayon::prelude::*;
use std::{
    fmt, io,
    sync::{Arc, Mutex, PoisonError},
};

/// What is computed once all changes are known.
#[derive(Debug, Clone)]
enum Computation {
    /// On these threads.
    Parallel(Arc<rayon::ThreadPool>),
    /// On the thread that asks.
    Serial,
    Nothing,
}

/// The pool of a strategy that works after execution. A job's threads are at work only while
/// somebody waits for it.
#[derive(Debug)]
pub(crate) struct LatePool(Computation);

impl LatePool {
    pub(crate) fn new(late: LateRoot) -> io::Result<Self> {
        Ok(Self(match late {
            LateRoot::Parallel(threads) => Computation::Parallel(Arc::new(
                rayon::ThreadPoolBuilder::new()
                    .num_threads(threads.get())
                    .thread_name(|index| format!("root-late-{index:02}"))
                    .build()
                    .map_err(io::Error::other)?,
            )),
            LateRoot::Serial => Computation::Serial,
            LateRoot::Skip => Computation::Nothing,
        }))
    }

    pub(crate) fn prepare<S: StateSource>(&self, source: Arc<S>, parent_root: B256) -> LateJob {
        let computation = self.0.clone();
        LateJob {
            messages: Mutex::default(),
            compute: Box::new(move |leaves| {
                catch_panic(|| compute(&computation, &*source, parent_root, leaves))
            }),
        }
    }
}

/// What turns the changed leaves of a block into its root.
type Compute = dyn FnOnce(HashedState) -> Result<RootOutcome, RootError> + Send + Sync;

/// The state root of one block, not yet in the making.
pub(crate) struct LateJob {
    messages: Mutex<Vec<Message>>,
    compute: Box<Compute>,
}

impl fmt::Debug for LateJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LateJob").finish_non_exhaustive()
    }
}

impl LateJob {
    pub(crate) fn send(&self, message: Message) {
        let mut messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        messages.push(message);
    }

    pub(crate) fn wait(self) -> Result<RootOutcome, RootError> {
        let messages = self.messages.into_inner();
        let messages = messages.unwrap_or_else(PoisonError::into_inner);
        let mut hasher = KeyHasher::default();
        let mut leaves = ChangedLeaves::default();
        for message in messages {
            match message {
                Message::Changes(changes) => hasher
                    .hash_all(&changes)
                    .into_iter()
                    .for_each(|change| leaves.push(change, |_| ())),
                Message::Hashed(changes) => changes
                    .into_iter()
                    .for_each(|change| leaves.push(change, |_| ())),
                Message::Finish => {}
            }
        }
        (self.compute)(leaves.into_sorted())
    }
}

fn compute<S: StateSource>(
    computation: &Computation,
    source: &S,
    parent_root: B256,
    leaves: HashedState,
) -> Result<RootOutcome, RootError> {
    let (root, trie_updates) = match computation {
        Computation::Nothing => (None, TrieUpdates::default()),
        _ if leaves.accounts.is_empty() && leaves.storages.is_empty() => {
            (Some(parent_root), TrieUpdates::default())
        }
        Computation::Serial => {
            let (root, updates) = reference::incremental_root(&source.open()?, &leaves)?;
            (Some(root), updates)
        }
        Computation::Parallel(threads) => {
            let (root, updates) = threads.install(|| side_by_side(source, &leaves))?;
            (Some(root), updates)
        }
    };
    Ok(RootOutcome {
        root,
        hashed_state: leaves,
        trie_updates,
        counters: RootCounters::default(),
    })
}

/// Storage tries of all changed accounts, each by whoever is free, then the account trie.
fn side_by_side<S: StateSource>(
    source: &S,
    leaves: &HashedState,
) -> Result<(B256, TrieUpdates), RootError> {
    let changed = leaves.accounts.iter();
    let exist = changed.filter(|(_, account)| account.is_some());
    let unchanged = |address: &B256| !leaves.storages.contains_key(address);
    let mut owners: Vec<_> = leaves.storages.keys().copied().collect();
    owners.extend(exist.map(|(address, _)| *address).filter(unchanged));
    // Neighbours are read together.
    owners.sort_unstable();
    let storages: B256Map<_> = owners
        .into_par_iter()
        .map_init(
            || source.open(),
            |view, address| {
                let view = view.as_ref().map_err(Clone::clone)?;
                let root = reference::storage_root(view, address, leaves.storages.get(&address))?;
                Ok::<_, RootError>((address, root))
            },
        )
        .collect::<Result<_, _>>()?;
    let root = reference::incremental_root_over(&source.open()?, leaves, storages)?;
    Ok(root)
}
