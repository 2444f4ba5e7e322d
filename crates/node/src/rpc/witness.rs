//! `debug_executionWitness`: what a stateless verifier needs to execute a block.
//!
//! Source: reth's form, an object of hex strings; `debug_executionWitnessByBlockHash` is reth's too.

use super::{
    Context,
    args::Arguments,
    error::{RESOURCE_NOT_FOUND, error, from_read, internal},
    eth::{Answer, Module, Registered, block_of, not_found, reading},
    forms::{BlockRef, Hash},
};
use crate::engine::witness::WitnessError;
use alloy_eips::BlockId;
use alloy_primitives::Bytes;
use jsonrpsee::types::{ErrorObjectOwned, Params};
use serde::Serialize;

/// A witness as it is sent.
#[derive(Debug, Clone, Serialize)]
struct ExecutionWitness {
    state: Vec<Bytes>,
    codes: Vec<Bytes>,
    keys: Vec<Bytes>,
    headers: Vec<Bytes>,
}

/// The methods, which belong to the debug namespace.
pub(super) fn register(module: &mut Module) -> Registered {
    reading(module, "debug_executionWitness", |params, context| {
        let mut arguments = Arguments::new(params);
        let BlockRef(id) = arguments.next("block")?;
        arguments.end()?;
        witness(id, context)
    })?;
    reading(module, "debug_executionWitnessByBlockHash", by_hash)
}

fn by_hash(params: &Params<'_>, context: &Context) -> Answer<ExecutionWitness> {
    let mut arguments = Arguments::new(params);
    let Hash(hash) = arguments.next("blockHash")?;
    arguments.end()?;
    witness(BlockId::from(hash), context)
}

fn witness(id: BlockId, context: &Context) -> Answer<ExecutionWitness> {
    let block = block_of(context, id)?.ok_or_else(|| not_found(id))?;
    let witness = context.chain.witness(block.block.hash).map_err(refused)?;
    let witness = witness.ok_or_else(|| not_found(id))?;
    Ok(ExecutionWitness {
        state: witness.state,
        codes: witness.codes,
        keys: witness.keys,
        headers: witness.headers,
    })
}

fn refused(problem: WitnessError) -> ErrorObjectOwned {
    match problem {
        WitnessError::Read(problem) => from_read(problem),
        WitnessError::Genesis => error(RESOURCE_NOT_FOUND, format!("failed to {problem}")),
        problem => internal(problem),
    }
}
