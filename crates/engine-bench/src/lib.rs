//! The harness: from the flags of a sweep to its report.
//!
//! Modules in the order of the data flow, each reading what the one before it wrote:
//!
//! ```text
//! resolve → plan → engine, reset, payload, client, guard → run → record → analyze → report
//! flags     plan.json      (the only impure part)         journal.ndjson  summaries  report.*
//! ```
//!
//! Invariants: engines are separate processes, spoken to by standard protocols only. A number
//! exists only for a pass in which every payload and every fork choice was VALID. Payloads are
//! serialised before the clock starts. Raw samples are written once; everything else is remade
//! from them. Statistics do not run in [`run`]; printing happens in `report` and `command` only.
//! Modules use each other one way; `cargo xtask tidy` knows which may use which.

pub mod analyze;
pub mod cache;
pub mod cli;
pub mod client;
pub mod command;
pub mod engine;
mod figures;
mod files;
pub mod guard;
pub mod live;
pub mod observe;
mod owner;
pub mod payload;
pub mod plan;
pub mod profile;
pub mod record;
pub mod report;
pub mod reset;
pub mod resolve;
pub mod run;
mod serve;
pub mod sweep;
pub mod trace;
