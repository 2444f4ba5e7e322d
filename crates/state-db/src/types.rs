//! Blocks and state changes as storage takes and returns them.

use alloy_consensus::{EthereumReceipt, EthereumTxEnvelope, Header, TxEip4844};
use alloy_eips::eip4895::Withdrawals;
use alloy_primitives::{Address, B256, Bytes, U256};
use state_root::updates::{Account, HashedState, TrieUpdates};

/// A signed transaction; blob transactions are without their sidecar.
pub type TransactionSigned = EthereumTxEnvelope<TxEip4844>;

/// A transaction's receipt without its bloom, which is derived from the logs.
pub type Receipt = EthereumReceipt;

/// A block's number and hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BlockNumHash {
    /// Block number.
    pub number: u64,
    /// Block hash.
    pub hash: B256,
}

/// A block with everything the tables hold of it except receipts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StoredBlock {
    /// The header.
    pub header: Header,
    /// keccak-256 of the header's RLP. It is trusted, not recomputed.
    pub hash: B256,
    /// The transactions in block order.
    pub transactions: Vec<TransactionSigned>,
    /// The recovered sender of each transaction.
    pub senders: Vec<Address>,
    /// Ommer headers; none since the merge.
    pub ommers: Vec<Header>,
    /// Withdrawals; `None` before Shanghai.
    pub withdrawals: Option<Withdrawals>,
}

impl StoredBlock {
    /// The block's number and hash.
    pub fn num_hash(&self) -> BlockNumHash {
        BlockNumHash {
            number: self.header.number,
            hash: self.hash,
        }
    }
}

/// Where a transaction is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransactionLocation {
    /// Number of its block.
    pub block_number: u64,
    /// Position in the block, from 0.
    pub index: u64,
    /// Its number in the chain, which keys the transaction tables.
    pub transaction_number: u64,
}

/// What a block did to one account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AccountDelta {
    /// The account before the block; `None` when it did not exist.
    pub before: Option<Account>,
    /// The account after the block; `None` when it no longer exists.
    pub after: Option<Account>,
}

/// What a block did to one slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotDelta {
    /// The slot, unhashed.
    pub slot: B256,
    /// Value before the block; zero when absent.
    pub before: U256,
    /// Value after the block; zero removes it.
    pub after: U256,
}

/// What a block did to one account's storage.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StorageDelta {
    /// Whether all slots the account had before the block were removed first. The values they had
    /// are then read from the database; `before` in `slots` is not used.
    pub wiped: bool,
    /// Changed slots, in any order, each at most once.
    pub slots: Vec<SlotDelta>,
}

impl StorageDelta {
    /// Whether one of its slots has to be written.
    pub(crate) fn touches(&self, slot: &SlotDelta) -> bool {
        self.wiped || slot.before != slot.after
    }
}

/// What a block did to the state, by unhashed key. Order does not matter; no key occurs twice.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PlainChanges {
    /// Changed accounts.
    pub accounts: Vec<(Address, AccountDelta)>,
    /// Changed storages.
    pub storages: Vec<(Address, StorageDelta)>,
    /// New code by its keccak-256. Code already stored may be given again.
    pub codes: Vec<(B256, Bytes)>,
}

/// Everything that is written for one block.
#[derive(Debug, Clone, Copy)]
pub struct BlockWrite<'a> {
    /// The block.
    pub block: &'a StoredBlock,
    /// One receipt for each transaction.
    pub receipts: &'a [Receipt],
    /// Its changes to plain state.
    pub changes: &'a PlainChanges,
    /// The same changes by hashed key.
    pub hashed: &'a HashedState,
    /// Its changes to stored trie nodes.
    pub trie: &'a TrieUpdates,
}

/// A step of an unwind, in the order in which they happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UnwindStage {
    /// Reading the changesets above the target.
    Changesets,
    /// Recomputing the state root of the target.
    StateRoot,
    /// Restoring plain and hashed state and trie nodes.
    State,
    /// Removing history indices and changesets.
    History,
    /// Removing blocks, receipts and lookups.
    Blocks,
    /// Committing to disk.
    Commit,
}

/// How far an unwind has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnwindProgress {
    /// The step that begins.
    pub stage: UnwindStage,
    /// How many items the step will handle (blocks, leaves or rows); 0 when unknown.
    pub items: u64,
}

/// What an unwind did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnwindSummary {
    /// The new head.
    pub head: BlockNumHash,
    /// Its state root, recomputed.
    pub state_root: B256,
    /// Number of blocks removed.
    pub blocks: u64,
    /// Number of accounts restored.
    pub accounts: u64,
    /// Number of slots restored.
    pub slots: u64,
}

/// One element of a base state: an account, then its slots, then the next account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoadItem {
    /// The next account.
    Account {
        /// Its address.
        address: Address,
        /// Its nonce.
        nonce: u64,
        /// Its balance in wei.
        balance: U256,
        /// Its code, when it has any.
        code: Option<Bytes>,
    },
    /// A slot of the account given last.
    Slot {
        /// The slot, unhashed.
        key: B256,
        /// Its value; zero is not stored.
        value: U256,
    },
}

/// What a bulk load stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadSummary {
    /// The state root of everything loaded.
    pub state_root: B256,
    /// Number of accounts.
    pub accounts: u64,
    /// Number of slots.
    pub slots: u64,
    /// Number of distinct codes.
    pub codes: u64,
}
