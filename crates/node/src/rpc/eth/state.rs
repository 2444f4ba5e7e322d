//! Accounts, code and storage after a block, which is the latest when it is left out.
//!
//! An account that does not exist has zero of everything. Source: execution-apis, `eth/state.yaml`.

use super::{Answer, Module, Registered, reading, state_of};
use crate::{
    engine::StateReader,
    rpc::{
        Context,
        args::Arguments,
        error::{from_read, invalid_params},
        forms::{Account, BlockRef, Hash, StorageKey},
    },
};
use alloy_primitives::{Address, B256, Bytes, U64, U256};
use jsonrpsee::types::Params;
use revm::DatabaseRef;
use std::collections::BTreeMap;

/// Most slots of one `eth_getStorageValues`, over all accounts: geth's limit.
const MAX_SLOTS: usize = 1024;

/// The methods of the public port alone.
pub(super) fn register(module: &mut Module) -> Registered {
    reading(module, "eth_getTransactionCount", transaction_count)?;
    reading(module, "eth_getBalance", balance)?;
    reading(module, "eth_getStorageAt", storage_at)?;
    reading(module, "eth_getStorageValues", storage_values)
}

/// The methods the auth port has too.
pub(super) fn register_on_auth(module: &mut Module) -> Registered {
    reading(module, "eth_getCode", code)
}

fn transaction_count(params: &Params<'_>, context: &Context) -> Answer<U64> {
    let mut arguments = Arguments::new(params);
    let Account(address) = arguments.next("address")?;
    let block: Option<BlockRef> = arguments.optional("block")?;
    arguments.end()?;
    let id = block.map(|block| block.0).unwrap_or_default();
    let state = state_of(context, id)?;
    let account = state.basic_ref(address).map_err(from_read)?;
    let mined = account.unwrap_or_default().nonce;
    let waiting = if id.is_pending() {
        context.chain.pool().next_nonce(&context.chain, address)
    } else {
        None
    };
    Ok(U64::from(waiting.unwrap_or_default().max(mined)))
}

fn balance(params: &Params<'_>, context: &Context) -> Answer<U256> {
    let (address, state) = account_arguments(params, context)?;
    Ok(state
        .basic_ref(address)
        .map_err(from_read)?
        .unwrap_or_default()
        .balance)
}

fn code(params: &Params<'_>, context: &Context) -> Answer<Bytes> {
    let (address, state) = account_arguments(params, context)?;
    let account = state
        .basic_ref(address)
        .map_err(from_read)?
        .unwrap_or_default();
    if account.is_empty_code_hash() {
        return Ok(Bytes::new());
    }
    Ok(state
        .code_by_hash_ref(account.code_hash)
        .map_err(from_read)?
        .original_bytes())
}

fn storage_at(params: &Params<'_>, context: &Context) -> Answer<B256> {
    let mut arguments = Arguments::new(params);
    let Account(address) = arguments.next("address")?;
    let StorageKey { slot, .. } = arguments.next("slot")?;
    let state = state_argument(arguments, context)?;
    Ok(state.storage(address, slot).map_err(from_read)?.into())
}

fn storage_values(params: &Params<'_>, context: &Context) -> Answer<BTreeMap<Account, Vec<B256>>> {
    let mut arguments = Arguments::new(params);
    let wanted: BTreeMap<Account, Vec<Hash>> = arguments.next("requests")?;
    let state = state_argument(arguments, context)?;
    match wanted.values().map(Vec::len).sum() {
        0 => return Err(invalid_params("empty request")),
        slots if slots > MAX_SLOTS => {
            let problem = format!("too many slots (max {MAX_SLOTS}, got {slots})");
            return Err(invalid_params(problem));
        }
        _ => {}
    }
    let values = wanted.into_iter().map(|(account, slots)| {
        let values = slots.into_iter().map(|Hash(slot)| {
            let value = state.storage(account.0, slot).map_err(from_read)?;
            Ok(B256::from(value))
        });
        Ok((account, values.collect::<Answer<_>>()?))
    });
    values.collect()
}

/// An address and the state of the block that follows it.
fn account_arguments(params: &Params<'_>, context: &Context) -> Answer<(Address, StateReader)> {
    let mut arguments = Arguments::new(params);
    let Account(address) = arguments.next("address")?;
    Ok((address, state_argument(arguments, context)?))
}

/// The state of the block that is the last parameter.
fn state_argument(mut arguments: Arguments<'_>, context: &Context) -> Answer<StateReader> {
    let block: Option<BlockRef> = arguments.optional("block")?;
    arguments.end()?;
    state_of(context, block.map(|block| block.0).unwrap_or_default())
}
