//! The debug namespace: headers, blocks, receipts and transactions as consensus encodes them.
//!
//! A number above the head has nothing to show: `0x`, or null for receipts, as geth answers.
//! Source: execution-apis, `debug/getters.yaml`.

use super::{
    Context,
    args::Arguments,
    convert,
    eth::{Answer, Module, Registered, block_of, not_found, raw_transaction, reading, step_roots},
    forms::BlockRef,
    witness,
};
use crate::primitives::ChainBlock;
use alloy_eips::{BlockId, eip2718::Encodable2718};
use alloy_primitives::Bytes;
use jsonrpsee::{RpcModule, core::RegisterMethodError, types::Params};
use std::sync::Arc;

/// The methods of the namespace.
pub(super) fn module(context: Arc<Context>) -> Result<Module, RegisterMethodError> {
    let mut module = RpcModule::from_arc(context);
    register(&mut module)?;
    witness::register(&mut module)?;
    Ok(module)
}

fn register(module: &mut Module) -> Registered {
    reading(module, "debug_getRawHeader", raw_header)?;
    reading(module, "debug_getRawBlock", raw_block)?;
    reading(module, "debug_getRawReceipts", raw_receipts)?;
    reading(module, "debug_getRawTransaction", raw_transaction)
}

fn raw_header(params: &Params<'_>, context: &Context) -> Answer<Bytes> {
    let block = requested(params, context)?;
    Ok(block.map_or_else(Bytes::new, |block| {
        alloy_rlp::encode(&block.block.header).into()
    }))
}

fn raw_block(params: &Params<'_>, context: &Context) -> Answer<Bytes> {
    let block = requested(params, context)?;
    Ok(block.map_or_else(Bytes::new, |block| {
        alloy_rlp::encode(convert::consensus_block(&block)).into()
    }))
}

fn raw_receipts(params: &Params<'_>, context: &Context) -> Answer<Option<Vec<Bytes>>> {
    let block = requested(params, context)?;
    let Some(block) = block else {
        return Ok(None);
    };
    let mut receipts = convert::consensus_receipts(&block);
    convert::name_roots(&mut receipts, step_roots(context, &block)?);
    let encoded = receipts.iter().map(|receipt| receipt.encoded_2718().into());
    Ok(Some(encoded.collect()))
}

/// The block the only parameter names. An unknown number is `None`, an unknown hash an error.
fn requested(params: &Params<'_>, context: &Context) -> Answer<Option<Arc<ChainBlock>>> {
    let mut arguments = Arguments::new(params);
    let BlockRef(id) = arguments.next("block")?;
    arguments.end()?;
    let block = block_of(context, id)?;
    if block.is_none() && matches!(id, BlockId::Hash(_)) {
        return Err(not_found(id));
    }
    Ok(block)
}
