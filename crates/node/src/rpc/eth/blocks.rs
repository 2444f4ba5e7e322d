//! Blocks and what they contain. A block that does not exist is null, not an error.
//!
//! Source: execution-apis, `eth/block.yaml`; `eth_getHeaderBy…` are geth's.

use super::{Answer, Module, Registered, block_of, reading, transactions::receipts_of};
use crate::{
    primitives::{ChainBlock, TransactionSigned},
    rpc::{
        Context,
        args::Arguments,
        convert,
        forms::{BlockRef, Hash, Quantity, Tag},
    },
};
use alloy_primitives::U64;
use alloy_rpc_types_eth::{
    Block as RpcBlock, Header as RpcHeader, Transaction, TransactionReceipt,
};
use jsonrpsee::types::Params;
use serde::Deserialize;
use std::sync::Arc;

/// The methods of the public port alone.
pub(super) fn register(module: &mut Module) -> Registered {
    reading(module, "eth_getBlockReceipts", receipts)?;
    reading(module, "eth_getHeaderByNumber", header::<Tag>)?;
    reading(module, "eth_getHeaderByHash", header::<Hash>)?;
    reading(
        module,
        "eth_getBlockTransactionCountByNumber",
        transaction_count::<Tag>,
    )?;
    reading(
        module,
        "eth_getBlockTransactionCountByHash",
        transaction_count::<Hash>,
    )?;
    reading(module, "eth_getUncleCountByBlockNumber", ommer_count::<Tag>)?;
    reading(module, "eth_getUncleCountByBlockHash", ommer_count::<Hash>)?;
    reading(module, "eth_getUncleByBlockNumberAndIndex", ommer::<Tag>)?;
    reading(module, "eth_getUncleByBlockHashAndIndex", ommer::<Hash>)
}

/// The methods the auth port has too.
pub(super) fn register_on_auth(module: &mut Module) -> Registered {
    reading(module, "eth_getBlockByNumber", block::<Tag>)?;
    reading(module, "eth_getBlockByHash", block::<Hash>)
}

type FullBlock = RpcBlock<Transaction<TransactionSigned>>;

fn block<R: for<'a> Deserialize<'a> + Into<BlockRef>>(
    params: &Params<'_>,
    context: &Context,
) -> Answer<Option<FullBlock>> {
    let mut arguments = Arguments::new(params);
    let name: R = arguments.next("block")?;
    let full = arguments.optional("full")?.unwrap_or(false);
    arguments.end()?;
    let block = block_of(context, name.into().0)?;
    Ok(block.map(|block| convert::block(&block, full)))
}

fn only<R: for<'a> Deserialize<'a> + Into<BlockRef>>(
    params: &Params<'_>,
    context: &Context,
) -> Answer<Option<Arc<ChainBlock>>> {
    let mut arguments = Arguments::new(params);
    let name: R = arguments.next("block")?;
    arguments.end()?;
    block_of(context, name.into().0)
}

fn header<R: for<'a> Deserialize<'a> + Into<BlockRef>>(
    params: &Params<'_>,
    context: &Context,
) -> Answer<Option<RpcHeader>> {
    let block = only::<R>(params, context)?;
    Ok(block.map(|block| convert::rpc_header(block.block.hash, &block.block.header, None)))
}

fn receipts(params: &Params<'_>, context: &Context) -> Answer<Option<Vec<TransactionReceipt>>> {
    let block = only::<BlockRef>(params, context)?;
    block.map(|block| receipts_of(context, &block)).transpose()
}

fn transaction_count<R: for<'a> Deserialize<'a> + Into<BlockRef>>(
    params: &Params<'_>,
    context: &Context,
) -> Answer<Option<U64>> {
    let block = only::<R>(params, context)?;
    Ok(block.map(|block| U64::from(block.block.transactions.len())))
}

fn ommer_count<R: for<'a> Deserialize<'a> + Into<BlockRef>>(
    params: &Params<'_>,
    context: &Context,
) -> Answer<Option<U64>> {
    let block = only::<R>(params, context)?;
    Ok(block.map(|block| U64::from(block.block.ommers.len())))
}

fn ommer<R: for<'a> Deserialize<'a> + Into<BlockRef>>(
    params: &Params<'_>,
    context: &Context,
) -> Answer<Option<FullBlock>> {
    let mut arguments = Arguments::new(params);
    let name: R = arguments.next("block")?;
    let Quantity(index) = arguments.next("index")?;
    arguments.end()?;
    let block = block_of(context, name.into().0)?;
    Ok(block.and_then(|block| {
        let index = usize::try_from(index).ok()?;
        block.block.ommers.get(index).map(convert::ommer)
    }))
}
