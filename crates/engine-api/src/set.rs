//! A folder of payload files as one chain of prepared payloads.
//!
//! Invariant: in a [`PayloadSet`] block numbers rise by one and each payload names the one before
//! it as its parent, so that it can be replayed from the first to the last.

use crate::payload::{PayloadFile, PayloadFileError, PreparedPayload};
use alloy_primitives::B256;
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// The generator's account of a folder, which lies beside the payloads.
pub const MANIFEST_FILE: &str = "manifest.json";

/// How many names an error about a folder quotes.
const QUOTED_NAMES: usize = 3;

/// Payloads that build on each other, ready to be sent.
#[derive(Debug, Clone)]
pub struct PayloadSet {
    dir: PathBuf,
    payloads: Vec<PreparedPayload>,
}

/// Why a folder of payloads cannot be used. Every text names the file or folder.
#[derive(Debug, thiserror::Error)]
pub enum PayloadSetError {
    /// The folder cannot be listed.
    #[error("failed to list the payload folder {dir}: {reason}")]
    List {
        /// The folder.
        dir: PathBuf,
        /// The system's reason.
        reason: io::Error,
    },
    /// No payload file in it.
    #[error("the folder {dir} holds no payload_block_<N>.json file; it holds {found}")]
    Empty {
        /// The folder.
        dir: PathBuf,
        /// Some of the names in it, or `nothing`.
        found: String,
    },
    /// A JSON file that is none of ours: the folder may be another one than was meant.
    #[error(
        "{path} does not belong in a payload folder, which holds payload_block_<N>.json files \
         and manifest.json"
    )]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// One file cannot be used.
    #[error(transparent)]
    File(#[from] PayloadFileError),
    /// The file's name and content disagree.
    #[error("{path} holds block {number}")]
    Misnamed {
        /// The file.
        path: PathBuf,
        /// The number in it.
        number: u64,
    },
    /// A number is missing.
    #[error("{dir} has no payload for block {missing}, between block {before} and block {after}")]
    Gap {
        /// The folder.
        dir: PathBuf,
        /// The first number missing.
        missing: u64,
        /// The last number before the gap.
        before: u64,
        /// The first number after the gap.
        after: u64,
    },
    /// Two consecutive payloads are not parent and child.
    #[error("{path} builds on block {parent_hash}, but block {parent_number} is {found}")]
    Broken {
        /// The later file.
        path: PathBuf,
        /// The parent it names.
        parent_hash: B256,
        /// The number of the block before it.
        parent_number: u64,
        /// The hash of the block before it.
        found: B256,
    },
}

impl PayloadSet {
    /// Reads, checks and prepares every payload of `dir`, sorted by block number.
    ///
    /// Hidden files and files other than JSON are passed over.
    ///
    /// # Errors
    /// See [`PayloadSetError`].
    pub fn open(dir: &Path) -> Result<Self, PayloadSetError> {
        let mut payloads: Vec<PreparedPayload> = Vec::new();
        for (number, path) in payload_files(dir)? {
            let payload = PayloadFile::read(&path)?.prepare(&path)?;
            if payload.number != number {
                return Err(PayloadSetError::Misnamed {
                    path,
                    number: payload.number,
                });
            }
            if let Some(previous) = payloads.last() {
                check_link(dir, previous, &payload)?;
            }
            payloads.push(payload);
        }
        Ok(Self {
            dir: dir.to_owned(),
            payloads,
        })
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The payloads, first to last; never empty.
    pub fn payloads(&self) -> &[PreparedPayload] {
        &self.payloads
    }

    /// The block the set builds on: number and hash.
    pub fn base(&self) -> (u64, B256) {
        self.payloads.first().map_or((0, B256::ZERO), |first| {
            (first.number.saturating_sub(1), first.parent_hash)
        })
    }

    /// Sum of the gas used.
    pub fn gas_used(&self) -> u64 {
        self.payloads.iter().map(|payload| payload.gas_used).sum()
    }
}

fn payload_files(dir: &Path) -> Result<Vec<(u64, PathBuf)>, PayloadSetError> {
    let list = |reason| PayloadSetError::List {
        dir: dir.to_owned(),
        reason,
    };
    let mut files = Vec::new();
    let mut others = Vec::new();
    for entry in fs::read_dir(dir).map_err(list)? {
        let entry = entry.map_err(list)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some(number) = block_number(&name) {
            files.push((number, entry.path()));
        } else if name.ends_with(".json") && !name.starts_with('.') && name != MANIFEST_FILE {
            check_schema(&entry.path())?;
        } else {
            others.push(name);
        }
    }
    if files.is_empty() {
        return Err(PayloadSetError::Empty {
            dir: dir.to_owned(),
            found: quoted(others),
        });
    }
    files.sort_unstable();
    Ok(files)
}

/// Refuses a JSON file of another name, with the schema's own message where it is a known one.
fn check_schema(path: &Path) -> Result<(), PayloadSetError> {
    if let Err(error @ PayloadFileError::MergedBigBlock { .. }) = PayloadFile::read(path) {
        return Err(error.into());
    }
    Err(PayloadSetError::Foreign {
        path: path.to_owned(),
    })
}

fn block_number(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("payload_block_")?.strip_suffix(".json")?;
    // `parse` alone would take "+7" and "007", which no generator writes.
    let number: u64 = digits.parse().ok()?;
    (number.to_string() == digits).then_some(number)
}

fn check_link(
    dir: &Path,
    parent: &PreparedPayload,
    child: &PreparedPayload,
) -> Result<(), PayloadSetError> {
    if child.number != parent.number + 1 {
        return Err(PayloadSetError::Gap {
            dir: dir.to_owned(),
            missing: parent.number + 1,
            before: parent.number,
            after: child.number,
        });
    }
    if child.parent_hash != parent.hash {
        return Err(PayloadSetError::Broken {
            path: dir.join(PayloadFile::name(child.number)),
            parent_hash: child.parent_hash,
            parent_number: parent.number,
            found: parent.hash,
        });
    }
    Ok(())
}

fn quoted(mut names: Vec<String>) -> String {
    names.sort_unstable();
    let more = names.len().saturating_sub(QUOTED_NAMES);
    names.truncate(QUOTED_NAMES);
    match (names.is_empty(), more) {
        (true, _) => "nothing".to_owned(),
        (false, 0) => names.join(", "),
        (false, more) => format!("{} and {more} more", names.join(", ")),
    }
}
