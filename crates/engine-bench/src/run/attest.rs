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
        reset: None,
    }
}

async fn database(workspace: &Workspace, dir: &Path) -> Option<DatabaseFacts> {
    let spec = &workspace.engine;
    let command = engine::adapter_of(spec.kind).stats(spec, &workspace.datadir)?;
    let log = dir.join(STATE_FILE);
    let counted = engine::run_tool(command, &log, &workspace.pid_file);
    // An engine of another version may not know the command.
    tokio::time::timeout(PATIENCE, counted).await.ok()?.ok()?;
    let printed = fs::read_to_string(log).ok()?;
    parse(&printed).or_else(|| parse_table(&printed))
}

/// Accounts of a state that cannot do without stored trie nodes.
const MANY_ACCOUNTS: u64 = 1_000;

/// That a reset left a state without its stored tries: head, hash and root are right, and every block would walk
/// the leaves.
pub(super) fn lost_tries(state: &StateFacts) -> Option<String> {
    let entries = &state.database.as_ref()?.entries;
    let accounts = *entries.get("HashedAccounts")?;
    let lost = accounts >= MANY_ACCOUNTS && *entries.get("AccountsTrie")? == 0;
    lost.then(|| {
        format!(
            "after the reset the table AccountsTrie is empty beside {accounts} accounts: the engine would walk the \
             leaves of the state in every block; give --reset copy, or a datadir whose tries are whole"
        )
    })
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
        file_bytes: Some(stats.file_bytes),
        page_bytes: Some(stats.page_bytes),
        used_pages: Some(stats.used_pages),
        free_pages: Some(stats.free_pages),
        entries: entries.map(|(name, table)| (name, table.entries)).collect(),
    })
}

/// reth's `db stats`, a table for people: rows by name, between the line below its head and the next such line.
fn parse_table(printed: &str) -> Option<DatabaseFacts> {
    let mut lines = printed.lines().map(str::trim_start);
    lines.find(|line| line.starts_with("| Table Name "))?;
    let row = |line: &str| {
        let mut cells = line.split('|').map(str::trim).skip(1);
        Some((cells.next()?.to_owned(), cells.next()?.parse().ok()?))
    };
    let entries: BTreeMap<String, u64> = lines.skip(1).map_while(row).collect();
    (!entries.is_empty()).then(|| DatabaseFacts {
        entries,
        ..DatabaseFacts::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn counts_are_found_among_other_lines() {
        let line = "{\"format\":\"bench-reth-stats\",\"version\":1,\"page_bytes\":4096,\
                    \"file_bytes\":65536,\"used_pages\":9,\"free_pages\":2,\"tables\":{\"Headers\":\
                    {\"entries\":7,\"leaf_pages\":1},\"Bytecodes\":{\"entries\":0}}}";
        let facts = parse(&format!("WARN something\n{line}\n")).unwrap();
        assert_eq!(
            (facts.file_bytes, facts.used_pages, facts.free_pages),
            (Some(65536), Some(9), Some(2))
        );
        assert_eq!(
            (facts.entries["Headers"], facts.entries["Bytecodes"]),
            (7, 0)
        );
        assert_eq!(parse(&line.replace("\"version\":1", "\"version\":2")), None);
        assert_eq!(parse("error: unexpected argument '--json'\n"), None);
    }

    #[test]
    fn a_table_for_people_is_read_and_lost_tries_are_named() {
        let printed = |trie: u64| {
            format!(
                "INFO x\n| Segment | Size |\n|---|---|\n| Headers | 317 B |\n\n| Table Name | # Entries | Total \
                 Size |\n|------|-----|------|\n| AccountsTrie | {trie} | 2.7 MiB |\n| HashedAccounts | 200000 | \
                 10.8 MiB |\n| ------ | ----- | ------ |\n| Tables | | 190 MiB |\n| Freelist | 2 | 8 KiB |\n"
            )
        };
        let state = |trie| StateFacts {
            database: parse_table(&printed(trie)),
            ..StateFacts::default()
        };
        let whole = state(17_756);
        let entries = whole.database.as_ref().unwrap().entries.iter();
        let entries: Vec<_> = entries.map(|(name, rows)| (name.as_str(), *rows)).collect();
        assert_eq!(
            entries,
            [("AccountsTrie", 17_756), ("HashedAccounts", 200_000)]
        );
        assert_eq!(lost_tries(&whole), None);
        assert!(
            lost_tries(&state(0))
                .unwrap()
                .contains("beside 200000 accounts")
        );
        assert_eq!(lost_tries(&StateFacts::default()), None);
        assert_eq!(parse_table("error: unexpected argument"), None);
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_whatever_surrounds_it(
            before in "(\\PC|\n)*",
            entries in proptest::collection::btree_map("[A-Z][a-z]{0,9}", any::<u64>(), 1..9),
            after in any::<Vec<u8>>(),
        ) {
            let rows = entries.iter().map(|(name, count)| format!("| {name} | {count} | 1 MiB |\n"));
            let table = format!("| Table Name | # Entries |\n|---|---|\n{}", rows.collect::<String>());
            prop_assume!(!before.contains("| Table Name "));
            let after = String::from_utf8_lossy(&after);
            let found = parse_table(&format!("{before}\n{table}\n{after}"));
            prop_assert_eq!(found.map(|facts| facts.entries), Some(entries));
            let cut = table.char_indices().map(|(at, _)| format!("{}{after}", &table[..at]));
            // However much of it there is.
            cut.for_each(|text| drop((parse(&text), parse_table(&text))));
        }
    }
}
