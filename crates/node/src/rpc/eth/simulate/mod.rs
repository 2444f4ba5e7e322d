//! `eth_simulateV1`: blocks of messages on top of a block, with what the caller wants different.
//!
//! Invariant: all messages of one request share one deadline and one gas cap; nothing they do is
//! kept. Source: execution-apis, `eth/execute.yaml`; geth where the specification is silent.

mod answer;
mod frames;
mod overrides;
mod plan;
mod request;
mod run;
mod unsigned;

use super::{Answer, Module, Registered, block_of, proof::from_proof, reading, refusal::failed};
use crate::rpc::{Context, args::Arguments, forms::BlockRef};
use alloy_eips::BlockId;
use answer::ShownBlock;
use jsonrpsee::types::Params;
use request::Payload;
use run::Simulation;

/// The method, on the public port alone.
pub(super) fn register(module: &mut Module) -> Registered {
    reading(module, "eth_simulateV1", simulate)
}

fn simulate(params: &Params<'_>, context: &Context) -> Answer<Vec<ShownBlock>> {
    let mut arguments = Arguments::new(params);
    let payload: Payload = arguments.next("payload")?;
    let id = arguments
        .optional::<BlockRef>("block")?
        .map_or_else(BlockId::default, |id| id.0);
    arguments.end()?;
    let (options, requests) = payload.checked()?;
    let unknown = || failed("header not found");
    let base = block_of(context, id)?.ok_or_else(unknown)?;
    let base = &base.block;
    let planned = plan::plan(context.chain.chain_spec(), &base.header, requests)?;
    let trial = context.chain.trial(base.hash).map_err(from_proof)?;
    let parent = (base.hash, base.header.clone());
    let mut simulation = Simulation::new(context, trial.ok_or_else(unknown)?, parent, options);
    let blocks = planned.into_iter().map(|block| simulation.block(block));
    blocks.collect()
}
