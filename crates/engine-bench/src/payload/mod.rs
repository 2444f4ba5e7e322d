//! Payload lists of a sweep: found, checked against the base block, kept ready to send.
//!
//! Invariant: what [`PayloadStore::load`] hands out is one chain on the base block, of the gas
//! level asked for, with every request body complete.

mod generate;

pub(crate) use generate::count;
pub use generate::{GenerateError, Recipe};

use crate::{
    client::BlockIdentity,
    sweep::{Gas, Level},
};
use alloy_primitives::B256;
use engine_api::{PayloadSet, PayloadSetError, PreparedPayload};
use std::{
    cell::RefCell,
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Request bodies kept in memory at most; lists beyond it are read again when they are needed.
const KEPT_BYTES: usize = 96 << 20;

/// A payload list, ready to send.
pub type Payloads = Arc<Vec<PreparedPayload>>;

/// Why a payload list cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum PayloadError {
    /// The files are no payload list.
    #[error(transparent)]
    Set(#[from] PayloadSetError),
    /// No folder for a level.
    #[error(
        "the payload folder {dir} has no folder {gas} for --gas {gas}; give one folder per level, as in 10M/ and 40M/"
    )]
    NoLevel {
        /// The folder given.
        dir: PathBuf,
        /// The level.
        gas: Gas,
    },
    /// They build on another block.
    #[error("the payloads in {dir} build on block {payload_base} ({payload_hash}), but the base block is {base} ({base_hash}); {}", advice(*payload_base, *base))]
    OtherBase {
        /// The folder.
        dir: PathBuf,
        /// The block before the first payload.
        payload_base: u64,
        /// Its hash.
        payload_hash: B256,
        /// The base block.
        base: u64,
        /// Its hash.
        base_hash: B256,
    },
    /// Fewer than asked for.
    #[error(
        "{dir} holds {found} payloads, and --count asks for {wanted}; lower it, or generate more"
    )]
    TooFew {
        /// The folder.
        dir: PathBuf,
        /// Payloads in it.
        found: usize,
        /// Payloads asked for.
        wanted: u64,
    },
    /// Of another level.
    #[error(
        "the payloads in {dir} use {mean} gas each, which does not fit --gas {gas}; give the level that they were made for"
    )]
    OtherLevel {
        /// The folder.
        dir: PathBuf,
        /// Mean gas of a payload.
        mean: u64,
        /// The level.
        gas: Gas,
    },
}

fn advice(payload_base: u64, base: u64) -> String {
    if payload_base == base {
        return "the datadir is of another chain or branch than the payloads".to_owned();
    }
    format!("to start from the block they build on, give --target-block {payload_base}")
}

/// Which list of a sweep: a mix of transactions, empty for lists that were given, and a gas level.
pub type ListKey = (String, Gas);

/// Where a sweep's payload lists are, and those in memory.
#[derive(Debug, Default)]
pub struct PayloadStore {
    dirs: HashMap<ListKey, PathBuf>,
    kept: RefCell<HashMap<ListKey, Payloads>>,
}

impl PayloadStore {
    /// A store of the given folders, one per list.
    pub fn new(dirs: impl IntoIterator<Item = (ListKey, PathBuf)>) -> Self {
        Self {
            dirs: dirs.into_iter().collect(),
            kept: RefCell::default(),
        }
    }

    /// The folder of a list.
    pub fn folder(&self, mix: &str, gas: Gas) -> Option<PathBuf> {
        self.dirs.get(&(mix.to_owned(), gas)).cloned()
    }

    fn no_folder(dir: Option<&Path>, gas: Gas) -> PayloadError {
        let above = dir.and_then(Path::parent).unwrap_or(Path::new("."));
        PayloadError::NoLevel {
            dir: above.to_owned(),
            gas,
        }
    }

    /// The payloads of a mix and a level, checked against the base block.
    ///
    /// # Errors
    /// See [`PayloadError`].
    pub fn load(
        &self,
        mix: &str,
        level: Level,
        base: &BlockIdentity,
    ) -> Result<Payloads, PayloadError> {
        let key = (mix.to_owned(), level.gas);
        if let Some(kept) = self.kept.borrow().get(&key) {
            return Ok(Arc::clone(kept));
        }
        let dir = self.dirs.get(&key).map(PathBuf::as_path);
        let dir = dir.ok_or_else(|| Self::no_folder(None, level.gas))?;
        let payloads = Arc::new(replayed(dir, level, base)?);
        let bytes = |list: &Payloads| list.iter().map(|p| p.new_payload.len()).sum::<usize>();
        let mut kept = self.kept.borrow_mut();
        if kept.values().map(bytes).sum::<usize>() + bytes(&payloads) > KEPT_BYTES {
            kept.clear();
        }
        kept.insert(key, Arc::clone(&payloads));
        Ok(payloads)
    }
}

/// Where the payloads of a level are in a folder that was given, for a sweep of so many levels.
pub(crate) fn level_folder(folder: &Path, level: Level, levels: usize) -> PathBuf {
    let named = folder.join(level.gas.to_string());
    if levels == 1 && !named.is_dir() {
        return folder.to_owned();
    }
    named
}

/// A list of a level, on whatever block it builds.
///
/// # Errors
/// When the folder is none, or the list is not one of the level.
pub(crate) fn open(dir: &Path, level: Level) -> Result<PayloadSet, PayloadError> {
    if !dir.is_dir() {
        return Err(PayloadStore::no_folder(Some(dir), level.gas));
    }
    let set = PayloadSet::open(dir)?;
    let found = set.payloads().len();
    let wanted = level.count.unwrap_or(found as u64);
    let taken = usize::try_from(wanted).ok();
    let Some(payloads) = taken.and_then(|taken| set.payloads().get(..taken)) else {
        return Err(PayloadError::TooFew {
            dir: dir.to_owned(),
            found,
            wanted,
        });
    };
    check_level(dir, level.gas, payloads)?;
    Ok(set)
}

/// The payloads of a list that a pass replays, on the base block.
fn replayed(
    dir: &Path,
    level: Level,
    base: &BlockIdentity,
) -> Result<Vec<PreparedPayload>, PayloadError> {
    let set = open(dir, level)?;
    let (payload_base, payload_hash) = set.base();
    if (payload_base, payload_hash) != (base.number(), base.hash) {
        return Err(PayloadError::OtherBase {
            dir: dir.to_owned(),
            payload_base,
            payload_hash,
            base: base.number(),
            base_hash: base.hash,
        });
    }
    let mut payloads = set.payloads().to_vec();
    let wanted = level.count.and_then(|count| usize::try_from(count).ok());
    payloads.truncate(wanted.unwrap_or(usize::MAX));
    Ok(payloads)
}

/// Refuses payloads that were plainly made for another level: generators aim closely under it.
fn check_level(dir: &Path, gas: Gas, payloads: &[PreparedPayload]) -> Result<(), PayloadError> {
    let used: u64 = payloads.iter().map(|payload| payload.gas_used).sum();
    let mean = used / payloads.len().max(1) as u64;
    if (gas.0 / 2..=gas.0.saturating_add(gas.0 / 20)).contains(&mean) {
        return Ok(());
    }
    Err(PayloadError::OtherLevel {
        dir: dir.to_owned(),
        mean,
        gas,
    })
}
