//! Loading a base state in one pass, in bounded memory.
//!
//! ```text
//!   items ─► sorters: address │ address+slot │ keccak(address) │ keccak(address)+keccak(slot) │ code
//!              │                                  │                 │
//!              ▼ sorted append                    └──── together ───┘─► storage roots, account root,
//!            plain tables                                hashed tables   stored nodes ─► sorters ─►
//!                                                                                        trie tables
//! ```
//!
//! One transaction writes everything, so that an interrupted load leaves the database empty. No
//! changesets and histories are written: what no block changed is found in the plain tables.

mod sort;
mod tries;

use crate::{
    codec::{self, PATH_SUBKEY_LEN},
    db::StateDb,
    error::{Context, DbError},
    tables::Table,
    tx::DbWrite,
    types::{LoadItem, LoadSummary},
};
use alloy_primitives::{Address, B256, Bytes, KECCAK256_EMPTY, U256, keccak256, map::HashMap};
use alloy_trie::EMPTY_ROOT_HASH;
use reth_codecs::Compact;
use reth_primitives_traits::Bytecode;
use signet_libmdbx::{Cursor, Rw};
use sort::Sorted;
pub(crate) use sort::Sorter;
use state_root::updates::Account;
use std::{
    io,
    path::{Path, PathBuf},
};
pub(crate) use tries::{BUILDER_NODES, NodeSorters, account_leaf};
use tries::{append_account_nodes, append_storage_nodes};

/// Memory for sorting, over all sorters, in bytes.
const SORT_BUDGET_BYTES: usize = 256 << 20;

/// Number of codes whose hash is remembered.
const KNOWN_CODES: usize = 1024;

/// Takes the items of a base state and stores them.
#[derive(Debug)]
pub struct Loader {
    db: StateDb,
    folder: PathBuf,
    budget_bytes: usize,
    plain_accounts: Sorter,
    plain_slots: Sorter,
    hashed_accounts: Sorter,
    hashed_slots: Sorter,
    codes: Sorter,
    /// Hashes of codes seen lately by where they are in memory, with the code, which keeps the
    /// memory from being used for another.
    known_codes: HashMap<(usize, usize), (Bytes, B256)>,
    /// The account whose slots may follow, and its hash.
    current: Option<(Address, B256)>,
    summary: LoadSummary,
}

impl Loader {
    /// Begins a load. Fails unless the database is empty.
    pub fn new(db: &StateDb) -> Result<Self, DbError> {
        Self::with_budget(db, SORT_BUDGET_BYTES)
    }

    /// The same with another amount of memory for sorting, in bytes.
    pub fn with_budget(db: &StateDb, budget_bytes: usize) -> Result<Self, DbError> {
        let view = db.view()?;
        for table in Table::ALL {
            if !view.is_empty(table)? {
                return Err(DbError::NotEmpty);
            }
        }
        let folder = db.inner.folder.clone();
        let sorter =
            |key_len, eighths| Sorter::new(key_len, budget_bytes / 8 * eighths, folder.clone());
        Ok(Self {
            db: db.clone(),
            budget_bytes,
            plain_accounts: sorter(20, 1),
            plain_slots: sorter(52, 2),
            hashed_accounts: sorter(32, 1),
            hashed_slots: sorter(64, 3),
            codes: sorter(32, 1),
            folder,
            known_codes: HashMap::default(),
            current: None,
            summary: LoadSummary {
                state_root: EMPTY_ROOT_HASH,
                accounts: 0,
                slots: 0,
                codes: 0,
            },
        })
    }

    /// Takes the next item. Accounts may come in any order, slots after their account.
    pub fn push(&mut self, item: LoadItem) -> Result<(), DbError> {
        let pushed = self.take(item);
        self.db.explain(pushed)
    }

    fn take(&mut self, item: LoadItem) -> Result<(), DbError> {
        match item {
            LoadItem::Account {
                address,
                nonce,
                balance,
                code,
            } => {
                let code_hash = match code {
                    Some(code) => self.add_code(code)?,
                    None => KECCAK256_EMPTY,
                };
                self.add_account(
                    address,
                    &Account {
                        nonce,
                        balance,
                        code_hash,
                    },
                )
            }
            LoadItem::Slot { key, value } => self.add_slot(key, value),
        }
    }

    fn add_account(&mut self, address: Address, account: &Account) -> Result<(), DbError> {
        let hashed = keccak256(address);
        let mut value = Vec::with_capacity(80);
        codec::encode_account(account, &mut value);
        let pushed = self
            .plain_accounts
            .push(address.as_slice(), &value)
            .and_then(|()| self.hashed_accounts.push(hashed.as_slice(), &value));
        self.current = Some((address, hashed));
        self.summary.accounts += 1;
        self.sorted(pushed)
    }

    fn add_slot(&mut self, slot: B256, value: U256) -> Result<(), DbError> {
        let Some((address, hashed)) = self.current else {
            return Err(DbError::SlotWithoutAccount(slot));
        };
        if value.is_zero() {
            return Ok(());
        }
        let bytes = value.to_be_bytes::<32>();
        let trimmed = &bytes[value.leading_zeros() / 8..];
        let mut plain_key = [0; 52];
        plain_key[..20].copy_from_slice(address.as_slice());
        plain_key[20..].copy_from_slice(slot.as_slice());
        let mut hashed_key = [0; 64];
        hashed_key[..32].copy_from_slice(hashed.as_slice());
        hashed_key[32..].copy_from_slice(keccak256(slot).as_slice());
        let pushed = self
            .plain_slots
            .push(&plain_key, trimmed)
            .and_then(|()| self.hashed_slots.push(&hashed_key, trimmed));
        self.summary.slots += 1;
        self.sorted(pushed)
    }

    fn add_code(&mut self, code: Bytes) -> Result<B256, DbError> {
        if code.is_empty() {
            return Ok(KECCAK256_EMPTY);
        }
        let place = (code.as_ptr() as usize, code.len());
        if let Some((_, hash)) = self.known_codes.get(&place) {
            return Ok(*hash);
        }
        let hash = keccak256(&code);
        let pushed = self.codes.push(hash.as_slice(), &code);
        self.sorted(pushed)?;
        if self.known_codes.len() == KNOWN_CODES {
            self.known_codes.clear();
        }
        self.known_codes.insert(place, (code, hash));
        Ok(hash)
    }

    /// Names the folder in which sorting failed.
    fn sorted<T>(&self, result: io::Result<T>) -> Result<T, DbError> {
        result.map_err(|source| sort_error(&self.folder, source))
    }

    /// Stores everything in one commit and computes the state root.
    pub fn finish(self) -> Result<LoadSummary, DbError> {
        let db = self.db.clone();
        db.explain(self.store())
    }

    fn store(self) -> Result<LoadSummary, DbError> {
        let Self {
            db,
            folder,
            budget_bytes,
            mut summary,
            known_codes,
            ..
        } = self;
        drop(known_codes);
        let fail = |source| sort_error(&folder, source);
        let tx = db.write()?;
        append_plain_accounts(&tx, Input::new(self.plain_accounts, &folder)?)?;
        append_plain_slots(&tx, Input::new(self.plain_slots, &folder)?)?;
        summary.codes = append_codes(&tx, Input::new(self.codes, &folder)?)?;
        let sorter =
            |key_len, eighths| Sorter::new(key_len, budget_bytes / 8 * eighths, folder.clone());
        let mut nodes = NodeSorters {
            account_nodes: sorter(PATH_SUBKEY_LEN, 1),
            storage_nodes: sorter(32 + PATH_SUBKEY_LEN, 2),
            folder: &folder,
        };
        let accounts = Input::new(self.hashed_accounts, &folder)?;
        let slots = Input::new(self.hashed_slots, &folder)?;
        summary.state_root = nodes.append_hashed(&tx, accounts, slots)?;
        let NodeSorters {
            account_nodes,
            storage_nodes,
            ..
        } = nodes;
        append_account_nodes(&tx, account_nodes.finish().map_err(fail)?, &folder)?;
        append_storage_nodes(&tx, storage_nodes.finish().map_err(fail)?, &folder)?;
        tx.commit()?;
        Ok(summary)
    }
}

/// Names the folder in which sorting failed.
pub(crate) fn sort_error(folder: &Path, source: io::Error) -> DbError {
    DbError::File {
        action: "sort the state in",
        path: folder.to_path_buf(),
        source,
    }
}

/// Sorted records with the current one at hand.
pub(crate) struct Input<'a> {
    sorted: Sorted,
    folder: &'a Path,
    /// Key of the current record.
    pub(crate) key: Vec<u8>,
    /// Its value.
    pub(crate) value: Vec<u8>,
    /// Whether there is a current record.
    pub(crate) live: bool,
}

impl<'a> Input<'a> {
    /// Begins at the first record. Runs are in `folder`.
    pub(crate) fn new(sorter: Sorter, folder: &'a Path) -> Result<Self, DbError> {
        let sorted = sorter
            .finish()
            .map_err(|source| sort_error(folder, source))?;
        let mut input = Self {
            sorted,
            folder,
            key: Vec::new(),
            value: Vec::new(),
            live: true,
        };
        input.advance()?;
        Ok(input)
    }

    /// Goes to the next record; true when its key equals the one before.
    pub(crate) fn advance(&mut self) -> Result<bool, DbError> {
        let next = self
            .sorted
            .next()
            .map_err(|source| sort_error(self.folder, source))?;
        let Some((key, value)) = next else {
            self.live = false;
            return Ok(false);
        };
        let repeated = key == self.key;
        self.key.clear();
        self.key.extend_from_slice(key);
        self.value.clear();
        self.value.extend_from_slice(value);
        Ok(repeated)
    }
}

fn append_plain_accounts(tx: &DbWrite, mut input: Input<'_>) -> Result<(), DbError> {
    let table = Table::PlainAccountState;
    let mut cursor = tx.cursor(table)?;
    while input.live {
        cursor
            .append(&input.key, &input.value)
            .doing("append to", table.name())?;
        if input.advance()? {
            return Err(DbError::DuplicateAccount(Address::from_slice(&input.key)));
        }
    }
    Ok(())
}

fn append_plain_slots(tx: &DbWrite, mut input: Input<'_>) -> Result<(), DbError> {
    let table = Table::PlainStorageState;
    let mut cursor = tx.cursor(table)?;
    let mut row = Vec::with_capacity(64);
    while input.live {
        let (address, slot) = input.key.split_at(20);
        append_slot(&mut cursor, table, address, (slot, &input.value), &mut row)?;
        if input.advance()? {
            return Err(DbError::DuplicateSlot {
                address: Address::from_slice(&input.key[..20]),
                slot: B256::from_slice(&input.key[20..]),
            });
        }
    }
    Ok(())
}

fn append_slot(
    cursor: &mut Cursor<'_, Rw>,
    table: Table,
    key: &[u8],
    (slot, value): (&[u8], &[u8]),
    row: &mut Vec<u8>,
) -> Result<(), DbError> {
    row.clear();
    row.extend_from_slice(slot);
    row.extend_from_slice(value);
    cursor.append_dup(key, row).doing("append to", table.name())
}

/// Stores each code once; returns how many there are.
fn append_codes(tx: &DbWrite, mut input: Input<'_>) -> Result<u64, DbError> {
    let table = Table::Bytecodes;
    let mut cursor = tx.cursor(table)?;
    let mut count = 0;
    let mut repeated = false;
    let mut value = Vec::new();
    while input.live {
        if !repeated {
            value.clear();
            Bytecode::new_raw(Bytes::copy_from_slice(&input.value)).to_compact(&mut value);
            cursor
                .append(&input.key, &value)
                .doing("append to", table.name())?;
            count += 1;
        }
        repeated = input.advance()?;
    }
    Ok(count)
}
