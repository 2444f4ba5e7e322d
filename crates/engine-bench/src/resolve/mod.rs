//! From flags as typed to [`Settings`]: defaults, names to paths, and checks across flags.
//!
//! Invariant: a resolved path is absolute, so that a plan means the same from any folder.

mod engines;
mod file;
mod merge;
mod schema;
mod shown;

pub(crate) use engines::{embedded_engine, version_line};
pub use file::FileError;
pub use merge::{MergeError, Origin, Origins, merge};
pub use schema::schema;
pub use shown::shown;

use crate::{
    cache,
    cli::SweepArgs,
    guard::GuardMode,
    plan,
    sweep::{
        Adaptive, Axis, BaseSource, CHUNK_SIZE_FLAG, DEFAULT_MIN_EFFECT, Design, EngineKind,
        EngineSpec, Exclusion, Gas, GasList, Level, MIX_AXIS, Order, PayloadSource, ResetMethod,
        Setting, Settings, default_count,
    },
};
use engines::engines;
use std::{
    collections::BTreeSet,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

/// Relative difference that an adaptive sweep resolves unless told otherwise.
const DEFAULT_PRECISION: f64 = 0.01;

/// Rounds after which an adaptive sweep without a budget ends, resolved or not: a noisy machine
/// would otherwise go on for hours that nobody granted.
const UNBUDGETED_ROUNDS: u64 = 4;

/// Gas levels when none are given.
const DEFAULT_LEVELS: [Gas; 1] = [Gas(10_000_000)];

/// Mix of transactions when none is asked for.
const DEFAULT_MIX: &str = "mainnet";

/// reth's default `--engine.persistence-threshold`, passed to every engine explicitly.
const PERSISTENCE_THRESHOLD: u64 = 2;

/// Flags that the harness sets itself: they cannot be swept.
const RESERVED_FLAGS: [&str; 15] = [
    "chain",
    "config",
    "datadir",
    "engine",
    "gas",
    "http",
    "http.port",
    MIX_AXIS,
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
        "two engines have the name `{0}`, and results are listed by name; give one of them another, as in --engine old=PATH"
    )]
    SameEngineName(String),
    /// A generated state needs the embedded engine's own storage.
    #[error(
        "--engine `{0}` cannot read the generated state, which is bench-reth's; give a datadir of its own and payloads with --datadir and --payloads"
    )]
    NeedsDatadir(String),
    /// What cannot be done on the only copy of a datadir.
    #[error("--in-place {0}; omit it to work on a copy")]
    InPlace(String),
    /// An engine without a subscription to what is on disk.
    #[error(
        "--wait-for-persistence needs an engine that reports which blocks are on disk, which `{0}` does not; use --wait-time instead"
    )]
    NoPersistence(String),
    /// A flag that no engine has.
    #[error("no engine of the sweep has a flag --{0}; the engine's own --help lists its flags")]
    NoEngineHas(String),
    /// The same flag on two axes.
    #[error(
        "the flag --{0} has two axes; list all its values in one --axis (--chunks is --axis engine.multiproof-chunk-size)"
    )]
    SameAxis(String),
    /// A knob that is swept and set at once.
    #[error("--{0} is given both as an axis and with --set; omit one of them")]
    SweptAndSet(String),
    /// A knob that is set twice.
    #[error("--{0} is set twice; give one value")]
    SetTwice(String),
    /// An axis with nothing to compare.
    #[error(
        "the axis {0} has a single value, so there is nothing to compare; give two or more, or give it to every cell with --set {0}={1}"
    )]
    OneValue(String, String),
    /// A place on an axis that is none.
    #[error("--base {0} names no axis of the sweep; its axes are {1}")]
    BaseWithoutAxis(Setting, String),
    /// A place for a design that has none.
    #[error("--base needs --design one-at-a-time; omit it, or choose that design")]
    BaseWithoutDesign,
    /// An exclusion that cannot match.
    #[error("--exclude {0} excludes nothing: {1} is not a value of this sweep")]
    ExcludesNothing(Exclusion, Setting),
    /// A flag that the harness needs for itself.
    #[error(
        "the flag --{0} is set by the sweep itself and can be neither an axis nor set; omit it"
    )]
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
    check_set(&axes, &args.set)?;
    let knobs = axes.iter().map(|axis| axis.flag.as_str());
    let set = args.set.iter().map(|setting| setting.flag.as_str());
    let engines = engines(&args.engines, &knobs.chain(set).collect::<Vec<_>>())?;
    let base = base(args)?;
    check_bases(&engines, &base, args)?;
    check_waits(&engines, args)?;
    let settings = Settings {
        axes,
        set: args.set.clone(),
        design: args.design.unwrap_or_default(),
        standing: args.standing.clone(),
        exclude: args.exclude.clone(),
        levels: levels(args),
        payloads: payloads(args)?,
        target_block: args.target_block,
        rounds: rounds(args),
        adaptive: adaptive(args),
        // One round gives no verdict that an A/A control could call into question.
        controls: !args.no_aa && args.rounds != Some(1),
        baseline: args.baseline.clone(),
        min_effect: args
            .min_effect
            .map_or(DEFAULT_MIN_EFFECT, |percent| percent.0),
        order: args.order.unwrap_or(Order::Random),
        interleave: args.interleave,
        guard: guard(args),
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
    };
    check_design(&settings)?;
    let order = args.order.unwrap_or_else(|| default_order(&settings));
    Ok(Settings { order, ..settings })
}

/// Two cells go back and forth, which cancels steady drift exactly; of more, chance is fairer.
fn default_order(settings: &Settings) -> Order {
    if plan::is_pair(settings) {
        Order::Abba
    } else {
        Order::Random
    }
}

fn guard(args: &SweepArgs) -> GuardMode {
    if args.no_guard {
        GuardMode::Off
    } else {
        args.guard.unwrap_or_default()
    }
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

/// The canonical names of the mixes that are asked for.
fn mixes(args: &SweepArgs) -> Result<Vec<String>, ResolveError> {
    let typed = args.mix.as_deref().unwrap_or(DEFAULT_MIX);
    typed.split(',').map(|name| mix_name(name.trim())).collect()
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
        None => {
            let first = mixes(args)?.into_iter().next();
            Ok(PayloadSource::Generated {
                mix: first.unwrap_or_else(|| DEFAULT_MIX.to_owned()),
            })
        }
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
    let BaseSource::Datadir { in_place, .. } = base else {
        let foreign = engines
            .iter()
            .find(|engine| engine.kind == EngineKind::Reth);
        return foreign.map_or(Ok(()), |engine| {
            Err(ResolveError::NeedsDatadir(engine.name.clone()))
        });
    };
    let stuck = engines.iter().find(|engine| !engine.kind.can_unwind());
    let conflict = match stuck {
        _ if !in_place => None,
        _ if engines.len() > 1 => {
            let engines = engines.len();
            Some(format!(
                "is for a single engine, and the sweep has {engines}"
            ))
        }
        _ if args.interleave => Some("makes no copies, and --interleave needs several".to_owned()),
        _ if args.reset == ResetMethod::Copy => {
            Some("changes the datadir that --reset copy would copy".to_owned())
        }
        Some(engine) => Some(format!(
            "needs an engine that can unwind, which `{}` cannot",
            engine.name
        )),
        None => None,
    };
    conflict.map_or(Ok(()), |conflict| Err(ResolveError::InPlace(conflict)))
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
    let one = args.axes.iter().find(|axis| axis.values.len() == 1);
    if let Some(Axis { flag, values }) = one {
        return Err(ResolveError::OneValue(flag.clone(), values.concat()));
    }
    let reserved = |axis: &&Axis| RESERVED_FLAGS.contains(&axis.flag.as_str());
    if let Some(axis) = args.axes.iter().find(reserved) {
        return Err(ResolveError::ReservedAxis(axis.flag.clone()));
    }
    let mixes = Axis {
        flag: MIX_AXIS.to_owned(),
        values: mixes(args)?,
    };
    let mixes = Some(mixes).filter(|axis| axis.values.len() > 1);
    let axes: Vec<Axis> = mixes
        .into_iter()
        .chain(chunks)
        .chain(args.axes.iter().cloned())
        .collect();
    let mut flags = BTreeSet::new();
    for axis in &axes {
        let mut values = BTreeSet::new();
        if let Some(twice) = axis.values.iter().find(|value| !values.insert(*value)) {
            return Err(ResolveError::Workload(format!(
                "`{twice}` is twice in the list of --{}; name each value once",
                axis.flag
            )));
        }
        if !flags.insert(axis.flag.as_str()) {
            return Err(ResolveError::SameAxis(axis.flag.clone()));
        }
    }
    Ok(axes)
}

/// A knob stays at one value, and is not one that varies or that the harness needs.
fn check_set(axes: &[Axis], set: &[Setting]) -> Result<(), ResolveError> {
    let mut flags = BTreeSet::new();
    for Setting { flag, .. } in set {
        if RESERVED_FLAGS.contains(&flag.as_str()) {
            return Err(ResolveError::ReservedAxis(flag.clone()));
        }
        if axes.iter().any(|axis| axis.flag == *flag) {
            return Err(ResolveError::SweptAndSet(flag.clone()));
        }
        if !flags.insert(flag) {
            return Err(ResolveError::SetTwice(flag.clone()));
        }
    }
    Ok(())
}

/// Places and exclusions speak of values that the sweep has.
fn check_design(settings: &Settings) -> Result<(), ResolveError> {
    if settings.design == Design::Full && !settings.standing.is_empty() {
        return Err(ResolveError::BaseWithoutDesign);
    }
    let names: Vec<&str> = settings
        .axes
        .iter()
        .map(|axis| axis.flag.as_str())
        .collect();
    for standing in &settings.standing {
        if !names.contains(&standing.flag.as_str()) {
            let axes = names.join(", ");
            return Err(ResolveError::BaseWithoutAxis(standing.clone(), axes));
        }
    }
    for exclusion in &settings.exclude {
        let foreign = exclusion.0.iter().find(|pair| !is_a_value(settings, pair));
        if let Some(foreign) = foreign {
            let (exclusion, foreign) = (exclusion.clone(), foreign.clone());
            return Err(ResolveError::ExcludesNothing(exclusion, foreign));
        }
    }
    Ok(())
}

/// Whether a name and a value are of an axis, a gas level, a mix or an engine of the sweep.
fn is_a_value(settings: &Settings, Setting { flag, value }: &Setting) -> bool {
    match flag.as_str() {
        "gas" => {
            let gas: Option<Gas> = value.parse().ok();
            settings.levels.iter().any(|level| Some(level.gas) == gas)
        }
        "engine" => settings.engines.iter().any(|engine| engine.name == *value),
        MIX_AXIS => settings.mixes().contains(&value.as_str()),
        flag => {
            let of_axis = |axis: &Axis| axis.flag == flag && axis.values.contains(value);
            settings.axes.iter().any(of_axis)
                || settings
                    .standing
                    .iter()
                    .any(|set| set.flag == flag && set.value == *value)
        }
    }
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
        precision: args
            .precision
            .map_or(DEFAULT_PRECISION, |percent| percent.0),
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
