//! The engine alone: everything is in the crate `node`.

use std::process::ExitCode;
use tikv_jemallocator::Jemalloc;

/// With glibc's, memory that was freed is not used again for long: see `docs/decisions`, 0016.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    node::cli::run(std::env::args_os(), "bench-reth")
}
