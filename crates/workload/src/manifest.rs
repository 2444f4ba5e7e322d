//! `manifest.json`: what a folder of payloads was made from, and a hash of every file.
//!
//! Invariant: it is written last, so a folder that has one is complete; [`verify_manifest`]
//! recomputes the hashes, so a folder that passes is unchanged.

use crate::{LeafCounts, Mix};
use alloy_primitives::B256;
use engine_api::{PayloadFile, set::MANIFEST_FILE};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// The value of `format`.
pub const FORMAT: &str = "engine-bench-payloads";
/// The value of `version`.
pub const VERSION: u32 = 1;

/// The content of `manifest.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`FORMAT`].
    pub format: String,
    /// [`VERSION`].
    pub version: u32,
    /// Seed of the mix.
    pub seed: u64,
    /// Kind of traffic.
    pub mix: Mix,
    /// Profile of the base state, as the command line spells it.
    pub profile: String,
    /// Seed of the base state.
    pub state_seed: u64,
    /// Chain id.
    pub chain_id: u64,
    /// Gas each block aims at.
    pub gas_target: u64,
    /// The block the first payload builds on.
    pub base_block: BaseBlock,
    /// The payloads, first to last.
    pub blocks: Vec<ManifestBlock>,
}

/// The block a payload set builds on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BaseBlock {
    /// Block number.
    pub number: u64,
    /// Block hash.
    pub hash: B256,
    /// State root.
    pub state_root: B256,
}

/// One payload of a set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestBlock {
    /// Block number.
    pub number: u64,
    /// Block hash.
    pub hash: B256,
    /// Gas used.
    pub gas_used: u64,
    /// Number of transactions.
    pub transaction_count: u64,
    /// Distinct leaves the transactions aim at; see [`crate::leaves`].
    pub leaves: LeafCounts,
    /// SHA-256 of the file, in hexadecimal without `0x`.
    pub sha256: String,
}

/// Why a folder is not what its manifest says.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// A file cannot be read.
    #[error("failed to read {path}: {reason}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        reason: io::Error,
    },
    /// A file cannot be written.
    #[error("failed to write {path}: {reason}")]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        reason: io::Error,
    },
    /// The manifest is not JSON of this format.
    #[error("{path} is not a manifest of payloads: {reason}")]
    Malformed {
        /// The manifest.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A file's hash is another one.
    #[error("{path} was changed after it was generated: its SHA-256 is {found}, not {expected}")]
    Changed {
        /// The file.
        path: PathBuf,
        /// Its hash.
        found: String,
        /// The hash in the manifest.
        expected: String,
    },
    /// A payload that the manifest does not list.
    #[error("{path} is a payload that {MANIFEST_FILE} does not list")]
    Unlisted {
        /// The file.
        path: PathBuf,
    },
}

impl Manifest {
    /// Reads the manifest of `dir` without looking at the payloads.
    ///
    /// # Errors
    /// When it is missing or of another format.
    pub fn read(dir: &Path) -> Result<Self, ManifestError> {
        let path = dir.join(MANIFEST_FILE);
        let bytes = read(&path)?;
        let malformed = |reason: String| ManifestError::Malformed {
            path: path.clone(),
            reason,
        };
        let manifest: Self =
            serde_json::from_slice(&bytes).map_err(|e| malformed(e.to_string()))?;
        if manifest.format != FORMAT || manifest.version != VERSION {
            let Self {
                format, version, ..
            } = manifest;
            return Err(malformed(format!(
                "it says format {format:?} version {version}, but this program reads {FORMAT:?} \
                 version {VERSION}"
            )));
        }
        Ok(manifest)
    }

    /// Writes the manifest into `dir`: to another name first, so that none is ever half written.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, dir: &Path) -> Result<(), ManifestError> {
        let path = dir.join(MANIFEST_FILE);
        let written = || {
            let partial = dir.join(format!(".{MANIFEST_FILE}.partial"));
            fs::write(&partial, serde_json::to_vec_pretty(self)?)?;
            fs::rename(&partial, &path)
        };
        written().map_err(|reason: io::Error| ManifestError::Write {
            path: path.clone(),
            reason,
        })
    }

    /// Sum of the gas used.
    pub fn gas_used(&self) -> u64 {
        self.blocks.iter().map(|block| block.gas_used).sum()
    }
}

/// Reads the manifest of `dir` and checks that the folder holds the payloads it lists, unchanged,
/// and no others.
///
/// # Errors
/// See [`ManifestError`].
pub fn verify_manifest(dir: &Path) -> Result<Manifest, ManifestError> {
    let manifest = Manifest::read(dir)?;
    for block in &manifest.blocks {
        let path = dir.join(PayloadFile::name(block.number));
        let found = sha256(&read(&path)?);
        if found != block.sha256 {
            return Err(ManifestError::Changed {
                path,
                found,
                expected: block.sha256.clone(),
            });
        }
    }
    let listed = |name: &str| {
        manifest
            .blocks
            .iter()
            .any(|block| PayloadFile::name(block.number) == name)
    };
    for name in payload_names(dir)? {
        if !listed(&name) {
            return Err(ManifestError::Unlisted {
                path: dir.join(name),
            });
        }
    }
    Ok(manifest)
}

/// Names in `dir` that are spelled like payload files.
pub(crate) fn payload_names(dir: &Path) -> Result<Vec<String>, ManifestError> {
    let failed = |reason| ManifestError::Read {
        path: dir.to_owned(),
        reason,
    };
    let mut names = Vec::new();
    for entry in fs::read_dir(dir).map_err(failed)? {
        let name = entry
            .map_err(failed)?
            .file_name()
            .to_string_lossy()
            .into_owned();
        if name.starts_with("payload_block_") && name.ends_with(".json") {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// SHA-256 in hexadecimal without `0x`.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    alloy_primitives::hex::encode(Sha256::digest(bytes))
}

fn read(path: &Path) -> Result<Vec<u8>, ManifestError> {
    fs::read(path).map_err(|reason| ManifestError::Read {
        path: path.to_owned(),
        reason,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with two payload files (of any content) and their manifest.
    fn folder() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let block = |number: u64| {
            let text = format!("payload {number}");
            fs::write(dir.path().join(PayloadFile::name(number)), &text).unwrap();
            ManifestBlock {
                number,
                hash: B256::with_last_byte(number as u8),
                gas_used: 10,
                transaction_count: 1,
                leaves: LeafCounts::default(),
                sha256: sha256(text.as_bytes()),
            }
        };
        let manifest = Manifest {
            format: FORMAT.to_owned(),
            version: VERSION,
            seed: 1,
            mix: Mix::ColdStorage,
            profile: "small".to_owned(),
            state_seed: 2,
            chain_id: 1337,
            gas_target: 10,
            base_block: BaseBlock {
                number: 0,
                hash: B256::ZERO,
                state_root: B256::ZERO,
            },
            blocks: vec![block(1), block(2)],
        };
        manifest.write(dir.path()).unwrap();
        dir
    }

    fn error_after(change: impl FnOnce(&Path)) -> String {
        let dir = folder();
        change(dir.path());
        let error = verify_manifest(dir.path()).unwrap_err().to_string();
        error.replace(&format!("{}/", dir.path().display()), "")
    }

    #[test]
    fn an_unchanged_folder_passes() {
        let dir = folder();
        let manifest = verify_manifest(dir.path()).unwrap();
        assert_eq!((manifest.blocks.len(), manifest.gas_used()), (2, 20));
        assert_eq!(
            serde_json::to_value(&manifest).unwrap()["mix"],
            "cold-storage"
        );
    }

    #[test]
    fn every_change_is_told() {
        let file = PayloadFile::name(2);
        let changed = error_after(|dir| fs::write(dir.join(&file), "payload 3").unwrap());
        assert!(changed.starts_with("payload_block_2.json was changed after it was generated"));
        let missing = error_after(|dir| fs::remove_file(dir.join(&file)).unwrap());
        assert!(missing.starts_with("failed to read payload_block_2.json: "));
        let added = error_after(|dir| fs::write(dir.join("payload_block_3.json"), "x").unwrap());
        assert_eq!(
            added,
            "payload_block_3.json is a payload that manifest.json does not list"
        );
        let unfinished = error_after(|dir| fs::remove_file(dir.join(MANIFEST_FILE)).unwrap());
        assert!(unfinished.starts_with("failed to read manifest.json: "));
        let foreign = error_after(|dir| fs::write(dir.join(MANIFEST_FILE), "{}").unwrap());
        assert!(foreign.starts_with("manifest.json is not a manifest of payloads: missing field"));
    }
}
