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
        "the payload folder {dir} has no folder {gas} for the gas level {gas}; name one folder per level, as in 10M/ and 40M/"
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
        "{dir} holds {found} payloads, --count asks for {wanted}; lower the count or generate more"
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
        "the payloads in {dir} use {mean} gas each, which is not the gas level {gas}; give the level they were made for"
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

/// Which list of a sweep: a mix of transactions, empty for lists that were brought, and a gas level.
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
        let found = dir.filter(|dir| dir.is_dir());
        let dir = found.ok_or_else(|| Self::no_folder(dir, level.gas))?;
        let payloads = Arc::new(open(dir, level, base)?);
        let bytes = |list: &Payloads| list.iter().map(|p| p.new_payload.len()).sum::<usize>();
        let mut kept = self.kept.borrow_mut();
        if kept.values().map(bytes).sum::<usize>() + bytes(&payloads) > KEPT_BYTES {
            kept.clear();
        }
        kept.insert(key, Arc::clone(&payloads));
        Ok(payloads)
    }
}

fn open(
    dir: &Path,
    level: Level,
    base: &BlockIdentity,
) -> Result<Vec<PreparedPayload>, PayloadError> {
    let set = PayloadSet::open(dir)?;
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
    if let Some(wanted) = level.count {
        if (payloads.len() as u64) < wanted {
            let found = payloads.len();
            return Err(PayloadError::TooFew {
                dir: dir.to_owned(),
                found,
                wanted,
            });
        }
        payloads.truncate(usize::try_from(wanted).unwrap_or(usize::MAX));
    }
    check_level(dir, level.gas, &payloads)?;
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
