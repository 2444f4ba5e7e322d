//! Methods that run a message on the state after a block and throw the changes away.

use super::{
    Answer, Module, Registered, access_list, block_of, estimate,
    machine::{Machine, Overrides},
    message::{gas_cap, in_era, message},
    not_found, reading, state_of,
};
use crate::rpc::{Context, args::Arguments, forms::BlockRef};
use alloy_eips::BlockId;
use alloy_primitives::Bytes;
use alloy_rpc_types_eth::TransactionRequest;
use jsonrpsee::types::Params;
use revm::context::{TxEnv, result::ExecutionResult};

/// The methods of the public port alone.
pub(super) fn register(module: &mut Module) -> Registered {
    reading(module, "eth_estimateGas", estimate::estimate_gas)?;
    reading(module, "eth_createAccessList", access_list::create)
}

/// The methods the auth port has too.
pub(super) fn register_on_auth(module: &mut Module) -> Registered {
    reading(module, "eth_call", call)
}

/// A request to run a message, read and ready.
pub(super) struct Prepared {
    /// The EVM.
    pub(super) machine: Machine,
    /// The message; without a gas limit of its own it has the node's cap.
    pub(super) tx: TxEnv,
    /// The gas limit the request named.
    pub(super) gas: Option<u64>,
}

/// Reads the parameters all these methods share: transaction, block, state and block overrides.
pub(super) fn prepare(params: &Params<'_>, context: &Context) -> Answer<Prepared> {
    let mut arguments = Arguments::new(params);
    let request: TransactionRequest = arguments.next("transaction")?;
    let id = arguments
        .optional::<BlockRef>("block")?
        .map_or_else(BlockId::default, |id| id.0);
    let overrides = Overrides {
        state: arguments.optional("stateOverrides")?.unwrap_or_default(),
        block: arguments.optional("blockOverrides")?.unwrap_or_default(),
    };
    arguments.end()?;
    let gas = request.gas;
    let chain_id = context.chain.chain_spec().chain_id();
    let block = block_of(context, id)?.ok_or_else(|| not_found(id))?;
    let request = in_era(request, block.block.header.base_fee_per_gas.is_some());
    let tx = message(request, chain_id, gas_cap(context.options.call_gas_cap))?;
    let state = state_of(context, BlockId::from(block.block.hash))?;
    let machine = Machine::new(context, &block.block.header, state, overrides)?;
    Ok(Prepared { machine, tx, gas })
}

fn call(params: &Params<'_>, context: &Context) -> Answer<Bytes> {
    let Prepared {
        mut machine, tx, ..
    } = prepare(params, context)?;
    let gas = tx.gas_limit;
    let result = machine.run(tx).map_err(|stopped| {
        stopped.wrapped(|reason| format!("err: {reason} (supplied gas {gas})"))
    })?;
    match result {
        ExecutionResult::Success { output, .. } => Ok(output.into_data()),
        failed => Err(machine.failure(&failed)),
    }
}
