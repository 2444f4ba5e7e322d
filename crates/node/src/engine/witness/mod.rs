//! Execution witnesses: all that is needed to execute a block again without the state.
//!
//! The block is run over its parent's state while every read is noted. The nodes on the paths to
//! what was read are proven, and then those beside a path that removing a leaf makes necessary:
//! removals are tried on the witness itself, before anything is added, until none asks for more.
//! So a verifier may apply the changes in any order.

mod trie;

use super::{
    era::{BlockRules, Era},
    execute::{BlockRun, ExecuteError, Rewarded, open_state, take_changes},
    proof::ProofError,
    reader::{ChainReader, ReadError, StateReader},
};
use crate::primitives::ChainBlock;
use alloy_consensus::transaction::Recovered;
use alloy_eips::BlockId;
use alloy_primitives::{
    Address, B256, Bytes, keccak256,
    map::{B256Map, B256Set},
};
use alloy_trie::Nibbles;
use revm::{database::BundleState, state::EvmState};
use state_root::reference::MultiProof;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
};
pub use trie::{NodesByHash, PartialTrie, TrieError};

/// What an execution read.
#[derive(Debug, Default)]
pub(super) struct Reads {
    /// Accounts and their slots.
    pub(super) accounts: BTreeMap<Address, BTreeSet<B256>>,
    /// Codes by hash.
    pub(super) codes: BTreeMap<B256, Bytes>,
    /// The lowest block whose hash was asked for.
    pub(super) lowest_block: Option<u64>,
}

/// Everything needed to execute one block.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Witness {
    /// RLP of trie nodes, sorted.
    pub state: Vec<Bytes>,
    /// Codes that were loaded, sorted.
    pub codes: Vec<Bytes>,
    /// Addresses (20 bytes) that were read, each followed by its slots (32 bytes).
    pub keys: Vec<Bytes>,
    /// RLP of headers, ascending: from the lowest that `BLOCKHASH` asked for to the parent.
    pub headers: Vec<Bytes>,
}

/// Why there is no witness.
#[derive(Debug, thiserror::Error)]
pub enum WitnessError {
    /// Nothing comes before it.
    #[error("make a witness: the genesis block is not executed")]
    Genesis,
    /// The block does not execute as it did.
    #[error("execute the block again: {0}")]
    Execute(String),
    /// A trie could not be read.
    #[error(transparent)]
    Proof(#[from] ProofError),
    /// A node that was proven does not fit.
    #[error(transparent)]
    Trie(#[from] TrieError),
    /// Stored data could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl From<ExecuteError> for WitnessError {
    fn from(problem: ExecuteError) -> Self {
        Self::Execute(problem.to_string())
    }
}

/// Leaves that the block removes, hashed.
#[derive(Debug, Default)]
struct Removed {
    accounts: Vec<B256>,
    slots: B256Map<Vec<B256>>,
}

/// Slots by account, all hashed.
type Targets = B256Map<B256Set>;

impl ChainReader {
    /// The witness of the block `hash`; `None` when there is no such block.
    ///
    /// # Errors
    /// When the block is genesis, when its parent's state is too far back, or on failed reads.
    pub fn witness(&self, hash: B256) -> Result<Option<Witness>, WitnessError> {
        let Some(block) = self.block_by_hash(hash)? else {
            return Ok(None);
        };
        if block.block.header.number == 0 {
            return Err(WitnessError::Genesis);
        }
        let parent = block.block.header.parent_hash;
        let Some(state) = self.state_at(BlockId::from(parent))? else {
            return Ok(None);
        };
        let reads = Arc::<Mutex<Reads>>::default();
        let bundle = self.execute_again(&block, state.noting(reads.clone()))?;
        let reads = std::mem::take(&mut *reads.lock().unwrap_or_else(PoisonError::into_inner));
        let Some(nodes) = self.nodes(parent, &reads, &removed(&bundle))? else {
            return Ok(None);
        };
        let mut state: Vec<Bytes> = nodes.into_values().collect();
        state.sort_unstable();
        let headers = self.headers(&block, reads.lowest_block)?;
        let mut codes: Vec<Bytes> = reads.codes.into_values().collect();
        codes.sort_unstable();
        Ok(Some(Witness {
            state,
            codes,
            keys: keys(&reads.accounts),
            headers,
        }))
    }

    fn execute_again(
        &self,
        block: &ChainBlock,
        state: StateReader,
    ) -> Result<BundleState, WitnessError> {
        let chain = self.chain_spec();
        let stored = &block.block;
        let rules = BlockRules {
            chain,
            era: Era::of(chain, &stored.header),
        };
        let rewarded = Rewarded {
            withdrawals: stored.withdrawals.as_ref(),
            ommers: &stored.ommers,
        };
        let mut state = open_state(state, |_: EvmState| {});
        let mut run = BlockRun::start(rules, &stored.header, rewarded, &mut state)?;
        for (transaction, sender) in stored.transactions.iter().zip(&stored.senders) {
            let transaction = Recovered::new_unchecked(transaction.clone(), *sender);
            run.transact(&transaction).map_err(ExecuteError::from)?;
        }
        run.finish()?;
        Ok(take_changes(state))
    }

    /// The nodes that reading and removing take, by hash.
    fn nodes(
        &self,
        parent: B256,
        reads: &Reads,
        removed: &Removed,
    ) -> Result<Option<NodesByHash>, WitnessError> {
        let mut nodes = NodesByHash::default();
        let mut storage_roots = B256Map::default();
        let mut wanted = targets(&reads.accounts);
        let mut state_root = None;
        while !wanted.is_empty() {
            let Some(proof) = self.multi_proof(parent, &wanted)? else {
                return Ok(None);
            };
            for (account, storage) in &proof.storages {
                storage_roots.insert(*account, storage.root);
            }
            let root = *state_root.get_or_insert(proof.root);
            add_nodes(&mut nodes, proof, &wanted);
            wanted = missing(&nodes, root, &storage_roots, removed)?;
        }
        Ok(Some(nodes))
    }

    fn headers(&self, block: &ChainBlock, lowest: Option<u64>) -> Result<Vec<Bytes>, WitnessError> {
        let parent = block.block.header.number - 1;
        let count = parent - lowest.unwrap_or(parent).min(parent) + 1;
        let mut headers = Vec::new();
        let mut hash = block.block.header.parent_hash;
        for _ in 0..count {
            let ancestor = self
                .block_by_hash(hash)?
                .ok_or_else(|| ReadError(format!("block {hash} is missing")))?;
            headers.push(alloy_rlp::encode(&ancestor.block.header).into());
            hash = ancestor.block.header.parent_hash;
        }
        headers.reverse();
        Ok(headers)
    }
}

fn targets(accounts: &BTreeMap<Address, BTreeSet<B256>>) -> Targets {
    accounts
        .iter()
        .map(|(address, slots)| (keccak256(address), slots.iter().map(keccak256).collect()))
        .collect()
}

fn keys(accounts: &BTreeMap<Address, BTreeSet<B256>>) -> Vec<Bytes> {
    let mut keys = Vec::new();
    for (address, slots) in accounts {
        keys.push(Bytes::copy_from_slice(address.as_slice()));
        keys.extend(slots.iter().map(|slot| Bytes::from(*slot)));
    }
    keys
}

/// Leaves that were there before the block and are not after it.
fn removed(bundle: &BundleState) -> Removed {
    let mut removed = Removed::default();
    for (address, account) in &bundle.state {
        let hashed = keccak256(address);
        if account.info.is_none() {
            if account.original_info.is_some() {
                removed.accounts.push(hashed);
            }
        } else if !account.was_destroyed() {
            let gone = account.storage.iter().filter(|(_, slot)| {
                slot.present_value.is_zero() && !slot.previous_or_original_value.is_zero()
            });
            let gone: Vec<B256> = gone.map(|(slot, _)| keccak256(B256::from(*slot))).collect();
            if !gone.is_empty() {
                removed.slots.insert(hashed, gone);
            }
        }
    }
    removed
}

/// Nodes under 32 bytes are inside their parent.
fn add_nodes(nodes: &mut NodesByHash, proof: MultiProof, wanted: &Targets) {
    let storages = proof.storages.into_iter();
    let storages = storages
        .filter(|(account, _)| wanted.get(account).is_some_and(|slots| !slots.is_empty()))
        .flat_map(|(_, storage)| storage.nodes.into_inner());
    for (path, node) in proof.account_nodes.into_inner().into_iter().chain(storages) {
        let is_empty_trie = node[..] == [alloy_rlp::EMPTY_STRING_CODE];
        if (node.len() >= 32 || path.is_empty()) && !is_empty_trie {
            nodes.insert(keccak256(&node), node);
        }
    }
}

/// Paths to the first node in each trie that the removals lack.
fn missing(
    nodes: &NodesByHash,
    state_root: B256,
    storage_roots: &B256Map<B256>,
    removed: &Removed,
) -> Result<Targets, WitnessError> {
    let mut missing = Targets::default();
    if let Some(path) = first_missing(nodes, state_root, &removed.accounts)? {
        missing.entry(key_below(&path)).or_default();
    }
    for (account, slots) in &removed.slots {
        let root = storage_roots.get(account).copied().unwrap_or_default();
        if let Some(path) = first_missing(nodes, root, slots)? {
            missing
                .entry(*account)
                .or_default()
                .insert(key_below(&path));
        }
    }
    Ok(missing)
}

fn first_missing(
    nodes: &NodesByHash,
    root: B256,
    removed: &[B256],
) -> Result<Option<Nibbles>, TrieError> {
    let mut trie = PartialTrie::new(nodes, root);
    for key in removed {
        match trie.remove(*key) {
            Ok(()) => {}
            Err(TrieError::Missing { path, .. }) => return Ok(Some(path)),
            Err(problem) => return Err(problem),
        }
    }
    Ok(None)
}

/// The smallest key below `path`.
fn key_below(path: &Nibbles) -> B256 {
    let mut key = B256::ZERO;
    path.pack_to(&mut key[..]);
    key
}
