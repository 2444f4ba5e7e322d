//! `init-state`: creates a datadir whose genesis state is read from a dump in JSON lines.
//!
//! The dump is reth's: `{"root":"0x.."}` first, then one account a line. It is streamed; no more
//! than one account is held at a time.

use super::{datadir::Datadir, genesis, init::refuse_populated};
use crate::chainspec::ChainSpec;
use alloy_primitives::{Address, B256, Bytes, U256};
use eyre::{Context as _, bail, eyre};
use serde::Deserialize;
use state_db::{LoadItem, OpenOptions};
use std::{
    collections::BTreeMap,
    fs::File,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    sync::Arc,
};
use tracing::info;

/// What to create.
#[derive(Debug, Clone)]
pub struct InitStateConfig {
    /// Where.
    pub datadir: Datadir,
    /// How to open the database.
    pub database: OpenOptions,
    /// The dump.
    pub dump: PathBuf,
}

/// The first line of a dump.
#[derive(Deserialize)]
struct DumpRoot {
    root: B256,
}

/// Every other line of a dump.
#[derive(Deserialize)]
struct DumpAccount {
    address: Address,
    balance: U256,
    nonce: Option<alloy_primitives::U64>,
    code: Option<Bytes>,
    #[serde(default)]
    storage: BTreeMap<B256, B256>,
}

/// Loads the dump and makes it the genesis state.
///
/// # Errors
/// When a line does not parse (its number is told), or when the root of the dump is not that of
/// its accounts or not that of the chain.
pub fn run(config: InitStateConfig) -> eyre::Result<()> {
    let chain = config.datadir.chain_spec()?;
    let mut lines = Lines::open(&config.dump)?;
    let root = lines
        .next::<DumpRoot>()?
        .ok_or_else(|| lines.problem("it is empty"))?
        .root;
    let chain = chain_with_root(&chain, root)?;
    let db = config.datadir.open(&config.database)?;
    refuse_populated(&config.datadir, &db)?;
    let accounts = std::iter::from_fn(|| lines.next::<DumpAccount>().transpose());
    let items = accounts.flat_map(|account| match account {
        Ok(account) => load_items(account),
        Err(problem) => vec![Err(problem)],
    });
    let summary = genesis::load(&db, items, indicatif::ProgressBar::hidden())?;
    if summary.state_root != root {
        bail!(
            "failed to load {}: its first line says root {root}, its accounts have {}",
            config.dump.display(),
            summary.state_root
        );
    }
    genesis::write(&config.datadir, &db, &chain)?;
    info!(target: "reth::cli", hash = %chain.genesis_hash(), "Genesis block");
    Ok(())
}

/// The chain with `root` as its genesis state: the one its accounts have, or, when the genesis file
/// lists none, the dump's.
fn chain_with_root(chain: &Arc<ChainSpec>, root: B256) -> eyre::Result<Arc<ChainSpec>> {
    let own = chain.genesis_header().state_root;
    if own == root {
        return Ok(chain.clone());
    }
    if !chain.genesis().alloc.is_empty() || chain.state_root_override().is_some() {
        bail!("failed to use the dump: its state root is {root}, the genesis file's is {own}");
    }
    let chain = ChainSpec::new(chain.genesis().clone(), Some(root));
    Ok(Arc::new(
        chain.map_err(|problem| eyre!("failed to {problem}"))?,
    ))
}

fn load_items(account: DumpAccount) -> Vec<eyre::Result<LoadItem>> {
    let head = LoadItem::Account {
        address: account.address,
        nonce: account.nonce.unwrap_or_default().to(),
        balance: account.balance,
        code: account.code.filter(|code| !code.is_empty()),
    };
    let slots = account.storage.into_iter();
    let slots = slots.map(|(key, value)| LoadItem::Slot {
        key,
        value: value.into(),
    });
    std::iter::once(head).chain(slots).map(Ok).collect()
}

/// The lines of a dump, counted for messages.
struct Lines {
    path: PathBuf,
    reader: BufReader<File>,
    line: String,
    number: u64,
}

impl Lines {
    fn open(path: &Path) -> eyre::Result<Self> {
        let file = File::open(path)
            .wrap_err_with(|| format!("failed to open the state dump {}", path.display()))?;
        let reader = BufReader::with_capacity(1 << 20, file);
        Ok(Self {
            path: path.to_owned(),
            reader,
            line: String::new(),
            number: 0,
        })
    }

    /// The next line that is not blank, parsed; `None` at the end.
    fn next<T: for<'de> Deserialize<'de>>(&mut self) -> eyre::Result<Option<T>> {
        loop {
            self.line.clear();
            self.number += 1;
            let read = self.reader.read_line(&mut self.line);
            if read.map_err(|problem| self.problem(&problem.to_string()))? == 0 {
                return Ok(None);
            }
            if !self.line.trim().is_empty() {
                let parsed = serde_json::from_str(&self.line);
                return parsed
                    .map(Some)
                    .map_err(|problem| self.problem(&problem.to_string()));
            }
        }
    }

    fn problem(&self, problem: &str) -> eyre::Report {
        eyre!(
            "failed to read {} at line {}: {problem}",
            self.path.display(),
            self.number
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn lines(text: &str) -> Lines {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        Lines::open(file.path()).unwrap()
    }

    #[test]
    fn an_account_becomes_items_and_defaults_are_filled_in() {
        let mut dump = lines(concat!(
            r#"{"address":"0x0000000000000000000000000000000000000001","balance":"0x5"}"#,
            "\n\n",
            r#"{"address":"0x0000000000000000000000000000000000000002","balance":"0x0","nonce":"0x1","code":"0x60","storage":{"0x0000000000000000000000000000000000000000000000000000000000000003":"0x0000000000000000000000000000000000000000000000000000000000000004"}}"#,
        ));
        let plain = load_items(dump.next().unwrap().unwrap());
        assert_eq!(plain.len(), 1);
        let contract = load_items(dump.next().unwrap().unwrap());
        let contract: Vec<_> = contract.into_iter().map(Result::unwrap).collect();
        let expected = [
            LoadItem::Account {
                address: Address::with_last_byte(2),
                nonce: 1,
                balance: U256::ZERO,
                code: Some(Bytes::from_static(&[0x60])),
            },
            LoadItem::Slot {
                key: B256::with_last_byte(3),
                value: U256::from(4),
            },
        ];
        assert_eq!(contract, expected);
        assert!(dump.next::<DumpAccount>().unwrap().is_none());
    }

    #[test]
    fn a_line_that_does_not_parse_is_named() {
        let mut dump = lines("{\"root\":\"0x12\"}");
        let problem = dump
            .next::<DumpRoot>()
            .err()
            .map(|problem| problem.to_string());
        assert!(problem.unwrap().contains("at line 1"));
    }
}
