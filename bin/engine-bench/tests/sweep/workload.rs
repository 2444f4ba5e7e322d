//! States and payloads made by the real program, a replay of them on a node that runs by itself,
//! and inputs that cannot be used.

use crate::support::{World, files, json, parsed, rows};
use std::fs;
use testkit::{Ended, Pipe, Running};

/// A node on a datadir.
struct Node {
    process: Running,
    auth_url: String,
}

impl Node {
    fn start(world: &World, datadir: &str) -> Self {
        let line = format!(
            "node --datadir @{datadir} --chain @{datadir}/chain.json --with-unused-ports --http --color never"
        );
        let process = world.start(&line);
        let log = process.lines_until(Pipe::Out, "Starting consensus engine");
        let started = |line: &&String| line.contains("RPC auth server started");
        let line = log.iter().find(started).unwrap();
        let auth_url = line.rsplit_once("url=").unwrap().1.to_owned();
        Self { process, auth_url }
    }
}

#[test]
fn payloads_are_the_same_however_they_come_about() {
    let world = World::new();
    // A seed of its own, so that no other test has made the list already.
    let generate = "generate --gas 2M --seed 3";
    world.ok(&format!("{generate} --count 2 --out @two"));
    world.ok(&format!("{generate} --count 3 --out @three"));
    assert!(files(&world.path("two")) != files(&world.path("three")));

    fs::remove_dir_all(world.cache("payloads")).unwrap();
    world.ok(&format!("{generate} --count 3 --out @again"));
    assert!(files(&world.path("three")) == files(&world.path("again")));
    // The beginning of the longer list.
    let ended = world.ok(&format!("{generate} --count 2 --out @begun"));
    assert!(!ended.stderr.contains("generating"), "{}", ended.stderr);
    assert!(files(&world.path("two")) == files(&world.path("begun")));
}

#[test]
fn payloads_are_replayed_on_a_node_that_somebody_started() {
    let world = World::new();
    world.ok("init --datadir @datadir");
    world.ok("generate --gas 2M --count 3 --out @payloads");
    let node = Node::start(&world, "datadir");
    let replay = format!(
        "replay --payloads @payloads/2M --engine-url http://{} --jwt-secret",
        node.auth_url
    );
    fs::write(world.path("short.hex"), "00ff").unwrap();
    world.refused(&format!("{replay} @short.hex"), &["short.hex", "32 bytes"]);

    let ended = world.ok(&format!("{replay} @datadir/jwt.hex --out @out"));
    assert!(ended.stdout.contains("execution_ggas_per_second"));
    let manifest = json(&world.path("payloads/2M/manifest.json"));
    let samples = rows(&world.path("out/samples.csv"));
    let replayed: Vec<&str> = samples.iter().map(|row| &*row["block_hash"]).collect();
    let listed = manifest["blocks"].as_array().unwrap();
    let listed: Vec<&str> = listed.iter().map(|b| b["hash"].as_str().unwrap()).collect();
    assert_eq!(replayed, listed);
    for file in ["combined_latency.csv", "total_gas.csv"] {
        assert_eq!(rows(&world.path("out").join(file)).len(), 3, "{file}");
    }
}

/// The genesis hash that a command of the engine logs.
fn genesis_hash(log: &str) -> &str {
    let mut lines = log.lines();
    let line = lines.find(|line| line.contains("INFO Genesis block hash="));
    line.unwrap().rsplit_once("hash=").unwrap().1.trim()
}

#[test]
fn every_form_of_a_state_has_the_same_root_and_genesis_hash() {
    let world = World::new();
    world.ok("init --profile small --datadir @made --export-genesis @genesis.json --export-dump @dump.jsonl");
    let genesis = world.ok("bench-reth init --chain @genesis.json --datadir @genesis");
    let dump = world.ok("init-state --chain @made/chain.json --datadir @dump @dump.jsonl");
    let root = |datadir: &str| json(&world.path(datadir).join("chain.json"))["stateRoot"].clone();
    assert_eq!(root("genesis"), root("made"));
    assert_eq!(root("dump"), root("made"));
    assert!(root("made").as_str().unwrap().starts_with("0x"));
    let all = |ended: Ended| ended.stdout + &ended.stderr;
    let (genesis, dump) = (all(genesis), all(dump));
    assert_eq!(genesis_hash(&genesis), genesis_hash(&dump));

    let first = parsed(world.text("dump.jsonl").lines().take(1));
    assert_eq!(first[0]["root"], root("made"));
}

#[test]
fn a_datadir_in_use_is_left_alone() {
    let world = World::new();
    world.ok("init --datadir @datadir");
    let node = Node::start(&world, "datadir");
    let owner = format!("in use by process {}", node.process.id());
    let sweep = "sweep --datadir @datadir --chunks 15 --gas 2M --count 2";
    for flags in ["--out @copy", "--in-place --out @here"] {
        world.refused(&format!("{sweep} {flags}"), &[&owner]);
        world.assert_no_engine();
    }
}

#[test]
fn a_datadir_of_another_chain_than_the_payloads_is_refused() {
    let world = World::new();
    world.ok("generate --gas 2M --count 3 --out @payloads");
    world.ok("init --seed 2 --datadir @other");
    world.refused(
        "sweep --datadir @other --payloads @payloads --gas 2M --chunks 15 --out @out",
        &["payloads", "of another chain or branch"],
    );
    world.assert_no_engine();
}

#[test]
fn payloads_are_generated_only_on_a_state_that_says_what_it_is() {
    let world = World::new();
    world.ok("init --datadir @datadir");
    let note = world.path("datadir/base-state.json");
    let text = fs::read_to_string(&note).unwrap();
    let root = json(&note)["state_root"].as_str().unwrap().to_owned();
    let sweep = "sweep --datadir @datadir --chunks 15 --gas 2M --count 2 --seed 77";

    let forged = text.replace(&root, &format!("0x{}", "42".repeat(32)));
    fs::write(&note, forged).unwrap();
    let parts = ["cannot be generated", &root, "--payloads"];
    world.refused(&format!("{sweep} --out @forged"), &parts);
    world.assert_no_engine();
    fs::remove_file(&note).unwrap();
    let parts = ["cannot be generated", "base-state.json", "--payloads"];
    world.refused(&format!("{sweep} --out @unknown"), &parts);
    world.assert_no_engine();
}

#[test]
fn a_results_folder_is_not_overwritten() {
    let world = World::new();
    fs::create_dir(world.path("out")).unwrap();
    fs::write(world.path("out/plan.json"), "{}").unwrap();
    let sweep = "sweep --chunks 15 --gas 2M --count 2 --out @out";
    world.refused(sweep, &["is not empty", "--resume"]);
    world.assert_no_engine();
    assert_eq!(world.text("out/plan.json"), "{}");
}
