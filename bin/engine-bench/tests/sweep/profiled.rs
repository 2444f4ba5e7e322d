//! Sweeps under a profiler that is there.

use super::support::World;
use std::fs;
use testkit::{Tool, require};

const SWEEP: &str = "sweep --chunks 5 --gas 2M --count 4 --warmup none --out @out";

/// perf may be refused what it needs, as in most containers: that is told then.
#[test]
fn perf_leaves_a_file_for_every_cell_or_says_why_not() {
    if require(Tool::Perf).is_none() {
        // It is refused before anything is measured.
        return;
    }
    let world = World::new();
    world.ok(&format!("{SWEEP} --profiler perf"));
    let report = world.report("out");
    let [profile] = report["profiles"].as_array().unwrap().as_slice() else {
        panic!("{:#}", report["profiles"]);
    };
    assert_eq!(profile["cell"], "chunk5-gas2M");
    let markdown = fs::read_to_string(world.path("out/report.md")).unwrap();
    match profile["file"].as_str() {
        Some(file) => {
            let recorded = fs::read(world.path("out").join(file)).unwrap();
            assert!(
                recorded.starts_with(b"PERFILE2"),
                "{file} is no file of perf"
            );
            assert!(markdown.contains(&format!("perf report --no-children -i {file}")));
        }
        None => {
            let problem = profile["problem"].as_str().unwrap();
            assert!(
                problem.starts_with("profile: ") && markdown.contains(problem),
                "{problem}"
            );
        }
    }
    world.assert_no_engine();
}
