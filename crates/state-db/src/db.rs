//! Opening a datadir: files, lock, MDBX environment and table handles.

use crate::{
    error::{Context, DbError},
    lock::StorageLock,
    tables::Handles,
    tx::{DbView, DbWrite},
};
use signet_libmdbx::{Environment, EnvironmentFlags, Geometry, Mode, sys::PageSize};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Contents of `db/database.version`.
const VERSION: &str = "2";

/// MDBX page size in bytes; reth's.
const PAGE_SIZE_BYTES: usize = 4096;

/// Dirty pages a write transaction keeps in memory before it spills them to the file: 256 MiB.
const DIRTY_PAGES_LIMIT: u64 = 65_536;

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
    /// Upper bound of the file, in bytes of address space.
    pub max_size_bytes: usize,
    /// How much the file grows at a time, in bytes.
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
    _lock: Option<StorageLock>,
}

impl StateDb {
    /// Opens the database in `datadir/db`, creating it unless read-only.
    ///
    /// Fails with [`DbError::InUse`] while another process has it open for writing.
    pub fn open(datadir: &Path, options: &OpenOptions) -> Result<Self, DbError> {
        let folder = datadir.join("db");
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
        check_version(&folder.join("database.version"), options.read_only)?;
        let env = open_environment(&folder, options)?;
        let handles = open_tables(&env, options.read_only)?;
        Ok(Self {
            inner: Arc::new(Inner {
                env,
                handles,
                folder,
                _lock: lock,
            }),
        })
    }

    /// Begins a read transaction: one consistent snapshot, to be used by one thread, briefly.
    pub fn view(&self) -> Result<DbView, DbError> {
        DbView::begin(self.inner.clone())
    }

    /// Begins the write transaction, waiting for the current one to end.
    pub(crate) fn write(&self) -> Result<DbWrite, DbError> {
        DbWrite::begin(self.inner.clone())
    }
}

/// Writes the version file, or checks what it says.
fn check_version(path: &Path, read_only: bool) -> Result<(), DbError> {
    match fs::read_to_string(path) {
        Ok(found) if found.trim() == VERSION => Ok(()),
        Ok(found) => Err(DbError::Version {
            path: path.to_path_buf(),
            found,
        }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && !read_only => {
            fs::write(path, VERSION).map_err(|source| DbError::File {
                action: "write",
                path: path.to_path_buf(),
                source,
            })
        }
        Err(source) => Err(DbError::File {
            action: "read",
            path: path.to_path_buf(),
            source,
        }),
    }
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
            size: Some(0..options.max_size_bytes),
            growth_step: Some(isize::try_from(options.growth_step_bytes).unwrap_or(isize::MAX)),
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
