//! Where generated things live: base states, payload sets and the working copies of sweeps.
//!
//! Invariant: the name of a folder says what made it, and a folder appears under its name only
//! when it is complete, so that an interrupted run never leaves something that looks usable.

mod origin;

pub use origin::{ORIGIN_FILE, Origin};

use crate::{files::failed, owner::Owner};
use etcetera::BaseStrategy as _;
use eyre::{Result, bail};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

/// Folder of this program inside the user's cache folder.
const NAME: &str = "engine-bench";

/// File that says what a cached state consists of.
const SEAL_FILE: &str = "sealed.json";

/// Raised whenever a profile and a seed would make another state or other payloads.
pub(crate) const GENERATION: u32 = 1;

/// How often, and after which pause, the owner of a lock is looked for.
const OWNER_LOOKS: u32 = 40;
const OWNER_PAUSE: Duration = Duration::from_millis(25);

/// The cache folder: the one asked for, made absolute, or the user's (XDG).
///
/// # Errors
/// When there is none or its path cannot be made absolute.
pub fn directory(asked: Option<&Path>) -> Result<PathBuf> {
    if let Some(path) = asked {
        return std::path::absolute(path).map_err(failed("resolve", path));
    }
    let Ok(strategy) = etcetera::choose_base_strategy() else {
        bail!(
            "failed to find a cache folder: no home directory is known; name one with --cache-dir"
        );
    };
    Ok(strategy.cache_dir().join(NAME))
}

/// The folders inside a cache directory.
#[derive(Debug, Clone)]
pub struct Cache {
    root: PathBuf,
}

impl Cache {
    /// The cache at `root`, which need not exist.
    pub fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
        }
    }

    /// The folder of the base state that a profile and a seed make.
    pub fn state(&self, profile: &str, seed: u64) -> PathBuf {
        let name = format!("{}-seed{seed}", file_safe(profile));
        self.root.join("states").join(name)
    }

    /// Whether the base state that a profile and a seed make is there and whole.
    pub fn has_state(&self, profile: &str, seed: u64) -> bool {
        let state = self.state(profile, seed);
        is_whole(&state) && Origin::of(&state).is_some()
    }

    /// The folder of the same state in the storage of another engine, `owner`.
    pub fn state_of(&self, profile: &str, seed: u64, owner: &str) -> PathBuf {
        let mut name = self.state(profile, seed).into_os_string();
        name.push(format!("-{}", file_safe(owner)));
        PathBuf::from(name)
    }

    /// The folder of generated payloads under a name that says what made them.
    pub fn payloads(&self, key: &str) -> PathBuf {
        self.root.join("payloads").join(file_safe(key))
    }

    /// Names of the generated payload folders.
    pub fn payload_folders(&self) -> Vec<String> {
        let entries = fs::read_dir(self.root.join("payloads"));
        let names = entries.into_iter().flatten().flatten();
        names
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect()
    }

    /// The folder that holds the working copies, the secret and the pid files of a run.
    pub fn work(&self) -> PathBuf {
        self.root.join("work")
    }

    /// Takes the working folder for this process until the guard is dropped.
    ///
    /// # Errors
    /// When another process holds it, which is named.
    pub fn lock_work(&self) -> Result<WorkLock> {
        let dir = self.work();
        make_dir(&dir)?;
        let path = dir.join("lock");
        let failed = failed("lock", &path);
        let mut options = File::options();
        let options = options.write(true).create(true).truncate(false);
        let file = options.open(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::Error(reason)) => return Err(failed(reason)),
            Err(TryLockError::WouldBlock) => bail!(
                "another run (pid {}) is using {}; wait for it, or give another --cache-dir",
                owner(&path),
                path.display()
            ),
        }
        file.set_len(0)
            .and_then(|()| serde_json::to_writer(&file, &Owner::this()).map_err(io::Error::from))
            .map_err(failed)?;
        Ok(WorkLock { dir, file })
    }
}

/// The pid in a lock file. Its owner writes it a moment after it has taken the lock; until then an earlier
/// one's is there.
fn owner(path: &Path) -> String {
    for _ in 0..OWNER_LOOKS {
        if let Some(owner) = Owner::of_file(path) {
            return owner.pid.to_string();
        }
        thread::sleep(OWNER_PAUSE);
    }
    "unknown".to_owned()
}

/// The working folder, held by this process.
#[derive(Debug)]
pub struct WorkLock {
    dir: PathBuf,
    file: File,
}

impl Drop for WorkLock {
    /// Ends the lock, which closing the file would leave to a child that is just being started:
    /// until it executes its program it has every open file of this process.
    fn drop(&mut self) {
        // Without a lock there is nothing to end.
        let _ = self.file.unlock();
    }
}

impl WorkLock {
    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }
}

/// A folder under construction: it takes its name when it is complete and is removed otherwise.
#[derive(Debug)]
pub struct Building {
    temporary: tempfile::TempDir,
    target: PathBuf,
}

impl Building {
    /// Starts a folder that will be called `target`, beside it.
    ///
    /// # Errors
    /// When the folder above cannot be written.
    pub fn new(target: &Path) -> Result<Self> {
        let parent = target.parent().unwrap_or(Path::new("."));
        make_dir(parent)?;
        let temporary = tempfile::Builder::new()
            .prefix(".building-")
            .tempdir_in(parent)
            .map_err(failed("create", parent))?;
        Ok(Self {
            temporary,
            target: target.to_owned(),
        })
    }

    /// Where to build.
    pub fn path(&self) -> &Path {
        self.temporary.path()
    }

    /// Calls the folder something else, in the same place.
    pub fn rename(&mut self, target: &Path) {
        self.target = target.to_owned();
    }

    /// Gives the folder its name, replacing what had it.
    ///
    /// # Errors
    /// When the old folder cannot be removed or the new one not renamed.
    pub fn finish(self) -> Result<PathBuf> {
        remove_dir(&self.target)?;
        // Renamed first and disowned after: a failed rename still cleans up.
        let renamed = fs::rename(self.temporary.path(), &self.target);
        renamed.map_err(failed("rename", &self.target))?;
        drop(self.temporary.keep());
        Ok(self.target)
    }
}

/// What a sealed folder holds: every file with its length.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Seal {
    /// Changes whenever the same key would make other bytes.
    generation: u32,
    /// Lengths in bytes by path relative to the folder.
    files: BTreeMap<PathBuf, u64>,
}

/// Writes down what is in a complete folder.
///
/// # Errors
/// When it cannot be listed or written.
pub(crate) fn seal(dir: &Path) -> Result<()> {
    let write = || fs::write(dir.join(SEAL_FILE), serde_json::to_vec(&Seal::of(dir)?)?);
    write().map_err(failed("seal", dir))
}

/// Whether a folder still holds what its seal says. Content is attested when an engine has
/// opened it: by the hash and the state root of its head.
pub(crate) fn is_whole(dir: &Path) -> bool {
    let seal = fs::read(dir.join(SEAL_FILE)).ok();
    let seal: Option<Seal> = seal.and_then(|json| serde_json::from_slice(&json).ok());
    seal.is_some_and(|seal| Seal::of(dir).is_ok_and(|now| now == seal))
}

impl Seal {
    fn of(dir: &Path) -> io::Result<Self> {
        Ok(Self {
            generation: GENERATION,
            files: lengths(dir)?,
        })
    }
}

fn lengths(dir: &Path) -> io::Result<BTreeMap<PathBuf, u64>> {
    let (mut files, mut folders) = (BTreeMap::new(), vec![dir.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let path = entry.path();
            if entry.file_type()?.is_dir() {
                folders.push(path);
            } else if entry.file_name() != SEAL_FILE {
                let relative = path.strip_prefix(dir).unwrap_or(&path).to_owned();
                files.insert(relative, entry.metadata()?.len());
            }
        }
    }
    Ok(files)
}

/// Creates a folder and those above it.
pub(crate) fn make_dir(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(failed("create", path))
}

/// Removes a folder with what is in it; one that is not there is fine.
pub(crate) fn remove_dir(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(reason) if reason.kind() != io::ErrorKind::NotFound => {
            Err(failed("remove", path)(reason))
        }
        _ => Ok(()),
    }
}

/// The text with everything that may trouble a file name replaced by a dash.
pub(crate) fn file_safe(text: &str) -> String {
    text.replace(
        |c: char| !(c.is_ascii_alphanumeric() || ".-_".contains(c)),
        "-",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_appears_only_when_complete() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("states/small");
        let building = Building::new(&target).unwrap();
        fs::write(building.path().join("half"), "x").unwrap();
        drop(building);
        assert_eq!(fs::read_dir(target.parent().unwrap()).unwrap().count(), 0);

        let building = Building::new(&target).unwrap();
        fs::write(building.path().join("whole"), "x").unwrap();
        assert_eq!(building.finish().unwrap(), target);
        assert!(target.join("whole").exists());
    }

    #[test]
    fn a_second_run_is_told_who_has_the_work_folder() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::new(dir.path());
        let held = cache.lock_work().unwrap();
        let refused = cache.lock_work().unwrap_err().to_string();
        assert!(
            refused.contains(&format!("(pid {})", std::process::id())),
            "{refused}"
        );
        let child_has = held.file.try_clone().unwrap();
        drop(held);
        assert!(cache.lock_work().is_ok());
        drop(child_has);
    }

    #[test]
    fn the_owner_of_a_lock_may_write_its_pid_late() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::new(dir.path());
        let path = dir.path().join("work/lock");
        fs::create_dir_all(dir.path().join("work")).unwrap();
        let held = File::create(&path).unwrap();
        held.try_lock().unwrap();
        let write = |owner: Owner| fs::write(&path, serde_json::to_vec(&owner).unwrap()).unwrap();
        // The owner before, whose pid is another process's now.
        write(Owner {
            pid: std::os::unix::process::parent_id(),
            start_time: 1,
        });
        let refused = thread::spawn(move || cache.lock_work().unwrap_err().to_string());
        // The other one has found the old file by then, or finds the new one: both have to do.
        thread::sleep(2 * OWNER_PAUSE);
        write(Owner::this());
        let refused = refused.join().unwrap();
        let named = format!("(pid {})", std::process::id());
        assert!(refused.contains(&named), "{refused}");
    }
}
