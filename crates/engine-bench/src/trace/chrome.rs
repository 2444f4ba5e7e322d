//! A trace as a file that Perfetto and Chrome open without any server.
//!
//! Source: "Trace Event Format". A process is a process there, a thread a thread; what has none, as
//! the client's spans, gets a track of its own.

use super::span::Span;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// What spans that name no thread are shown as.
const NO_THREAD: &str = "requests";

/// The spans as JSON, in microseconds since the first begins.
pub fn chrome_trace(spans: &[Span]) -> Value {
    let began = spans.iter().map(|span| span.start_ns).min().unwrap_or(0);
    // Processes and their threads by name, each with the number it has there.
    let mut processes: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
    for span in spans {
        let threads = processes.entry(&span.service).or_default();
        let next = threads.len() + 1;
        threads.entry(thread(span)).or_insert(next);
    }
    let mut events = Vec::new();
    for (pid, (process, threads)) in processes.iter().enumerate() {
        events.push(name("process_name", pid + 1, 0, process));
        let threads = threads.iter();
        events.extend(threads.map(|(thread, tid)| name("thread_name", pid + 1, *tid, thread)));
    }
    let micros = |ns: u64| ns as f64 / 1e3;
    for span in spans {
        let pid = processes.keys().position(|name| *name == span.service);
        let parent = span
            .parent
            .map(|parent| ("parent_id".to_owned(), parent.to_string()));
        let id = ("span_id".to_owned(), span.id.to_string());
        let fields = span.fields.iter().cloned().chain([id]).chain(parent);
        let fields: BTreeMap<String, String> = fields.collect();
        events.push(json!({
            "ph": "X",
            "name": span.name,
            "cat": span.service,
            "pid": pid.unwrap_or(0) + 1,
            "tid": processes[span.service.as_str()][thread(span)],
            "ts": micros(span.start_ns.saturating_sub(began)),
            "dur": micros(span.end_ns.saturating_sub(span.start_ns)),
            "args": fields,
        }));
    }
    let trace = spans.first().map(|span| span.trace.to_string());
    json!({
        "displayTimeUnit": "ms",
        "otherData": {"trace_id": trace},
        "traceEvents": events,
    })
}

fn thread(span: &Span) -> &str {
    span.field("thread.name").unwrap_or(NO_THREAD)
}

fn name(what: &str, pid: usize, tid: usize, name: &str) -> Value {
    json!({"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}})
}

#[cfg(test)]
mod tests {
    use super::{super::span::tests::span, *};

    #[test]
    fn threads_are_tracks_and_times_begin_at_zero() {
        let mut client = span("client", 1_000_000, 9_000_000);
        client.service = "client".into();
        client.fields.clear();
        let spans = [client, span("a", 2_000_000, 4_500_000)];
        let trace = chrome_trace(&spans);
        let events = trace["traceEvents"].as_array().unwrap();
        let found = |name: &str| {
            let event = events.iter().find(|event| event["name"] == name).unwrap();
            (
                event["pid"].clone(),
                event["ts"].clone(),
                event["dur"].clone(),
            )
        };
        assert_eq!(found("client"), (json!(1), json!(0.0), json!(8000.0)));
        assert_eq!(found("a"), (json!(2), json!(1000.0), json!(2500.0)));
        let names = events.iter().filter(|event| event["ph"] == "M");
        let names: Vec<_> = names
            .map(|event| event["args"]["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["client", "requests", "s", "engine"]);
    }

    #[test]
    fn no_spans_are_an_empty_trace() {
        assert_eq!(chrome_trace(&[])["traceEvents"], json!([]));
    }
}
