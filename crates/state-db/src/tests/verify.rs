//! Verification: nothing to find in what was written, and exactly what was spoiled afterwards.

use super::chain::{Chain, address, append, blocks, fixed_blocks, slot};
use crate::{
    Finding, StateDb, Table, VerifyOptions, VerifyReport, codec,
    history::{HistoryKey, decode_shard},
    testing::temp_db,
    tx::DbWrite,
};
use alloy_primitives::{Bytes, keccak256};
use proptest::prelude::*;
use signet_libmdbx::WriteFlags;
use state_root::updates::Account;

fn options() -> VerifyOptions {
    VerifyOptions {
        receipts_root_from: 0,
        state_roots: u64::MAX,
        sort_folder: std::env::temp_dir(),
        sort_budget_bytes: 8 << 20,
    }
}

fn verify(db: &StateDb) -> VerifyReport {
    db.verify(&options(), &mut |_| {}).unwrap()
}

#[track_caller]
fn assert_clean(db: &StateDb) {
    let report = verify(db);
    assert_eq!(report.findings, [], "{:?}", report.notes);
    assert_eq!(report.notes, [] as [String; 0]);
}

/// What is found once `spoil` has changed rows, as "table key: problem".
fn found_after(chain: &Chain, spoil: impl FnOnce(&Chain, &DbWrite)) -> Vec<String> {
    let tx = chain.db.write().unwrap();
    spoil(chain, &tx);
    tx.commit().unwrap();
    let mut findings = verify(&chain.db).findings;
    findings.sort();
    findings.iter().map(Finding::to_string).collect()
}

/// The chain of five blocks, spoiled; `expected` findings may be given by their beginnings.
#[track_caller]
fn check(spoil: impl FnOnce(&Chain, &DbWrite), expected: &[&str]) {
    let chain = Chain::new(&fixed_blocks());
    assert_clean(&chain.db);
    let found = found_after(&chain, spoil);
    let agree = found.len() == expected.len()
        && found
            .iter()
            .zip(expected)
            .all(|(found, expected)| found.starts_with(expected));
    assert!(agree, "found {found:#?}, expected {expected:#?}");
}

fn number(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

/// Replaces the bytes of a row by what `change` makes of them.
fn edit(tx: &DbWrite, table: Table, key: &[u8], change: impl FnOnce(&mut Vec<u8>)) {
    let mut value = tx.get(table, key).unwrap().unwrap().into_owned();
    change(&mut value);
    tx.put(table, key, &value).unwrap();
}

/// Replaces one duplicate of `key`, found by its beginning; `None` removes it.
fn edit_dup(tx: &DbWrite, table: Table, key: &[u8], subkey: &[u8], value: Option<&[u8]>) {
    let mut cursor = tx.cursor(table).unwrap();
    let found: Option<Vec<u8>> = cursor.get_both_range(key, subkey).unwrap();
    if found.is_some_and(|found| found.starts_with(subkey)) {
        cursor.del().unwrap();
    }
    if let Some(value) = value {
        let row = [subkey, value].concat();
        cursor.put(key, &row, WriteFlags::UPSERT).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn what_is_written_appended_unwound_and_written_again_is_clean(
        ops in blocks(),
        target in any::<proptest::sample::Index>(),
        batch in 1usize..9,
    ) {
        let chain = Chain::new(&ops);
        assert_clean(&chain.db);
        let target = target.index(ops.len() + 1);
        chain.db.unwind(target as u64, &mut |_| {}).unwrap();
        assert_clean(&chain.db);
        append(&chain.db, &chain.blocks[target..], batch);
        assert_clean(&chain.db);
        let (_dir, short) = chain.copy(target, batch);
        assert_clean(&short);
    }
}

#[test]
fn the_report_tells_head_root_and_code_nobody_has() {
    let chain = Chain::new(&fixed_blocks());
    let report = verify(&chain.db);
    let head = chain.blocks.last().unwrap().stored();
    assert_eq!(report.head, 5);
    assert_eq!(report.state_root, Some(head.header.state_root));
    assert_eq!(report.orphan_codes, 0);
    // Block 3 brings code; an unwind leaves it.
    chain.db.unwind(2, &mut |_| {}).unwrap();
    assert_eq!(verify(&chain.db).orphan_codes, 1);
}

#[test]
fn sorting_on_disk_finds_the_same() {
    let chain = Chain::new(&fixed_blocks());
    let spoiled = found_after(&chain, |_, tx| {
        tx.delete(Table::HashedAccounts, keccak256(address(20)).as_slice())
            .unwrap();
    });
    let tight = VerifyOptions {
        sort_budget_bytes: 8 << 10,
        ..options()
    };
    let mut findings = chain.db.verify(&tight, &mut |_| {}).unwrap().findings;
    findings.sort();
    let again: Vec<_> = findings.iter().map(Finding::to_string).collect();
    assert_eq!(again, spoiled);
}

#[test]
fn an_empty_database_has_nothing_to_verify() {
    let (_dir, db) = temp_db();
    let error = db.verify(&options(), &mut |_| {}).unwrap_err();
    assert!(matches!(error, crate::DbError::NoGenesis), "{error}");
}

#[test]
fn markers() {
    check(
        |_, tx| {
            tx.put(
                Table::StageCheckpoints,
                b"Bodies",
                &codec::encode_checkpoint(4),
            )
            .unwrap()
        },
        &["StageCheckpoints Bodies: is 4, the head is 5"],
    );
    check(
        |_, tx| tx.delete(Table::StageCheckpoints, b"Headers").unwrap(),
        &["StageCheckpoints Headers: is missing"],
    );
    check(
        |_, tx| {
            tx.put(Table::ChainState, &[1], &codec::encode_u64(6))
                .unwrap()
        },
        &["ChainState safe: is 6, above the head 5"],
    );
    check(
        |_, tx| {
            tx.put(Table::ChainState, &[0], &codec::encode_u64(7))
                .unwrap();
        },
        &["ChainState finalized: is 7, above the head 5"],
    );
    check(
        |_, tx| {
            let value = codec::encode_bytes(number(9).to_vec());
            tx.put(Table::Metadata, b"pending_unwind", &value).unwrap();
        },
        &["Metadata pending_unwind: is 9, above the head 5"],
    );
}

#[test]
fn headers() {
    check(
        |_, tx| tx.delete(Table::Headers, &number(3)).unwrap(),
        &["Headers 3: is missing"],
    );
    check(
        |_, tx| tx.put(Table::Headers, &number(9), b"?").unwrap(),
        &["Headers 9: belongs to nothing"],
    );
    check(
        |_, tx| edit(tx, Table::Headers, &number(3), |row| row.truncate(40)),
        &["Headers 3: does not decode"],
    );
    check(
        |_, tx| edit(tx, Table::CanonicalHeaders, &number(3), |row| row[0] ^= 1),
        &[
            "HeaderNumbers 0x",
            "HeaderNumbers 0x",
            "Headers 3: hashes to 0x",
            "Headers 4: says parent 0x",
        ],
    );
    check(
        |chain, tx| {
            let hash = chain.blocks[2].stored().hash;
            tx.put(Table::HeaderNumbers, hash.as_slice(), &codec::encode_u64(2))
                .unwrap();
        },
        &["HeaderNumbers 0x"],
    );
    check(
        |_, tx| {
            tx.put(Table::HeaderNumbers, &[7; 32], &codec::encode_u64(2))
                .unwrap()
        },
        &[
            "HeaderNumbers 0x0707070707070707070707070707070707070707070707070707070707070707: \
           belongs to nothing",
        ],
    );
}

#[test]
fn bodies() {
    check(
        |_, tx| {
            edit(tx, Table::BlockBodyIndices, &number(3), |row| {
                *row = vec![0x01, 4]
            })
        },
        &[
            "BlockBodyIndices 3: begins at transaction 4, should be 3",
            "BlockBodyIndices 4: begins",
        ],
    );
    check(
        |_, tx| tx.delete(Table::BlockOmmers, &number(5)).unwrap(),
        &["BlockOmmers block 5: root is 0x1dcc"],
    );
    check(
        |_, tx| edit(tx, Table::BlockOmmers, &number(5), |row| row[0] = 0xff),
        &["BlockOmmers 5: does not decode"],
    );
    check(
        |_, tx| tx.delete(Table::BlockWithdrawals, &number(4)).unwrap(),
        &["BlockWithdrawals block 4: root is 0x"],
    );
    check(
        |_, tx| {
            let row = tx
                .get(Table::BlockWithdrawals, &number(4))
                .unwrap()
                .unwrap()
                .into_owned();
            tx.put(Table::BlockWithdrawals, &number(3), &row).unwrap();
        },
        &["BlockWithdrawals 3: the header has none"],
    );
    check(
        |_, tx| {
            tx.put(Table::TransactionBlocks, &number(0), &codec::encode_u64(3))
                .unwrap()
        },
        &["TransactionBlocks 0: is 3, should be 1"],
    );
}

#[test]
fn transactions() {
    check(
        |_, tx| edit(tx, Table::Transactions, &number(1), |row| row.clear()),
        &[
            "TransactionHashNumbers 0x",
            "Transactions 1: does not decode",
        ],
    );
    check(
        |_, tx| {
            let other = tx
                .get(Table::Transactions, &number(1))
                .unwrap()
                .unwrap()
                .into_owned();
            tx.put(Table::Transactions, &number(0), &other).unwrap();
        },
        &[
            "TransactionHashNumbers 0x",
            "TransactionHashNumbers 0x",
            "TransactionHashNumbers 0x",
            "Transactions block 1: root is 0x",
        ],
    );
    check(
        |_, tx| edit(tx, Table::TransactionSenders, &number(2), |row| row[0] ^= 1),
        &["TransactionSenders 2: is 0x"],
    );
    check(
        |_, tx| tx.delete(Table::TransactionSenders, &number(2)).unwrap(),
        &["TransactionSenders 2: is missing"],
    );
    check(
        |chain, tx| {
            let hash = *chain.blocks[0].stored().transactions[0].tx_hash();
            tx.put(
                Table::TransactionHashNumbers,
                hash.as_slice(),
                &codec::encode_u64(2),
            )
            .unwrap();
        },
        &["TransactionHashNumbers 0x"],
    );
}

#[test]
fn receipts() {
    check(
        |_, tx| tx.delete(Table::Receipts, &number(1)).unwrap(),
        &["Receipts 1: is missing"],
    );
    check(
        |_, tx| {
            let other = tx
                .get(Table::Receipts, &number(0))
                .unwrap()
                .unwrap()
                .into_owned();
            tx.put(Table::Receipts, &number(1), &other).unwrap();
        },
        &["Receipts 1 (block 2): the bloom of the logs is not the header's"],
    );
    check(
        |_, tx| {
            let other = tx
                .get(Table::Receipts, &number(1))
                .unwrap()
                .unwrap()
                .into_owned();
            tx.put(Table::Receipts, &number(2), &other).unwrap();
        },
        &["Receipts 1 (block 2): gas used is 21000, the header says 42000"],
    );
}

#[test]
fn plain_and_hashed_accounts() {
    let hashed = keccak256(address(20));
    let (place, plain) = (
        format!("HashedAccounts {hashed}: "),
        format!("HashedAccounts {hashed}"),
    );
    check(
        |_, tx| tx.delete(Table::HashedAccounts, hashed.as_slice()).unwrap(),
        &[
            "AccountsTrie",
            &format!("{place}is missing"),
            "HashedAccounts at block 5: root is 0x",
        ],
    );
    check(
        |_, tx| {
            tx.delete(Table::PlainAccountState, address(20).as_slice())
                .unwrap()
        },
        &[&format!("{place}belongs to nothing")],
    );
    check(
        |_, tx| {
            edit(
                tx,
                Table::PlainAccountState,
                address(20).as_slice(),
                |row| row[2] ^= 1,
            )
        },
        &[&format!("{place}is 0x")],
    );
    check(
        |_, tx| {
            edit(
                tx,
                Table::PlainAccountState,
                address(20).as_slice(),
                |row| row.truncate(1),
            )
        },
        &[
            &format!("{plain}: belongs to nothing"),
            &format!(
                "PlainAccountState {}: does not decode",
                address(20).to_string().to_lowercase()
            ),
        ],
    );
}

#[test]
fn plain_and_hashed_slots() {
    let owner = keccak256(address(3));
    let place = format!("{owner}/{}", keccak256(slot(2)));
    check(
        |_, tx| {
            edit_dup(
                tx,
                Table::PlainStorageState,
                address(3).as_slice(),
                slot(2).as_slice(),
                Some(&[9]),
            )
        },
        &[&format!("HashedStorages {place}: is 0x03, should be 0x09")],
    );
    check(
        |_, tx| {
            edit_dup(
                tx,
                Table::HashedStorages,
                owner.as_slice(),
                keccak256(slot(2)).as_slice(),
                None,
            )
        },
        &[
            "AccountsTrie",
            "HashedAccounts at block 5",
            &format!("HashedStorages {place}: is missing"),
        ],
    );
    check(
        |_, tx| {
            let mut cursor = tx.cursor(Table::PlainStorageState).unwrap();
            let row = [slot(1).as_slice(), &[1]].concat();
            cursor.put(&[0xee; 20], &row, WriteFlags::UPSERT).unwrap();
        },
        &[
            "HashedStorages 0x",
            "PlainStorageState 0xeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee: has no account",
        ],
    );
}

#[test]
fn codes() {
    let chain = Chain::new(&fixed_blocks());
    let hash = chain
        .db
        .view()
        .unwrap()
        .account(address(3))
        .unwrap()
        .unwrap()
        .code_hash;
    check(
        |_, tx| tx.delete(Table::Bytecodes, hash.as_slice()).unwrap(),
        &[&format!(
            "Bytecodes {hash}: is missing; account {} uses it",
            address(3).to_string().to_lowercase()
        )],
    );
    check(
        |_, tx| edit(tx, Table::Bytecodes, hash.as_slice(), |row| row[4] ^= 1),
        &[&format!("Bytecodes {hash}: hashes to 0x")],
    );
    check(
        |_, tx| edit(tx, Table::Bytecodes, hash.as_slice(), |row| row.truncate(6)),
        &[&format!("Bytecodes {hash}: does not decode")],
    );
    check(
        |_, tx| {
            edit(tx, Table::Bytecodes, hash.as_slice(), |row| {
                *row.last_mut().unwrap() ^= 2
            })
        },
        &[&format!("Bytecodes {hash}: has a wrong jump table")],
    );
}

/// The key of the first row of a table.
fn first_key(tx: &DbWrite, table: Table) -> Vec<u8> {
    let row: Option<(Vec<u8>, Vec<u8>)> = tx.cursor(table).unwrap().first().unwrap();
    row.unwrap().0
}

#[test]
fn trie_nodes() {
    let spoil = |change: fn(&mut Vec<u8>)| {
        move |_: &Chain, tx: &DbWrite| {
            let key = first_key(tx, Table::AccountsTrie);
            edit(tx, Table::AccountsTrie, &key, change);
        }
    };
    check(
        spoil(|row| row[10] ^= 1),
        &["AccountsTrie 0: hash of child "],
    );
    check(spoil(|row| row[3] ^= 1), &["AccountsTrie 0: masks are ["]);
    check(
        spoil(|row| row.truncate(20)),
        &["AccountsTrie 0: does not decode"],
    );
    check(
        |_, tx| {
            let key = first_key(tx, Table::AccountsTrie);
            tx.delete(Table::AccountsTrie, &key).unwrap();
        },
        &["AccountsTrie 0: is missing"],
    );
    check(
        |_, tx| {
            let node = tx
                .get(Table::AccountsTrie, &[0])
                .unwrap()
                .unwrap()
                .into_owned();
            tx.put(Table::AccountsTrie, &[0, 15, 15, 15], &node)
                .unwrap();
        },
        &["AccountsTrie 0fff: belongs to nothing"],
    );
    // Block 2 destroyed account 0 and left it no stored nodes; on the base state it has some.
    let chain = Chain::new(&[]);
    let whale = keccak256(address(0));
    let found = found_after(&chain, |_, tx| {
        let key = first_key(tx, Table::StoragesTrie);
        tx.delete(Table::StoragesTrie, &key).unwrap();
    });
    assert!(
        found.len() > 1
            && found
                .iter()
                .all(|f| f.starts_with(&format!("StoragesTrie {whale}/")))
    );
}

/// The key of one history's last shard.
fn last_shard(who: u64) -> [u8; 28] {
    codec::account_shard_key(&address(who), codec::LAST_SHARD)
}

#[test]
fn histories() {
    let who = address(9).to_string().to_lowercase();
    check(
        |_, tx| tx.delete(Table::AccountsHistory, &last_shard(9)).unwrap(),
        &[&format!("AccountsHistory {who}/1: is missing")],
    );
    check(
        |_, tx| {
            tx.extend_histories(&[(HistoryKey::Account(address(9)), 4)])
                .unwrap()
        },
        &[&format!(
            "AccountsHistory {who}/4: names it, no such change is stored"
        )],
    );
    check(
        |_, tx| {
            let row = tx
                .get(Table::AccountsHistory, &last_shard(9))
                .unwrap()
                .unwrap()
                .into_owned();
            assert_eq!(decode_shard(&row).unwrap().len(), 1);
            tx.delete(Table::AccountsHistory, &last_shard(9)).unwrap();
            tx.put(
                Table::AccountsHistory,
                &codec::account_shard_key(&address(9), 1),
                &row,
            )
            .unwrap();
        },
        &[
            &format!("AccountsHistory {who}/1: holds 1 blocks, not 2000"),
            &format!("AccountsHistory {who}/last: is missing"),
        ],
    );
    check(
        |_, tx| {
            edit(tx, Table::AccountsHistory, &last_shard(9), |row| {
                row.truncate(5)
            })
        },
        &[
            &format!("AccountsHistory {who}/1: is missing"),
            &format!("AccountsHistory {who}/last: does not decode"),
        ],
    );
}

#[test]
fn account_changesets() {
    let who = address(9).to_string().to_lowercase();
    check(
        |_, tx| {
            edit_dup(
                tx,
                Table::AccountChangeSets,
                &number(1),
                address(9).as_slice(),
                None,
            )
        },
        &[&format!(
            "AccountsHistory {who}/1: names it, no such change is stored"
        )],
    );
    check(
        |_, tx| {
            let now = tx
                .get(Table::PlainAccountState, address(9).as_slice())
                .unwrap()
                .unwrap()
                .into_owned();
            edit_dup(
                tx,
                Table::AccountChangeSets,
                &number(1),
                address(9).as_slice(),
                Some(&now),
            );
        },
        &[&format!("AccountChangeSets 1/{who}: changes nothing")],
    );
    let wrong = |_: &Chain, tx: &DbWrite| {
        let mut row = Vec::new();
        let account = Account {
            nonce: 77,
            ..Account::default()
        };
        codec::encode_account(&account, &mut row);
        edit_dup(
            tx,
            Table::AccountChangeSets,
            &number(1),
            address(9).as_slice(),
            Some(&row),
        );
    };
    check(
        wrong,
        &["AccountChangeSets, StorageChangeSets block 1: undoing the block gives root 0x"],
    );
}

#[test]
fn slot_changesets() {
    let key = codec::storage_change_key(1, &address(0));
    check(
        |_, tx| {
            edit_dup(
                tx,
                Table::StorageChangeSets,
                &key,
                slot(3).as_slice(),
                Some(&[77]),
            )
        },
        &["AccountChangeSets, StorageChangeSets block 1: undoing the block gives root 0x"],
    );
    check(
        |_, tx| {
            edit_dup(
                tx,
                Table::StorageChangeSets,
                &codec::storage_change_key(9, &address(0)),
                slot(3).as_slice(),
                Some(&[77]),
            )
        },
        &[&format!(
            "StorageChangeSets 9/{}: belongs to nothing",
            address(0).to_string().to_lowercase()
        )],
    );
}

/// Reads a row of every kind back through the ordinary ways.
fn read_everything(db: &StateDb) -> Vec<String> {
    let view = db.view().unwrap();
    let mut errors = Vec::new();
    let mut note = |error: Option<crate::DbError>| errors.extend(error.map(|e| e.to_string()));
    for number in 0..=5 {
        note(view.block(number).err());
        note(view.receipts(number).err());
        note(view.transaction(number).err());
    }
    for who in 0..12 {
        note(view.account(address(who)).err());
        note(view.account_at(address(who), 2).err());
        note(view.storage_at(address(who), slot(4), 2).err());
        let code = Bytes::from(vec![0x60, who as u8, 0x60, 0, 0x55, 0]);
        note(view.bytecode(keccak256(&code)).err());
    }
    errors
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn damaged_bytes_are_found_and_never_panic(
        spoiled in proptest::collection::vec(
            (0..Table::ALL.len(), any::<proptest::sample::Index>(), any::<proptest::sample::Index>(), any::<u8>(), any::<bool>()),
            1..12,
        ),
    ) {
        let chain = Chain::new(&fixed_blocks());
        let tx = chain.db.write().unwrap();
        let mut changed = false;
        for (table, row, at, byte, cut) in spoiled {
            let table = Table::ALL[table];
            changed |= damage(&tx, table, row, at, (byte, cut));
        }
        tx.commit().unwrap();
        match chain.db.verify(&options(), &mut |_| {}) {
            Ok(report) => prop_assert!(!changed || !report.findings.is_empty()),
            Err(error) => prop_assert!(matches!(error, crate::DbError::NoGenesis), "{}", error),
        }
        for error in read_everything(&chain.db) {
            prop_assert!(!error.contains("panicked"), "{}", error);
        }
    }
}

/// Spoils one row's value; false when the table is empty or the row stays as it was.
fn damage(
    tx: &DbWrite,
    table: Table,
    row: proptest::sample::Index,
    at: proptest::sample::Index,
    (byte, cut): (u8, bool),
) -> bool {
    let mut rows = Vec::new();
    tx.for_each_row(table, |key, value| {
        rows.push((key.to_vec(), value.to_vec()))
    })
    .unwrap();
    if rows.is_empty() || table == Table::Metadata {
        return false;
    }
    let (key, value) = rows[row.index(rows.len())].clone();
    let mut spoiled = value.clone();
    if cut {
        spoiled.truncate(at.index(value.len() + 1));
    } else if !spoiled.is_empty() {
        let at = at.index(value.len());
        spoiled[at] ^= byte;
    }
    if spoiled == value || (table.is_dup_sort() && spoiled.is_empty()) {
        return false;
    }
    let mut cursor = tx.cursor(table).unwrap();
    if table.is_dup_sort() {
        let found: Option<Vec<u8>> = cursor.get_both(&key, &value).unwrap();
        assert!(found.is_some());
        cursor.del().unwrap();
    }
    cursor.put(&key, &spoiled, WriteFlags::UPSERT).unwrap();
    true
}
