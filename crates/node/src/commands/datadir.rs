//! A datadir's files and how they are opened.
//!
//! Invariant: `chain.json` in a datadir is the chain its database was made for, without accounts
//! but with their state root.

use super::failure;
use crate::chainspec::ChainSpec;
use eyre::{Context as _, bail, eyre};
use state_db::{OpenOptions, StateDb, replace_file};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};
use tracing::info;

/// Name of the genesis file that a datadir keeps.
const CHAIN_FILE: &str = "chain.json";

/// A datadir, and the genesis file when one was named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Datadir {
    /// The directory.
    pub path: PathBuf,
    /// Genesis file to use instead of the datadir's own.
    pub chain: Option<PathBuf>,
}

impl Datadir {
    /// Reads the rules of the chain, from the file that was named or else from the datadir.
    ///
    /// # Errors
    /// When there is no such file or it is not a genesis file.
    pub fn chain_spec(&self) -> eyre::Result<Arc<ChainSpec>> {
        let own = self.path.join(CHAIN_FILE);
        let path = match &self.chain {
            Some(path) => path,
            None if own.is_file() => &own,
            None => bail!(
                "failed to find the chain of datadir {}: it has no {CHAIN_FILE}. Name a genesis \
                 file with --chain FILE, or create the datadir with `init`",
                self.path.display()
            ),
        };
        let json = fs::read_to_string(path)
            .wrap_err_with(|| format!("failed to read the genesis file {}", path.display()))?;
        let chain = ChainSpec::from_json(&json)
            .map_err(|problem| eyre!("failed to {problem} ({})", path.display()))?;
        Ok(Arc::new(chain))
    }

    /// Keeps `chain` in the datadir, so that later commands need no `--chain`.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn keep_chain(&self, chain: &ChainSpec) -> eyre::Result<()> {
        let path = self.path.join(CHAIN_FILE);
        let context = || format!("failed to write {}", path.display());
        let mut genesis = chain.genesis().clone();
        genesis.alloc.clear();
        let mut value = serde_json::to_value(&genesis).wrap_err_with(context)?;
        value["stateRoot"] =
            serde_json::to_value(chain.genesis_header().state_root).wrap_err_with(context)?;
        value["gasUsed"] = format!("{:#x}", chain.genesis_header().gas_used).into();
        let text = serde_json::to_string_pretty(&value).wrap_err_with(context)?;
        replace_file(&path, text.as_bytes()).wrap_err_with(context)
    }

    /// Opens the database, which creates it if there is none, and finishes an interrupted unwind.
    ///
    /// # Errors
    /// When another process holds the datadir, or the database cannot be used.
    pub fn open(&self, options: &OpenOptions) -> eyre::Result<StateDb> {
        info!(target: "reth::cli", path = %self.path.display(), "Opening database");
        let db = StateDb::open(&self.path, options).map_err(|problem| self.explain(&problem))?;
        if let Some(target) = db
            .pending_unwind()
            .map_err(|problem| self.explain(&problem))?
        {
            info!(target: "reth::cli", target, "Finishing an interrupted unwind");
            db.unwind(target, &mut |_| {})
                .map_err(failure::unwind)
                .wrap_err_with(|| format!("failed to finish the unwind to block {target}"))?;
        }
        Ok(db)
    }

    /// Opens the database only to look; works beside a running node.
    ///
    /// # Errors
    /// When there is no database or it cannot be read.
    pub fn open_read_only(&self) -> eyre::Result<StateDb> {
        let options = OpenOptions {
            read_only: true,
            ..OpenOptions::default()
        };
        StateDb::open(&self.path, &options).map_err(|problem| self.explain(&problem))
    }

    /// Opens the database of a datadir that must have one.
    ///
    /// # Errors
    /// When it has none, and like [`Self::open`].
    pub fn open_existing(&self, options: &OpenOptions) -> eyre::Result<StateDb> {
        let file = self.path.join("db").join("mdbx.dat");
        if !file.is_file() {
            bail!(
                "failed to open datadir {}: it has no database ({} does not exist). Create one with \
                 `init`",
                self.path.display(),
                file.display()
            );
        }
        self.open(options)
    }

    /// Where the JWT secret lives when no file is named.
    pub fn default_jwt_secret(&self) -> PathBuf {
        self.path.join("jwt.hex")
    }

    fn explain(&self, problem: &state_db::DbError) -> eyre::Report {
        let text = format!("failed to open datadir {}: {problem}", self.path.display());
        failure::report(problem.is_storage_failure(), text)
    }
}

impl AsRef<Path> for Datadir {
    fn as_ref(&self) -> &Path {
        &self.path
    }
}
