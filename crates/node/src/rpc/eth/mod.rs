//! The eth namespace, read from snapshots of the chain: one file for each group of methods.
//!
//! Invariant: a handler that may touch the database runs on a thread where it may block.

mod blocks;
mod client;
mod execution;
mod logs;
mod state;

use super::{
    Context,
    error::{RESOURCE_NOT_FOUND, error, from_read},
    pool,
};
use crate::{engine::StateReader, primitives::ChainBlock};
use alloy_eips::BlockId;
use jsonrpsee::{
    RpcModule,
    core::RegisterMethodError,
    types::{ErrorObjectOwned, Params},
};
use serde::Serialize;
use std::sync::Arc;

type Answer<T> = Result<T, ErrorObjectOwned>;
type Module = RpcModule<Context>;
type Registered = Result<(), RegisterMethodError>;

/// The methods of the public port.
pub(super) fn public_module(context: Arc<Context>) -> Result<Module, RegisterMethodError> {
    let mut module = auth_module(context)?;
    client::register(&mut module)?;
    blocks::register(&mut module)?;
    state::register(&mut module)?;
    execution::register(&mut module)?;
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
fn reading<R: Serialize + Clone + Send + 'static>(
    module: &mut Module,
    name: &'static str,
    method: fn(&Params<'_>, &Context) -> Answer<R>,
) -> Registered {
    module.register_blocking_method(name, move |params, context, _| method(&params, &context))?;
    Ok(())
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
