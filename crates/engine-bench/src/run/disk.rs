//! Whether a failure may come from a full disk: what an engine's database says then is a number.
//!
//! Invariant: the cause that was reported stays as it is; the remark is added to it.

use super::StepError;
use nix::sys::statvfs::statvfs;
use std::path::Path;

/// Free space below which a disk counts as full, in bytes: a database asks for more at a time.
const SCARCE_BYTES: u64 = 16 << 20;

/// The error, which says so when the disk that `dir` is on is full.
pub(super) fn remark(mut error: StepError, dir: &Path) -> StepError {
    if let Some(free) = free_bytes(dir).filter(|free| *free < SCARCE_BYTES) {
        error.cause += &remark_text(dir, free);
    }
    error
}

fn remark_text(dir: &Path, free_bytes: u64) -> String {
    format!(
        "; the disk of {} has {} KiB left: free some, or give --cache-dir a folder on a larger disk",
        dir.display(),
        free_bytes >> 10
    )
}

/// Space left to this user on the disk that holds `dir`; `None` when it cannot be told.
fn free_bytes(dir: &Path) -> Option<u64> {
    let disk = statvfs(dir).ok()?;
    Some(disk.blocks_available() * disk.fragment_size())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Step;

    #[test]
    fn a_full_disk_is_added_to_the_cause() {
        let error = |dir: &str| remark(StepError::new(Step::State, "code 5"), Path::new(dir)).cause;
        // The file systems of /proc are never larger than nothing.
        assert_eq!(
            error("/proc/self"),
            "code 5; the disk of /proc/self has 0 KiB left: free some, or give --cache-dir a \
             folder on a larger disk"
        );
        assert_eq!(error("/no/such/folder"), "code 5");
        let here = tempfile::tempdir().unwrap();
        if free_bytes(here.path()).is_some_and(|free| free >= SCARCE_BYTES) {
            assert_eq!(error(here.path().to_str().unwrap()), "code 5");
        }
    }
}
