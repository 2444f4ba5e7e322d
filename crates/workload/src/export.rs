//! A base state in the formats other engines read: a genesis file and reth's state dump.
//!
//! Invariant: both are streamed; no more than one account is formatted at a time.

use crate::{BaseState, StateItem, genesis::chain_json};
use alloy_primitives::{B256, U256};
use serde_json::{Value, json};
use std::io::{self, Write};

/// Writes a genesis with the whole state in `alloc`, as geth and reth read it.
///
/// Meant for the small profile: readers hold such a file in memory.
///
/// # Errors
/// When `out` cannot be written.
pub fn write_genesis(base: &BaseState, out: &mut impl Write) -> io::Result<()> {
    let chain = chain_json().to_string();
    // The object is reopened so that the accounts need not be held together.
    let opened = chain.strip_suffix('}').unwrap_or(&chain);
    write!(out, "{opened},\"alloc\":{{")?;
    for index in 0..base.account_count() {
        let separator = if index == 0 { "" } else { "," };
        if let Some(account) = account_head(&base.account(index)) {
            write!(out, "{separator}\n{}:", account.address)?;
            write_account(out, &account.fields, base.slots(index))?;
        }
    }
    writeln!(out, "\n}}}}")
}

/// Writes the dump that `init-state` of reth and bench-reth reads: a line with the state root,
/// then an account a line.
///
/// # Errors
/// When `out` cannot be written.
pub fn write_state_dump(base: &BaseState, root: B256, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{}", json!({ "root": root }))?;
    for index in 0..base.account_count() {
        if let Some(account) = account_head(&base.account(index)) {
            let fields = format!("{{\"address\":{},{}", account.address, &account.fields[1..]);
            write_account(out, &fields, base.slots(index))?;
            writeln!(out)?;
        }
    }
    Ok(())
}

/// An account's JSON up to its storage.
struct AccountHead {
    /// A JSON string.
    address: Value,
    /// A JSON object.
    fields: String,
}

fn account_head(item: &StateItem) -> Option<AccountHead> {
    let StateItem::Account {
        address,
        nonce,
        balance,
        code,
    } = item
    else {
        return None;
    };
    let mut fields = json!({ "balance": balance, "nonce": format!("{nonce:#x}") });
    if let Some(code) = code {
        fields["code"] = json!(code);
    }
    Some(AccountHead {
        address: json!(address),
        fields: fields.to_string(),
    })
}

fn write_account(
    out: &mut impl Write,
    fields: &str,
    slots: impl Iterator<Item = StateItem>,
) -> io::Result<()> {
    let opened = fields.strip_suffix('}').unwrap_or(fields);
    out.write_all(opened.as_bytes())?;
    let mut separator = ",\"storage\":{";
    let mut any = false;
    for slot in slots {
        if let StateItem::Slot { key, value } = slot {
            write!(out, "{separator}\"{key}\":\"{}\"", word(value))?;
            (separator, any) = (",", true);
        }
    }
    out.write_all(if any { b"}}" } else { b"}" })
}

/// A storage value as genesis files have it: a whole word.
fn word(value: U256) -> B256 {
    value.into()
}
