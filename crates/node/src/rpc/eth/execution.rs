//! `eth_call`: runs a message on the state after a block and throws the changes away.
//!
//! As geth does when no gas price is given, the call pays nothing: base fee and price are zero. The
//! sender's nonce is not checked and its balance is raised to what the message needs.

use super::{Answer, Module, Registered, block_of, not_found, reading, state_of};
use crate::{
    engine::StateReader,
    rpc::{
        Context,
        args::Arguments,
        error::{EXECUTION_REVERTED, SERVER_ERROR, error, from_read, invalid_params},
    },
};
use alloy_consensus::Header;
use alloy_eips::BlockId;
use alloy_evm::{EthEvmFactory, Evm, EvmFactory};
use alloy_primitives::{Bytes, TxKind, U64};
use alloy_rpc_types_eth::TransactionRequest;
use jsonrpsee::types::{ErrorObjectOwned, Params};
use revm::{
    DatabaseRef,
    context::{TxEnv, result::ExecutionResult},
    database::CacheDB,
};

/// Tip that is suggested: one gwei. There is no market to learn a better one from.
const SUGGESTED_TIP_WEI: u64 = 1_000_000_000;

/// The methods of the public port alone.
pub(super) fn register(module: &mut Module) -> Registered {
    module.register_method("eth_maxPriorityFeePerGas", |_, _, _| {
        Answer::Ok(U64::from(SUGGESTED_TIP_WEI))
    })?;
    module.register_method("eth_gasPrice", |_, context, _| {
        let next = context
            .chain
            .chain_spec()
            .next_base_fee(&context.chain.head_header());
        Answer::Ok(U64::from(next.saturating_add(SUGGESTED_TIP_WEI)))
    })?;
    Ok(())
}

/// The methods the auth port has too.
pub(super) fn register_on_auth(module: &mut Module) -> Registered {
    reading(module, "eth_call", call)
}

fn call(params: &Params<'_>, context: &Context) -> Answer<Bytes> {
    let mut arguments = Arguments::new(params);
    let request = arguments.next("transaction")?;
    let id = arguments.optional::<BlockId>("block")?.unwrap_or_default();
    if arguments
        .optional::<serde_json::Value>("stateOverrides")?
        .is_some()
    {
        return Err(invalid_params("state overrides are not supported"));
    }
    arguments.end()?;
    let block = block_of(context, id)?.ok_or_else(|| not_found(id))?;
    let state = state_of(context, BlockId::from(block.block.hash))?;
    run(context, &block.block.header, state, request)
}

/// Runs `request` on `state`, the state after the block of `header`.
fn run(
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
