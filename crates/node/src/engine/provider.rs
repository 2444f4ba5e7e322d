//! Plain state after one block: in-memory blocks newest to oldest, then one database snapshot.

use super::{
    reader::ReadError,
    state_cache::{CachedState, Known},
    tree::ExecutedBlock,
    witness::Reads,
};
use alloy_primitives::{Address, B256, KECCAK256_EMPTY, U256, map::B256Map};
use revm::{DatabaseRef, bytecode::Bytecode, database::BundleState, state::AccountInfo};
use state_db::DbView;
use state_root::updates::Account;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// Codes kept decoded. At the largest code size this is under 100 MiB.
const MAX_CACHED_CODES: usize = 4096;

/// Contract code by hash, analysed once and shared by all readers.
#[derive(Default)]
pub(super) struct CodeCache {
    codes: RwLock<B256Map<Bytecode>>,
}

impl CodeCache {
    fn get(&self, hash: B256) -> Option<Bytecode> {
        self.codes
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&hash)
            .cloned()
    }

    fn insert(&self, hash: B256, code: Bytecode) {
        let mut codes = self.codes.write().unwrap_or_else(PoisonError::into_inner);
        if codes.len() >= MAX_CACHED_CODES {
            codes.clear();
        }
        codes.insert(hash, code);
    }
}

/// The state after one block. Holds a read transaction: use it and drop it, on one thread.
pub struct StateReader {
    layers: Arc<[Arc<ExecutedBlock>]>,
    view: DbView,
    history: Option<u64>,
    codes: Arc<CodeCache>,
    /// What is known of this state without looking it up.
    cached: Option<CachedState>,
    /// Number of the block below the layers; known only with `cached`.
    stored: u64,
    /// Where reads of an execution are noted, when somebody wants to know.
    reads: Option<Arc<Mutex<Reads>>>,
}

impl StateReader {
    /// Over `layers` (newest first) and `view`; with `history`, as of that stored block instead of
    /// the database head.
    pub(super) fn new(
        layers: Arc<[Arc<ExecutedBlock>]>,
        view: DbView,
        history: Option<u64>,
        codes: Arc<CodeCache>,
    ) -> Self {
        Self {
            layers,
            view,
            history,
            codes,
            cached: None,
            stored: 0,
            reads: None,
        }
    }

    /// Looks in a cache of the same state first, and keeps there what it reads.
    pub(super) fn with_cache(mut self, cached: Option<CachedState>) -> Result<Self, ReadError> {
        self.stored = match self.history {
            Some(block) => block,
            None => self.view.head()?.map_or(0, |head| head.number),
        };
        self.cached = cached;
        Ok(self)
    }

    /// Notes what an execution reads from now on.
    pub(super) fn noting(mut self, reads: Arc<Mutex<Reads>>) -> Self {
        self.reads = Some(reads);
        self
    }

    fn note(&self, note: impl FnOnce(&mut Reads)) {
        if let Some(reads) = &self.reads {
            note(&mut reads.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// An account, or `None` when it does not exist.
    pub fn account(&self, address: Address) -> Result<Option<Account>, ReadError> {
        let Some(cached) = &self.cached else {
            return self.look_up_account(address);
        };
        let account = match cached.account(&address) {
            Known::Value(account) => return Ok(account),
            Known::UnchangedAfter(block) if block <= self.stored => self.stored_account(address)?,
            _ => self.look_up_account(address)?,
        };
        cached.keep_account(address, account);
        Ok(account)
    }

    fn look_up_account(&self, address: Address) -> Result<Option<Account>, ReadError> {
        for bundle in self.bundles() {
            if let Some(account) = bundle.state.get(&address) {
                return Ok(account
                    .info
                    .as_ref()
                    .map(super::persistence::stored_account));
            }
        }
        self.stored_account(address)
    }

    fn stored_account(&self, address: Address) -> Result<Option<Account>, ReadError> {
        Ok(match self.history {
            Some(block) => self.view.account_at(address, block)?,
            None => self.view.account(address)?,
        })
    }

    /// The value of a slot; zero when absent.
    pub fn storage(&self, address: Address, slot: B256) -> Result<U256, ReadError> {
        let key = U256::from_be_bytes(slot.0);
        let Some(cached) = &self.cached else {
            return self.look_up_slot(address, slot, key);
        };
        let value = match cached.slot(address, key) {
            Known::Value(value) => return Ok(value),
            Known::UnchangedAfter(block) if block <= self.stored => {
                self.stored_slot(address, slot)?
            }
            _ => self.look_up_slot(address, slot, key)?,
        };
        cached.keep_slot(address, key, value);
        Ok(value)
    }

    fn look_up_slot(&self, address: Address, slot: B256, key: U256) -> Result<U256, ReadError> {
        for bundle in self.bundles() {
            let Some(account) = bundle.state.get(&address) else {
                continue;
            };
            if let Some(value) = account.storage_slot(key) {
                return Ok(value);
            }
        }
        self.stored_slot(address, slot)
    }

    fn stored_slot(&self, address: Address, slot: B256) -> Result<U256, ReadError> {
        Ok(match self.history {
            Some(block) => self.view.storage_at(address, slot, block)?,
            None => self.view.storage(address, slot)?,
        })
    }

    /// Contract code by its hash; `None` when unknown.
    pub fn code(&self, hash: B256) -> Result<Option<Bytecode>, ReadError> {
        if hash == KECCAK256_EMPTY {
            return Ok(Some(Bytecode::default()));
        }
        if let Some(code) = self
            .bundles()
            .find_map(|bundle| bundle.contracts.get(&hash))
        {
            return Ok(Some(code.clone()));
        }
        if let Some(code) = self.codes.get(hash) {
            return Ok(Some(code));
        }
        let Some(code) = self.view.analyzed_bytecode(hash)?.map(|code| code.0) else {
            return Ok(None);
        };
        self.codes.insert(hash, code.clone());
        Ok(Some(code))
    }

    fn bundles(&self) -> impl Iterator<Item = &BundleState> {
        self.layers.iter().map(|block| &block.bundle)
    }
}

impl std::fmt::Debug for StateReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StateReader")
            .field("layers", &self.layers.len())
            .field("history", &self.history)
            .finish_non_exhaustive()
    }
}

impl DatabaseRef for StateReader {
    type Error = ReadError;

    fn basic_ref(&self, address: Address) -> Result<Option<AccountInfo>, ReadError> {
        self.note(|reads| {
            reads.accounts.entry(address).or_default();
        });
        Ok(self.account(address)?.map(|account| AccountInfo {
            balance: account.balance,
            nonce: account.nonce,
            code_hash: account.code_hash,
            code: None,
            ..Default::default()
        }))
    }

    fn code_by_hash_ref(&self, code_hash: B256) -> Result<Bytecode, ReadError> {
        let code = self
            .code(code_hash)?
            .ok_or_else(|| ReadError(format!("code {code_hash} is missing")))?;
        self.note(|reads| {
            reads.codes.insert(code_hash, code.original_bytes());
        });
        Ok(code)
    }

    fn storage_ref(&self, address: Address, slot: U256) -> Result<U256, ReadError> {
        self.note(|reads| {
            reads
                .accounts
                .entry(address)
                .or_default()
                .insert(B256::from(slot));
        });
        self.storage(address, B256::from(slot))
    }

    fn block_hash_ref(&self, number: u64) -> Result<B256, ReadError> {
        self.note(|reads| {
            reads.lowest_block = Some(reads.lowest_block.map_or(number, |low| low.min(number)));
        });
        if let Some(block) = self
            .layers
            .iter()
            .find(|block| block.header().number == number)
        {
            return Ok(block.hash());
        }
        Ok(self.view.block_hash(number)?.unwrap_or_default())
    }
}
