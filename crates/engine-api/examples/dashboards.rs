//! Makes what is derived from the lists of metrics: Grafana's dashboards and a table to read.
//!
//! `cargo xtask gen dashboards` runs it in the workspace; a test compares the files with the lists, so
//! no panel names a metric that nobody exports.

use engine_api::metric::{self, ENGINE, HARNESS, Kind, Metric, Unit};
use serde_json::{Value, json};
use std::{fmt::Write as _, fs, io, path::Path};

/// The data source that provisioning makes.
const SOURCE: &str = "engine-bench-prometheus";

/// Over how long rates are taken: some scrapes of a pass that lasts seconds.
const WINDOW: &str = "15s";

/// What the metrics of an engine are told apart by; empty for an engine outside a sweep.
const LEGEND: &str = "{{cell}} {{pass}}";

/// Columns of a dashboard, and how many of them and rows a panel takes.
const COLUMNS: usize = 24;
const PANEL: (usize, usize) = (8, 7);

/// A dashboard: its file, its title, and which metrics are on it.
type Dashboard = (&'static str, &'static str, fn(&str) -> bool);

/// The first dashboard that takes a metric has it.
const DASHBOARDS: [Dashboard; 4] = [
    ("sweep", "engine-bench: sweep", |name| {
        name.starts_with("bench_sweep_")
    }),
    ("state-root", "bench-reth: state root", |name| {
        name.starts_with("bench_multiproof_")
            || name.starts_with("bench_root_")
            || name.starts_with("reth_tree_root_")
    }),
    ("machine", "Machine, process, storage", |name| {
        name.starts_with("bench_machine_")
            || name.starts_with("reth_process_")
            || name.starts_with("reth_io_")
            || name.starts_with("bench_otlp_")
            || name.contains("persistence")
            || name.contains("in_mem_state")
            || name.contains("backpressure")
    }),
    ("engine", "bench-reth: engine", |_| true),
];

/// The steps of a block on the engine thread, one after another.
const PHASES: [Metric; 8] = [
    metric::BLOCK_PREPARE,
    metric::PRE_EXECUTION,
    metric::TRANSACTION_WAIT,
    metric::TRANSACTION_EXECUTION,
    metric::POST_EXECUTION,
    metric::BUNDLE,
    metric::STATE_ROOT,
    metric::POST_VALIDATION,
];

fn main() -> io::Result<()> {
    for (path, text) in files() {
        let path = Path::new(&path);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(path, text)?;
    }
    Ok(())
}

/// Every file that is made, by its path in the workspace.
pub(crate) fn files() -> Vec<(String, String)> {
    let mut files: Vec<_> = DASHBOARDS
        .iter()
        .map(|(file, title, _)| {
            let text = format!("{:#}\n", dashboard(file, title));
            (format!("grafana/dashboards/{file}.json"), text)
        })
        .collect();
    files.push(("docs/METRICS.md".to_owned(), tables()));
    files
}

fn is_on(metric: &Metric, file: &str) -> bool {
    let found = DASHBOARDS.iter().find(|(_, _, takes)| takes(metric.name));
    found.is_some_and(|(of, ..)| *of == file)
}

/// A line of a panel: what is drawn and what it is called.
type Target = (String, String);

fn dashboard(file: &str, title: &str) -> Value {
    let mut panels = Vec::new();
    if file == "engine" {
        let called = |metric: &Metric| metric.help.trim_end_matches('.').to_owned();
        let phases = PHASES.iter();
        let targets = phases.map(|metric| (expression(metric), called(metric)));
        let title = "Where a block's time goes";
        panels.push(panel(
            title,
            unit_word(Unit::Seconds),
            targets.collect(),
            true,
        ));
    }
    let own = HARNESS.iter().chain(ENGINE);
    panels.extend(own.filter(|metric| is_on(metric, file)).map(|metric| {
        let legend = if metric.name.starts_with("bench_machine_") {
            String::new()
        } else {
            LEGEND.to_owned()
        };
        let targets = vec![(expression(metric), legend)];
        let title = metric.help.trim_end_matches('.');
        panel(title, unit(metric), targets, false)
    }));
    let (width, height) = PANEL;
    let a_row = COLUMNS / width;
    for (index, panel) in panels.iter_mut().enumerate() {
        let (x, y) = (index % a_row * width, index / a_row * height);
        panel["id"] = json!(index + 1);
        panel["gridPos"] = json!({"h": height, "w": width, "x": x, "y": y});
    }
    json!({
        "uid": format!("engine-bench-{file}"),
        "title": title,
        "tags": ["engine-bench"],
        "schemaVersion": 39,
        "version": 1,
        "editable": true,
        "graphTooltip": 1,
        "timezone": "browser",
        "refresh": "5s",
        "time": {"from": "now-15m", "to": "now"},
        "templating": {"list": []},
        "annotations": {"list": [passes()]},
        "links": [],
        "panels": panels,
    })
}

/// Marks every pass of a sweep, over the graphs of all panels.
fn passes() -> Value {
    json!({
        "name": "Passes",
        "enable": true,
        "hide": false,
        "iconColor": "blue",
        "datasource": source(),
        "expr": metric::PASS.name,
        "step": "1s",
        "titleFormat": "{{cell}}",
        "textFormat": "round {{round}}, {{pass}}",
    })
}

fn source() -> Value {
    json!({"type": "prometheus", "uid": SOURCE})
}

/// What is drawn of a metric: a mean of a summary, a rate of a counter, a gauge as it is.
fn expression(metric: &Metric) -> String {
    let name = metric.name;
    match metric.kind {
        Kind::Summary => format!("rate({name}_sum[{WINDOW}]) / rate({name}_count[{WINDOW}])"),
        Kind::Counter => format!("rate({name}[{WINDOW}])"),
        Kind::Gauge => name.to_owned(),
    }
}

/// Grafana's word for the unit of what is drawn; a counter of seconds grows by seconds a second.
fn unit(metric: &Metric) -> &'static str {
    match (metric.kind, metric.unit) {
        (Kind::Counter, Unit::Bytes) => "Bps",
        (Kind::Counter, _) => "short",
        (_, unit) => unit_word(unit),
    }
}

fn unit_word(unit: Unit) -> &'static str {
    match unit {
        Unit::Seconds => "s",
        Unit::Bytes => "bytes",
        Unit::Gas | Unit::GasPerSecond | Unit::Count => "short",
    }
}

fn panel(title: &str, unit: &str, targets: Vec<Target>, stacked: bool) -> Value {
    let targets: Vec<Value> = targets
        .into_iter()
        .zip('A'..='Z')
        .map(|((expression, legend), reference)| {
            json!({
                "refId": reference.to_string(),
                "datasource": source(),
                "expr": expression,
                "legendFormat": legend,
                "range": true,
            })
        })
        .collect();
    let (mode, fill) = if stacked { ("normal", 60) } else { ("none", 0) };
    json!({
        "type": "timeseries",
        "title": title,
        "datasource": source(),
        "targets": targets,
        "options": {
            "legend": {"showLegend": stacked, "displayMode": "list", "placement": "bottom", "calcs": []},
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
        "fieldConfig": {
            "defaults": {
                "unit": unit,
                "custom": {"stacking": {"mode": mode, "group": "A"}, "fillOpacity": fill},
            },
            "overrides": [],
        },
    })
}

/// Every metric as a row of a table.
fn tables() -> String {
    let mut text = String::from(
        "# Metrics\n\nMade by `cargo xtask gen dashboards` from `engine_api::metric`. Names that begin with `reth_` mean what they \
         mean in reth;\nsummaries are of one observation a block, request or batch.\n",
    );
    push_table(&mut text, "bench-reth: `node --metrics`", ENGINE);
    push_table(&mut text, "engine-bench: `sweep --metrics`", HARNESS);
    text
}

fn push_table(text: &mut String, title: &str, metrics: &[Metric]) {
    // Writing to a string cannot fail.
    let _ = write!(
        text,
        "\n## {title}\n\n| name | kind | unit | what it says |\n|---|---|---|---|\n"
    );
    for metric in metrics {
        let (name, kind, unit) = (metric.name, metric.kind.name(), metric.unit.name());
        let _ = writeln!(text, "| `{name}` | {kind} | {unit} | {} |", metric.help);
    }
}
