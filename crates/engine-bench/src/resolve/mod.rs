//! From flags as typed to [`Settings`]: defaults, names to paths, and checks across flags.
//!
//! Invariant: a resolved path is absolute, so that a plan means the same from any folder.

mod engines;
mod file;
mod merge;
mod named;
mod schema;
mod shown;

pub(crate) use engines::{embedded_engine, version_line};
pub use merge::{Origin, Origins, merge};
pub use schema::schema;
pub use shown::shown;

use crate::{
    cache,
    cli::SweepArgs,
    guard::GuardMode,
    plan,
    sweep::{
        Adaptive, Axis, BaseSource, CHUNK_SIZE_FLAG, DEFAULT_MIN_EFFECT, Design, EngineSpec, Gas,
        Level, MIX_AXIS, Order, PayloadSource, ResetMethod, Setting, Settings, default_count,
    },
};
use engines::{engines, find_program};
use eyre::{Result, bail, ensure, eyre};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    slice,
    time::Duration,
};
use workload::{Mix, Profile};

/// Relative difference that an adaptive sweep resolves unless told otherwise.
const DEFAULT_PRECISION: f64 = 0.01;

/// Rounds after which an adaptive sweep without a budget ends, resolved or not: a noisy machine
/// would otherwise go on for hours that nobody granted.
const UNBUDGETED_ROUNDS: u64 = 4;

/// The gas level when none is given.
const DEFAULT_LEVEL: Gas = Gas(10_000_000);

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

/// Resolves the flags of `sweep`.
///
/// # Errors
/// When they do not make a sweep: what was typed, why not, and what to do.
pub fn resolve(args: &SweepArgs) -> Result<Settings> {
    let axes = axes(args)?;
    check_set(&axes, &args.set)?;
    let knobs = axes.iter().map(|axis| axis.flag.as_str());
    let set = args.set.iter().map(|setting| setting.flag.as_str());
    let named = named::read(args.engines_file.as_deref())?;
    let mut engines = engines(&args.engines, &named, &knobs.chain(set).collect::<Vec<_>>())?;
    for engine in &mut engines {
        engine.chain = args.chain.as_deref().map(chain).transpose()?;
    }
    let base = base(args)?;
    check_bases(&engines, &base, args)?;
    check_waits(&engines, args)?;
    let adaptive = Adaptive {
        precision: args.precision.unwrap_or(DEFAULT_PRECISION),
        budget_s: args.budget.map(|budget| budget.as_secs_f64()),
    };
    let mut settings = Settings {
        axes,
        set: args.set.clone(),
        design: args.design.unwrap_or_default(),
        standing: args.standing.clone(),
        exclude: args.exclude.clone(),
        levels: levels(args),
        payloads: payloads(args)?,
        lead_in: args
            .lead_in
            .as_deref()
            .map(|path| existing("the folder of --lead-in", path))
            .transpose()?,
        target_block: args.target_block,
        rounds: rounds(args),
        adaptive: args.rounds.is_none().then_some(adaptive),
        // One round gives no verdict that an A/A control could call into question.
        controls: !args.no_aa && args.rounds != Some(1),
        baseline: args.baseline.clone(),
        min_effect: args.min_effect.unwrap_or(DEFAULT_MIN_EFFECT),
        order: args.order.unwrap_or(Order::Random),
        interleave: args.interleave,
        guard: match args.guard {
            _ if args.no_guard => GuardMode::Off,
            guard => guard.unwrap_or_default(),
        },
        allow_fallback: args.allow_fallback,
        warmup: args.warmup,
        reset: reset(&args.reset)?,
        wait_time_ms: args.wait_time.map_or(0, millis),
        wait_for_persistence: args.wait_for_persistence,
        persistence_threshold: PERSISTENCE_THRESHOLD,
        seed: args.state.seed,
        ready_timeout_ms: millis(args.ready_timeout),
        request_timeout_ms: millis(args.request_timeout),
        cache_dir: cache::directory(args.state.cache_dir.as_deref())?,
        engines,
        base,
    };
    check_design(&settings)?;
    // Two cells go back and forth, which cancels steady drift exactly; of more, chance is fairer.
    if args.order.is_none() && plan::is_pair(&settings) {
        settings.order = Order::Abba;
    }
    Ok(settings)
}

/// The canonical name of a profile.
///
/// # Errors
/// When the workload does not know it.
pub(crate) fn profile_name(text: &str) -> Result<String> {
    match text.parse::<Profile>() {
        Ok(profile) => Ok(profile.to_string()),
        Err(error) => bail!("--profile `{text}`: {error}"),
    }
}

/// The canonical names of the mixes that are asked for.
fn mixes(args: &SweepArgs) -> Result<Vec<String>> {
    let typed = args.mix.as_deref().unwrap_or(DEFAULT_MIX);
    let canonical = |name: &str| match name.parse::<Mix>() {
        Ok(mix) => Ok(mix.name().to_owned()),
        Err(error) => bail!("--mix `{name}`: {error}"),
    };
    typed.split(',').map(str::trim).map(canonical).collect()
}

fn base(args: &SweepArgs) -> Result<BaseSource> {
    Ok(match &args.datadir {
        None => BaseSource::Generated {
            profile: profile_name(&args.state.profile)?,
        },
        Some(path) => BaseSource::Datadir {
            path: existing("the datadir", path)?,
            in_place: args.in_place,
        },
    })
}

fn payloads(args: &SweepArgs) -> Result<PayloadSource> {
    Ok(match &args.payloads {
        None => PayloadSource::Generated {
            mix: mixes(args)?.swap_remove(0),
        },
        Some(path) => PayloadSource::Folder {
            path: existing("the payload folder", path)?,
        },
    })
}

fn check_bases(engines: &[EngineSpec], base: &BaseSource, args: &SweepArgs) -> Result<()> {
    let BaseSource::Datadir { in_place, .. } = base else {
        return Ok(());
    };
    let stuck = engines.iter().find(|engine| !engine.kind.can_unwind());
    let conflict = match (stuck, engines.len()) {
        _ if !in_place => return Ok(()),
        (_, 2..) => {
            let engines = engines.len();
            format!("is for a single engine, and the sweep has {engines}")
        }
        _ if args.interleave => "makes no copies, and --interleave needs several".to_owned(),
        _ if args.reset.starts_afresh() => {
            format!(
                "changes the datadir that --reset {} begins from",
                args.reset
            )
        }
        (Some(_), _) if args.reset != ResetMethod::Unwind => return Ok(()),
        (Some(EngineSpec { name, .. }), _) => {
            format!("needs an engine that can unwind, which `{name}` cannot")
        }
        (None, _) => return Ok(()),
    };
    bail!("--in-place {conflict}; omit it to work on a copy")
}

/// The method, with the program of a command found.
fn reset(typed: &ResetMethod) -> Result<ResetMethod> {
    let ResetMethod::Command(words) = typed else {
        return Ok(typed.clone());
    };
    let mut words = words.clone();
    if let Some(program) = words.first_mut() {
        let found = find_program(program);
        let found = found.and_then(|path| path.into_os_string().into_string().ok());
        *program = found.ok_or_else(|| {
            eyre!(
                "--reset {typed}: `{program}` is no program; give the path of an executable or its name on the PATH"
            )
        })?;
    }
    Ok(ResetMethod::Command(words))
}

fn check_waits(engines: &[EngineSpec], args: &SweepArgs) -> Result<()> {
    let mut engines = engines.iter().filter(|_| args.wait_for_persistence);
    match engines.find(|engine| !engine.tells_persisted_blocks()) {
        None => Ok(()),
        Some(EngineSpec { name, .. }) => bail!(
            "--wait-for-persistence needs an engine that reports which blocks are on disk, which `{name}` does \
             not; use --wait-time instead"
        ),
    }
}

fn axes(args: &SweepArgs) -> Result<Vec<Axis>> {
    if let Some(Axis { flag, values }) = args.axes.iter().find(|axis| axis.values.len() == 1) {
        let value = values.concat();
        bail!(
            "the axis {flag} has a single value, so there is nothing to compare; give two or more, or give it to \
             every cell with --set {flag}={value}"
        );
    }
    args.axes
        .iter()
        .try_for_each(|axis| check_free(&axis.flag))?;
    let chunks = args.chunks.iter().map(|chunks| Axis {
        flag: CHUNK_SIZE_FLAG.to_owned(),
        values: chunks.0.iter().map(u64::to_string).collect(),
    });
    let mixes = Axis {
        flag: MIX_AXIS.to_owned(),
        values: mixes(args)?,
    };
    let mixes = Some(mixes).filter(|axis| axis.values.len() > 1).into_iter();
    let axes: Vec<Axis> = mixes
        .chain(chunks)
        .chain(args.axes.iter().cloned())
        .collect();
    let mut flags = BTreeSet::new();
    for Axis { flag, values } in &axes {
        let mut seen = BTreeSet::new();
        if let Some(twice) = values.iter().find(|value| !seen.insert(*value)) {
            bail!("`{twice}` is twice in the list of --{flag}; name each value once");
        }
        ensure!(
            flags.insert(flag),
            "the flag --{flag} has two axes; list all its values in one --axis (--chunks is --axis \
             engine.multiproof-chunk-size)"
        );
    }
    Ok(axes)
}

/// A flag is not one that the harness needs for itself.
fn check_free(flag: &str) -> Result<()> {
    ensure!(
        !RESERVED_FLAGS.contains(&flag),
        "the flag --{flag} is set by the sweep itself and can be neither an axis nor set; omit it"
    );
    Ok(())
}

/// A knob stays at one value, and is not one that varies or that the harness needs.
fn check_set(axes: &[Axis], set: &[Setting]) -> Result<()> {
    let mut flags = BTreeSet::new();
    for Setting { flag, .. } in set {
        check_free(flag)?;
        ensure!(
            axes.iter().all(|axis| axis.flag != *flag),
            "--{flag} is given both as an axis and with --set; omit one of them"
        );
        ensure!(flags.insert(flag), "--{flag} is set twice; give one value");
    }
    Ok(())
}

/// Places and exclusions speak of values that the sweep has.
fn check_design(settings: &Settings) -> Result<()> {
    ensure!(
        settings.design != Design::Full || settings.standing.is_empty(),
        "--base needs --design one-at-a-time; omit it, or choose that design"
    );
    let names = settings.axes.iter().map(|axis| axis.flag.as_str());
    let names: Vec<&str> = names.collect();
    for standing in &settings.standing {
        ensure!(
            names.contains(&standing.flag.as_str()),
            "--base {standing} names no axis of the sweep; its axes are {}",
            names.join(", ")
        );
    }
    for exclusion in &settings.exclude {
        if let Some(foreign) = exclusion.0.iter().find(|pair| !is_a_value(settings, pair)) {
            bail!("--exclude {exclusion} excludes nothing: {foreign} is not a value of this sweep");
        }
    }
    Ok(())
}

/// Whether a name and a value are of an axis, a gas level, a mix or an engine of the sweep.
fn is_a_value(settings: &Settings, pair: &Setting) -> bool {
    let Setting { flag, value } = pair;
    match flag.as_str() {
        "gas" => {
            let gas: Option<Gas> = value.parse().ok();
            settings.levels.iter().any(|level| Some(level.gas) == gas)
        }
        "engine" => settings.engines.iter().any(|engine| engine.name == *value),
        MIX_AXIS => settings.mixes().contains(&value.as_str()),
        flag => {
            let of_axis = |axis: &Axis| axis.flag == flag && axis.values.contains(value);
            settings.axes.iter().any(of_axis) || settings.standing.contains(pair)
        }
    }
}

fn levels(args: &SweepArgs) -> Vec<Level> {
    let levels = args.gas.as_ref().map(|list| list.0.as_slice());
    let levels = levels.unwrap_or(slice::from_ref(&DEFAULT_LEVEL)).iter();
    let level = |gas: &Gas| {
        let enough = args.payloads.is_none().then(|| default_count(*gas));
        let (gas, count) = (*gas, args.count.or(enough));
        Level { gas, count }
    };
    levels.map(level).collect()
}

/// Rounds that are asked for, or the most that an adaptive sweep makes.
fn rounds(args: &SweepArgs) -> u64 {
    let most = match args.budget {
        Some(_) => bench_stats::rounds::MOST_ROUNDS,
        None => UNBUDGETED_ROUNDS,
    };
    args.rounds.unwrap_or(most)
}

/// A file is named from any folder; what is none is a name that the engine is to know.
fn chain(typed: &str) -> Result<String> {
    let path = Path::new(typed);
    if path.components().count() == 1 && !path.is_file() {
        return Ok(typed.to_owned());
    }
    let path = existing("the chain file", path)?;
    Ok(path.to_string_lossy().into_owned())
}

fn existing(what: &str, path: &Path) -> Result<PathBuf> {
    let shown = path.display();
    let failed = |reason| eyre!("failed to open {what} {shown}: {reason}; check the path");
    path.canonicalize().map_err(failed)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
