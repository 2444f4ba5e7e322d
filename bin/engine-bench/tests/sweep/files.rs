//! Sweeps from files by the real program, and what the flags of designs make of them.

use crate::{cells, support::World};
use serde_json::{Value, json};
use std::{collections::BTreeSet, fs};

/// A sweep that is over in seconds.
const FILE: &str = "\
question = \"Does a file work?\"
chunks = [15, 60]
gas = \"2M\"
count = 3
rounds = 1
profile = \"large:2000:10000\"
order = \"sequential\"

[axis]
\"engine.storage-worker-count\" = [1, 2]

[[exclude]]
\"engine.storage-worker-count\" = 2
\"engine.multiproof-chunk-size\" = 60
";

/// What every cell of the report says of an axis.
fn of_axis<'a>(report: &'a Value, axis: &str) -> Vec<&'a Value> {
    cells(report)
        .iter()
        .map(|cell| &cell["axes"][axis])
        .collect()
}

#[test]
fn a_file_is_measured_and_what_is_typed_goes_before_it() {
    let world = World::new();
    fs::write(world.path("sweep.toml"), FILE).unwrap();
    let ended = world.ok("sweep @sweep.toml --count 2 --seed 5 --dry-run");
    let told: Vec<&str> = ended.stdout.split_whitespace().collect();
    let told = told.join(" ");
    for line in [
        "Does a file work?",
        "count 2 flag",
        "seed 5 flag",
        "gas 2M file",
        "warmup full default",
        "cells: chunk15-storage-worker-count_1-gas2M, ",
        "3 cells, 3 visits",
    ] {
        assert!(told.contains(line), "`{line}` is not in {told}");
    }
    let ended = world.ok(
        "sweep @sweep.toml --count 2 --set engine.account-worker-count=2 --warmup none --out @out",
    );
    assert!(
        ended.stderr.contains("Does a file work?"),
        "{}",
        ended.stderr
    );
    let report = world.report("out");
    assert_eq!(report["failures"], json!([]));
    assert_eq!(
        of_axis(&report, "engine.multiproof-chunk-size"),
        [15, 15, 60]
    );
    assert_eq!(of_axis(&report, "engine.storage-worker-count"), [1, 2, 1]);
    assert!(cells(&report).iter().all(|cell| cell["payloads"] == 2));
    let set = &report["configuration"]["set"];
    assert_eq!(
        set,
        &json!([{"flag": "engine.account-worker-count", "value": "2"}])
    );
}

#[test]
fn several_mixes_are_measured_and_never_compared() {
    let world = World::new();
    world.ok(
        "sweep --mix mainnet,whale --chunks 5,60 --gas 2M --count 2 \
         --rounds 1 --warmup none --out @out",
    );
    let report = world.report("out");
    assert_eq!(report["failures"], json!([]));
    let mixes: BTreeSet<_> = of_axis(&report, "mix")
        .iter()
        .map(|mix| mix.as_str())
        .collect();
    assert_eq!(mixes, BTreeSet::from([Some("mainnet"), Some("whale")]));
    let hash = |cell| world.samples(1, cell)[0]["block_hash"].clone();
    let hashes: BTreeSet<String> = cells(&report).iter().map(hash).collect();
    assert_eq!(hashes.len(), 2, "payloads of their own");
    let levels = report["levels"].as_array().unwrap();
    let named: Vec<_> = levels
        .iter()
        .map(|level| (&level["gas"], &level["mix"]))
        .collect();
    let gas = json!(2_000_000);
    assert_eq!(named, [(&gas, &json!("mainnet")), (&gas, &json!("whale"))]);
    for pair in report["comparisons"].as_array().unwrap() {
        let mix = |side: &str| pair[side].as_str().unwrap().split('-').next();
        assert_eq!(mix("a"), mix("b"), "{pair}");
    }
}

/// Sweep files with `\n` for ends of lines, flags beside them, and what is said of both; `@large` stands for
/// axes of many values.
const REFUSED: &str = r#"
    chunk = [5, 15] => => `chunk` | did you mean `chunks`?
    chunks = [5, 0] => => sweep.toml | --chunks | chunk size
    chunks = => => not TOML | line 1
    budget = "5m" => --rounds 3 => contradict | --budget | --rounds
    mix = "whale" => --payloads @payloads => contradict | --mix | --payloads
    [axis]\n"engine.a" = [1] => => single value | --set engine.a=1
    [set]\n"engine.a" = 1 => --set http.port=1 => --http.port
    [[exclude]]\n"engine.a" = 1 => => --exclude engine.a=1 | not a value
    [base]\n"engine.a" = 1 => --design one-at-a-time => --base engine.a=1
    [base]\n"engine.a" = 1 => => --design one-at-a-time
    gas = ["10M", "40M"] => @large => 217800 cells | days | --yes
    chunks = [5, 15]\n[axis]\n"engine.nonsense" = [1, 2] => => bench-reth refuses --engine.nonsense=1 | unexpected | node --help
    [axis]\n"engine.multiproof-chunk-size" = [5, 0] => => refuses --engine.multiproof-chunk-size=0 | at least 1
    [set]\n"bench.chunk-policy" = "always-ish" => => refuses --bench.chunk-policy=always-ish | range-steal
    gas = "900G" => => --gas 900G | at most 1G
    => --payloads @payloads => payloads holds no payload_block_<N>.json
    budget = "20" => => --budget | write 20m
    => --ready-timeout 90 => write 90s for 90 seconds
    rounds = 0 => => --rounds | 0
    => --profiler samply => samply | install it
    => --out @sweep.toml => sweep.toml | --out another folder
    => --out @payloads => is not empty | --resume
"#;

#[test]
fn what_cannot_be_a_sweep_is_refused_before_anything_is_made() {
    let world = World::new();
    let many: Vec<_> = (1..=330).map(|n| n.to_string()).collect();
    let many = many.join(",");
    let large = format!("--axis engine.a={many} --axis engine.b={many}");
    for line in REFUSED.trim().lines() {
        let [file, flags, parts] = line.split("=>").collect::<Vec<_>>().try_into().unwrap();
        let flags = flags.replace("@large", &large);
        fs::write(world.path("sweep.toml"), file.trim().replace("\\n", "\n")).unwrap();
        fs::create_dir_all(world.path("payloads/empty")).unwrap();
        let has_out = flags.contains("--out");
        let out = if has_out { "" } else { "--out @out" };
        for dry_run in ["", "--dry-run"] {
            let mut command = world.command(&format!("sweep @sweep.toml {flags} {out} {dry_run}"));
            let ended = command.env("PATH", world.path("nothing")).output().unwrap();
            let said = String::from_utf8(ended.stderr).unwrap();
            assert_eq!(ended.status.code(), Some(2), "{line}: {said}");
            for part in parts.trim().split(" | ") {
                assert!(said.contains(part), "{line}: {part}: {said}");
            }
            assert!(!world.path("out").exists(), "{line}: something was made");
        }
    }
}
