//! A node of ethrex for tests: the published crates of ethrex, behind the flags that its client has.
//!
//! The client itself is in no package registry, and its database takes longer to build than everything
//! here. What executes, merkleizes and answers is ethrex' own code as the client sets it up; the state is
//! in memory and made from the genesis at every start, and no peer is ever contacted. With the feature
//! `rocksdb` the state is in the client's database: what is to be timed needs it, since ethrex' tables in
//! memory are cloned whole for every iteration over one.
//!
//! Invariant: without that feature nothing is written but the log, on the standard output.

mod args;

use args::{Args, LogColor};
use bytes::Bytes;
use clap::Parser as _;
use ethrex_blockchain::{Blockchain, BlockchainOptions};
use ethrex_common::{
    H512,
    types::{DEFAULT_BUILDER_GAS_CEIL, Genesis},
};
use ethrex_p2p::{
    network::P2PContext,
    peer_handler::PeerHandler,
    peer_table::{PeerTableServer, TARGET_PEERS},
    rlpx::initiator::RLPxInitiator,
    sync::SyncMode,
    sync_manager::SyncManager,
    types::{NetworkConfig, Node, NodeRecord},
};
use ethrex_rpc::ClientVersion;
use ethrex_storage::{EngineType, Store};
use eyre::{Result, WrapErr as _, eyre};
use secp256k1::SecretKey;
use std::{
    collections::HashSet,
    env::consts,
    fs::{self, File},
    io::{self, BufReader, IsTerminal as _},
    net::Ipv4Addr,
    path::Path,
    process::ExitCode,
    sync::Arc,
};
use tokio::{
    runtime::Runtime,
    signal::unix::{SignalKind, signal},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// The client's allocator.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The key that the node would sign with if it had peers.
const KEY: [u8; 32] = [1; 32];
/// Pauses between broadcasts and look-ups of peers, which there are none of: as in the client.
const BROADCAST_MS: u64 = 1000;
const LOOKUP_MS: f64 = 100.0;

/// Where the state is, and what the version calls it.
#[cfg(feature = "rocksdb")]
const STORE: (EngineType, &str) = (EngineType::RocksDB, "rocksdb");
#[cfg(not(feature = "rocksdb"))]
const STORE: (EngineType, &str) = (EngineType::InMemory, "memory");

/// How the node names itself: where the client tells its branch and commit, where the state is.
fn version() -> ClientVersion {
    ClientVersion::new(
        "ethrex".to_owned(),
        env!("CARGO_PKG_VERSION").to_owned(),
        STORE.1.to_owned(),
        "00000000".to_owned(),
        format!("{}-{}", consts::ARCH, consts::OS),
        "unknown".to_owned(),
    )
}

fn main() -> ExitCode {
    let ended = Runtime::new()
        .wrap_err("failed to start the runtime")
        .and_then(|runtime| {
            let ended = runtime.block_on(run(Args::parse()));
            // Threads of peers that there are none of are not waited for.
            runtime.shutdown_background();
            ended
        });
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("Error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: Args) -> Result<()> {
    let colour = match args.log_color {
        LogColor::Auto => io::stdout().is_terminal(),
        LogColor::Always => true,
        LogColor::Never => false,
    };
    tracing_subscriber::fmt()
        .with_max_level(args.log_level)
        .with_ansi(colour)
        .init();
    tracing::info!(
        "{}: the state is in {}, the datadir is {}",
        version(),
        STORE.1,
        args.datadir.display(),
    );
    let mut terminated =
        signal(SignalKind::terminate()).wrap_err("failed to watch for a signal to end")?;
    tokio::select! {
        ended = serve(&args) => ended,
        _ = terminated.recv() => Ok(()),
        _ = tokio::signal::ctrl_c() => Ok(()),
    }
}

/// Answers on both ports until one fails.
async fn serve(args: &Args) -> Result<()> {
    let secret = secret(&args.jwt_secret)?;
    let store = store(&args.datadir, genesis(&args.network)?).await?;
    let options = BlockchainOptions {
        perf_logs_enabled: true,
        precompile_cache_enabled: !args.no_precompile_cache,
        ..BlockchainOptions::default()
    };
    let chain = Arc::new(Blockchain::new(store.clone(), options));
    let (node, record, peers) = peers(&store, &chain)?;
    let cancel = CancellationToken::new();
    let sync = SyncManager::new(
        peers.clone(),
        &SyncMode::Full,
        cancel.clone(),
        chain.clone(),
        store.clone(),
        args.datadir.clone(),
    )
    .await;
    let (http, authrpc) = (args.http(), args.authrpc());
    let served = ethrex_rpc::start_api(
        http,
        None,
        authrpc,
        store,
        chain,
        secret,
        node,
        record,
        sync,
        peers,
        version(),
        None,
        DEFAULT_BUILDER_GAS_CEIL,
        String::new(),
        args.http_api.iter().copied().collect::<HashSet<_>>(),
        cancel,
    );
    served
        .await
        .map_err(|error| eyre!("failed to serve on {http} and {authrpc}: {error}"))
}

/// The secret in a file.
fn secret(path: &Path) -> Result<Bytes> {
    let shown = path.display();
    let text = fs::read_to_string(path).wrap_err_with(|| {
        format!("failed to read the secret {shown}; give a file as --authrpc.jwtsecret")
    })?;
    let digits = text.trim();
    let secret = hex::decode(digits.strip_prefix("0x").unwrap_or(digits)).wrap_err_with(|| {
        format!("failed to read the secret {shown}: it is not made of hexadecimal digits")
    })?;
    Ok(secret.into())
}

fn genesis(path: &Path) -> Result<Genesis> {
    let failed = || {
        format!(
            "failed to read the genesis {}; give a file as --network",
            path.display()
        )
    };
    let file = File::open(path).wrap_err_with(failed)?;
    serde_json::from_reader(BufReader::new(file)).wrap_err_with(failed)
}

/// The state of the datadir: that of the genesis where it has none, or where the state is in memory.
async fn store(datadir: &Path, genesis: Genesis) -> Result<Store> {
    let failed = |error| eyre!("failed to make the state of the genesis: {error}");
    let mut store = Store::new(datadir, STORE.0).map_err(failed)?;
    store.add_initial_state(genesis).await.map_err(failed)?;
    // The client's thread that keeps the leaves of the tries flat.
    store.generate_flatkeyvalue().map_err(failed)?;
    Ok(store)
}

/// What the crates ask for about peers. No port is opened for them.
fn peers(store: &Store, chain: &Arc<Blockchain>) -> Result<(Node, NodeRecord, PeerHandler)> {
    let key = SecretKey::from_byte_array(&KEY).wrap_err("failed to make the node's key")?;
    let public = key
        .public_key(secp256k1::SECP256K1)
        .serialize_uncompressed();
    let node = Node::new(
        Ipv4Addr::LOCALHOST.into(),
        0,
        0,
        H512::from_slice(&public[1..]),
    );
    let record = NodeRecord::from_node(&node, 1, &key)
        .map_err(|error| eyre!("failed to make the node's record: {error}"))?;
    let table = PeerTableServer::spawn(node.node_id(), TARGET_PEERS, store.clone());
    let context = P2PContext::new(
        node.clone(),
        NetworkConfig::from_node(&node),
        TaskTracker::new(),
        key,
        table.clone(),
        store.clone(),
        chain.clone(),
        version().to_string(),
        None,
        BROADCAST_MS,
        LOOKUP_MS,
    )
    .map_err(|error| eyre!("failed to set up for no peers: {error}"))?;
    let peers = PeerHandler::new(table, RLPxInitiator::spawn(context));
    Ok((node, record, peers))
}
