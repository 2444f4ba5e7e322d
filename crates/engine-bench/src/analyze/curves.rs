//! Response curves: over the numeric axes of a gas level, where there are values enough.
//!
//! Invariant: a curve joins cells that differ in one axis alone.

use super::{outcome::Outcome, summary::rounds_of};
use crate::plan::{Cell, Load};
use bench_stats::{
    Layout,
    bootstrap::Resampling,
    curve::{Curve, FEWEST_VALUES, fit},
};

/// Draws of rounds for the interval of an optimum, and the chance that it misses.
const REPLICATES: usize = 1_000;
const ERROR: f64 = 0.05;

/// A curve and the cells it was fitted to.
#[derive(Debug, Clone, PartialEq)]
pub struct Response {
    /// The axis.
    pub axis: String,
    /// Cells with their values, in the order of the plan.
    pub cells: Vec<(String, f64)>,
    /// The curve.
    pub curve: Curve,
}

/// Every curve of a level.
pub fn responses(outcome: &Outcome, load: &Load) -> Vec<Response> {
    let cells = outcome
        .plan
        .cells
        .iter()
        .filter(|cell| load.is_of(cell) && outcome.passes.contains_key(&cell.id));
    let cells: Vec<&Cell> = cells.collect();
    let mut found = Vec::new();
    for axis in &outcome.plan.settings.axes {
        let mut left = cells.clone();
        while let Some(first) = left.first().copied() {
            let (group, others): (Vec<&Cell>, Vec<&Cell>) = left
                .into_iter()
                .partition(|cell| alike(first, cell, &axis.flag));
            left = others;
            found.extend(response(outcome, &axis.flag, &group));
        }
    }
    found
}

/// Whether two cells differ in an axis at most.
fn alike(a: &Cell, b: &Cell, axis: &str) -> bool {
    let rest = |cell: &Cell| -> Vec<(String, String)> {
        let flags = cell.flags.iter().filter(|(flag, _)| flag != axis);
        flags.cloned().collect()
    };
    a.engine == b.engine && rest(a) == rest(b)
}

fn response(outcome: &Outcome, axis: &str, group: &[&Cell]) -> Option<Response> {
    let value = |cell: &&Cell| -> Option<f64> {
        let (_, value) = cell.flags.iter().find(|(flag, _)| flag == axis)?;
        value.parse().ok()
    };
    let values: Option<Vec<f64>> = group.iter().map(value).collect();
    let values = values.filter(|values| values.len() >= FEWEST_VALUES)?;
    let layout = Layout::new(group.iter().map(|cell| rounds_of(outcome, &cell.id)));
    let how = Resampling {
        replicates: REPLICATES,
        error: ERROR,
        seed: outcome.plan.settings.seed,
    };
    let curve = fit(&values, &layout, &how)?;
    let ids = group.iter().map(|cell| cell.id.clone());
    Some(Response {
        axis: axis.to_owned(),
        cells: ids.zip(values).collect(),
        curve,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        analyze::read_outcome,
        record::sample::tests::sample,
        sweep::{Axis, CHUNK_SIZE_FLAG},
    };
    use std::path::Path;

    /// A level whose cells take these times, by chunk size and another knob.
    fn outcome(cells: &[(&str, &str, u64)]) -> Outcome {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/results");
        let mut outcome = read_outcome(&dir).unwrap();
        let like = outcome.plan.cells[0].clone();
        outcome.passes.clear();
        outcome.plan.cells.clear();
        let names = [CHUNK_SIZE_FLAG, "other"];
        outcome.plan.settings.axes = names
            .map(|flag| Axis {
                flag: flag.into(),
                values: Vec::new(),
            })
            .to_vec();
        for (chunk, other, time_ns) in cells {
            let cell = Cell {
                id: format!("{chunk}-{other}"),
                flags: vec![
                    (names[0].into(), (*chunk).into()),
                    (names[1].into(), (*other).into()),
                ],
                ..like.clone()
            };
            let pass = |round: u64| (round, vec![sample(1, 1_000_000, time_ns + round, 0)]);
            let rounds = [1, 2].map(pass).into_iter().collect();
            outcome.passes.insert(cell.id.clone(), rounds);
            outcome.plan.cells.push(cell);
        }
        outcome
    }

    #[test]
    fn a_curve_joins_cells_that_differ_in_one_axis() {
        let chunks = ["5", "15", "45", "135", "405"];
        let mut cells: Vec<(&str, &str, u64)> = Vec::new();
        for (chunk, time) in chunks.into_iter().zip([1_400, 1_100, 1_000, 1_100, 1_400]) {
            cells.push((chunk, "on", 1_000 * time));
            cells.push((chunk, "off", 3_000 * time));
        }
        cells.push(("always", "rare", 1));
        let outcome = outcome(&cells);
        let load = outcome.plan.loads()[0].clone();
        let found = responses(&outcome, &load);
        assert_eq!(found.len(), 2, "one for each value of the other knob");
        for response in found {
            assert_eq!(response.axis, CHUNK_SIZE_FLAG);
            assert_eq!(response.cells.len(), 5);
            assert!((response.curve.optimum - 45.0).abs() < 1.0, "{response:?}");
        }
    }

    #[test]
    fn four_values_have_no_curve() {
        let cells = ["5", "15", "45", "135"].map(|chunk| (chunk, "on", 1_000_000));
        let outcome = outcome(&cells);
        assert_eq!(responses(&outcome, &outcome.plan.loads()[0]), []);
    }
}
