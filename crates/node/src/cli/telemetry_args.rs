//! The flags of `node` about metrics and traces, spelled as reth spells them.

use crate::telemetry::{OtlpConfig, OtlpProtocol};
use clap::Args;
use eyre::{bail, eyre};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The path that collectors take traces on over HTTP.
const TRACES_PATH: &str = "/v1/traces";

/// Metrics and traces.
#[derive(Debug, Args)]
#[command(next_help_heading = "Metrics and traces")]
pub struct TelemetryArgs {
    /// Serve metrics for Prometheus on this address; a port alone listens on loopback
    #[arg(long, value_parser = parse_address, value_name = "ADDR:PORT")]
    pub metrics: Option<SocketAddr>,
    /// Export spans by OTLP. Default URL: the collector on this machine, http://localhost:4318/v1/traces
    /// or, for grpc, http://localhost:4317
    #[arg(
        long = "tracing-otlp",
        env = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
        hide_env_values = true,
        num_args = 0..=1,
        default_missing_value = "",
        require_equals = true,
        value_name = "URL"
    )]
    pub otlp: Option<String>,
    /// How spans are sent
    #[arg(
        long = "tracing-otlp-protocol",
        env = "OTEL_EXPORTER_OTLP_PROTOCOL",
        hide_env_values = true,
        value_enum,
        default_value_t = OtlpProtocol::Http,
        value_name = "PROTOCOL"
    )]
    pub otlp_protocol: OtlpProtocol,
    /// Which spans to export, in the syntax of RUST_LOG
    #[arg(
        long = "tracing-otlp.filter",
        default_value = "debug",
        value_name = "FILTER"
    )]
    pub otlp_filter: String,
    /// Share of the traces to export, 0.0 to 1.0
    #[arg(
        long = "tracing-otlp.sample-ratio",
        env = "OTEL_TRACES_SAMPLER_ARG",
        hide_env_values = true,
        default_value_t = 1.0,
        value_parser = parse_ratio,
        value_name = "RATIO"
    )]
    pub otlp_sample_ratio: f64,
    /// What the process is called in traces
    #[arg(
        long = "tracing-otlp.service-name",
        env = "OTEL_SERVICE_NAME",
        hide_env_values = true,
        default_value = "bench-reth",
        value_name = "NAME"
    )]
    pub otlp_service_name: String,
}

impl TelemetryArgs {
    /// Where spans go; `None` when nobody asked for them.
    ///
    /// # Errors
    /// When the URL cannot be that of a collector.
    pub fn otlp(&self) -> eyre::Result<Option<OtlpConfig>> {
        let Some(url) = &self.otlp else {
            return Ok(None);
        };
        Ok(Some(OtlpConfig {
            endpoint: endpoint(url.trim(), self.otlp_protocol)?,
            protocol: self.otlp_protocol,
            filter: self.otlp_filter.clone(),
            sample_ratio: self.otlp_sample_ratio,
            service_name: self.otlp_service_name.clone(),
        }))
    }
}

fn endpoint(url: &str, protocol: OtlpProtocol) -> eyre::Result<String> {
    let url = url.trim_end_matches('/');
    if !url.is_empty() && !url.starts_with("http://") {
        bail!("failed to use --tracing-otlp={url}: give a URL that begins with http://");
    }
    if !url.is_empty() {
        let parsed: http::Uri = url
            .parse()
            .map_err(|error| eyre!("failed to use --tracing-otlp={url}: {error}"))?;
        if parsed.host().is_none_or(str::is_empty) {
            bail!("failed to use --tracing-otlp={url}: it names no host");
        }
    }
    match protocol {
        OtlpProtocol::Http if url.is_empty() => Ok(format!("http://localhost:4318{TRACES_PATH}")),
        OtlpProtocol::Http if url.ends_with(TRACES_PATH) => Ok(url.to_owned()),
        OtlpProtocol::Http => Ok(format!("{url}{TRACES_PATH}")),
        OtlpProtocol::Grpc if url.is_empty() => Ok("http://localhost:4317".to_owned()),
        OtlpProtocol::Grpc if url.ends_with(TRACES_PATH) => bail!(
            "failed to use --tracing-otlp={url}: {TRACES_PATH} is a path of HTTP; omit it for grpc"
        ),
        OtlpProtocol::Grpc => Ok(url.to_owned()),
    }
}

/// An address; a port with or without a colon is one of this machine, as is `localhost`.
fn parse_address(text: &str) -> Result<SocketAddr, String> {
    const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let local = text
        .strip_prefix("localhost:")
        .or_else(|| text.strip_prefix(':'))
        .unwrap_or(text);
    if let Ok(port) = local.parse() {
        return Ok(SocketAddr::new(LOOPBACK, port));
    }
    text.parse()
        .map_err(|_| "give an address and a port, for example 127.0.0.1:9001".to_owned())
}

fn parse_ratio(text: &str) -> Result<f64, String> {
    let ratio: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.0..=1.0).contains(&ratio) {
        return Ok(ratio);
    }
    Err("give a number from 0.0 to 1.0".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_one_of_this_machine() {
        for (text, expected) in [
            ("9001", Some("127.0.0.1:9001")),
            (":9001", Some("127.0.0.1:9001")),
            ("localhost:9001", Some("127.0.0.1:9001")),
            ("0.0.0.0:1", Some("0.0.0.0:1")),
            ("[::1]:1", Some("[::1]:1")),
            ("", None),
            ("here:1", None),
            ("70000", None),
        ] {
            let parsed = parse_address(text).ok().map(|address| address.to_string());
            assert_eq!(parsed.as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn a_url_gets_the_path_of_its_protocol() {
        use OtlpProtocol::{Grpc, Http};
        for (url, protocol, expected) in [
            ("", Http, Some("http://localhost:4318/v1/traces")),
            ("", Grpc, Some("http://localhost:4317")),
            ("http://a:1", Http, Some("http://a:1/v1/traces")),
            ("http://a:1/", Http, Some("http://a:1/v1/traces")),
            ("http://a:1/v1/traces", Http, Some("http://a:1/v1/traces")),
            ("http://a:1/v1/traces/", Http, Some("http://a:1/v1/traces")),
            ("http://a:1", Grpc, Some("http://a:1")),
            ("http://a:1/v1/traces", Grpc, None),
            ("https://a:1", Http, None),
            ("a:1", Http, None),
            ("http://", Http, None),
        ] {
            let found = endpoint(url, protocol).ok();
            assert_eq!(found.as_deref(), expected, "{url} {protocol:?}");
        }
    }

    #[test]
    fn a_ratio_is_a_part() {
        for (text, accepted) in [
            ("0", true),
            ("1.0", true),
            ("0.25", true),
            ("1.1", false),
            ("-1", false),
            ("NaN", false),
            ("x", false),
        ] {
            assert_eq!(parse_ratio(text).is_ok(), accepted, "{text}");
        }
    }
}
