//! What the typed flags mean: the one place that reads them and knows their defaults.

use super::{
    args::{
        ChunkPolicyArg, DatabaseArgs, DatadirArgs, EngineArgs, ImportArgs, InitArgs, InitStateArgs,
        NodeArgs, RootStrategyArg, RpcArgs, SyncModeArg, UnwindArgs,
    },
    values::{ModuleList, RpcNamespace},
};
use crate::{
    commands::{
        datadir::Datadir,
        import::ImportConfig,
        init::InitConfig,
        init_state::InitStateConfig,
        node::{AuthAddress, NodeConfig},
        unwind::UnwindConfig,
    },
    engine::{EngineConfig, SenderRecovery},
    rpc::{Limits, MethodOptions, PublicServerConfig, Sites},
};
use alloy_primitives::U256;
use eyre::{Context as _, eyre};
use state_db::{OpenOptions, SyncMode};
use state_root::{ChunkPolicy, LateRoot, ProofConfig, RangeConfig, Strategy};
use std::{
    env,
    net::SocketAddr,
    num::{NonZeroU64, NonZeroUsize},
    path::PathBuf,
    thread,
};

/// What one megabyte of `--rpc.max-*-size` is, in bytes.
const MIB: u32 = 1 << 20;

/// Meaning of `node`'s flags.
pub fn node(args: NodeArgs) -> eyre::Result<NodeConfig> {
    let ports = Ports::of(&args);
    let rpc = &args.rpc;
    for (flag, list) in [("--http.api", &rpc.http_api), ("--ws.api", &rpc.ws_api)] {
        for namespace in &list.0 {
            if let RpcNamespace::Unserved(name) = namespace {
                tracing::info!(target: "reth::cli", "{flag} {name} has no effect: bench-reth does not serve it");
            }
        }
    }
    let sites = Sites {
        hosts: rpc.http_vhosts.clone(),
        origins: rpc.ws_origins.clone(),
    };
    let public = |enabled: bool, address, port, modules: &ModuleList| {
        let address = SocketAddr::new(address, port);
        enabled.then(|| PublicServerConfig {
            address,
            modules: modules.clone(),
            sites: sites.clone(),
        })
    };
    let methods = MethodOptions {
        accept_requests_hash: args.engine.accept_execution_requests_hash,
        idle_at_startup: rpc.startup_sync_state_idle,
        extra_data: args.builder.extra_data.clone(),
        call_gas_cap: rpc.call_gas_cap,
        tx_fee_cap_wei: wei(rpc.tx_fee_cap_ether)?,
        gas_limit_target: args.builder.gas_limit,
    };
    Ok(NodeConfig {
        datadir: datadir(&args.datadir)?,
        database: open_options(&args.database)?,
        engine: EngineConfig {
            skip_invalid_transactions: args.builder.skip_invalid_transactions,
            gas_limit_target: args.builder.gas_limit,
            ..engine(&args.engine)?
        },
        auth: (!rpc.disable_auth_server).then(|| AuthAddress {
            address: SocketAddr::new(rpc.auth_addr, ports.auth),
            jwt_secret: rpc.jwt_secret.clone(),
        }),
        http: public(rpc.http, rpc.http_addr, ports.http, &rpc.http_api),
        ws: public(rpc.ws, rpc.ws_addr, ports.ws, &rpc.ws_api),
        public_limits: public_limits(rpc),
        methods,
        metrics: args.telemetry.metrics,
    })
}

/// Meaning of `init`'s flags.
pub fn init(args: InitArgs) -> eyre::Result<InitConfig> {
    let profile = args.profile.as_deref().map(|name| {
        name.parse()
            .map_err(|problem| eyre!("failed to use --profile {name}: {problem}"))
    });
    Ok(InitConfig {
        datadir: datadir(&args.datadir)?,
        database: open_options(&args.database)?,
        profile: profile.transpose()?,
        seed: args.seed,
    })
}

/// Meaning of `init-state`'s flags.
pub fn init_state(args: InitStateArgs) -> eyre::Result<InitStateConfig> {
    Ok(InitStateConfig {
        datadir: datadir(&args.datadir)?,
        database: open_options(&args.database)?,
        dump: args.state,
    })
}

/// Meaning of `import`'s flags.
pub fn import(args: ImportArgs) -> eyre::Result<ImportConfig> {
    Ok(ImportConfig {
        datadir: datadir(&args.datadir)?,
        database: open_options(&args.database)?,
        engine: engine(&args.engine)?,
        path: args.path,
    })
}

/// Meaning of `stage unwind`'s flags.
pub fn unwind(args: UnwindArgs) -> eyre::Result<UnwindConfig> {
    Ok(UnwindConfig {
        datadir: datadir(&args.datadir)?,
        database: open_options(&args.database)?,
        target: args.target,
    })
}

/// The datadir: the one given, or `bench-reth` in the user's data directory.
pub fn datadir(args: &DatadirArgs) -> eyre::Result<Datadir> {
    let path = match &args.datadir {
        Some(path) => path.clone(),
        None => default_datadir().ok_or_else(|| {
            eyre!("failed to find a default datadir: HOME is not set; use --datadir DIR")
        })?,
    };
    Ok(Datadir {
        path,
        chain: args.chain.clone(),
    })
}

/// `$XDG_DATA_HOME/bench-reth`, else `~/.local/share/bench-reth`.
fn default_datadir() -> Option<PathBuf> {
    let data = env::var_os("XDG_DATA_HOME")
        .filter(|path| !path.is_empty())
        .map(PathBuf::from);
    let home = || env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/share"));
    data.or_else(home).map(|path| path.join("bench-reth"))
}

fn open_options(args: &DatabaseArgs) -> eyre::Result<OpenOptions> {
    let defaults = OpenOptions::default();
    let fitting = |flag: &str, bytes: Option<u64>, default: usize| match bytes {
        None => Ok(default),
        Some(bytes) => {
            usize::try_from(bytes).wrap_err_with(|| format!("failed to use {flag} {bytes}"))
        }
    };
    Ok(OpenOptions {
        max_size_bytes: fitting(
            "--db.max-size",
            args.max_size_bytes,
            defaults.max_size_bytes,
        )?,
        growth_step_bytes: fitting(
            "--db.growth-step",
            args.growth_step_bytes,
            defaults.growth_step_bytes,
        )?,
        sync_mode: match args.sync_mode {
            SyncModeArg::Durable => SyncMode::Durable,
            SyncModeArg::SafeNoSync => SyncMode::SafeNoSync,
        },
        read_only: false,
        exclusive: args.exclusive,
    })
}

fn engine(args: &EngineArgs) -> eyre::Result<EngineConfig> {
    let cache_mb = if args.disable_state_cache {
        0
    } else {
        args.cross_block_cache_mb
    };
    Ok(EngineConfig {
        persistence_threshold: args.persistence_threshold,
        memory_block_buffer_target: args.memory_block_buffer_target,
        persistence_backpressure_threshold: backpressure_threshold(args)?,
        state_cache_bytes: cache_mb.saturating_mul(MIB as usize),
        root: root_strategy(args),
        check_state_root: args.check_state_root,
        sender_recovery: if args.senders_one_by_one || follows_reth(args) {
            SenderRecovery::OneByOne
        } else {
            SenderRecovery::SideBySide
        },
        injected_slowdown: args.inject_slowdown,
        skip_invalid_transactions: false,
        gas_limit_target: 0,
    })
}

/// Chunk size of reth 1.10 and 1.11, and of 2.x.
const CHUNK_SIZES: [NonZeroUsize; 2] = [
    NonZeroUsize::new(60).unwrap(),
    NonZeroUsize::new(5).unwrap(),
];

/// Blocks whose nodes reth 1.11 and 2.5 keep: what was changed in its last two cycles of pruning, and
/// what is changed by a block in memory, of which there are as many as its persistence threshold.
const KEPT_BLOCKS: [NonZeroU64; 2] = [NonZeroU64::new(2).unwrap(), NonZeroU64::new(7).unwrap()];

fn root_strategy(args: &EngineArgs) -> Strategy {
    let [long, short] = CHUNK_SIZES;
    let size = |default| args.multiproof_chunk_size.unwrap_or(default);
    let workers = default_workers(args.reserved_cpu_cores);
    let kept_bytes = args.root_arena_mb.saturating_mul(MIB as usize);
    let proofs = |policy, chunk_size, workers, kept_blocks| {
        Strategy::Proofs(ProofConfig {
            policy,
            batch_keys: args.batch_keys,
            chunk_size: size(chunk_size),
            account_workers: args.account_worker_count.unwrap_or(workers),
            storage_workers: args.storage_worker_count.unwrap_or(workers),
            kept_blocks: args.kept_blocks.or(kept_blocks),
            kept_bytes,
        })
    };
    match (args.root_strategy, args.chunk_policy) {
        (RootStrategyArg::Parallel, _) => {
            let threads = args.account_worker_count.unwrap_or(workers);
            Strategy::Late(LateRoot::Parallel(threads))
        }
        (RootStrategyArg::Serial, _) => Strategy::Late(LateRoot::Serial),
        (RootStrategyArg::Skip, _) => Strategy::Late(LateRoot::Skip),
        (RootStrategyArg::Task, ChunkPolicyArg::Always) => {
            proofs(ChunkPolicy::Always, long, workers, None)
        }
        (RootStrategyArg::Task, ChunkPolicyArg::Reth1_11) => {
            proofs(ChunkPolicy::Reth1_11, long, workers, Some(KEPT_BLOCKS[0]))
        }
        (RootStrategyArg::Task, ChunkPolicyArg::Reth2_5) => {
            let twice = workers.saturating_add(workers.get());
            proofs(ChunkPolicy::Reth2_5, short, twice, Some(KEPT_BLOCKS[1]))
        }
        // The thread that executes waits for the ranges in the end; it needs no CPU of its own then.
        (RootStrategyArg::Task, ChunkPolicyArg::RangeSteal) => Strategy::Ranges(RangeConfig {
            grain: size(long),
            threads: args.account_worker_count.unwrap_or(default_workers(0)),
            kept_bytes,
        }),
    }
}

/// Whether proportions are to be those of a release of reth.
fn follows_reth(args: &EngineArgs) -> bool {
    matches!(
        args.chunk_policy,
        ChunkPolicyArg::Reth1_11 | ChunkPolicyArg::Reth2_5
    )
}

/// Least number of blocks that wait for persistence before the engine does.
const LEAST_BACKPRESSURE_BLOCKS: u64 = 64;

/// Twice the persistence threshold, as in reth 2.5, but at least more: persistence yields to execution.
fn backpressure_threshold(args: &EngineArgs) -> eyre::Result<u64> {
    let persistence = args.persistence_threshold;
    let Some(backpressure) = args.persistence_backpressure_threshold else {
        return Ok(persistence.saturating_mul(2).max(LEAST_BACKPRESSURE_BLOCKS));
    };
    if backpressure > persistence {
        return Ok(backpressure);
    }
    Err(eyre!(
        "failed to use --engine.persistence-backpressure-threshold {backpressure}: it must be \
         above --engine.persistence-threshold, which is {persistence}"
    ))
}

/// Ether to wei, exact to the gwei.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked to be between zero and what 64 bits of gwei hold"
)]
fn wei(ether: f64) -> eyre::Result<U256> {
    let gwei = ether * 1e9;
    if !(0.0..1e19).contains(&gwei) {
        return Err(eyre!("failed to use --rpc.txfeecap {ether}"));
    }
    Ok(U256::from(gwei.round() as u64) * U256::from(1_000_000_000))
}

/// As many workers as CPUs that this process may use, less the reserved ones, but one at least.
fn default_workers(reserved: usize) -> NonZeroUsize {
    let cpus = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    NonZeroUsize::new(cpus.saturating_sub(reserved)).unwrap_or(NonZeroUsize::MIN)
}

/// Calls of a public server that run at a time; others wait for their turn.
const PUBLIC_RUNNING_CALLS: usize = 16;

/// Most calls of a batch on a public server, as in geth.
const PUBLIC_BATCH_CALLS: u32 = 1000;

/// Least that a public server may hold of requests and responses, in bytes.
const PUBLIC_HELD_BYTES: u64 = 256 << 20;

fn public_limits(rpc: &RpcArgs) -> Limits {
    let largest = rpc.max_request_mb.max(rpc.max_response_mb);
    Limits {
        max_request_bytes: rpc.max_request_mb.saturating_mul(MIB),
        max_response_bytes: rpc.max_response_mb.saturating_mul(MIB),
        max_connections: rpc.max_connections,
        // Room for a few of the largest.
        max_held_bytes: PUBLIC_HELD_BYTES.max(4 * u64::from(largest.saturating_mul(MIB))),
        max_subscriptions_per_connection: rpc.max_subscriptions,
        max_batch_calls: PUBLIC_BATCH_CALLS,
        max_running_calls: Some(PUBLIC_RUNNING_CALLS),
    }
}

/// Ports after `--instance` and `--with-unused-ports`.
#[derive(Debug, PartialEq, Eq)]
struct Ports {
    auth: u16,
    http: u16,
    ws: u16,
}

impl Ports {
    fn of(args: &NodeArgs) -> Self {
        if args.with_unused_ports {
            return Self {
                auth: 0,
                http: 0,
                ws: 0,
            };
        }
        // Instances go apart as reth's do: auth up by hundreds, HTTP down by one, WS up by two.
        let shift = args.instance.map_or(0, |instance| instance - 1);
        Self {
            auth: args.rpc.auth_port.saturating_add(shift * 100),
            http: args.rpc.http_port.saturating_sub(shift),
            ws: args.rpc.ws_port.saturating_add(shift * 2),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Commands};
    use clap::Parser;

    fn typed(flags: &str) -> NodeArgs {
        let line = format!("reth node --datadir D {flags}");
        match Cli::try_parse_from(line.split_whitespace())
            .unwrap()
            .command
        {
            Commands::Node(args) => *args,
            other => panic!("not a node: {other:?}"),
        }
    }

    fn resolved(flags: &str) -> NodeConfig {
        node(typed(flags)).unwrap()
    }

    fn proofs(config: &NodeConfig) -> ProofConfig {
        match config.engine.root {
            Strategy::Proofs(root) => root,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn defaults() {
        let config = resolved("");
        assert_eq!(config.engine.persistence_threshold, 2);
        assert_eq!(config.engine.memory_block_buffer_target, 0);
        assert_eq!(config.engine.persistence_backpressure_threshold, 64);
        assert_eq!(config.engine.state_cache_bytes, 512 << 20);
        let workers = default_workers(1).saturating_add(default_workers(1).get());
        let root = proofs(&config);
        assert_eq!(
            (root.policy, root.chunk_size.get()),
            (ChunkPolicy::Reth2_5, 5)
        );
        assert_eq!(
            (root.account_workers, root.storage_workers),
            (workers, workers)
        );
        assert_eq!(config.engine.sender_recovery, SenderRecovery::OneByOne);
        assert!(config.engine.skip_invalid_transactions);
        assert_eq!(config.auth.unwrap().address.to_string(), "127.0.0.1:8551");
        assert_eq!((config.http, config.ws), (None, None));
        assert!(!config.methods.idle_at_startup);
    }

    #[test]
    fn servers_listen_on_loopback_unless_told_otherwise() {
        let config = resolved("--http --ws --ws.addr 0.0.0.0 --ws.port 1 --ws.api eth,reth");
        assert_eq!(config.http.unwrap().address.to_string(), "127.0.0.1:8545");
        let ws = config.ws.unwrap();
        assert_eq!(
            (ws.address.to_string(), ws.modules.to_string()),
            ("0.0.0.0:1".into(), "eth,reth".into())
        );
    }

    #[test]
    fn backpressure_begins_above_the_persistence_threshold() {
        let of = |flags| {
            let config = node(typed(flags)).map_err(|error| error.to_string())?;
            Ok::<_, String>(config.engine.persistence_backpressure_threshold)
        };
        assert_eq!(of("--engine.persistence-threshold 50"), Ok(100));
        let given = "--engine.persistence-backpressure-threshold 3";
        assert_eq!(of(given), Ok(3));
        let refused = of(&format!("{given} --engine.persistence-threshold 3")).unwrap_err();
        assert!(
            refused.contains("above --engine.persistence-threshold"),
            "{refused}"
        );
    }

    #[test]
    fn a_state_cache_can_be_switched_off() {
        for (flags, bytes) in [
            ("--engine.cross-block-cache-size 3", 3 << 20),
            ("--engine.disable-state-cache", 0),
        ] {
            assert_eq!(resolved(flags).engine.state_cache_bytes, bytes, "{flags}");
        }
    }

    #[test]
    fn instances_do_not_share_ports() {
        let ports = |flags| Ports::of(&typed(flags));
        assert_eq!(
            ports(""),
            Ports {
                auth: 8551,
                http: 8545,
                ws: 8546
            }
        );
        assert_eq!(
            ports("--instance 3"),
            Ports {
                auth: 8751,
                http: 8543,
                ws: 8550
            }
        );
        assert_eq!(
            ports("--with-unused-ports"),
            Ports {
                auth: 0,
                http: 0,
                ws: 0
            }
        );
    }

    #[test]
    fn workers_are_the_unreserved_cpus_but_one_at_least() {
        assert_eq!(default_workers(usize::MAX).get(), 1);
        let few = "--engine.storage-worker-count 7 --engine.reserved-cpu-cores 4096";
        let root = proofs(&resolved(&format!("{few} --bench.chunk-policy reth-1.11")));
        assert_eq!(
            (root.policy, root.chunk_size.get()),
            (ChunkPolicy::Reth1_11, 60)
        );
        assert_eq!(
            (root.account_workers.get(), root.storage_workers.get()),
            (1, 7)
        );
        let root = proofs(&resolved(few));
        assert_eq!(
            (root.account_workers.get(), root.storage_workers.get()),
            (2, 7)
        );
    }

    #[test]
    fn skipping_invalid_transactions_can_be_switched_off() {
        for (flags, expected) in [
            ("--testing.skip-invalid-transactions", true),
            ("--testing.skip-invalid-transactions=false", false),
        ] {
            assert_eq!(
                resolved(flags).engine.skip_invalid_transactions,
                expected,
                "{flags}"
            );
        }
    }
}
