//! The engine alone: everything is in the crate `node`.

use std::process::ExitCode;

fn main() -> ExitCode {
    node::cli::run(std::env::args_os(), "bench-reth")
}
