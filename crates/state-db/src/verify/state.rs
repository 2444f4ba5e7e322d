//! Plain state against hashed state, in both directions.

use super::{
    Audit,
    compare::{Comparison, Shape, bytes_differ},
    walk::{Walk, words},
};
use crate::{codec, error::DbError, tables::Table, tx::DbView};
use alloy_primitives::{B256, keccak256};

/// Length of a slot in a value, in bytes.
const SLOT_BYTES: usize = 32;

/// Hashes every plain row and compares the results with the hashed tables.
pub(super) fn check(view: &DbView, audit: &mut Audit<'_>) -> Result<(), DbError> {
    check_accounts(view, audit)?;
    check_slots(view, audit)
}

fn check_accounts(view: &DbView, audit: &mut Audit<'_>) -> Result<(), DbError> {
    let table = Table::PlainAccountState;
    let mut hashed = audit.sorter(32, 2);
    let mut rows = Walk::new(view, table)?;
    while let Some((address, value)) = rows.pop()? {
        audit.step();
        if address.len() == 20 && codec::decode_account(&value).is_some() {
            audit.push(&mut hashed, keccak256(&address).as_slice(), &value)?;
        } else {
            audit.find_undecodable(table, words(table, &address));
        }
    }
    let comparison = Comparison {
        table: Table::HashedAccounts,
        shape: Shape::Key,
        differs: bytes_differ,
    };
    comparison.run(view, audit, hashed)
}

fn check_slots(view: &DbView, audit: &mut Audit<'_>) -> Result<(), DbError> {
    let table = Table::PlainStorageState;
    let mut hashed = audit.sorter(64, 5);
    let mut rows = Walk::new(view, table)?;
    let mut account = (Vec::new(), B256::ZERO);
    let mut before: Option<B256> = None;
    while let Some((address, value)) = rows.pop()? {
        audit.step();
        if *address != *account.0 {
            account = (address.to_vec(), keccak256(&address));
            before = None;
            if view.get(Table::PlainAccountState, &address)?.is_none() {
                audit.find(table, words(table, &address), "has no account");
            }
        }
        let Some((slot, number)) = codec::decode_slot(&value).filter(|_| address.len() == 20)
        else {
            audit.find_undecodable(table, words(table, &address));
            continue;
        };
        let key = || words(table, &[&address[..], slot.as_slice()].concat());
        if before.replace(slot) == Some(slot) {
            audit.find(table, key(), "is stored twice");
            continue;
        }
        if number.is_zero() {
            audit.find(table, key(), "is zero");
        }
        let hashed_key = [account.1.as_slice(), keccak256(slot).as_slice()].concat();
        audit.push(&mut hashed, &hashed_key, &value[SLOT_BYTES..])?;
    }
    let comparison = Comparison {
        table: Table::HashedStorages,
        shape: Shape::Subkey(SLOT_BYTES),
        differs: bytes_differ,
    };
    comparison.run(view, audit, hashed)
}
