//! Runs folders of blockchain tests in the standard JSON form through the node:
//! `cargo run --release -p node --example blockchain_tests -- FOLDER... [--only TEXT]`.
//!
//! Each case gets a database of its own (set TMPDIR to a memory disk). Every block goes through
//! `import_block` with the serial root check on; blocks that must fail have to be refused; the last
//! block's hash and every account after it are compared. Prints counts per fork, and each failure.

use alloy_genesis::{Genesis, GenesisAccount};
use alloy_primitives::{Address, B256, Bytes, U64, U256};
use eyre::{Context as _, Result, bail, ensure, eyre};
use node::{
    chainspec::ChainSpec,
    commands::{datadir::Datadir, genesis},
    engine::{self, EngineConfig, EngineHandle, SenderRecovery, StateReader},
    primitives::Block,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use state_db::{OpenOptions, StateDb};
use state_root::{ChunkPolicy, ProofConfig, Strategy};
use std::{
    collections::BTreeMap,
    fs,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

/// Where deposits are made in the tests: mainnet's contract.
const DEPOSIT_CONTRACT: &str = "0x00000000219ab540356cbb839cbe05303d7705fa";
/// Seconds that the `k` in a network's name stands for.
const KILO: u64 = 1000;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Case {
    network: String,
    genesis_block_header: Map<String, Value>,
    pre: BTreeMap<Address, GenesisAccount>,
    blocks: Vec<TestBlock>,
    lastblockhash: B256,
    post_state: Option<BTreeMap<Address, GenesisAccount>>,
    #[serde(default)]
    config: CaseConfig,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct CaseConfig {
    chainid: Option<U64>,
    #[serde(default)]
    blob_schedule: BTreeMap<String, BlobEntry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BlobEntry {
    target: U64,
    max: U64,
    base_fee_update_fraction: U64,
}

#[derive(Deserialize)]
struct TestBlock {
    rlp: Bytes,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

impl TestBlock {
    /// The exception this block must raise, if any.
    fn expected_failure(&self) -> Option<String> {
        self.rest
            .iter()
            .find(|(key, _)| key.starts_with("expectException"))
            .map(|(_, value)| value.to_string())
    }
}

/// The forks in order, as networks are called, and the keys that schedule each.
const FORKS: &[(&str, &[&str])] = &[
    ("Frontier", &[]),
    ("Homestead", &["homesteadBlock"]),
    ("Dao", &["daoForkBlock"]),
    ("EIP150", &["eip150Block"]),
    ("EIP158", &["eip155Block", "eip158Block"]),
    ("Byzantium", &["byzantiumBlock"]),
    ("Constantinople", &["constantinopleBlock"]),
    ("ConstantinopleFix", &["petersburgBlock"]),
    ("Istanbul", &["istanbulBlock"]),
    ("MuirGlacier", &["muirGlacierBlock"]),
    ("Berlin", &["berlinBlock"]),
    ("London", &["londonBlock"]),
    ("ArrowGlacier", &["arrowGlacierBlock"]),
    ("GrayGlacier", &["grayGlacierBlock"]),
    ("Paris", &["terminalTotalDifficulty"]),
    ("Shanghai", &["shanghaiTime"]),
    ("Cancun", &["cancunTime"]),
    ("Prague", &["pragueTime"]),
    ("Osaka", &["osakaTime"]),
    ("BPO1", &["bpo1Time"]),
    ("BPO2", &["bpo2Time"]),
    ("BPO3", &["bpo3Time"]),
    ("BPO4", &["bpo4Time"]),
    ("BPO5", &["bpo5Time"]),
];

fn fork_index(name: &str) -> Option<usize> {
    let name = if name == "Merge" { "Paris" } else { name };
    FORKS.iter().position(|(fork, _)| *fork == name)
}

/// The configuration of a network such as `Berlin`, `BerlinToLondonAt5`,
/// `ParisToShanghaiAtTime15k` or `ArrowGlacierToParisAtDiffC0000`.
fn chain_config(case: &Case) -> Result<Value> {
    let (first, change) = match case.network.split_once("To") {
        Some((first, rest)) => {
            let (last, at) = rest
                .split_once("At")
                .ok_or_else(|| eyre!("no place in {}", case.network))?;
            (first, Some((last, at)))
        }
        None => (case.network.as_str(), None),
    };
    let index = |name: &str| fork_index(name).ok_or_else(|| eyre!("unknown network {name}"));
    let mut config = Map::new();
    config.insert(
        "chainId".into(),
        case.config.chainid.map_or(1, |id| id.to()).into(),
    );
    config.insert("depositContractAddress".into(), DEPOSIT_CONTRACT.into());
    let mut schedule = |range: std::ops::RangeInclusive<usize>, at: Value| {
        let dao = change.is_some_and(|(last, _)| last == "Dao");
        for (name, keys) in FORKS.get(range).unwrap_or_default() {
            if *name == "Dao" && !dao {
                continue;
            }
            for key in *keys {
                config.insert((*key).into(), at.clone());
            }
        }
        if dao {
            config.insert("daoForkSupport".into(), true.into());
        }
    };
    let first = index(first)?;
    schedule(0..=first, json!(0));
    if let Some((last, at)) = change {
        schedule(first + 1..=index(last)?, place(at)?);
    }
    config.insert("blobSchedule".into(), blob_schedule(case));
    Ok(config.into())
}

/// `5` is a block, `Time15k` a timestamp, `DiffC0000` a total difficulty.
fn place(at: &str) -> Result<Value> {
    if let Some(time) = at.strip_prefix("Time") {
        let time: u64 = time.trim_end_matches('k').parse()?;
        return Ok(json!(time * KILO));
    }
    if let Some(difficulty) = at.strip_prefix("Diff") {
        return Ok(json!(u64::from_str_radix(difficulty, 16)?));
    }
    Ok(json!(at.parse::<u64>()?))
}

fn blob_schedule(case: &Case) -> Value {
    let entries = case.config.blob_schedule.iter().map(|(fork, entry)| {
        let value = json!({
            "target": entry.target.to::<u64>(),
            "max": entry.max.to::<u64>(),
            "baseFeeUpdateFraction": entry.base_fee_update_fraction.to::<u64>(),
        });
        (fork.to_lowercase(), value)
    });
    Value::Object(entries.collect())
}

/// The genesis of a case, after comparing its hash with the one in the file.
fn chain_spec(case: &Case) -> Result<Arc<ChainSpec>> {
    let mut genesis = case.genesis_block_header.clone();
    let expected: B256 = serde_json::from_value(genesis["hash"].clone())?;
    genesis.retain(|key, _| key != "stateRoot");
    genesis.insert("config".into(), chain_config(case)?);
    genesis.insert("alloc".into(), json!({}));
    let mut parsed: Genesis = serde_json::from_value(Value::Object(genesis))?;
    parsed.alloc = case.pre.clone();
    let spec = ChainSpec::new(parsed, None)?;
    let found = spec.genesis_hash();
    ensure!(
        found == expected,
        "genesis hash {found}, expected {expected}"
    );
    Ok(Arc::new(spec))
}

fn engine_config() -> EngineConfig {
    let one = NonZeroUsize::MIN;
    EngineConfig {
        gas_limit_target: 60_000_000,
        persistence_threshold: 1 << 20,
        memory_block_buffer_target: 0,
        persistence_backpressure_threshold: 16,
        state_cache_bytes: 4 << 20,
        root: Strategy::Proofs(ProofConfig {
            policy: ChunkPolicy::Always,
            batch_keys: one,
            chunk_size: one,
            account_workers: one,
            storage_workers: one,
            kept_blocks: None,
            kept_bytes: 1 << 20,
        }),
        check_state_root: true,
        sender_recovery: SenderRecovery::default(),
        injected_slowdown: 0.0,
        skip_invalid_transactions: false,
    }
}

async fn run_case(case: &Case) -> Result<()> {
    let chain = chain_spec(case)?;
    let folder = tempfile::tempdir()?;
    let datadir = Datadir {
        path: folder.path().to_owned(),
        chain: None,
    };
    let db = StateDb::open(folder.path(), &OpenOptions::default())?;
    genesis::ensure(&datadir, &db, &chain)?;
    let engine = engine::spawn(db, chain, engine_config())?;
    let checked = check_blocks(&engine, case).await;
    engine.shutdown().await.wrap_err("shut down")?;
    checked?;
    let head = engine.chain().head();
    ensure!(
        head.hash == case.lastblockhash,
        "the last block is {} {}, expected {}",
        head.number,
        head.hash,
        case.lastblockhash
    );
    if let Some(expected) = &case.post_state {
        let state = engine.chain().state_at(head.hash.into())?;
        let state = state.ok_or_else(|| eyre!("the head has no state"))?;
        for (address, account) in expected {
            check_account(&state, *address, account)?;
        }
    }
    Ok(())
}

async fn check_blocks(engine: &EngineHandle, case: &Case) -> Result<()> {
    for (index, block) in case.blocks.iter().enumerate() {
        let refusal = refusal(engine, &block.rlp).await?;
        match (block.expected_failure(), refusal) {
            (None, None) | (Some(_), Some(_)) => {}
            (None, Some(reason)) => bail!("block at place {index} was refused: {reason}"),
            (Some(expected), None) => bail!("block at place {index} was accepted: {expected}"),
        }
    }
    Ok(())
}

/// Why a block is refused; `None` when it is valid.
async fn refusal(engine: &EngineHandle, rlp: &Bytes) -> Result<Option<String>> {
    let block = match alloy_rlp::decode_exact::<Block>(rlp) {
        Ok(block) => block,
        Err(error) => return Ok(Some(error.to_string())),
    };
    let status = engine.import_block(block).await?;
    Ok((!status.is_valid()).then(|| format!("{:?}", status.status)))
}

fn check_account(state: &StateReader, address: Address, expected: &GenesisAccount) -> Result<()> {
    let found = state
        .account(address)?
        .ok_or_else(|| eyre!("account {address} is missing"))?;
    let code = match state.code(found.code_hash)? {
        Some(code) => code.original_bytes(),
        None => Bytes::new(),
    };
    ensure!(
        found.balance == expected.balance
            && found.nonce == expected.nonce.unwrap_or_default()
            && code == expected.code.clone().unwrap_or_default(),
        "account {address} is {found:?}"
    );
    for (slot, value) in expected.storage.iter().flatten() {
        let found = state.storage(address, *slot)?;
        ensure!(
            found == U256::from_be_bytes(value.0),
            "slot {slot} of {address} is {found}"
        );
    }
    Ok(())
}

/// Passed and failed cases of one network.
#[derive(Default)]
struct Tally {
    passed: usize,
    failed: usize,
}

fn json_files(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    if folder.is_file() {
        files.push(folder.to_owned());
        return Ok(());
    }
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir()
            || path
                .extension()
                .is_some_and(|extension| extension == "json")
        {
            json_files(&path, files)?;
        }
    }
    Ok(())
}

fn run_file(path: &Path, only: &str, tallies: &Mutex<BTreeMap<String, Tally>>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let cases: BTreeMap<String, Value> = serde_json::from_str(&fs::read_to_string(path)?)?;
    for (name, value) in cases {
        if !name.contains(only) && !path.to_string_lossy().contains(only) {
            continue;
        }
        let network = value["network"].as_str().unwrap_or("no network").to_owned();
        let result = serde_json::from_value::<Case>(value)
            .map_err(Into::into)
            .and_then(|case| runtime.block_on(run_case(&case)));
        let mut tallies = tallies.lock().unwrap_or_else(PoisonError::into_inner);
        let tally = tallies.entry(network).or_default();
        match result {
            Ok(()) => tally.passed += 1,
            Err(problem) => {
                tally.failed += 1;
                println!("FAILED {} {name}: {problem:#}", path.display());
            }
        }
    }
    Ok(())
}

fn main() -> Result<()> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut only = String::new();
    if let Some(flag) = arguments.iter().position(|argument| argument == "--only") {
        arguments.remove(flag);
        ensure!(flag < arguments.len(), "--only takes a text");
        only = arguments.remove(flag);
    }
    let mut files = Vec::new();
    for folder in &arguments {
        json_files(Path::new(folder), &mut files).wrap_err_with(|| format!("read {folder}"))?;
    }
    let tallies = Mutex::new(BTreeMap::new());
    let next = AtomicUsize::new(0);
    let workers = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let work = || {
        while let Some(path) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Err(problem) = run_file(path, &only, &tallies) {
                println!("UNREADABLE {}: {problem:#}", path.display());
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(work);
        }
    });
    let tallies = tallies.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut failed = 0;
    println!("{} files", files.len());
    for (network, tally) in tallies {
        failed += tally.failed;
        println!(
            "{network:<36} passed {:>6}  failed {:>4}",
            tally.passed, tally.failed
        );
    }
    ensure!(failed == 0, "{failed} cases failed");
    Ok(())
}
