//! `eth_config`: the rules in force, the next ones and the last ones known (EIP-7910).
//!
//! A configuration begins with a fork scheduled by time; before the first of them there is none.

use crate::chainspec::ChainSpec;
use alloy_eip2124::ForkHash;
use alloy_eips::{eip2935, eip4788, eip7002, eip7251, eip7840::BlobParams};
use alloy_evm::eth::spec::EthExecutorSpec;
use alloy_hardforks::EthereumHardforks;
use alloy_primitives::{Address, Bytes, U64};
use revm::precompile::{PrecompileSpecId, Precompiles};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The answer of `eth_config`.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Configurations {
    current: Option<Configuration>,
    next: Option<Configuration>,
    last: Option<Configuration>,
}

/// The rules from one fork on.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Configuration {
    activation_time: u64,
    blob_schedule: Option<BlobParams>,
    chain_id: U64,
    fork_id: Bytes,
    precompiles: BTreeMap<String, Address>,
    system_contracts: BTreeMap<&'static str, Address>,
}

/// The configurations as a head at `timestamp` sees them.
pub(super) fn of(chain: &ChainSpec, timestamp: u64) -> Configurations {
    let times = fork_times(chain);
    let current = times.range(..=timestamp).next_back();
    let next = times.range(timestamp.saturating_add(1)..).next();
    let last = next.and(times.last());
    let configuration = |time: Option<&u64>| time.map(|time| configuration(chain, *time));
    Configurations {
        current: configuration(current),
        next: configuration(next),
        last: configuration(last),
    }
}

fn configuration(chain: &ChainSpec, time: u64) -> Configuration {
    let is_genesis = time <= chain.genesis_header().timestamp;
    Configuration {
        activation_time: if is_genesis { 0 } else { time },
        blob_schedule: chain.blob_params_at(time),
        chain_id: U64::from(chain.chain_id()),
        fork_id: Bytes::copy_from_slice(&fork_hash(chain, time).0),
        precompiles: precompiles(chain, time),
        system_contracts: system_contracts(chain, time),
    }
}

/// Times at which the chain's rules change.
fn fork_times(chain: &ChainSpec) -> BTreeSet<u64> {
    let config = &chain.genesis().config;
    [
        config.shanghai_time,
        config.cancun_time,
        config.prague_time,
        config.osaka_time,
        config.bpo1_time,
        config.bpo2_time,
        config.bpo3_time,
        config.bpo4_time,
        config.bpo5_time,
        config.amsterdam_time,
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Blocks at which the chain's rules changed before there were forks by time.
fn fork_blocks(chain: &ChainSpec) -> BTreeSet<u64> {
    let config = &chain.genesis().config;
    [
        config.homestead_block,
        config.dao_fork_block,
        config.eip150_block,
        config.eip155_block,
        config.eip158_block,
        config.byzantium_block,
        config.constantinople_block,
        config.petersburg_block,
        config.istanbul_block,
        config.muir_glacier_block,
        config.berlin_block,
        config.london_block,
        config.arrow_glacier_block,
        config.gray_glacier_block,
        config.merge_netsplit_block,
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The checksum of the genesis and all forks up to `time` (EIP-2124, EIP-6122).
fn fork_hash(chain: &ChainSpec, time: u64) -> ForkHash {
    let genesis_time = chain.genesis_header().timestamp;
    let blocks = fork_blocks(chain).into_iter().filter(|block| *block > 0);
    let times = fork_times(chain).into_iter();
    let times = times.filter(|fork| *fork > genesis_time && *fork <= time);
    blocks
        .chain(times)
        .fold(ForkHash::from(chain.genesis_hash()), |hash, fork| {
            hash + fork
        })
}

fn precompiles(chain: &ChainSpec, time: u64) -> BTreeMap<String, Address> {
    let spec = if chain.is_osaka_active_at_timestamp(time) {
        PrecompileSpecId::OSAKA
    } else if chain.is_prague_active_at_timestamp(time) {
        PrecompileSpecId::PRAGUE
    } else if chain.is_cancun_active_at_timestamp(time) {
        PrecompileSpecId::CANCUN
    } else {
        PrecompileSpecId::BERLIN
    };
    let known = Precompiles::new(spec).inner().values();
    known
        .map(|precompile| (precompile.id().name().to_owned(), *precompile.address()))
        .collect()
}

fn system_contracts(chain: &ChainSpec, time: u64) -> BTreeMap<&'static str, Address> {
    let mut contracts = BTreeMap::new();
    if chain.is_cancun_active_at_timestamp(time) {
        contracts.insert("BEACON_ROOTS_ADDRESS", eip4788::BEACON_ROOTS_ADDRESS);
    }
    if chain.is_prague_active_at_timestamp(time) {
        contracts.extend([
            (
                "CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS",
                eip7251::CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS,
            ),
            ("HISTORY_STORAGE_ADDRESS", eip2935::HISTORY_STORAGE_ADDRESS),
            (
                "WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS",
                eip7002::WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS,
            ),
        ]);
        let deposit = chain.deposit_contract_address();
        contracts.extend(deposit.map(|address| ("DEPOSIT_CONTRACT_ADDRESS", address)));
    }
    contracts
}
