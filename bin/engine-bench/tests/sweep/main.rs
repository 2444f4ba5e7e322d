//! Sweeps of the embedded engine by the real program: what is measured, what is recorded as failed,
//! and what an interrupt leaves.
//!
//! Invariant: no test looks at how long anything took.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod ethrex;
mod files;
mod geth;
mod interleaved;
mod kept;
mod metrics;
mod observe;
mod observed;
mod profiled;
mod reth;
mod support;
mod variables;
mod workload;

use alloy_consensus::TxEnvelope;
use alloy_primitives::B256;
use alloy_rpc_types_engine::{
    CancunPayloadFields, ExecutionPayload, ExecutionPayloadEnvelopeV4, ExecutionPayloadSidecar,
    PraguePayloadFields,
};
use engine_api::PayloadFile;
use serde_json::Value;
use std::{collections::BTreeSet, fs, path::Path};
use support::{World, files, json, parsed, rows, sum};
use testkit::{Signal, send_signal, wait_for};

/// Flags of a sweep that is over in seconds.
const SHORT: &str = "--gas 2M --count 6 --order sequential";
/// The same with pauses between payloads, so that there is time to do something meanwhile.
const SLOW: &str =
    "--gas 2M --count 6 --order sequential --warmup none --wait-time 250ms --chunks 15,60";

/// Looks for the first payload that the engine has executed in a measured pass.
fn first_block(world: &World, visit: &str) -> Option<u32> {
    let log = world.path(&format!("out/visits/{visit}/measured/engine.log"));
    let text = fs::read_to_string(log).unwrap_or_default();
    let added = text.contains("Block added to canonical chain");
    added.then(|| world.engine()).flatten()
}

fn cells(report: &Value) -> &Vec<Value> {
    report["cells"].as_array().unwrap()
}

/// The cells of an engine.
fn of<'a>(report: &'a Value, engine: &str) -> Vec<&'a Value> {
    let all = cells(report).iter();
    all.filter(|cell| cell["axes"]["engine"] == engine)
        .collect()
}

/// The blocks that the cells of a sweep executed in a round, which are the same in every cell.
fn same_blocks(world: &World, report: &Value, round: u64) -> Vec<String> {
    let hashes = cells(report).iter().map(|cell| {
        let samples = world.samples(round, cell).into_iter();
        samples.map(|row| row["block_hash"].clone()).collect()
    });
    let hashes: BTreeSet<Vec<String>> = hashes.collect();
    assert_eq!(hashes.len(), 1, "the same blocks in every cell");
    hashes.into_iter().next().unwrap()
}

/// A throughput of a cell is what its samples say.
fn assert_throughput(cell: &Value, metric: &str, gas: u64, time_ns: u64) {
    let found = cell[format!("{metric}_ggas_per_second")]["value"].as_f64();
    let (found, expected) = (found.unwrap(), gas as f64 / time_ns as f64);
    // Reading a decimal fraction back may change its last bit.
    assert!(
        (found - expected).abs() < 1e-12 * expected,
        "{}: {metric} is {found}, not {expected}",
        cell["id"]
    );
}

/// Recomputes a cell from the raw samples of its one visit and compares all four throughputs; gives
/// the jobs per block.
fn recompute(world: &World, cell: &Value) -> f64 {
    let samples = world.samples(1, cell);
    let sum = |name: &str| sum(&samples, name);
    let (gas, new_payload) = (sum("gas_used"), sum("new_payload_ns"));
    let end_ns = samples.last().unwrap()["end_ns"].parse().unwrap();
    for (metric, time_ns) in [
        ("execution", new_payload + sum("forkchoice_updated_ns")),
        ("new_payload", new_payload),
        ("wall_clock", end_ns),
        ("engine", sum("engine_ns")),
    ] {
        assert_throughput(cell, metric, gas, time_ns);
    }
    assert_eq!(cell["payloads"], samples.len());
    sum("jobs") as f64 / samples.len() as f64
}

#[test]
fn the_chunk_size_acts_and_every_figure_follows_from_the_samples() {
    let world = World::empty();
    world.ok(&format!(
        "sweep --profile small --chunks 5,60,100000 {SHORT} --out @out"
    ));
    let report = world.report("out");
    assert_eq!(report["complete"], true);
    assert_eq!(cells(&report).len(), 3);
    let mut jobs = Vec::new();
    for cell in cells(&report) {
        let counted = recompute(&world, cell);
        let evidence = cell["knob"]["evidence"].as_str().unwrap();
        let figure = evidence.strip_prefix("jobs per block ").unwrap();
        let figure = figure.split(' ').next().unwrap();
        assert_eq!(figure, format!("{counted:.1}"), "{evidence}");
        assert_eq!(cell["knob"]["acted"], true);
        jobs.push(counted);
    }
    assert!(jobs.is_sorted_by(|a, b| a > b), "jobs per block {jobs:?}");

    let files = "plan.json journal.ndjson report.json report.md cells.csv";
    for file in files.split(' ') {
        assert!(world.path("out").join(file).exists(), "{file}");
    }
    for pass in ["warmup", "measured"] {
        let dir = world.path("out/visits/1-chunk5-gas2M").join(pass);
        let files = "samples.csv combined_latency.csv total_gas.csv engine.log";
        for file in files.split(' ') {
            assert!(dir.join(file).exists(), "{pass}/{file}");
        }
        assert_eq!(rows(&dir.join("combined_latency.csv")).len(), 6);
    }
    world.assert_no_engine();
}

#[test]
fn a_second_sweep_uses_what_the_first_one_made() {
    let world = World::new();
    world.ok(&format!("sweep --chunks 15 {SHORT} --out @first"));
    let ended = world.ok("sweep --chunks 15 --gas 2M --count 2 --out @second --json");
    // Two payloads begin the list of six.
    for made in ["making", "generating"] {
        assert!(!ended.stderr.contains(made), "{}", ended.stderr);
    }
    let events = parsed(ended.stdout.lines());
    let (report, events) = events.split_last().unwrap();
    assert_eq!(cells(report)[0]["payloads"], 2);
    let kinds: Vec<_> = events.iter().map(|event| &event["event"]["kind"]).collect();
    let expected = [
        "sweep_started",
        "visit_started",
        "visit_finished",
        "estimates",
        "sweep_finished",
    ];
    assert_eq!(kinds, expected);
    assert_eq!(*report, world.report("second"));
}

#[test]
fn a_report_is_remade_byte_for_byte() {
    let world = World::new();
    world.ok(&format!(
        "sweep --chunks 15,60 {SHORT} --rounds 2 --out @out"
    ));
    let names = ["report.json", "report.md", "cells.csv"];
    let read = || names.map(|name| fs::read(world.path("out").join(name)).unwrap());
    let before = read();
    for name in names {
        fs::remove_file(world.path("out").join(name)).unwrap();
    }
    let table = world.ok("report @out").stdout;
    assert!(table.contains("chunk size"), "{table}");
    assert_eq!(read(), before);
}

/// The hash of the block that a payload file describes.
fn block_hash(envelope: &ExecutionPayloadEnvelopeV4) -> B256 {
    let sidecar = ExecutionPayloadSidecar::v4(
        CancunPayloadFields::new(B256::ZERO, vec![]),
        PraguePayloadFields::new(envelope.execution_requests.clone()),
    );
    let payload = ExecutionPayload::V3(envelope.execution_payload.clone());
    let block = payload.try_into_block_with_sidecar::<TxEnvelope>(&sidecar);
    block.unwrap().header.hash_slow()
}

/// A payload whose state root is not the one that this engine arrives at gives no number, and the engine says so.
fn assert_no_number_for_a_wrong_root(engine: &str, said: &str) {
    let world = World::new();
    world.ok("generate --gas 2M --count 3 --out @payloads");
    forge_state_root(&world.path("payloads/2M/payload_block_3.json"));
    let sweep = format!("sweep --engine {engine} --gas 2M --rounds 1 --payloads @payloads");
    world.refused(&format!("{sweep} --out @out"), &[]);
    let failure = &world.report("out")["failures"][0];
    assert_eq!(failure["step"], "warmup");
    let cause = failure["cause"].as_str().unwrap();
    for part in ["block 3", "INVALID", said] {
        assert!(cause.contains(part), "{part}: {cause}");
    }
    world.assert_no_engine();
}

/// Gives the payload another state root and the hash that its header has then.
fn forge_state_root(path: &Path) {
    let PayloadFile::BigBlock(mut envelope) = PayloadFile::read(path).unwrap() else {
        panic!("{} is no big block", path.display())
    };
    let hash = block_hash(&envelope);
    let header = &mut envelope.execution_payload.payload_inner.payload_inner;
    assert_eq!(hash, header.block_hash);
    header.state_root = B256::repeat_byte(0x42);
    let forged = block_hash(&envelope);
    let header = &mut envelope.execution_payload.payload_inner.payload_inner;
    header.block_hash = forged;
    PayloadFile::BigBlock(envelope).write(path).unwrap();
}

#[test]
fn a_wrong_state_root_is_reported_and_not_measured() {
    let world = World::new();
    world.ok("generate --gas 2M --count 3 --out @payloads");
    forge_state_root(&world.path("payloads/2M/payload_block_3.json"));
    let sweep = "sweep --chunks 15 --gas 2M --payloads @payloads --out @out";
    world.refused(sweep, &["nothing could be measured"]);
    let report = world.report("out");
    let [cell] = cells(&report).as_slice() else {
        panic!("{report}")
    };
    assert_eq!(cell["failed_visits"], 1);
    for metric in ["execution", "new_payload", "wall_clock", "engine"] {
        assert!(cell[format!("{metric}_ggas_per_second")].is_null());
    }
    let failure = &report["failures"][0];
    assert_eq!(failure["step"], "warmup");
    let cause = failure["cause"].as_str().unwrap();
    for part in ["block 3", "INVALID: ", "state root", &"42".repeat(32)] {
        assert!(cause.contains(part), "{cause}");
    }
    assert!(!cause.contains('\n'));
    world.assert_no_engine();
}

#[test]
fn an_engine_that_is_killed_fails_its_cell_alone() {
    let world = World::new();
    let sweep = world.start(&format!("sweep {SLOW} --out @out"));
    let engine = wait_for("the first payload", || {
        first_block(&world, "1-chunk15-gas2M")
    });
    send_signal(engine, Signal::SIGKILL);
    let ended = sweep.end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let report = world.report("out");
    assert_eq!(report["complete"], true);
    let [killed, other] = cells(&report).as_slice() else {
        panic!("{report}")
    };
    assert!(killed["execution_ggas_per_second"].is_null());
    recompute(&world, other);
    let failure = &report["failures"][0];
    assert_eq!(failure["visit"], "1-chunk15-gas2M");
    assert_eq!(failure["step"], "measure");
    let cause = failure["cause"].as_str().unwrap();
    assert!(cause.contains("SIGKILL"), "{cause}");
    let log = failure["log"].as_array().unwrap();
    assert!((1..=5).contains(&log.len()), "{log:?}");
    world.assert_no_engine();
}

#[test]
fn an_interrupted_sweep_is_readable_and_can_be_completed() {
    let world = World::new();
    let sweep = world.start(&format!("sweep {SLOW} --out @out"));
    wait_for("the second visit", || {
        first_block(&world, "1-chunk60-gas2M")
    });
    sweep.signal(Signal::SIGINT);
    let ended = sweep.end();
    assert_eq!(ended.code, Some(130), "{ended:?}");
    assert!(ended.stderr.contains("sweep --resume"), "{}", ended.stderr);
    world.assert_no_engine();
    let partial = world.report("out");
    assert_eq!(partial["complete"], false);
    assert!(partial["cells"][0]["execution_ggas_per_second"]["value"].is_f64());
    assert!(partial["cells"][1]["execution_ggas_per_second"].is_null());

    world.ok("sweep --resume @out");
    let report = world.report("out");
    assert_eq!(report["complete"], true);
    // Whether a knob acted shows beside another cell.
    let measured = |report: &Value| {
        let mut cell = report["cells"][0].clone();
        cell.as_object_mut().unwrap().remove("knob").unwrap();
        cell
    };
    assert_eq!(measured(&report), measured(&partial), "measured once");
    for cell in cells(&report) {
        recompute(&world, cell);
    }
    let plan = json(&world.path("out/plan.json"));
    assert_eq!(plan["settings"], report["configuration"]);
}

#[test]
fn a_datadir_of_the_user_is_copied_unless_it_is_worked_on_in_place() {
    let world = World::new();
    world.ok("init --seed 2 --datadir @datadir");
    let before = files(&world.path("datadir"));
    let sweep = "sweep --datadir @datadir --chunks 15 --gas 2M --count 4";
    world.ok(&format!("{sweep} --out @copied"));
    assert_eq!(cells(&world.report("copied"))[0]["payloads"], 4);
    assert!(files(&world.path("datadir")) == before, "it was changed");

    world.ok(&format!("{sweep} --in-place --out @placed"));
    let changed = files(&world.path("datadir"));
    let database = Path::new("db/mdbx.dat");
    assert!(changed[database] != before[database], "it was not used");
    let base = |out: &str| world.journal(out)[0]["event"]["base"].clone();
    assert_eq!(base("copied"), base("placed"));

    // It now ends at the last payload: a target ahead of it needs payloads that lead there, one behind is unwound to.
    let ahead = format!("{sweep} --target-block 9 --out @ahead");
    world.refused(
        &ahead,
        &[
            "head of the datadir is block 4, and to reach block 9",
            "--lead-in",
        ],
    );
    world.ok(&format!("{sweep} --target-block 0 --out @unwound"));
    assert_eq!(base("unwound"), base("copied"));
}
