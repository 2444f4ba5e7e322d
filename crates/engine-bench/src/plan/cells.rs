//! The cells of a sweep, their names, and what visiting them will take.
//!
//! Invariant: cells are ordered by gas level, then engine, then axes in the order given. An engine
//! without the flag of an axis has one cell for all its values. Ids are unique.

use super::{Cell, Estimate};
use crate::{
    cache::file_safe,
    sweep::{
        Axis, CHUNK_SIZE_FLAG, Design, EngineSpec, Exclusion, Gas, MIX_AXIS, ResetMethod, Setting,
        Settings, WarmUp,
    },
};
use bench_stats::rounds::PILOT_ROUNDS;
use std::collections::HashSet;

/// Typical of a small state on two cores; only the estimate uses it.
const ASSUMED_GGAS_PER_SECOND: f64 = 0.5;

/// Typical of a small state; only the estimate uses it.
const ASSUMED_RESTART_S: f64 = 2.0;

/// How many combinations there are, exclusions not counted; found without making them.
pub(super) fn count(settings: &Settings) -> u128 {
    let of_engine = |engine: &EngineSpec| {
        let axes = settings.axes.iter().filter(|axis| engine.has(axis));
        let lengths = axes.map(|axis| axis.values.len() as u128);
        match settings.design {
            Design::Full => lengths.fold(1, u128::saturating_mul),
            // Mixes are crossed with the rest, so this is the most there can be.
            Design::OneAtATime => 1 + lengths.sum::<u128>().pow(2),
        }
    };
    let all: u128 = settings.engines.iter().map(of_engine).sum();
    all.saturating_mul(settings.levels.len() as u128)
}

/// All combinations of gas levels, engines and axis values that are not left out.
pub(super) fn of(settings: &Settings) -> Vec<Cell> {
    let mut cells: Vec<Cell> = Vec::new();
    let mut taken = HashSet::new();
    for level in &settings.levels {
        for engine in &settings.engines {
            for flags in designed(settings, engine) {
                let mut cell = Cell {
                    id: name(settings, &engine.name, &flags, level.gas),
                    engine: engine.name.clone(),
                    flags,
                    gas: level.gas,
                    control_of: None,
                };
                if settings.exclude.iter().any(|out| excludes(out, &cell)) {
                    continue;
                }
                cell.id = unique(cell.id, |name| taken.contains(name));
                taken.insert(cell.id.clone());
                cells.push(cell);
            }
        }
    }
    cells
}

/// Whether a cell has all values of an exclusion.
fn excludes(exclusion: &Exclusion, cell: &Cell) -> bool {
    let mut pairs = exclusion.0.iter();
    pairs.all(|Setting { flag, value }| match flag.as_str() {
        "gas" => value.parse() == Ok(cell.gas),
        "engine" => cell.engine == *value,
        _ => cell.flag(flag) == Some(value),
    })
}

/// The knobs of a cell, each with its value.
type Knobs = Vec<(String, String)>;

/// The combinations of axis values that the design asks of an engine.
fn designed(settings: &Settings, engine: &EngineSpec) -> Vec<Knobs> {
    match settings.design {
        Design::Full => combinations(settings, engine),
        Design::OneAtATime => around_base(settings, engine),
    }
}

/// The base and its neighbours: one axis at a time takes its other values. Mixes are crossed with
/// the rest, since cells of different payloads are not compared.
fn around_base(settings: &Settings, engine: &EngineSpec) -> Vec<Knobs> {
    let axes = settings.axes.iter().filter(|axis| engine.has(axis));
    let axes: Vec<&Axis> = axes.collect();
    let stands = |axis: &Axis| {
        let named = settings.standing.iter().find(|set| set.flag == axis.flag);
        let first = axis.values.first().cloned().unwrap_or_default();
        named.map_or(first, |set| set.value.clone())
    };
    let flag = |axis: &&Axis| (axis.flag.clone(), stands(axis));
    let base: Knobs = axes.iter().map(flag).collect();
    let with = |base: &Knobs, at: usize, value: &String| {
        let mut flags = base.clone();
        flags[at].1.clone_from(value);
        flags
    };
    let mixes = axes.iter().position(|axis| axis.flag == MIX_AXIS);
    let mixed: Vec<Knobs> = match mixes {
        None => vec![base],
        Some(at) => {
            let values = axes[at].values.iter();
            values.map(|mix| with(&base, at, mix)).collect()
        }
    };
    let mut found = Vec::new();
    for base in mixed {
        found.push(base.clone());
        for (at, axis) in axes.iter().enumerate().filter(|(at, _)| Some(*at) != mixes) {
            let others = axis.values.iter().filter(|value| **value != base[at].1);
            found.extend(others.map(|value| with(&base, at, value)));
        }
    }
    found
}

/// The first cell of each gas level and mix that has several, under another name.
pub(super) fn controls(settings: &Settings, cells: &[Cell]) -> Vec<Cell> {
    if !settings.controls {
        return Vec::new();
    }
    let mut controls: Vec<Cell> = Vec::new();
    for first in firsts(cells) {
        let others = cells.iter().filter(|cell| cell.shares_payloads(first));
        if others.count() > 1 {
            let taken = |name: &str| cells.iter().any(|cell| cell.id == name);
            controls.push(Cell {
                id: unique(format!("{}-aa", first.id), taken),
                control_of: Some(first.id.clone()),
                ..first.clone()
            });
        }
    }
    controls
}

/// The first cell of each group that replays the same payloads.
pub(super) fn firsts(cells: &[Cell]) -> Vec<&Cell> {
    let mut firsts: Vec<&Cell> = Vec::new();
    for cell in cells {
        if !firsts.iter().any(|first| first.shares_payloads(cell)) {
            firsts.push(cell);
        }
    }
    firsts
}

/// What the visits will take; those of the pilot when the sweep is adaptive.
pub(super) fn estimate(settings: &Settings, cells: &[&Cell]) -> Estimate {
    let (mut gas, mut payloads) = (0_u64, 0_u64);
    for cell in cells {
        let level = settings.levels.iter().find(|level| level.gas == cell.gas);
        let count = level.and_then(|level| level.count).unwrap_or(0);
        let warmup = match settings.warmup {
            WarmUp::Full => count,
            WarmUp::None => 0,
            WarmUp::First(first) => first.min(count),
        };
        let sent = count.saturating_add(warmup);
        gas = sent.saturating_mul(cell.gas.0).saturating_add(gas);
        payloads = sent.saturating_add(payloads);
    }
    let passes = passes(settings);
    let rounds = match settings.adaptive {
        Some(_) => PILOT_ROUNDS,
        None => settings.rounds,
    };
    let starts = rounds * cells.len() as u64 * passes;
    let gas = gas.saturating_mul(rounds);
    let waits_s = payloads as f64 * rounds as f64 * settings.wait_time_ms as f64 / 1e3;
    Estimate {
        assumed_ggas_per_second: ASSUMED_GGAS_PER_SECOND,
        assumed_restart_s: ASSUMED_RESTART_S,
        starts,
        gas,
        duration_s: gas as f64 / 1e9 / ASSUMED_GGAS_PER_SECOND
            + starts as f64 * ASSUMED_RESTART_S
            + waits_s,
    }
}

/// Passes of a visit.
pub(super) fn passes(settings: &Settings) -> u64 {
    match settings.warmup {
        WarmUp::None => 1,
        WarmUp::Full | WarmUp::First(_) => 2,
    }
}

/// What the settings make of some engines, a sentence each.
pub(super) fn notes(settings: &Settings) -> Vec<String> {
    let mut notes = Vec::new();
    for engine in &settings.engines {
        let name = &engine.name;
        for flag in &engine.lacks {
            let swept = settings.axes.iter().any(|axis| axis.flag == *flag);
            let meaning = if swept {
                "it has one cell for all values of that axis"
            } else {
                "it is started without it"
            };
            notes.push(format!("{name} has no flag --{flag}: {meaning}"));
        }
        if !engine.kind.can_unwind() && settings.reset == ResetMethod::Unwind {
            notes.push(format!(
                "{name} has no command that unwinds a datadir: it is reset by --reset copy"
            ));
        }
    }
    notes
}

/// The product of all axes that an engine has; one empty combination when there are none.
fn combinations(settings: &Settings, engine: &EngineSpec) -> Vec<Knobs> {
    let axes = settings.axes.iter().filter(|axis| engine.has(axis));
    axes.fold(vec![Vec::new()], |combinations, axis| {
        let extend = |flags: Knobs| {
            let knobs = axis
                .values
                .iter()
                .map(|value| (axis.flag.clone(), value.clone()));
            knobs.map(move |knob| [&flags[..], &[knob]].concat())
        };
        combinations.into_iter().flat_map(extend).collect()
    })
}

/// `chunk15-gas10M`: the engine is named only where there is a choice.
fn name(settings: &Settings, engine: &str, flags: &[(String, String)], gas: Gas) -> String {
    let mut parts = values(settings, engine, flags);
    parts.push(format!("gas{gas}"));
    file_safe(&parts.join("-"))
}

/// The parts of a name that say which values the knobs have.
fn values<'a>(
    settings: &Settings,
    engine: &str,
    flags: impl IntoIterator<Item = &'a (String, String)>,
) -> Vec<String> {
    let engine = (settings.engines.len() > 1).then(|| engine.to_owned());
    let value = |(flag, value): &(String, String)| match flag.as_str() {
        CHUNK_SIZE_FLAG => format!("chunk{value}"),
        MIX_AXIS => value.clone(),
        _ => format!("{}_{value}", flag.rsplit('.').next().unwrap_or(flag)),
    };
    engine
        .into_iter()
        .chain(flags.into_iter().map(value))
        .collect()
}

/// Whether a cell is called by that name: its id, or what its id says of knobs, as in `chunk60`.
pub(super) fn is_called(settings: &Settings, cell: &Cell, name: &str) -> bool {
    let flags = cell.flags.iter().filter(|(flag, _)| flag != MIX_AXIS);
    let of_knobs = file_safe(&values(settings, &cell.engine, flags).join("-"));
    cell.id == name || (of_knobs == name && !name.is_empty())
}

/// The name, numbered when replacing unsafe characters made two alike.
fn unique(name: String, taken: impl Fn(&str) -> bool) -> String {
    if !taken(&name) {
        return name;
    }
    let numbered = |number: u64| format!("{name}.{number}");
    let free = (2..).map(numbered).find(|candidate| !taken(candidate));
    free.unwrap_or(name)
}
