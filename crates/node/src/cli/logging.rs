//! Log lines on standard output: `<time> <LEVEL> <message> <key>=<value> ...`, as reth prints them.
//!
//! Scripts parse these lines, so colour is off unless standard output is a terminal.

use super::log_args::{ColorMode, LogArgs, LogFormat};
use crate::telemetry::{self, OtlpConfig};
use std::{
    fmt::{self, Write as _},
    io::{self, IsTerminal},
};
use tracing::{Event, Subscriber, field::Field};
use tracing_subscriber::{
    EnvFilter, Layer, Registry,
    field::Visit,
    fmt::{
        FmtContext, FormatEvent, FormatFields,
        format::Writer,
        time::{FormatTime, SystemTime},
    },
    layer::SubscriberExt as _,
    registry::LookupSpan,
    util::SubscriberInitExt as _,
};

/// Installs the process-wide subscriber: log lines, and with `otlp` exported spans. A second call
/// changes nothing.
///
/// # Errors
/// When a filter or the collector's address cannot be used.
pub fn init(log: &LogArgs, otlp: Option<&OtlpConfig>) -> eyre::Result<()> {
    let filter = filter(log, std::env::var("RUST_LOG").unwrap_or_default().as_str())?;
    let lines = (!log.quiet).then(|| lines(log));
    // Already installed means the embedding program logs its own way.
    let _ = match otlp {
        // One filter for everything costs least: what no line is printed for is never looked at.
        None => match lines {
            Some(lines) => tracing_subscriber::registry()
                .with(lines)
                .with(filter)
                .try_init(),
            None => return Ok(()),
        },
        Some(otlp) => tracing_subscriber::registry()
            .with(lines.with_filter(filter))
            .with(telemetry::otlp_layer(otlp)?)
            .try_init(),
    };
    Ok(())
}

fn lines(log: &LogArgs) -> Box<dyn Layer<Registry> + Send + Sync> {
    let ansi = match log.color {
        ColorMode::Always => true,
        ColorMode::Never => false,
        ColorMode::Auto => io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none(),
    };
    let lines = tracing_subscriber::fmt::layer()
        .with_ansi(ansi)
        .with_target(false)
        // Otherwise complained about on stderr, which panics when that is as full as stdout.
        .log_internal_errors(false)
        .with_writer(io::stdout);
    match log.format {
        LogFormat::Terminal => lines.boxed(),
        LogFormat::Json => lines.json().with_target(true).boxed(),
        LogFormat::LogFmt => lines.event_format(LogFmt).boxed(),
    }
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
