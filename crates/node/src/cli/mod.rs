//! The command line: from typed arguments to an exit code.
//!
//! Everything a user typed is read in [`resolve`] and nowhere else. Errors end here, as one line
//! on standard error.

pub mod args;
pub mod inert;
pub mod log_args;
pub mod logging;
pub mod resolve;
pub mod telemetry_args;
pub mod values;

pub use args::{Cli, Commands};

use crate::{
    commands::{self, datadir::Datadir, failure::StorageFailure, import::RefusedBlock},
    telemetry,
};
use args::{DbCommand, StageCommand, VerifyArgs};
use clap::{CommandFactory, FromArgMatches};
use std::{ffi::OsString, process::ExitCode};

/// What the program ends with when a block of a file was refused.
const REFUSED_BLOCK: u8 = 2;

/// Exit code when a command could not be carried out at all.
const CANNOT_RUN: u8 = 2;

/// Runs bench-reth with `args` (the program's name first, as from [`std::env::args_os`]).
///
/// `bin_name` is what usage texts call the program. Exit codes: 0 done, 1 failed, 2 the command line
/// was not understood, `import` met a block that is not valid, or storage failed (no room, a damaged
/// file).
pub fn run(args: impl IntoIterator<Item = OsString>, bin_name: &str) -> ExitCode {
    let command = Cli::command().bin_name(bin_name.to_owned());
    let parsed = command
        .try_get_matches_from(args)
        .and_then(|m| Cli::from_arg_matches(&m));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => {
            // A closed standard stream leaves nowhere to complain to.
            let _ = error.print();
            return u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from);
        }
    };
    let outcome = dispatch(cli);
    telemetry::shutdown_otlp();
    match outcome {
        Ok(code) => code,
        Err(error) => {
            eprintln!("Error: {error:#}");
            if error.downcast_ref::<RefusedBlock>().is_some() {
                return ExitCode::from(REFUSED_BLOCK);
            }
            if error.chain().any(|cause| cause.is::<StorageFailure>()) {
                return ExitCode::from(CANNOT_RUN);
            }
            ExitCode::FAILURE
        }
    }
}

/// Sets up logging, tells which flags are ignored, and runs the command.
fn dispatch(cli: Cli) -> eyre::Result<ExitCode> {
    let otlp = match &cli.command {
        Commands::Node(node) => node.telemetry.otlp()?,
        _ => None,
    };
    logging::init(&cli.log, otlp.as_ref())?;
    let node_notes = match &cli.command {
        Commands::Node(node) => node.inert.0.as_slice(),
        _ => &[],
    };
    for note in cli.log.inert.0.iter().chain(node_notes) {
        tracing::info!(target: "reth::cli", "{note}");
    }
    match cli.command {
        Commands::Node(node) => commands::node::run(resolve::node(*node)?),
        Commands::Init(init) => commands::init::run(resolve::init(init)?),
        Commands::InitState(dump) => commands::init_state::run(resolve::init_state(dump)?),
        Commands::Import(import) => commands::import::run(resolve::import(import)?),
        Commands::Stage(stage) => match stage.command {
            StageCommand::Unwind(unwind) => commands::unwind::run(resolve::unwind(unwind)?),
        },
        Commands::Db(db) => match db.command {
            DbCommand::Stats(args) => {
                commands::stats::run(&resolve::datadir(&db.datadir)?, args.json)
            }
            DbCommand::Verify(verify) => {
                return run_verify(&resolve::datadir(&db.datadir)?, &verify);
            }
        },
    }?;
    Ok(ExitCode::SUCCESS)
}

/// `db verify` is asked for a verdict: failing to reach one is another code than a bad one.
fn run_verify(datadir: &Datadir, args: &VerifyArgs) -> eyre::Result<ExitCode> {
    Ok(match commands::verify::run(datadir, args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("Error: {error:#}");
            CANNOT_RUN.into()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(line.split_whitespace())
    }

    fn node(line: &str) -> args::NodeArgs {
        match parse(line).unwrap().command {
            Commands::Node(node) => *node,
            other => panic!("not a node: {other:?}"),
        }
    }

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_whole_command_line_of_reth_is_accepted() {
        let node = node(
            "reth node --chain C --datadir D --disable-discovery --trusted-only \
             --max-outbound-peers 0 --max-inbound-peers 0 --no-persist-peers --disable-tx-gossip \
             --nat none --addr 127.0.0.1 --port 30303 --ipcdisable --http --http.addr 127.0.0.1 \
             --http.port 1 --http.api eth,net,web3,reth,debug --ws --ws.port 2 --ws.api eth,reth \
             --authrpc.port 3 --authrpc.jwtsecret F --metrics 127.0.0.1:9 \
             --debug.startup-sync-state-idle --engine.accept-execution-requests-hash \
             --engine.persistence-threshold 4 --engine.memory-block-buffer-target 0 \
             --engine.cross-block-cache-size 64 --engine.multiproof-chunk-size 15 \
             --log.file.max-files 0 --color never",
        );
        assert_eq!(node.engine.multiproof_chunk_size.unwrap().get(), 15);
        assert_eq!(node.engine.persistence_threshold, 4);
        assert_eq!(
            (node.rpc.http_port, node.rpc.ws_port, node.rpc.auth_port),
            (1, 2, 3)
        );
        assert!(node.engine.accept_execution_requests_hash && node.rpc.startup_sync_state_idle);
        let noted = |flag: &str| {
            node.inert
                .0
                .iter()
                .filter(|note| note.starts_with(flag))
                .count()
        };
        assert_eq!(
            noted("--disable-discovery has no effect: bench-reth has no networking"),
            1
        );
        assert_eq!(node.inert.0.len(), 10, "{:#?}", node.inert.0);
    }

    #[test]
    fn ignored_flags_are_noted_once_however_often_they_are_typed() {
        let node = node("reth node --trusted-peers a --trusted-peers b --logs-otlp=http://x");
        assert_eq!(node.inert.0.len(), 2, "{:#?}", node.inert.0);
    }

    #[test]
    fn an_unknown_flag_gets_a_suggestion() {
        let error = parse("reth node --engine.multiproof-chunk-sise 5").unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(
            error.to_string().contains("--engine.multiproof-chunk-size"),
            "{error}"
        );
    }

    #[test]
    fn chunk_size_zero_is_refused_with_the_value_and_the_reason() {
        let text = parse("reth node --engine.multiproof-chunk-size 0")
            .unwrap_err()
            .to_string();
        assert!(
            text.contains("'0'") && text.contains("at least 1 target"),
            "{text}"
        );
    }

    #[test]
    fn unwind_and_stats_take_the_datadir_before_or_after() {
        for line in [
            "reth stage unwind --datadir D to-block 5",
            "reth stage unwind --offline to-block 5 --datadir D",
            "reth stage unwind num-blocks 2 --datadir D",
            "reth db --datadir D stats",
            "reth db stats --datadir D",
        ] {
            let datadir = match parse(line).unwrap().command {
                Commands::Stage(args::StageArgs {
                    command: StageCommand::Unwind(unwind),
                }) => unwind.datadir.datadir,
                Commands::Db(db) => db.datadir.datadir,
                other => panic!("{other:?}"),
            };
            assert_eq!(
                datadir.as_deref(),
                Some(std::path::Path::new("D")),
                "{line}"
            );
        }
    }
}
