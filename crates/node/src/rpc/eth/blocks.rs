//! Blocks and what they contain.

use super::{Answer, Module, Registered, block_of, reading};
use crate::{
    primitives::TransactionSigned,
    rpc::{Context, args::Arguments, convert, error::from_read},
};
use alloy_eips::{BlockId, BlockNumberOrTag};
use alloy_primitives::B256;
use alloy_rpc_types_eth::{Block as RpcBlock, Transaction, TransactionReceipt};
use jsonrpsee::types::Params;

/// The methods of the public port alone.
pub(super) fn register(module: &mut Module) -> Registered {
    reading(module, "eth_getBlockReceipts", block_receipts)
}

/// The methods the auth port has too.
pub(super) fn register_on_auth(module: &mut Module) -> Registered {
    reading(module, "eth_getBlockByNumber", block_by_number)?;
    reading(module, "eth_getBlockByHash", block_by_hash)
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
