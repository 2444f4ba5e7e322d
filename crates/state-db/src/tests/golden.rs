//! The rows a small block leaves behind, byte for byte.

use super::chain::{Chain, Op, address, slot};
use crate::{Table, testing::dump};
use alloy_consensus::transaction::SignerRecoverable as _;
use alloy_primitives::{b256, hex, keccak256};

/// One block on the base state: account 1 gets balance 0x0102 and its slot 3 (value 4) is removed;
/// account 9, which did not exist, gets slot 5 set to 1.
fn chain() -> Chain {
    Chain::new(&[vec![
        Op::Balance {
            who: 1,
            balance: 0x0102,
        },
        Op::Slot {
            who: 1,
            slot: 3,
            value: 0,
        },
        Op::Slot {
            who: 9,
            slot: 5,
            value: 1,
        },
    ]])
}

fn check(chain: &Chain, table: Table, mut expected: Vec<(Vec<u8>, Vec<u8>)>) {
    expected.sort();
    assert_eq!(dump(&chain.db, table), expected, "{}", table.name());
}

fn row(key: &[&[u8]], value: &[&[u8]]) -> (Vec<u8>, Vec<u8>) {
    (key.concat(), value.concat())
}

/// The code of base account 1, `60 01 60 00 55 00`.
fn code_hash() -> [u8; 32] {
    *keccak256(hex!("600160005500"))
}

const ONE: [u8; 8] = hex!("0000000000000001");

#[test]
fn changesets_hold_what_was_before() {
    let chain = chain();
    let (old, new) = (address(1), address(9));
    check(
        &chain,
        Table::AccountChangeSets,
        // Nonce 1, balance 2, code: nonce length 1, balance length 1 << 4, code flag 1 << 10.
        vec![
            row(
                &[&ONE],
                &[old.as_slice(), &hex!("1104 01 02"), &code_hash()],
            ),
            row(&[&ONE], &[new.as_slice()]),
        ],
    );
    check(
        &chain,
        Table::StorageChangeSets,
        vec![
            row(&[&ONE, old.as_slice()], &[slot(3).as_slice(), &hex!("04")]),
            row(&[&ONE, new.as_slice()], &[slot(5).as_slice()]),
        ],
    );
}

#[test]
fn histories_end_with_an_open_shard() {
    let chain = chain();
    let open = [0xff; 8];
    let block_one = hex!("0100000000000000 00000000 3a300000 01000000 0000 0000 10000000 0100");
    let accounts = [1, 9].map(|index| row(&[address(index).as_slice(), &open], &[&block_one]));
    check(&chain, Table::AccountsHistory, accounts.into());
    let slots = [(1, 3), (9, 5)].map(|(who, index)| {
        row(
            &[address(who).as_slice(), slot(index).as_slice(), &open],
            &[&block_one],
        )
    });
    check(&chain, Table::StoragesHistory, slots.into());
}

#[test]
fn state_rows_are_accounts_and_trimmed_slots() {
    let chain = chain();
    let has = |table, key: &[u8], value: &[&[u8]]| {
        let expected = row(&[key], value);
        assert!(
            dump(&chain.db, table).contains(&expected),
            "{}: {expected:?}",
            table.name()
        );
    };
    // Nonce 3 (base 1 and two changes), balance 0x0102, the code.
    let account = [&hex!("2104 03 0102")[..], &code_hash()].concat();
    has(Table::PlainAccountState, address(1).as_slice(), &[&account]);
    has(
        Table::HashedAccounts,
        keccak256(address(1)).as_slice(),
        &[&account],
    );
    let (plain, hashed) = (slot(5), keccak256(slot(5)));
    has(
        Table::PlainStorageState,
        address(9).as_slice(),
        &[plain.as_slice(), &hex!("01")],
    );
    let key = keccak256(address(9));
    has(
        Table::HashedStorages,
        key.as_slice(),
        &[hashed.as_slice(), &hex!("01")],
    );
    let gone = slot(3);
    let stored = dump(&chain.db, Table::PlainStorageState);
    let of_one = stored
        .iter()
        .filter(|(key, _)| key.as_slice() == address(1).as_slice());
    assert_eq!(
        of_one
            .filter(|(_, value)| value.starts_with(gone.as_slice()))
            .count(),
        0
    );
}

#[test]
fn block_rows_are_keyed_by_number_or_hash() {
    let chain = chain();
    chain.db.set_forkchoice(Some(1), Some(0)).unwrap();
    let (zero, genesis) = ([0; 8], chain.genesis.hash);
    let block = chain.blocks[0].stored();
    check(
        &chain,
        Table::CanonicalHeaders,
        vec![
            row(&[&zero], &[genesis.as_slice()]),
            row(&[&ONE], &[block.hash.as_slice()]),
        ],
    );
    check(
        &chain,
        Table::HeaderNumbers,
        vec![
            row(&[genesis.as_slice()], &[&[0; 8]]),
            row(&[block.hash.as_slice()], &[&hex!("0100000000000000")]),
        ],
    );
    // One transaction, number 0.
    check(
        &chain,
        Table::BlockBodyIndices,
        vec![row(&[&zero], &[&[0]]), row(&[&ONE], &[&hex!("10 01")])],
    );
    check(
        &chain,
        Table::TransactionBlocks,
        vec![row(&[&zero], &[&hex!("0100000000000000")])],
    );
    let sender = block.transactions[0].recover_signer().unwrap();
    check(
        &chain,
        Table::TransactionSenders,
        vec![row(&[&zero], &[sender.as_slice()])],
    );
    let hash = block.transactions[0].tx_hash();
    check(
        &chain,
        Table::TransactionHashNumbers,
        vec![row(&[hash.as_slice()], &[&[0; 8]])],
    );
    check(
        &chain,
        Table::ChainState,
        vec![
            row(&[&[0]], &[&[0; 8]]),
            row(&[&[1]], &[&hex!("0100000000000000")]),
        ],
    );
    let stages = crate::write::STAGES.map(|stage| row(&[stage.as_bytes()], &[&hex!("01 01")]));
    check(&chain, Table::StageCheckpoints, stages.into());
}

#[test]
fn code_is_stored_with_its_jump_table() {
    // The code, padded by one zero byte so that it cannot end inside a push; its original length;
    // a bitmap of jump destinations (none).
    let chain = chain();
    let hash = b256!("0000000000000000000000000000000000000000000000000000000000000000");
    assert_eq!(chain.db.view().unwrap().bytecode(hash).unwrap(), None);
    let rows = dump(&chain.db, Table::Bytecodes);
    let (_, value) = rows
        .iter()
        .find(|(key, _)| key.as_slice() == code_hash())
        .unwrap();
    let padded_len = u32::from_be_bytes(value[..4].try_into().unwrap()) as usize;
    assert_eq!(value[4..10], hex!("600160005500"));
    assert!(value[10..4 + padded_len].iter().all(|byte| *byte == 0));
    let rest = &value[4 + padded_len..];
    assert_eq!(rest[..9], hex!("02 0000000000000006"));
    assert!(rest[9..].iter().all(|byte| *byte == 0));
}
