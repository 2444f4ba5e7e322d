//! Shows a simulated block as `eth_getBlockByHash` would, with what came of its calls.

use super::{request::Options, unsigned::Unsigned};
use crate::rpc::{convert, error::internal, eth::Answer};
use alloy_consensus::{Header, transaction::TransactionInfo};
use alloy_eips::eip4895::Withdrawals;
use alloy_primitives::{B256, Log};
use alloy_rlp::Encodable;
use alloy_rpc_types_eth::{
    Block, BlockTransactions, Log as ShownLog,
    simulate::{SimCallResult, SimulatedBlock},
};
use serde_json::Value;

/// A simulated block as it is answered.
pub(super) type ShownBlock = SimulatedBlock<Block<Value>>;

/// A message that was run.
pub(super) struct Ran {
    /// It as it stands in the block.
    pub(super) unsigned: Unsigned,
    /// What it logged, each with its index in the block.
    pub(super) logs: Vec<(u64, Log)>,
    /// What else is told of it.
    pub(super) result: SimCallResult,
}

/// The block with its results.
pub(super) fn show(
    hash: &B256,
    header: Header,
    withdrawals: Option<Withdrawals>,
    ran: Vec<Ran>,
    options: Options,
) -> Answer<ShownBlock> {
    let size = block_bytes(&header, withdrawals.as_ref(), &ran);
    let place = TransactionInfo {
        block_hash: Some(*hash),
        block_number: Some(header.number),
        base_fee: header.base_fee_per_gas,
        block_timestamp: Some(header.timestamp),
        ..Default::default()
    };
    let mut full = Vec::new();
    let mut hashes = Vec::with_capacity(ran.len());
    let mut calls = Vec::with_capacity(ran.len());
    for (index, ran) in (0..).zip(ran) {
        let place = TransactionInfo {
            hash: Some(ran.unsigned.hash),
            index: Some(index),
            ..place
        };
        if options.full_transactions {
            let shown = ran.unsigned.shown(place);
            full.push(
                shown.map_err(|problem| internal(format!("encode a transaction: {problem}")))?,
            );
        }
        hashes.push(ran.unsigned.hash);
        let logs = ran.logs.into_iter();
        calls.push(SimCallResult {
            logs: logs
                .map(|(index, log)| shown_log(log, place, index))
                .collect(),
            ..ran.result
        });
    }
    let transactions = if options.full_transactions {
        BlockTransactions::Full(full)
    } else {
        BlockTransactions::Hashes(hashes)
    };
    Ok(SimulatedBlock {
        inner: Block {
            header: convert::rpc_header(*hash, &header, Some(size)),
            uncles: Vec::new(),
            transactions,
            withdrawals,
        },
        calls,
    })
}

fn shown_log(inner: Log, place: TransactionInfo, log_index: u64) -> ShownLog {
    ShownLog {
        inner,
        block_hash: place.block_hash,
        block_number: place.block_number,
        block_timestamp: place.block_timestamp,
        transaction_hash: place.hash,
        transaction_index: place.index,
        log_index: Some(log_index),
        removed: false,
    }
}

/// Length of the block's RLP, in bytes.
fn block_bytes(header: &Header, withdrawals: Option<&Withdrawals>, ran: &[Ran]) -> usize {
    let list = |payload_length| {
        alloy_rlp::Header {
            list: true,
            payload_length,
        }
        .length_with_payload()
    };
    let transactions = ran.iter().map(|ran| ran.unsigned.block_bytes()).sum();
    let no_ommers = list(0);
    let withdrawals = withdrawals.map_or(0, Encodable::length);
    list(header.length() + list(transactions) + no_ommers + withdrawals)
}
