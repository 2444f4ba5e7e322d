//! Copies of datadirs that keep holes: an MDBX file is far longer than what is in it.
//!
//! Invariant: a datadir in use is not copied, because the copy would be torn. Whatever happens in a
//! copy, the content of the original stays.

use crate::owner::Owner;
use eyre::{Report, Result, bail, eyre};
use nix::{
    fcntl::{FcntlArg, fcntl},
    libc,
    unistd::{Whence, lseek},
};
use std::{
    fs::{self, File, Metadata, TryLockError},
    io::{self, Read as _, Seek as _, SeekFrom},
    iter,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

/// Files that belong to a running process, not to the state.
const NOT_COPIED: [&str; 2] = ["lock", "mdbx.lck"];

/// Where engines keep the lock that names its owner, relative to the datadir.
const LOCK_FILES: [&str; 3] = ["db/lock", "static_files/lock", "lock"];

/// How far two computations of the second in which a process started may differ: the kernel's clock is
/// adjusted now and then.
const START_TOLERANCE_S: u64 = 2;

/// What engines lock while they run, without writing down who they are: geth in a folder of its name, RocksDB,
/// in which ethrex keeps its state, beside its tables, which are in the datadir or in the folder of a chain.
const HELD_FILE: &str = "LOCK";

/// How files of a log-structured database end, which are never changed once they are written.
const TABLE_SUFFIX: &str = ".sst";

/// Unit in which `stat` counts what a file has on disk.
const BLOCK_BYTES: u64 = 512;

/// What becomes of the tables of a log-structured database in a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tables {
    /// They are copied.
    Copied,
    /// They are the same files under a second name, where the file system allows it: the database
    /// only ever reads or removes them.
    Shared,
}

/// What a copy has in common with its original.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extents {
    /// What the file system gives.
    Any,
    /// All of them, or there is no copy.
    Shared,
}

/// A datadir that is only read.
#[derive(Debug, Clone)]
pub struct Pristine {
    /// Where it is.
    pub path: PathBuf,
    /// What becomes of its tables in a copy.
    pub tables: Tables,
}

/// Whether nobody works in a datadir.
///
/// # Errors
/// When somebody does, with the process where it is known.
pub fn check_unused(datadir: &Path) -> Result<()> {
    let path = datadir.display();
    if let Some(pid) = lock_owner(datadir) {
        bail!("the datadir {path} is in use by process {pid}; stop that process first");
    }
    match held_file(datadir) {
        None => Ok(()),
        Some(file) => bail!(
            "the datadir {path} is in use by a process that holds {}; stop it first",
            file.strip_prefix(datadir).unwrap_or(&file).display()
        ),
    }
}

/// The running process that a lock in the datadir names, by its pid and the second in which it started.
fn lock_owner(datadir: &Path) -> Option<u32> {
    LOCK_FILES.iter().find_map(|file| {
        let text = fs::read_to_string(datadir.join(file)).ok()?;
        let words = text.split(|c: char| !c.is_ascii_digit());
        let mut numbers = words.filter(|word| !word.is_empty());
        let owner = Owner::running(numbers.next()?.parse().ok()?)?;
        // A lock that tells no time has to be believed.
        let named_s: Option<u64> = numbers.next().and_then(|number| number.parse().ok());
        let same = named_s.zip(owner.started_s());
        same.is_none_or(|(named, found)| named.abs_diff(found) <= START_TOLERANCE_S)
            .then_some(owner.pid)
    })
}

/// The file in a datadir that an engine which runs on it has locked.
fn held_file(datadir: &Path) -> Option<PathBuf> {
    let inside = datadir.read_dir().into_iter().flatten().flatten();
    let folders = iter::once(datadir.to_owned()).chain(inside.map(|entry| entry.path()));
    let mut files = folders.map(|folder| folder.join(HELD_FILE));
    files.find(|path| File::open(path).is_ok_and(|file| is_held(&file)))
}

/// Whether a process has locked a file: the file itself, as geth does, or ranges of its bytes, as RocksDB does.
fn is_held(file: &File) -> bool {
    let whole = matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock));
    let mut found = range_lock();
    let asked = fcntl(file, FcntlArg::F_GETLK(&mut found));
    whole || asked.is_ok() && found.l_type != libc::F_UNLCK as i16
}

/// A lock for writing of all bytes of a file.
fn range_lock() -> libc::flock {
    libc::flock {
        l_type: libc::F_WRLCK as i16,
        l_whence: libc::SEEK_SET as i16,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    }
}

/// Replaces `to` by a copy of a datadir, holes and all.
///
/// # Errors
/// When a process has it open, the disk is full, a file fails, or extents cannot be shared that are to be.
pub fn copy_datadir(
    Pristine { path: from, tables }: &Pristine,
    to: &Path,
    extents: Extents,
) -> Result<()> {
    check_unused(from)?;
    remove(to)?;
    copy_folder(from, to, (*tables, extents)).inspect_err(|_| {
        // Half a copy is of no use, and its space may be what is missing. The error that is told
        // is the one of the copy.
        let _ = fs::remove_dir_all(to);
    })
}

/// Removes a folder that need not be there.
pub(super) fn remove(dir: &Path) -> Result<()> {
    match fs::remove_dir_all(dir) {
        Err(reason) if reason.kind() != io::ErrorKind::NotFound => Err(failed(dir, reason)),
        _ => Ok(()),
    }
}

/// Whether files below a folder `to` can share their extents with those of a datadir, or with each other where
/// there is none yet.
///
/// # Errors
/// When they cannot: why, and what to do.
pub fn try_reflink(datadir: Option<&Path>, to: &Path) -> Result<()> {
    let new = || tempfile::NamedTempFile::new_in(to).map_err(|reason| failed(to, reason));
    let (original, copy) = (new()?, new()?);
    let given = datadir.and_then(first_file);
    let original = given.as_deref().unwrap_or(original.path());
    clone_file(original, copy.path()).map_err(|reason| not_shared(to, reason))
}

fn first_file(dir: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(dir).ok()?.flatten();
    let paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    let here = paths.iter().find(|path| path.is_file()).cloned();
    here.or_else(|| {
        paths
            .iter()
            .filter(|path| path.is_dir())
            .find_map(|dir| first_file(dir))
    })
}

/// Why a file could not be copied.
fn failed(path: &Path, reason: io::Error) -> Report {
    let path = path.display();
    match reason.kind() {
        io::ErrorKind::StorageFull => eyre!(
            "no space is left to write {path}; make room, or give --cache-dir a folder on a larger disk"
        ),
        _ => eyre!("failed to copy {path}: {reason}"),
    }
}

/// Why a file could not be given the extents of its original.
fn not_shared(path: &Path, reason: io::Error) -> Report {
    match reason.kind() {
        io::ErrorKind::StorageFull => failed(path, reason),
        _ => eyre!(
            "failed to share the extents of {} with its original: {reason}; that takes a file system such as XFS or \
             Btrfs, and --cache-dir on the same one as the original: otherwise give --reset copy",
            path.display()
        ),
    }
}

fn copy_folder(from: &Path, to: &Path, how: (Tables, Extents)) -> Result<()> {
    fs::create_dir_all(to).map_err(|reason| failed(to, reason))?;
    for entry in fs::read_dir(from).map_err(|reason| failed(from, reason))? {
        let entry = entry.map_err(|reason| failed(from, reason))?;
        let (source, name) = (entry.path(), entry.file_name());
        let target = to.join(&name);
        let kind = entry
            .file_type()
            .map_err(|reason| failed(&source, reason))?;
        if kind.is_dir() {
            copy_folder(&source, &target, how)?;
        } else if kind.is_file() && !NOT_COPIED.iter().any(|skipped| name == *skipped) {
            if how.0 == Tables::Shared && share(&source, &target) {
                continue;
            }
            match how.1 {
                Extents::Any => {
                    copy_file(&source, &target).map_err(|reason| failed(&target, reason))
                }
                Extents::Shared => {
                    clone_file(&source, &target).map_err(|reason| not_shared(&target, reason))
                }
            }?;
        }
    }
    Ok(())
}

/// Lengths of all files below a folder, in bytes.
pub fn file_bytes(dir: &Path) -> u64 {
    bytes(dir, &|_, data| data.len())
}

/// Bytes on disk of all files below a folder.
pub fn held_bytes(dir: &Path) -> u64 {
    bytes(dir, &|_, data| data.blocks() * BLOCK_BYTES)
}

/// Bytes on disk that a copy of a datadir takes, unless the file system shares more than tables.
pub fn copied_bytes(from: &Pristine) -> u64 {
    bytes(&from.path, &|path, data| match from.tables {
        Tables::Shared if is_table(path) => 0,
        _ => data.blocks() * BLOCK_BYTES,
    })
}

fn bytes(dir: &Path, of_file: &dyn Fn(&Path, &Metadata) -> u64) -> u64 {
    let of_entry = |entry: fs::DirEntry| match entry.metadata() {
        Ok(data) if data.is_dir() => bytes(&entry.path(), of_file),
        Ok(data) => of_file(&entry.path(), &data),
        Err(_) => 0,
    };
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(of_entry).sum()
}

fn is_table(path: &Path) -> bool {
    path.to_string_lossy().ends_with(TABLE_SUFFIX)
}

/// Gives a table a second name; whether that was possible.
fn share(from: &Path, to: &Path) -> bool {
    is_table(from) && fs::hard_link(from, to).is_ok()
}

/// Copies the data of a file extent by extent. `io::copy` lets the kernel do it, and file systems
/// that share extents share them.
fn copy_file(from: &Path, to: &Path) -> io::Result<()> {
    let (mut source, mut target) = (File::open(from)?, File::create(to)?);
    let length = source.metadata()?.len();
    target.set_len(length)?;
    let mut position = 0;
    while let Some((start, end)) = next_extent(&source, position, length)? {
        source.seek(SeekFrom::Start(start))?;
        target.seek(SeekFrom::Start(start))?;
        io::copy(&mut (&mut source).take(end - start), &mut target)?;
        position = end;
    }
    Ok(())
}

/// Gives a new file the extents of another: no data is copied, and a write to either leaves the other as it is.
fn clone_file(from: &Path, to: &Path) -> io::Result<()> {
    let (source, target) = (File::open(from)?, File::create(to)?);
    Ok(rustix::fs::ioctl_ficlone(&target, &source)?)
}

/// The next run of data at or after `position`; `None` when only a hole is left.
fn next_extent(file: &File, position: u64, length: u64) -> io::Result<Option<(u64, u64)>> {
    if position >= length {
        return Ok(None);
    }
    let seek =
        |offset: u64, whence| lseek(file, offset.cast_signed(), whence).map(i64::cast_unsigned);
    let start = match seek(position, Whence::SeekData) {
        Err(nix::errno::Errno::ENXIO) => return Ok(None),
        start => start?,
    };
    Ok(Some((start, seek(start, Whence::SeekHole)?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt as _;

    /// A folder, and in it a datadir with this folder and a place for its copy.
    fn places(inner: &str) -> (tempfile::TempDir, PathBuf, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs::create_dir_all(from.join(inner)).unwrap();
        (dir, from, to)
    }

    fn pristine(path: &Path, tables: Tables) -> Pristine {
        let path = path.to_owned();
        Pristine { path, tables }
    }

    #[test]
    fn keeps_content_and_holes_and_leaves_locks() {
        let (_dir, from, to) = places("db");
        let file = File::create(from.join("db/mdbx.dat")).unwrap();
        file.set_len(1 << 30).unwrap();
        file.write_at(b"beginning", 0).unwrap();
        file.write_at(b"middle", 512 << 20).unwrap();
        fs::write(from.join("db/mdbx.lck"), "x").unwrap();
        fs::write(from.join("chain.json"), "{}").unwrap();
        fs::create_dir_all(&to).unwrap();
        fs::write(to.join("old"), "x").unwrap();

        copy_datadir(&pristine(&from, Tables::Copied), &to, Extents::Any).unwrap();

        let copy = File::open(to.join("db/mdbx.dat")).unwrap();
        let mut read = [0; 6];
        copy.read_exact_at(&mut read, 512 << 20).unwrap();
        assert_eq!(&read, b"middle");
        assert_eq!(
            held_bytes(&to),
            copied_bytes(&pristine(&to, Tables::Shared))
        );
        assert!((8 << 10..10 << 20).contains(&held_bytes(&to)));
        assert_eq!(file_bytes(&to), (1 << 30) + 2);
        assert_eq!(file_bytes(&to.join("none")), 0);
        assert!(to.join("chain.json").exists());
        assert!(!to.join("db/mdbx.lck").exists() && !to.join("old").exists());
    }

    #[test]
    fn half_a_copy_is_removed() {
        let (dir, from, to) = places("a");
        fs::write(from.join("a/file"), "x").unwrap();
        // The folder that should get a copy lies inside a file.
        fs::write(dir.path().join("wall"), "").unwrap();
        assert!(
            copy_datadir(
                &pristine(&from, Tables::Copied),
                &dir.path().join("wall/to"),
                Extents::Any
            )
            .is_err()
        );
        copy_datadir(&pristine(&from, Tables::Copied), &to, Extents::Any).unwrap();
        fs::remove_dir_all(&from).unwrap();
        let gone = copy_datadir(&pristine(&from, Tables::Copied), &to, Extents::Any).unwrap_err();
        assert!(gone.to_string().starts_with("failed to copy "), "{gone}");
        assert!(!to.exists());
    }

    #[test]
    fn a_datadir_in_use_is_refused_and_a_stale_lock_is_not() {
        let (_dir, from, to) = places("db");
        let me = std::process::id();
        let now_s = Owner::this().started_s().unwrap();
        let named = format!("in use by process {me};");
        for (lock, refused) in [
            (format!("{me}\n{now_s}"), true),
            (format!("{me}"), true),
            // The pid of one that is gone, which another process has now.
            (format!("{me}\n{}", now_s - 60), false),
            (format!("4294967294\n{now_s}"), false),
        ] {
            fs::write(from.join("db/lock"), &lock).unwrap();
            let copied = copy_datadir(&pristine(&from, Tables::Copied), &to, Extents::Any);
            let error = copied.err().map(|error| error.to_string());
            let said = error.is_some_and(|error| error.contains(&named));
            assert_eq!(said, refused, "{lock}");
        }
        fs::create_dir(from.join("geth")).unwrap();
        let held = File::create(from.join("geth/LOCK")).unwrap();
        held.lock().unwrap();
        let refused =
            copy_datadir(&pristine(&from, Tables::Shared), &to, Extents::Any).unwrap_err();
        assert!(refused.to_string().contains("geth/LOCK"), "{refused}");
        held.unlock().unwrap();
        let held = File::create(from.join(HELD_FILE)).unwrap();
        // Of the file as it is open here, not of this process, so that this process finds it.
        fcntl(&held, FcntlArg::F_OFD_SETLK(&range_lock())).unwrap();
        let refused =
            copy_datadir(&pristine(&from, Tables::Shared), &to, Extents::Any).unwrap_err();
        assert!(refused.to_string().contains("holds LOCK;"), "{refused}");
        drop(held);
        copy_datadir(&pristine(&from, Tables::Shared), &to, Extents::Any).unwrap();
    }

    #[test]
    fn tables_are_shared_only_when_asked_for_and_nothing_else_is() {
        let (_dir, from, to) = places("geth/chaindata");
        let names = ["1.sst", "2.log"].map(|name| Path::new("geth/chaindata").join(name));
        for name in &names {
            fs::write(from.join(name), "content").unwrap();
        }
        for (tables, shared) in [
            (Tables::Copied, [false; 2]),
            (Tables::Shared, [true, false]),
        ] {
            copy_datadir(&pristine(&from, tables), &to, Extents::Any).unwrap();
            let inode = |path: PathBuf| fs::metadata(path).unwrap().ino();
            let is_same = |name| inode(from.join(name)) == inode(to.join(name));
            assert_eq!(names.each_ref().map(is_same), shared, "{tables:?}");
        }
        let log = fs::metadata(from.join(&names[1])).unwrap().blocks() * BLOCK_BYTES;
        assert_eq!(copied_bytes(&pristine(&from, Tables::Shared)), log);
        assert_eq!(copied_bytes(&pristine(&from, Tables::Copied)), 2 * log);
        fs::remove_dir_all(&to).unwrap();
        assert_eq!(fs::read(from.join(&names[0])).unwrap(), b"content");
    }
}
