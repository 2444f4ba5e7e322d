//! Payloads that were brought: what no visit could replay is refused before anything is made.

use super::Fixture;
use engine_bench::run;
use std::{fs, path::Path};

/// What is said of a sweep of the fixture; nothing when it is feasible.
fn said(fixture: &Fixture, flags: &[&str]) -> String {
    let checked = run::check_feasible(&fixture.plan(flags));
    checked.map_or_else(|error| error.to_string(), |()| String::new())
}

#[test]
fn lists_that_no_visit_could_replay_are_refused() {
    let fixture = Fixture::new("ok");
    fixture.payloads(4, "payloads/11M");
    let one_list = fixture.path("payloads/10M");
    let one_list = one_list.to_str().unwrap();
    let refused: [(&[&str], &[&str]); 7] = [
        (&[], &[]),
        (&["--count", "4"], &[]),
        (
            &["--count", "5"],
            &["holds 4 payloads", "--count asks for 5"],
        ),
        (
            &["--gas", "10M,20M"],
            &["no folder 20M", "one folder per level"],
        ),
        (
            &["--gas", "40M", "--payloads", one_list],
            &["10000000 gas each", "does not fit --gas 40M"],
        ),
        (
            &["--target-block", "5"],
            &[
                "payloads/10M build on block 3",
                "--target-block names block 5",
            ],
        ),
        (
            &["--gas", "10M,11M"],
            &[
                "payloads/11M build on block 4",
                "--target-block names block 3",
            ],
        ),
    ];
    for (flags, parts) in refused {
        let said = said(&fixture, flags);
        assert_eq!(said.is_empty(), parts.is_empty(), "{flags:?}: {said}");
        for part in parts {
            assert!(said.contains(part), "{flags:?}: `{part}` is not in: {said}");
        }
    }
    assert!(!fixture.path("cache").exists(), "nothing is made");
}

#[test]
fn payload_folders_that_cannot_be_used_are_named() {
    type Damage = fn(&Path);
    let damages: [(Damage, &str); 4] = [
        (
            |dir| fs::write(dir.join("payload_block_5.json"), "{\"executionPayload\":").unwrap(),
            "payload_block_5.json",
        ),
        (
            |dir| fs::write(dir.join("other.json"), "{}").unwrap(),
            "does not belong in a payload folder",
        ),
        (
            |dir| fs::remove_file(dir.join("payload_block_5.json")).unwrap(),
            "no payload for block 5",
        ),
        (
            |dir| {
                (4..8).for_each(|n| {
                    fs::remove_file(dir.join(format!("payload_block_{n}.json"))).unwrap()
                })
            },
            "holds no payload_block_<N>.json",
        ),
    ];
    for (damage, expected) in damages {
        let fixture = Fixture::new("ok");
        damage(&fixture.path("payloads/10M"));
        let said = said(&fixture, &[]);
        assert!(said.contains(expected), "{said}");
    }
}
