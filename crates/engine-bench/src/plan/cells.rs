//! The cells of a sweep, their names, and what visiting them will take.
//!
//! Invariant: cells are ordered by gas level, then engine, then axes in the order given. An engine
//! without the flag of an axis has one cell for all its values.

use super::{Cell, Estimate};
use crate::{
    cache::file_safe,
    sweep::{CHUNK_SIZE_FLAG, EngineSpec, Gas, ResetMethod, Settings, WarmUp},
};

use bench_stats::rounds::PILOT_ROUNDS;

/// Typical of a small state on two cores; only the estimate uses it.
const ASSUMED_GGAS_PER_SECOND: f64 = 0.5;

/// Typical of a small state; only the estimate uses it.
const ASSUMED_RESTART_S: f64 = 2.0;

/// All combinations of gas levels, engines and axis values.
pub(super) fn of(settings: &Settings) -> Vec<Cell> {
    let mut cells: Vec<Cell> = Vec::new();
    for level in &settings.levels {
        for engine in &settings.engines {
            for flags in combinations(settings, engine) {
                let name = name(settings, engine, &flags, level.gas);
                let id = unique(name, &cells);
                cells.push(Cell {
                    id,
                    engine: engine.name.clone(),
                    flags,
                    gas: level.gas,
                    duplicate_of: None,
                });
            }
        }
    }
    cells
}

/// The first cell of each gas level that has several, under another name.
pub(super) fn duplicates(settings: &Settings, cells: &[Cell]) -> Vec<Cell> {
    if !settings.duplicates {
        return Vec::new();
    }
    let mut duplicates: Vec<Cell> = Vec::new();
    for level in &settings.levels {
        let of_level: Vec<&Cell> = cells.iter().filter(|cell| cell.gas == level.gas).collect();
        if let [first, _, ..] = of_level.as_slice() {
            duplicates.push(Cell {
                id: unique(format!("{}-again", first.id), cells),
                duplicate_of: Some(first.id.clone()),
                ..(*first).clone()
            });
        }
    }
    duplicates
}

/// What the visits will take; those of the pilot when the sweep is adaptive.
pub(super) fn estimate(settings: &Settings, cells: &[&Cell]) -> Estimate {
    let (mut gas, mut payloads) = (0, 0);
    for cell in cells {
        let level = settings.levels.iter().find(|level| level.gas == cell.gas);
        let count = level.and_then(|level| level.count).unwrap_or(0);
        let warmup = match settings.warmup {
            WarmUp::Full => count,
            WarmUp::None => 0,
            WarmUp::First(first) => first.min(count),
        };
        gas += (count + warmup) * cell.gas.0;
        payloads += count + warmup;
    }
    let passes = passes(settings);
    let rounds = match settings.adaptive {
        Some(_) => PILOT_ROUNDS,
        None => settings.rounds,
    };
    let starts = rounds * cells.len() as u64 * passes;
    let gas = gas * rounds;
    let waits_s = (payloads * rounds * settings.wait_time_ms) as f64 / 1e3;
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
            notes.push(format!(
                "{name} has no flag --{flag}: it has one cell for all values of that axis"
            ));
        }
        if !engine.kind.can_unwind() && settings.reset != ResetMethod::Copy {
            notes.push(format!(
                "{name} has no command that takes a datadir back: --reset copy for this engine"
            ));
        }
    }
    notes
}

/// The product of all axes that an engine has; one empty combination when there are none.
fn combinations(settings: &Settings, engine: &EngineSpec) -> Vec<Vec<(String, String)>> {
    settings.axes.iter().filter(|axis| engine.has(axis)).fold(
        vec![Vec::new()],
        |combinations, axis| {
            let extend = |flags: &Vec<(String, String)>| {
                let flags = flags.clone();
                axis.values.iter().map(move |value| {
                    let mut flags = flags.clone();
                    flags.push((axis.flag.clone(), value.clone()));
                    flags
                })
            };
            combinations.iter().flat_map(extend).collect()
        },
    )
}

/// `chunk15-gas10M`: the engine is named only where there is a choice.
fn name(settings: &Settings, engine: &EngineSpec, flags: &[(String, String)], gas: Gas) -> String {
    let mut parts = Vec::new();
    if settings.engines.len() > 1 {
        parts.push(engine.name.clone());
    }
    for (flag, value) in flags {
        let short = flag.rsplit('.').next().unwrap_or(flag);
        parts.push(match flag.as_str() {
            CHUNK_SIZE_FLAG => format!("chunk{value}"),
            _ => format!("{short}_{value}"),
        });
    }
    parts.push(format!("gas{gas}"));
    file_safe(&parts.join("-"))
}

/// The name, numbered when replacing unsafe characters made two alike.
fn unique(name: String, cells: &[Cell]) -> String {
    let taken = |name: &str| cells.iter().any(|cell| cell.id == name);
    if !taken(&name) {
        return name;
    }
    let numbered = |number: u64| format!("{name}.{number}");
    let free = (2..).map(numbered).find(|candidate| !taken(candidate));
    free.unwrap_or(name)
}
