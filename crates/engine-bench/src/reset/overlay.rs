//! Datadirs under an empty layer of an overlay file system: what an engine writes goes to the layer, which a
//! reset replaces.
//!
//! Invariant: nothing stays mounted when a sweep has ended, also one that was killed: the next one unmounts what
//! it finds.

use super::copy::remove;
use crate::files::failed;
use eyre::{Result, ensure, eyre};
use nix::{
    errno::Errno,
    mount::{MntFlags, MsFlags, mount, umount2},
};
use procfs_core::{FromBufRead as _, process::MountInfos};
use std::{
    fs::{self, File},
    io::BufReader,
    path::{Path, PathBuf},
};

/// What is mounted below a folder, until this is dropped.
#[derive(Debug)]
pub struct Mounts {
    dir: PathBuf,
}

impl Mounts {
    /// Unmounts what an earlier run left below `dir`.
    ///
    /// # Errors
    /// When something there cannot be unmounted.
    pub fn below(dir: &Path) -> Result<Self> {
        unmount_below(dir)?;
        Ok(Self {
            dir: dir.to_owned(),
        })
    }
}

impl Drop for Mounts {
    fn drop(&mut self) {
        // The next run tries again, and says why it cannot.
        let _ = unmount_below(&self.dir);
    }
}

/// Unmounts the overlays that are there: where there is none, that takes no rights.
fn unmount_below(dir: &Path) -> Result<()> {
    let Ok(dir) = dir.canonicalize() else {
        return Ok(());
    };
    let Ok(mounts) = File::open("/proc/self/mountinfo") else {
        return Ok(());
    };
    let mounts = MountInfos::from_buf_read(BufReader::new(mounts))?;
    for mount in mounts {
        if mount.fs_type == "overlay" && mount.mount_point.starts_with(&dir) {
            let at = &mount.mount_point;
            umount2(at, MntFlags::MNT_DETACH)
                .map_err(|reason| eyre!("failed to unmount {}: {reason}", at.display()))?;
        }
    }
    Ok(())
}

/// Has `to` show what `from` holds, and nothing of what was written there before.
///
/// # Errors
/// When the kernel refuses the mount.
pub(super) fn lay_over(from: &Path, to: &Path) -> Result<()> {
    unmount_below(to)?;
    remove(to)?;
    let layers = layers_of(to);
    remove(&layers)?;
    let [upper, work] = ["upper", "work"].map(|name| layers.join(name));
    for dir in [to, &upper, &work] {
        fs::create_dir_all(dir).map_err(failed("create", dir))?;
    }
    let mut options = Vec::new();
    for (name, dir) in [("lowerdir", from), ("upperdir", &upper), ("workdir", &work)] {
        let text = dir.to_str().filter(|text| !text.contains([',', ':', '\\']));
        ensure!(
            text.is_some(),
            "the path {} has a character that an overlay file system cannot be given (, : or \\); give --reset copy",
            dir.display()
        );
        options.extend(text.map(|text| format!("{name}={text}")));
    }
    let (options, kind) = (options.join(","), "overlay");
    let mounted = mount(
        Some(kind),
        to,
        Some(kind),
        MsFlags::empty(),
        Some(options.as_str()),
    );
    mounted.map_err(|reason| {
        let advice = match reason {
            Errno::EPERM => "mounting takes root's rights: run as root, or give --reset copy",
            _ => "give --reset copy, or a --cache-dir on a file system that can be a layer",
        };
        eyre!(
            "failed to lay an overlay over {}: {reason}; {advice}",
            from.display()
        )
    })
}

/// Where the layers of a datadir are: beside it.
fn layers_of(datadir: &Path) -> PathBuf {
    let mut layers = datadir.as_os_str().to_owned();
    layers.push(".layers");
    PathBuf::from(layers)
}

/// Whether an overlay can be mounted below `dir`.
///
/// # Errors
/// When it cannot: why, and what to do.
pub fn try_overlay(dir: &Path) -> Result<()> {
    let place = tempfile::tempdir_in(dir).map_err(failed("write below", dir))?;
    let (from, to) = (place.path().join("from"), place.path().join("to"));
    fs::create_dir(&from).map_err(failed("create", &from))?;
    let tried = lay_over(&from, &to);
    unmount_below(place.path())?;
    tried
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_gone_after_a_reset_and_nothing_stays_mounted() {
        let dir = tempfile::tempdir().unwrap();
        if let Err(refused) = try_overlay(dir.path()) {
            let refused = refused.to_string();
            assert!(refused.contains("; "), "{refused}");
            println!("skipped: {refused}");
            return;
        }
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs::create_dir_all(from.join("db")).unwrap();
        fs::write(from.join("db/a"), "state").unwrap();
        let mounts = Mounts::below(dir.path()).unwrap();
        lay_over(&from, &to).unwrap();
        fs::write(to.join("db/a"), "changed").unwrap();
        fs::write(to.join("db/b"), "new").unwrap();
        lay_over(&from, &to).unwrap();
        assert_eq!(fs::read(to.join("db/a")).unwrap(), b"state");
        assert!(!to.join("db/b").exists());
        assert_eq!(fs::read(from.join("db/a")).unwrap(), b"state");
        drop(mounts);
        assert!(!to.join("db").exists());
        let _again = Mounts::below(dir.path()).unwrap();
    }

    #[test]
    fn a_path_that_the_kernel_would_misread_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let from = dir.path().join("a:b");
        let refused = lay_over(&from, &dir.path().join("to")).unwrap_err();
        assert!(refused.to_string().contains("a:b"), "{refused}");
    }
}
