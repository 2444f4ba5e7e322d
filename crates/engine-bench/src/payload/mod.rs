//! Payload lists of a sweep: found, checked against the base block, kept ready to send.
//!
//! Invariant: what [`PayloadStore::load`] hands out is one chain on the base block, of the gas
//! level asked for, with every request body complete.

mod generate;
mod lead_in;

pub use generate::Recipe;
pub(crate) use generate::count;
pub(crate) use lead_in::{last_block, lead_in};

use crate::{
    client::BlockIdentity,
    sweep::{Gas, Level},
};
use alloy_primitives::B256;
use engine_api::{PayloadSet, PreparedPayload};
use eyre::{Report, Result, bail, ensure, eyre};
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

    /// The payloads of a mix and a level, checked against the base block.
    ///
    /// # Errors
    /// When there is none, or it is not one of the level on that block: what is wrong, and what to give instead.
    pub fn load(&self, mix: &str, level: Level, base: &BlockIdentity) -> Result<Payloads> {
        let key = (mix.to_owned(), level.gas);
        if let Some(kept) = self.kept.borrow().get(&key) {
            return Ok(Arc::clone(kept));
        }
        let dir = self.dirs.get(&key);
        let dir = dir.ok_or_else(|| no_folder(Path::new("."), level.gas))?;
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

fn no_folder(above: &Path, gas: Gas) -> Report {
    eyre!(
        "the payload folder {} has no folder {gas} for --gas {gas}; give one folder per level, as in 10M/ and 40M/",
        above.display()
    )
}

/// The payloads of a list that are replayed.
#[derive(Debug)]
pub(crate) struct List {
    /// The block that the whole list builds on, by number and hash.
    pub(crate) begins: (u64, B256),
    /// At least one.
    pub(crate) payloads: Vec<PreparedPayload>,
}

impl List {
    /// The block that those build on that are replayed, by number and hash.
    pub(crate) fn base(&self) -> (u64, B256) {
        let first = self.payloads.first();
        first.map_or(self.begins, |first| (first.number - 1, first.parent_hash))
    }
}

/// A list of a level behind block `base`, or on whatever block it builds.
///
/// # Errors
/// When the folder is none, or the list is not one of the level.
pub(crate) fn open(dir: &Path, level: Level, base: Option<u64>) -> Result<List> {
    if !dir.is_dir() {
        return Err(no_folder(dir.parent().unwrap_or(Path::new(".")), level.gas));
    }
    let set = PayloadSet::open(dir)?;
    let all = set.payloads();
    // Those up to the base block lead to it.
    let first = all
        .iter()
        .position(|payload| Some(payload.number) == base.map(|base| base + 1));
    let behind = &all[first.unwrap_or(0)..];
    let (found, shown) = (behind.len(), dir.display());
    let wanted = level.count.unwrap_or(found as u64);
    let taken = usize::try_from(wanted).ok();
    let Some(payloads) = taken.and_then(|taken| behind.get(..taken)) else {
        bail!(
            "{shown} holds {found} payloads, and --count asks for {wanted}; lower it, or generate more"
        );
    };
    // Plainly made for another level: generators aim closely under it.
    let used: u64 = payloads.iter().map(|payload| payload.gas_used).sum();
    let (mean, gas) = (used / payloads.len().max(1) as u64, level.gas);
    ensure!(
        (gas.0 / 2..=gas.0.saturating_add(gas.0 / 20)).contains(&mean),
        "the payloads in {shown} use {mean} gas each, which does not fit --gas {gas}; give the level that they were \
         made for"
    );
    Ok(List {
        begins: set.base(),
        payloads: payloads.to_vec(),
    })
}

/// The payloads of a list that a pass replays, on the base block.
fn replayed(dir: &Path, level: Level, base: &BlockIdentity) -> Result<Vec<PreparedPayload>> {
    let list = open(dir, level, Some(base.number()))?;
    if list.base() != (base.number(), base.hash) {
        let (number, hash) = list.begins;
        let advice = if number == base.number() {
            "the datadir is of another chain or branch than the payloads".to_owned()
        } else {
            format!("to start from the block they build on, give --target-block {number}")
        };
        bail!(
            "the payloads in {} build on block {number} ({hash}), but the base block is {} ({}); {advice}",
            dir.display(),
            base.number(),
            base.hash
        );
    }
    Ok(list.payloads)
}
