//! What tests share: programs under way, HTTP as bytes, servers with a script, tools that a machine may
//! lack, and waiting with an end.
//!
//! A dependency of tests alone. Invariant: nothing here waits for ever; what does not come within
//! [`PATIENCE`] fails the test that waits, and says what it waited for.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

#[cfg(feature = "node")]
pub mod busy;
pub mod http;
mod need;
#[cfg(feature = "node")]
pub mod node;
mod program;
mod server;
mod wait;

pub use need::{Tool, require, skip, skip_without_cpu_feature};
pub use nix::sys::signal::Signal;
pub use program::{Ended, Hogs, Pipe, Running, built, free_port, is_free, is_frozen, send_signal};
pub use server::{Reply, Request, Server};
pub use wait::{Deadline, PATIENCE, wait_for, wait_until};
