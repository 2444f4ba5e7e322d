//! Transactions, mined or waiting, and receipts of the mined ones, by hash or by place. What is not there is null, or `0x`
//! in raw form.
//!
//! Source: execution-apis, `eth/transaction.yaml`; `eth_getRawTransactionBy…` are geth's.

use super::{Answer, Module, Registered, block_of, reading};
use crate::{
    primitives::{ChainBlock, TransactionSigned},
    rpc::{
        Context,
        args::Arguments,
        convert,
        error::from_read,
        forms::{BlockRef, Hash, Quantity, Tag},
    },
};
use alloy_eips::eip2718::Encodable2718;
use alloy_hardforks::EthereumHardforks;
use alloy_primitives::{B256, Bytes};
use alloy_rpc_types_eth::{Transaction, TransactionReceipt};
use jsonrpsee::types::Params;
use serde::Deserialize;
use std::sync::Arc;

/// The methods of the public port.
pub(super) fn register(module: &mut Module) -> Registered {
    reading(module, "eth_getTransactionByHash", by_hash)?;
    reading(
        module,
        "eth_getTransactionByBlockNumberAndIndex",
        by_place::<Tag>,
    )?;
    reading(
        module,
        "eth_getTransactionByBlockHashAndIndex",
        by_place::<Hash>,
    )?;
    reading(module, "eth_getTransactionReceipt", receipt)?;
    reading(module, "eth_getRawTransactionByHash", raw_by_hash)?;
    reading(
        module,
        "eth_getRawTransactionByBlockNumberAndIndex",
        raw_by_place::<Tag>,
    )?;
    reading(
        module,
        "eth_getRawTransactionByBlockHashAndIndex",
        raw_by_place::<Hash>,
    )
}

/// A block and the index of a transaction in it.
type Place = (Arc<ChainBlock>, usize);

fn by_hash(
    params: &Params<'_>,
    context: &Context,
) -> Answer<Option<Transaction<TransactionSigned>>> {
    let hash = hash(params)?;
    if let Some((block, index)) = context.chain.transaction(hash).map_err(from_read)? {
        return Ok(convert::transaction(&block, index));
    }
    let waiting = context.chain.pool().get(&context.chain, hash);
    Ok(waiting.map(|entry| convert::pending_transaction(&entry)))
}

fn by_place<R: for<'a> Deserialize<'a> + Into<BlockRef>>(
    params: &Params<'_>,
    context: &Context,
) -> Answer<Option<Transaction<TransactionSigned>>> {
    let place = place::<R>(params, context)?;
    Ok(place.and_then(|(block, index)| convert::transaction(&block, index)))
}

fn receipt(params: &Params<'_>, context: &Context) -> Answer<Option<TransactionReceipt>> {
    receipt_of(context, hash(params)?)
}

/// The receipt of a transaction that is in a canonical block.
pub(in crate::rpc) fn receipt_of(
    context: &Context,
    hash: B256,
) -> Answer<Option<TransactionReceipt>> {
    let Some((block, index)) = context.chain.transaction(hash).map_err(from_read)? else {
        return Ok(None);
    };
    let mut receipts = receipts_of(context, &block)?;
    Ok((index < receipts.len()).then(|| receipts.swap_remove(index)))
}

/// All receipts of a block.
pub(super) fn receipts_of(
    context: &Context,
    block: &ChainBlock,
) -> Answer<Vec<TransactionReceipt>> {
    let mut receipts = convert::receipts(block, context.chain.chain_spec());
    let roots = step_roots(context, block)?;
    convert::name_roots(receipts.iter_mut().map(|receipt| &mut receipt.inner), roots);
    Ok(receipts)
}

/// The state roots that a block's receipts name; none from Byzantium on. Where they cannot be
/// computed any more, the receipts say what the status would be.
pub(in crate::rpc) fn step_roots(context: &Context, block: &ChainBlock) -> Answer<Vec<B256>> {
    let header = &block.block.header;
    let named = context
        .chain
        .chain_spec()
        .is_byzantium_active_at_block(header.number);
    if named || block.receipts.is_empty() {
        return Ok(Vec::new());
    }
    let roots = context.chain.step_roots(block).map_err(from_read)?;
    Ok(roots.unwrap_or_default())
}

/// The transaction of a hash, mined or waiting, as consensus encodes it.
pub(in crate::rpc) fn raw_by_hash(params: &Params<'_>, context: &Context) -> Answer<Bytes> {
    let hash = hash(params)?;
    if let Some(place) = context.chain.transaction(hash).map_err(from_read)? {
        return Ok(raw(Some(place)));
    }
    let waiting = context.chain.pool().get(&context.chain, hash);
    Ok(waiting.map_or_else(Bytes::new, |entry| entry.transaction.encoded_2718().into()))
}

fn raw_by_place<R: for<'a> Deserialize<'a> + Into<BlockRef>>(
    params: &Params<'_>,
    context: &Context,
) -> Answer<Bytes> {
    Ok(raw(place::<R>(params, context)?))
}

fn raw(place: Option<Place>) -> Bytes {
    let encoded = place.and_then(|(block, index)| {
        let transaction = block.block.transactions.get(index)?;
        Some(transaction.encoded_2718().into())
    });
    encoded.unwrap_or_default()
}

/// The transaction hash that is the only parameter.
fn hash(params: &Params<'_>) -> Answer<B256> {
    let mut arguments = Arguments::new(params);
    let Hash(hash) = arguments.next("transactionHash")?;
    arguments.end()?;
    Ok(hash)
}

/// The place that a block and an index name; the block may have fewer transactions.
fn place<R: for<'a> Deserialize<'a> + Into<BlockRef>>(
    params: &Params<'_>,
    context: &Context,
) -> Answer<Option<Place>> {
    let mut arguments = Arguments::new(params);
    let name: R = arguments.next("block")?;
    let Quantity(index) = arguments.next("index")?;
    arguments.end()?;
    let block = block_of(context, name.into().0)?;
    let index = usize::try_from(index).unwrap_or(usize::MAX);
    Ok(block.map(|block| (block, index)))
}
