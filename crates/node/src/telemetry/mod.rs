//! What the node tells about itself beside its log: metrics for Prometheus and spans for OTLP.
//!
//! ```text
//!  engine thread ──after the answer──► EngineMetrics ─┐
//!  rpc, persistence ───────────────────► recorder ────┴─► /metrics (server)
//!  tracing spans ──filter──► OTLP layer ──bounded queue──► exporter thread ──► collector
//! ```
//!
//! Invariants: without `--metrics` and `--tracing-otlp` nothing of this runs; metrics change once a
//! block, never once a transaction; a collector that is down, slow or failing costs spans, which are
//! counted, and never time on the engine thread.

mod engine;
mod otlp;
mod parent;
mod process;
mod recorder;
mod rpc;
mod server;
mod workers;

pub(crate) use engine::{
    BlockFigures, BlockTimes, EngineMetrics, ExecutionTimes, PersistenceMetrics,
};
pub use otlp::{OtlpConfig, OtlpProtocol};
pub(crate) use otlp::{layer as otlp_layer, shutdown as shutdown_otlp};
pub(crate) use parent::{RemoteParent, request_span};
pub(crate) use recorder::install as install_recorder;
pub(crate) use rpc::RpcMetrics;
pub(crate) use server::start as start_server;
