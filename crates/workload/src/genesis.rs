//! The chain every base state belongs to: identity, forks and the genesis header's fields.

use serde_json::{Value, json};

/// The chain's id.
pub const CHAIN_ID: u64 = 1337;
/// The gas limit of every block: far above any target, so that the target is what fills a block.
pub const GAS_LIMIT: u64 = 1_000_000_000;
/// The base fee of the genesis block, in wei.
pub const BASE_FEE_WEI: u64 = 1_000_000_000;

/// A genesis in geth's format without `alloc`: Prague from the start.
///
/// Whoever loads the state adds `"stateRoot"`; an engine that needs the accounts takes them from
/// [`crate::BaseState::items`], from [`crate::export::write_genesis`] or from
/// [`crate::export::write_state_dump`].
pub fn chain_json() -> Value {
    json!({
        "config": {
            "chainId": CHAIN_ID,
            "homesteadBlock": 0,
            "eip150Block": 0,
            "eip155Block": 0,
            "eip158Block": 0,
            "byzantiumBlock": 0,
            "constantinopleBlock": 0,
            "petersburgBlock": 0,
            "istanbulBlock": 0,
            "berlinBlock": 0,
            "londonBlock": 0,
            "mergeNetsplitBlock": 0,
            "terminalTotalDifficulty": 0,
            "terminalTotalDifficultyPassed": true,
            "shanghaiTime": 0,
            "cancunTime": 0,
            "pragueTime": 0,
            "depositContractAddress": "0x00000000219ab540356cbb839cbe05303d7705fa",
            "blobSchedule": {
                "cancun": { "target": 3, "max": 6, "baseFeeUpdateFraction": 3_338_477 },
                "prague": { "target": 6, "max": 9, "baseFeeUpdateFraction": 5_007_716 },
                "osaka": { "target": 6, "max": 9, "baseFeeUpdateFraction": 5_007_716 },
            },
        },
        "nonce": "0x0",
        "timestamp": "0x0",
        "extraData": "0x",
        "gasLimit": format!("{GAS_LIMIT:#x}"),
        "difficulty": "0x0",
        "mixHash": "0x0000000000000000000000000000000000000000000000000000000000000000",
        "coinbase": "0x0000000000000000000000000000000000000000",
        "number": "0x0",
        "parentHash": "0x0000000000000000000000000000000000000000000000000000000000000000",
        "gasUsed": "0x0",
        "baseFeePerGas": format!("{BASE_FEE_WEI:#x}"),
        "excessBlobGas": "0x0",
        "blobGasUsed": "0x0",
    })
}
