//! Response curves: over the numeric axes of a gas level, where there are values enough.
//!
//! Invariant: a curve joins cells that differ in one axis alone.

use super::outcome::Outcome;
use crate::plan::{Cell, Load};
use bench_stats::{
    Layout,
    bootstrap::Resampling,
    curve::{FEWEST_VALUES, fit},
};
use serde::Serialize;

/// Draws of rounds for the interval of an optimum, and the chance that it misses.
const REPLICATES: usize = 1_000;
const ERROR: f64 = 0.05;

/// Distance from an end, relative, below which an optimum that was kept within the values lies at it.
const AT_END: f64 = 1e-6;

/// A curve through the cells of a level that differ in one numeric axis:
/// `ln(Ggas/s) = c0 + c1 u + c2 u²` with `u = ln(value) - center`, least squares over the means of cells.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Response {
    /// The axis.
    pub axis: String,
    /// The cells it was fitted to, in the order of the plan.
    pub cells: Vec<Place>,
    /// Mean of the logarithms of the values.
    pub center: f64,
    /// `c0`, `c1`, `c2`.
    pub coefficients: [f64; 3],
    /// The value at which the curve is highest, within those tried.
    pub optimum: f64,
    /// Lower end of its interval over resampled rounds; null with one round.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// Standard deviation of cells around the curve, relative.
    pub misfit: f64,
    /// Rounds that had every value.
    pub rounds: u64,
}

/// A cell of a curve.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Place {
    /// Its id.
    pub cell: String,
    /// Its value of the axis.
    pub value: f64,
}

impl Response {
    /// The smallest and the largest value it was fitted to.
    pub fn ends(&self) -> (f64, f64) {
        let values = || self.cells.iter().map(|place| place.value);
        (
            values().fold(f64::MAX, f64::min),
            values().fold(0.0, f64::max),
        )
    }

    /// Whether its optimum is shown to lie between the ends: the interval reaches neither.
    pub fn is_inside(&self) -> bool {
        let (first, last) = self.ends();
        let inside =
            |(low, high): (f64, f64)| low > first * (1.0 + AT_END) && high < last * (1.0 - AT_END);
        self.low.zip(self.high).is_some_and(inside)
    }

    /// Whether it was fitted to a cell.
    pub(super) fn has(&self, id: &str) -> bool {
        self.cells.iter().any(|place| place.cell == id)
    }

    /// Whether it is highest between the ends although, of its cells, those at an end alone are among the
    /// best: then no parabola describes them.
    pub(super) fn is_contradicted(&self, best: &[String]) -> bool {
        let (first, last) = self.ends();
        let among = self.cells.iter().filter(|place| best.contains(&place.cell));
        let values: Vec<f64> = among.map(|place| place.value).collect();
        let all_at = |end: f64| !values.is_empty() && values.iter().all(|value| *value == end);
        self.is_inside() && (all_at(first) || all_at(last))
    }
}

/// Every curve of a level.
pub(super) fn responses(outcome: &Outcome, load: &Load) -> Vec<Response> {
    let measured = |cell: &&Cell| outcome.passes.contains_key(&cell.id);
    let cells: Vec<&Cell> = outcome.cells(load).filter(measured).collect();
    let mut found = Vec::new();
    for axis in &outcome.plan.settings.axes {
        let mut left = cells.clone();
        while let Some(first) = left.first().copied() {
            let (group, others): (Vec<&Cell>, Vec<&Cell>) = left
                .into_iter()
                .partition(|cell| first.differs_only_in(&axis.flag, cell));
            left = others;
            found.extend(response(outcome, &axis.flag, &group));
        }
    }
    found
}

fn response(outcome: &Outcome, axis: &str, group: &[&Cell]) -> Option<Response> {
    let value = |cell: &&Cell| cell.flag(axis)?.parse().ok();
    let values: Option<Vec<f64>> = group.iter().map(value).collect();
    let values = values.filter(|values| values.len() >= FEWEST_VALUES)?;
    let layout = Layout::new(group.iter().map(|cell| outcome.throughputs(&cell.id)));
    let how = Resampling {
        replicates: REPLICATES,
        error: ERROR,
        seed: outcome.plan.settings.seed,
    };
    let curve = fit(&values, &layout, &how)?;
    let places = group.iter().zip(values).map(|(cell, value)| Place {
        cell: cell.id.clone(),
        value,
    });
    Some(Response {
        axis: axis.to_owned(),
        cells: places.collect(),
        center: curve.center,
        coefficients: curve.coefficients,
        optimum: curve.optimum,
        low: curve.interval.map(|(low, _)| low),
        high: curve.interval.map(|(_, high)| high),
        misfit: curve.misfit,
        rounds: curve.rounds as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        analyze::made_up::{MadeUp, sweep},
        sweep::CHUNK_SIZE_FLAG,
    };

    /// The curves of cells that take so many milliseconds by chunk size, beside one that is no number.
    fn of(ms: &[f64]) -> Vec<Response> {
        let chunks = ["5", "15", "45", "135", "405"].into_iter().zip(ms);
        let mut cells = vec![("always", "rare", 1.0)];
        for (chunk, ms) in chunks {
            cells.extend([(chunk, "on", *ms), (chunk, "off", 3.0 * ms)]);
        }
        let made_up = |(chunk, other, ms): (&str, &str, f64)| {
            MadeUp::new(&[(CHUNK_SIZE_FLAG, chunk), ("other", other)], &[ms, ms])
        };
        let cells: Vec<MadeUp> = cells.into_iter().map(made_up).collect();
        let outcome = sweep(&cells);
        responses(&outcome, &outcome.plan.loads()[0])
    }

    #[test]
    fn a_curve_joins_five_cells_or_more_that_differ_in_one_axis() {
        for (ms, optimum, is_inside) in [
            ([140.0, 110.0, 100.0, 110.0, 140.0], 45.0, true),
            ([140.0, 130.0, 120.0, 110.0, 100.0], 405.0, false),
        ] {
            let found = of(&ms);
            assert_eq!(found.len(), 2, "one for each value of the other knob");
            for response in found {
                assert_eq!(response.axis, CHUNK_SIZE_FLAG);
                assert_eq!(response.cells.len(), 5);
                assert!((response.optimum - optimum).abs() < 1.0, "{response:?}");
                assert_eq!(response.is_inside(), is_inside, "{response:?}");
            }
        }
        assert_eq!(of(&[1.0; 4]), []);
    }
}
