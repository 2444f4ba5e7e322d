//! The sweep files that come with the program: each can be planned as it is, says what it asks, and is
//! described by the schema beside it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use clap::Parser as _;
use engine_bench::{
    cli::{Cli, Verb},
    plan::Plan,
    resolve,
};
use serde_json::Value;
use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sweeps")
}

/// The file beside them that names engines.
const ENGINES: &str = "engines.toml";

/// Every sweep file, by name.
fn files() -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(folder()).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let paths = paths.filter(|path| path.extension().is_some_and(|ending| ending == "toml"));
    let paths = paths.filter(|path| !path.ends_with(ENGINES));
    let name = |path: &PathBuf| path.file_stem().unwrap().to_string_lossy().into_owned();
    let mut files: Vec<_> = paths.map(|path| (name(&path), path)).collect();
    files.sort();
    files
}

/// The plan of a file, and its question. Engines that a machine need not have are replaced.
fn plan(path: &Path) -> (Plan, String) {
    let mut words: Vec<OsString> = vec!["engine-bench".into(), "sweep".into(), path.into()];
    if fs::read_to_string(path).unwrap().contains("\"geth\"") {
        words.extend(["--engine=bench-reth", "--engine=geth=bench-reth"].map(OsString::from));
    }
    let Verb::Sweep(args) = Cli::try_parse_from(&words).unwrap().verb else {
        panic!("not a sweep")
    };
    let (args, _, question) = resolve::merge(*args, &words).unwrap();
    let settings = resolve::resolve(&args).unwrap();
    (Plan::asked(settings, false).unwrap(), question.unwrap())
}

#[test]
fn every_file_can_be_planned_and_opens_with_its_question() {
    let mut lines = Vec::new();
    for (name, path) in files() {
        let (plan, question) = plan(&path);
        let text = fs::read_to_string(&path).unwrap();
        let mut opening = text.lines();
        assert_eq!(opening.next(), Some("#:schema schema.json"), "{name}");
        assert!(opening.next().unwrap().contains('?'), "{name}: no question");
        let cells: Vec<&str> = plan.cells.iter().map(|cell| cell.id.as_str()).collect();
        let (first, last) = (cells[0], cells[cells.len() - 1]);
        lines.push(format!(
            "{name}: {question}\n    {} cells, {first} to {last}; {} visits",
            cells.len(),
            plan.visits.len()
        ));
    }
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn the_study_is_repeated_on_its_own_grid() {
    let (plan, _) = plan(&folder().join("chunk-size.toml"));
    let ids = |gas: u64| -> Vec<String> {
        let of_level = plan.cells.iter().filter(|cell| cell.gas.0 == gas);
        of_level.map(|cell| cell.flags[0].1.clone()).collect()
    };
    for gas in [10_000_000, 20_000_000, 30_000_000, 40_000_000] {
        let grid = "15 30 60 75 100 120 160 240";
        assert_eq!(ids(gas).join(" "), grid);
    }
}

#[test]
fn engines_have_names_with_their_flags() {
    let file = folder().join(ENGINES);
    let words = "engine-bench sweep --rounds 1 --engine as-reth-1 --engine as-reth-2 --engines";
    let words = words.split(' ').map(OsString::from).chain([file.into()]);
    let Verb::Sweep(args) = Cli::try_parse_from(words).unwrap().verb else {
        panic!()
    };
    let settings = resolve::resolve(&args).unwrap();
    let policies = settings.engines.iter().map(|engine| &*engine.set[0].value);
    assert_eq!(policies.collect::<Vec<_>>(), ["reth-1.11", "reth-2.5"]);
}

#[test]
fn the_schema_is_the_one_of_the_flags() {
    let text = fs::read_to_string(folder().join("schema.json")).unwrap();
    let kept: Value = serde_json::from_str(&text).unwrap();
    assert!(
        kept == resolve::schema(),
        "sweeps/schema.json is stale: run `cargo xtask gen schema`"
    );
}

#[test]
fn every_key_of_every_file_is_in_the_schema() {
    let schema = resolve::schema();
    let known = schema["properties"].as_object().unwrap();
    assert_eq!(schema["additionalProperties"], false);
    for (name, path) in files() {
        let text = fs::read_to_string(path).unwrap();
        let keys = text.lines().filter(|line| !line.starts_with(['#', '"']));
        for line in keys.filter(|line| !line.is_empty()) {
            let key = line.trim_matches(['[', ']']).split(" =").next().unwrap();
            assert!(known.contains_key(key), "{name}: {key}");
        }
    }
}
