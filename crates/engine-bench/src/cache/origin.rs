//! What a generated datadir was made from: a note beside the state, so that payloads can be
//! generated on a datadir that is no longer where it was made.
//!
//! Invariant: the note is a claim. Who uses it compares its state root with the engine's block 0.

use super::GENERATION;
use crate::files::failed;
use alloy_primitives::B256;
use eyre::Result;
use serde::{Deserialize, Serialize};
use std::{fs, io, path::Path};

/// Name of the note inside a datadir.
pub const ORIGIN_FILE: &str = "base-state.json";

/// Chain file that the embedded engine writes into a datadir.
const CHAIN_FILE: &str = "chain.json";

const FORMAT: &str = "engine-bench-base-state";

/// The content of the note.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    format: String,
    /// Raised whenever the same profile and seed would make another state.
    generation: u32,
    /// Profile of the state.
    pub profile: String,
    /// Its seed.
    pub seed: u64,
    /// State root of block 0.
    pub state_root: B256,
}

impl Origin {
    /// Leaves the note in a datadir that was just made.
    ///
    /// # Errors
    /// When the datadir's chain file cannot be read or the note not be written.
    pub fn leave(datadir: &Path, profile: &str, seed: u64) -> Result<Self> {
        let origin = Self {
            format: FORMAT.to_owned(),
            generation: GENERATION,
            profile: profile.to_owned(),
            seed,
            state_root: state_root(datadir)?,
        };
        let path = datadir.join(ORIGIN_FILE);
        let json = serde_json::to_vec_pretty(&origin).map_err(io::Error::from);
        let written = json.and_then(|json| fs::write(&path, json));
        written.map_err(failed("write", &path))?;
        Ok(origin)
    }

    /// The note of a datadir; `None` when there is none of this generation.
    pub fn of(datadir: &Path) -> Option<Self> {
        let json = fs::read(datadir.join(ORIGIN_FILE)).ok()?;
        let origin: Self = serde_json::from_slice(&json).ok()?;
        (origin.format == FORMAT && origin.generation == GENERATION).then_some(origin)
    }
}

/// The state root that the embedded engine computed for the state.
fn state_root(datadir: &Path) -> Result<B256> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Chain {
        state_root: B256,
    }
    let path = datadir.join(CHAIN_FILE);
    let read = || Ok(serde_json::from_slice::<Chain>(&fs::read(&path)?)?.state_root);
    read().map_err(failed("read", &path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_back_and_one_of_another_generation_is_not() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Origin::of(dir.path()), None);
        let root = B256::repeat_byte(7);
        fs::write(
            dir.path().join(CHAIN_FILE),
            format!("{{\"stateRoot\":\"{root}\"}}"),
        )
        .unwrap();
        let left = Origin::leave(dir.path(), "small", 2).unwrap();
        assert_eq!((left.state_root, left.seed), (root, 2));
        assert_eq!(Origin::of(dir.path()), Some(left.clone()));

        let other = Origin {
            generation: GENERATION + 1,
            ..left
        };
        let json = serde_json::to_vec(&other).unwrap();
        fs::write(dir.path().join(ORIGIN_FILE), json).unwrap();
        assert_eq!(Origin::of(dir.path()), None);
    }
}
