//! `eth_call`: runs a message on the state after a block and throws the changes away.
//!
//! As geth does when no gas price is given, the call pays nothing: base fee and price are zero. The
//! sender's nonce is not checked and its balance is raised to what the message needs.

use super::{
    Context,
    error::{EXECUTION_REVERTED, SERVER_ERROR, error, from_read},
};
use crate::engine::StateReader;
use alloy_consensus::Header;
use alloy_evm::{EthEvmFactory, Evm, EvmFactory};
use alloy_primitives::{Bytes, TxKind};
use alloy_rpc_types_eth::TransactionRequest;
use jsonrpsee::types::ErrorObjectOwned;
use revm::{
    DatabaseRef,
    context::{TxEnv, result::ExecutionResult},
    database::CacheDB,
};

/// Runs `request` on `state`, the state after the block of `header`.
pub(super) fn run(
    context: &Context,
    header: &Header,
    state: StateReader,
    request: TransactionRequest,
) -> Result<Bytes, ErrorObjectOwned> {
    let mut env = context.chain.evm_env_for(header);
    env.block_env.basefee = 0;
    env.cfg_env.disable_nonce_check = true;
    env.cfg_env.tx_gas_limit_cap = Some(u64::MAX);
    let gas_limit = request
        .gas
        .unwrap_or(u64::MAX)
        .min(context.options.call_gas_cap)
        .min(env.block_env.gas_limit);
    let chain_id = context.chain.chain_spec().chain_id();
    let message = message(request, gas_limit, chain_id);
    let database = funded(state, &message)?;
    let mut evm = EthEvmFactory::default().create_evm(database, env);
    let outcome = evm
        .transact_raw(message)
        .map_err(|problem| error(SERVER_ERROR, format!("failed to run the call: {problem}")))?;
    match outcome.result {
        ExecutionResult::Success { output, .. } => Ok(output.into_data()),
        ExecutionResult::Revert { output, .. } => Err(ErrorObjectOwned::owned(
            EXECUTION_REVERTED,
            "execution reverted",
            Some(output),
        )),
        ExecutionResult::Halt { reason, .. } => {
            Err(error(SERVER_ERROR, format!("execution halted: {reason:?}")))
        }
    }
}

fn message(request: TransactionRequest, gas_limit: u64, chain_id: u64) -> TxEnv {
    TxEnv {
        caller: request.from.unwrap_or_default(),
        kind: request.to.unwrap_or(TxKind::Create),
        value: request.value.unwrap_or_default(),
        data: request.input.into_input().unwrap_or_default(),
        access_list: request.access_list.unwrap_or_default(),
        gas_limit,
        chain_id: Some(chain_id),
        ..Default::default()
    }
}

/// The state with the caller's balance raised to the value the message carries.
fn funded(state: StateReader, message: &TxEnv) -> Result<CacheDB<StateReader>, ErrorObjectOwned> {
    let mut account = state
        .basic_ref(message.caller)
        .map_err(from_read)?
        .unwrap_or_default();
    if account.balance < message.value {
        account.balance = message.value;
    }
    let mut database = CacheDB::new(state);
    database.insert_account_info(message.caller, account);
    Ok(database)
}
