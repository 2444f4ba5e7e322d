//! What goes into a state root (account changes) and what comes out of it (nodes to store).

use crate::stored::StoredBranch;
use alloy_primitives::{Address, B256, KECCAK256_EMPTY, U256, map::B256Map};
use alloy_trie::Nibbles;

/// An account without its storage root, which the trie supplies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Account {
    /// Number of transactions sent or contracts created.
    pub nonce: u64,
    /// Balance in wei.
    pub balance: U256,
    /// keccak-256 of the code; [`KECCAK256_EMPTY`] when there is none.
    pub code_hash: B256,
}

impl Default for Account {
    fn default() -> Self {
        Self {
            nonce: 0,
            balance: U256::ZERO,
            code_hash: KECCAK256_EMPTY,
        }
    }
}

/// What one execution step did to one account. Unhashed; later changes override earlier ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountChange {
    /// The account.
    pub address: Address,
    /// Its new state; `None` when it no longer exists (destroyed, or empty after EIP-161).
    pub account: Option<Account>,
    /// Whether all slots it had before this step were removed (self-destruction).
    pub storage_wiped: bool,
    /// New slot values; zero removes the slot.
    pub slots: Vec<(B256, U256)>,
}

/// An [`AccountChange`] under keys that are hashed already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HashedChange {
    /// Hashed address.
    pub address: B256,
    /// New state: the outer `None` when only storage changed, the inner one when the account no
    /// longer exists.
    pub account: Option<Option<Account>>,
    /// Whether all slots it had before this step were removed.
    pub storage_wiped: bool,
    /// Hashed slots with their new values; zero removes the slot.
    pub slots: Vec<(B256, U256)>,
}

/// Changed leaves of a state, sorted by hashed key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HashedState {
    /// Changed accounts by hashed address, strictly ascending; `None` removes the leaf.
    pub accounts: Vec<(B256, Option<Account>)>,
    /// Changed storage by hashed address.
    pub storages: B256Map<HashedStorage>,
}

/// Changed slots of one account, sorted by hashed slot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HashedStorage {
    /// Whether everything stored before was removed first.
    pub wiped: bool,
    /// Changed slots, strictly ascending; zero removes the leaf.
    pub slots: Vec<(B256, U256)>,
}

/// Changes to the stored branch nodes of all tries of a state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrieUpdates {
    /// Account trie: nodes by path, strictly ascending; `None` removes the node. Never the root.
    pub account_nodes: Vec<(Nibbles, Option<StoredBranch>)>,
    /// Storage tries by hashed address.
    pub storages: B256Map<StorageTrieUpdates>,
}

/// Changes to the stored branch nodes of one storage trie.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StorageTrieUpdates {
    /// Whether all nodes stored before were removed first.
    pub wiped: bool,
    /// Nodes by path, strictly ascending; `None` removes the node. Never the root.
    pub nodes: Vec<(Nibbles, Option<StoredBranch>)>,
}
