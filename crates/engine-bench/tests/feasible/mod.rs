//! Payloads that were brought: what no visit could replay is refused before anything is made.

use super::{Fixture, assert_says};
use engine_bench::run;
use std::{fs, io, path::Path};

/// What is said of a sweep of the fixture.
fn said(fixture: &Fixture, flags: &str) -> String {
    let checked = run::check_feasible(&fixture.plan(flags));
    checked.map_or_else(|error| error.to_string(), |()| "feasible".to_owned())
}

/// Flags, and what is said of them; `DIR` is the folder of the fixture.
const SAID: &str = "
    => feasible
    --count 4 => feasible
    --chunks 15,60 => feasible
    --axis engine.disable-trie-cache=on,off => scripted refuses --engine.disable-trie-cache: unexpected argument | below 2.0.0 has it | node --help
    --count 5 => holds 4 payloads | --count asks for 5
    --gas 10M,20M => no folder 20M | one folder per level
    --gas 40M --payloads DIR/payloads/10M => 10000000 gas each | does not fit --gas 40M
    --target-block 9 => payloads/10M build on block 3 | --target-block names block 9
    --gas 10M,11M => payloads/11M build on block 4 | --target-block names block 3";

#[test]
fn lists_that_no_visit_could_replay_are_refused() {
    let fixture = Fixture::new("ok");
    fixture.payloads(4, "payloads/11M");
    let dir = fixture.path("").display().to_string();
    for line in SAID.replace("DIR/", &dir).lines().skip(1) {
        let (flags, parts) = line.split_once("=> ").unwrap();
        assert_says(&said(&fixture, flags), parts, flags);
    }
    assert!(!fixture.path("cache").exists(), "nothing is made");
}

#[test]
fn payload_folders_that_cannot_be_used_are_named() {
    type Damage = fn(&Path) -> io::Result<()>;
    let damages: [(Damage, &str); 4] = [
        (
            |dir| fs::write(dir.join("payload_block_5.json"), "{\"executionPayload\":"),
            "payload_block_5.json",
        ),
        (
            |dir| fs::write(dir.join("other.json"), "{}"),
            "does not belong in a payload folder",
        ),
        (
            |dir| fs::remove_file(dir.join("payload_block_5.json")),
            "no payload for block 5",
        ),
        (
            |dir| fs::remove_dir_all(dir).and_then(|()| fs::create_dir(dir)),
            "holds no payload_block_<N>.json",
        ),
    ];
    for (damage, expected) in damages {
        let fixture = Fixture::new("ok");
        damage(&fixture.path("payloads/10M")).unwrap();
        assert_says(&said(&fixture, ""), expected, "");
    }
}
