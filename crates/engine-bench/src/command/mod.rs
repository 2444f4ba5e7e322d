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

pub(crate) use compare::compare;
pub(crate) use doctor::doctor;
pub(crate) use generate::generate;
pub(crate) use init::init;
pub(crate) use observe::observe;
pub(crate) use replay::replay;
pub(crate) use report::report;
pub(crate) use shell::{completions, man};
pub(crate) use sweep::sweep;
pub(crate) use verify_results::verify_results;

/// Prints the JSON schema of sweep files.
pub(crate) fn schema() -> eyre::Result<std::process::ExitCode> {
    let text = serde_json::to_string_pretty(&crate::sweep::schema())? + "\n";
    print(&text)?;
    Ok(std::process::ExitCode::SUCCESS)
}

use std::io::{self, IsTerminal as _, Write as _};

/// The runtime of a command: this thread alone, so that measuring shares it with nothing and
/// engines, which die with the thread that started them, die with the program.
fn runtime() -> eyre::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?)
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
fn print(text: &str) -> eyre::Result<()> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// Whether stdout is for a person who wants colour (<https://no-color.org>).
fn styled() -> bool {
    io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
