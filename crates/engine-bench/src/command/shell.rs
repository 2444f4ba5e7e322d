//! What a shell and `man` want to know of the program, made from its command line.

use crate::{cli::Cli, resolve};
use clap::CommandFactory as _;
use clap_complete::Shell;
use eyre::{Result, bail};
use std::process::ExitCode;

const NAME: &str = "engine-bench";

/// Prints the JSON schema of sweep files.
pub(crate) fn schema() -> Result<ExitCode> {
    super::print(&(serde_json::to_string_pretty(&resolve::schema())? + "\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the completions for a shell.
pub(crate) fn completions(shell: Shell) -> Result<ExitCode> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), NAME, &mut text);
    super::print(&String::from_utf8(text)?)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the page of the program, or of a verb.
pub(crate) fn man(verb: Option<&str>) -> Result<ExitCode> {
    let mut program = Cli::command();
    program.build();
    let page = match verb {
        None => program,
        Some(verb) => match program.find_subcommand(verb) {
            Some(found) => found.clone().display_name(format!("{NAME}-{verb}")),
            None => {
                let verbs = program.get_subcommands().map(clap::Command::get_name);
                let verbs: Vec<&str> = verbs.collect();
                bail!("unknown verb `{verb}`; give one of {}", verbs.join(", "));
            }
        },
    };
    let mut text = Vec::new();
    clap_mangen::Man::new(page).render(&mut text)?;
    super::print(&String::from_utf8(text)?)?;
    Ok(ExitCode::SUCCESS)
}
