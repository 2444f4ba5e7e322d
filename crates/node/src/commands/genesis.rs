//! Block 0: the one place that fills an empty database.
//!
//! Invariant: a database gets its genesis block only after the loaded state was found to have the
//! root that the genesis header names.

use super::{datadir::Datadir, failure};
use crate::chainspec::ChainSpec;
use alloy_genesis::GenesisAccount;
use alloy_primitives::{Address, B256};
use eyre::bail;
use indicatif::{ProgressBar, ProgressStyle};
use state_db::{LoadItem, LoadSummary, Loader, StateDb, StoredBlock};
use tracing::info;

/// Accounts and slots between two movements of the progress bar.
const PROGRESS_STEP: u64 = 4096;

/// Writes the genesis of `chain` when the database is empty; otherwise checks that it is its.
///
/// # Errors
/// When the database holds another chain, or nothing can be written.
pub fn ensure(datadir: &Datadir, db: &StateDb, chain: &ChainSpec) -> eyre::Result<()> {
    let fail = failure::database;
    match db.view().map_err(fail)?.genesis_hash().map_err(fail)? {
        Some(stored) => check(datadir, chain, stored),
        None => {
            refuse_missing_state(chain)?;
            let accounts = chain.genesis().alloc.iter();
            let items = accounts.flat_map(|(address, account)| account_items(*address, account));
            load(db, items.map(Ok), ProgressBar::hidden())?;
            write(datadir, db, chain)
        }
    }
}

fn check(datadir: &Datadir, chain: &ChainSpec, stored: B256) -> eyre::Result<()> {
    let expected = chain.genesis_hash();
    if stored == expected {
        return Ok(());
    }
    bail!(
        "genesis hash in the storage does not match the specified chainspec: chainspec is \
         {expected}, database is {stored}. Use the chain that {} was made for, or another --datadir",
        datadir.path.display()
    )
}

/// Refuses a chain whose file names a state root instead of listing the accounts.
fn refuse_missing_state(chain: &ChainSpec) -> eyre::Result<()> {
    let root = chain.genesis_header().state_root;
    if chain.genesis().alloc.is_empty() && root != alloy_trie::EMPTY_ROOT_HASH {
        bail!(
            "failed to write the genesis: the genesis file names the state root {root} but lists \
             no accounts. Create the datadir with `init --profile` or `init-state`"
        );
    }
    Ok(())
}

/// An account of a genesis file as the loader takes it.
fn account_items(
    address: Address,
    account: &GenesisAccount,
) -> impl Iterator<Item = LoadItem> + '_ {
    let slots = account.storage.iter().flatten();
    let slots = slots.map(|(key, value)| LoadItem::Slot {
        key: *key,
        value: (*value).into(),
    });
    let head = LoadItem::Account {
        address,
        nonce: account.nonce.unwrap_or_default(),
        balance: account.balance,
        code: account.code.clone().filter(|code| !code.is_empty()),
    };
    std::iter::once(head).chain(slots)
}

/// Stores `items` in an empty database, moving `progress` as it goes.
pub(super) fn load(
    db: &StateDb,
    items: impl Iterator<Item = eyre::Result<LoadItem>>,
    progress: ProgressBar,
) -> eyre::Result<LoadSummary> {
    let fail = failure::database;
    if db.clear_interrupted_load().map_err(fail)? {
        info!(target: "reth::cli", "Removed the state that an interrupted init had left");
    }
    let mut loader = Loader::new(db).map_err(fail)?;
    for (index, item) in (1_u64..).zip(items) {
        loader.push(item?).map_err(fail)?;
        if index.is_multiple_of(PROGRESS_STEP) {
            progress.inc(PROGRESS_STEP);
        }
    }
    progress.set_message("building tries");
    let summary = loader.finish().map_err(fail)?;
    progress.finish_and_clear();
    info!(
        target: "reth::cli",
        accounts = summary.accounts,
        slots = summary.slots,
        state_root = %summary.state_root,
        "Loaded state"
    );
    Ok(summary)
}

/// Makes block 0 of `chain` over the loaded state and keeps the chain in the datadir.
pub(super) fn write(datadir: &Datadir, db: &StateDb, chain: &ChainSpec) -> eyre::Result<()> {
    let header = chain.genesis_header().clone();
    let withdrawals = header.withdrawals_root.map(|_| Default::default());
    let block = StoredBlock {
        header,
        hash: chain.genesis_hash(),
        withdrawals,
        ..Default::default()
    };
    // First, because a database with a genesis block needs its chain; without, it is replaced.
    datadir.keep_chain(chain)?;
    db.write_genesis(&block).map_err(failure::database)?;
    info!(target: "reth::cli", hash = %chain.genesis_hash(), "Genesis block written");
    Ok(())
}

/// A bar on standard error that is silent when that is not a terminal.
pub(super) fn progress_bar(items: u64, what: &'static str) -> ProgressBar {
    let template = "{msg} [{bar:40}] {human_pos}/{human_len} {eta}";
    let style =
        ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(items).with_style(style).with_message(what)
}
