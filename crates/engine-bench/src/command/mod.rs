//! The verbs: each ties the stages of the harness together and prints what came out.
//!
//! Invariant: results go to stdout, everything else to stderr.

mod compare;
mod doctor;
mod generate;
mod init;
mod observe;
mod replay;
mod report;
mod shell;
mod sweep;
mod verify_results;

use crate::cli::{EXIT_NOTHING_MEASURED, Verb};
use eyre::{Result, eyre};
use std::{
    io::{self, IsTerminal as _, Write as _},
    process::ExitCode,
};

/// Runs a verb to its end and says how it went. Errors are printed to stderr, one clear message
/// each.
pub fn run(verb: Verb) -> ExitCode {
    let outcome = match verb {
        Verb::Sweep(args) => sweep::sweep(*args),
        Verb::Replay(args) => replay::replay(&args),
        Verb::Init(args) => init::init(&args),
        Verb::Generate(args) => generate::generate(&args),
        Verb::Report(args) => report::report(&args),
        Verb::Compare(args) => compare::compare(&args),
        Verb::VerifyResults { dir } => verify_results::verify_results(&dir),
        Verb::Doctor(args) => doctor::doctor(&args),
        Verb::Observe(args) => observe::observe(&args),
        Verb::Schema => shell::schema(),
        Verb::Completions { shell } => shell::completions(shell),
        Verb::Man { verb } => shell::man(verb.as_deref()),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::from(EXIT_NOTHING_MEASURED)
    })
}

/// Runs `work` to its end on this thread alone, so that measuring shares it with nothing and
/// engines, which die with the thread that started them, die with the program.
fn block_on<T>(work: impl Future<Output = T>) -> Result<T> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    Ok(runtime.enable_all().build()?.block_on(work))
}

/// What comes of `work`; `None` when the user asks the program to stop before it is done.
async fn unless_interrupted<T>(work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        () = interrupted() => None,
        done = work => Some(done),
    }
}

/// Makes what a sweep needs, which gives nothing when the user asks the program to stop.
fn prepare<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    block_on(unless_interrupted(work))?.ok_or_else(|| eyre!("interrupted"))?
}

/// Resolves when the user asks the program to stop.
async fn interrupted() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminate) = signal(SignalKind::terminate()) else {
        return std::future::pending().await;
    };
    tokio::select! {
        outcome = tokio::signal::ctrl_c() => if outcome.is_err() { std::future::pending().await },
        _ = terminate.recv() => {}
    }
}

/// Prints a result; a closed pipe is the reader's decision and no error.
fn print(text: &str) -> Result<()> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// Whether stdout is for a person who wants colour (<https://no-color.org>).
fn styled() -> bool {
    io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
