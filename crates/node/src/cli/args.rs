//! What can be typed: the commands and flags of bench-reth, spelled as reth spells them.
//!
//! Nothing here decides what a flag means; [`resolve`](super::resolve) does, in one place.

use super::{
    inert::InertNodeFlags,
    log_args::LogArgs,
    telemetry_args::TelemetryArgs,
    values::{ModuleList, parse_chunk_size, parse_named, parse_size_bytes},
};
use alloy_eips::BlockHashOrNumber;
use alloy_primitives::Bytes;
use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use std::{
    net::{IpAddr, Ipv4Addr},
    num::{NonZeroU64, NonZeroUsize},
    path::PathBuf,
};

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A compact Ethereum execution engine for benchmarks.
///
/// Flags, RPC methods and log lines are spelled as reth spells them, so that what drives reth
/// drives this engine.
#[derive(Debug, Parser)]
#[command(
    name = "bench-reth",
    version,
    propagate_version = true,
    max_term_width = 100
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Commands,
    /// Where log lines go and which.
    #[command(flatten)]
    pub log: LogArgs,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Commands {
    /// Start the engine and its servers
    Node(Box<NodeArgs>),
    /// Create a datadir from a genesis file or from a generated base state
    Init(InitArgs),
    /// Create a datadir from a genesis header and a state dump (JSON lines)
    InitState(InitStateArgs),
    /// Import blocks from an RLP file, validating each
    Import(ImportArgs),
    /// Work on single stages of a stopped engine
    Stage(StageArgs),
    /// Look into the database of a stopped engine
    Db(DbArgs),
}

/// Which chain, and where its data lives.
#[derive(Debug, Clone, Args)]
pub struct DatadirArgs {
    /// Genesis file (geth's JSON format) of the chain. Default: chain.json in the datadir
    #[arg(long, global = true, value_name = "FILE")]
    pub chain: Option<PathBuf>,
    /// Directory that holds the database, the genesis file and the JWT secret
    #[arg(long, global = true, value_name = "DIR")]
    pub datadir: Option<PathBuf>,
}

/// How the database is opened.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Database")]
pub struct DatabaseArgs {
    /// Upper limit of the database file, for example 8TB
    #[arg(long = "db.max-size", value_parser = parse_size_bytes, value_name = "SIZE")]
    pub max_size_bytes: Option<u64>,
    /// How much the database file grows at a time, for example 64MB
    #[arg(long = "db.growth-step", value_parser = parse_size_bytes, value_name = "SIZE")]
    pub growth_step_bytes: Option<u64>,
    /// Whether a commit waits for the disk
    #[arg(long = "db.sync-mode", value_enum, default_value_t = SyncModeArg::Durable)]
    pub sync_mode: SyncModeArg,
    /// Open the database for this process alone
    #[arg(
        long = "db.exclusive",
        num_args = 0..=1,
        default_missing_value = "true",
        default_value_t = false,
        action = ArgAction::Set,
        value_name = "BOOL"
    )]
    pub exclusive: bool,
}

/// When a commit is on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SyncModeArg {
    /// Before it returns
    Durable,
    /// Later: a crash of the machine may lose commits, but not consistency
    SafeNoSync,
}

/// How what is unknown of the tries is found out while a block executes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ChunkPolicyArg {
    /// Batches of targets are cut into jobs whenever they exceed the chunk size
    Always,
    /// The same by the rule of reth 1.11: where there are more than 300 targets, or idle workers
    #[value(name = "reth-1.11")]
    Reth1_11,
    /// By the rule of reth 2.5: also, a batch that is not long has two chunks at least
    #[value(name = "reth-2.5")]
    Reth2_5,
    /// No batches: ranges of keys are cut down to the chunk size, and idle threads take them
    RangeSteal,
}

/// When a block's state root is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RootStrategyArg {
    /// While it executes
    Task,
    /// Afterwards, tries side by side
    Parallel,
    /// Afterwards, on one thread
    Serial,
    /// Not at all: roots are taken on trust and no block is persisted, to measure what is left without
    /// them
    Skip,
}

/// Arguments of `node`.
#[derive(Debug, Args)]
pub struct NodeArgs {
    /// Chain and datadir.
    #[command(flatten)]
    pub datadir: DatadirArgs,
    /// Number of this instance: shifts the default ports as reth does, so that instances can run
    /// side by side
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=200))]
    pub instance: Option<u16>,
    /// Let the system choose every port
    #[arg(long, conflicts_with = "instance")]
    pub with_unused_ports: bool,
    /// Servers.
    #[command(flatten)]
    pub rpc: RpcArgs,
    /// The engine.
    #[command(flatten)]
    pub engine: EngineArgs,
    /// Block building.
    #[command(flatten)]
    pub builder: BuilderArgs,
    /// The database.
    #[command(flatten)]
    pub database: DatabaseArgs,
    /// Metrics and traces.
    #[command(flatten)]
    pub telemetry: TelemetryArgs,
    /// Flags of reth without effect here.
    #[command(flatten)]
    pub inert: InertNodeFlags,
}

/// The RPC servers.
#[derive(Debug, Args)]
#[command(next_help_heading = "RPC")]
pub struct RpcArgs {
    /// Enable the public HTTP server
    #[arg(long)]
    pub http: bool,
    /// Address of the public HTTP server
    #[arg(long = "http.addr", default_value_t = LOOPBACK, value_name = "ADDR")]
    pub http_addr: IpAddr,
    /// Port of the public HTTP server
    #[arg(long = "http.port", default_value_t = 8545, value_name = "PORT")]
    pub http_port: u16,
    /// Namespaces of the public HTTP server, comma-separated, or `all` or `none`
    #[arg(long = "http.api", default_value = "eth,net,web3", value_name = "LIST")]
    pub http_api: ModuleList,
    /// Enable the public WebSocket server
    #[arg(long)]
    pub ws: bool,
    /// Address of the public WebSocket server
    #[arg(long = "ws.addr", default_value_t = LOOPBACK, value_name = "ADDR")]
    pub ws_addr: IpAddr,
    /// Port of the public WebSocket server
    #[arg(long = "ws.port", default_value_t = 8546, value_name = "PORT")]
    pub ws_port: u16,
    /// Namespaces of the public WebSocket server, comma-separated, or `all` or `none`
    #[arg(long = "ws.api", default_value = "eth,net,web3", value_name = "LIST")]
    pub ws_api: ModuleList,
    /// Host names, besides IP addresses, that requests to the public servers may name,
    /// comma-separated; `*` for any. Keeps web pages from reaching the node by DNS rebinding
    #[arg(
        long = "http.vhosts",
        default_value = "localhost",
        value_delimiter = ',',
        value_name = "LIST"
    )]
    pub http_vhosts: Vec<String>,
    /// Origins of web pages that may open a WebSocket, comma-separated; `*` for any
    #[arg(long = "ws.origins", value_delimiter = ',', value_name = "LIST")]
    pub ws_origins: Vec<String>,
    /// Do not start the authenticated server
    #[arg(long, alias = "disable-engine-api")]
    pub disable_auth_server: bool,
    /// Address of the authenticated server (Engine API)
    #[arg(long = "authrpc.addr", default_value_t = LOOPBACK, value_name = "ADDR")]
    pub auth_addr: IpAddr,
    /// Port of the authenticated server (Engine API)
    #[arg(long = "authrpc.port", default_value_t = 8551, value_name = "PORT")]
    pub auth_port: u16,
    /// File with the JWT secret, 32 bytes as hexadecimal digits. Default: jwt.hex in the datadir,
    /// created when it is absent
    #[arg(long = "authrpc.jwtsecret", value_name = "FILE")]
    pub jwt_secret: Option<PathBuf>,
    /// Largest request of the public servers, in megabytes
    #[arg(long = "rpc.max-request-size", default_value_t = 15, value_name = "MB")]
    pub max_request_mb: u32,
    /// Largest response of the public servers, in megabytes
    #[arg(
        long = "rpc.max-response-size",
        visible_alias = "rpc.returndata.limit",
        default_value_t = 160,
        value_name = "MB"
    )]
    pub max_response_mb: u32,
    /// Most connections at a time, per server
    #[arg(
        long = "rpc.max-connections",
        default_value_t = 500,
        value_name = "COUNT"
    )]
    pub max_connections: u32,
    /// Most subscriptions of one connection
    #[arg(long = "rpc.max-subscriptions-per-connection", default_value_t = 1024)]
    pub max_subscriptions: u32,
    /// Most gas an eth_call may use
    #[arg(long = "rpc.gascap", default_value_t = 50_000_000, value_name = "GAS")]
    pub call_gas_cap: u64,
    /// Most ether that the fees of a transaction sent here may be; 0 for no cap
    #[arg(long = "rpc.txfeecap", default_value = "1.0", value_name = "ETHER")]
    pub tx_fee_cap_ether: f64,
    /// Report the node as synced from the start, before the first fork choice
    #[arg(long = "debug.startup-sync-state-idle")]
    pub startup_sync_state_idle: bool,
}

/// The engine.
#[derive(Debug, Args)]
#[command(next_help_heading = "Engine")]
pub struct EngineArgs {
    /// Persist blocks once the head is more than this many blocks above the database
    #[arg(
        long = "engine.persistence-threshold",
        default_value_t = 2,
        value_name = "BLOCKS"
    )]
    pub persistence_threshold: u64,
    /// How many of the newest blocks stay in memory when blocks are persisted
    #[arg(
        long = "engine.memory-block-buffer-target",
        default_value_t = 0,
        value_name = "BLOCKS"
    )]
    pub memory_block_buffer_target: u64,
    /// Serve no request while blocks are persisted and this many more wait. Default:
    /// twice the persistence threshold, at least 64
    #[arg(
        long = "engine.persistence-backpressure-threshold",
        value_name = "BLOCKS"
    )]
    pub persistence_backpressure_threshold: Option<u64>,
    /// Memory of accounts and slots that are kept across blocks, in megabytes
    #[arg(
        long = "engine.cross-block-cache-size",
        default_value_t = 512,
        value_name = "MEGABYTES"
    )]
    pub cross_block_cache_mb: usize,
    /// Keep no accounts and slots across blocks
    #[arg(long = "engine.disable-state-cache")]
    pub disable_state_cache: bool,
    /// How many proof targets one job of a multiproof holds at most (default: 5); 60 with other chunk
    /// policies than reth-2.5
    #[arg(
        long = "engine.multiproof-chunk-size",
        value_parser = parse_chunk_size,
        value_name = "TARGETS"
    )]
    pub multiproof_chunk_size: Option<NonZeroUsize>,
    /// Storage proof workers. Default: CPUs less the reserved ones, with reth-2.5 twice as many
    #[arg(long = "engine.storage-worker-count", value_name = "COUNT")]
    pub storage_worker_count: Option<NonZeroUsize>,
    /// Account proof workers. Default: CPUs less the reserved ones, with reth-2.5 twice as many
    #[arg(long = "engine.account-worker-count", value_name = "COUNT")]
    pub account_worker_count: Option<NonZeroUsize>,
    /// CPUs that the proof workers leave free; range-steal leaves none free unless worker counts are given
    #[arg(
        long = "engine.reserved-cpu-cores",
        default_value_t = 1,
        value_name = "COUNT"
    )]
    pub reserved_cpu_cores: usize,
    /// Let the last parameter of engine_newPayloadV4 be the requests hash
    #[arg(long = "engine.accept-execution-requests-hash")]
    pub accept_execution_requests_hash: bool,
    /// How what the tries in memory lack is read while a block executes: by jobs that hold a chunk of
    /// targets each, cut by the rules of reth-1.11 or reth-2.5 or always (whenever there are more), or by
    /// range-steal: ranges of keys cut down to the chunk size, which idle threads take
    #[arg(
        long = "bench.chunk-policy",
        default_value = "reth-2.5",
        value_parser = parse_named::<ChunkPolicyArg>,
        value_name = "POLICY"
    )]
    pub chunk_policy: ChunkPolicyArg,
    /// New keys that make a batch of proof targets while a block executes; for range-steal there are no
    /// batches. With 128 there are about as many as reth has
    #[arg(long = "bench.batch-keys", default_value = "128", value_name = "KEYS")]
    pub batch_keys: NonZeroUsize,
    /// When a block's state root is computed: task (while it executes), parallel (afterwards, tries
    /// side by side), serial (afterwards, on one thread), or skip (not at all: roots are taken on
    /// trust and no block is persisted, at most 1,024 are held, to measure what is left without them)
    #[arg(
        long = "bench.root-strategy",
        default_value = "task",
        value_parser = parse_named::<RootStrategyArg>,
        value_name = "STRATEGY"
    )]
    pub root_strategy: RootStrategyArg,
    /// Memory of the trie nodes that are kept across blocks, in megabytes. With 0 each block begins
    /// with nothing
    #[arg(
        long = "bench.root-arena-mb",
        default_value_t = 256,
        value_name = "MEGABYTES"
    )]
    pub root_arena_mb: usize,
    /// Of those nodes, keep only what one of so many last blocks went through. Default: 2 for reth-1.11,
    /// 7 for reth-2.5, all for always and range-steal, of which the latter always keeps all
    #[arg(long = "bench.kept-blocks", value_name = "BLOCKS")]
    pub kept_blocks: Option<NonZeroU64>,
    /// Compare every state root with the serial reference (slow)
    #[arg(long = "bench.check-state-root")]
    pub check_state_root: bool,
    /// Recover senders one by one with libsecp256k1, as reth does and as the policies reth-1.11 and
    /// reth-2.5 always do; else several side by side where the processor can (AVX-512 IFMA)
    #[arg(long = "bench.senders-one-by-one")]
    pub senders_one_by_one: bool,
    /// For testing benchmarks: make every payload take this much longer, in percent of its own time
    #[arg(
        long = "bench.inject-slowdown",
        default_value = "0",
        value_name = "PERCENT",
        value_parser = super::values::parse_percent
    )]
    pub inject_slowdown: f64,
}

/// Block building.
#[derive(Debug, Args)]
#[command(next_help_heading = "Builder")]
pub struct BuilderArgs {
    /// Extra data of built blocks, text or 0x and hexadecimal digits, at most 32 bytes
    #[arg(long = "builder.extradata", value_parser = super::values::parse_extra_data)]
    pub extra_data: Option<Bytes>,
    /// Gas limit that built blocks move towards
    #[arg(
        long = "builder.gaslimit",
        default_value_t = 60_000_000,
        value_name = "GAS"
    )]
    pub gas_limit: u64,
    /// testing_buildBlockV1 leaves out a transaction that cannot be included, and its sender's
    /// later ones, instead of failing
    #[arg(
        long = "testing.skip-invalid-transactions",
        num_args = 0..=1,
        default_missing_value = "true",
        default_value_t = true,
        action = ArgAction::Set,
        require_equals = true,
        value_name = "BOOL"
    )]
    pub skip_invalid_transactions: bool,
}

/// Arguments of `init`.
#[derive(Debug, Args)]
pub struct InitArgs {
    /// Chain and datadir.
    #[command(flatten)]
    pub datadir: DatadirArgs,
    /// The database.
    #[command(flatten)]
    pub database: DatabaseArgs,
    /// Generate this base state instead of reading a genesis file: small, medium, large
    #[arg(long, conflicts_with = "chain", value_name = "PROFILE")]
    pub profile: Option<String>,
    /// Seed of the generated base state
    #[arg(long, default_value_t = 1, requires = "profile", value_name = "SEED")]
    pub seed: u64,
}

/// Arguments of `init-state`.
#[derive(Debug, Args)]
pub struct InitStateArgs {
    /// Chain and datadir.
    #[command(flatten)]
    pub datadir: DatadirArgs,
    /// The database.
    #[command(flatten)]
    pub database: DatabaseArgs,
    /// State dump: {"root":"0x.."} on the first line, then one account a line with address,
    /// balance, nonce, code and storage
    #[arg(value_name = "STATE_DUMP_FILE")]
    pub state: PathBuf,
}

/// Arguments of `import`.
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// Chain and datadir.
    #[command(flatten)]
    pub datadir: DatadirArgs,
    /// The database.
    #[command(flatten)]
    pub database: DatabaseArgs,
    /// The engine.
    #[command(flatten)]
    pub engine: EngineArgs,
    /// File of RLP encoded blocks, one after another
    #[arg(value_name = "IMPORT_PATH")]
    pub path: PathBuf,
}

/// Arguments of `stage`.
#[derive(Debug, Args)]
pub struct StageArgs {
    /// What to do with the stages.
    #[command(subcommand)]
    pub command: StageCommand,
}

/// Commands of `stage`.
#[derive(Debug, Subcommand)]
pub enum StageCommand {
    /// Remove blocks from the tip down
    Unwind(UnwindArgs),
}

/// Arguments of `stage unwind`.
#[derive(Debug, Args)]
pub struct UnwindArgs {
    /// Chain and datadir.
    #[command(flatten)]
    pub datadir: DatadirArgs,
    /// The database.
    #[command(flatten)]
    pub database: DatabaseArgs,
    /// Unwind without help from the network; always so here
    #[arg(long)]
    pub offline: bool,
    /// How far.
    #[command(subcommand)]
    pub target: UnwindTarget,
}

/// Where an unwind ends.
#[derive(Debug, Clone, Subcommand)]
pub enum UnwindTarget {
    /// Down to this block, which stays
    ToBlock {
        /// Number or hash of the block
        target: BlockHashOrNumber,
    },
    /// This many blocks
    NumBlocks {
        /// How many blocks to remove
        amount: u64,
    },
}

/// Arguments of `db`.
#[derive(Debug, Args)]
pub struct DbArgs {
    /// Chain and datadir.
    #[command(flatten)]
    pub datadir: DatadirArgs,
    /// What to look at.
    #[command(subcommand)]
    pub command: DbCommand,
}

/// Arguments of `db stats`.
#[derive(Debug, Clone, Args)]
pub struct StatsArgs {
    /// Print one line of JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `db verify`.
#[derive(Debug, Clone, Args)]
pub struct VerifyArgs {
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
    /// Undo this many of the newest blocks to compare the state root of each. Default: all
    #[arg(long, value_name = "BLOCKS")]
    pub state_roots: Option<u64>,
}

/// Commands of `db`.
#[derive(Debug, Subcommand)]
pub enum DbCommand {
    /// Entries, pages and size of every table
    Stats(StatsArgs),
    /// Recompute everything checkable and say what is wrong (exit code 1 when something is)
    Verify(VerifyArgs),
}
