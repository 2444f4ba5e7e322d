//! `eth_estimateGas`: the fewest gas with which a message succeeds.
//!
//! Success is taken to be monotonic in the gas limit, as every client takes it.

use super::{
    Answer,
    execution::{Prepared, prepare},
    machine::{Machine, Stopped},
    message::gas_cap,
    refusal::failed,
};
use crate::rpc::Context;
use alloy_eips::{eip4844::DATA_GAS_PER_BLOB, eip7825::MAX_TX_GAS_LIMIT_OSAKA};
use alloy_primitives::{TxKind, U64, U256};
use jsonrpsee::types::{ErrorObjectOwned, Params};
use revm::{
    context::{
        TxEnv,
        result::{ExecutionResult, HaltReason},
    },
    primitives::hardfork::SpecId,
};

/// Gas of the cheapest transaction.
const TRANSFER_GAS: u64 = 21_000;
/// What a call with value gives its callee for free.
const CALL_STIPEND: u64 = 2_300;

/// `eth_estimateGas`.
pub(super) fn estimate_gas(params: &Params<'_>, context: &Context) -> Answer<U64> {
    let Prepared {
        mut machine,
        mut tx,
        gas,
    } = prepare(params, context)?;
    let most = highest_gas(
        &mut machine,
        &tx,
        gas,
        gas_cap(context.options.call_gas_cap),
    )?;
    if is_transfer(&mut machine, &tx)? && tries(&mut machine, &mut tx, TRANSFER_GAS)?.is_some() {
        return Ok(U64::from(TRANSFER_GAS));
    }
    search(&mut machine, &mut tx, most).map(U64::from)
}

/// The most gas that may be tried: what was asked for or the block's, and what the sender can pay.
fn highest_gas(machine: &mut Machine, tx: &TxEnv, asked: Option<u64>, cap: u64) -> Answer<u64> {
    let mut most = asked
        .filter(|gas| *gas >= TRANSFER_GAS)
        .unwrap_or(machine.block_gas_limit());
    if machine.env().spec.is_enabled_in(SpecId::OSAKA) {
        most = most.min(MAX_TX_GAS_LIMIT_OSAKA);
    }
    if tx.gas_price > 0 {
        let mut available = machine.account(tx.caller)?.balance;
        let blobs = tx.blob_hashes.len() as u64 * DATA_GAS_PER_BLOB;
        let blob_fee = U256::from(blobs).saturating_mul(U256::from(tx.max_fee_per_blob_gas));
        let fixed = tx.value.saturating_add(blob_fee);
        if fixed >= available {
            return Err(failed("insufficient funds for transfer"));
        }
        available -= fixed;
        most = most.min((available / U256::from(tx.gas_price)).saturating_to());
    }
    Ok(most.min(cap))
}

fn is_transfer(machine: &mut Machine, tx: &TxEnv) -> Answer<bool> {
    match tx.kind {
        TxKind::Call(to) if tx.data.is_empty() => Ok(machine.account(to)?.is_empty_code_hash()),
        _ => Ok(false),
    }
}

fn search(machine: &mut Machine, tx: &mut TxEnv, most: u64) -> Answer<u64> {
    let Some(first) = run(machine, tx, most)? else {
        return Err(too_little(most));
    };
    if !first.is_success() {
        return Err(match &first {
            ExecutionResult::Halt {
                reason: HaltReason::OutOfGas(_),
                ..
            } => too_little(most),
            other => machine.failure(other),
        });
    }
    // What was used without a limit is needed; what was used before refunds, with the part that
    // every call keeps back, is nearly always enough.
    let mut fails_at = first.tx_gas_used().saturating_sub(1);
    let mut works_at = most;
    let guess = (first.gas().total_gas_spent() + CALL_STIPEND) / 63 * 64 + 64;
    if guess < works_at {
        match tries(machine, tx, guess)? {
            Some(()) => works_at = guess,
            None => fails_at = guess,
        }
    }
    while fails_at + 1 < works_at {
        // The answer is usually near the lower end.
        let middle = fails_at
            .midpoint(works_at)
            .min(fails_at.saturating_mul(2).max(fails_at + 1));
        match tries(machine, tx, middle)? {
            Some(()) => works_at = middle,
            None => fails_at = middle,
        }
    }
    Ok(works_at)
}

/// Whether the message succeeds with `gas`.
fn tries(machine: &mut Machine, tx: &mut TxEnv, gas: u64) -> Answer<Option<()>> {
    let result = run(machine, tx, gas)?;
    Ok(result.filter(ExecutionResult::is_success).map(|_| ()))
}

/// Runs the message with `gas`; `None` when that does not even pay for its start.
fn run(machine: &mut Machine, tx: &mut TxEnv, gas: u64) -> Answer<Option<ExecutionResult>> {
    tx.gas_limit = gas;
    match machine.run(tx.clone()) {
        Ok(result) => Ok(Some(result)),
        Err(Stopped::Refused(refusal)) if refusal.is_about_gas() => Ok(None),
        Err(stopped) => Err(stopped.wrapped(|reason| format!("failed with {gas} gas: {reason}"))),
    }
}

fn too_little(most: u64) -> ErrorObjectOwned {
    failed(format!("gas required exceeds allowance ({most})"))
}
