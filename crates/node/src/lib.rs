//! bench-reth: a compact Ethereum execution engine that spells its flags, RPC and logs as reth does.
//!
//! Data flows one way: [`cli`](crate) parses, the servers decode, [`engine`] validates, executes
//! and stores. Only [`engine`] changes the chain; everything else reads snapshots of it.

pub mod chainspec;
pub mod cli;
pub mod commands;
pub mod engine;
pub mod pool;
pub mod primitives;
mod priority;
pub mod rpc;
pub mod telemetry;
