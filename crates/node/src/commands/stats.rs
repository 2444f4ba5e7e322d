//! `db stats`: what the database holds, table by table.

use super::datadir::Datadir;
use comfy_table::{Cell, CellAlignment, Table, presets::ASCII_MARKDOWN};
use eyre::{Context as _, eyre};
use serde_json::{Map, Value, json};
use state_db::{DbStats, TableStats};
use std::io::Write;

const COLUMNS: [&str; 6] = [
    "Table Name",
    "# Entries",
    "Branch Pages",
    "Leaf Pages",
    "Overflow Pages",
    "Total Size",
];

/// Prints the statistics to standard output.
///
/// # Errors
/// When there is no database or it cannot be read.
pub fn run(datadir: &Datadir, json: bool) -> eyre::Result<()> {
    let db = datadir.open_read_only()?;
    let stats = db.stats().map_err(|problem| eyre!("failed to {problem}"))?;
    let text = if json {
        as_json(&stats).to_string()
    } else {
        render(&stats).to_string()
    };
    writeln!(std::io::stdout(), "{text}").wrap_err("failed to print the statistics")
}

/// The statistics as `bench-reth-stats`, version 1.
fn as_json(stats: &DbStats) -> Value {
    let table = |table: &TableStats| {
        let values = json!({
            "entries": table.entries,
            "branch_pages": table.branch_pages,
            "leaf_pages": table.leaf_pages,
            "overflow_pages": table.overflow_pages,
            "size_bytes": table.size_bytes,
        });
        (table.name.to_owned(), values)
    };
    json!({
        "format": "bench-reth-stats",
        "version": 1,
        "page_bytes": stats.page_size_bytes,
        "file_bytes": stats.file_size_bytes,
        "used_pages": stats.used_pages,
        "free_pages": stats.free_pages,
        "tables": stats.tables.iter().map(table).collect::<Map<_, _>>(),
    })
}

fn render(stats: &DbStats) -> Table {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN).set_header(COLUMNS);
    let mut rows: Vec<&TableStats> = stats.tables.iter().collect();
    rows.sort_by_key(|row| row.name);
    for row in rows {
        let pages = [row.branch_pages, row.leaf_pages, row.overflow_pages];
        table.add_row(cells(
            row.name,
            row.entries,
            pages.map(Some),
            row.size_bytes,
        ));
    }
    let free_bytes = stats.free_pages * stats.page_size_bytes;
    let total: u64 = stats.tables.iter().map(|row| row.size_bytes).sum();
    table.add_row(cells("Tables", 0, [None; 3], total));
    table.add_row(cells("Freelist", stats.free_pages, [None; 3], free_bytes));
    table.add_row(cells("Database file", 0, [None; 3], stats.file_size_bytes));
    table
}

/// One row; counts that mean nothing there are left empty.
fn cells(name: &str, entries: u64, pages: [Option<u64>; 3], size_bytes: u64) -> Vec<Cell> {
    let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    let entries = if pages[0].is_none() && entries == 0 {
        None
    } else {
        Some(entries)
    };
    let count = |count: Option<u64>| right(count.map_or_else(String::new, |n| n.to_string()));
    let mut row = vec![Cell::new(name), count(entries)];
    row.extend(pages.map(count));
    row.push(right(human_size(size_bytes)));
    row
}

/// A size in the largest binary unit that leaves at least 1.
fn human_size(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let power = (bytes.max(1).ilog2() / 10).min(4);
    let unit = units[power as usize];
    if power == 0 {
        return format!("{bytes} {unit}");
    }
    format!(
        "{:.1} {unit}",
        bytes as f64 / (1_u64 << (10 * power)) as f64
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_readable() {
        for (bytes, expected) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            (64 << 20, "64.0 MiB"),
            (3 << 40, "3.0 TiB"),
            (u64::MAX, "16777216.0 TiB"),
        ] {
            assert_eq!(human_size(bytes), expected, "{bytes}");
        }
    }

    fn two_tables() -> DbStats {
        let table = |name, entries| TableStats {
            name,
            entries,
            branch_pages: 1,
            leaf_pages: 2,
            overflow_pages: 3,
            size_bytes: 6 * 4096,
        };
        DbStats {
            tables: vec![table("Headers", 7), table("Bytecodes", 0)],
            page_size_bytes: 4096,
            file_size_bytes: 1 << 20,
            free_pages: 5,
            used_pages: 9,
        }
    }

    #[test]
    fn as_json_it_is_one_line_with_every_table() {
        let value = as_json(&two_tables());
        assert!(!value.to_string().contains('\n'));
        assert_eq!(value["tables"]["Headers"]["entries"], 7);
        assert_eq!(value["tables"]["Bytecodes"]["size_bytes"], 24576);
        assert_eq!(
            (
                &value["free_pages"],
                &value["used_pages"],
                &value["file_bytes"]
            ),
            (&json!(5), &json!(9), &json!(1 << 20))
        );
    }

    #[test]
    fn every_table_has_a_row() {
        let text = render(&two_tables()).to_string();
        let rows: Vec<Vec<&str>> = text
            .lines()
            .skip(2)
            .map(|row| row.split('|').map(str::trim).collect())
            .collect();
        assert_eq!(rows[0][1..7], ["Bytecodes", "0", "1", "2", "3", "24.0 KiB"]);
        assert_eq!(rows[1][1..3], ["Headers", "7"]);
        assert_eq!(rows[3][1..7], ["Freelist", "5", "", "", "", "20.0 KiB"]);
        assert_eq!(rows[4][1..7], ["Database file", "", "", "", "", "1.0 MiB"]);
    }
}
