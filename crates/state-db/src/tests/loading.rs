//! Loading a base state: the same rows and root as appending it, at any memory budget.

use super::chain::{
    Dump, Model, address, assert_same, base_model, dump_all, items, load, model_root, slot,
};
use crate::{
    AccountDelta, BlockWrite, DbError, LoadItem, LoadSummary, Loader, PlainChanges, SlotDelta,
    StateDb, StorageDelta, StoredBlock, Table, testing::temp_db,
};
use alloy_consensus::Header;
use alloy_primitives::{B256, U256, keccak256};
use state_root::{
    reference,
    updates::{HashedState, HashedStorage},
};

fn run(db: &StateDb, items: Vec<LoadItem>, budget_bytes: usize) -> Result<LoadSummary, DbError> {
    let mut loader = Loader::with_budget(db, budget_bytes)?;
    for item in items {
        loader.push(item)?;
    }
    loader.finish()
}

fn refusal(items: Vec<LoadItem>) -> String {
    let (_dir, db) = temp_db();
    let error = run(&db, items, 1 << 20).unwrap_err().to_string();
    assert!(dump_all(&db, &[]).iter().all(|(_, rows)| rows.is_empty()));
    error
}

fn account(index: u64) -> LoadItem {
    LoadItem::Account {
        address: address(index),
        nonce: 0,
        balance: U256::from(1),
        code: None,
    }
}

fn load_slot(index: u64, value: u64) -> LoadItem {
    LoadItem::Slot {
        key: slot(index),
        value: U256::from(value),
    }
}

#[test]
fn any_budget_gives_the_same_rows_and_the_libraries_root() {
    let expected: Dump = {
        let (_dir, db) = temp_db();
        let summary = run(&db, items(&base_model()), 256 << 20).unwrap();
        assert_eq!(summary.state_root, model_root(&base_model()));
        assert_eq!(
            (summary.accounts, summary.slots, summary.codes),
            (396, 435, 8)
        );
        dump_all(&db, &[])
    };
    let (_dir, db) = temp_db();
    let mut shuffled: Vec<_> = base_model().into_iter().collect();
    shuffled.sort_by_key(|(address, _)| keccak256(keccak256(address)));
    let items = shuffled
        .into_iter()
        .flat_map(|entry| items(&[entry].into()))
        .collect();
    run(&db, items, 16 << 10).unwrap();
    assert_same(&dump_all(&db, &[]), &expected);
}

/// Everything of a model as the changes of one block.
fn creation(model: &Model) -> (PlainChanges, HashedState) {
    let mut changes = PlainChanges::default();
    let mut hashed = HashedState::default();
    for (address, (account, slots)) in model {
        changes.accounts.push((
            *address,
            AccountDelta {
                before: None,
                after: Some(*account),
            },
        ));
        hashed.accounts.push((keccak256(address), Some(*account)));
        let delta = |(slot, after): (&B256, &U256)| SlotDelta {
            slot: *slot,
            before: U256::ZERO,
            after: *after,
        };
        let delta = StorageDelta {
            wiped: false,
            slots: slots.iter().map(delta).collect(),
        };
        changes.storages.push((*address, delta));
        let mut slots: Vec<_> = slots
            .iter()
            .map(|(slot, value)| (keccak256(slot), *value))
            .collect();
        slots.sort_unstable();
        hashed.storages.insert(
            keccak256(address),
            HashedStorage {
                wiped: false,
                slots,
            },
        );
    }
    hashed.accounts.sort_unstable_by_key(|(key, _)| *key);
    for item in items(model) {
        if let LoadItem::Account {
            code: Some(code), ..
        } = item
        {
            changes.codes.push((keccak256(&code), code));
        }
    }
    (changes, hashed)
}

#[test]
fn loading_equals_appending_to_an_empty_genesis() {
    let model = base_model();
    let (_dir, loaded) = temp_db();
    load(&loaded, &model);

    let (_dir, appended) = temp_db();
    let genesis = load(&appended, &Default::default());
    let (changes, hashed) = creation(&model);
    let (state_root, trie) =
        reference::incremental_root(&appended.view().unwrap(), &hashed).unwrap();
    let header = Header {
        number: 1,
        parent_hash: genesis.hash,
        state_root,
        ..Header::default()
    };
    let block = StoredBlock {
        hash: header.hash_slow(),
        header,
        ..StoredBlock::default()
    };
    appended
        .append(&[BlockWrite {
            block: &block,
            receipts: &[],
            changes: &changes,
            hashed: &hashed,
            trie: &trie,
        }])
        .unwrap();

    let state = [
        Table::PlainAccountState,
        Table::PlainStorageState,
        Table::HashedAccounts,
        Table::HashedStorages,
        Table::AccountsTrie,
        Table::StoragesTrie,
        Table::Bytecodes,
    ];
    let others: Vec<_> = Table::ALL
        .into_iter()
        .filter(|table| !state.contains(table))
        .collect();
    assert_same(&dump_all(&loaded, &others), &dump_all(&appended, &others));
}

#[test]
fn zero_slots_are_not_stored() {
    let (_dir, db) = temp_db();
    let summary = run(&db, vec![account(1), load_slot(1, 0)], 1 << 20).unwrap();
    let (_dir, without) = temp_db();
    assert_eq!(summary, run(&without, vec![account(1)], 1 << 20).unwrap());
    assert_same(&dump_all(&db, &[]), &dump_all(&without, &[]));
}

#[test]
fn contradictions_are_refused_and_leave_nothing() {
    assert_eq!(
        refusal(vec![account(1), account(2), account(1)]),
        format!("load state: account {} was given twice", address(1))
    );
    assert_eq!(
        refusal(vec![account(1), load_slot(5, 1), load_slot(5, 2)]),
        format!(
            "load state: slot {} of account {} was given twice",
            slot(5),
            address(1)
        )
    );
    assert_eq!(
        refusal(vec![load_slot(5, 1)]),
        format!("load state: slot {} was given before any account", slot(5))
    );
}

#[test]
fn only_an_empty_database_is_loaded_and_only_its_root_becomes_genesis() {
    let (_dir, db) = temp_db();
    run(&db, vec![account(1)], 1 << 20).unwrap();
    assert!(matches!(Loader::new(&db), Err(DbError::NotEmpty)));
    let wrong = StoredBlock::default();
    let error = db.write_genesis(&wrong).unwrap_err();
    assert!(
        matches!(error, DbError::GenesisRoot { header, .. } if header == wrong.header.state_root)
    );
    assert_eq!(db.view().unwrap().head().unwrap(), None);
}

#[test]
fn what_an_interrupted_load_left_is_cleared_and_a_chain_is_not() {
    let (_dir, db) = temp_db();
    assert!(!db.clear_interrupted_load().unwrap());
    run(&db, items(&base_model()), 1 << 20).unwrap();
    assert!(db.clear_interrupted_load().unwrap());
    assert!(dump_all(&db, &[]).iter().all(|(_, rows)| rows.is_empty()));
    load(&db, &base_model());
    let before = dump_all(&db, &[]);
    assert!(matches!(
        db.clear_interrupted_load(),
        Err(DbError::NotEmpty)
    ));
    assert_same(&dump_all(&db, &[]), &before);
}
