//! The command line: what may be typed.
//!
//! Invariant: this module only parses. Defaults that depend on anything but the flag itself are resolved in
//! [`crate::resolve`].

mod args;

pub use args::{
    CompareArgs, DoctorArgs, GenerateArgs, InitArgs, ObserveArgs, Observing, ReplayArgs,
    ReportArgs, StateArgs, SweepArgs,
};

use clap::{Parser, Subcommand};
use std::path::PathBuf;

/// Exit code of a command that was refused or could not measure anything.
pub const EXIT_NOTHING_MEASURED: u8 = 2;

/// Exit code of a check that found something.
pub const EXIT_FOUND: u8 = 1;

/// Exit code of a command that was interrupted (128 + SIGINT).
pub const EXIT_INTERRUPTED: u8 = 130;

/// Measures which settings of an Ethereum execution engine are faster, and which differences are real.
#[derive(Debug, Parser)]
#[command(name = "engine-bench", version, after_help = ENGINE_HELP)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

const ENGINE_HELP: &str = "Example:
  engine-bench sweep --chunks 15,30,60 --gas 10M,40M

The embedded engine, bench-reth, is part of this program:
  engine-bench node …                    run a node
  engine-bench stage unwind to-block N   unwind its datadir to block N
  engine-bench bench-reth --help         all of its commands

Every warning and error is explained in docs/TROUBLESHOOTING.md.";

const SWEEP_HELP: &str = "Examples:
  engine-bench sweep --chunks 15,30,60 --gas 10M,40M
  engine-bench sweep sweeps/chunk-size.toml --budget 20m
  engine-bench sweep --engine old=./reth-old --engine new=./reth-new --rounds 6

-h lists the most used flags, --help all of them. Warnings and errors: docs/TROUBLESHOOTING.md";

const COMPARE_HELP: &str = "Examples:
  engine-bench compare results/before results/after --fail-on-regression 2%
  engine-bench compare results/one:chunk15-gas10M results/one:chunk60-gas10M";

/// The verbs of the harness.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Measure every combination of knob values and gas levels
    #[command(after_help = SWEEP_HELP)]
    Sweep(Box<SweepArgs>),
    /// Replay payloads on an engine that is already running
    Replay(ReplayArgs),
    /// Make the base state of a profile
    Init(InitArgs),
    /// Generate payloads on a base state
    Generate(GenerateArgs),
    /// Remake every report of a results folder from its raw samples
    Report(ReportArgs),
    /// Compare two sweeps, or two cells: settings and results that differ
    #[command(after_help = COMPARE_HELP)]
    Compare(CompareArgs),
    /// Recompute every published number of a results folder from its raw samples
    VerifyResults {
        /// The results folder of a sweep
        #[arg(value_name = "DIR")]
        dir: PathBuf,
    },
    /// List what on this machine disturbs measurements
    Doctor(DoctorArgs),
    /// Start or stop Prometheus, Jaeger and Grafana on this machine, with the shipped configuration
    Observe(ObserveArgs),
    /// Print the JSON schema of sweep files
    Schema,
    /// Print completions for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page of the program, or of a verb
    Man {
        /// A verb, as in sweep [default: the program]
        #[arg(value_name = "VERB")]
        verb: Option<String>,
    },
}
