//! The environment of an engine: made, not inherited, since much of what a shell exports changes what an
//! engine does.
//!
//! Invariant: every program of an engine is started through [`command`], so that nothing that this program
//! was started with reaches it but what [`PASSED`] names.

use super::adapter;
use crate::sweep::{EngineSpec, VARIABLE_PREFIX};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, env, ffi::OsString, path::Path, process::Command};

/// What is passed on: where scripts that start an engine find programs, where engines look for a home and for
/// room beside their datadir, and in which zone their logs tell the time. None holds a secret.
const PASSED: [&str; 4] = ["HOME", "PATH", "TMPDIR", "TZ"];

/// How names of variables begin that change what an engine does: its flags, its log, its spans, its threads,
/// its allocator, its collector of garbage.
const MEANT_FOR_ENGINES: &str = "ETHREX_ GETH_ GLIBC_TUNABLES GODEBUG GOGC GOMAXPROCS GOMEMLIMIT LD_PRELOAD \
    MALLOC_ OTEL_ RAYON_ RETH_ RUST_LOG TOKIO_WORKER_THREADS _RJEM_MALLOC_CONF";

/// Variables by name.
type Values = BTreeMap<String, String>;

/// What the engines of a sweep were started with.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variables {
    /// Passed on from the environment of this program.
    pub passed: Values,
    /// Set for the nodes of each cell, by its id: by this program, by the sweep and by the cell.
    pub set: BTreeMap<String, Values>,
}

impl Variables {
    /// Those of cells: each with its id, its engine and the knobs that this is started with.
    pub fn of<'a>(
        cells: impl Iterator<Item = (&'a str, &'a EngineSpec, Vec<(String, String)>)>,
    ) -> Self {
        let text = |(name, value): (&str, OsString)| (name.into(), value.to_string_lossy().into());
        Self {
            passed: passed().map(text).collect(),
            set: cells
                .map(|(id, engine, knobs)| (id.to_owned(), set(engine, &knobs)))
                .collect(),
        }
    }
}

/// A program of an engine, with nothing in its environment but what is passed on.
pub(crate) fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().envs(passed());
    command
}

/// Variables that a node is started with: those that every node of its kind gets, and those among its knobs.
pub(super) fn set(engine: &EngineSpec, knobs: &[(String, String)]) -> Values {
    let own = adapter::of(engine.kind).variables().iter();
    let own = own.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let named = |(knob, value): &(String, String)| {
        let name = knob.strip_prefix(VARIABLE_PREFIX)?;
        Some((name.to_owned(), value.clone()))
    };
    own.chain(knobs.iter().filter_map(named)).collect()
}

fn passed() -> impl Iterator<Item = (&'static str, OsString)> {
    let exported = |name| Some((name, env::var_os(name)?));
    PASSED.into_iter().filter_map(exported)
}

/// A sentence about variables that this program was started with and that were probably meant for engines,
/// which do not get them; `None` when there are none.
pub fn kept_out() -> Option<String> {
    told_of(env::vars_os().filter_map(|(name, _)| name.into_string().ok()))
}

fn told_of(exported: impl Iterator<Item = String>) -> Option<String> {
    let meant = |name: &String| {
        let mut starts = MEANT_FOR_ENGINES.split_whitespace();
        starts.any(|start| name.starts_with(start))
    };
    let mut names: Vec<String> = exported.filter(meant).collect();
    names.sort();
    let first = names.first()?;
    Some(format!(
        "not passed on to engines: {}; set what is meant for them, as in --set env:{first}=VALUE",
        names.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{engine::tests::engine, sweep::EngineKind};

    #[test]
    fn a_program_gets_what_is_passed_on_and_nothing_else() {
        let mut exported = env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        assert!(
            exported.any(|name| !PASSED.contains(&&*name)),
            "nothing could be inherited"
        );
        let mut env = command(Path::new("/usr/bin/env"));
        let said = env.env("RUST_LOG", "warn").output().unwrap();
        let said = String::from_utf8(said.stdout).unwrap();
        let lines = said.lines();
        let names = lines.filter_map(|line| Some(line.split_once('=')?.0));
        let other: Vec<&str> = names.filter(|name| !PASSED.contains(name)).collect();
        assert_eq!(other, ["RUST_LOG"], "{said}");
        assert!(said.contains("PATH="));
    }

    #[test]
    fn what_a_cell_sets_is_recorded_with_what_every_node_gets() {
        let knobs = ["env:GOGC=50", "x.y=1", "env:RUST_BACKTRACE=0"];
        let knobs = knobs.map(|knob| knob.split_once('=').unwrap());
        let knobs = knobs.map(|(knob, value)| (knob.to_owned(), value.to_owned()));
        let (reth, geth) = (engine(EngineKind::Reth), engine(EngineKind::Geth));
        let cells = [("a", &reth, knobs.to_vec()), ("b", &geth, vec![])];
        let found = Variables::of(cells.into_iter());
        let text = serde_json::to_string(&found.set).unwrap();
        let expected =
            r#"{"a":{"GOGC":"50","RUST_BACKTRACE":"0","RUST_LOG_STYLE":"never"},"b":{}}"#;
        assert_eq!(text, expected);
        assert!(found.passed.keys().all(|name| PASSED.contains(&&**name)));
    }

    #[test]
    fn what_was_meant_for_engines_is_named_without_its_value() {
        let told = |names: &[&str]| told_of(names.iter().map(|name| (*name).to_owned()));
        assert_eq!(told(&["HOME", "EDITOR", "MY_RUST_LOG"]), None);
        let said = told(&["RUST_LOG", "A", "OTEL_SERVICE_NAME"]).unwrap();
        let named = "not passed on to engines: OTEL_SERVICE_NAME, RUST_LOG; set ";
        assert!(said.starts_with(named), "{said}");
    }
}
