//! Which version of an Engine API method serves which fork, and which fields each version has.
//!
//! Source: execution-apis, `engine/{paris,shanghai,cancun,prague,osaka}.md`. Pure functions over
//! parsed parameters; the order is the specification's: structure first (-32602 or -38003), then
//! fork (-38005).

use super::error::{invalid_attributes, invalid_params, unsupported_fork};
use crate::chainspec::ChainSpec;
use alloy_hardforks::EthereumHardforks;
use alloy_primitives::Bytes;
use alloy_rpc_types_engine::{ExecutionPayload, PayloadAttributes};
use jsonrpsee::types::ErrorObjectOwned;

/// The forks that the Engine API's structures tell apart, oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fork {
    Paris,
    Shanghai,
    Cancun,
    Prague,
    Osaka,
    /// Later than this engine's structures reach.
    Amsterdam,
}

impl Fork {
    /// The fork active at `timestamp`.
    pub(super) fn at(chain: &ChainSpec, timestamp: u64) -> Self {
        if chain.is_amsterdam_active_at_timestamp(timestamp) {
            Self::Amsterdam
        } else if chain.is_osaka_active_at_timestamp(timestamp) {
            Self::Osaka
        } else if chain.is_prague_active_at_timestamp(timestamp) {
            Self::Prague
        } else if chain.is_cancun_active_at_timestamp(timestamp) {
            Self::Cancun
        } else if chain.is_shanghai_active_at_timestamp(timestamp) {
            Self::Shanghai
        } else {
            Self::Paris
        }
    }
}

/// Checks a payload against `engine_newPayloadV<version>`.
pub(super) fn check_new_payload(
    version: u8,
    payload: &ExecutionPayload,
    fork: Fork,
) -> Result<(), ErrorObjectOwned> {
    let structure = match payload {
        ExecutionPayload::V1(_) => 1,
        ExecutionPayload::V2(_) => 2,
        ExecutionPayload::V3(_) => 3,
        ExecutionPayload::V4(_) => 4,
    };
    let fits = match version {
        1 => structure == 1,
        2 => structure <= 2,
        _ => structure == 3,
    };
    if !fits {
        return Err(invalid_params(format!(
            "engine_newPayloadV{version} does not take ExecutionPayloadV{structure}"
        )));
    }
    if version == 2 && fork < Fork::Cancun && (structure == 2) != (fork == Fork::Shanghai) {
        return Err(invalid_params(
            "withdrawals are required from Shanghai on, and only from then",
        ));
    }
    let served = match version {
        1 => true,
        2 => fork < Fork::Cancun,
        3 => fork == Fork::Cancun,
        _ => matches!(fork, Fork::Prague | Fork::Osaka),
    };
    check_served(served, "newPayload", version, fork)
}

/// Checks the attributes of `engine_forkchoiceUpdatedV<version>`.
pub(super) fn check_attributes(
    version: u8,
    attributes: &PayloadAttributes,
    fork: Fork,
) -> Result<(), ErrorObjectOwned> {
    let structure = match (
        &attributes.withdrawals,
        &attributes.parent_beacon_block_root,
    ) {
        (None, None) => 1,
        (Some(_), None) => 2,
        (Some(_), Some(_)) => 3,
        (None, Some(_)) => return Err(invalid_attributes("withdrawals are missing")),
    };
    if attributes.slot_number.is_some() || attributes.target_gas_limit.is_some() {
        return Err(invalid_attributes(
            "slotNumber and targetGasLimit need a later version",
        ));
    }
    let fits = match version {
        2 => structure <= 2,
        _ => structure == version,
    };
    if !fits {
        return Err(invalid_attributes(format!(
            "engine_forkchoiceUpdatedV{version} does not take PayloadAttributesV{structure}"
        )));
    }
    if version == 2 && fork < Fork::Cancun && (structure == 2) != (fork == Fork::Shanghai) {
        return Err(invalid_attributes(
            "withdrawals are required from Shanghai on, and only from then",
        ));
    }
    let served = match version {
        1 => fork == Fork::Paris,
        2 => fork < Fork::Cancun,
        _ => (Fork::Cancun..=Fork::Osaka).contains(&fork),
    };
    check_served(served, "forkchoiceUpdated", version, fork)
}

/// Checks that `engine_getPayloadV<version>` can express a payload of `fork`.
pub(super) fn check_get_payload(version: u8, fork: Fork) -> Result<(), ErrorObjectOwned> {
    let served = match version {
        1 => fork == Fork::Paris,
        2 => fork <= Fork::Shanghai,
        3 => fork == Fork::Cancun,
        4 => fork == Fork::Prague,
        _ => fork == Fork::Osaka,
    };
    check_served(served, "getPayload", version, fork)
}

/// Checks that `engine_getBlobsV<version>` fits the blobs of `fork`.
pub(super) fn check_get_blobs(version: u8, fork: Fork) -> Result<(), ErrorObjectOwned> {
    let served = (version == 1) == (fork < Fork::Osaka);
    check_served(served, "getBlobs", version, fork)
}

fn check_served(
    served: bool,
    method: &str,
    version: u8,
    fork: Fork,
) -> Result<(), ErrorObjectOwned> {
    if served {
        return Ok(());
    }
    Err(unsupported_fork(format!(
        "Unsupported fork: engine_{method}V{version} does not serve {fork:?}"
    )))
}

/// Checks the shape of EIP-7685 requests: a type byte and data each, types strictly ascending.
pub(super) fn check_requests(requests: &[Bytes]) -> Result<(), ErrorObjectOwned> {
    if requests.iter().any(|request| request.len() <= 1) {
        return Err(invalid_params("executionRequests: an element has no data"));
    }
    if requests.windows(2).any(|pair| pair[0][0] >= pair[1][0]) {
        return Err(invalid_params(
            "executionRequests: types are not strictly ascending",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::{B256, bytes};
    use alloy_rpc_types_engine::{ExecutionPayloadV1, ExecutionPayloadV2, ExecutionPayloadV3};

    const FORKS: [Fork; 6] = [
        Fork::Paris,
        Fork::Shanghai,
        Fork::Cancun,
        Fork::Prague,
        Fork::Osaka,
        Fork::Amsterdam,
    ];

    fn payload(structure: u8) -> ExecutionPayload {
        let block = alloy_consensus::Block::<crate::primitives::TransactionSigned>::default();
        let v1 = ExecutionPayloadV1::from_block_unchecked(B256::ZERO, &block);
        let v2 = ExecutionPayloadV2 {
            payload_inner: v1.clone(),
            withdrawals: vec![],
        };
        match structure {
            1 => v1.into(),
            2 => v2.into(),
            _ => ExecutionPayloadV3 {
                payload_inner: v2,
                blob_gas_used: 0,
                excess_blob_gas: 0,
            }
            .into(),
        }
    }

    fn attributes(structure: u8) -> PayloadAttributes {
        PayloadAttributes {
            withdrawals: (structure >= 2).then(Vec::new),
            parent_beacon_block_root: (structure >= 3).then_some(B256::ZERO),
            ..Default::default()
        }
    }

    /// One letter a fork: `.` accepted, else the last digit of the code (2, 3 or 5).
    fn row(check: impl Fn(Fork) -> Result<(), ErrorObjectOwned>) -> String {
        let letter = |fork| match check(fork).map_err(|error| error.code()) {
            Ok(()) => '.',
            Err(-32602) => '2',
            Err(-38003) => '3',
            Err(-38005) => '5',
            Err(other) => panic!("unexpected code {other}"),
        };
        FORKS.iter().copied().map(letter).collect()
    }

    #[test]
    fn new_payload_table() {
        // Paris, Shanghai, Cancun, Prague, Osaka, Amsterdam.
        for (version, structure, expected) in [
            (1, 1, "......"),
            (1, 2, "222222"),
            (2, 1, ".25555"),
            (2, 2, "2.5555"),
            (2, 3, "222222"),
            (3, 2, "222222"),
            (3, 3, "55.555"),
            (4, 3, "555..5"),
            (4, 2, "222222"),
        ] {
            let got = row(|fork| check_new_payload(version, &payload(structure), fork));
            assert_eq!(got, expected, "newPayloadV{version} with V{structure}");
        }
    }

    #[test]
    fn attributes_table() {
        for (version, structure, expected) in [
            (1, 1, ".55555"),
            (1, 2, "333333"),
            (2, 1, ".35555"),
            (2, 2, "3.5555"),
            (2, 3, "333333"),
            (3, 3, "55...5"),
            (3, 2, "333333"),
        ] {
            let got = row(|fork| check_attributes(version, &attributes(structure), fork));
            assert_eq!(
                got, expected,
                "forkchoiceUpdatedV{version} with V{structure}"
            );
        }
        let amsterdam = PayloadAttributes {
            slot_number: Some(1),
            ..attributes(3)
        };
        assert_eq!(row(|fork| check_attributes(3, &amsterdam, fork)), "333333");
    }

    #[test]
    fn get_payload_table() {
        for (version, expected) in [
            (1, ".55555"),
            (2, "..5555"),
            (3, "55.555"),
            (4, "555.55"),
            (5, "5555.5"),
        ] {
            let got = row(|fork| check_get_payload(version, fork));
            assert_eq!(got, expected, "getPayloadV{version}");
        }
    }

    #[test]
    fn get_blobs_table() {
        for (version, expected) in [(1, "....55"), (2, "5555.."), (3, "5555..")] {
            let got = row(|fork| check_get_blobs(version, fork));
            assert_eq!(got, expected, "getBlobsV{version}");
        }
    }

    #[test]
    fn requests_have_data_and_ascend() {
        for (requests, fine) in [
            (vec![], true),
            (vec![bytes!("0001"), bytes!("0102"), bytes!("0203")], true),
            (vec![bytes!("00")], false),
            (vec![bytes!("")], false),
            (vec![bytes!("0102"), bytes!("0001")], false),
            (vec![bytes!("0102"), bytes!("0103")], false),
        ] {
            assert_eq!(check_requests(&requests).is_ok(), fine, "{requests:?}");
        }
    }
}
