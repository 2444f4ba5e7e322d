//! The program people run: the harness, and the embedded engine under its own verbs.
//!
//! Glue only: harness verbs go to `engine_bench`, everything an engine understands to `node`.

use clap::Parser as _;
use engine_bench::{cli::Cli, command};
use std::{ffi::OsString, process::ExitCode};
use tikv_jemallocator::Jemalloc;

/// That of the program `bench-reth`, since the engine is in this one too.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// First words that mean the engine. `init` alone is the harness's verb; the engine's own is
/// behind `bench-reth`.
const ENGINE_VERBS: [&str; 5] = ["node", "stage", "db", "import", "init-state"];

fn main() -> ExitCode {
    let mut args: Vec<OsString> = std::env::args_os().collect();
    match args.get(1).and_then(|word| word.to_str()) {
        Some("bench-reth") => {
            args.remove(0);
            node::cli::run(args, "engine-bench bench-reth")
        }
        Some(verb) if ENGINE_VERBS.contains(&verb) => node::cli::run(args, "engine-bench"),
        _ => command::run(Cli::parse().verb),
    }
}
