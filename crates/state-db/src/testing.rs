//! What the tests of this crate share: databases in temporary folders and dumps of tables.

use crate::{OpenOptions, StateDb, SyncMode, Table};

/// Options that keep tests quick and their address space small.
pub(crate) fn options() -> OpenOptions {
    OpenOptions {
        max_size_bytes: 16 << 30,
        growth_step_bytes: 4 << 20,
        sync_mode: SyncMode::SafeNoSync,
        ..OpenOptions::default()
    }
}

/// An empty database; it lives as long as the folder.
pub(crate) fn temp_db() -> (tempfile::TempDir, StateDb) {
    let dir = tempfile::tempdir().unwrap();
    let db = StateDb::open(dir.path(), &options()).unwrap();
    (dir, db)
}

/// All rows of a table.
pub(crate) fn dump(db: &StateDb, table: Table) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut rows = Vec::new();
    db.view()
        .unwrap()
        .for_each_row(table, |k, v| rows.push((k.to_vec(), v.to_vec())))
        .unwrap();
    rows
}
