//! A real Prometheus beside a sweep, with the configuration that is shipped: what the dashboards draw is
//! there.

use super::support::{TINY, World};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};
use testkit::{Running, Tool, free_port, http::get, require, wait_for};

/// Ports that the shipped configuration names: engine-bench's and bench-reth's.
const SHIPPED: [u16; 2] = [9464, 9001];

/// What need not have happened for a dashboard to be right: no client of another fork calls, and nothing
/// waits for persistence.
const RARE: [&str; 6] = [
    "new_payload_v1_",
    "new_payload_v2_",
    "new_payload_v3_",
    "fork_choice_updated_v1_",
    "fork_choice_updated_v2_",
    "backpressure",
];

fn shipped(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path)
}

fn encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'.' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}

/// Titles of panels with their expressions, from every shipped dashboard; annotations count too.
fn expressions() -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(shipped("grafana/dashboards")).unwrap() {
        let file = fs::read(entry.unwrap().path()).unwrap();
        let board: Value = serde_json::from_slice(&file).unwrap();
        let panels = board["panels"].as_array().unwrap().iter();
        let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap());
        let annotations = board["annotations"]["list"].as_array().unwrap();
        for target in targets.chain(annotations) {
            let expression = target["expr"].as_str().unwrap();
            found.insert(expression.to_owned(), board["title"].to_string());
        }
    }
    found
}

/// Every value that an expression had in the last five minutes, each second.
fn values(prometheus: u16, expression: &str) -> Vec<f64> {
    let now = get(prometheus, "/api/v1/query?query=time()").unwrap();
    let now: Value = serde_json::from_str(&now).unwrap();
    let now = now["data"]["result"][0].as_f64().unwrap();
    let path = format!(
        "/api/v1/query_range?query={}&start={}&end={now}&step=1",
        encoded(expression),
        now - 300.0
    );
    let answer = get(prometheus, &path).unwrap_or_else(|| panic!("{expression} is refused"));
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let series = answer["data"]["result"].as_array().unwrap().iter();
    let points = series.flat_map(|series| series["values"].as_array().unwrap());
    points
        .map(|point| point[1].as_str().unwrap().parse().unwrap())
        .collect()
}

#[test]
fn every_expression_of_every_dashboard_finds_data_in_a_prometheus_that_scrapes_both_programs() {
    let Some(program) = require(Tool::Prometheus) else {
        return;
    };
    let world = World::new();
    let [sweep, node, prometheus] = [free_port(), free_port(), free_port()];
    let mut configuration = fs::read_to_string(shipped("prometheus/prometheus.yml")).unwrap();
    for (shipped, port) in SHIPPED.into_iter().zip([sweep, node]) {
        let target = format!("[\"127.0.0.1:{shipped}\"]");
        assert!(configuration.contains(&target), "{target} is not scraped");
        configuration = configuration.replace(&target, &format!("[\"127.0.0.1:{port}\"]"));
    }
    let file = world.path("prometheus.yml");
    fs::write(&file, configuration).unwrap();
    let _prometheus = Running::start(
        Command::new(program)
            .arg(format!("--config.file={}", file.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                world.path("tsdb").display()
            ))
            .arg(format!("--web.listen-address=127.0.0.1:{prometheus}")),
    );
    wait_for("Prometheus", || get(prometheus, "/-/ready"));

    world.ok(&format!(
        "bench-reth init --profile {TINY} --seed 1 --datadir @dev"
    ));
    let mut by_hand =
        world.command("bench-reth node --datadir @dev --chain @dev/chain.json --with-unused-ports");
    by_hand.arg(format!("--metrics=127.0.0.1:{node}"));
    let _node = Running::start(&mut by_hand);
    world.ok(&format!(
        "sweep --chunks 5,60 --gas 2M --count 7 --rounds 3 --no-aa --warmup none --wait-time 300ms \
         --metrics 127.0.0.1:{sweep} --out @out"
    ));

    for job in ["engine-bench", "bench-reth"] {
        let up = values(prometheus, &format!("up{{job=\"{job}\"}}"));
        assert!(up.contains(&1.0), "{job} was never scraped");
    }
    for (expression, board) in expressions() {
        let found = values(prometheus, &expression);
        assert!(!found.is_empty(), "{board}: {expression} finds nothing");
        let rare = RARE.iter().any(|rare| expression.contains(rare));
        assert!(
            rare || found.iter().any(|value| value.is_finite()),
            "{board}: {expression} is never a number"
        );
    }
    // One address told of the sweep and of its engines.
    let jobs = "bench_multiproof_chunks_count{job=\"engine-bench\",pass=\"measured\",cell=~\".+\"}";
    assert!(values(prometheus, jobs).iter().any(|count| *count > 0.0));
    world.assert_no_engine();
}
