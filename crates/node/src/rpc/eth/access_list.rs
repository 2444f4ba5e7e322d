//! `eth_createAccessList`: the accounts and slots a message touches, and its gas with that list.

use super::{
    Answer,
    execution::{Prepared, prepare},
    machine::Machine,
    watch::Accesses,
};
use crate::rpc::Context;
use alloy_eips::eip2930::AccessListResult;
use alloy_primitives::{TxKind, U256, map::AddressSet};
use jsonrpsee::types::Params;
use revm::{
    context::TxEnv,
    context_interface::{either::Either, transaction::AuthorizationTr},
};

/// `eth_createAccessList`. A list can change what a message does, so it is run again with the
/// list found until the list no longer grows.
pub(super) fn create(params: &Params<'_>, context: &Context) -> Answer<AccessListResult> {
    let Prepared {
        mut machine,
        mut tx,
        ..
    } = prepare(params, context)?;
    if tx.tx_type == 0 {
        // With a list a message is of the type that has one.
        tx.tx_type = 1;
    }
    let excluded = excluded(&mut machine, &tx)?;
    let mut list = Accesses::new(tx.access_list.clone(), excluded.clone()).to_list();
    loop {
        tx.access_list = list.clone();
        machine.collect(Accesses::new(list.clone(), excluded.clone()));
        let result = machine.run(tx.clone()).map_err(|stopped| {
            stopped.wrapped(|reason| format!("failed to apply transaction: err: {reason}"))
        })?;
        let found = machine.collected().to_list();
        if found == list {
            return Ok(AccessListResult {
                access_list: list,
                gas_used: U256::from(result.tx_gas_used()),
                error: machine.failure_text(&result),
            });
        }
        list = found;
    }
}

/// Accounts that are warm anyway: sender, receiver, precompiles and authorities.
fn excluded(machine: &mut Machine, tx: &TxEnv) -> Answer<AddressSet> {
    let mut excluded = machine.precompiles();
    excluded.insert(tx.caller);
    excluded.insert(match tx.kind {
        TxKind::Call(to) => to,
        TxKind::Create => tx.caller.create(machine.account(tx.caller)?.nonce),
    });
    for authorization in &tx.authorization_list {
        let authority = match authorization {
            Either::Left(signed) => signed.authority(),
            Either::Right(recovered) => recovered.authority(),
        };
        excluded.extend(authority);
    }
    Ok(excluded)
}
