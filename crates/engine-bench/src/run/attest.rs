//! What a datadir holds after a reset: sizes, and what the engine counts in it.
//!
//! Invariant: only read; an engine that cannot tell leaves a gap, not a failure.

use crate::{
    engine,
    record::{DatabaseFacts, StateFacts},
    reset::{self, Workspace},
};
use serde::Deserialize;
use std::{collections::BTreeMap, fs, path::Path, time::Duration};

/// What the engine printed about its database.
const STATE_FILE: &str = "state.json";

/// How long an engine may count; a database that takes longer is left uncounted.
const PATIENCE: Duration = Duration::from_secs(10);

/// Looks at the datadir of an engine that is stopped. What the engine prints is kept in `dir`.
pub(super) async fn state_of(workspace: &Workspace, dir: &Path) -> StateFacts {
    StateFacts {
        datadir_bytes: reset::file_bytes(&workspace.datadir),
        database: database(workspace, dir).await,
    }
}

async fn database(workspace: &Workspace, dir: &Path) -> Option<DatabaseFacts> {
    let spec = &workspace.engine;
    let command = engine::adapter_of(spec.kind).stats(spec, &workspace.datadir)?;
    let log = dir.join(STATE_FILE);
    let counted = engine::run_tool(command, &log, &workspace.pid_file);
    // An engine of another version may not know the command.
    tokio::time::timeout(PATIENCE, counted).await.ok()?.ok()?;
    parse(&fs::read_to_string(log).ok()?)
}

/// `bench-reth-stats`, as far as it is of interest here.
#[derive(Deserialize)]
struct Stats {
    format: String,
    version: u64,
    page_bytes: u64,
    file_bytes: u64,
    used_pages: u64,
    free_pages: u64,
    tables: BTreeMap<String, Table>,
}

#[derive(Deserialize)]
struct Table {
    entries: u64,
}

/// The line of JSON among what was printed.
fn parse(printed: &str) -> Option<DatabaseFacts> {
    let of_line = |line| serde_json::from_str::<Stats>(line).ok();
    let stats = printed.lines().find_map(of_line)?;
    if (stats.format.as_str(), stats.version) != ("bench-reth-stats", 1) {
        return None;
    }
    let entries = stats.tables.into_iter();
    Some(DatabaseFacts {
        file_bytes: stats.file_bytes,
        page_bytes: stats.page_bytes,
        used_pages: stats.used_pages,
        free_pages: stats.free_pages,
        entries: entries.map(|(name, table)| (name, table.entries)).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_found_among_other_lines() {
        let line = "{\"format\":\"bench-reth-stats\",\"version\":1,\"page_bytes\":4096,\
                    \"file_bytes\":65536,\"used_pages\":9,\"free_pages\":2,\"tables\":{\"Headers\":\
                    {\"entries\":7,\"leaf_pages\":1},\"Bytecodes\":{\"entries\":0}}}";
        let facts = parse(&format!("WARN something\n{line}\n")).unwrap();
        assert_eq!(
            (facts.file_bytes, facts.used_pages, facts.free_pages),
            (65536, 9, 2)
        );
        assert_eq!(
            (facts.entries["Headers"], facts.entries["Bytecodes"]),
            (7, 0)
        );
        assert_eq!(parse(&line.replace("\"version\":1", "\"version\":2")), None);
        assert_eq!(parse("error: unexpected argument '--json'\n"), None);
    }
}
