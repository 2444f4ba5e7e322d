//! Long random runs, longer than a test may take: how each is started.

use crate::{
    go,
    steps::{cargo, run},
};
use eyre::{Result, bail};
use std::path::{Path, PathBuf};

/// What to run.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Soak {
    /// Random blocks, built and judged by bench-reth and by geth (needs Go).
    Agreement {
        /// Blocks to make, over all fork schedules together.
        #[arg(long, default_value_t = 2_000)]
        blocks: u64,
        /// What the blocks are drawn from; the same seed gives the same blocks.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Plays the file that a disagreement left instead of drawing blocks.
        #[arg(long, conflicts_with_all = ["blocks", "seed"])]
        replay: Option<PathBuf>,
    },
}

/// Runs it to its end.
pub(crate) fn start(root: &Path, soak: &Soak) -> Result<()> {
    match soak {
        Soak::Agreement {
            blocks,
            seed,
            replay,
        } => agreement(root, *blocks, *seed, replay.as_deref()),
    }
}

fn agreement(root: &Path, blocks: u64, seed: u64, replay: Option<&Path>) -> Result<()> {
    if let Some(why) = go::missing() {
        bail!("failed to install geth: {why}");
    }
    go::install_geth(root)?;
    let test = if replay.is_some() { "replay" } else { "soak" };
    let mut command = cargo(root);
    command
        .args(["test", "--release", "-p", "bench-reth", "--locked"])
        .args(["--test", "agreement", "--", "--ignored", "--exact", test])
        .arg("--nocapture")
        .env(go::GETH_VARIABLE, go::geth(root))
        .env("AGREEMENT_BLOCKS", blocks.to_string())
        .env("AGREEMENT_SEED", seed.to_string());
    if let Some(file) = replay {
        command.env("AGREEMENT_REPLAY", std::path::absolute(file)?);
    }
    run(&mut command)
}
