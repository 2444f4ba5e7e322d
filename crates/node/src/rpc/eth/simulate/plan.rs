//! Puts the blocks of a request in a row: numbers, times and the other fields known beforehand.
//!
//! Invariant: planned blocks have consecutive numbers from the base's on and increasing times.

use super::request::{BlockFields, BlockRequest, MAX_BLOCKS};
use crate::{
    chainspec::ChainSpec,
    rpc::{
        error::{LIMIT_OF_CLIENT, error, invalid_params},
        eth::{Answer, refusal::failed},
    },
};
use alloy_consensus::{EMPTY_OMMER_ROOT_HASH, Header, proofs::calculate_withdrawals_root};
use alloy_eips::eip4895::Withdrawals;
use alloy_hardforks::EthereumHardforks;
use alloy_primitives::{B256, U256};
use alloy_rpc_types_eth::{TransactionRequest, state::StateOverride};
use alloy_trie::EMPTY_ROOT_HASH;

/// Seconds between two blocks, unless a time is named.
const BLOCK_TIME_S: u64 = 12;

/// A block number that did not increase.
const NUMBER_ORDER: i32 = -38020;
/// A timestamp that did not increase.
const TIME_ORDER: i32 = -38021;

/// A block to simulate.
#[derive(Debug)]
pub(super) struct Planned {
    /// The header, without what follows from its parent and from execution.
    pub(super) header: Header,
    /// The base fee that was asked for.
    pub(super) base_fee: Option<u64>,
    /// The blob base fee that was asked for.
    pub(super) blob_base_fee: Option<u128>,
    /// Withdrawals, from Shanghai on.
    pub(super) withdrawals: Option<Withdrawals>,
    /// Accounts to override before the block.
    pub(super) overrides: StateOverride,
    /// Transactions.
    pub(super) calls: Vec<TransactionRequest>,
}

/// The blocks of `requests` on `base`, with empty ones where numbers were left out.
pub(super) fn plan(
    chain: &ChainSpec,
    base: &Header,
    requests: Vec<BlockRequest>,
) -> Answer<Vec<Planned>> {
    let mut planned: Vec<Planned> = Vec::with_capacity(requests.len());
    for request in requests {
        let before = planned.last().map_or(base, |block| &block.header);
        let number = number_after(before.number, base.number, &request)?;
        while planned.last().map_or(base, |block| &block.header).number + 1 < number {
            let before = planned.last().map_or(base, |block| &block.header);
            planned.push(block(chain, before, BlockRequest::default())?);
        }
        let before = planned.last().map_or(base, |block| &block.header);
        planned.push(block(chain, before, request)?);
    }
    Ok(planned)
}

/// The number of the block after `last`, which is not too far from `base`.
fn number_after(last: u64, base: u64, request: &BlockRequest) -> Answer<u64> {
    let fields = request.block_overrides.as_ref();
    let next = U256::from(last) + U256::from(1);
    let wanted = fields.and_then(|fields| fields.number).unwrap_or(next);
    if wanted < next {
        let problem = format!("block numbers must be in order: {wanted} <= {last}");
        return Err(error(NUMBER_ORDER, problem));
    }
    let number = u64::try_from(wanted).ok();
    number
        .filter(|number| number - base <= MAX_BLOCKS as u64)
        .ok_or_else(|| error(LIMIT_OF_CLIENT, "too many blocks"))
}

/// The block after `before` that `request` describes.
fn block(chain: &ChainSpec, before: &Header, request: BlockRequest) -> Answer<Planned> {
    let mut fields = request.block_overrides.unwrap_or_default();
    let timestamp = time_after(before.timestamp, &fields)?;
    if chain.is_amsterdam_active_at_timestamp(timestamp) {
        return Err(failed(format!(
            "the fork Amsterdam is not supported (timestamp {timestamp})"
        )));
    }
    let base_fee = fields.base_fee_per_gas.map(u64::try_from).transpose();
    let blob_base_fee = fields.blob_base_fee.map(u128::try_from).transpose();
    let withdrawals = fields.withdrawals.take().unwrap_or_default();
    let withdrawals = chain
        .is_shanghai_active_at_timestamp(timestamp)
        .then(|| Withdrawals::new(withdrawals));
    let mut header = Header {
        withdrawals_root: withdrawals
            .as_ref()
            .map(|list| calculate_withdrawals_root(list)),
        ..unrelated(before, timestamp)
    };
    header.difficulty = difficulty(chain, before, &header, &fields);
    replace(&mut header, &fields);
    if chain.is_cancun_active_at_timestamp(timestamp) {
        header.parent_beacon_block_root =
            Some(fields.beacon_root.map_or(B256::ZERO, |root| root.0));
    }
    let too_large = |field| invalid_params(format!("block override \"{field}\" is too large"));
    Ok(Planned {
        header,
        base_fee: base_fee.map_err(|_| too_large("baseFeePerGas"))?,
        blob_base_fee: blob_base_fee.map_err(|_| too_large("blobBaseFee"))?,
        withdrawals,
        overrides: request.state_overrides.unwrap_or_default(),
        calls: request.calls.unwrap_or_default(),
    })
}

fn time_after(last: u64, fields: &BlockFields) -> Answer<u64> {
    let time = match &fields.time {
        Some(time) => time.0,
        None => last.saturating_add(BLOCK_TIME_S),
    };
    if time <= last {
        let problem = format!("block timestamps must be in order: {time} <= {last}");
        return Err(error(TIME_ORDER, problem));
    }
    Ok(time)
}

/// The next block's header as it is without overrides.
fn unrelated(before: &Header, timestamp: u64) -> Header {
    Header {
        ommers_hash: EMPTY_OMMER_ROOT_HASH,
        beneficiary: before.beneficiary,
        transactions_root: EMPTY_ROOT_HASH,
        receipts_root: EMPTY_ROOT_HASH,
        number: before.number + 1,
        gas_limit: before.gas_limit,
        timestamp,
        ..Default::default()
    }
}

/// Proof of work goes on with the same difficulty until a fork that came after the merge.
fn difficulty(chain: &ChainSpec, before: &Header, header: &Header, fields: &BlockFields) -> U256 {
    let netsplit = chain.genesis().config.merge_netsplit_block;
    let merged = chain.merged_at_genesis()
        || before.difficulty.is_zero()
        || netsplit.is_some_and(|number| header.number >= number)
        || chain.is_shanghai_active_at_timestamp(header.timestamp);
    if merged {
        return U256::ZERO;
    }
    fields.difficulty.unwrap_or(before.difficulty)
}

fn replace(header: &mut Header, fields: &BlockFields) {
    if let Some(limit) = fields.gas_limit {
        header.gas_limit = limit.0;
    }
    if let Some(recipient) = fields.fee_recipient {
        header.beneficiary = recipient.0;
    }
    if let Some(randao) = fields.prev_randao {
        header.mix_hash = randao.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// Numbers and times of the planned blocks on block 10 at time 1000, or the complaint.
    fn planned(requests: Value) -> Result<Vec<(u64, u64)>, (i32, String)> {
        let mut config = json!({"chainId": 1, "terminalTotalDifficulty": 0, "shanghaiTime": 0,
            "cancunTime": 0});
        for fork in [
            "homestead",
            "eip150",
            "eip155",
            "eip158",
            "byzantium",
            "constantinople",
            "petersburg",
            "istanbul",
            "berlin",
            "london",
        ] {
            config[format!("{fork}Block")] = json!(0);
        }
        let genesis =
            json!({"config": config, "gasLimit": "0x1388", "difficulty": "0x0", "alloc": {}});
        let chain = ChainSpec::from_json(&genesis.to_string()).unwrap();
        let base = Header {
            number: 10,
            timestamp: 1000,
            ..Default::default()
        };
        let requests = serde_json::from_value(requests).unwrap();
        plan(&chain, &base, requests)
            .map(|blocks| {
                let place = |block: &Planned| (block.header.number, block.header.timestamp);
                blocks.iter().map(place).collect()
            })
            .map_err(|problem| (problem.code(), problem.message().to_owned()))
    }

    fn at(number: Option<u64>, time: Option<u64>) -> Value {
        let hex = |number: Option<u64>| number.map(|number| format!("{number:#x}"));
        json!({"blockOverrides": {"number": hex(number), "time": hex(time)}})
    }

    #[test]
    fn numbers_and_times_that_are_left_out_follow_the_block_before() {
        for (requests, expected) in [
            (json!([{}]), vec![(11, 1012)]),
            (
                json!([{}, at(None, Some(1013)), {}]),
                vec![(11, 1012), (12, 1013), (13, 1025)],
            ),
            (
                json!([at(Some(13), None), {}]),
                vec![(11, 1012), (12, 1024), (13, 1036), (14, 1048)],
            ),
            (
                json!([at(Some(12), Some(2000)), at(Some(14), None)]),
                vec![(11, 1012), (12, 2000), (13, 2012), (14, 2024)],
            ),
        ] {
            assert_eq!(planned(requests.clone()), Ok(expected), "{requests}");
        }
        let far = planned(json!([at(Some(266), None)])).unwrap();
        assert_eq!((far.len(), far[255]), (256, (266, 1000 + 256 * 12)));
    }

    #[test]
    fn what_is_out_of_order_or_too_far_is_refused() {
        for (requests, code, reason) in [
            (json!([at(Some(10), None)]), -38020, "10 <= 10"),
            (
                json!([at(Some(12), None), at(Some(11), None)]),
                -38020,
                "11 <= 12",
            ),
            (json!([at(None, Some(1000))]), -38021, "1000 <= 1000"),
            // The empty block between takes its twelve seconds.
            (json!([at(Some(12), Some(1012))]), -38021, "1012 <= 1012"),
            (
                json!([at(None, Some(u64::MAX)), {}]),
                -38021,
                "must be in order",
            ),
            (json!([at(Some(267), None)]), -38026, "too many blocks"),
            (json!([at(Some(u64::MAX), None)]), -38026, "too many blocks"),
            (
                json!([{"blockOverrides": {"number": format!("{:#x}", U256::MAX)}}]),
                -38026,
                "too many blocks",
            ),
            (
                json!([{"blockOverrides": {"baseFeePerGas": "0x10000000000000000"}}]),
                -32602,
                "\"baseFeePerGas\" is too large",
            ),
        ] {
            let (have, problem) = planned(requests.clone()).unwrap_err();
            assert_eq!(have, code, "{requests}: {problem}");
            assert!(problem.contains(reason), "{requests}: {problem}");
        }
    }
}
