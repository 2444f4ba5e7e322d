//! Two sweeps, or two cells, against each other: what was set differently, and what came out
//! differently.
//!
//! Invariant: of two cells of one sweep it says what the report of that sweep says. Nothing pairs the rounds
//! of two sweeps, so theirs are compared apart, by the same rule and the larger noise floor; without one on
//! both sides there is no verdict.

use super::{
    compare::{self, ERROR},
    noise::NoiseFloor,
    outcome::Outcome,
    summarize,
    verdict::{Comparison, Verdict},
};
use crate::plan::Cell;
use alloy_primitives::B256;
use bench_stats::{Rules, Throughput, separate::compare_separate};
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// What a missing noise floor means and how to get one.
pub(crate) const NO_FLOOR: &str = "how much identical cells differ is unknown, so there is no verdict; a sweep has one when a gas \
    level has two cells in two rounds or more, so measure it again with --rounds 3 or more, without --no-aa, and \
    beside a second value of an axis; two builds are best measured in one sweep, as in --engine old=PATH \
    --engine new=PATH";

/// A sweep, or one cell of it.
#[derive(Debug, Clone, Copy)]
pub struct Side<'a> {
    /// What its results folder says.
    pub outcome: &'a Outcome,
    /// The cell, when one was named.
    pub cell: Option<&'a str>,
}

/// What the comparison of two sides says.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Between {
    /// Whether both sides are of one sweep, whose rounds are paired and whose report says the same.
    pub same_sweep: bool,
    /// Settings, axes, engines and machine that differ, by name.
    pub configuration: Vec<Difference>,
    /// Relative difference between identical cells, the larger of both sides; null when a side has none.
    pub noise_floor: Option<f64>,
    /// A cell of side a as `a` beside one of side b as `b`. Of two sweeps the intervals of all of them hold
    /// together, and rounds are those of the side that has fewer.
    pub cells: Vec<Comparison>,
    /// Ids of cells that only one side has.
    pub unmatched: Vec<String>,
    /// Ids of cells of both sides that have no numbers on one.
    pub without_numbers: Vec<String>,
    /// Whether a side is not as it was measured.
    pub edited: bool,
    /// What a reader should doubt, a sentence each.
    pub warnings: Vec<String>,
}

/// A setting that differs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Difference {
    /// Its name, parts joined by dots.
    pub name: String,
    /// On side a; null where it is not set.
    pub a: Value,
    /// On side b.
    pub b: Value,
}

/// Compares two sides; `same_sweep` says that they are of one results folder.
pub fn between(a: &Side<'_>, b: &Side<'_>, same_sweep: bool) -> Between {
    let pairs = pairs(a, b);
    let noise_floor = floor(a).zip(floor(b)).map(|(a, b)| a.max(b));
    let cells = if same_sweep && share_a_level(a.outcome, &pairs) {
        let report = compare::compare(a.outcome, &summarize(a.outcome));
        let said = pairs.iter().filter_map(|(a, b)| report.of(a, b));
        said.collect()
    } else {
        separate(a, b, &pairs, noise_floor)
    };
    let compared = |id: &String| cells.iter().any(|cell| cell.b == *id);
    let without_numbers = pairs.iter().map(|(_, id)| id.clone());
    let without_numbers: Vec<String> = without_numbers.filter(|id| !compared(id)).collect();
    let edited = [a, b].iter().any(|side| !side.outcome.edited.is_empty());
    Between {
        same_sweep,
        configuration: configuration(a, b),
        noise_floor,
        warnings: warnings(a, b, &cells, &without_numbers),
        cells,
        unmatched: unmatched(a, b, &pairs),
        without_numbers,
        edited,
    }
}

/// Cells that have no counterpart; none when a side names the one it means.
fn unmatched(a: &Side<'_>, b: &Side<'_>, pairs: &[(String, String)]) -> Vec<String> {
    if a.cell.is_some() || b.cell.is_some() {
        return Vec::new();
    }
    let matched = |id: &str| pairs.iter().any(|(a, b)| a == id || b == id);
    let ids = [a, b].into_iter().flat_map(ids);
    ids.filter(|id| !matched(id)).collect()
}

/// Cells that are compared: the two that were named, or those that both sides call the same.
fn pairs(a: &Side<'_>, b: &Side<'_>) -> Vec<(String, String)> {
    let (of_a, of_b) = (ids(a), ids(b));
    match (of_a.as_slice(), of_b.as_slice()) {
        ([one], [other]) => vec![(one.clone(), other.clone())],
        _ => {
            let shared = of_a.into_iter().filter(|id| of_b.contains(id));
            shared.map(|id| (id.clone(), id)).collect()
        }
    }
}

fn ids(side: &Side<'_>) -> Vec<String> {
    let all = side.outcome.plan.cells.iter().map(|cell| &cell.id);
    side.cell
        .map_or_else(|| all.cloned().collect(), |cell| vec![cell.to_owned()])
}

fn floor(side: &Side<'_>) -> Option<f64> {
    NoiseFloor::of(side.outcome).relative
}

/// Whether the cells of every pair are of one level: a report compares no others.
fn share_a_level(outcome: &Outcome, pairs: &[(String, String)]) -> bool {
    let cell = |id: &str| outcome.plan.cell(id);
    pairs.iter().all(|(a, b)| {
        let both = cell(a).zip(cell(b));
        both.is_some_and(|(a, b)| a.shares_payloads(b))
    })
}

fn separate(
    a: &Side<'_>,
    b: &Side<'_>,
    pairs: &[(String, String)],
    noise: Option<f64>,
) -> Vec<Comparison> {
    let rounds = |side: &Side<'_>, id: &str| -> Vec<Throughput> {
        let rounds = side.outcome.throughputs(id);
        rounds.map(|(_, throughput)| throughput).collect()
    };
    let measured = pairs.iter();
    let measured = measured.map(|(id_a, id_b)| (rounds(a, id_a), rounds(b, id_b)));
    let effects = [a, b].map(|side| side.outcome.plan.settings.min_effect);
    let rules = Rules {
        error: ERROR,
        noise,
        relevant: effects[0].max(effects[1]),
    };
    let found = compare_separate(&measured.collect::<Vec<_>>(), &rules);
    let cells = pairs.iter().zip(found).filter_map(|((id_a, id_b), found)| {
        let found = found?;
        let same_payloads = blocks(a, id_a) == blocks(b, id_b);
        Some(Comparison {
            a: id_a.clone(),
            b: id_b.clone(),
            ratio: found.ratio.into(),
            rounds: found.rounds as u64,
            verdict: match same_payloads {
                true => Verdict::of(found.judgement),
                false => Verdict::OtherPayloads,
            },
            relevance: found.judgement.ok().map(|found| found.relevance),
            same_work: false,
            bootstrap: None,
        })
    });
    cells.collect()
}

fn configuration(a: &Side<'_>, b: &Side<'_>) -> Vec<Difference> {
    let (a, b) = (settings(a), settings(b));
    let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    let all = names.into_iter().map(|name| {
        let [a, b] = [&a, &b].map(|side| side.get(name).cloned().unwrap_or_default());
        let name = name.clone();
        Difference { name, a, b }
    });
    all.filter(|found| found.a != found.b).collect()
}

/// Every setting of a side under its full name.
fn settings(side: &Side<'_>) -> BTreeMap<String, Value> {
    let outcome = side.outcome;
    let begun = outcome.begun.clone().unwrap_or_default();
    let cell = side.cell.and_then(|id| outcome.plan.cell(id));
    flat(&serde_json::json!({
        "configuration": outcome.plan.settings,
        "machine": begun.environment,
        "engine_versions": begun.engine_versions,
        "cell": cell.map(Cell::axes).unwrap_or_default(),
    }))
}

/// Every plain value of something under its full name, parts joined by dots. Settings are plain data: what cannot
/// be written as JSON does not exist.
pub(crate) fn flat(of: &impl Serialize) -> BTreeMap<String, Value> {
    let mut flat = BTreeMap::new();
    flatten("", serde_json::to_value(of).unwrap_or_default(), &mut flat);
    flat
}

fn flatten(prefix: &str, value: Value, into: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(fields) => fields
            .into_iter()
            .for_each(|(field, value)| flatten(&format!("{prefix}{field}."), value, into)),
        Value::Array(items) if items.iter().any(|item| item.is_object()) => (0..)
            .zip(items)
            .for_each(|(index, item)| flatten(&format!("{prefix}{index}."), item, into)),
        plain => {
            let name = prefix.trim_end_matches('.');
            into.insert(name.to_owned(), plain);
        }
    }
}

/// The payloads of a cell; `None` when it has no numbers.
fn blocks(side: &Side<'_>, id: &str) -> Option<Vec<B256>> {
    let pass = side.outcome.passes.get(id)?.values().next()?;
    Some(pass.iter().map(|sample| sample.block_hash).collect())
}

fn warnings(
    a: &Side<'_>,
    b: &Side<'_>,
    cells: &[Comparison],
    without_numbers: &[String],
) -> Vec<String> {
    let has = |verdict| move |cell: &&Comparison| cell.verdict == verdict;
    let differ = cells.iter().filter(has(Verdict::OtherPayloads));
    let mut warnings: Vec<String> = differ
        .map(|Comparison { a, b, .. }| {
            format!(
                "{a} and {b} replayed different payloads: their ratio says little about the engine, and there is \
                 no verdict"
            )
        })
        .collect();
    let [of_a, of_b] = [a, b].map(|side| side.outcome.plan.settings.interleave);
    warnings.extend((of_a != of_b).then(|| {
        "the cells of one sweep took turns (--interleave), those of the other were alone: part of the \
         difference is that"
            .to_owned()
    }));
    let sides = [("a", a), ("b", b)];
    let without_floor = cells.iter().any(|cell| has(Verdict::NoNoiseFloor)(&cell));
    let lacking = sides
        .iter()
        .filter(|(_, side)| without_floor && floor(side).is_none());
    warnings
        .extend(lacking.map(|(name, _)| format!("sweep {name} has no noise floor: {NO_FLOOR}")));
    let missing = without_numbers.iter();
    warnings.extend(missing.map(|id| format!("{id}: one side has no numbers")));
    for (name, side) in sides {
        if !side.outcome.complete {
            warnings.push(format!("sweep {name} is incomplete"));
        }
        let edited = side.outcome.edited.iter();
        warnings.extend(edited.map(|found| format!("sweep {name}: {found}")));
        let asked = ids(side);
        let unchecked = summarize(side.outcome).into_iter();
        let unchecked = unchecked.filter(|of| !of.root_checked && asked.contains(&of.id));
        let unchecked: Vec<String> = unchecked.map(|found| found.id).collect();
        if !unchecked.is_empty() {
            let list = unchecked.join(", ");
            warnings.push(format!(
                "sweep {name}: state roots were not checked in {list}"
            ));
        }
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyze::made_up::{self, MadeUp, results, sweep};

    #[test]
    fn settings_get_their_full_names() {
        let value = serde_json::json!({"a": {"b": 1}, "list": [1, 2], "rows": [{"x": null}]});
        let flat = flat(&serde_json::json!({ "top": value }));
        let names: Vec<&str> = flat.keys().map(String::as_str).collect();
        assert_eq!(names, ["top.a.b", "top.list", "top.rows.0.x"]);
    }

    fn compared(a: &Outcome, b: &Outcome, cells: [Option<&str>; 2]) -> Between {
        let side = |outcome, cell| Side { outcome, cell };
        between(&side(a, cells[0]), &side(b, cells[1]), false)
    }

    #[test]
    fn two_cells_of_one_sweep_get_the_verdict_of_its_report() {
        // Alone these two would be separable: their common noise is small beside that of the level.
        let steady = |ms: f64| [ms, ms * 1.001, ms, ms * 0.999];
        let cells = [
            MadeUp::chunk("5", &steady(100.0)),
            MadeUp::chunk("15", &steady(102.0)),
            MadeUp::chunk("60", &[98.0, 103.0, 97.0, 102.0]),
            MadeUp::chunk("240", &[102.0, 97.0, 103.0, 98.0]),
            MadeUp::chunk("5", &steady(400.0)).gas(40_000_000),
        ];
        let outcome = sweep(&cells);
        let ids = ["chunk5-gas10M", "chunk15-gas10M", "chunk5-gas40M"];
        let [a, b, other] = ids.map(|id| Side {
            outcome: &outcome,
            cell: Some(id),
        });
        let alone = made_up::compared(&cells[..2]);
        assert_eq!(alone.pairs[0].verdict, Verdict::Faster);

        let report = compare::compare(&outcome, &summarize(&outcome));
        let published = report.of(ids[0], ids[1]).unwrap();
        let found = between(&a, &b, true);
        assert_eq!(found.cells, [published]);
        assert_eq!(found.cells[0].verdict, Verdict::NotSeparable);
        assert_eq!(found.noise_floor, report.noise_floor.relative);
        // Of two levels there is a ratio and no verdict.
        let levels = between(&a, &other, true);
        assert_eq!(levels.cells[0].verdict, Verdict::OtherPayloads);
    }

    #[test]
    fn without_a_noise_floor_on_both_sides_there_is_no_verdict() {
        let one = |ms: f64| MadeUp::chunk("60", &[ms, ms * 1.001, ms, ms * 0.999]);
        let alone = [sweep(&[one(100.0)]), sweep(&[one(150.0)])];
        let beside = [100.0, 150.0]
            .map(|ms| sweep(&[one(ms), MadeUp::chunk("5", &[ms, ms, ms * 1.001, ms])]));
        for (a, b, verdict) in [
            (&alone[0], &alone[1], Verdict::NoNoiseFloor),
            (&alone[0], &beside[1], Verdict::NoNoiseFloor),
            (&beside[0], &beside[1], Verdict::Faster),
        ] {
            let found = compared(a, b, [Some("chunk60-gas10M"); 2]);
            assert_eq!(found.cells[0].verdict, verdict);
            let told = found.warnings.concat().contains(NO_FLOOR);
            assert_eq!(told, verdict == Verdict::NoNoiseFloor, "{found:?}");
            assert_eq!(found.noise_floor.is_some(), verdict == Verdict::Faster);
        }
    }

    #[test]
    fn a_cell_that_gave_no_numbers_is_missed() {
        let (a, mut b) = (results(), results());
        let lost = b.plan.cells[1].id.clone();
        b.passes.remove(&lost);
        let found = compared(&a, &b, [None, None]);
        assert_eq!(found.without_numbers, std::slice::from_ref(&lost));
        assert_eq!(found.cells.len(), a.plan.cells.len() - 1);
        let warning = format!("{lost}: one side has no numbers");
        assert!(found.warnings.contains(&warning), "{:?}", found.warnings);
    }

    #[test]
    fn other_payloads_and_unchecked_roots_are_told() {
        let (a, mut b) = (results(), results());
        let [first, last] = [0, 5].map(|at| a.plan.cells[at].id.clone());
        let found = compared(&a, &b, [Some(&first), Some(&last)]);
        assert_eq!(found.cells[0].verdict, Verdict::OtherPayloads);
        let mut all = compared(&a, &b, [None, None]).cells.into_iter();
        let same = all.all(|cell| cell.verdict != Verdict::OtherPayloads);
        assert!(same, "the same cells replay the same payloads");
        b.plan.settings.set.push(crate::sweep::Setting {
            flag: "bench.root-strategy".into(),
            value: "skip".into(),
        });
        let found = compared(&a, &b, [Some(&first), Some(&first)]);
        let warned = |words: &str| found.warnings.concat().contains(words);
        let unchecked = format!("sweep b: state roots were not checked in {first}");
        assert!(warned(&unchecked) && !warned("sweep a: state roots"));
    }
}
