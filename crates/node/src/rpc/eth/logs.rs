//! `eth_getLogs`: scans the blocks of a range, skipping those whose bloom rules them out.

use super::{Module, Registered, reading};
use crate::{
    primitives::ChainBlock,
    rpc::{
        Context,
        args::Arguments,
        convert,
        error::{RESOURCE_NOT_FOUND, error, from_read, invalid_params},
    },
};
use alloy_eips::BlockNumberOrTag;
use alloy_rpc_types_eth::{Filter, FilterBlockOption, Log};
use jsonrpsee::types::{ErrorObjectOwned, Params};
use std::sync::Arc;

/// Longest range of one request, in blocks: reth's default for `--rpc.max-blocks-per-filter`.
const MAX_BLOCKS: u64 = 100_000;

/// The methods the auth port has too.
pub(super) fn register_on_auth(module: &mut Module) -> Registered {
    reading(module, "eth_getLogs", get_logs)
}

fn get_logs(params: &Params<'_>, context: &Context) -> Result<Vec<Log>, ErrorObjectOwned> {
    let mut arguments = Arguments::new(params);
    let filter: Filter = arguments.next("filter")?;
    arguments.end()?;
    matching(context, &filter)
}

/// The logs that match `filter`, in chain order.
fn matching(context: &Context, filter: &Filter) -> Result<Vec<Log>, ErrorObjectOwned> {
    let mut found = Vec::new();
    match filter.block_option {
        FilterBlockOption::AtBlockHash(hash) => {
            let block = context.chain.block_by_hash(hash).map_err(from_read)?;
            let missing = || error(RESOURCE_NOT_FOUND, format!("block not found: {hash}"));
            collect(context, filter, &block.ok_or_else(missing)?, &mut found);
        }
        FilterBlockOption::Range {
            from_block,
            to_block,
        } => {
            let first = number(context, from_block)?;
            let last = number(context, to_block)?.min(context.chain.head().number);
            if last.saturating_sub(first) >= MAX_BLOCKS {
                return Err(invalid_params(format!(
                    "range of more than {MAX_BLOCKS} blocks"
                )));
            }
            for number in first..=last {
                if let Some(block) = context.chain.block_by_number(number).map_err(from_read)? {
                    collect(context, filter, &block, &mut found);
                }
            }
        }
    }
    Ok(found)
}

fn number(context: &Context, tag: Option<BlockNumberOrTag>) -> Result<u64, ErrorObjectOwned> {
    let tag = tag.unwrap_or_default();
    if let BlockNumberOrTag::Number(number) = tag {
        return Ok(number);
    }
    let block = context.chain.block(tag).map_err(from_read)?;
    block
        .map(|block| block.block.header.number)
        .ok_or_else(|| error(RESOURCE_NOT_FOUND, format!("block not found: {tag}")))
}

fn collect(context: &Context, filter: &Filter, block: &Arc<ChainBlock>, found: &mut Vec<Log>) {
    if !filter.matches_bloom(block.block.header.logs_bloom) {
        return;
    }
    let receipts = convert::receipts(block, context.chain.chain_spec());
    let logs = receipts
        .into_iter()
        .flat_map(|receipt| receipt.inner.logs().to_vec());
    found.extend(logs.filter(|log| filter.matches(&log.inner)));
}
