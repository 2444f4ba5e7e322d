//! What `eth_simulateV1` is asked, as the specification writes it.
//!
//! A field that is null counts as left out. Source: execution-apis, `schemas/execute.yaml`.

use crate::rpc::{
    error::{LIMIT_OF_CLIENT, error, invalid_params},
    eth::Answer,
    forms::{Account, Hash, Quantity},
};
use alloy_eips::eip4895::Withdrawal;
use alloy_primitives::U256;
use alloy_rpc_types_eth::{TransactionRequest, state::StateOverride};
use serde::Deserialize;

/// Most blocks of a request, those between them included: as far as `BLOCKHASH` reaches.
pub(super) const MAX_BLOCKS: usize = 256;
/// Most calls of a block, as in geth.
const MAX_CALLS_PER_BLOCK: usize = 5_000;
/// Most calls of a request, as in geth.
const MAX_CALLS: usize = 10_000;

/// The first parameter.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Payload {
    /// The blocks, in order.
    block_state_calls: Option<Vec<BlockRequest>>,
    trace_transfers: Option<bool>,
    validation: Option<bool>,
    return_full_transactions: Option<bool>,
}

/// How blocks are simulated and shown.
#[derive(Debug, Clone, Copy)]
pub(super) struct Options {
    /// Whether ether that moves is logged.
    pub(super) trace_transfers: bool,
    /// Whether nonces and fees are checked as in a real block.
    pub(super) validation: bool,
    /// Whether transactions are shown in full.
    pub(super) full_transactions: bool,
}

/// One block that is asked for.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct BlockRequest {
    /// Fields of the block.
    pub(super) block_overrides: Option<BlockFields>,
    /// Accounts, before the block.
    pub(super) state_overrides: Option<StateOverride>,
    /// Transactions, in order.
    pub(super) calls: Option<Vec<TransactionRequest>>,
}

/// Fields that replace what a block would have by default.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct BlockFields {
    pub(super) number: Option<U256>,
    pub(super) difficulty: Option<U256>,
    pub(super) time: Option<Quantity>,
    pub(super) gas_limit: Option<Quantity>,
    pub(super) fee_recipient: Option<Account>,
    pub(super) prev_randao: Option<Hash>,
    pub(super) base_fee_per_gas: Option<U256>,
    pub(super) blob_base_fee: Option<U256>,
    pub(super) beacon_root: Option<Hash>,
    pub(super) withdrawals: Option<Vec<Withdrawal>>,
}

impl Payload {
    /// The options and the blocks, of which there is one at least and not too many.
    pub(super) fn checked(self) -> Answer<(Options, Vec<BlockRequest>)> {
        let options = Options {
            trace_transfers: self.trace_transfers.unwrap_or_default(),
            validation: self.validation.unwrap_or_default(),
            full_transactions: self.return_full_transactions.unwrap_or_default(),
        };
        let blocks = self.block_state_calls.unwrap_or_default();
        if blocks.is_empty() {
            return Err(invalid_params("empty input"));
        }
        if blocks.len() > MAX_BLOCKS {
            return Err(error(LIMIT_OF_CLIENT, "too many blocks"));
        }
        let calls = |block: &BlockRequest| block.calls.as_ref().map_or(0, Vec::len);
        if let Some(most) = blocks.iter().map(calls).find(|n| *n > MAX_CALLS_PER_BLOCK) {
            let problem = format!("too many calls in block: {most} > {MAX_CALLS_PER_BLOCK}");
            return Err(error(LIMIT_OF_CLIENT, problem));
        }
        let total: usize = blocks.iter().map(calls).sum();
        if total > MAX_CALLS {
            let problem = format!("too many calls: {total} > {MAX_CALLS}");
            return Err(error(LIMIT_OF_CLIENT, problem));
        }
        Ok((options, blocks))
    }
}
