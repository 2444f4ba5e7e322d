//! What is known to be impossible before anything is made or measured.
//!
//! Invariant: refuses only what every visit, or every visit of a cell, would fail at, with the value, the
//! reason and the next step. Nothing is written that stays.

use super::{copies, probe, state};
use crate::{
    cache::{Cache, Origin},
    engine,
    guard::{self, gib, memory_available_bytes},
    payload::{self, count},
    plan::Plan,
    reset,
    sweep::{
        BaseSource, EngineKind, EngineSpec, Gas, Level, PayloadSource, ResetMethod, Settings,
        flag_text, is_engine_flag, releases_with,
    },
};
use eyre::{Report, Result, bail, ensure, eyre};
use nix::unistd::{AccessFlags, access};
use std::{path::Path, slice};
use workload::{Profile, action::TRANSFER_GAS, genesis::GAS_LIMIT};

/// The largest block gas limit of any chain: clients hold it in 63 bits.
const LARGEST_GAS_LIMIT: u64 = i64::MAX as u64;

/// Bytes that a payload's file takes at least: its bloom and hashes alone are more.
const LEAST_PAYLOAD_BYTES: u64 = 1 << 10;

/// Bytes that an account or a slot takes at least, in a state and its working copy: a hashed key and a
/// value, in two tables.
const LEAST_ENTRY_BYTES: u64 = 128;

/// Bytes of memory that a client takes at least per account or slot of a genesis file: `reth init` of the medium
/// profile, 12 million of them, takes 10.3 GB (1.11.1 and 2.2.0), and `geth init` more.
const GENESIS_ENTRY_BYTES: u64 = 800;

/// Values of a knob that an engine's parser is asked about at most.
const MOST_TRIED: usize = 1_000;

/// Where the database of bench-reth is, in a datadir.
const DATABASE: &str = "db/mdbx.dat";

/// Whether a sweep could be measured, as far as that is known before anything is made.
///
/// # Errors
/// The first reason why not: what was asked, why it is impossible, what to do.
pub fn check_feasible(plan: &Plan) -> Result<()> {
    let settings = &plan.settings;
    for engine in &settings.engines {
        datadir(settings, engine)?;
    }
    writable(&settings.cache_dir, "--cache-dir")?;
    base(settings)?;
    for level in &settings.levels {
        gas(settings, *level)?;
    }
    payloads(settings)?;
    persistence(settings)?;
    for engine in &settings.engines {
        flags(settings, engine)?;
    }
    reset_method(settings)?;
    let cache = Cache::new(&settings.cache_dir);
    let pristine = |name: &str| {
        let engine = settings.engines.iter().find(|engine| engine.name == name)?;
        state::known(settings, &cache, engine)
    };
    copies::check_disk(plan, &cache.work(), &pristine)
}

/// Whether a folder can be written, or made in the nearest one above it; `flag` names it.
///
/// # Errors
/// When it cannot.
pub fn writable(path: &Path, flag: &str) -> Result<()> {
    let dir = guard::nearest(path);
    access(&dir.join("."), AccessFlags::W_OK | AccessFlags::X_OK).map_err(|reason| {
        let dir = dir.display();
        eyre!("failed to write below {dir}: {reason}; give another {flag}")
    })
}

/// A datadir that was given is one of the engine, and nobody works in it.
fn datadir(settings: &Settings, engine: &EngineSpec) -> Result<()> {
    let BaseSource::Datadir { path, .. } = &settings.base else {
        return Ok(());
    };
    let missing = match path.read_dir() {
        Err(reason) => Some(reason.to_string()),
        Ok(mut inside) => match engine.kind {
            EngineKind::BenchReth if !path.join(DATABASE).is_file() => {
                Some(format!("it has no {DATABASE}"))
            }
            EngineKind::Reth if inside.next().is_none() => Some("it is empty".to_owned()),
            EngineKind::Geth | EngineKind::Ethrex if state::source(settings, engine).is_none() => {
                bail!(state::no_state(engine));
            }
            _ => None,
        },
    };
    if let Some(missing) = missing {
        let (path, name) = (path.display(), &engine.name);
        bail!(
            "--datadir {path} is not a datadir of {name}: {missing}; give the folder that the engine was \
             run with, or one made by engine-bench init"
        );
    }
    reset::check_unused(path)
}

/// The file systems can do what the way to reset takes.
fn reset_method(settings: &Settings) -> Result<()> {
    let work = guard::nearest(&settings.cache_dir);
    let given = match &settings.base {
        BaseSource::Datadir { path, .. } => Some(path.as_path()),
        BaseSource::Generated { .. } => None,
    };
    let tried = match settings.reset {
        ResetMethod::Reflink => reset::try_reflink(given, work),
        ResetMethod::Overlay => reset::try_overlay(work),
        _ => Ok(()),
    };
    tried.map_err(|error| eyre!("--reset {}: {error}", settings.reset))
}

/// A generated state has the base block, and its disk has room for it.
fn base(settings: &Settings) -> Result<()> {
    let BaseSource::Generated { profile } = &settings.base else {
        return Ok(());
    };
    if let Some(target) = settings.target_block.filter(|target| *target > 0) {
        bail!(
            "--target-block {target} is above block 0, the only block of a generated state; omit it, or give a \
             --datadir that has the block"
        );
    }
    let size: Option<Profile> = profile.parse().ok();
    let entries = size.map_or(0, |size| size.accounts().saturating_add(size.slots()));
    let cache = Cache::new(&settings.cache_dir);
    for engine in &settings.engines {
        let Err(refusal) = genesis_file(engine, profile, entries, memory_available_bytes()) else {
            continue;
        };
        // geth reads the file once, others at every start.
        if engine.kind != EngineKind::Geth || !state::is_made(settings, &cache, engine) {
            return Err(refusal);
        }
    }
    if cache.has_state(profile, settings.seed) {
        return Ok(());
    }
    let what = format!("--profile {profile} takes");
    let advice = "give a smaller profile, or --cache-dir on a larger disk";
    fits(
        settings,
        entries.saturating_mul(LEAST_ENTRY_BYTES),
        &what,
        advice,
    )
}

/// A state of so many accounts and slots can be given to an engine as a genesis file.
fn genesis_file(engine: &EngineSpec, profile: &str, entries: u64, free: Option<u64>) -> Result<()> {
    let needed = entries.saturating_mul(GENESIS_ENTRY_BYTES);
    let Some(free) = free.filter(|free| engine.kind != EngineKind::BenchReth && *free < needed)
    else {
        return Ok(());
    };
    bail!(
        "--profile {profile} takes {} at least {} of memory, since it reads a genesis file whole, and {} are free; give \
         a smaller profile, or a --datadir of its own",
        engine.name,
        gib(needed),
        gib(free),
    );
}

/// Blocks of a level can exist, and the disk has room for those that are to be generated.
fn gas(settings: &Settings, level: Level) -> Result<()> {
    let gas = level.gas;
    let (limit, of) = match settings.base {
        BaseSource::Generated { .. } => (Gas(GAS_LIMIT), "the generated state"),
        BaseSource::Datadir { .. } => (Gas(LARGEST_GAS_LIMIT), "any chain"),
    };
    if gas > limit {
        bail!("--gas {gas} is above {limit}, the block gas limit of {of}; give at most {limit}");
    }
    if matches!(settings.payloads, PayloadSource::Folder { .. }) {
        return Ok(());
    }
    ensure!(
        gas.0 >= TRANSFER_GAS,
        "--gas {gas} has no room for a transaction, which takes {TRANSFER_GAS} gas at least; give more"
    );
    let count = count(level);
    let what = format!("--count {count} at --gas {gas} writes payloads of");
    let needed = count.saturating_mul(LEAST_PAYLOAD_BYTES);
    fits(settings, needed, &what, "give a lower --count")
}

/// Whether the disk of the cache has so many bytes free.
fn fits(settings: &Settings, needed: u64, what: &str, advice: &str) -> Result<()> {
    let dir = guard::nearest(&settings.cache_dir);
    let Some(free) = guard::free_bytes(dir).filter(|free| *free < needed) else {
        return Ok(());
    };
    bail!(
        "{what} at least {}, and the disk of {} has {} free; {advice}",
        gib(needed),
        dir.display(),
        gib(free),
    )
}

/// Lists that were given are whole and build on the base block; lists can be generated otherwise.
fn payloads(settings: &Settings) -> Result<()> {
    let PayloadSource::Folder { path } = &settings.payloads else {
        builds(settings)?;
        return match &settings.base {
            BaseSource::Datadir { path, .. } if Origin::of(path).is_none() => {
                bail!(probe::no_origin(path))
            }
            _ => Ok(()),
        };
    };
    let mut base = match settings.base {
        BaseSource::Generated { .. } => Some((0, "a generated state consists of".to_owned())),
        BaseSource::Datadir { .. } => match (settings.target_block, &settings.lead_in) {
            (Some(target), _) => Some((target, "--target-block names".to_owned())),
            (None, Some(folder)) => {
                let last = payload::last_block(folder)?;
                Some((last, "the last payload of --lead-in is".to_owned()))
            }
            (None, None) => None,
        },
    };
    for level in &settings.levels {
        let dir = payload::level_folder(path, *level, settings.levels.len());
        let named = base.as_ref().map(|(block, _)| *block);
        let list = payload::open(&dir, *level, named).map_err(Report::msg)?;
        let block = list.base().0;
        let dir = dir.display();
        let (expected, source) =
            base.get_or_insert_with(|| (block, format!("the payloads in {dir} build on")));
        if *expected != block {
            bail!(
                "the payloads in {dir} build on block {block}, and {source} block {expected}; give lists that \
                 build on the block that the sweep starts from"
            );
        }
    }
    Ok(())
}

/// The flag that says which namespaces an engine serves, and the one that payloads are built with.
const NAMESPACES_FLAG: &str = "http.api";
const BUILDING: &str = "testing";

/// The engine that builds payloads serves the namespace for it.
fn builds(settings: &Settings) -> Result<()> {
    let mut set = settings.set.iter();
    let Some(set) = set.find(|set| set.flag == NAMESPACES_FLAG) else {
        return Ok(());
    };
    let value = &set.value;
    ensure!(
        value
            .split(',')
            .any(|name| matches!(name, BUILDING | "all")),
        "payloads cannot be built with --set {NAMESPACES_FLAG}={value}, which leaves out the namespace {BUILDING}; add \
         it, omit the flag, or give payloads with --payloads"
    );
    Ok(())
}

/// No knob keeps the blocks off the disk that are to be waited for.
fn persistence(settings: &Settings) -> Result<()> {
    let own = settings.engines.iter().flat_map(|engine| &engine.set);
    let set = settings.set.iter().chain(own);
    let set = set.map(|set| (&set.flag, &set.value));
    let axes = settings.axes.iter();
    let swept = axes.flat_map(|axis| axis.values.iter().map(|value| (&axis.flag, value)));
    for (flag, value) in set.chain(swept).filter(|_| settings.wait_for_persistence) {
        let effect = match (flag.as_str(), value.as_str()) {
            ("bench.root-strategy", "skip") => "no block is persisted",
            ("engine.memory-block-buffer-target", target) if target != "0" => {
                "the newest blocks are not persisted"
            }
            _ => continue,
        };
        bail!(
            "--wait-for-persistence never ends with --{flag}={value}, since {effect} then; omit one of them"
        );
    }
    Ok(())
}

/// The engine's own parser takes every flag and every value of the sweep.
fn flags(settings: &Settings, engine: &EngineSpec) -> Result<()> {
    let set = settings.set.iter().chain(&engine.set);
    let set = set.map(|set| (&set.flag, slice::from_ref(&set.value)));
    let axes = settings.axes.iter();
    let axes = axes.map(|axis| (&axis.flag, axis.values.as_slice()));
    let knobs = set.chain(axes);
    let knobs = knobs.filter(|(flag, _)| is_engine_flag(flag) && !engine.lacks.contains(flag));
    let texts = knobs.map(|(flag, values)| {
        let values = values.iter().take(MOST_TRIED);
        values.filter_map(|value| flag_text(flag, value)).collect()
    });
    let texts: Vec<Vec<String>> = texts.collect();
    let most = texts.iter().map(Vec::len).max().unwrap_or(0);
    if most == 0 || !engine::can_try(engine) {
        return Ok(());
    }
    for index in 0..most {
        // A value of every knob at a time; only when one is refused, each on its own.
        let together = texts.iter().filter_map(|values| values.get(index).cloned());
        let together: Vec<String> = together.collect();
        if engine::refusal(engine, &together).is_none() {
            continue;
        }
        for flag in together {
            if let Some(reason) = engine::refusal(engine, slice::from_ref(&flag)) {
                let (name, help) = (&engine.name, engine::help_command(engine));
                let releases = releases_with(engine::flag_name(&flag));
                bail!("{name} refuses {flag}: {reason}{releases}; {help} lists its flags");
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Verb};
    use clap::Parser as _;
    use std::fs;

    /// Flags, and what is said of them; `DIR` is a folder of the test, `PID` its process.
    const SAID: &str = "
        --gas 1G --count 1 => feasible
        --gas 900G => --gas 900G | limit of the generated state | at most 1G
        --gas 10M,1001M => --gas 1001M | at most 1G
        --gas 20K => --gas 20K | takes 21000 gas | give more
        --count 18446744073709551615 => --count 18446744073709551615 at --gas 10M | GiB free | lower --count
        --profile large:1000000000000:10000 => large:1000000000000:10000 | GiB free | smaller profile
        --target-block 0 => feasible
        --target-block 1 => --target-block 1 | block 0 | omit it
        --wait-for-persistence --set bench.root-strategy=skip => strategy=skip | no block | omit one
        --wait-for-persistence --axis engine.memory-block-buffer-target=0,3 => target=3 | newest | omit one
        --set http.api=eth,net => --set http.api=eth,net | namespace testing | --payloads
        --cache-dir DIR/file/cache => below DIR/file | another --cache-dir
        --datadir DIR/file => --datadir DIR/file | Not a directory | give
        --datadir DIR/empty => DIR/empty | no db/mdbx.dat | engine-bench init
        --datadir DIR/bare => DIR/bare | base-state.json | --payloads
        --datadir DIR/used => DIR/used | in use by process PID; stop
        --payloads DIR/empty => DIR/empty | holds nothing
        --payloads DIR/empty --gas 1M,2M => no folder 1M | one folder per level
        --datadir DIR/bare --payloads DIR/empty --gas 10000000000G => above 9223372036854775807 | any chain";

    /// A sweep of the embedded engine.
    fn plan(flags: &str, cache: &str) -> Plan {
        let default = ["--cache-dir", cache];
        let default = default.iter().filter(|_| !flags.contains("--cache-dir"));
        let words = ["engine-bench", "sweep"].iter().chain(default).copied();
        let words = words.chain(flags.split_whitespace());
        let Verb::Sweep(args) = Cli::try_parse_from(words).unwrap().verb else {
            panic!("not a sweep")
        };
        Plan::new(crate::resolve::resolve(&args).unwrap())
    }

    #[test]
    fn what_can_never_be_measured_is_refused_with_value_reason_and_next_step() {
        let (dir, pid) = (tempfile::tempdir().unwrap(), std::process::id().to_string());
        for folder in ["empty", "bare/db", "used/db"] {
            fs::create_dir_all(dir.path().join(folder)).unwrap();
        }
        for file in ["file", "bare/db/mdbx.dat", "used/db/mdbx.dat"] {
            fs::write(dir.path().join(file), "").unwrap();
        }
        fs::write(dir.path().join("used/db/lock"), &pid).unwrap();
        let cache = dir.path().join("cache");
        let said_of = SAID.replace("DIR", dir.path().to_str().unwrap());
        for line in said_of.replace("PID", &pid).trim().lines() {
            let (flags, parts) = line.split_once(" => ").unwrap();
            let checked = check_feasible(&plan(flags, cache.to_str().unwrap()));
            let said = checked.map_or_else(|error| error.to_string(), |()| "feasible".to_owned());
            for part in parts.split(" | ") {
                assert!(said.contains(part), "{flags}: `{part}` is not in: {said}");
            }
        }
        assert!(!cache.exists(), "nothing is made");
    }

    #[test]
    fn a_state_that_no_genesis_file_carries_is_refused_with_figures() {
        let checked = |kind, free_gib: u64| {
            let engine = EngineSpec {
                name: "mine".to_owned(),
                kind,
                ..EngineSpec::default()
            };
            genesis_file(&engine, "large:9:9", 12_000_000, Some(free_gib << 30))
        };
        let refused = checked(EngineKind::Reth, 8).unwrap_err().to_string();
        for part in [
            "large:9:9",
            "takes mine at least 8.9 GiB",
            "8.0 GiB are free",
        ] {
            assert!(refused.contains(part), "{refused}");
        }
        checked(EngineKind::Reth, 9).unwrap();
        checked(EngineKind::BenchReth, 8).unwrap();
    }

    #[test]
    fn payloads_are_built_where_their_namespace_is_served() {
        for namespaces in ["eth,testing", "all"] {
            let set = plan(&format!("--set http.api={namespaces}"), "/cache");
            builds(&set.settings).unwrap();
        }
    }

    #[test]
    fn working_copies_that_do_not_fit_are_refused_with_figures() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("database"), vec![1; 1 << 20]).unwrap();
        let (path, tables) = (dir.path().to_owned(), reset::Tables::Copied);
        let pristine = reset::Pristine { path, tables };
        let refused = |flags: &str, work: &str| {
            let plan = plan(&format!("--chunks 5,15 --rounds 3 {flags}"), "/cache");
            copies::check_disk(&plan, Path::new(work), &|_| Some(pristine.clone()))
        };
        // The file systems of /proc are never larger than nothing.
        let alone = refused("", "/proc/self").unwrap_err().to_string();
        assert!(
            alone.contains("take 1 MiB more") && alone.contains("0 MiB free"),
            "{alone}"
        );
        let beside = refused("--interleave", "/proc/self")
            .unwrap_err()
            .to_string();
        assert!(beside.contains("take 771 MiB more"), "{beside}");
        refused("", dir.path().to_str().unwrap()).unwrap();
    }
}
