//! `cargo xtask`: every repository chore that needs an if or a loop.
//!
//! `test` is what the README tells people to run and what CI runs; `check` is what has to be green
//! before a commit; `gen` remakes generated files.

mod apt;
mod contracts;
mod dashboards;
mod ethrex;
mod fuzz;
mod go;
mod observers;
mod schema;
mod soak;
mod steps;
mod tally;
mod tidy;
mod trial;

use clap::{Parser, Subcommand};
use eyre::Result;
use std::process::ExitCode;
use steps::Steps;

/// What is tested with debug assertions and overflow checks.
const CHECKED_CRATES: [&str; 4] = ["bench-stats", "ecrecover", "state-root", "threads"];

/// Chores of this repository.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Debug, Subcommand)]
enum Chore {
    /// Build everything and run every test: unit, property, golden, end to end, documentation.
    Test,
    /// Formatting, clippy with warnings as errors, tidy, licences and duplicates, documentation.
    Check,
    /// Only the repository's own rules: module docs, dependency edges, sizes, links.
    Tidy,
    /// Feed made-up bytes to every parser.
    Fuzz(fuzz::FuzzArgs),
    /// A long random run.
    Soak {
        /// Which run.
        #[command(subcommand)]
        what: soak::Soak,
    },
    /// Try the sweep itself: false verdicts, power, time to a decision.
    Trial {
        /// Which trial.
        #[command(subcommand)]
        what: trial::Trial,
    },
    /// Remake generated files.
    Gen {
        /// What to remake.
        #[command(subcommand)]
        what: Generated,
    },
}

#[derive(Debug, Subcommand)]
enum Generated {
    /// The bytecode of the workload's contracts, from their Solidity sources (needs Node.js).
    Contracts {
        /// Compare with what is checked in instead of writing.
        #[arg(long)]
        check: bool,
    },
    /// The JSON schema of sweep files, from the flags of `sweep`.
    Schema,
    /// Grafana's dashboards and docs/METRICS.md, from the list of metrics.
    Dashboards,
}

fn main() -> ExitCode {
    match run(Cli::parse().chore) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(chore: Chore) -> Result<ExitCode> {
    let root = steps::workspace_root()?;
    match chore {
        Chore::Test => return Ok(test(Steps::new(root))),
        Chore::Check => return Ok(check(Steps::new(root))),
        Chore::Tidy => tidy::run(&root),
        Chore::Fuzz(args) => fuzz::fuzz(&root, &args),
        Chore::Soak { what } => soak::start(&root, &what),
        Chore::Trial { what } => trial::start(&root, &what),
        Chore::Gen {
            what: Generated::Contracts { check },
        } => contracts::run(&root, check),
        Chore::Gen {
            what: Generated::Schema,
        } => schema::run(&root),
        Chore::Gen {
            what: Generated::Dashboards,
        } => dashboards::run(&root),
    }?;
    Ok(ExitCode::SUCCESS)
}

fn test(mut steps: Steps) -> ExitCode {
    if steps::in_ci() {
        lint(&mut steps);
    }
    steps.cargo(
        "build",
        &[
            "build",
            "--release",
            "--workspace",
            "--all-targets",
            "--locked",
        ],
    );
    steps.when(go::missing(), "install geth", go::install_geth);
    steps.when(
        go::missing(),
        "build the chain maker",
        go::build_chain_maker,
    );
    steps.when(ethrex::missing(), "build ethrex's node", ethrex::build);
    steps.when(go::missing(), "install Jaeger", observers::install_jaeger);
    for (package, step) in [
        (apt::BROWSER, "install a browser"),
        (apt::PROMETHEUS, "install Prometheus"),
        (apt::PERF, "install perf"),
    ] {
        steps.when(package.missing(), step, |_| package.install());
    }
    let mut programs = go::variables(steps.root());
    programs.extend(ethrex::variable(steps.root()));
    programs.extend(apt::variable());
    let programs: Vec<_> = programs
        .iter()
        .map(|(variable, path)| (*variable, path.as_str()))
        .collect();
    steps.tests(
        "test",
        &[
            "test",
            "--release",
            "--workspace",
            "--all-targets",
            "--locked",
            "--no-fail-fast",
        ],
        &programs,
    );
    steps.tests(
        "doc tests",
        &["test", "--release", "--workspace", "--doc", "--locked"],
        &[],
    );
    if steps::in_ci() {
        checked(&mut steps);
    }
    steps.run("tidy", tidy::run);
    steps.when(
        contracts::missing_tools(),
        "dashboards against Grafana's schema",
        dashboards::validate,
    );
    steps.when(contracts::missing_tools(), "contract bytecode", |root| {
        contracts::run(root, true)
    });
    steps.finish()
}

/// Formatting and clippy, in the one profile, so that build scripts and what is written in C are compiled once.
fn lint(steps: &mut Steps) {
    steps.cargo("fmt", &["fmt", "--all", "--check"]);
    steps.run("fmt of ethrex's node", ethrex::format);
    steps.cargo(
        "clippy",
        &[
            "clippy",
            "--release",
            "--workspace",
            "--all-targets",
            "--locked",
            "--",
            "-D",
            "warnings",
        ],
    );
}

/// Unit and property tests with debug assertions and overflow checks: of crates that compute, and that need
/// few others, all of which are compiled again for it.
fn checked(steps: &mut Steps) {
    let crates = CHECKED_CRATES.iter().flat_map(|name| ["-p", name]);
    let build = [
        "test",
        "--release",
        "--locked",
        "--no-fail-fast",
        "--target-dir",
        "target/checked",
        "--config",
        "profile.release.debug-assertions=true",
        "--config",
        "profile.release.overflow-checks=true",
        "--lib",
    ];
    let args: Vec<&str> = build.into_iter().chain(crates).collect();
    steps.tests("debug assertions and overflow checks", &args, &[]);
}

fn check(mut steps: Steps) -> ExitCode {
    lint(&mut steps);
    steps.run("tidy", tidy::run);
    steps.run("deny", steps::deny);
    steps.cargo_with_env(
        "docs",
        &[
            "doc",
            "--workspace",
            "--no-deps",
            "--locked",
            "--document-private-items",
        ],
        &[("RUSTDOCFLAGS", "-D warnings")],
    );
    steps.finish()
}
