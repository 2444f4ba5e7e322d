//! Whether a failure may come from a full disk: what an engine's database says then is a number.
//!
//! Invariant: the cause that was reported stays as it is; the remark is added to it.

use super::StepError;
use crate::guard::free_bytes;
use nix::sys::statfs::{BTRFS_SUPER_MAGIC, XFS_SUPER_MAGIC, statfs};
use std::{os::unix::fs::MetadataExt as _, path::Path};

/// Free space below which a disk counts as full, in bytes: a database asks for more at a time.
const SCARCE_BYTES: u64 = 16 << 20;

/// The error, which says so when the disk is full that the datadir is on, or the results folder.
pub(super) fn remark(mut error: StepError, datadir: &Path, out: &Path) -> StepError {
    let places = [
        (datadir, "give --cache-dir a folder on a larger disk"),
        (out, "give --out a folder on a larger disk"),
    ];
    for (dir, advice) in places {
        if let Some(free) = scarce_bytes(dir) {
            let (dir, free_kib) = (dir.display(), free >> 10);
            error.cause +=
                &format!("; the disk of {dir} has {free_kib} KiB free: make room, or {advice}");
        }
    }
    error
}

/// Space left on the disk that holds `dir`, in bytes, when that is next to nothing.
pub(super) fn scarce_bytes(dir: &Path) -> Option<u64> {
    free_bytes(dir).filter(|free| *free < SCARCE_BYTES)
}

/// Whether a copy between two folders takes no room: some file systems let files share their extents.
pub(super) fn shares_extents(from: &Path, to: &Path) -> bool {
    let device = |dir: &Path| dir.metadata().ok().map(|dir| dir.dev());
    let kind = statfs(to).map(|disk| disk.filesystem_type());
    let shares = matches!(kind, Ok(BTRFS_SUPER_MAGIC | XFS_SUPER_MAGIC));
    shares && device(from) == device(to)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Step;

    #[test]
    fn a_full_disk_is_added_to_the_cause() {
        let error = |datadir: &str, out: &str| {
            let error = StepError::new(Step::State, "code 5");
            remark(error, Path::new(datadir), Path::new(out)).cause
        };
        // The file systems of /proc are never larger than nothing.
        let (full, none) = ("/proc/self", "/no/such/folder");
        let said = |flag: &str| {
            format!(
                "code 5; the disk of /proc/self has 0 KiB free: make room, or give {flag} a folder on a larger disk"
            )
        };
        assert_eq!(error(full, none), said("--cache-dir"));
        assert_eq!(error(none, full), said("--out"));
        assert_eq!(error(none, none), "code 5");
        let here = tempfile::tempdir().unwrap();
        if free_bytes(here.path()).is_some_and(|free| free >= SCARCE_BYTES) {
            let here = here.path().to_str().unwrap();
            assert_eq!(error(here, here), "code 5");
        }
    }
}
