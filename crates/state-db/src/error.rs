//! What can go wrong in storage, as text that completes "failed to ...".

use crate::types::BlockNumHash;
use alloy_primitives::{Address, B256};
use nix::{errno::Errno, sys::statvfs::statvfs};
use signet_libmdbx::{MdbxError, ReadError};
use state_root::cursor::CursorError;
use std::path::{Path, PathBuf};

/// Free space under which a failed write is blamed on the disk, in bytes.
const FULL_BELOW_BYTES: u64 = 64 << 20;

/// A storage failure. The transaction it happened in was aborted: nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum DbError {
    /// MDBX refused an operation.
    #[error("{action} {table}: {source}")]
    Mdbx {
        /// What was being done, as a verb.
        action: &'static str,
        /// The table it was done to, or "the database".
        table: &'static str,
        /// MDBX's reason.
        source: ReadError,
    },
    /// A file of the datadir could not be used.
    #[error("{action} {}: {source}", path.display())]
    File {
        /// What was being done, as a verb phrase.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The operating system's reason.
        source: std::io::Error,
    },
    /// Another live process holds the datadir's lock.
    #[error("storage directory is currently in use as read-write by another process: PID {pid}")]
    InUse {
        /// The owner named by the lock file.
        pid: u32,
    },
    /// There is no room to write. The transaction under way was aborted; earlier ones are intact.
    #[error(
        "{doing}: {shortage} ({}). Nothing persisted before is lost: {remedy}, then start again",
        path.display()
    )]
    Full {
        /// What was attempted, as a verb phrase.
        doing: String,
        /// The folder or file there is no room in.
        path: PathBuf,
        /// What is used up.
        shortage: &'static str,
        /// What the user can do.
        remedy: &'static str,
    },
    /// The datadir was written in a layout this program does not know.
    #[error("open the database: {} says version {found:?}, only version \"2\" is supported", path.display())]
    Version {
        /// The version file.
        path: PathBuf,
        /// What it contains.
        found: String,
    },
    /// The database file ends before its content does.
    #[error(
        "open the database: {} has {length} bytes, but {needed} are in use: it was cut short. \
         Nothing was changed; restore it from a copy or create the datadir again",
        path.display()
    )]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Its length.
        length: u64,
        /// How many bytes its content takes.
        needed: u64,
    },
    /// The database file is of another program, or its first pages are damaged.
    #[error(
        "open the database: {} does not begin as an MDBX file. Nothing was changed; restore it \
         from a copy or create the datadir again",
        path.display()
    )]
    NotADatabase {
        /// The file.
        path: PathBuf,
    },
    /// A database to be opened read-only does not exist or is not a complete one.
    #[error("open the database read-only: {} holds no initialised database", path.display())]
    Missing {
        /// The datadir.
        path: PathBuf,
    },
    /// The database has no block at all.
    #[error("use the database: it has no genesis block")]
    NoGenesis,
    /// A block to append does not follow the head.
    #[error(
        "append block {number}: its parent {parent_hash} is not the database head {} ({})",
        head.number,
        head.hash
    )]
    NotNext {
        /// Number of the refused block.
        number: u64,
        /// Its parent hash.
        parent_hash: B256,
        /// The head, or the block before it in the same batch.
        head: BlockNumHash,
    },
    /// A block and its receipts or senders have different lengths.
    #[error(
        "append block {number}: {transactions} transactions, {senders} senders, {receipts} receipts"
    )]
    Lengths {
        /// Number of the refused block.
        number: u64,
        /// Number of transactions.
        transactions: usize,
        /// Number of senders.
        senders: usize,
        /// Number of receipts.
        receipts: usize,
    },
    /// A row's bytes are not what its table holds.
    #[error("decode the corrupt row of {table} at {key}; `db verify` lists what else is wrong")]
    CorruptRow {
        /// The table's name.
        table: &'static str,
        /// The row's key as hexadecimal digits.
        key: String,
    },
    /// A row that must exist is absent.
    #[error("read {table}: {problem}")]
    Corrupt {
        /// The table's name.
        table: &'static str,
        /// What is wrong with the row.
        problem: String,
    },
    /// An unwind was interrupted and has to be finished before blocks are added.
    #[error("append blocks: the interrupted unwind to block {target} must be finished first")]
    PendingUnwind {
        /// The interrupted unwind's target.
        target: u64,
    },
    /// A bulk load or genesis was asked of a database that already has content.
    #[error("load state: the database is not empty")]
    NotEmpty,
    /// The same account was loaded twice.
    #[error("load state: account {0} was given twice")]
    DuplicateAccount(Address),
    /// The same slot of an account was loaded twice.
    #[error("load state: slot {slot} of account {address} was given twice")]
    DuplicateSlot {
        /// The account.
        address: Address,
        /// The slot.
        slot: B256,
    },
    /// A slot came before any account.
    #[error("load state: slot {0} was given before any account")]
    SlotWithoutAccount(B256),
    /// The genesis header commits to another state than the loaded one.
    #[error("write genesis: header state root is {header}, the loaded state has {loaded}")]
    GenesisRoot {
        /// Root in the header.
        header: B256,
        /// Root of what is in the database.
        loaded: B256,
    },
    /// A genesis block must have number 0 and no transactions.
    #[error(
        "write genesis: block {number} with {transactions} transactions is not a genesis block"
    )]
    NotGenesis {
        /// Its number.
        number: u64,
        /// Its number of transactions.
        transactions: usize,
    },
}

impl DbError {
    /// Whether room to write is what is missing.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Full { .. })
    }

    /// Whether storage itself failed (no room, a damaged file) and not what was asked of it.
    pub fn is_storage_failure(&self) -> bool {
        match self {
            Self::Full { .. } | Self::Truncated { .. } | Self::NotADatabase { .. } => true,
            Self::Mdbx {
                source: ReadError::Mdbx(source),
                ..
            } => matches!(
                source,
                MdbxError::Corrupted
                    | MdbxError::Invalid
                    | MdbxError::PageNotFound
                    | MdbxError::Panic
                    | MdbxError::WannaRecovery
                    | MdbxError::VersionMismatch
                    | MdbxError::Other(_)
            ),
            _ => false,
        }
    }

    /// Tells a want of room from other failures of the database in `folder`.
    pub(crate) fn explained(self, folder: &Path) -> Self {
        let (doing, code) = match &self {
            Self::Mdbx {
                action,
                table,
                source: ReadError::Mdbx(source),
            } => (format!("{action} {table}"), source.to_err_code()),
            Self::File {
                action,
                path,
                source,
            } => {
                let doing = format!("{action} {}", path.display());
                (doing, source.raw_os_error().unwrap_or_default())
            }
            _ => return self,
        };
        match shortage(code, folder) {
            Some((shortage, remedy)) => Self::Full {
                doing,
                path: folder.to_path_buf(),
                shortage,
                remedy,
            },
            None => self,
        }
    }
}

/// What is used up when an operation fails with `code`, and what to do; `None` when it is not room.
fn shortage(code: i32, folder: &Path) -> Option<(&'static str, &'static str)> {
    let full = ("no space is left on the disk", "free some space");
    match Errno::from_raw(code) {
        Errno::ENOSPC => Some(full),
        // MDBX's answer to a write that was cut short.
        Errno::EIO if free_bytes(folder)? < FULL_BELOW_BYTES => Some(full),
        Errno::EDQUOT => Some(("the disk quota is used up", "free some space")),
        Errno::EFBIG => Some((
            "the largest file size allowed is reached",
            "raise the limit (ulimit -f)",
        )),
        _ if code == MdbxError::MapFull.to_err_code() => Some((
            "the largest database size is reached",
            "raise --db.max-size",
        )),
        _ => None,
    }
}

/// Bytes an unprivileged process may still write where `folder` is.
fn free_bytes(folder: &Path) -> Option<u64> {
    let disk = statvfs(folder).ok()?;
    Some(disk.blocks_available() * disk.fragment_size())
}

/// Attaches what was being done to an MDBX result.
pub(crate) trait Context<T> {
    /// Names the failed action by its verb and the table it was done to.
    fn doing(self, action: &'static str, table: &'static str) -> Result<T, DbError>;
}

impl<T, E: Into<ReadError>> Context<T> for Result<T, E> {
    fn doing(self, action: &'static str, table: &'static str) -> Result<T, DbError> {
        self.map_err(|e| DbError::Mdbx {
            action,
            table,
            source: e.into(),
        })
    }
}

impl From<DbError> for CursorError {
    fn from(error: DbError) -> Self {
        Self::Database(error.to_string())
    }
}

/// Why an unwind did not happen.
#[derive(Debug, thiserror::Error)]
pub enum UnwindError {
    /// The target is above the database's head. The text is reth's.
    #[error("Target block number {target} is higher than the latest block number {latest}")]
    AboveTip {
        /// The block asked for.
        target: u64,
        /// The head.
        latest: u64,
    },
    /// The state restored from the changesets does not have the target header's root.
    #[error(
        "unwind to block {target}: restored state root {computed} differs from the header's {expected}"
    )]
    RootMismatch {
        /// The block asked for.
        target: u64,
        /// Root of the restored state.
        computed: B256,
        /// Root in the target's header.
        expected: B256,
    },
    /// Storage failed.
    #[error(transparent)]
    Database(#[from] DbError),
    /// The root of the restored state could not be computed.
    #[error("unwind to block {target}: recompute the state root: {problem}")]
    Root {
        /// The block asked for.
        target: u64,
        /// What failed.
        problem: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explained(code: i32, folder: &Path) -> String {
        let error = DbError::Mdbx {
            action: "commit",
            table: "the database",
            source: MdbxError::from_err_code(code).into(),
        };
        let error = error.explained(folder);
        assert_eq!(error.is_full(), error.is_storage_failure(), "{error}");
        error.to_string()
    }

    #[test]
    fn want_of_room_is_told_from_other_failures() {
        let dir = tempfile::tempdir().unwrap();
        for (code, expected) in [
            (Errno::ENOSPC as i32, "no space is left on the disk"),
            (Errno::EDQUOT as i32, "the disk quota is used up"),
            (Errno::EFBIG as i32, "the largest file size allowed"),
            (MdbxError::MapFull.to_err_code(), "raise --db.max-size"),
        ] {
            let text = explained(code, dir.path());
            assert!(text.starts_with("commit the database: "), "{text}");
            assert!(text.contains(expected), "{text}");
            assert!(text.contains(&dir.path().display().to_string()), "{text}");
        }
        let busy = explained(MdbxError::Busy.to_err_code(), dir.path());
        assert_eq!(
            busy,
            "commit the database: another write transaction is running"
        );
    }
}
