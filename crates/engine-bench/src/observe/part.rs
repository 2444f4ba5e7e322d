//! The programs that observe, and how each is started.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::Path,
};

/// A program.
#[derive(Debug)]
pub struct Part {
    /// Its name, which is that of its files and of its container too.
    pub name: &'static str,
    /// What it is called on the PATH.
    program: &'static str,
    /// Names another file.
    variable: &'static str,
    /// What it is good for.
    pub purpose: &'static str,
    /// Its container image.
    pub(super) image: &'static str,
    /// The port of its pages, unless it is moved.
    pub(super) port: u16,
    /// A page that answers once it is ready.
    pub(super) ready_path: &'static str,
    kind: PartKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PartKind {
    Prometheus,
    Jaeger,
    Grafana,
}

/// Every program, in the order in which they are started.
pub const PARTS: [Part; 3] = [
    Part {
        name: "prometheus",
        program: "prometheus",
        variable: "ENGINE_BENCH_PROMETHEUS",
        purpose: "keeps the metrics of `sweep --metrics 127.0.0.1:9464` and `node --metrics 127.0.0.1:9001`",
        image: "prom/prometheus:v3.5.0",
        port: 9090,
        ready_path: "/-/ready",
        kind: PartKind::Prometheus,
    },
    Part {
        name: "jaeger",
        program: "jaeger-all-in-one",
        variable: "ENGINE_BENCH_JAEGER",
        purpose: "shows the traces of `sweep --trace worst:3` and `node --tracing-otlp`",
        image: "jaegertracing/all-in-one:1.76.0",
        port: 16_686,
        ready_path: "/",
        kind: PartKind::Jaeger,
    },
    Part {
        name: "grafana",
        program: "grafana",
        variable: "ENGINE_BENCH_GRAFANA",
        purpose: "draws the dashboards",
        image: "grafana/grafana:12.2.0",
        port: 3000,
        ready_path: "/api/health",
        kind: PartKind::Grafana,
    },
];

/// The ports of all programs: the usual ones, or moved together to stand beside others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ports {
    offset: u16,
}

impl Ports {
    /// The usual ports plus this; ports beyond the last one are the last one, which nobody can listen on
    /// twice.
    pub fn moved_by(offset: u16) -> Self {
        Self { offset }
    }

    pub(super) fn at(self, usual: u16) -> u16 {
        usual.saturating_add(self.offset)
    }
}

impl Part {
    /// The file to run: what its variable names, else what is on the PATH.
    pub(super) fn program(&self) -> String {
        std::env::var(self.variable).unwrap_or_else(|_| self.program.to_owned())
    }

    /// How this program is to be had when it is not installed.
    pub fn missing(&self) -> String {
        format!(
            "no {} on the PATH; {} names another file",
            self.program, self.variable
        )
    }

    /// Where its pages are.
    pub fn address(&self, ports: Ports) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, ports.at(self.port)).into()
    }

    /// Its arguments, with its files below `folder`.
    pub(super) fn arguments(&self, folder: &Path, ports: Ports) -> Vec<String> {
        let path = |name: &str| folder.join(name).display().to_string();
        match self.kind {
            PartKind::Prometheus => vec![
                format!("--config.file={}", path("prometheus/prometheus.yml")),
                format!("--storage.tsdb.path={}", path("prometheus/data")),
                format!("--web.listen-address={}", self.address(ports)),
            ],
            PartKind::Jaeger => JAEGER_SERVERS
                .map(|(name, port)| format!("--{name}.host-port=127.0.0.1:{}", ports.at(port)))
                .into(),
            PartKind::Grafana => vec!["server".into(), "--homepath=/usr/share/grafana".into()],
        }
    }

    /// Its environment.
    pub(super) fn variables(&self, folder: &Path, ports: Ports) -> Vec<(&'static str, String)> {
        if self.kind != PartKind::Grafana {
            return Vec::new();
        }
        let path = |name: &str| folder.join(name).display().to_string();
        vec![
            ("GF_PATHS_PROVISIONING", path("grafana/provisioning")),
            ("GF_PATHS_DATA", path("grafana/data")),
            ("GF_PATHS_LOGS", path("grafana/logs")),
            ("GF_SERVER_HTTP_ADDR", Ipv4Addr::LOCALHOST.to_string()),
            ("GF_SERVER_HTTP_PORT", ports.at(self.port).to_string()),
            ("GF_AUTH_ANONYMOUS_ENABLED", "true".into()),
            ("GF_ANALYTICS_REPORTING_ENABLED", "false".into()),
            ("GF_ANALYTICS_CHECK_FOR_UPDATES", "false".into()),
        ]
    }
}

/// Every port that Jaeger opens, so that none is open to others.
const JAEGER_SERVERS: [(&str, u16); 7] = [
    ("collector.otlp.http", 4318),
    ("collector.otlp.grpc", 4317),
    ("collector.grpc-server", 14_250),
    ("collector.http-server", 14_268),
    ("query.http-server", 16_686),
    ("query.grpc-server", 16_685),
    ("admin.http", 14_269),
];
