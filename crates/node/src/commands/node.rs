//! `node`: opens the database, starts engine and servers, and keeps them until a signal comes.
//!
//! Invariant: a signal loses no block. The servers stop first, then the engine persists what it has in
//! memory, and only then does the process end.

use super::{datadir::Datadir, failure, genesis};
use crate::{
    engine::{self, EngineConfig, EngineHandle},
    rpc::{
        self, AuthServerConfig, CLIENT_VERSION, Limits, MethodOptions, PublicServerConfig,
        RunningServers, ServersConfig,
    },
    telemetry,
};
use engine_api::jwt::JwtSecret;
use eyre::{Context as _, eyre};
use metrics_exporter_prometheus::PrometheusHandle;
use state_db::OpenOptions;
use std::{net::SocketAddr, path::PathBuf, time::Duration};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{error, info, warn};

/// How long requests in flight may take to end once a signal came.
const DRAIN_LIMIT: Duration = Duration::from_secs(1);

/// How long requests are still answered once blocks cannot be persisted.
const FAREWELL: Duration = Duration::from_secs(1);

/// Threads that read requests and write answers. The engine has its own.
const RPC_THREADS: usize = 2;

/// A node, resolved from its flags.
#[derive(Debug, Clone)]
pub struct NodeConfig {
    /// Chain and data.
    pub datadir: Datadir,
    /// How to open the database.
    pub database: OpenOptions,
    /// How the engine works.
    pub engine: EngineConfig,
    /// The authenticated server; `None` leaves it out.
    pub auth: Option<AuthAddress>,
    /// The public HTTP server; `None` leaves it out.
    pub http: Option<PublicServerConfig>,
    /// The public WebSocket server; `None` leaves it out.
    pub ws: Option<PublicServerConfig>,
    /// Limits of the public servers.
    pub public_limits: Limits,
    /// What the RPC methods know besides the chain.
    pub methods: MethodOptions,
    /// Where metrics are served; `None` records none.
    pub metrics: Option<SocketAddr>,
}

/// Where the authenticated server listens, and which secret it uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthAddress {
    /// Where to listen.
    pub address: SocketAddr,
    /// File with the secret; `None` stands for the datadir's own, made when it is absent.
    pub jwt_secret: Option<PathBuf>,
}

/// Runs a node until SIGINT or SIGTERM. A second signal ends the process at once.
///
/// # Errors
/// When the node cannot start, when its engine fails, or when the last blocks cannot be persisted.
pub fn run(config: NodeConfig) -> eyre::Result<()> {
    info!(target: "reth::cli", version = CLIENT_VERSION, "Starting bench-reth");
    let chain = config.datadir.chain_spec()?;
    let auth = config
        .auth
        .as_ref()
        .map(|auth| auth_config(&config.datadir, auth))
        .transpose()?;
    let metrics = config
        .metrics
        .map(|address| telemetry::install_recorder().map(|metrics| (address, metrics)))
        .transpose()?;
    let db = config.datadir.open(&config.database)?;
    info!(target: "reth::cli", "Database opened");
    genesis::ensure(&config.datadir, &db, &chain)?;
    let engine = engine::spawn(db, chain, config.engine).map_err(failure::engine)?;
    let head = engine.chain().head();
    info!(target: "reth::cli", number = head.number, hash = %head.hash, "Consensus engine initialized");
    let servers = ServersConfig {
        auth,
        http: config.http,
        ws: config.ws,
        public_limits: config.public_limits,
        methods: config.methods,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(RPC_THREADS)
        .thread_name("rpc")
        .enable_all()
        .build()
        .wrap_err("failed to start the runtime")?;
    let outcome = runtime.block_on(serve(engine, servers, metrics));
    runtime.shutdown_timeout(DRAIN_LIMIT);
    outcome
}

/// Reads the secret first, so that a bad file stops the start before anything is touched.
fn auth_config(datadir: &Datadir, auth: &AuthAddress) -> eyre::Result<AuthServerConfig> {
    let own = datadir.default_jwt_secret();
    // An empty file is what a start that was cut short leaves.
    let is_leftover = std::fs::metadata(&own).is_ok_and(|file| file.len() == 0);
    if auth.jwt_secret.is_none() && is_leftover {
        std::fs::remove_file(&own)
            .wrap_err_with(|| format!("failed to remove the empty file {}", own.display()))?;
    }
    let secret = match &auth.jwt_secret {
        Some(path) => JwtSecret::read(path),
        None if own.exists() => JwtSecret::read(&own),
        None => {
            std::fs::create_dir_all(&datadir.path)
                .wrap_err_with(|| format!("failed to create datadir {}", datadir.path.display()))?;
            info!(target: "reth::cli", path = %own.display(), "Creating JWT auth secret file");
            JwtSecret::create(&own)
        }
    };
    let secret = secret.map_err(|problem| {
        eyre!("{problem}. Name another with --authrpc.jwtsecret; `openssl rand -hex 32` makes one")
    })?;
    Ok(AuthServerConfig {
        address: auth.address,
        secret,
    })
}

async fn serve(
    engine: EngineHandle,
    config: ServersConfig,
    metrics: Option<(SocketAddr, PrometheusHandle)>,
) -> eyre::Result<()> {
    let mut signals = Signals::listen()?;
    let start = || {
        if let Some((address, metrics)) = metrics {
            telemetry::start_server(address, metrics)?;
        }
        rpc::start(engine.clone(), config).map_err(|problem| eyre!("{problem}"))
    };
    let servers = match start() {
        Ok(servers) => servers,
        Err(problem) => {
            engine.shutdown().await.map_err(failure::engine)?;
            return Err(problem);
        }
    };
    info!(target: "reth::cli", "Engine API handler initialized");
    info!(target: "reth::cli", "Starting consensus engine");
    tokio::select! {
        name = signals.next() => info!(target: "reth::cli", signal = name, "Received shutdown signal"),
        () = engine_ended(&engine) => {
            error!(target: "reth::cli", "The engine stopped");
            // Whoever asks within this time is told the reason.
            tokio::time::sleep(FAREWELL).await;
        }
    }
    tokio::select! {
        outcome = stop(engine, servers) => outcome,
        name = signals.next() => {
            warn!(target: "reth::cli", signal = name, "Received a second signal, exiting at once");
            std::process::exit(1);
        }
    }
}

async fn stop(engine: EngineHandle, servers: RunningServers) -> eyre::Result<()> {
    if tokio::time::timeout(DRAIN_LIMIT, servers.stop())
        .await
        .is_err()
    {
        warn!(target: "reth::cli", "Requests in flight were cut off");
    }
    engine.shutdown().await.map_err(failure::engine)?;
    let head = engine.chain().head();
    info!(target: "reth::cli", number = head.number, hash = %head.hash, "Wrote the last blocks, exiting");
    Ok(())
}

/// Returns when the engine takes no more blocks, because persistence failed or its thread is gone.
/// Stopping it then fails with the reason.
async fn engine_ended(engine: &EngineHandle) {
    let mut persisted = engine.persisted();
    while persisted.changed().await.is_ok() {}
}

/// SIGINT and SIGTERM.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn listen() -> eyre::Result<Self> {
        let on = |kind| signal(kind).wrap_err("failed to listen for signals");
        Ok(Self {
            interrupt: on(SignalKind::interrupt())?,
            terminate: on(SignalKind::terminate())?,
        })
    }

    /// The name of the next signal.
    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
        }
    }
}
