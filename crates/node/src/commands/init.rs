//! `init`: creates a datadir from a genesis file, or from a generated base state.

use super::{datadir::Datadir, failure, genesis};
use crate::chainspec::ChainSpec;
use alloy_primitives::B256;
use eyre::{Context as _, bail, eyre};
use state_db::{LoadItem, OpenOptions, StateDb};
use tracing::info;
use workload::{BaseState, Profile, StateItem};

/// What to create.
#[derive(Debug, Clone)]
pub struct InitConfig {
    /// Where.
    pub datadir: Datadir,
    /// How to open the database.
    pub database: OpenOptions,
    /// A generated base state instead of a genesis file.
    pub profile: Option<Profile>,
    /// Seed of the generated base state.
    pub seed: u64,
}

/// Creates the datadir; with a genesis file, an equal one that exists is left as it is.
///
/// # Errors
/// When the datadir holds something else, or cannot be written.
pub fn run(config: InitConfig) -> eyre::Result<()> {
    info!(target: "reth::cli", "bench-reth init starting");
    let hash = match config.profile {
        Some(profile) => generate(&config, profile)?,
        None => {
            let chain = config.datadir.chain_spec()?;
            let db = config.datadir.open(&config.database)?;
            genesis::ensure(&config.datadir, &db, &chain)?;
            chain.genesis_hash()
        }
    };
    info!(target: "reth::cli", %hash, "Genesis block");
    Ok(())
}

fn generate(config: &InitConfig, profile: Profile) -> eyre::Result<B256> {
    let db = config.datadir.open(&config.database)?;
    refuse_populated(&config.datadir, &db)?;
    let base = BaseState::new(profile, config.seed);
    let bar = genesis::progress_bar(base.account_count() + base.slot_count(), "loading state");
    let summary = genesis::load(&db, base.items().map(|item| Ok(load_item(item))), bar)?;
    let json = serde_json::from_value(workload::genesis::chain_json())
        .wrap_err("failed to read the generated chain")?;
    let chain = ChainSpec::new(json, Some(summary.state_root))
        .map_err(|problem| eyre!("failed to {problem} (the generated chain)"))?;
    genesis::write(&config.datadir, &db, &chain)?;
    Ok(chain.genesis_hash())
}

/// Refuses a database that has a chain, before time is spent on a state for it.
pub(super) fn refuse_populated(datadir: &Datadir, db: &StateDb) -> eyre::Result<()> {
    let fail = failure::database;
    if let Some(head) = db.view().map_err(fail)?.head().map_err(fail)? {
        bail!(
            "failed to create datadir {}: it already holds a chain, head {} ({}). Use another \
             --datadir, or remove this one",
            datadir.path.display(),
            head.number,
            head.hash
        );
    }
    Ok(())
}

fn load_item(item: StateItem) -> LoadItem {
    match item {
        StateItem::Account {
            address,
            nonce,
            balance,
            code,
        } => LoadItem::Account {
            address,
            nonce,
            balance,
            code,
        },
        StateItem::Slot { key, value } => LoadItem::Slot { key, value },
    }
}
