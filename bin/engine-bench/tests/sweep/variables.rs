//! What reaches an engine of the environment that a sweep is started in.

use crate::support::World;
use serde_json::Value;
use std::fs;

/// One payload of a pass is enough.
const ONE: &str = "--gas 2M --count 1 --warmup none --chunks 60";

/// Whether the engine of a visit told of its blocks, which it does unless it is to tell of warnings only.
fn tells_of_blocks(world: &World, visit: &str) -> bool {
    let log = world.text(&format!("out/visits/{visit}/measured/engine.log"));
    log.contains("Block added to canonical chain")
}

/// The variables in the manifest of a journal.
fn recorded(world: &World) -> Value {
    let records = world.journal("out").into_iter();
    let mut variables = records.map(|record| record["event"]["manifest"]["variables"].clone());
    variables.find(Value::is_object).unwrap()
}

#[test]
fn an_exported_variable_reaches_no_engine_and_an_axis_does() {
    let world = World::new();
    let axis = "--axis env:RUST_LOG=info,warn";
    let sweep = |more: &str| {
        let mut command = world.command(&format!("sweep {ONE} --out @out {more}"));
        let ended = command.env("RUST_LOG", "warn").output().unwrap();
        assert!(ended.status.success(), "{ended:?}");
        String::from_utf8(ended.stderr).unwrap()
    };
    let said = sweep("");
    assert!(tells_of_blocks(&world, "1-chunk60-gas2M"));
    assert!(
        said.contains("note: not passed on to engines: RUST_LOG;"),
        "{said}"
    );

    fs::remove_dir_all(world.path("out")).unwrap();
    sweep(axis);
    let recorded = recorded(&world);
    let cells = recorded["set"].as_object().unwrap();
    assert_eq!(cells.len(), 2);
    for (cell, set) in cells {
        let told = tells_of_blocks(&world, &format!("1-{cell}"));
        assert_eq!(told, set["RUST_LOG"] == "info", "{cell}");
    }
    assert!(recorded["passed"]["PATH"].is_string() && recorded["passed"]["RUST_LOG"].is_null());
}
