//! What a running node exports: metrics as it serves them, spans as a collector gets them, and what
//! becomes of both when the collector does not behave.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use engine_api::metric::{self, Metric, Scrape};
use serde_json::json;
use std::{
    net::TcpListener,
    sync::{Arc, Mutex},
};
use testkit::{
    Reply, Server, http,
    node::{Node, World, ZERO, program, stderr},
    wait_for,
};

/// Where the node serves metrics.
fn metrics_address(node: &Node) -> String {
    let line = node
        .log
        .iter()
        .find(|line| line.contains("Starting metrics endpoint"));
    line.unwrap().rsplit_once("url=").unwrap().1.to_owned()
}

/// Asks with a method for a path; gives status and body.
fn ask(address: &str, method: &str, path: &str) -> (u16, String) {
    let answer = http::ask(address, method, path).unwrap();
    (answer.status, answer.body)
}

/// The metrics once `until` holds: recording comes after the answer.
fn metrics_once(node: &Node, until: impl Fn(&Scrape) -> bool) -> Scrape {
    let address = metrics_address(node);
    wait_for("metrics of what was done", || {
        let scrape = Scrape::parse(&ask(&address, "GET", "/metrics").1);
        until(&scrape).then_some(scrape)
    })
}

fn sum(scrape: &Scrape, metric: Metric) -> f64 {
    scrape.value(&format!("{}_sum", metric.name)).unwrap()
}

#[test]
fn every_metric_is_there_from_the_start_and_counts_what_happened() {
    let world = World::new();
    let node = world.node(&["--metrics", "127.0.0.1:0"]);
    let address = metrics_address(&node);
    let (status, text) = ask(&address, "GET", "/anything");
    assert_eq!(status, 200);
    for metric in metric::ENGINE {
        let kind = format!("# TYPE {} {}\n", metric.name, metric.kind.name());
        assert_eq!(text.matches(&kind).count(), 1, "{kind}");
        assert!(
            text.contains(&format!("# HELP {} ", metric.name)),
            "{}",
            metric.name
        );
    }
    assert_eq!(ask(&address, "POST", "/metrics").0, 405);

    node.advance(3);
    let mut invalid = node.build();
    invalid["executionPayload"]["gasUsed"] = json!("0x1");
    assert_eq!(node.new_payload(&invalid)["status"], "INVALID");
    let mut orphan = node.build();
    orphan["executionPayload"]["parentHash"] = json!(format!("0x{}", "11".repeat(32)));
    // Its hash is another one now.
    assert_eq!(node.new_payload(&orphan)["status"], "INVALID");

    let is_done = |scrape: &Scrape| {
        scrape.value(metric::NEW_PAYLOAD_MESSAGES.name) == Some(5.0)
            && scrape.value("bench_engine_after_answer_seconds_count") == Some(5.0)
    };
    let scrape = metrics_once(&node, is_done);
    for (name, expected) in [
        (metric::NEW_PAYLOAD_VALID.name, 3.0),
        (metric::NEW_PAYLOAD_INVALID.name, 2.0),
        (metric::NEW_PAYLOAD_SYNCING.name, 0.0),
        (metric::FORKCHOICE_VALID.name, 3.0),
        (metric::HEAD.name, 3.0),
        ("reth_engine_rpc_new_payload_v4_count", 5.0),
        ("reth_engine_rpc_fork_choice_updated_v3_count", 3.0),
        (
            "reth_consensus_engine_beacon_new_payload_latency_count",
            5.0,
        ),
        ("reth_sync_execution_execution_histogram_count", 3.0),
        ("bench_multiproof_chunks_count", 3.0),
    ] {
        assert_eq!(scrape.value(name), Some(expected), "{name}");
    }
    assert!(
        sum(&scrape, metric::CHUNKS) >= 1.0,
        "the first block knows no path"
    );
    assert!(scrape.value(metric::WORKERS.name).unwrap() >= 2.0);

    // Steps lie within what they are steps of.
    let parts: f64 = [
        metric::BLOCK_PREPARE,
        metric::EXECUTION,
        metric::BUNDLE,
        metric::STATE_ROOT,
        metric::POST_VALIDATION,
    ]
    .map(|metric| sum(&scrape, metric))
    .iter()
    .sum();
    let validation = sum(&scrape, metric::VALIDATION);
    assert!(
        parts > 0.0 && parts <= validation * 1.000_001,
        "{parts} {validation}"
    );
    assert!(validation <= sum(&scrape, metric::NEW_PAYLOAD_LATENCY));
    assert_eq!(node.terminate().0, Some(0));
}

#[test]
fn metrics_on_a_port_in_use_stop_the_start() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let world = World::new();
    let chain = world.genesis();
    let output = world.run(&[
        "node",
        "--with-unused-ports",
        "--metrics",
        &address,
        "--chain",
        chain.to_str().unwrap(),
    ]);
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(
        text.contains(&address) && text.contains("--metrics"),
        "{text}"
    );
}

/// How a collector behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mood {
    Takes,
    Fails,
    Hangs,
    IsGone,
}

/// A collector over HTTP, and the bodies it was sent.
struct Collector {
    url: String,
    bodies: Arc<Mutex<Vec<u8>>>,
}

impl Collector {
    fn start(mood: Mood) -> Self {
        let bodies = Arc::<Mutex<Vec<u8>>>::default();
        let kept = bodies.clone();
        let reply = match mood {
            Mood::Takes => Reply::ok(""),
            Mood::Fails => Reply::new("500 Internal Server Error", ""),
            Mood::Hangs => Reply::silence(),
            Mood::IsGone => {
                // Its port belongs to nobody once this listener is dropped.
                let gone = TcpListener::bind("127.0.0.1:0").unwrap();
                let url = format!("http://{}", gone.local_addr().unwrap());
                return Self { url, bodies };
            }
        };
        let server = Server::start(move |request| {
            kept.lock().unwrap().extend(&request.body);
            reply.clone()
        });
        let url = server.url();
        Self { url, bodies }
    }

    fn has(&self, bytes: &[u8]) -> bool {
        let bodies = self.bodies.lock().unwrap();
        bodies.windows(bytes.len()).any(|window| window == bytes)
    }
}

/// The number after `key=` in a line that holds `message`.
fn logged(log: &str, message: &str, key: &str) -> Option<u64> {
    let line = log.lines().find(|line| line.contains(message))?;
    let words = line.split_whitespace();
    let value = words
        .filter_map(|word| word.strip_prefix(key))
        .next_back()?;
    value.parse().ok()
}

#[test]
fn spans_reach_a_collector_with_names_and_fields_of_reth() {
    let collector = Collector::start(Mood::Takes);
    let world = World::new();
    let flag = format!("--tracing-otlp={}", collector.url);
    let node = world.node(&[&flag, "--tracing-otlp.service-name", "under-test"]);
    node.advance(3);
    let (code, log) = node.terminate();
    assert_eq!(code, Some(0), "{log}");
    assert!(
        logged(&log, "Exported all spans", "exported=").unwrap() > 30,
        "{log}"
    );
    for text in [
        "under-test",
        "engine_newPayloadV4",
        "on_new_payload",
        "block_num",
        "execute_block",
        "await_state_root",
        "sparse_trie_task",
        "chunk_size",
        "account worker",
        "Account V2 multiproof calculation",
        "account_targets",
        "on_forkchoice_updated",
        "on_save_blocks",
    ] {
        assert!(collector.has(text.as_bytes()), "{text}");
    }
    // What carries the spans is no part of them.
    assert!(!collector.has(b"hyper") && !collector.has(b"h2::"));
}

#[test]
fn a_request_that_names_its_span_is_placed_below_it() {
    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    const UNSAMPLED: &str = "1bf7651916cd43dd8448eb211c80319d";
    const SPAN: &str = "b7ad6b7169203331";
    let collector = Collector::start(Mood::Takes);
    let world = World::new();
    let node = world.node(&[&format!("--tracing-otlp={}", collector.url)]);
    let envelope = node.build();
    let params = json!([
        envelope["executionPayload"],
        [],
        ZERO,
        envelope["executionRequests"]
    ]);
    for (trace, flags) in [(TRACE, "01"), (UNSAMPLED, "00")] {
        let span = format!("traceparent: 00-{trace}-{SPAN}-{flags}");
        let headers = [&*node.token(), &span];
        let status = http::call(&node.auth, &headers, "engine_newPayloadV4", &params).unwrap();
        assert_eq!(status["status"], "VALID");
    }
    assert_eq!(node.terminate().0, Some(0));
    let bytes = |tag: &[u8], hex: &str| {
        let digits = hex.as_bytes().chunks(2);
        let id = digits.map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap());
        tag.iter().copied().chain(id).collect::<Vec<u8>>()
    };
    // Fields 1 and 4 of a span: its trace, and its parent.
    assert!(collector.has(&bytes(&[0x0a, 16], TRACE)));
    assert!(collector.has(&bytes(&[0x22, 8], SPAN)));
    assert!(!collector.has(&bytes(&[0x0a, 16], UNSAMPLED)));
}

#[test]
fn a_collector_that_does_not_behave_costs_spans_and_nothing_else() {
    for mood in [Mood::Fails, Mood::Hangs, Mood::IsGone] {
        let collector = Collector::start(mood);
        let world = World::new();
        let node = world.node(&[&format!("--tracing-otlp={}", collector.url)]);
        node.advance(4);
        let (code, log) = node.terminate();
        assert_eq!(code, Some(0), "{mood:?}: {log}");
        assert_eq!(
            logged(&log, "Lost spans", "exported="),
            Some(0),
            "{mood:?}: {log}"
        );
        assert!(
            logged(&log, "Lost spans", "lost=").unwrap() > 30,
            "{mood:?}: {log}"
        );
    }
}

#[test]
fn spans_over_grpc_that_nobody_takes_are_counted_too() {
    let gone = Collector::start(Mood::IsGone);
    let world = World::new();
    let flag = format!("--tracing-otlp={}", gone.url);
    let node = world.node(&[&flag, "--tracing-otlp-protocol", "grpc"]);
    node.advance(2);
    let (code, log) = node.terminate();
    assert_eq!(code, Some(0), "{log}");
    assert!(logged(&log, "Lost spans", "lost=").unwrap() > 20, "{log}");
}

#[test]
fn a_full_queue_drops_spans_and_says_so_while_it_runs() {
    let collector = Collector::start(Mood::Hangs);
    let world = World::new();
    let mut program = program();
    program.env("OTEL_BSP_MAX_QUEUE_SIZE", "16");
    let flag = format!("--tracing-otlp={}", collector.url);
    let node = world.node_of(program, &[&flag, "--metrics", "127.0.0.1:0"]);
    node.advance(4);
    metrics_once(&node, |scrape| {
        scrape.value(metric::SPANS_LOST.name).unwrap() > 16.0
    });
    let (code, log) = node.terminate();
    assert_eq!(code, Some(0), "{log}");
}

#[test]
fn addresses_that_no_collector_can_have_are_refused() {
    let world = World::new();
    for (flags, word) in [
        (&["--tracing-otlp=https://localhost:4318"][..], "http://"),
        (
            &[
                "--tracing-otlp=http://localhost:4317/v1/traces",
                "--tracing-otlp-protocol=grpc",
            ],
            "grpc",
        ),
        (&["--tracing-otlp", "--tracing-otlp.filter=a=b=c"], "a=b=c"),
        (&["--tracing-otlp.sample-ratio=2"], "0.0 to 1.0"),
    ] {
        let arguments: Vec<&str> = ["node"].iter().chain(flags).copied().collect();
        let output = world.run(&arguments);
        let text = stderr(&output);
        assert!(
            !output.status.success() && text.contains(word),
            "{flags:?}: {text}"
        );
    }
}
