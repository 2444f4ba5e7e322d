//! What a sweep says about reasons: the attribution of its cells, and traces of their blocks.

use super::{cells, support::World};
use serde_json::Value;
use std::fs;

/// A URL of a collector that does not run: nothing listens on the port of discarded data.
const GONE: &str = "http://127.0.0.1:9";

fn parent_of<'a>(events: &'a [Value], event: &Value) -> Option<&'a str> {
    let parent = &event["args"]["parent_id"];
    let found = events
        .iter()
        .find(|other| other["args"]["span_id"] == *parent && parent.is_string());
    found?["name"].as_str()
}

#[test]
fn phases_add_up_agree_with_the_log_and_a_traced_block_holds_client_and_engine() {
    let world = World::new();
    world.ok(&format!(
        "sweep --chunks 5,100000 --gas 2M --count 6 --order sequential --trace worst:1 \
         --trace-to {GONE} --out @out"
    ));
    let report = world.report("out");
    for cell in cells(&report) {
        let found = &cell["attribution"];
        assert_eq!(found["source"], "metrics", "{found:#}");
        let phases = found["phases"].as_array().unwrap();
        let sum: f64 = phases
            .iter()
            .map(|phase| phase["ms_per_block"].as_f64().unwrap())
            .sum();
        let id = cell["id"].as_str().unwrap();
        let rows = super::rows(&world.path(&format!("out/visits/1-{id}/measured/samples.csv")));
        let client: f64 = rows
            .iter()
            .flat_map(|row| [&row["new_payload_ns"], &row["forkchoice_updated_ns"]])
            .map(|ns| ns.parse::<f64>().unwrap() / 1e6)
            .sum();
        assert!(
            (sum - client / rows.len() as f64).abs() < 1e-6,
            "{sum} {client}"
        );
        assert!(
            found["log_difference"].as_f64().unwrap() < 0.05,
            "{found:#}"
        );
        let jobs: f64 = rows
            .iter()
            .map(|row| row["jobs"].parse::<f64>().unwrap())
            .sum();
        let counts = found["counts"].as_array().unwrap();
        let counted = counts.iter().find(|count| count["key"] == "jobs").unwrap();
        let counted = counted["per_block"].as_f64().unwrap();
        assert!(
            (counted - jobs / rows.len() as f64).abs() < 1e-9,
            "{counted} {jobs}"
        );
    }
    let change = &report["attribution"][0];
    assert!(
        change["text"].as_str().unwrap().contains("jobs per block"),
        "{change:#}"
    );

    let traces = report["traces"].as_array().unwrap();
    assert_eq!(traces.len(), 2);
    for traced in traces {
        // The collector is gone, which costs links and nothing else.
        assert!(
            traced["problem"].as_str().unwrap().contains(GONE),
            "{traced:#}"
        );
        let block = &traced["blocks"][0];
        assert!(block["link"].is_null());
        assert_eq!(traced["lost_spans"], 0);
        let file = world.path("out").join(block["file"].as_str().unwrap());
        let trace: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
        let events = trace["traceEvents"].as_array().unwrap();
        for (name, parent) in [
            ("newPayload", Some("payload")),
            ("engine_newPayloadV4", Some("newPayload")),
            ("on_new_payload", Some("engine_newPayloadV4")),
            ("validate_block_with_state", Some("on_new_payload")),
            ("await_state_root", Some("validate_block_with_state")),
            ("Account V2 multiproof calculation", Some("account worker")),
            ("on_forkchoice_updated", Some("engine_forkchoiceUpdatedV3")),
        ] {
            let event = events.iter().find(|event| event["name"] == name);
            let event = event.unwrap_or_else(|| panic!("no {name}"));
            assert_eq!(parent_of(events, event), parent, "{name}");
        }
        let number = block["block"].to_string();
        let engine = events
            .iter()
            .find(|event| event["name"] == "on_new_payload")
            .unwrap();
        assert_eq!(engine["args"]["block_num"], number);
    }
    for file in ["report.md", "report.html"] {
        let text = fs::read_to_string(world.path("out").join(file)).unwrap();
        assert!(text.contains("traces/chunk5-gas2M/"), "{file}");
    }
    world.assert_no_engine();
}
