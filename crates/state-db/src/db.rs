//! Opening a datadir: files, lock, MDBX environment and table handles.

use crate::{
    error::{Context, DbError},
    lock::StorageLock,
    pause::{HeldWriter, Pause},
    tables::Handles,
    tx::{DbView, DbWrite},
};
use signet_libmdbx::{Environment, EnvironmentFlags, Geometry, Mode, sys::PageSize};
use std::{
    fs::{self, File},
    io::{self, ErrorKind, Read},
    path::{Path, PathBuf},
    sync::Arc,
};

/// Contents of `db/database.version`.
const VERSION: &str = "2";

/// MDBX page size in bytes; reth's.
const PAGE_SIZE_BYTES: usize = 4096;

/// What MDBX wants the length of a database file to be a multiple of, in bytes. One that a failed
/// write has left with another length is refused by whoever only reads.
const FILE_GRAIN_BYTES: usize = 64 << 10;

/// Dirty pages a write transaction keeps in memory before it spills them to the file: 4 MiB. A page that
/// was spilled and changes again would be written twice; a batch goes through each table in the order of
/// its keys, so few do.
const DIRTY_PAGES_LIMIT: u64 = 1_024;

/// When a commit reaches the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SyncMode {
    /// A commit returns when it would survive a power failure.
    #[default]
    Durable,
    /// A power failure may lose the last commits, never consistency.
    SafeNoSync,
}

/// How to open a database.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// Upper bound of the file, in bytes of address space; in effect the next lower multiple of 64
    /// KiB, and at least that.
    pub max_size_bytes: usize,
    /// How much the file grows at a time, in bytes; in effect likewise a multiple of 64 KiB.
    pub growth_step_bytes: usize,
    /// When commits reach the disk.
    pub sync_mode: SyncMode,
    /// Only read; takes no lock, and works beside a writer.
    pub read_only: bool,
    /// Refuse any other process, readers included.
    pub exclusive: bool,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            max_size_bytes: 8 << 40,
            growth_step_bytes: 64 << 20,
            sync_mode: SyncMode::Durable,
            read_only: false,
            exclusive: false,
        }
    }
}

/// An open database. Clones share it; the last one closes it and gives the lock back.
#[derive(Debug, Clone)]
pub struct StateDb {
    pub(crate) inner: Arc<Inner>,
}

/// What the clones and transactions of a database share.
#[derive(Debug)]
pub(crate) struct Inner {
    // Declared before the lock, so that it closes first.
    pub(crate) env: Environment,
    pub(crate) handles: Handles,
    pub(crate) folder: PathBuf,
    pub(crate) pause: Arc<Pause>,
    _lock: Option<StorageLock>,
}

impl StateDb {
    /// Opens the database in `datadir/db`, creating it unless read-only.
    ///
    /// Fails with [`DbError::InUse`] while another process has it open for writing.
    /// A database that does not exist yet appears complete or not at all, whenever this is cut.
    pub fn open(datadir: &Path, options: &OpenOptions) -> Result<Self, DbError> {
        let folder = datadir.join("db");
        Self::open_folder(datadir, folder.clone(), options).map_err(|e| e.explained(&folder))
    }

    fn open_folder(
        datadir: &Path,
        folder: PathBuf,
        options: &OpenOptions,
    ) -> Result<Self, DbError> {
        let lock = if options.read_only {
            if !folder.join("mdbx.dat").exists() {
                return Err(DbError::Missing {
                    path: datadir.to_path_buf(),
                });
            }
            None
        } else {
            fs::create_dir_all(&folder).map_err(|source| DbError::File {
                action: "create the folder",
                path: folder.clone(),
                source,
            })?;
            Some(StorageLock::acquire(&folder.join("lock"))?)
        };
        check_file(&folder.join("mdbx.dat"))?;
        check_version(&folder, options.read_only)?;
        let env = open_environment(&folder, options)?;
        let handles = open_tables(&env, options.read_only)?;
        Ok(Self {
            inner: Arc::new(Inner {
                env,
                handles,
                folder,
                pause: Arc::default(),
                _lock: lock,
            }),
        })
    }

    /// Begins a read transaction: one consistent snapshot, to be used by one thread, briefly.
    pub fn view(&self) -> Result<DbView, DbError> {
        DbView::begin(self.inner.clone())
    }

    /// Stops whoever writes, at the next row, until the answer is dropped: for moments in which all
    /// processors are needed elsewhere. A commit that has begun goes on.
    pub fn hold_writer(&self) -> HeldWriter {
        HeldWriter::new(self.inner.pause.clone())
    }

    /// Names the database in an error that tells of missing room.
    pub(crate) fn explain<T>(&self, result: Result<T, DbError>) -> Result<T, DbError> {
        result.map_err(|error| error.explained(&self.inner.folder))
    }

    /// Begins the write transaction, waiting for the current one to end.
    pub(crate) fn write(&self) -> Result<DbWrite, DbError> {
        DbWrite::begin(self.inner.clone())
    }
}

/// Writes a whole file durably: a crash, or a loss of power, leaves the old one or the new one. The new one is
/// written beside it, with `.new` behind its name.
///
/// # Errors
/// When it cannot be written; the old one is left.
pub fn replace_file(path: &Path, contents: &[u8]) -> io::Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    fs::write(&new, contents)?;
    File::open(&new)?.sync_all()?;
    fs::rename(&new, path)?;
    // The name is in the folder, which is written back apart from the file.
    path.parent()
        .map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

/// Writes the version file, or checks what it says.
fn check_version(folder: &Path, read_only: bool) -> Result<(), DbError> {
    let path = folder.join("database.version");
    let fail = |action, source| DbError::File {
        action,
        path: path.clone(),
        source,
    };
    match fs::read_to_string(&path) {
        Ok(found) if found.trim() == VERSION => Ok(()),
        Ok(found) => Err(DbError::Version { path, found }),
        Err(error) if error.kind() == ErrorKind::NotFound && !read_only => {
            replace_file(&path, VERSION.as_bytes()).map_err(|source| fail("write", source))
        }
        Err(source) => Err(fail("read", source)),
    }
}

/// Refuses a database file that was cut short. MDBX would read past its end, or fill it up.
///
/// A file of less than the three meta pages is one whose creation was interrupted; MDBX begins it
/// anew.
fn check_file(path: &Path) -> Result<(), DbError> {
    let fail = |source| DbError::File {
        action: "read",
        path: path.to_path_buf(),
        source,
    };
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(fail(source)),
    };
    let mut pages = Vec::with_capacity(3 * PAGE_SIZE_BYTES);
    let mut head = file.by_ref().take(3 * PAGE_SIZE_BYTES as u64);
    head.read_to_end(&mut pages).map_err(fail)?;
    if pages.len() < 3 * PAGE_SIZE_BYTES {
        return Ok(());
    }
    // Measured after reading: a writer beside us lets it grow before it says so.
    let length = file.metadata().map_err(fail)?.len();
    let metas = pages.chunks(PAGE_SIZE_BYTES).filter_map(Meta::parse);
    match metas.max_by_key(|meta| meta.transaction) {
        Some(meta) if meta.used_bytes > length => Err(DbError::Truncated {
            path: path.to_path_buf(),
            length,
            needed: meta.used_bytes,
        }),
        Some(_) => Ok(()),
        None => Err(DbError::NotADatabase {
            path: path.to_path_buf(),
        }),
    }
}

/// What a meta page of MDBX's format 3 says.
struct Meta {
    /// The transaction that wrote it.
    transaction: u64,
    /// Where the content of the file ends.
    used_bytes: u64,
}

impl Meta {
    /// The format's magic number, without the version in the lowest byte.
    const MAGIC: u64 = 0x0059_659D_BDEF_4C11;
    /// Offsets behind the page header of 20 bytes: magic, transaction, first unallocated page in
    /// the geometry, and the transaction again, which a torn page has differently.
    const OFFSETS: [usize; 4] = [20, 28, 56, 196];

    /// `None` when it is no meta page or was only half written.
    fn parse(page: &[u8]) -> Option<Self> {
        let number = |at: usize| Some(u64::from_le_bytes(page.get(at..at + 8)?.try_into().ok()?));
        let [magic, first, end, second] = Self::OFFSETS.map(number);
        let transaction = first?;
        let whole = magic? >> 8 == Self::MAGIC && second? == transaction;
        whole.then_some(Self {
            transaction,
            used_bytes: (end? & u64::from(u32::MAX)) * PAGE_SIZE_BYTES as u64,
        })
    }
}

/// As much of a length as a database file can have.
fn whole_grains(bytes: usize) -> usize {
    (bytes / FILE_GRAIN_BYTES).max(1) * FILE_GRAIN_BYTES
}

fn open_environment(folder: &Path, options: &OpenOptions) -> Result<Environment, DbError> {
    let mode = if options.read_only {
        Mode::ReadOnly
    } else {
        Mode::ReadWrite {
            sync_mode: match options.sync_mode {
                SyncMode::Durable => signet_libmdbx::SyncMode::Durable,
                SyncMode::SafeNoSync => signet_libmdbx::SyncMode::SafeNoSync,
            },
        }
    };
    let mut builder = Environment::builder();
    builder
        .set_max_dbs(256)
        .set_max_readers(32_000)
        .set_txn_dp_limit(DIRTY_PAGES_LIMIT)
        .set_geometry(Geometry {
            size: Some(0..whole_grains(options.max_size_bytes)),
            growth_step: Some(
                isize::try_from(whole_grains(options.growth_step_bytes)).unwrap_or(isize::MAX),
            ),
            shrink_threshold: Some(0),
            page_size: Some(PageSize::Set(PAGE_SIZE_BYTES)),
        })
        .set_flags(EnvironmentFlags {
            mode,
            no_rdahead: true,
            coalesce: true,
            exclusive: options.exclusive,
            ..Default::default()
        });
    builder.open(folder).doing("open", "the database")
}

/// Opens every table; their handles live in the environment once the transaction has committed.
fn open_tables(env: &Environment, read_only: bool) -> Result<Handles, DbError> {
    let handles;
    if read_only {
        let tx = env
            .begin_ro_unsync()
            .doing("begin reading", "the database")?;
        handles =
            Handles::open(|table| tx.open_db(Some(table.name())).doing("open", table.name()))?;
        tx.commit().doing("commit", "the database")?;
    } else {
        let tx = env
            .begin_rw_unsync()
            .doing("begin writing", "the database")?;
        handles = Handles::open(|table| {
            tx.create_db(Some(table.name()), table.flags())
                .doing("create", table.name())
        })?;
        tx.commit().doing("commit", "the database")?;
    }
    Ok(handles)
}
