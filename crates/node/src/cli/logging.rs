//! Log lines on standard output: `<time> <LEVEL> <message> <key>=<value> ...`, as reth prints them.
//!
//! Scripts parse these lines, so colour is off unless standard output is a terminal.

use super::log_args::{ColorMode, LogArgs, LogFormat};
use std::{
    fmt::{self, Write as _},
    io::{self, IsTerminal},
};
use tracing::{Event, Subscriber, field::Field};
use tracing_subscriber::{
    EnvFilter,
    field::Visit,
    fmt::{
        FmtContext, FormatEvent, FormatFields,
        format::Writer,
        time::{FormatTime, SystemTime},
    },
    registry::LookupSpan,
};

/// Installs the process-wide subscriber. A second call changes nothing.
///
/// # Errors
/// When a filter cannot be parsed.
pub fn init(log: &LogArgs) -> eyre::Result<()> {
    if log.quiet {
        return Ok(());
    }
    let filter = filter(log, std::env::var("RUST_LOG").unwrap_or_default().as_str())?;
    let ansi = match log.color {
        ColorMode::Always => true,
        ColorMode::Never => false,
        ColorMode::Auto => io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none(),
    };
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(ansi)
        .with_target(false)
        .with_writer(io::stdout);
    // Already installed means the embedding program logs its own way.
    let _ = match log.format {
        LogFormat::Terminal => builder.try_init(),
        LogFormat::Json => builder.json().with_target(true).try_init(),
        LogFormat::LogFmt => builder.event_format(LogFmt).try_init(),
    };
    Ok(())
}

/// The level of `-v`, then RUST_LOG, then `--log.stdout.filter`; the later is the stronger.
fn filter(log: &LogArgs, environment: &str) -> eyre::Result<EnvFilter> {
    let level = match log.verbosity {
        1 => "error",
        2 => "warn",
        0 | 3 => "info",
        4 => "debug",
        _ => "trace",
    };
    let directives = [level, environment, log.filter.as_str()];
    let joined: Vec<_> = directives
        .into_iter()
        .filter(|text| !text.trim().is_empty())
        .collect();
    let joined = joined.join(",");
    EnvFilter::try_new(&joined)
        .map_err(|error| eyre::eyre!("failed to use the log filter {joined:?}: {error}"))
}

/// `ts=.. level=.. target=.. message=".." key=value ..`, one event a line.
struct LogFmt;

impl<S, N> FormatEvent<S, N> for LogFmt
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let metadata = event.metadata();
        write!(writer, "ts=")?;
        SystemTime.format_time(&mut writer)?;
        let level = metadata.level().as_str().to_ascii_lowercase();
        write!(writer, " level={level} target={}", metadata.target())?;
        let mut fields = LogFmtFields {
            text: String::new(),
        };
        event.record(&mut fields);
        writeln!(writer, "{}", fields.text)
    }
}

/// Collects fields as ` key=value`, quoted when they hold blanks, quotes or `=`.
struct LogFmtFields {
    text: String,
}

impl LogFmtFields {
    fn push(&mut self, key: &str, value: &str) {
        let plain = !value.is_empty() && !value.contains([' ', '"', '=', '\n']);
        // Writing to a string cannot fail.
        let _ = match plain {
            true => write!(self.text, " {key}={value}"),
            false => write!(self.text, " {key}={value:?}"),
        };
    }
}

impl Visit for LogFmtFields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.push(field.name(), value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.push(field.name(), &format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::Parser;

    fn filter_of(line: &str, environment: &str) -> String {
        let cli = Cli::try_parse_from(line.split_whitespace()).unwrap();
        filter(&cli.log, environment).unwrap().to_string()
    }

    #[test]
    fn later_directives_win() {
        let cases = [
            ("reth node", "", "info"),
            ("reth node -v", "", "error"),
            ("reth -vvvv node", "", "debug"),
            ("reth node", "warn", "warn"),
            ("reth node --log.stdout.filter=debug", "warn", "debug"),
        ];
        for (line, environment, expected) in cases {
            assert_eq!(
                filter_of(line, environment),
                expected,
                "{line} with {environment:?}"
            );
        }
        let scoped = filter_of("reth node --log.stdout.filter=engine=trace", "");
        assert!(
            scoped.contains("engine=trace") && scoped.contains("info"),
            "{scoped}"
        );
    }

    #[test]
    fn a_broken_filter_is_named() {
        let cli = Cli::try_parse_from(["reth", "node", "--log.stdout.filter", "a=b=c"]).unwrap();
        assert!(
            filter(&cli.log, "")
                .unwrap_err()
                .to_string()
                .contains("a=b=c")
        );
    }

    #[test]
    fn logfmt_quotes_only_what_needs_it() {
        let mut fields = LogFmtFields {
            text: String::new(),
        };
        fields.push("number", "7");
        fields.push("message", "two words");
        fields.push("quoted", "a\"b");
        assert_eq!(
            fields.text,
            r#" number=7 message="two words" quoted="a\"b""#
        );
    }
}
