//! `stage unwind`: removes blocks from the tip down to a block that stays.

use super::{datadir::Datadir, failure};
use crate::cli::args::UnwindTarget;
use alloy_eips::BlockHashOrNumber;
use eyre::{Context as _, eyre};
use state_db::{OpenOptions, StateDb};
use tracing::{debug, info};

/// What to unwind.
#[derive(Debug, Clone)]
pub struct UnwindConfig {
    /// Where.
    pub datadir: Datadir,
    /// How to open the database.
    pub database: OpenOptions,
    /// How far.
    pub target: UnwindTarget,
}

/// Unwinds. The target's state root is recomputed and compared with its header.
///
/// # Errors
/// reth's text when the target is above the tip; then nothing was touched.
pub fn run(config: UnwindConfig) -> eyre::Result<()> {
    let db = config.datadir.open_existing(&config.database)?;
    let target = block_number(&db, &config.target)?;
    let mut stage = |progress: state_db::UnwindProgress| {
        debug!(target: "reth::cli", stage = ?progress.stage, items = progress.items, "Unwinding");
    };
    info!(target: "reth::cli", unwind_target = target, "Executing a pipeline unwind.");
    let summary = db.unwind(target, &mut stage).map_err(failure::unwind)?;
    info!(
        target: "reth::cli",
        number = summary.head.number,
        hash = %summary.head.hash,
        state_root = %summary.state_root,
        count = summary.blocks,
        accounts = summary.accounts,
        slots = summary.slots,
        "Unwound blocks"
    );
    Ok(())
}

fn block_number(db: &StateDb, target: &UnwindTarget) -> eyre::Result<u64> {
    let view = db.view().wrap_err("failed to read the database")?;
    match target {
        UnwindTarget::ToBlock {
            target: BlockHashOrNumber::Number(number),
        } => Ok(*number),
        UnwindTarget::ToBlock {
            target: BlockHashOrNumber::Hash(hash),
        } => view
            .block_number(*hash)
            .wrap_err("failed to read the database")?
            .ok_or_else(|| eyre!("failed to unwind to block {hash}: there is no such block")),
        UnwindTarget::NumBlocks { amount } => {
            let head = view.head().wrap_err("failed to read the database")?;
            Ok(head.map_or(0, |head| head.number).saturating_sub(*amount))
        }
    }
}
