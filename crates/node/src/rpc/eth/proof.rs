//! `eth_getProof`: an account and its slots with the trie nodes that prove them (EIP-1186).
//!
//! What does not exist is proven absent. An account that does not exist has hashes of zeros, as
//! geth writes it.

use super::{Answer, Module, Registered, not_found, reading, state_of};
use crate::{
    engine::ProofError,
    rpc::{
        Context,
        args::Arguments,
        error::{RESOURCE_UNAVAILABLE, error, from_read, internal, invalid_params},
        forms::{Account, BlockRef, StorageKey},
    },
};
use alloy_eips::{BlockId, RpcBlockHash};
use alloy_primitives::{
    Address, B256, Bytes, U64, U256, keccak256,
    map::{B256Map, B256Set},
};
use jsonrpsee::types::{ErrorObjectOwned, Params};
use serde::Serialize;
use state_root::reference::StorageMultiProof;

/// Most slots of one request: geth's limit.
const MAX_SLOTS: usize = 1024;

/// An account with its proof.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct AccountProof {
    address: Address,
    account_proof: Vec<Bytes>,
    balance: U256,
    code_hash: B256,
    nonce: U64,
    storage_hash: B256,
    storage_proof: Vec<SlotProof>,
}

/// A slot with its proof.
#[derive(Debug, Clone, Serialize)]
struct SlotProof {
    key: StorageKey,
    value: U256,
    proof: Vec<Bytes>,
}

/// The methods of the public port.
pub(super) fn register(module: &mut Module) -> Registered {
    reading(module, "eth_getProof", proof)
}

fn proof(params: &Params<'_>, context: &Context) -> Answer<AccountProof> {
    let mut arguments = Arguments::new(params);
    let Account(address) = arguments.next("address")?;
    let keys: Vec<StorageKey> = arguments.next("storageKeys")?;
    let block: Option<BlockRef> = arguments.optional("block")?;
    arguments.end()?;
    if keys.len() > MAX_SLOTS {
        return Err(invalid_params(format!(
            "too many storage keys requested (max {MAX_SLOTS}, got {})",
            keys.len()
        )));
    }
    let id = block.map(|block| block.0).unwrap_or_default();
    // One block for values and proof, whatever becomes the latest meanwhile.
    let hash = pinned(context, id)?;
    let state = state_of(context, hash.into())?;
    let hashed = keccak256(address);
    let slots = keys.iter().map(|key| keccak256(key.slot)).collect();
    let targets: B256Map<B256Set> = [(hashed, slots)].into_iter().collect();
    let nodes = context.chain.multi_proof(hash, &targets);
    let mut nodes = nodes.map_err(from_proof)?.ok_or_else(|| not_found(id))?;
    let account = state.account(address).map_err(from_read)?;
    let storage = nodes.storages.remove(&hashed).unwrap_or_default();
    let slot = |key: StorageKey| slot_proof(&storage, key, state.storage(address, key.slot));
    let storage_proof = keys.into_iter().map(slot).collect::<Answer<_>>()?;
    Ok(AccountProof {
        address,
        account_proof: nodes.account_path(hashed),
        balance: account.map(|account| account.balance).unwrap_or_default(),
        code_hash: account.map(|account| account.code_hash).unwrap_or_default(),
        nonce: U64::from(account.map(|account| account.nonce).unwrap_or_default()),
        storage_hash: account.map(|_| storage.root).unwrap_or_default(),
        storage_proof,
    })
}

fn slot_proof(
    storage: &StorageMultiProof,
    key: StorageKey,
    value: Result<U256, crate::engine::ReadError>,
) -> Answer<SlotProof> {
    Ok(SlotProof {
        key,
        value: value.map_err(from_read)?,
        proof: storage.slot_path(keccak256(key.slot)),
    })
}

/// The hash of the block `id`, which must exist and be as canonical as `id` says.
fn pinned(context: &Context, id: BlockId) -> Answer<B256> {
    // Also refuses what `id` refuses.
    let state = state_of(context, id);
    if let BlockId::Hash(RpcBlockHash { block_hash, .. }) = id {
        return state.map(|_| block_hash);
    }
    drop(state?);
    let hash = context.chain.block_hash(id).map_err(from_read)?;
    hash.ok_or_else(|| not_found(id))
}

pub(super) fn from_proof(problem: ProofError) -> ErrorObjectOwned {
    match problem {
        ProofError::TooOld { .. } => error(RESOURCE_UNAVAILABLE, format!("failed to {problem}")),
        ProofError::Read(problem) => from_read(problem),
        ProofError::Trie(problem) => internal(format!("prove the state: {problem}")),
    }
}
