//! From flags as typed to [`Settings`]: defaults, names to paths, and checks across flags.
//!
//! Invariant: a resolved path is absolute, so that a plan means the same from any folder.

use super::{
    Adaptive, Axis, BaseSource, CHUNK_SIZE_FLAG, DEFAULT_RELEVANT, EngineKind, EngineSpec, Gas,
    Level, PayloadSource, ResetMethod, Settings, engine::engines, value::GasList,
};
use crate::{cache, cli::SweepArgs};
use std::{
    collections::BTreeSet,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

/// Gas that a pass replays at least, unless a count is given.
const PASS_GAS: u64 = 2_000_000_000;

/// Relative difference that an adaptive sweep resolves unless told otherwise.
const DEFAULT_RESOLVE: f64 = 0.01;

/// Rounds after which an adaptive sweep without a budget ends, resolved or not: a noisy machine
/// would otherwise go on for hours that nobody granted.
const UNBUDGETED_ROUNDS: u64 = 10;

/// Gas levels when none are given.
const DEFAULT_LEVELS: [Gas; 1] = [Gas(10_000_000)];

/// reth's default `--engine.persistence-threshold`, passed to every engine explicitly.
const PERSISTENCE_THRESHOLD: u64 = 2;

/// The engine's flag of that name.
const PERSISTENCE_THRESHOLD_FLAG: &str = "engine.persistence-threshold";

/// Flags that the harness sets itself: they cannot be swept.
const RESERVED_FLAGS: [&str; 12] = [
    "chain",
    "config",
    "datadir",
    "http",
    "http.port",
    "ws",
    "ws.port",
    "authrpc.port",
    "authrpc.jwtsecret",
    "port",
    "color",
    "syncmode",
];

/// Why flags do not make a sweep.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// A name that is neither known nor a program.
    #[error(
        "--engine `{0}` is neither bench-reth nor a program; give the path of an executable or its name on the PATH, as in ./target/release/reth, geth or old=./bench-reth"
    )]
    UnknownEngine(String),
    /// Two engines with the same name.
    #[error(
        "two engines are called `{0}`; name one of them, as in --engine old=PATH, since results are told apart by name"
    )]
    SameEngineName(String),
    /// A generated state needs the embedded engine's own storage.
    #[error(
        "--engine `{0}` brings its own storage: give it a datadir and payloads with --datadir and --payloads"
    )]
    NeedsDatadir(String),
    /// Several engines on one datadir in place.
    #[error("--in-place works with one engine, not {0}; leave it away to give each engine a copy")]
    InPlaceEngines(usize),
    /// An engine that cannot work in place.
    #[error(
        "--in-place needs an engine that can unwind its datadir, which `{0}` cannot; leave it away to work on a copy"
    )]
    InPlaceCopied(String),
    /// An engine without a subscription to what is on disk.
    #[error(
        "--wait-for-persistence needs an engine that tells which blocks are on disk, which `{0}` does not; use --wait-time"
    )]
    NoPersistence(String),
    /// A flag that no engine has.
    #[error("no engine of the sweep has a flag --{0}; see the engine's own help")]
    NoEngineHas(String),
    /// A copy of a datadir that is worked on in place would have to be pristine.
    #[error(
        "--reset copy keeps a pristine datadir beside the one worked on; leave --in-place away"
    )]
    InPlaceCopy,
    /// The same flag on two axes.
    #[error(
        "the flag --{0} is on two axes; list all its values in one --axis (--chunks is --axis engine.multiproof-chunk-size)"
    )]
    SameAxis(String),
    /// A flag that the harness needs for itself.
    #[error("the flag --{0} is set by the sweep itself and cannot be an axis")]
    ReservedAxis(String),
    /// A folder or program that cannot be reached.
    #[error("failed to open {what} {path}: {reason}; check the path")]
    Path {
        /// What it should be.
        what: &'static str,
        /// As typed.
        path: PathBuf,
        /// The system's reason.
        reason: io::Error,
    },
    /// No folder for the cache.
    #[error(transparent)]
    Cache(#[from] cache::CacheError),
    /// A profile or mix that is not known.
    #[error("{0}")]
    Workload(String),
}

/// Resolves the flags of `sweep`.
///
/// # Errors
/// See [`ResolveError`].
pub fn resolve(args: &SweepArgs) -> Result<Settings, ResolveError> {
    let axes = axes(args)?;
    let engines = engines(&args.engines, &axes)?;
    let base = base(args)?;
    check_bases(&engines, &base, args)?;
    check_waits(&engines, args)?;
    Ok(Settings {
        axes,
        levels: levels(args),
        payloads: payloads(args)?,
        target_block: args.target_block,
        rounds: rounds(args),
        adaptive: adaptive(args),
        // One round gives no verdict that a duplicate could call into question.
        duplicates: !args.no_aa && args.rounds != Some(1),
        relevant: args.relevant.map_or(DEFAULT_RELEVANT, |percent| percent.0),
        order: args.order,
        warmup: args.warmup,
        reset: args.reset,
        wait_time_ms: args.wait_time.map_or(0, |span| millis(span.0)),
        wait_for_persistence: args.wait_for_persistence,
        persistence_threshold: PERSISTENCE_THRESHOLD,
        seed: args.state.seed,
        ready_timeout_ms: millis(args.ready_timeout.0),
        request_timeout_ms: millis(args.request_timeout.0),
        cache_dir: cache::directory(args.state.cache_dir.as_deref())?,
        engines,
        base,
    })
}

impl Settings {
    /// The persistence threshold of a cell: what an axis sets, or the sweep's own.
    pub fn threshold_of(&self, flags: &[(String, String)]) -> u64 {
        let set = flags
            .iter()
            .find(|(flag, _)| flag == PERSISTENCE_THRESHOLD_FLAG);
        set.and_then(|(_, value)| value.parse().ok())
            .unwrap_or(self.persistence_threshold)
    }
}

/// Payloads of one pass at a gas level when no count is given: at least 2 Ggas.
pub(crate) fn default_count(gas: Gas) -> u64 {
    PASS_GAS.div_ceil(gas.0)
}

/// The canonical name of a profile.
///
/// # Errors
/// When the workload does not know it.
pub(crate) fn profile_name(text: &str) -> Result<String, ResolveError> {
    let profile: Result<workload::Profile, _> = text.parse();
    profile
        .map(|profile| profile.to_string())
        .map_err(|error| ResolveError::Workload(format!("--profile `{text}`: {error}")))
}

/// The canonical name of a mix.
///
/// # Errors
/// When the workload does not know it.
fn mix_name(text: &str) -> Result<String, ResolveError> {
    let mix: Result<workload::Mix, _> = text.parse();
    mix.map(|mix| mix.name().to_owned())
        .map_err(|error| ResolveError::Workload(format!("--mix `{text}`: {error}")))
}

fn base(args: &SweepArgs) -> Result<BaseSource, ResolveError> {
    match &args.datadir {
        None => Ok(BaseSource::Generated {
            profile: profile_name(&args.state.profile)?,
        }),
        Some(path) => Ok(BaseSource::Datadir {
            path: existing("the datadir", path)?,
            in_place: args.in_place,
        }),
    }
}

fn payloads(args: &SweepArgs) -> Result<PayloadSource, ResolveError> {
    match &args.payloads {
        None => Ok(PayloadSource::Generated {
            mix: mix_name(&args.mix)?,
        }),
        Some(path) => Ok(PayloadSource::Folder {
            path: existing("the payload folder", path)?,
        }),
    }
}

fn check_bases(
    engines: &[EngineSpec],
    base: &BaseSource,
    args: &SweepArgs,
) -> Result<(), ResolveError> {
    let named = |found: Option<&EngineSpec>, error: fn(String) -> ResolveError| {
        found.map_or(Ok(()), |engine| Err(error(engine.name.clone())))
    };
    let BaseSource::Datadir { in_place, .. } = base else {
        let foreign = |engine: &&EngineSpec| engine.kind == EngineKind::Reth;
        return named(engines.iter().find(foreign), ResolveError::NeedsDatadir);
    };
    if *in_place && engines.len() > 1 {
        return Err(ResolveError::InPlaceEngines(engines.len()));
    }
    if *in_place && args.reset == ResetMethod::Copy {
        return Err(ResolveError::InPlaceCopy);
    }
    let copied = |engine: &&EngineSpec| *in_place && !engine.kind.can_unwind();
    named(engines.iter().find(copied), ResolveError::InPlaceCopied)
}

fn check_waits(engines: &[EngineSpec], args: &SweepArgs) -> Result<(), ResolveError> {
    let silent = engines
        .iter()
        .find(|engine| args.wait_for_persistence && !engine.kind.tells_persisted_blocks());
    silent.map_or(Ok(()), |engine| {
        Err(ResolveError::NoPersistence(engine.name.clone()))
    })
}

fn axes(args: &SweepArgs) -> Result<Vec<Axis>, ResolveError> {
    let chunks = args.chunks.iter().map(|chunks| Axis {
        flag: CHUNK_SIZE_FLAG.to_owned(),
        values: chunks.0.iter().map(u64::to_string).collect(),
    });
    let axes: Vec<Axis> = chunks.chain(args.axes.iter().cloned()).collect();
    let mut flags = BTreeSet::new();
    for axis in &axes {
        if RESERVED_FLAGS.contains(&axis.flag.as_str()) {
            return Err(ResolveError::ReservedAxis(axis.flag.clone()));
        }
        if !flags.insert(axis.flag.as_str()) {
            return Err(ResolveError::SameAxis(axis.flag.clone()));
        }
    }
    Ok(axes)
}

fn levels(args: &SweepArgs) -> Vec<Level> {
    let GasList(gas) = args.gas.clone().unwrap_or(GasList(DEFAULT_LEVELS.to_vec()));
    let count = |gas| match (args.count, &args.payloads) {
        (Some(count), _) => Some(count),
        (None, Some(_)) => None,
        (None, None) => Some(default_count(gas)),
    };
    gas.into_iter()
        .map(|gas| Level {
            gas,
            count: count(gas),
        })
        .collect()
}

/// Rounds that are asked for, or the most that an adaptive sweep makes.
fn rounds(args: &SweepArgs) -> u64 {
    let most = match args.budget {
        Some(_) => bench_stats::rounds::MOST_ROUNDS,
        None => UNBUDGETED_ROUNDS,
    };
    args.rounds.unwrap_or(most)
}

fn adaptive(args: &SweepArgs) -> Option<Adaptive> {
    let found = || Adaptive {
        resolve: args.resolve.map_or(DEFAULT_RESOLVE, |percent| percent.0),
        budget_s: args.budget.map(|span| span.0.as_secs_f64()),
    };
    args.rounds.is_none().then(found)
}

fn existing(what: &'static str, path: &Path) -> Result<PathBuf, ResolveError> {
    path.canonicalize().map_err(|reason| ResolveError::Path {
        what,
        path: path.to_owned(),
        reason,
    })
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
