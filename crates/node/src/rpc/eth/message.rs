//! Turns a `GenericTransaction` into what the EVM runs, with the checks and defaults of geth:
//! nothing is paid unless a price is named, and a missing gas limit is the node's own.

use super::{Answer, refusal::failed};
use crate::rpc::error::invalid_params;
use alloy_primitives::{Bytes, TxKind};
use alloy_rpc_types_eth::TransactionRequest;
use revm::{context::TxEnv, context_interface::either::Either};

/// EIP-2718 types, in the numbers revm takes.
mod kind {
    pub(super) const LEGACY: u8 = 0;
    pub(super) const ACCESS_LIST: u8 = 1;
    pub(super) const DYNAMIC_FEE: u8 = 2;
    pub(super) const BLOB: u8 = 3;
    pub(super) const SET_CODE: u8 = 4;
}

/// Most gas a message may use when the flag says zero: in effect no limit, as in geth.
pub(super) const UNLIMITED_GAS: u64 = u64::MAX / 2;

/// The gas a message without a limit gets, and the most that any may ask for. Zero lifts the cap.
pub(super) fn gas_cap(flag: u64) -> u64 {
    if flag == 0 { UNLIMITED_GAS } else { flag }
}

/// The request as a block with or without a base fee takes it: before London there is one price.
pub(super) fn in_era(request: TransactionRequest, has_base_fee: bool) -> TransactionRequest {
    if has_base_fee {
        return request;
    }
    TransactionRequest {
        max_fee_per_gas: None,
        max_priority_fee_per_gas: None,
        ..request
    }
}

/// The message `request` describes. Its gas limit is `gas_cap` at most.
pub(super) fn message(request: TransactionRequest, chain_id: u64, gas_cap: u64) -> Answer<TxEnv> {
    check(&request, chain_id)?;
    let fees = Fees::of(&request);
    let tx_type = fees.tx_type(&request);
    Ok(TxEnv {
        tx_type,
        caller: request.from.unwrap_or_default(),
        gas_limit: request.gas.unwrap_or(gas_cap).min(gas_cap),
        gas_price: fees.cap,
        gas_priority_fee: (tx_type >= kind::DYNAMIC_FEE).then_some(fees.tip.unwrap_or(fees.cap)),
        kind: request.to.unwrap_or(TxKind::Create),
        value: request.value.unwrap_or_default(),
        data: input(&request)?,
        nonce: request.nonce.unwrap_or_default(),
        chain_id: Some(chain_id),
        access_list: request.access_list.unwrap_or_default(),
        blob_hashes: request.blob_versioned_hashes.unwrap_or_default(),
        max_fee_per_blob_gas: request.max_fee_per_blob_gas.unwrap_or_default(),
        authorization_list: request
            .authorization_list
            .unwrap_or_default()
            .into_iter()
            .map(Either::Left)
            .collect(),
    })
}

/// What a request pays for gas.
struct Fees {
    /// The most per gas, in wei.
    cap: u128,
    /// The priority fee; `None` when a single price was named.
    tip: Option<u128>,
}

impl Fees {
    fn of(request: &TransactionRequest) -> Self {
        let dynamic =
            request.max_fee_per_gas.is_some() || request.max_priority_fee_per_gas.is_some();
        if dynamic {
            return Self {
                cap: request.max_fee_per_gas.unwrap_or_default(),
                tip: Some(request.max_priority_fee_per_gas.unwrap_or_default()),
            };
        }
        Self {
            cap: request.gas_price.unwrap_or_default(),
            tip: None,
        }
    }

    fn tx_type(&self, request: &TransactionRequest) -> u8 {
        if request.authorization_list.is_some() {
            kind::SET_CODE
        } else if request.blob_versioned_hashes.is_some() {
            kind::BLOB
        } else if self.tip.is_some() {
            kind::DYNAMIC_FEE
        } else if request.access_list.is_some() {
            kind::ACCESS_LIST
        } else {
            kind::LEGACY
        }
    }
}

/// Refuses fields that contradict each other or the chain.
fn check(request: &TransactionRequest, chain_id: u64) -> Answer<()> {
    let dynamic = request.max_fee_per_gas.is_some() || request.max_priority_fee_per_gas.is_some();
    if request.gas_price.is_some() && dynamic {
        return Err(failed(
            "both gasPrice and (maxFeePerGas or maxPriorityFeePerGas) specified",
        ));
    }
    if let Some(have) = request.chain_id.filter(|have| *have != chain_id) {
        return Err(failed(format!(
            "chainId does not match node's (have={have}, want={chain_id})"
        )));
    }
    if matches!(request.to, None | Some(TxKind::Create)) {
        if request.blob_versioned_hashes.is_some() {
            return Err(failed("blob transaction of type create"));
        }
        if request.authorization_list.is_some() {
            return Err(failed(
                "EIP-7702 transaction cannot be used to create contract",
            ));
        }
    }
    Ok(())
}

/// `input`, or `data` under its older name; both only when they are equal.
fn input(request: &TransactionRequest) -> Answer<Bytes> {
    match request.input.unique_input() {
        Ok(input) => Ok(input.cloned().unwrap_or_default()),
        Err(_) => Err(invalid_params(
            "both \"data\" and \"input\" are set and not equal; use \"input\" to pass call data",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Type, price and tip of the message, or the complaint.
    fn read(mut json: serde_json::Value) -> Result<(u8, u128, Option<u128>), String> {
        if json.get("to").is_none() {
            json["to"] = json!("0x00000000000000000000000000000000000000aa");
        }
        let request = serde_json::from_value(json).unwrap();
        message(request, 7, 50)
            .map(|tx| (tx.tx_type, tx.gas_price, tx.gas_priority_fee))
            .map_err(|problem| problem.message().to_owned())
    }

    #[test]
    fn the_fields_that_are_set_choose_the_type_and_the_fees() {
        let hash = "0x0100000000000000000000000000000000000000000000000000000000000000";
        for (request, expected) in [
            (json!({}), (0, 0, None)),
            (json!({"gasPrice":"0x5"}), (0, 5, None)),
            (json!({"accessList":[],"gasPrice":"0x5"}), (1, 5, None)),
            (json!({"maxFeePerGas":"0x5"}), (2, 5, Some(0))),
            (json!({"maxPriorityFeePerGas":"0x5"}), (2, 0, Some(5))),
            (
                json!({"blobVersionedHashes":[hash],"gasPrice":"0x5"}),
                (3, 5, Some(5)),
            ),
            (
                json!({"authorizationList":[],"maxFeePerGas":"0x5"}),
                (4, 5, Some(0)),
            ),
        ] {
            assert_eq!(read(request.clone()), Ok(expected), "{request}");
        }
    }

    #[test]
    fn contradictions_are_refused() {
        for (request, expected) in [
            (
                json!({"gasPrice":"0x1","maxFeePerGas":"0x1"}),
                "both gasPrice and",
            ),
            (json!({"chainId":"0x8"}), "have=8, want=7"),
            (
                json!({"input":"0x01","data":"0x02"}),
                "are set and not equal",
            ),
            (
                json!({"to":null,"blobVersionedHashes":[]}),
                "of type create",
            ),
            (json!({"to":null,"authorizationList":[]}), "create contract"),
        ] {
            let problem = read(request.clone()).unwrap_err();
            assert!(problem.contains(expected), "{request}: {problem}");
        }
    }

    #[test]
    fn gas_is_capped() {
        let gas = |gas: Option<u64>| {
            let request = TransactionRequest {
                gas,
                ..Default::default()
            };
            message(request, 7, 50).unwrap().gas_limit
        };
        assert_eq!([None, Some(20), Some(u64::MAX)].map(gas), [50, 20, 50]);
        assert_eq!([0, 9].map(gas_cap), [UNLIMITED_GAS, 9]);
    }
}
