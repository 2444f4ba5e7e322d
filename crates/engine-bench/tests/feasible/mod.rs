//! Payloads that were brought: what no visit could replay is refused before anything is made.

use super::Fixture;
use engine_bench::run;

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
        let checked = run::check_feasible(&fixture.plan(flags));
        let said = checked.map_or_else(|error| error.to_string(), |()| String::new());
        assert_eq!(said.is_empty(), parts.is_empty(), "{flags:?}: {said}");
        for part in parts {
            assert!(said.contains(part), "{flags:?}: `{part}` is not in: {said}");
        }
    }
    assert!(!fixture.path("cache").exists(), "nothing is made");
}
