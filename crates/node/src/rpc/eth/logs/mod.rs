//! `eth_getLogs`: the logs of a range of blocks, skipping those whose bloom rules them out.

mod filter;

use super::{
    Answer, Module, Registered,
    follow::{self, Way},
    number_of, reading,
};
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
use alloy_rpc_types_eth::Log;
use filter::Blocks;
pub(in crate::rpc) use filter::LogFilter;
use jsonrpsee::types::{ErrorObjectOwned, Params};
use std::ops::RangeInclusive;

/// Longest range of one request, in blocks: reth's default for `--rpc.max-blocks-per-filter`.
const MAX_BLOCKS: u64 = 100_000;

/// Most logs of one answer over several blocks: reth's default for `--rpc.max-logs-per-response`.
const MAX_LOGS: usize = 20_000;

/// The methods the auth port has too.
pub(super) fn register_on_auth(module: &mut Module) -> Registered {
    reading(module, "eth_getLogs", get_logs)
}

fn get_logs(params: &Params<'_>, context: &Context) -> Answer<Vec<Log>> {
    let mut arguments = Arguments::new(params);
    let filter: LogFilter = arguments.next("filter")?;
    arguments.end()?;
    matching(context, &filter)
}

/// The logs that match `filter`, in chain order.
pub(super) fn matching(context: &Context, filter: &LogFilter) -> Answer<Vec<Log>> {
    let mut found = Vec::new();
    match filter.blocks {
        Blocks::One(hash) => {
            let block = context.chain.block_by_hash(hash).map_err(from_read)?;
            let missing = || error(RESOURCE_NOT_FOUND, format!("block not found: {hash}"));
            let block = block.ok_or_else(missing)?;
            collect(context, filter, &block, &mut found);
        }
        Blocks::Range { from, to } => {
            for number in range(context, from, to)? {
                add_logs_of(context, filter, number, &mut found)?;
            }
        }
    }
    Ok(found)
}

/// Adds the logs of one canonical block.
fn add_logs_of(
    context: &Context,
    filter: &LogFilter,
    number: u64,
    found: &mut Vec<Log>,
) -> Answer<()> {
    let header = context.chain.header_by_number(number).map_err(from_read)?;
    if !header.is_some_and(|header| filter.may_match(&header.logs_bloom)) {
        return Ok(());
    }
    let Some(block) = context.chain.block_by_number(number).map_err(from_read)? else {
        return Ok(());
    };
    let before = found.len();
    collect(context, filter, &block, found);
    // One block is answered whatever it holds: its logs could not be asked for otherwise.
    if before > 0 && found.len() > MAX_LOGS {
        return Err(invalid_params(format!(
            "more than {MAX_LOGS} logs; block {} is the last that fits",
            number.saturating_sub(1)
        )));
    }
    Ok(())
}

/// The numbers of a range, whose blocks all exist.
fn range(
    context: &Context,
    from: Option<BlockNumberOrTag>,
    to: Option<BlockNumberOrTag>,
) -> Answer<RangeInclusive<u64>> {
    let head = context.chain.head().number;
    let number = |tag: Option<BlockNumberOrTag>| match tag {
        None | Some(BlockNumberOrTag::Latest) => Ok(head),
        Some(BlockNumberOrTag::Pending) => Err(pending()),
        Some(tag) => number_of(context, tag),
    };
    let (first, last) = (number(from)?, number(to)?);
    if first > last {
        return Err(reversed(first, last));
    }
    if last > head {
        return Err(invalid_params(format!(
            "block range extends beyond current head block: {last:#x} is after {head:#x}"
        )));
    }
    if last - first >= MAX_BLOCKS {
        return Err(invalid_params(format!(
            "range of more than {MAX_BLOCKS} blocks: {first:#x} to {last:#x}"
        )));
    }
    Ok(first..=last)
}

fn reversed(first: u64, last: u64) -> ErrorObjectOwned {
    invalid_params(format!(
        "invalid block range params: {first:#x} is after {last:#x}"
    ))
}

impl LogFilter {
    /// Refuses a range that no chain can have, before there is anything to look at.
    pub(super) fn check_range(&self) -> Answer<()> {
        let Blocks::Range { from, to } = self.blocks else {
            return Ok(());
        };
        if [from, to].contains(&Some(BlockNumberOrTag::Pending)) {
            return Err(pending());
        }
        match (from, to) {
            (Some(BlockNumberOrTag::Number(first)), Some(BlockNumberOrTag::Number(last)))
                if first > last =>
            {
                Err(reversed(first, last))
            }
            _ => Ok(()),
        }
    }

    /// Whether the filter looks at a block that has just become, or ceased to be, canonical.
    fn is_in_range(&self, block: &ChainBlock) -> bool {
        let number = block.block.header.number;
        match self.blocks {
            Blocks::One(hash) => hash == block.block.hash,
            Blocks::Range { from, to } => {
                from.and_then(|from| from.as_number())
                    .is_none_or(|from| from <= number)
                    && to
                        .and_then(|to| to.as_number())
                        .is_none_or(|to| number <= to)
            }
        }
    }
}

fn pending() -> ErrorObjectOwned {
    invalid_params("pending logs are not supported")
}

/// Adds the block's logs that match.
fn collect(context: &Context, filter: &LogFilter, block: &ChainBlock, found: &mut Vec<Log>) {
    if !filter.may_match(&block.block.header.logs_bloom) {
        return;
    }
    let receipts = convert::receipts(block, context.chain.chain_spec());
    let logs = receipts
        .into_iter()
        .flat_map(|receipt| receipt.inner.logs().to_vec());
    found.extend(logs.filter(|log| filter.matches(log.inner.address, &log.inner.data)));
}

/// The logs that fit on the way between two heads: those of blocks that left, marked as removed,
/// then those of blocks that came, as far as the filter's range goes.
pub(super) fn on_way(context: &Context, filter: &LogFilter, way: Way) -> Answer<Vec<Log>> {
    let mut found = Vec::new();
    for block in way.left.iter().filter(|block| filter.is_in_range(block)) {
        let before = found.len();
        collect(context, filter, block, &mut found);
        found[before..].reverse();
        found[before..]
            .iter_mut()
            .for_each(|log| log.removed = true);
    }
    for number in way.came {
        let Some(block) = follow::block(context, number)? else {
            break;
        };
        if filter.is_in_range(&block) {
            collect(context, filter, &block, &mut found);
        }
    }
    Ok(found)
}
