//! State overrides before a simulated block.
//!
//! Accounts are taken in the order of their addresses, so that of several mistakes always the same
//! one is told.

use crate::{
    engine::{ReadError, TrialState},
    rpc::{
        error::{error, from_read},
        eth::{
            Answer,
            refusal::{both_storages, failed},
        },
    },
};
use alloy_evm::precompiles::PrecompilesMap;
use alloy_primitives::{Address, B256, Bytes};
use alloy_rpc_types_eth::state::{AccountOverride, StateOverride};
use revm::{
    Database, DatabaseCommit,
    bytecode::Bytecode,
    state::{Account, AccountStatus, EvmStorageSlot, TransactionId},
};

/// A precompile that is moved to where it is.
const MOVED_TO_ITSELF: i32 = -38022;

/// `overrides` by address.
fn sorted(overrides: &StateOverride) -> Vec<(Address, &AccountOverride)> {
    let mut sorted: Vec<_> = overrides.iter().map(|(a, account)| (*a, account)).collect();
    sorted.sort_unstable_by_key(|(address, _)| *address);
    sorted
}

/// Moves precompiles, and takes away those whose account is overridden. Of two that are moved to
/// one address the one with the higher address is found there.
pub(super) fn move_precompiles(
    precompiles: &mut PrecompilesMap,
    overrides: &StateOverride,
) -> Answer<()> {
    for (from, account) in sorted(overrides) {
        let mut taken = None;
        precompiles.apply_precompile(&from, |precompile| {
            taken = precompile;
            None
        });
        let Some(to) = account.move_precompile_to else {
            continue;
        };
        let Some(precompile) = taken else {
            return Err(failed(format!("account {from} is not a precompile")));
        };
        if to == from {
            let problem = format!("precompile {from} is moved to itself");
            return Err(error(MOVED_TO_ITSELF, problem));
        }
        if overrides.contains_key(&to) {
            return Err(failed(format!("account {to} is already overridden")));
        }
        precompiles.apply_precompile(&to, |_| Some(precompile));
    }
    Ok(())
}

/// Writes overridden accounts.
pub(super) fn apply(state: &mut TrialState, overrides: &StateOverride) -> Answer<()> {
    for (address, given) in sorted(overrides) {
        apply_one(state, address, given)?;
    }
    Ok(())
}

fn apply_one(state: &mut TrialState, address: Address, given: &AccountOverride) -> Answer<()> {
    let slots = match (&given.state, &given.state_diff) {
        (Some(_), Some(_)) => return Err(both_storages(address)),
        (slots, diff) => slots.as_ref().or(diff.as_ref()),
    };
    let is_storage_alone = given.nonce.is_none() && given.balance.is_none() && given.code.is_none();
    if is_storage_alone && slots.is_none() {
        return Ok(());
    }
    let info = state.basic(address);
    let info = info.map_err(|problem| from_read(ReadError(problem.to_string())))?;
    let mut account = info.map_or_else(
        || Account::new_not_existing(TransactionId::ZERO),
        Account::from,
    );
    account.mark_touch();
    account.info.nonce = given.nonce.unwrap_or(account.info.nonce);
    account.info.balance = given.balance.unwrap_or(account.info.balance);
    if let Some(code) = &given.code {
        let code = bytecode(code);
        account.info.code_hash = code.hash_slow();
        account.info.code = Some(code);
    }
    if given.state.is_some() {
        let mut cleared = Account::default();
        cleared.status = AccountStatus::SelfDestructed | AccountStatus::Touched;
        state.commit([(address, cleared)].into_iter().collect());
        account.mark_created();
    }
    if account.info.is_empty() {
        // It was asked for, so it is there, as no transaction could leave it.
        account.mark_created();
    }
    for (slot, value) in slots.into_iter().flatten() {
        account.storage.insert((*slot).into(), changed_to(*value));
    }
    state.commit([(address, account)].into_iter().collect());
    Ok(())
}

/// A delegation when it is a whole one, else code that runs as it is.
fn bytecode(code: &Bytes) -> Bytecode {
    Bytecode::new_raw_checked(code.clone()).unwrap_or_else(|_| Bytecode::new_legacy(code.clone()))
}

/// A slot that counts as changed, whatever was in it.
fn changed_to(value: B256) -> EvmStorageSlot {
    EvmStorageSlot {
        original_value: (!value).into(),
        present_value: value.into(),
        is_cold: false,
        transaction_id: TransactionId::ZERO,
    }
}
