//! The logging flags, which every command takes, before or after its name.

use super::inert::InertLogFlags;
use clap::{ArgAction, Args, ValueEnum};

/// Log lines: which, and how they look.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Logging")]
pub struct LogArgs {
    /// How log lines look
    #[arg(
        long = "log.stdout.format",
        value_enum,
        default_value_t = LogFormat::Terminal,
        global = true,
        value_name = "FORMAT"
    )]
    pub format: LogFormat,
    /// Which log lines to print, in the syntax of RUST_LOG; added to RUST_LOG
    #[arg(
        long = "log.stdout.filter",
        default_value = "",
        global = true,
        value_name = "FILTER"
    )]
    pub filter: String,
    /// When to colour log lines
    #[arg(long, value_enum, default_value_t = ColorMode::Auto, global = true, value_name = "WHEN")]
    pub color: ColorMode,
    /// Log level: -v errors, -vv warnings, -vvv info (the default), -vvvv debug, -vvvvv trace
    #[arg(short, long, action = ArgAction::Count, global = true)]
    pub verbosity: u8,
    /// Print no log lines
    #[arg(long, alias = "silent", short, global = true)]
    pub quiet: bool,
    /// Flags of reth without effect here.
    #[command(flatten)]
    pub inert: InertLogFlags,
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Time, level, message and fields
    Terminal,
    /// One JSON object a line
    Json,
    /// key=value pairs
    LogFmt,
}

/// When to colour log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ColorMode {
    /// Always
    Always,
    /// On a terminal
    Auto,
    /// Never
    Never,
}
