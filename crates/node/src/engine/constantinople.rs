//! Constantinople as it was before Petersburg took EIP-1283 back.
//!
//! Chains that schedule the two forks apart have blocks in which SSTORE costs what EIP-1283 says.
//! The EVM library goes from Byzantium to Petersburg; these blocks run as Petersburg with another
//! SSTORE.

use crate::chainspec::ChainSpec;
use alloy_evm::{Database, EthEvm, EvmEnv, eth::EthEvmContext, precompiles::PrecompilesMap};
use alloy_hardforks::EthereumHardforks;
use alloy_primitives::Address;
use revm::{
    bytecode::opcode,
    context_interface::{
        Host,
        cfg::gas_params::GasId,
        context::{SStoreResult, StateLoad},
    },
    interpreter::{
        Instruction, InstructionContext, InstructionExecResult, InstructionResult,
        instructions::host::sstore_with_gas_accounting, interpreter::EthInterpreter,
        interpreter_types::InterpreterTypes,
    },
    primitives::hardfork::SpecId,
};

/// What every SSTORE costs at least, and the whole price of one that changes nothing or changes a
/// slot again.
const DIRTY_GAS: u64 = 200;
/// Price of filling an empty slot.
const SET_GAS: u64 = 20_000;
/// Price of changing a filled slot.
const RESET_GAS: u64 = 5_000;
/// Refund for emptying a slot.
const CLEAR_REFUND: i64 = 15_000;

/// Whether block `number` is one of Constantinople before Petersburg.
pub(super) fn is_active(chain: &ChainSpec, number: u64) -> bool {
    chain.is_constantinople_active_at_block(number) && !chain.is_petersburg_active_at_block(number)
}

/// The environment of such a block.
pub(super) fn adapt_env(env: &mut EvmEnv) {
    env.cfg_env
        .set_spec_and_mainnet_gas_params(SpecId::PETERSBURG);
    let sstore = (GasId::sstore_static(), DIRTY_GAS);
    env.cfg_env.gas_params.override_gas([sstore]);
}

/// The EVM with the SSTORE of EIP-1283, whose inspector is called when `inspected`.
pub(super) fn adapt_evm<DB: Database, I>(
    evm: EthEvm<DB, I, PrecompilesMap>,
    inspected: bool,
) -> EthEvm<DB, I, PrecompilesMap> {
    let mut inner = evm.into_inner();
    let sstore = Instruction::new(sstore::<EthInterpreter, EthEvmContext<DB>>);
    inner
        .instruction
        .insert_instruction(opcode::SSTORE, sstore, 0);
    EthEvm::new(inner, inspected)
}

fn sstore<I, H>(context: InstructionContext<'_, H, I>) -> InstructionExecResult
where
    I: InterpreterTypes<Extend = ()>,
    H: Host + ?Sized,
{
    sstore_with_gas_accounting(context, charge)
}

/// Charges what is left to pay after [`DIRTY_GAS`], and notes the refund.
fn charge<I, H>(
    context: &mut InstructionContext<'_, H, I>,
    _target: Address,
    change: &StateLoad<SStoreResult>,
) -> InstructionExecResult
where
    I: InterpreterTypes<Extend = ()>,
    H: Host + ?Sized,
{
    let gas = &mut context.interpreter.gas;
    if !gas.record_regular_cost(price(&change.data) - DIRTY_GAS) {
        return Err(InstructionResult::OutOfGas);
    }
    gas.record_refund(refund(&change.data));
    Ok(())
}

fn price(change: &SStoreResult) -> u64 {
    if change.is_new_eq_present() || !change.is_original_eq_present() {
        DIRTY_GAS
    } else if change.is_original_zero() {
        SET_GAS
    } else {
        RESET_GAS
    }
}

fn refund(change: &SStoreResult) -> i64 {
    if change.is_new_eq_present() {
        return 0;
    }
    if change.is_original_eq_present() {
        let clears = !change.is_original_zero() && change.is_new_zero();
        return if clears { CLEAR_REFUND } else { 0 };
    }
    let mut refund = 0;
    if !change.is_original_zero() {
        if change.is_present_zero() {
            refund -= CLEAR_REFUND;
        }
        if change.is_new_zero() {
            refund += CLEAR_REFUND;
        }
    }
    if change.is_original_eq_new() {
        let paid = if change.is_original_zero() {
            SET_GAS
        } else {
            RESET_GAS
        };
        refund += (paid - DIRTY_GAS) as i64;
    }
    refund
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::U256;

    /// The examples of EIP-1283: the values a slot that holds `original` is set to in turn, the gas
    /// of all SSTOREs and the refund.
    #[test]
    fn slots_cost_what_the_examples_of_the_eip_say() {
        for (original, values, gas, refunded) in [
            (0, &[0, 0][..], 400, 0),
            (0, &[0, 1], 20_200, 0),
            (0, &[1, 0], 20_200, 19_800),
            (0, &[1, 2], 20_200, 0),
            (0, &[1, 1], 20_200, 0),
            (1, &[0, 0], 5_200, 15_000),
            (1, &[0, 1], 5_200, 4_800),
            (1, &[0, 2], 5_200, 0),
            (1, &[2, 0], 5_200, 15_000),
            (1, &[2, 3], 5_200, 0),
            (1, &[2, 1], 5_200, 4_800),
            (1, &[2, 2], 5_200, 0),
            (1, &[1, 0], 5_200, 15_000),
            (1, &[1, 2], 5_200, 0),
            (1, &[1, 1], 400, 0),
            (0, &[1, 0, 1], 40_200, 19_800),
            (1, &[0, 1, 0], 10_200, 19_800),
        ] {
            let mut present = original;
            let (mut total, mut total_refund) = (0, 0);
            for new in values {
                let change = SStoreResult {
                    original_value: U256::from(original),
                    present_value: U256::from(present),
                    new_value: U256::from(*new),
                };
                total += price(&change);
                total_refund += refund(&change);
                present = *new;
            }
            assert_eq!(
                (total, total_refund),
                (gas, refunded),
                "{original} {values:?}"
            );
        }
    }
}
