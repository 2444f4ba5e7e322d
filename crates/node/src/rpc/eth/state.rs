//! Accounts, code and storage after a block.

use super::{Answer, Module, Registered, reading, state_of};
use crate::{
    engine::StateReader,
    rpc::{Context, args::Arguments, error::from_read},
};
use alloy_eips::BlockId;
use alloy_primitives::{Address, B256, Bytes, U64, U256};
use jsonrpsee::types::Params;
use revm::DatabaseRef;

/// The methods of the public port alone.
pub(super) fn register(module: &mut Module) -> Registered {
    reading(module, "eth_getTransactionCount", transaction_count)?;
    reading(module, "eth_getBalance", balance)?;
    reading(module, "eth_getStorageAt", storage_at)
}

/// The methods the auth port has too.
pub(super) fn register_on_auth(module: &mut Module) -> Registered {
    reading(module, "eth_getCode", code)
}

fn transaction_count(params: &Params<'_>, context: &Context) -> Answer<U64> {
    let (address, state) = account_arguments(params, context)?;
    let account = state.basic_ref(address).map_err(from_read)?;
    Ok(U64::from(account.unwrap_or_default().nonce))
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
    let address: Address = arguments.next("address")?;
    let slot: U256 = arguments.next("slot")?;
    let id: Option<BlockId> = arguments.optional("block")?;
    arguments.end()?;
    let state = state_of(context, id.unwrap_or_default())?;
    Ok(state.storage_ref(address, slot).map_err(from_read)?.into())
}

/// An address and the state of the block that follows it (latest when left out).
fn account_arguments(params: &Params<'_>, context: &Context) -> Answer<(Address, StateReader)> {
    let mut arguments = Arguments::new(params);
    let address = arguments.next("address")?;
    let id: Option<BlockId> = arguments.optional("block")?;
    arguments.end()?;
    Ok((address, state_of(context, id.unwrap_or_default())?))
}
