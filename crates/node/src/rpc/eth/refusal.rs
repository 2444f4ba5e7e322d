//! What is told about a message that may not run, reverted or failed, in the words of geth that
//! users and tools look for.
//!
//! Invariant: codes are those of execution-apis, `eth/execute.yaml` and `error-groups`; only a
//! reverted call carries data.

use super::watch::LastStep;
use crate::rpc::error::{EXECUTION_REVERTED, INTERNAL_ERROR, INVALID_PARAMS, SERVER_ERROR, error};
use alloy_primitives::{Address, Bytes, U256};
use alloy_sol_types::{Panic, Revert, SolError};
use jsonrpsee::types::ErrorObjectOwned;
use revm::{
    bytecode::opcode::OpCode,
    context::{
        BlockEnv, TxEnv,
        result::{HaltReason, InvalidTransaction},
    },
};

/// Largest code a transaction may deploy with before Amsterdam (EIP-3860).
const MAX_INIT_CODE_BYTES: usize = 2 * 24_576;

/// Why a message was not run at all.
#[derive(Debug, Clone)]
pub(super) struct Refusal {
    /// The code `eth_simulateV1` answers with; other methods answer -32000.
    pub(super) simulate_code: i32,
    /// What is wrong.
    pub(super) text: String,
}

impl Refusal {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self {
            simulate_code: INTERNAL_ERROR,
            text: text.into(),
        }
    }

    /// Whether more gas would help: the limit does not even pay for the start.
    pub(super) fn is_about_gas(&self) -> bool {
        self.simulate_code == -38013
    }

    fn with_code(simulate_code: i32, text: impl Into<String>) -> Self {
        Self {
            simulate_code,
            text: text.into(),
        }
    }

    /// The words for a transaction that is not valid in its block.
    pub(super) fn of(problem: &InvalidTransaction, tx: &TxEnv, block: &BlockEnv) -> Self {
        use InvalidTransaction as Problem;
        let from = tx.caller;
        match problem {
            Problem::NonceTooLow { tx, state } => Self::with_code(
                -38010,
                format!("nonce too low: address {from}, tx: {tx} state: {state}"),
            ),
            Problem::NonceTooHigh { tx, state } => Self::with_code(
                -38011,
                format!("nonce too high: address {from}, tx: {tx} state: {state}"),
            ),
            Problem::NonceOverflowInTransaction => Self::new(format!(
                "nonce has max value: address {from}, nonce: {}",
                tx.nonce
            )),
            Problem::CallGasCostMoreThanGasLimit {
                initial_gas,
                gas_limit,
            } => Self::with_code(
                -38013,
                format!("intrinsic gas too low: have {gas_limit}, want {initial_gas}"),
            ),
            Problem::GasFloorMoreThanGasLimit {
                gas_floor,
                gas_limit,
            } => Self::with_code(
                -38013,
                format!(
                    "insufficient gas for floor data gas cost: have {gas_limit}, want {gas_floor}"
                ),
            ),
            Problem::CallerGasLimitMoreThanBlock => Self::with_code(
                -38015,
                format!(
                    "gas limit reached: transaction asks for {}, the block has {}",
                    tx.gas_limit, block.gas_limit
                ),
            ),
            Problem::LackOfFundForMaxFee { fee, balance } => Self::with_code(
                -38014,
                format!(
                    "insufficient funds for gas * price + value: address {from} have {balance} want {fee}"
                ),
            ),
            Problem::OverflowPaymentInTransaction => Self::with_code(
                -38014,
                format!(
                    "insufficient funds for gas * price + value: address {from} required balance exceeds 256 bits"
                ),
            ),
            Problem::RejectCallerWithCode => {
                Self::with_code(-38024, format!("sender not an eoa: address {from}"))
            }
            Problem::CreateInitCodeSizeLimit => Self::with_code(
                -38025,
                format!(
                    "max initcode size exceeded: code size {} limit {MAX_INIT_CODE_BYTES}",
                    tx.data.len()
                ),
            ),
            other => Self::of_fees(other, tx, block),
        }
    }

    fn of_fees(problem: &InvalidTransaction, tx: &TxEnv, block: &BlockEnv) -> Self {
        use InvalidTransaction as Problem;
        let from = tx.caller;
        match problem {
            Problem::GasPriceLessThanBasefee => Self::with_code(
                -38012,
                format!(
                    "max fee per gas less than block base fee: address {from}, maxFeePerGas: {}, baseFee: {}",
                    tx.gas_price, block.basefee
                ),
            ),
            Problem::PriorityFeeGreaterThanMaxFee => Self::with_code(
                INVALID_PARAMS,
                format!(
                    "max priority fee per gas higher than max fee per gas: address {from}, maxPriorityFeePerGas: {}, maxFeePerGas: {}",
                    tx.gas_priority_fee.unwrap_or_default(),
                    tx.gas_price
                ),
            ),
            Problem::BlobGasPriceGreaterThanMax {
                block_blob_gas_price,
                tx_max_fee_per_blob_gas,
            } => Self::new(format!(
                "max fee per blob gas less than block blob gas fee: address {from} blobGasFeeCap: {tx_max_fee_per_blob_gas}, blobBaseFee: {block_blob_gas_price}"
            )),
            Problem::TxGasLimitGreaterThanCap { gas_limit, cap } => Self::new(format!(
                "transaction gas limit too high (cap: {cap}, tx: {gas_limit})"
            )),
            Problem::EmptyBlobs => Self::new("blob transaction missing blob hashes"),
            Problem::TooManyBlobs { .. } => Self::new("blob transaction has too many blobs"),
            Problem::BlobCreateTransaction => Self::new("blob transaction of type create"),
            Problem::BlobVersionNotSupported => {
                let first = tx
                    .blob_hashes
                    .iter()
                    .position(|hash| hash[0] != alloy_eips::eip4844::VERSIONED_HASH_VERSION_KZG);
                Self::new(format!(
                    "blob {} has invalid hash version",
                    first.unwrap_or_default()
                ))
            }
            Problem::EmptyAuthorizationList => Self::new(format!(
                "EIP-7702 transaction with empty auth list (sender {from})"
            )),
            Problem::Eip2930NotSupported
            | Problem::Eip1559NotSupported
            | Problem::Eip4844NotSupported
            | Problem::Eip7702NotSupported
            | Problem::AccessListNotSupported
            | Problem::AuthorizationListNotSupported
            | Problem::BlobVersionedHashesNotSupported
            | Problem::MaxFeePerBlobGasNotSupported => Self::new("transaction type not supported"),
            other => Self::new(other.to_string()),
        }
    }
}

/// The words for an execution that used up its gas without an answer.
pub(super) fn halt_text(reason: &HaltReason, last: LastStep) -> String {
    match reason {
        HaltReason::OutOfGas(_) => "out of gas".into(),
        HaltReason::InvalidFEOpcode => "invalid opcode: INVALID".into(),
        HaltReason::OpcodeNotFound | HaltReason::NotActivated => match OpCode::new(last.opcode) {
            Some(known) if *reason == HaltReason::NotActivated => {
                format!("invalid opcode: {known}")
            }
            _ => format!("invalid opcode: opcode {:#x} not defined", last.opcode),
        },
        HaltReason::InvalidJump => "invalid jump destination".into(),
        HaltReason::StackUnderflow => {
            let wanted = OpCode::new(last.opcode).map_or(0, |op| op.info().inputs());
            format!("stack underflow ({} <=> {wanted})", last.stack_items)
        }
        HaltReason::StackOverflow => format!("stack limit reached {} (1023)", last.stack_items),
        HaltReason::OutOfOffset => "return data out of bounds".into(),
        HaltReason::CreateCollision => "contract address collision".into(),
        HaltReason::NonceOverflow => "nonce uint64 overflow".into(),
        HaltReason::CreateContractSizeLimit => "max code size exceeded".into(),
        HaltReason::CreateContractStartingWithEF => "invalid code: must not begin with 0xef".into(),
        HaltReason::CreateInitCodeSizeLimit => "max initcode size exceeded".into(),
        HaltReason::StateChangeDuringStaticCall | HaltReason::CallNotAllowedInsideStatic => {
            "write protection".into()
        }
        HaltReason::OutOfFunds => "insufficient balance for transfer".into(),
        HaltReason::CallTooDeep => "max call depth exceeded".into(),
        other => other.to_string(),
    }
}

/// The answer to a call that reverted: code 3, the reason when it can be read, and the bytes.
pub(super) fn reverted(output: &Bytes) -> ErrorObjectOwned {
    ErrorObjectOwned::owned(EXECUTION_REVERTED, revert_text(output), Some(output))
}

/// `execution reverted`, with the reason when `output` is Solidity's `Error` or `Panic`.
pub(super) fn revert_text(output: &[u8]) -> String {
    let reason = if let Ok(revert) = Revert::abi_decode(output) {
        revert.reason
    } else if let Ok(panic) = Panic::abi_decode(output) {
        panic_text(panic.code)
    } else {
        return "execution reverted".into();
    };
    format!("execution reverted: {reason}")
}

/// Solidity's panic codes (Solidity documentation, "Panic via assert and Error via require").
fn panic_text(code: U256) -> String {
    let text = match u64::try_from(code) {
        Ok(0x00) => "generic panic",
        Ok(0x01) => "assert(false)",
        Ok(0x11) => "arithmetic underflow or overflow",
        Ok(0x12) => "division or modulo by zero",
        Ok(0x21) => "enum overflow",
        Ok(0x22) => "invalid encoded storage byte array accessed",
        Ok(0x31) => "out-of-bounds array access; popping on an empty array",
        Ok(0x32) => "out-of-bounds access of an array or bytesN",
        Ok(0x41) => "out of memory",
        Ok(0x51) => "uninitialized function",
        _ => return format!("unknown panic code: {code:#x}"),
    };
    text.into()
}

/// An error with code -32000.
pub(super) fn failed(text: impl Into<String>) -> ErrorObjectOwned {
    error(SERVER_ERROR, text)
}

/// Says that `address` has two overrides that exclude each other.
pub(super) fn both_storages(address: Address) -> ErrorObjectOwned {
    failed(format!(
        "account {address} has both 'state' and 'stateDiff'"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::bytes;

    #[test]
    fn revert_reasons_are_read_when_they_can_be() {
        let error = Revert::from("no").abi_encode();
        let panic = |code: u64| {
            Panic {
                code: U256::from(code),
            }
            .abi_encode()
        };
        for (output, expected) in [
            (error.clone(), "execution reverted: no"),
            (panic(1), "execution reverted: assert(false)"),
            (panic(0x99), "execution reverted: unknown panic code: 0x99"),
            (Vec::new(), "execution reverted"),
            (bytes!("08c379a0ffff").to_vec(), "execution reverted"),
            (error[..error.len() - 32].to_vec(), "execution reverted"),
        ] {
            assert_eq!(revert_text(&output), expected, "{output:02x?}");
        }
    }
}
