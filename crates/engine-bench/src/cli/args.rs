//! The flags of every verb, as typed.
//!
//! Invariant: a flag's help states its default, and a value that parses is usable on its own.

use crate::guard::GuardMode;
use crate::profile::Profiler;
use crate::sweep::{
    Axis, ChunkList, Design, Exclusion, GasList, Order, ResetMethod, Setting, ValueError, WarmUp,
    duration, percent,
};
use crate::trace::Wanted;
use clap::{Args, FromArgMatches as _};
use std::{net::SocketAddr, path::PathBuf, time::Duration};

/// Parses a duration; one without a unit is refused with this one.
fn span(unit: &'static str) -> impl Fn(&str) -> Result<Duration, ValueError> + Clone {
    move |text| duration(text, unit)
}

/// Flags that say which generated state is meant.
#[derive(Debug, Clone, Args)]
pub struct StateArgs {
    /// Size of the generated base state: small, medium or large
    #[arg(long, default_value = "small", value_name = "PROFILE")]
    pub profile: String,
    /// Seed of everything that is generated or shuffled
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// Folder of generated states, payloads and working copies [default: the user's cache folder]
    #[arg(hide_short_help = true, long, value_name = "DIR")]
    pub cache_dir: Option<PathBuf>,
}

/// Flags of `sweep`.
#[derive(Debug, Clone, Args)]
pub struct SweepArgs {
    /// A sweep file, whose keys are these flags; typed flags override it
    #[arg(value_name = "SWEEP.toml")]
    pub file: Option<PathBuf>,
    /// Chunk sizes, as in 15,30,60: short for --axis engine.multiproof-chunk-size=15,30,60
    #[arg(long, value_name = "LIST")]
    pub chunks: Option<ChunkList>,
    /// Gas levels, as in 10M,40M [default: 10M]
    #[arg(long, value_name = "LIST")]
    pub gas: Option<GasList>,
    /// Engine flag, or env:NAME, and its values; repeatable
    ///
    /// As in engine.storage-worker-count=2,4. The value on gives the flag alone, off omits it.
    #[arg(long = "axis", value_name = "FLAG=V1,V2")]
    pub axes: Vec<Axis>,
    /// Engine flag that every cell gets; repeatable
    #[arg(hide_short_help = true, long, value_name = "FLAG=V")]
    pub set: Vec<Setting>,
    /// Which combinations of axis values are measured [default: full]
    #[arg(hide_short_help = true, long, value_enum)]
    pub design: Option<Design>,
    /// Value of an axis while others vary in a one-at-a-time design; repeatable [default: its first]
    #[arg(hide_short_help = true, long = "base", value_name = "FLAG=V")]
    pub standing: Vec<Setting>,
    /// Omit cells with all of these values of axes, gas, mix or engine; repeatable
    #[arg(hide_short_help = true, long, value_name = "FLAG=V,...")]
    pub exclude: Vec<Exclusion>,
    /// Engine to measure: bench-reth, a program's name or path, or NAME=PATH; repeatable [default:
    /// bench-reth]
    #[arg(long = "engine", value_name = "NAME|PATH")]
    pub engines: Vec<String>,
    /// File that names engines, with their programs, flags and environments [default: engine-bench/engines.toml in
    /// the user's configuration folder]
    #[arg(hide_short_help = true, long = "engines", value_name = "FILE")]
    pub engines_file: Option<PathBuf>,
    /// Which state to generate
    #[command(flatten)]
    pub state: StateArgs,
    /// Mix of transactions: mainnet, cold-storage, whale or transfers; a list makes it an axis
    /// [default: mainnet]
    #[arg(long, value_name = "NAME", conflicts_with = "payloads")]
    pub mix: Option<String>,
    /// Payloads of one pass [default: enough for 1 Ggas; with --payloads, all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Measure on a copy of this datadir instead of a generated state
    ///
    /// A datadir made by engine-bench init needs no --payloads.
    #[arg(long, value_name = "DIR")]
    pub datadir: Option<PathBuf>,
    /// Work on --datadir itself, which modifies it
    #[arg(hide_short_help = true, long, requires = "datadir")]
    pub in_place: bool,
    /// Chain of --datadir: a genesis file, or a name that reth knows [default: its chain.json, or mainnet]
    #[arg(
        hide_short_help = true,
        long,
        value_name = "FILE|NAME",
        requires = "datadir"
    )]
    pub chain: Option<String>,
    /// Replay these payloads: one folder per gas level (10M/, 40M/), or payloads of one level
    #[arg(long, value_name = "DIR")]
    pub payloads: Option<PathBuf>,
    /// Payloads from behind the head of --datadir up to the block that every pass starts from, such as a gas ramp:
    /// replayed and written to disk once
    #[arg(hide_short_help = true, long, value_name = "DIR", requires = "datadir")]
    pub lead_in: Option<PathBuf>,
    /// Block that every pass starts from [default: the last of --lead-in, or the head of the datadir]
    #[arg(hide_short_help = true, long, value_name = "N")]
    pub target_block: Option<u64>,
    /// Visits of every cell; intervals need two [default: as many as --precision takes]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub rounds: Option<u64>,
    /// Without --rounds: measure until intervals are this narrow [default: 1%]
    #[arg(long, value_name = "P%", value_parser = percent, conflicts_with = "rounds")]
    pub precision: Option<f64>,
    /// Without --rounds: measure no longer than this, as in 20m [default: 4 rounds]
    #[arg(long, value_name = "D", value_parser = span("m"), conflicts_with = "rounds")]
    pub budget: Option<Duration>,
    /// Smallest difference that matters, as in 1% [default: 1%]
    #[arg(hide_short_help = true, long, value_name = "P%", value_parser = percent)]
    pub min_effect: Option<f64>,
    /// Cell that the others of its level are compared with, by its id or its values, as in chunk60
    /// [default: the highest]
    #[arg(hide_short_help = true, long, value_name = "CELL")]
    pub baseline: Option<String>,
    /// Omit the A/A controls, which show by how much identical cells differ
    #[arg(hide_short_help = true, long)]
    pub no_aa: bool,
    /// Order of the cells in a round [default: abba for two cells, else random]
    #[arg(hide_short_help = true, long, value_enum)]
    pub order: Option<Order>,
    /// Interleave the cells of a gas level block by block, in engines frozen between their turns
    ///
    /// Drift of the machine then affects all cells alike, so differences of a few percent show in a few
    /// rounds. Each cell has an engine and a working copy of its own.
    #[arg(hide_short_help = true, long)]
    pub interleave: bool,
    /// What to do about a pass that other programs or the host disturbed [default: void]
    #[arg(hide_short_help = true, long, value_enum, value_name = "MODE")]
    pub guard: Option<GuardMode>,
    /// Watch nothing: short for --guard off
    #[arg(hide_short_help = true, long, conflicts_with = "guard")]
    pub no_guard: bool,
    /// Keep passes in which the engine left the path that was to be measured, marked in every table
    ///
    /// Such as passes of reth in which a state root timed out and was made serially.
    #[arg(hide_short_help = true, long)]
    pub allow_fallback: bool,
    /// What to replay and discard before the measured pass: full, none, or a number of payloads
    #[arg(long, default_value = "full", value_name = "full|none|N")]
    pub warmup: WarmUp,
    /// How the datadir is reset to the base block: unwind, copy, reflink, overlay or command:PROGRAM
    ///
    /// unwind is the engine's own; copy, reflink and overlay begin from a pristine datadir again. A command finds
    /// ENGINE_BENCH_DATADIR, ENGINE_BENCH_PRISTINE and ENGINE_BENCH_TARGET_BLOCK in its environment.
    #[arg(hide_short_help = true, long, value_name = "HOW", default_value_t)]
    pub reset: ResetMethod,
    /// Pause after every payload, as in 400ms [default: none]
    #[arg(hide_short_help = true, long, value_name = "D", value_parser = span("ms"))]
    pub wait_time: Option<Duration>,
    /// Wait after every (persistence threshold + 1) payloads until they are persisted
    #[arg(hide_short_help = true, long)]
    pub wait_for_persistence: bool,
    /// Longest time an engine may take to become ready
    #[arg(hide_short_help = true, long, default_value = "120s", value_name = "D", value_parser = span("s"))]
    pub ready_timeout: Duration,
    /// Longest time an engine may take to answer one request
    #[arg(hide_short_help = true, long, default_value = "120s", value_name = "D", value_parser = span("s"))]
    pub request_timeout: Duration,
    /// Results folder [default: results/UTC-TIME]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Resume the interrupted sweep in this folder; its plan holds every other flag
    #[arg(long, value_name = "DIR", conflicts_with = "file")]
    pub resume: Option<PathBuf>,
    /// After measuring, replay the slowest blocks of each cell again and keep their spans: worst:N, all
    /// or none
    #[arg(
        hide_short_help = true,
        long,
        default_value = "none",
        value_name = "WHICH"
    )]
    pub trace: Wanted,
    /// Collector that also receives the spans of --trace, such as a local Jaeger
    #[arg(
        hide_short_help = true,
        long,
        default_value = "http://127.0.0.1:4318",
        value_name = "URL"
    )]
    pub trace_to: String,
    /// Web pages of the collector of --trace-to [default: port 16686 of its host]
    #[arg(hide_short_help = true, long, value_name = "URL")]
    pub trace_pages: Option<String>,
    /// After measuring, replay every cell again under this profiler
    #[arg(hide_short_help = true, long, value_enum, default_value_t = Profiler::None, value_name = "TOOL")]
    pub profiler: Profiler,
    /// Serve metrics of the sweep and of its engine here, as in 127.0.0.1:9464
    #[arg(hide_short_help = true, long, value_name = "ADDR:PORT")]
    pub metrics: Option<SocketAddr>,
    /// Print every resolved value, its origin and an estimate, or why the sweep cannot run
    #[arg(long)]
    pub dry_run: bool,
    /// Measure even if there are more than 1,000 cells
    #[arg(hide_short_help = true, long)]
    pub yes: bool,
    /// Print events as JSON lines, then report.json; with --dry-run, plan.json
    #[arg(long)]
    pub json: bool,
    /// Print nothing but errors
    #[arg(hide_short_help = true, long)]
    pub quiet: bool,
}

impl SweepArgs {
    /// These flags of a sweep alone, without a verb before them.
    ///
    /// # Errors
    /// When one refuses its value.
    pub fn alone(flags: &[&str]) -> Result<Self, clap::Error> {
        let sweep = Self::augment_args(clap::Command::new("sweep").no_binary_name(true));
        Self::from_arg_matches(&sweep.try_get_matches_from(flags)?)
    }
}

/// Flags of `replay`.
#[derive(Debug, Clone, Args)]
pub struct ReplayArgs {
    /// Folder of payloads
    #[arg(long, value_name = "DIR")]
    pub payloads: PathBuf,
    /// The engine's authenticated port, as in http://127.0.0.1:8551
    #[arg(long, value_name = "URL")]
    pub engine_url: String,
    /// File with the secret of that port: 32 bytes in hexadecimal
    #[arg(long, value_name = "FILE")]
    pub jwt_secret: PathBuf,
    /// Folder for samples.csv, combined_latency.csv and total_gas.csv [default: write no files]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Pause after every payload, as in 400ms [default: none]
    #[arg(long, value_name = "D", value_parser = span("ms"))]
    pub wait_time: Option<Duration>,
    /// Longest time the engine may take to answer one request
    #[arg(long, default_value = "120s", value_name = "D", value_parser = span("s"))]
    pub request_timeout: Duration,
}

/// Flags of `init`.
#[derive(Debug, Clone, Args)]
pub struct InitArgs {
    /// Which state to generate
    #[command(flatten)]
    pub state: StateArgs,
    /// Write the state here instead of into the cache
    #[arg(long, value_name = "DIR")]
    pub datadir: Option<PathBuf>,
    /// Also write the state as a genesis file that any engine reads (small and medium profiles)
    #[arg(long, value_name = "FILE")]
    pub export_genesis: Option<PathBuf>,
    /// Also write the state in the form that reth's init-state reads
    #[arg(long, value_name = "FILE")]
    pub export_dump: Option<PathBuf>,
}

/// Flags of `generate`.
#[derive(Debug, Clone, Args)]
pub struct GenerateArgs {
    /// Gas levels, as in 10M,20M,30M,40M
    #[arg(long, value_name = "LIST")]
    pub gas: GasList,
    /// Payloads of each level [default: enough for 1 Ggas]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Mix of transactions: mainnet, cold-storage, whale or transfers
    #[arg(long, default_value = "mainnet", value_name = "NAME")]
    pub mix: String,
    /// Which state to build on
    #[command(flatten)]
    pub state: StateArgs,
    /// Folder that gets one folder per gas level [default: the cache]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// Flags of `doctor`.
#[derive(Debug, Clone, Args)]
pub struct DoctorArgs {
    /// Folder that a sweep would work in [default: the user's cache folder]
    #[arg(long, value_name = "DIR")]
    pub cache_dir: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Flags of `observe`.
#[derive(Debug, Clone, Args)]
pub struct ObserveArgs {
    /// What to do
    #[arg(value_enum)]
    pub what: Observing,
    /// Folder for configuration, data and logs [default: the folder observe in the cache]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Add this to every port, to run beside other instances
    #[arg(long, default_value_t = 0, value_name = "N", value_parser = clap::value_parser!(u16).range(..40_000))]
    pub port_offset: u16,
}

/// What `observe` does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Observing {
    /// Start what is installed and not running
    Up,
    /// Stop what up started
    Down,
    /// Print a compose file that starts the same programs as containers
    Compose,
}

/// Flags of `compare`.
#[derive(Debug, Clone, Args)]
pub struct CompareArgs {
    /// The results folder to compare with, or one of its cells as DIR:CELL
    #[arg(value_name = "A")]
    pub a: PathBuf,
    /// The results folder that is compared, or one of its cells as DIR:CELL
    #[arg(value_name = "B")]
    pub b: PathBuf,
    /// End with code 1 when a cell of B is shown to be slower than that of A by more than this, as in 2%
    ///
    /// Shown means that the whole interval is beyond it, and beyond the noise floor. Code 2 means that nothing
    /// could be shown: fewer than three rounds, no noise floor, no numbers, or other payloads.
    #[arg(long, value_name = "P%", value_parser = percent)]
    pub fail_on_regression: Option<f64>,
    /// Print JSON instead of tables
    #[arg(long)]
    pub json: bool,
}

/// Flags of `report`.
#[derive(Debug, Clone, Args)]
pub struct ReportArgs {
    /// The results folder of a sweep
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Cell that the others of its level are compared with, by its id or its values, as in chunk60
    /// [default: that of the sweep]
    #[arg(long, value_name = "CELL")]
    pub baseline: Option<String>,
    /// Print report.json instead of a table
    #[arg(long)]
    pub json: bool,
}
