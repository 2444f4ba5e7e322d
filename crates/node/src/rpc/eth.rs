//! The eth namespace: what replaying and generating blocks need, read from snapshots of the chain.

use super::{
    Context,
    args::Arguments,
    call, convert,
    error::{RESOURCE_NOT_FOUND, error, from_read, invalid_params},
    logs,
};
use crate::{
    engine::StateReader,
    primitives::{ChainBlock, TransactionSigned},
};
use alloy_eips::{BlockId, BlockNumberOrTag};
use alloy_primitives::{Address, B256, Bytes, U64, U256};
use alloy_rpc_types_eth::{
    Block as RpcBlock, Filter, SyncInfo, SyncStatus, Transaction, TransactionReceipt,
};
use jsonrpsee::{
    RpcModule,
    core::RegisterMethodError,
    types::{ErrorObjectOwned, Params},
};
use revm::DatabaseRef;
use serde::Serialize;
use std::sync::Arc;

/// Tip that is suggested: one gwei. There is no market to learn a better one from.
const SUGGESTED_TIP_WEI: u64 = 1_000_000_000;

type Answer<T> = Result<T, ErrorObjectOwned>;

/// The methods of the public port.
pub(super) fn public_module(
    context: Arc<Context>,
) -> Result<RpcModule<Context>, RegisterMethodError> {
    let mut module = auth_module(context)?;
    reading(&mut module, "eth_getBlockReceipts", block_receipts)?;
    reading(&mut module, "eth_getTransactionCount", transaction_count)?;
    reading(&mut module, "eth_getBalance", balance)?;
    reading(&mut module, "eth_getStorageAt", storage_at)?;
    module.register_method("eth_maxPriorityFeePerGas", |_, _, _| {
        Answer::Ok(U64::from(SUGGESTED_TIP_WEI))
    })?;
    module.register_method("eth_gasPrice", |_, context, _| {
        let next = context
            .chain
            .chain_spec()
            .next_base_fee(&context.chain.head_header());
        Answer::Ok(U64::from(next.saturating_add(SUGGESTED_TIP_WEI)))
    })?;
    module.register_method("eth_accounts", |_, _, _| Answer::Ok(Vec::<Address>::new()))?;
    Ok(module)
}

/// The methods the specification demands of the auth port (`engine/common.md`).
pub(super) fn auth_module(
    context: Arc<Context>,
) -> Result<RpcModule<Context>, RegisterMethodError> {
    let mut module = RpcModule::from_arc(context);
    module.register_method("eth_blockNumber", |_, context, _| {
        Answer::Ok(U64::from(context.chain.head().number))
    })?;
    module.register_method("eth_chainId", |_, context, _| {
        Answer::Ok(U64::from(context.chain.chain_spec().chain_id()))
    })?;
    module.register_method("eth_syncing", |_, context, _| {
        Answer::Ok(sync_status(context))
    })?;
    module.register_method("eth_sendRawTransaction", |_, _, _| {
        Answer::<B256>::Err(error(
            super::error::SERVER_ERROR,
            "bench-reth has no transaction pool; build a block with testing_buildBlockV1",
        ))
    })?;
    reading(&mut module, "eth_getBlockByNumber", block_by_number)?;
    reading(&mut module, "eth_getBlockByHash", block_by_hash)?;
    reading(&mut module, "eth_getCode", code)?;
    reading(&mut module, "eth_call", call)?;
    reading(&mut module, "eth_getLogs", get_logs)?;
    Ok(module)
}

/// Registers a method that may read the database, on a thread where it may block.
fn reading<R: Serialize + Clone + Send + 'static>(
    module: &mut RpcModule<Context>,
    name: &'static str,
    method: fn(&Params<'_>, &Context) -> Answer<R>,
) -> Result<(), RegisterMethodError> {
    module.register_blocking_method(name, move |params, context, _| method(&params, &context))?;
    Ok(())
}

fn sync_status(context: &Context) -> SyncStatus {
    if context.is_synced() {
        return SyncStatus::None;
    }
    let number = U256::from(context.chain.head().number);
    SyncStatus::Info(Box::new(SyncInfo {
        current_block: number,
        highest_block: number,
        ..Default::default()
    }))
}

type FullBlock = RpcBlock<Transaction<TransactionSigned>>;

fn block_by_number(params: &Params<'_>, context: &Context) -> Answer<Option<FullBlock>> {
    let mut arguments = Arguments::new(params);
    let tag: BlockNumberOrTag = arguments.next("block")?;
    let full = arguments.optional("full")?.unwrap_or(false);
    arguments.end()?;
    let block = context.chain.block(tag).map_err(from_read)?;
    Ok(block.map(|block| convert::block(&block, full)))
}

fn block_by_hash(params: &Params<'_>, context: &Context) -> Answer<Option<FullBlock>> {
    let mut arguments = Arguments::new(params);
    let hash: B256 = arguments.next("hash")?;
    let full = arguments.optional("full")?.unwrap_or(false);
    arguments.end()?;
    let block = context.chain.block_by_hash(hash).map_err(from_read)?;
    Ok(block.map(|block| convert::block(&block, full)))
}

fn block_receipts(
    params: &Params<'_>,
    context: &Context,
) -> Answer<Option<Vec<TransactionReceipt>>> {
    let mut arguments = Arguments::new(params);
    let id: BlockId = arguments.next("block")?;
    arguments.end()?;
    let block = block_of(context, id)?;
    Ok(block.map(|block| convert::receipts(&block, context.chain.chain_spec())))
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

fn call(params: &Params<'_>, context: &Context) -> Answer<Bytes> {
    let mut arguments = Arguments::new(params);
    let request = arguments.next("transaction")?;
    let id = arguments.optional::<BlockId>("block")?.unwrap_or_default();
    if arguments
        .optional::<serde_json::Value>("stateOverrides")?
        .is_some()
    {
        return Err(invalid_params("state overrides are not supported"));
    }
    arguments.end()?;
    let block = block_of(context, id)?.ok_or_else(|| not_found(id))?;
    let state = state_of(context, BlockId::from(block.block.hash))?;
    call::run(context, &block.block.header, state, request)
}

fn get_logs(params: &Params<'_>, context: &Context) -> Answer<Vec<alloy_rpc_types_eth::Log>> {
    let mut arguments = Arguments::new(params);
    let filter: Filter = arguments.next("filter")?;
    arguments.end()?;
    logs::get_logs(context, &filter)
}

/// An address and the state of the block that follows it (latest when left out).
fn account_arguments(params: &Params<'_>, context: &Context) -> Answer<(Address, StateReader)> {
    let mut arguments = Arguments::new(params);
    let address = arguments.next("address")?;
    let id: Option<BlockId> = arguments.optional("block")?;
    arguments.end()?;
    Ok((address, state_of(context, id.unwrap_or_default())?))
}

fn block_of(context: &Context, id: BlockId) -> Answer<Option<Arc<ChainBlock>>> {
    match id {
        BlockId::Hash(hash) => context.chain.block_by_hash(hash.block_hash),
        BlockId::Number(tag) => context.chain.block(tag),
    }
    .map_err(from_read)
}

fn state_of(context: &Context, id: BlockId) -> Answer<StateReader> {
    context
        .chain
        .state_at(id)
        .map_err(from_read)?
        .ok_or_else(|| not_found(id))
}

fn not_found(id: BlockId) -> ErrorObjectOwned {
    let block = match id {
        BlockId::Hash(hash) => hash.block_hash.to_string(),
        BlockId::Number(tag) => tag.to_string(),
    };
    error(RESOURCE_NOT_FOUND, format!("block not found: {block}"))
}
