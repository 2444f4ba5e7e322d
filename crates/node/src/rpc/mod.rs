//! The JSON-RPC servers: the authenticated Engine API port and the public HTTP and WS ports.
//!
//! Handlers parse, ask the engine or a [`ChainReader`], and shape the answer. They hold no chain
//! state of their own. Invariant: the auth port answers nothing without a fresh token, and a
//! payload is parsed once and handed over without being copied or logged.

mod args;
mod auth;
mod blobs;
mod convert;
mod debug;
mod engine;
mod error;
mod eth;
mod forks;
mod forms;
mod in_process;
mod listen;
mod pool;
mod public;
mod reth;
mod server;
mod testing;
mod witness;

pub use error::invalid_params;
pub use in_process::InProcess;
pub use listen::{Limits, Sites};
pub use server::{
    AuthServerConfig, PublicServerConfig, RunningServers, ServerError, ServersConfig, start,
};

use crate::{
    engine::{ChainReader, EngineHandle},
    telemetry::RpcMetrics,
};
use alloy_primitives::{Bytes, U256};
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::Semaphore;

/// The client's name and version as `web3_clientVersion` tells them.
pub const CLIENT_VERSION: &str = concat!("bench-reth/v", env!("CARGO_PKG_VERSION"));

/// What the methods know besides the chain.
#[derive(Debug, Clone)]
pub struct MethodOptions {
    /// Whether the last parameter of `engine_newPayloadV4` may be the requests hash.
    pub accept_requests_hash: bool,
    /// Whether `eth_syncing` says false before the first fork choice.
    pub idle_at_startup: bool,
    /// Extra data of blocks built without their own.
    pub extra_data: Option<Bytes>,
    /// Most gas an `eth_call` may use.
    pub call_gas_cap: u64,
    /// Most wei that the fees of a transaction sent here may be; zero for no cap.
    pub tx_fee_cap_wei: U256,
    /// Gas limit that built blocks move towards.
    pub gas_limit_target: u64,
}

/// What every method can reach.
pub(crate) struct Context {
    engine: EngineHandle,
    chain: ChainReader,
    options: MethodOptions,
    filters: eth::Filters,
    /// Places for requests that wait for a transaction to be mined.
    waiting: Semaphore,
    /// Whether a fork choice was found valid since the start.
    synced: AtomicBool,
    metrics: RpcMetrics,
}

impl Context {
    fn new(engine: EngineHandle, options: MethodOptions) -> Self {
        let synced = AtomicBool::new(options.idle_at_startup);
        let chain = engine.chain();
        Self {
            engine,
            chain,
            options,
            filters: eth::Filters::default(),
            waiting: Semaphore::new(pool::MAX_WAITING),
            synced,
            metrics: RpcMetrics::new(),
        }
    }

    fn is_synced(&self) -> bool {
        self.synced.load(Ordering::Relaxed)
    }

    fn note_valid_forkchoice(&self) {
        self.synced.store(true, Ordering::Relaxed);
    }
}
