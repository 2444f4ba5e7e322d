//! Payloads that lead from the head of a datadir to the block that passes start from: a gas ramp, or the first
//! blocks of a list.
//!
//! Invariant: they are one chain from that head to that block.

use crate::client::BlockIdentity;
use engine_api::{PayloadSet, PreparedPayload};
use eyre::{Report, Result, bail};
use std::path::{Path, PathBuf};

/// The number of the last payload of a folder.
///
/// # Errors
/// When the folder holds no chain of payloads.
pub(crate) fn last_block(folder: &Path) -> Result<u64> {
    let set = PayloadSet::open(folder).map_err(Report::msg)?;
    let last = set.payloads().last().map(|payload| payload.number);
    Ok(last.unwrap_or(set.base().0))
}

/// The payloads from behind `head` up to block `target`, of whichever folders hold them.
///
/// # Errors
/// When a folder holds no chain of payloads, or one is missing.
pub(crate) fn lead_in(
    folders: &[PathBuf],
    head: &BlockIdentity,
    target: u64,
) -> Result<Vec<PreparedPayload>> {
    let mut found: Vec<PreparedPayload> = Vec::new();
    let (mut number, mut hash) = (head.number(), head.hash);
    for folder in folders {
        let set = PayloadSet::open(folder).map_err(Report::msg)?;
        for payload in set.payloads() {
            let follows = payload.number == number + 1 && payload.parent_hash == hash;
            if follows && payload.number <= target {
                (number, hash) = (payload.number, payload.hash);
                found.push(payload.clone());
            }
        }
    }
    if number == target {
        return Ok(found);
    }
    let folders: Vec<String> = folders
        .iter()
        .map(|dir| dir.display().to_string())
        .collect();
    let searched = match folders.as_slice() {
        [] => "none were given".to_owned(),
        folders => format!("{} has none", folders.join(", ")),
    };
    bail!(
        "the head of the datadir is block {}, and to reach block {target} a payload of block {} that builds on {hash} is \
         needed: {searched}; give the payloads from behind the head with --lead-in, or a datadir that has block {target}",
        head.number(),
        number + 1,
    )
}
