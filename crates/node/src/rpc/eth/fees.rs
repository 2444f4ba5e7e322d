//! What gas costs and what tips were paid: `eth_feeHistory`, `eth_gasPrice` and their relatives.
//!
//! Source: execution-apis, `eth/fee_market.yaml`. Invariant: no request reads more than
//! [`MAX_HISTORY_BLOCKS`] blocks.

use super::{Answer, Module, Registered, reading, refusal::failed};
use crate::{
    chainspec::ChainSpec,
    primitives::ChainBlock,
    rpc::{Context, args::Arguments, error::from_read, forms::Tag},
};
use alloy_consensus::{Header, Transaction};
use alloy_eips::BlockNumberOrTag;
use alloy_hardforks::EthereumHardforks;
use alloy_primitives::{U64, U128};
use alloy_rpc_types_eth::FeeHistory;
use jsonrpsee::types::Params;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use std::sync::Arc;

/// Most blocks of one `eth_feeHistory`; more are left out, as geth does.
const MAX_HISTORY_BLOCKS: u64 = 1024;
/// Most percentiles of one `eth_feeHistory`.
const MAX_PERCENTILES: usize = 100;
/// Tip that is suggested when no block tells a better one: one gwei.
const DEFAULT_TIP_WEI: u128 = 1_000_000_000;
/// Blocks that a suggested tip is learned from.
const SAMPLED_BLOCKS: u64 = 20;
/// Cheapest transactions of each block that count.
const SAMPLES_PER_BLOCK: usize = 3;
/// Which of the samples, sorted, is suggested.
const SAMPLE_PERCENTILE: usize = 60;
/// Tips below this were paid by nobody who wanted to be quick.
const IGNORED_TIP_WEI: u128 = 2;

/// The methods of the public port.
pub(super) fn register(module: &mut Module) -> Registered {
    reading(module, "eth_feeHistory", fee_history)?;
    reading(module, "eth_maxPriorityFeePerGas", |params, context| {
        Arguments::new(params).end()?;
        Ok(U128::from(suggested_tip(context)?))
    })?;
    reading(module, "eth_gasPrice", |params, context| {
        Arguments::new(params).end()?;
        let base_fee = context.chain.head_header().base_fee_per_gas;
        let price = suggested_tip(context)?.saturating_add(base_fee.unwrap_or_default().into());
        Ok(U128::from(price))
    })?;
    reading(module, "eth_baseFee", |params, context| {
        Arguments::new(params).end()?;
        let (chain, head) = (context.chain.chain_spec(), context.chain.head_header());
        let is_priced = chain.is_london_active_at_block(head.number.saturating_add(1));
        Ok(is_priced.then(|| U64::from(next_base_fee(chain, &head))))
    })?;
    reading(module, "eth_blobBaseFee", |params, context| {
        Arguments::new(params).end()?;
        let (chain, head) = (context.chain.chain_spec(), context.chain.head_header());
        let params = chain.blob_params_at(head.timestamp);
        Ok(params.map(|_| U128::from(next_blob_base_fee(chain, &head))))
    })
}

/// The tip that would have bought a place in recent blocks.
fn suggested_tip(context: &Context) -> Answer<u128> {
    let head = context.chain.head().number;
    let mut samples = Vec::new();
    for number in head.saturating_sub(SAMPLED_BLOCKS - 1)..=head {
        let block = context.chain.block_by_number(number).map_err(from_read)?;
        samples.extend(block.iter().flat_map(|block| lowest_tips(block)));
    }
    samples.sort_unstable();
    let at = samples.len().saturating_sub(1) * SAMPLE_PERCENTILE / 100;
    Ok(samples.get(at).copied().unwrap_or(DEFAULT_TIP_WEI))
}

/// The lowest tips of a block that others than its beneficiary paid.
fn lowest_tips(block: &ChainBlock) -> Vec<u128> {
    let header = &block.block.header;
    let base_fee = header.base_fee_per_gas.unwrap_or_default();
    let mut tips: Vec<u128> = block
        .block
        .transactions
        .iter()
        .zip(&block.block.senders)
        .filter(|(_, sender)| **sender != header.beneficiary)
        .filter_map(|(transaction, _)| transaction.effective_tip_per_gas(base_fee))
        .filter(|tip| *tip >= IGNORED_TIP_WEI)
        .collect();
    tips.sort_unstable();
    tips.truncate(SAMPLES_PER_BLOCK);
    tips
}

/// A number of blocks: a quantity, or a plain JSON number as older clients send it.
struct BlockCount(u64);

impl<'de> Deserialize<'de> for BlockCount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        if let Some(count) = value.as_u64() {
            return Ok(Self(count));
        }
        let quantity: U64 = serde_json::from_value(value).map_err(serde::de::Error::custom)?;
        Ok(Self(quantity.to()))
    }
}

fn fee_history(params: &Params<'_>, context: &Context) -> Answer<FeeHistory> {
    let mut arguments = Arguments::new(params);
    let count = arguments.next::<BlockCount>("blockCount")?.0;
    let newest = arguments.next::<Tag>("newestBlock")?.0;
    let percentiles: Option<Vec<f64>> = arguments.optional("rewardPercentiles")?;
    arguments.end()?;
    let percentiles = percentiles.unwrap_or_default();
    check_percentiles(&percentiles)?;
    if count == 0 {
        return Ok(FeeHistory::default());
    }
    let newest = newest_block(context, newest)?;
    let last = newest.block.header.number;
    let first = (last + 1).saturating_sub(count.min(MAX_HISTORY_BLOCKS));
    let mut history = FeeHistory {
        oldest_block: first,
        reward: (!percentiles.is_empty()).then(Vec::new),
        ..Default::default()
    };
    for number in first..last {
        // A reorg to a shorter chain meanwhile ends the answer early.
        let Some(block) = context.chain.block_by_number(number).map_err(from_read)? else {
            break;
        };
        add_block(
            &mut history,
            context.chain.chain_spec(),
            &block,
            &percentiles,
        );
    }
    let chain = context.chain.chain_spec();
    add_block(&mut history, chain, &newest, &percentiles);
    let header = &newest.block.header;
    history
        .base_fee_per_gas
        .push(next_base_fee(chain, header).into());
    history
        .base_fee_per_blob_gas
        .push(next_blob_base_fee(chain, header));
    Ok(history)
}

fn check_percentiles(percentiles: &[f64]) -> Answer<()> {
    if percentiles.len() > MAX_PERCENTILES {
        return Err(failed(format!(
            "invalid reward percentile: over the query limit {MAX_PERCENTILES}"
        )));
    }
    for (index, percentile) in percentiles.iter().enumerate() {
        if !(0.0..=100.0).contains(percentile) {
            return Err(failed(format!(
                "invalid reward percentile: {percentile:.6}"
            )));
        }
        if index > 0 && *percentile <= percentiles[index - 1] {
            return Err(failed(format!(
                "invalid reward percentile: #{}:{:.6} >= #{index}:{percentile:.6}",
                index - 1,
                percentiles[index - 1]
            )));
        }
    }
    Ok(())
}

fn newest_block(context: &Context, tag: BlockNumberOrTag) -> Answer<Arc<ChainBlock>> {
    let block = context.chain.block(tag).map_err(from_read)?;
    block.ok_or_else(|| match tag {
        BlockNumberOrTag::Number(number) => failed(format!(
            "request beyond head block: requested {number}, head {}",
            context.chain.head().number
        )),
        tag => failed(format!("{tag} block not found")),
    })
}

fn add_block(history: &mut FeeHistory, chain: &ChainSpec, block: &ChainBlock, percentiles: &[f64]) {
    let header = &block.block.header;
    history
        .base_fee_per_gas
        .push(header.base_fee_per_gas.unwrap_or_default().into());
    history
        .gas_used_ratio
        .push(ratio(header.gas_used, header.gas_limit));
    history
        .base_fee_per_blob_gas
        .push(blob_base_fee(chain, header));
    let most = chain
        .blob_params_at(header.timestamp)
        .map_or(0, |params| params.max_blob_gas_per_block());
    history
        .blob_gas_used_ratio
        .push(ratio(header.blob_gas_used.unwrap_or_default(), most));
    if let Some(rewards) = &mut history.reward {
        rewards.push(tips_at(block, percentiles));
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a ratio of gas is read by people and needs no more than 53 bits"
)]
fn ratio(used: u64, limit: u64) -> f64 {
    if limit == 0 {
        return 0.0;
    }
    used as f64 / limit as f64
}

/// The tip at each percentile of the block's gas, transactions sorted by tip.
fn tips_at(block: &ChainBlock, percentiles: &[f64]) -> Vec<u128> {
    let header = &block.block.header;
    let base_fee = header.base_fee_per_gas.unwrap_or_default();
    let mut before = 0;
    let mut tips: Vec<(u128, u64)> = block
        .block
        .transactions
        .iter()
        .zip(&block.receipts)
        .map(|(transaction, receipt)| {
            let gas = receipt.cumulative_gas_used.saturating_sub(before);
            before = receipt.cumulative_gas_used;
            let tip = transaction.effective_tip_per_gas(base_fee);
            (tip.unwrap_or_default(), gas)
        })
        .collect();
    tips.sort_unstable_by_key(|(tip, _)| *tip);
    let mut at = 0;
    let mut sum = tips.first().map_or(0, |(_, gas)| *gas);
    percentiles
        .iter()
        .map(|percentile| {
            let threshold = threshold(header.gas_used, *percentile);
            while sum < threshold && at + 1 < tips.len() {
                at += 1;
                sum += tips[at].1;
            }
            tips.get(at).map_or(0, |(tip, _)| *tip)
        })
        .collect()
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "percentiles are between 0 and 100, and gas is far below 2^53"
)]
fn threshold(gas_used: u64, percentile: f64) -> u64 {
    (gas_used as f64 * percentile / 100.0) as u64
}

/// Base fee of the block after `header`; zero before London.
fn next_base_fee(chain: &ChainSpec, header: &Header) -> u64 {
    if chain.is_london_active_at_block(header.number + 1) {
        chain.next_base_fee(header)
    } else {
        0
    }
}

/// Price of blob gas in the block of `header`; zero before Cancun.
fn blob_base_fee(chain: &ChainSpec, header: &Header) -> u128 {
    let params = chain.blob_params_at(header.timestamp);
    params
        .and_then(|params| header.blob_fee(params))
        .unwrap_or_default()
}

/// Price of blob gas in the block after `header`, by the rules in force at `header`.
fn next_blob_base_fee(chain: &ChainSpec, header: &Header) -> u128 {
    let params = chain.blob_params_at(header.timestamp);
    params
        .and_then(|params| header.next_block_blob_fee(params))
        .unwrap_or_default()
}
