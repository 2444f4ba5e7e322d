//! Code against its hash, and against the accounts that have or had it.

use super::{
    Audit,
    walk::{MISSING, Walk, words},
};
use crate::{codec, error::DbError, loader::Sorter, tables::Table, tx::DbView};
use alloy_primitives::{KECCAK256_EMPTY, hex, keccak256};
use reth_codecs::Compact;
use reth_primitives_traits::Bytecode;
use state_root::updates::Account;

/// Every code an account has or had must be there; every code must hash to its key.
pub(super) fn check(view: &DbView, audit: &mut Audit<'_>) -> Result<(), DbError> {
    let mut used = audit.sorter(32, 4);
    let mut accounts = Walk::new(view, Table::PlainAccountState)?;
    while let Some((address, value)) = accounts.pop()? {
        audit.step();
        // What does not decode was found with the state.
        note_use(audit, &mut used, &address, codec::decode_account(&value))?;
    }
    let mut changes = Walk::new(view, Table::AccountChangeSets)?;
    while let Some((_, value)) = changes.pop()? {
        audit.step();
        if let Some((address, before)) = codec::decode_account_change(&value) {
            note_use(audit, &mut used, address.as_slice(), before)?;
        }
    }
    compare(view, audit, used)
}

fn note_use(
    audit: &Audit<'_>,
    used: &mut Sorter,
    address: &[u8],
    account: Option<Account>,
) -> Result<(), DbError> {
    let code = account.map(|account| account.code_hash);
    match code.filter(|hash| *hash != KECCAK256_EMPTY) {
        Some(hash) => audit.push(used, hash.as_slice(), address),
        None => Ok(()),
    }
}

/// Walks stored code and used code together.
fn compare(view: &DbView, audit: &mut Audit<'_>, used: Sorter) -> Result<(), DbError> {
    let table = Table::Bytecodes;
    let folder = audit.options.sort_folder.clone();
    let mut used = crate::loader::Input::new(used, &folder)?;
    let mut stored = Walk::new(view, table)?;
    while let Some((key, value)) = stored.pop()? {
        while used.live && used.key[..] < key[..] {
            find_missing(audit, &used.key, &used.value);
            skip(&mut used)?;
        }
        if used.live && used.key[..] == key[..] {
            skip(&mut used)?;
        } else {
            audit.orphan_codes += 1;
        }
        if let Some(problem) = code_problem(&key, &value) {
            audit.find(table, words(table, &key), problem);
        }
    }
    while used.live {
        find_missing(audit, &used.key, &used.value);
        skip(&mut used)?;
    }
    Ok(())
}

/// Goes to the next code: many accounts have the same.
fn skip(used: &mut crate::loader::Input<'_>) -> Result<(), DbError> {
    while used.advance()? {}
    Ok(())
}

fn find_missing(audit: &mut Audit<'_>, hash: &[u8], user: &[u8]) {
    let table = Table::Bytecodes;
    let problem = format!("{MISSING}; account {} uses it", hex::encode_prefixed(user));
    audit.find(table, words(table, hash), problem);
}

fn code_problem(key: &[u8], value: &[u8]) -> Option<String> {
    let Some(code) = codec::decode_compact::<Bytecode>(value) else {
        return Some(super::report::UNDECODABLE.to_owned());
    };
    let original = code.original_bytes();
    let hash = keccak256(&original);
    if hash.as_slice() != key {
        return Some(format!("hashes to {hash}"));
    }
    let mut again = Vec::with_capacity(value.len());
    Bytecode::new_raw(original).to_compact(&mut again);
    (again != value).then(|| "has a wrong jump table".to_owned())
}
