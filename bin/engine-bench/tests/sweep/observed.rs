//! What a sweep says about reasons: the attribution of its cells, and traces of their blocks.

use super::{cells, support::World};
use engine_api::metric::{self, Scrape};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    fs,
    process::Command,
};
use testkit::{Running, Tool, free_port, http::get, require, wait_for};

/// A URL of a collector that does not run: nothing listens on the port of discarded data.
const GONE: &str = "http://127.0.0.1:9";

/// The name of a span, and of the one that it is part of.
type Span = (String, Option<String>);

/// The first span of each name is part of one of that name.
fn assert_parents(spans: &[Span], expected: &[(&str, Option<&str>)]) {
    for (name, parent) in expected {
        let found = spans.iter().find(|(found, _)| found == name);
        let (_, found) = found.unwrap_or_else(|| panic!("no {name} in {spans:?}"));
        assert_eq!(found.as_deref(), *parent, "{name}");
    }
}

/// The phases of a cell are what the engine's metrics grew by, fit into the client's time, and agree with the
/// log.
fn assert_attributed(world: &World, cell: &Value) {
    let found = &cell["attribution"];
    assert_eq!(found["source"], "metrics", "{found:#}");
    let id = cell["id"].as_str().unwrap();
    let pass = world.path(&format!("out/visits/1-{id}/measured"));
    let rows = super::rows(&pass.join("samples.csv"));
    let phases = found["phases"].as_array().unwrap();
    let phase = |key: &str| {
        let found = phases.iter().find(|phase| phase["key"] == key);
        found.unwrap()["ms_per_block"].as_f64().unwrap()
    };
    let [before, after] = ["before", "after"].map(|when| {
        let text = fs::read_to_string(pass.join(format!("metrics-{when}.prom"))).unwrap();
        Scrape::parse(&text)
    });
    for (key, metric) in [
        ("decode", metric::PAYLOAD_DECODE),
        ("queue", metric::QUEUE_WAIT),
        ("transactions", metric::TRANSACTION_EXECUTION),
        ("root_wait", metric::STATE_ROOT),
        ("checks", metric::POST_VALIDATION),
        ("forkchoice", metric::FORKCHOICE_LATENCY),
    ] {
        let sum = |scrape: &Scrape| scrape.value(&format!("{}_sum", metric.name)).unwrap();
        let grew = 1e3 * (sum(&after) - sum(&before)) / rows.len() as f64;
        assert!((phase(key) - grew).abs() < 1e-5, "{key}: {found:#}");
    }
    for rest in ["transport", "execution", "engine_rest", "forkchoice_rest"] {
        assert!(
            phase(rest) > -1e-5,
            "{rest}: parts exceed the whole: {found:#}"
        );
    }
    let difference = found["log_difference"].as_f64().unwrap();
    assert!(difference < 0.05, "{found:#}");
    let jobs = super::sum(&rows, "jobs") as f64;
    let counts = found["counts"].as_array().unwrap();
    let counted = counts.iter().find(|count| count["key"] == "jobs").unwrap();
    let counted = counted["per_block"].as_f64().unwrap();
    assert!(
        (counted - jobs / rows.len() as f64).abs() < 1e-6,
        "{counted} {jobs}"
    );
}

/// The file of a traced block holds spans of client and engine, each below the one it is part of.
fn assert_traced(world: &World, block: &Value) {
    let file = world.path("out").join(block["file"].as_str().unwrap());
    let trace: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let name = |event: &Value| event["name"].as_str().map(str::to_owned);
    let parent = |event: &Value| {
        let id = event["args"].get("parent_id")?;
        let mut events = events.iter();
        name(events.find(|other| other["args"]["span_id"] == *id)?)
    };
    let spans = events
        .iter()
        .map(|event| (name(event).unwrap(), parent(event)));
    assert_parents(
        &spans.collect::<Vec<_>>(),
        &[
            ("newPayload", Some("payload")),
            ("engine_newPayloadV4", Some("newPayload")),
            ("on_new_payload", Some("engine_newPayloadV4")),
            ("validate_block_with_state", Some("on_new_payload")),
            ("await_state_root", Some("validate_block_with_state")),
            ("Account V2 multiproof calculation", Some("account worker")),
            ("on_forkchoice_updated", Some("engine_forkchoiceUpdatedV3")),
        ],
    );
    let number = block["block"].to_string();
    let mut events = events.iter();
    let engine = events.find(|event| event["name"] == "on_new_payload");
    assert_eq!(engine.unwrap()["args"]["block_num"], number);
}

#[test]
fn phases_are_what_was_measured_and_a_traced_block_holds_client_and_engine() {
    let world = World::new();
    world.ok(&format!(
        "sweep --chunks 5,100000 --gas 2M --count 6 --order sequential --trace worst:1 \
         --trace-to {GONE} --out @out"
    ));
    let report = world.report("out");
    for cell in cells(&report) {
        assert_attributed(&world, cell);
    }
    let change = report["attribution"][0]["text"].as_str().unwrap();
    assert!(change.contains("jobs per block"), "{change}");

    let traces = report["traces"].as_array().unwrap();
    assert_eq!(traces.len(), 2);
    for traced in traces {
        // The collector is gone, which costs links and nothing else.
        let problem = traced["problem"].as_str().unwrap();
        assert!(problem.contains(GONE), "{problem}");
        let block = &traced["blocks"][0];
        assert!(block["link"].is_null());
        assert_eq!(traced["lost_spans"], 0);
        assert_traced(&world, block);
    }
    for file in ["report.md", "report.html"] {
        let text = fs::read_to_string(world.path("out").join(file)).unwrap();
        assert!(text.contains("traces/chunk5-gas2M/"), "{file}");
    }
    world.assert_no_engine();
}

/// Jaeger with every port of its own choice on loopback.
fn jaeger(program: &OsStr, otlp: u16, pages: u16) -> Running {
    let mut command = Command::new(program);
    for (flag, port) in [
        ("collector.otlp.http", otlp),
        ("collector.otlp.grpc", free_port()),
        ("collector.grpc-server", free_port()),
        ("collector.http-server", free_port()),
        ("query.http-server", pages),
        ("query.grpc-server", free_port()),
        ("admin.http", free_port()),
    ] {
        command.arg(format!("--{flag}.host-port=127.0.0.1:{port}"));
    }
    Running::start(&mut command)
}

/// The spans of a trace, as Jaeger's API tells them.
fn spans(trace: &Value) -> Vec<Span> {
    let spans = trace["spans"].as_array().unwrap();
    let name = |span: &Value| span["operationName"].as_str().unwrap().to_owned();
    let parent = |span: &Value| {
        let reference = span["references"].as_array()?.first()?;
        assert_eq!(reference["refType"], "CHILD_OF");
        let parent = spans
            .iter()
            .find(|other| other["spanID"] == reference["spanID"]);
        Some(parent.map_or_else(|| "not in the trace".to_owned(), name))
    };
    spans
        .iter()
        .map(|span| (name(span), parent(span)))
        .collect()
}

/// The trace that a block links to, once Jaeger has all of it: it stores what it gets in parts.
fn whole_trace(pages: u16, block: &Value) -> Value {
    let link = block["link"].as_str().unwrap();
    let id = link.strip_prefix(&format!("http://127.0.0.1:{pages}/trace/"));
    let id = id.unwrap_or_else(|| panic!("{link}"));
    wait_for("the whole trace", || {
        let answer = get(pages, &format!("/api/traces/{id}"))?;
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let trace = answer["data"][0].clone();
        (spans(&trace).len() as u64 >= block["spans"].as_u64()?).then_some(trace)
    })
}

/// Spans of harness and engine are each below the one they are part of, and name what they are about.
fn assert_linked(trace: &Value, block: &Value) {
    let spans = spans(trace);
    assert_eq!(spans.len() as u64, block["spans"].as_u64().unwrap());
    assert_parents(
        &spans,
        &[
            ("payload", None),
            ("newPayload", Some("payload")),
            ("engine_newPayloadV4", Some("newPayload")),
            ("on_new_payload", Some("engine_newPayloadV4")),
            ("execute_block", Some("validate_block_with_state")),
            ("await_state_root", Some("validate_block_with_state")),
            ("forkchoiceUpdated", Some("payload")),
            ("engine_forkchoiceUpdatedV3", Some("forkchoiceUpdated")),
        ],
    );
    let tags = |name: &str| -> BTreeMap<String, String> {
        let mut spans = trace["spans"].as_array().unwrap().iter();
        let span = spans.find(|span| span["operationName"] == name);
        let tags = span.unwrap_or_else(|| panic!("no {name}"))["tags"].as_array();
        let text = |tag: &Value| match &tag["value"] {
            Value::String(text) => text.clone(),
            value => value.to_string(),
        };
        let tags = tags.unwrap().iter();
        tags.map(|tag| (tag["key"].as_str().unwrap().to_owned(), text(tag)))
            .collect()
    };
    assert_eq!(
        tags("on_new_payload")["block_num"],
        block["block"].to_string()
    );
    assert_eq!(tags("sparse_trie_task")["chunk_size"], "5");
    // A chunk may hold slots alone.
    let chunk = tags("Account V2 multiproof calculation");
    let targets = ["account_targets", "storage_targets"].map(|key| chunk[key].parse::<u64>());
    let targets: u64 = targets.into_iter().map(Result::unwrap).sum();
    assert!((1..=5).contains(&targets), "{targets} of a chunk of 5");
    let processes = trace["processes"].as_object().unwrap().values();
    let services = processes.map(|process| process["serviceName"].as_str().unwrap());
    let services: BTreeSet<_> = services.collect();
    assert_eq!(
        services,
        ["engine-bench", "engine-bench-chunk5-gas2M"].into()
    );
}

#[test]
fn jaeger_shows_the_trace_that_a_report_links_to() {
    let Some(program) = require(Tool::Jaeger) else {
        return;
    };
    let world = World::new();
    let [otlp, pages] = [free_port(), free_port()];
    let _jaeger = jaeger(&program, otlp, pages);
    wait_for("Jaeger", || get(pages, "/api/services"));
    world.ok(&format!(
        "sweep --chunks 5 --gas 2M --count 4 --warmup none --trace worst:2 --out @out \
         --set bench.chunk-policy=always --set bench.root-arena-mb=0 \
         --trace-to http://127.0.0.1:{otlp} --trace-pages http://127.0.0.1:{pages}/"
    ));
    let report = world.report("out");
    let traced = &report["traces"][0];
    assert!(traced["problem"].is_null(), "{traced:#}");
    let blocks = traced["blocks"].as_array().unwrap();
    assert_eq!(blocks.len(), 2);
    for block in blocks {
        assert_linked(&whole_trace(pages, block), block);
    }
    world.assert_no_engine();
}
