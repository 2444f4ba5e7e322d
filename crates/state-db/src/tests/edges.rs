//! What is refused, what survives an interruption, and what opening and measuring say.

use super::chain::{Chain, append, assert_same, dump_all, fixed_blocks};
use crate::{
    DbError, OpenOptions, StateDb, SyncMode, Table, UnwindError, UnwindStage,
    testing::{options, temp_db},
};
use alloy_primitives::B256;
use std::{
    fs,
    io::Read,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
};

/// Runs `attempt` and checks that it changed no row.
fn refused<E: std::fmt::Display>(db: &StateDb, attempt: impl FnOnce() -> E) -> String {
    let before = dump_all(db, &[]);
    let error = attempt().to_string();
    assert_same(&dump_all(db, &[]), &before);
    error
}

#[test]
fn blocks_that_do_not_follow_are_refused() {
    let chain = Chain::new(&fixed_blocks());
    let writes: Vec<_> = chain.blocks.iter().map(|block| block.write()).collect();
    let (_dir, db) = chain.copy(1, 1);
    for batch in [&writes[2..4], &writes[0..1], &[writes[1], writes[3]]] {
        let error = refused(&db, || db.append(batch).unwrap_err());
        assert!(error.contains("is not the database head"), "{error}");
    }
    let mut torn = writes[1];
    torn.receipts = &[];
    let error = refused(&db, || db.append(&[torn]).unwrap_err());
    assert_eq!(
        error,
        "append block 2: 2 transactions, 2 senders, 0 receipts"
    );
    let (_dir, empty) = temp_db();
    assert!(matches!(
        empty.append(&writes[..1]),
        Err(DbError::NoGenesis)
    ));
}

#[test]
fn what_a_failed_write_has_grown_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    // No multiples of what MDBX wants the length of a file to be.
    let limits = OpenOptions {
        max_size_bytes: 1_500 << 10,
        growth_step_bytes: 100 << 10,
        ..options()
    };
    let db = StateDb::open(folder.path(), &limits).unwrap();
    let tx = db.write().unwrap();
    let mut rows = 0_u64..;
    let failed = rows.find_map(|row| {
        let written = tx.put(Table::Headers, &row.to_be_bytes(), &[0; 500]);
        written.err()
    });
    let error = failed.unwrap().to_string();
    assert!(error.contains("size limit reached"), "{error}");
    drop(tx);
    drop(db);
    let read_only = OpenOptions {
        read_only: true,
        ..limits
    };
    StateDb::open(folder.path(), &read_only).unwrap();
}

/// The signature of the newest meta page: MDBX writes one above 1 when all that the page names is on
/// disk, and 1 when it need not be.
fn newest_signature(folder: &Path) -> u64 {
    let mut pages = vec![0; 3 * 4096];
    let mut file = fs::File::open(folder.join("db/mdbx.dat")).unwrap();
    file.read_exact(&mut pages).unwrap();
    let number = |page: &[u8], at: usize| u64::from_le_bytes(page[at..at + 8].try_into().unwrap());
    let metas = pages.chunks(4096);
    let signed = metas.map(|page| (number(page, 28), number(page, 188)));
    signed.max().unwrap().1
}

/// What a crash of the machine would leave is what was synced.
#[test]
fn a_commit_is_on_disk_when_it_returns_unless_it_may_wait() {
    for (sync_mode, is_synced) in [(SyncMode::Durable, true), (SyncMode::SafeNoSync, false)] {
        let (dir, db) = Chain::new(&fixed_blocks()).copy(2, 1);
        drop(db);
        let options = OpenOptions {
            sync_mode,
            ..options()
        };
        let db = StateDb::open(dir.path(), &options).unwrap();
        db.set_forkchoice(Some(2), Some(1)).unwrap();
        let signature = newest_signature(dir.path());
        assert_eq!(signature > 1, is_synced, "{sync_mode:?}: {signature}");
    }
}

#[test]
fn unwinding_above_the_tip_or_to_a_wrong_root_changes_nothing() {
    let chain = Chain::new(&fixed_blocks());
    let error = refused(&chain.db, || chain.db.unwind(6, &mut |_| {}).unwrap_err());
    assert_eq!(
        error,
        "Target block number 6 is higher than the latest block number 5"
    );

    let (_dir, db) = chain.copy(1, 1);
    let mut wrong = chain.blocks[1].clone();
    wrong.stored_mut().header.state_root = B256::repeat_byte(1);
    let mut after = chain.blocks[2].clone();
    after.stored_mut().header.parent_hash = wrong.stored().hash;
    append(&db, &[wrong, after], 2);
    let error = refused(&db, || db.unwind(2, &mut |_| {}).unwrap_err());
    assert!(error.contains(&B256::repeat_byte(1).to_string()), "{error}");
    assert!(
        error.contains(&chain.blocks[1].stored().header.state_root.to_string()),
        "{error}"
    );
    // To the tip nothing is removed, but the root is checked.
    db.unwind(3, &mut |_| {}).unwrap();
    db.unwind(1, &mut |_| {}).unwrap();
}

#[test]
fn an_interrupted_unwind_is_noticed_and_finished() {
    let (_dir, expected) = Chain::new(&fixed_blocks()).copy(2, 1);
    for stage in [
        UnwindStage::Changesets,
        UnwindStage::StateRoot,
        UnwindStage::History,
        UnwindStage::Commit,
    ] {
        let chain = Chain::new(&fixed_blocks());
        let db = &chain.db;
        let interrupted = catch_unwind(AssertUnwindSafe(|| {
            db.unwind(2, &mut |progress| {
                assert_ne!(progress.stage, stage, "interrupted")
            })
            .unwrap()
        }));
        assert!(interrupted.is_err());
        let (dir, block) = (chain.dir, chain.blocks[4].clone());
        drop(chain.db);
        let db = StateDb::open(dir.path(), &options()).unwrap();
        assert_eq!(db.pending_unwind().unwrap(), Some(2));
        assert_eq!(db.view().unwrap().head().unwrap().unwrap().number, 5);
        let error = db.append(&[block.write()]).unwrap_err();
        assert!(matches!(error, DbError::PendingUnwind { target: 2 }));
        db.unwind(2, &mut |_| {}).unwrap();
        assert_eq!(db.pending_unwind().unwrap(), None);
        let kept = [Table::Bytecodes];
        assert_same(&dump_all(&db, &kept), &dump_all(&expected, &kept));
    }
}

#[test]
fn markers_are_kept_below_the_target_and_lowered_above_it() {
    let chain = Chain::new(&fixed_blocks());
    let db = &chain.db;
    db.set_forkchoice(Some(4), Some(2)).unwrap();
    db.set_forkchoice(None, Some(1)).unwrap();
    db.unwind(3, &mut |_| {}).unwrap();
    let view = db.view().unwrap();
    assert_eq!(
        (view.safe().unwrap(), view.finalized().unwrap()),
        (Some(3), Some(1))
    );
    for stage in crate::write::STAGES {
        assert_eq!(view.checkpoint(stage).unwrap(), Some(3), "{stage}");
    }
}

#[test]
fn unwinding_reports_every_step_in_order() {
    let chain = Chain::new(&fixed_blocks());
    let mut stages = Vec::new();
    let summary = chain
        .db
        .unwind(0, &mut |progress| stages.push(progress.stage))
        .unwrap();
    assert_eq!(
        stages,
        [
            UnwindStage::Changesets,
            UnwindStage::StateRoot,
            UnwindStage::State,
            UnwindStage::History,
            UnwindStage::Blocks,
            UnwindStage::Commit,
        ]
    );
    assert_eq!(summary.blocks, 5);
    assert_eq!(summary.head.hash, chain.genesis.hash);
    assert!(matches!(
        chain.db.unwind(1, &mut |_| {}),
        Err(UnwindError::AboveTip {
            target: 1,
            latest: 0
        })
    ));
}

#[test]
fn a_datadir_is_opened_once_for_writing_and_any_time_for_reading() {
    let chain = Chain::new(&fixed_blocks());
    let path = chain.dir.path();
    let error = StateDb::open(path, &options()).unwrap_err().to_string();
    assert!(
        error.ends_with(&format!("another process: PID {}", std::process::id())),
        "{error}"
    );
    let rows = dump_all(&chain.db, &[]);
    // Within one process MDBX opens a file once: the writer goes before the reader comes.
    drop(chain.db);
    let read_only = crate::OpenOptions {
        read_only: true,
        ..options()
    };
    let reader = StateDb::open(path, &read_only).unwrap();
    assert_same(&dump_all(&reader, &[]), &rows);
    assert!(reader.append(&[chain.blocks[0].write()]).is_err());
    drop(reader);
    let version = path.join("db/database.version");
    assert_eq!(std::fs::read_to_string(&version).unwrap(), "2");
    std::fs::write(&version, "1").unwrap();
    assert!(matches!(
        StateDb::open(path, &options()),
        Err(DbError::Version { .. })
    ));
    let nowhere = tempfile::tempdir().unwrap();
    assert!(matches!(
        StateDb::open(nowhere.path(), &read_only),
        Err(DbError::Missing { .. })
    ));
    assert_eq!(std::fs::read_dir(nowhere.path()).unwrap().count(), 0);
}

#[test]
fn statistics_count_rows_and_pages() {
    let chain = Chain::new(&fixed_blocks());
    let stats = chain.db.stats().unwrap();
    for table in &stats.tables {
        let rows = dump_all(&chain.db, &[])
            .into_iter()
            .find(|(t, _)| t.name() == table.name);
        assert_eq!(
            table.entries,
            rows.unwrap().1.len() as u64,
            "{}",
            table.name
        );
        let pages = table.branch_pages + table.leaf_pages + table.overflow_pages;
        assert_eq!(table.size_bytes, pages * stats.page_size_bytes);
    }
    assert_eq!(stats.page_size_bytes, 4096);
    assert!(stats.file_size_bytes >= stats.used_pages * 4096);
    assert!(stats.free_pages < stats.used_pages);
}
