//! The eth namespace, read from snapshots of the chain: one file for each group of methods.
//!
//! Invariant: a handler that may touch the database runs on a thread where it may block.

mod access_list;
mod blocks;
mod client;
mod config;
mod estimate;
mod execution;
mod fees;
mod filters;
mod follow;
mod logs;
mod machine;
mod message;
mod proof;
mod refusal;
mod simulate;
mod state;
mod subscribe;
mod transactions;
mod watch;

use super::{
    Context,
    error::{RESOURCE_NOT_FOUND, SERVER_ERROR, UNKNOWN_BLOCK, error, from_read},
    pool,
};
use crate::{engine::StateReader, primitives::ChainBlock};
use alloy_eips::{BlockId, BlockNumberOrTag};
use jsonrpsee::{
    RpcModule,
    core::RegisterMethodError,
    types::{ErrorObjectOwned, Params},
};
use serde::Serialize;
use std::sync::Arc;

pub(super) use filters::Filters;
pub(super) use subscribe::SubscriptionIds;
pub(super) use transactions::{raw_by_hash as raw_transaction, receipt_of, step_roots};

pub(super) type Answer<T> = Result<T, ErrorObjectOwned>;
pub(super) type Module = RpcModule<Context>;
pub(super) type Registered = Result<(), RegisterMethodError>;

/// The methods of the public port.
pub(super) fn public_module(context: Arc<Context>) -> Result<Module, RegisterMethodError> {
    let mut module = auth_module(context)?;
    client::register(&mut module)?;
    blocks::register(&mut module)?;
    transactions::register(&mut module)?;
    state::register(&mut module)?;
    proof::register(&mut module)?;
    filters::register(&mut module)?;
    subscribe::register(&mut module)?;
    execution::register(&mut module)?;
    simulate::register(&mut module)?;
    fees::register(&mut module)?;
    pool::register(&mut module)?;
    Ok(module)
}

/// The methods the specification demands of the auth port (`engine/common.md`).
pub(super) fn auth_module(context: Arc<Context>) -> Result<Module, RegisterMethodError> {
    let mut module = RpcModule::from_arc(context);
    client::register_on_auth(&mut module)?;
    blocks::register_on_auth(&mut module)?;
    state::register_on_auth(&mut module)?;
    logs::register_on_auth(&mut module)?;
    execution::register_on_auth(&mut module)?;
    pool::register_on_auth(&mut module)?;
    Ok(module)
}

/// Registers a method that may read the database, on a thread where it may block.
pub(super) fn reading<R: Serialize + Clone + Send + 'static>(
    module: &mut Module,
    name: &'static str,
    method: fn(&Params<'_>, &Context) -> Answer<R>,
) -> Registered {
    module.register_blocking_method(name, move |params, context, _| method(&params, &context))?;
    Ok(())
}

/// The block `id` names; `None` when there is none.
///
/// # Errors
/// When `id` is safe or finalized and no fork choice has named such a block, and when it asks for a
/// canonical block by the hash of another (EIP-1898).
pub(super) fn block_of(context: &Context, id: BlockId) -> Answer<Option<Arc<ChainBlock>>> {
    let chain = &context.chain;
    match id {
        BlockId::Hash(hash) => {
            let block = chain.block_by_hash(hash.block_hash).map_err(from_read)?;
            if let Some(block) = &block
                && hash.require_canonical == Some(true)
                && !chain.is_canonical(block.num_hash()).map_err(from_read)?
            {
                let problem = format!("hash is not currently canonical: {}", hash.block_hash);
                return Err(error(SERVER_ERROR, problem));
            }
            Ok(block)
        }
        BlockId::Number(tag) => {
            let number = number_of(context, tag)?;
            chain.block_by_number(number).map_err(from_read)
        }
    }
}

/// Number of the block a tag names; there may be no such block yet.
fn number_of(context: &Context, tag: BlockNumberOrTag) -> Answer<u64> {
    let unknown = || error(UNKNOWN_BLOCK, format!("Unknown block: {tag}"));
    context.chain.number_of(tag).ok_or_else(unknown)
}

/// The state after the block `id`, which must exist.
pub(super) fn state_of(context: &Context, id: BlockId) -> Answer<StateReader> {
    match id {
        BlockId::Number(tag) => {
            number_of(context, tag)?;
        }
        BlockId::Hash(hash) if hash.require_canonical == Some(true) => {
            block_of(context, id)?;
        }
        BlockId::Hash(_) => {}
    }
    context
        .chain
        .state_at(id)
        .map_err(from_read)?
        .ok_or_else(|| not_found(id))
}

/// The error of a block that must exist and does not (EIP-1898).
pub(super) fn not_found(id: BlockId) -> ErrorObjectOwned {
    let block = match id {
        BlockId::Hash(hash) => hash.block_hash.to_string(),
        BlockId::Number(tag) => tag.to_string(),
    };
    error(RESOURCE_NOT_FOUND, format!("block not found: {block}"))
}
