//! Two sweeps, or two cells, against each other: what was set differently, and what came out
//! differently.
//!
//! Invariant: cells of one sweep are paired by round; cells of two sweeps are not, because nothing
//! pairs their rounds. Without three rounds on both sides none is named faster or slower.

use super::{compare, outcome::Outcome, summarize, summary::rounds_of};
use alloy_primitives::B256;
use bench_stats::{
    Estimate, Layout, Rules, Throughput, Verdict, compare_all,
    separate::{compare_separate, holm},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// Accepted chance that any verdict of a comparison is wrong.
const ERROR: f64 = 0.05;

/// A sweep, or one cell of it.
#[derive(Debug)]
pub struct Side<'a> {
    /// What its results folder says.
    pub outcome: &'a Outcome,
    /// The cell, when one was named.
    pub cell: Option<&'a str>,
}

/// What the comparison of two sides says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Between {
    /// Settings, axes, engines and machine that differ, by name.
    pub configuration: Vec<Difference>,
    /// Cells of both sides.
    pub cells: Vec<CellDifference>,
    /// Ids of cells that only one side has.
    pub unmatched: Vec<String>,
    /// Ids of cells of both sides that have no numbers on one.
    #[serde(default)]
    pub without_numbers: Vec<String>,
    /// Whether a side is not as it was measured.
    #[serde(default)]
    pub edited: bool,
    /// What a reader should doubt, a sentence each.
    pub warnings: Vec<String>,
}

/// A setting that differs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// Its name, parts joined by dots.
    pub name: String,
    /// On side a; null where it is not set.
    pub a: Value,
    /// On side b.
    pub b: Value,
}

/// A cell of side a against one of side b.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CellDifference {
    /// Id on side a.
    pub a: String,
    /// Id on side b.
    pub b: String,
    /// Execution throughput of `b` over that of `a`.
    pub ratio: f64,
    /// Lower end at 95 %; null with one round on a side.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// Whether rounds were measured side by side.
    pub paired: bool,
    /// What `b` is: `faster`, `slower` or `no difference`; null with too few rounds on a side.
    pub verdict: Option<String>,
    /// Whether both replayed the same payloads; of others a ratio says little about the engine.
    pub same_payloads: bool,
}

impl CellDifference {
    /// Whether `b` is slower by at least this part, beyond doubt and noise.
    pub fn is_regression(&self, part: f64) -> bool {
        self.same_payloads && self.verdict.as_deref() == Some("slower") && 1.0 - self.ratio >= part
    }
}

/// Compares two sides; `same` says that they are of the same sweep.
pub fn between(a: &Side<'_>, b: &Side<'_>, same: bool) -> Between {
    let pairs = pairs(a, b);
    let noise = noise(a).max(noise(b));
    let mut cells = if same {
        paired(a.outcome, &pairs, noise)
    } else {
        separate(a, b, &pairs, noise)
    };
    for cell in &mut cells {
        cell.same_payloads = blocks(a, &cell.a) == blocks(b, &cell.b);
    }
    let compared = |id: &String| cells.iter().any(|cell| cell.b == *id);
    let without_numbers = pairs.iter().map(|(_, id)| id.clone());
    let without_numbers: Vec<String> = without_numbers.filter(|id| !compared(id)).collect();
    let edited = [a, b].iter().any(|side| !side.outcome.edited.is_empty());
    Between {
        configuration: configuration(a, b),
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
        _ => of_a
            .into_iter()
            .filter(|id| of_b.contains(id))
            .map(|id| (id.clone(), id))
            .collect(),
    }
}

fn ids(side: &Side<'_>) -> Vec<String> {
    match side.cell {
        Some(cell) => vec![cell.to_owned()],
        None => {
            let cells = side.outcome.plan.cells.iter();
            cells.map(|cell| cell.id.clone()).collect()
        }
    }
}

fn noise(side: &Side<'_>) -> f64 {
    let summaries = summarize(side.outcome);
    let floor = compare::compare(side.outcome, &summaries).noise_floor;
    floor.relative.unwrap_or(0.0)
}

fn paired(outcome: &Outcome, pairs: &[(String, String)], noise: f64) -> Vec<CellDifference> {
    let rules = Rules {
        error: ERROR / pairs.len().max(1) as f64,
        noise: Some(noise),
        relevant: outcome.plan.settings.min_effect,
    };
    let one = |(a, b): &(String, String)| {
        let layout = Layout::new([rounds_of(outcome, b), rounds_of(outcome, a)]);
        let pair = *compare_all(&layout, 2, &rules).pairs.first()?;
        Some(difference(a, b, pair.ratio, pair.verdict, true))
    };
    pairs.iter().filter_map(one).collect()
}

fn separate(
    a: &Side<'_>,
    b: &Side<'_>,
    pairs: &[(String, String)],
    noise: f64,
) -> Vec<CellDifference> {
    let rounds = |side: &Side<'_>, id: &str| -> Vec<Throughput> {
        let rounds = rounds_of(side.outcome, id).into_iter();
        rounds.map(|(_, throughput)| throughput).collect()
    };
    let found: Vec<_> = pairs
        .iter()
        .filter_map(|(id_a, id_b)| {
            let found = compare_separate(&rounds(b, id_b), &rounds(a, id_a), ERROR)?;
            Some((id_a, id_b, found))
        })
        .collect();
    let known: Vec<f64> = found
        .iter()
        .filter_map(|(_, _, found)| found.p_value)
        .collect();
    let mut adjusted = holm(&known).into_iter();
    let cells = found.into_iter().map(|(a, b, found)| {
        let adjusted = found.p_value.and_then(|_| adjusted.next());
        let ratio = found.ratio;
        let margin = 1.0 + noise;
        let verdict = adjusted.map(|chance| {
            if chance > ERROR || (ratio.value <= margin && ratio.value >= 1.0 / margin) {
                Verdict::NoDifference
            } else if ratio.value > 1.0 {
                Verdict::Faster
            } else {
                Verdict::Slower
            }
        });
        difference(a, b, ratio, verdict, false)
    });
    cells.collect()
}

fn difference(
    a: &str,
    b: &str,
    ratio: Estimate,
    verdict: Option<Verdict>,
    paired: bool,
) -> CellDifference {
    let verdict = verdict.map(|verdict| match verdict {
        Verdict::Faster => "faster",
        Verdict::Slower => "slower",
        Verdict::NoDifference => "no difference",
    });
    CellDifference {
        a: a.to_owned(),
        b: b.to_owned(),
        ratio: ratio.value,
        low: ratio.interval.map(|(low, _)| low),
        high: ratio.interval.map(|(_, high)| high),
        paired,
        verdict: verdict.map(str::to_owned),
        same_payloads: true,
    }
}

fn configuration(a: &Side<'_>, b: &Side<'_>) -> Vec<Difference> {
    let (a, b) = (flat(a), flat(b));
    let mut names: Vec<&String> = a.keys().chain(b.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let value =
        |side: &BTreeMap<String, Value>, name: &str| side.get(name).cloned().unwrap_or(Value::Null);
    names
        .into_iter()
        .map(|name| Difference {
            name: name.clone(),
            a: value(&a, name),
            b: value(&b, name),
        })
        .filter(|difference| difference.a != difference.b)
        .collect()
}

/// Every setting of a side under its full name.
fn flat(side: &Side<'_>) -> BTreeMap<String, Value> {
    let mut flat = BTreeMap::new();
    let outcome = side.outcome;
    flatten("configuration", json(&outcome.plan.settings), &mut flat);
    let begun = outcome.begun.clone().unwrap_or_default();
    flatten("machine", json(&begun.environment), &mut flat);
    flatten("engine_versions", json(&begun.engine_versions), &mut flat);
    let cell = side.cell.and_then(|id| outcome.plan.cell(id));
    if let Some(cell) = cell {
        flatten("cell", Value::Object(cell.axes()), &mut flat);
    }
    flat
}

/// Settings are plain data: what cannot be written as JSON does not exist.
fn json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or(Value::Null)
}

/// Puts every plain value under its full name, parts joined by dots.
pub(crate) fn flatten(name: &str, value: Value, into: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(fields) => fields
            .into_iter()
            .for_each(|(field, value)| flatten(&format!("{name}.{field}"), value, into)),
        Value::Array(items) if items.iter().any(|item| item.is_object()) => items
            .into_iter()
            .enumerate()
            .for_each(|(index, item)| flatten(&format!("{name}.{index}"), item, into)),
        plain => {
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
    cells: &[CellDifference],
    without_numbers: &[String],
) -> Vec<String> {
    let differ = cells.iter().filter(|cell| !cell.same_payloads);
    let interleaved = |side: &Side<'_>| side.outcome.plan.settings.interleave;
    let otherwise_made = (interleaved(a) != interleaved(b)).then(|| {
        "the cells of one sweep took turns (--interleave), those of the other were alone: part of the \
         difference is that"
            .to_owned()
    });
    let mut warnings: Vec<String> = differ
        .map(|cell| {
            format!(
                "{} and {} replayed different payloads: their ratio says little about the engine",
                cell.a, cell.b
            )
        })
        .collect();
    warnings.extend(otherwise_made);
    let missing = without_numbers.iter();
    warnings.extend(missing.map(|id| format!("{id}: one side has no numbers")));
    for (name, side) in [("a", a), ("b", b)] {
        if !side.outcome.complete {
            warnings.push(format!("sweep {name} is incomplete"));
        }
        let edited = side.outcome.edited.iter();
        warnings.extend(edited.map(|found| format!("sweep {name}: {found}")));
        let asked = ids(side);
        let summaries = summarize(side.outcome).into_iter();
        let unchecked =
            summaries.filter(|found| !found.root_checked && asked.contains(&found.cell.id));
        let unchecked: Vec<String> = unchecked.map(|found| found.cell.id).collect();
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

    fn cell(verdict: Option<&str>, ratio: f64) -> CellDifference {
        CellDifference {
            a: "x".into(),
            b: "x".into(),
            ratio,
            low: None,
            high: None,
            paired: false,
            verdict: verdict.map(str::to_owned),
            same_payloads: true,
        }
    }

    #[test]
    fn a_regression_is_slower_beyond_doubt_and_by_enough() {
        for (verdict, ratio, expected) in [
            (Some("slower"), 0.97, true),
            (Some("slower"), 0.985, false),
            (Some("no difference"), 0.9, false),
            (Some("faster"), 1.1, false),
            (None, 0.5, false),
        ] {
            let found = cell(verdict, ratio).is_regression(0.02);
            assert_eq!(found, expected, "{verdict:?} {ratio}");
        }
    }

    #[test]
    fn settings_get_their_full_names() {
        let mut flat = BTreeMap::new();
        let value = serde_json::json!({"a": {"b": 1}, "list": [1, 2], "rows": [{"x": null}]});
        flatten("top", value, &mut flat);
        let names: Vec<&str> = flat.keys().map(String::as_str).collect();
        assert_eq!(names, ["top.a.b", "top.list", "top.rows.0.x"]);
    }

    /// The small results folder beside the tests.
    fn outcome() -> Outcome {
        let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/results");
        super::super::read_outcome(&dir).unwrap()
    }

    fn compared(a: &Outcome, b: &Outcome, cells: [Option<&str>; 2]) -> Between {
        let side = |outcome, cell| Side { outcome, cell };
        between(&side(a, cells[0]), &side(b, cells[1]), false)
    }

    #[test]
    fn a_cell_that_gave_no_numbers_is_missed() {
        let (a, mut b) = (outcome(), outcome());
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
        let (a, mut b) = (outcome(), outcome());
        let [first, last] = [0, 5].map(|at| a.plan.cells[at].id.clone());
        let found = compared(&a, &b, [Some(&first), Some(&last)]);
        assert!(!found.cells[0].same_payloads, "another gas level");
        assert!(
            compared(&a, &b, [None, None])
                .cells
                .iter()
                .all(|cell| cell.same_payloads)
        );
        b.plan.settings.set.push(crate::sweep::Setting {
            flag: "bench.root-strategy".into(),
            value: "skip".into(),
        });
        let found = compared(&a, &b, [Some(&first), Some(&first)]);
        let warned = |word: &str| found.warnings.iter().any(|warning| warning.contains(word));
        assert!(warned(&format!(
            "sweep b: state roots were not checked in {first}"
        )));
        assert!(!warned("sweep a: state roots"));
    }
}
