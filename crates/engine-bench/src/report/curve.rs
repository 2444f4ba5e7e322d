//! Response curves as `report.json` says them.
//!
//! Invariant: a curve comes with its formula, and its optimum with an interval where there is one.

use super::grid::{self, Grid, NOTHING};
use super::model::Report;
use crate::analyze::Response;
use serde::{Deserialize, Serialize};

/// The formula of every curve.
const MODEL: &str =
    "ln(Ggas/s) = c0 + c1 u + c2 u², u = ln(value) - center, least squares over the means of cells";

/// A curve through the cells of a level that differ in one numeric axis.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CurveReport {
    /// The axis.
    pub axis: String,
    /// The cells it was fitted to, with their values.
    pub cells: Vec<CurveCell>,
    /// The formula.
    pub model: String,
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CurveCell {
    /// Its id.
    pub cell: String,
    /// Its value of the axis.
    pub value: f64,
}

impl CurveReport {
    pub(super) fn of(response: Response) -> Self {
        let curve = response.curve;
        let cells = response.cells.into_iter();
        Self {
            axis: response.axis,
            cells: cells
                .map(|(cell, value)| CurveCell { cell, value })
                .collect(),
            model: MODEL.to_owned(),
            center: curve.center,
            coefficients: curve.coefficients,
            optimum: curve.optimum,
            low: curve.interval.map(|(low, _)| low),
            high: curve.interval.map(|(_, high)| high),
            misfit: curve.misfit,
            rounds: curve.rounds as u64,
        }
    }

    /// Throughput that the curve gives a value, in Ggas/s.
    pub(super) fn at(&self, value: f64) -> f64 {
        let u = value.ln() - self.center;
        let [constant, slope, curvature] = self.coefficients;
        (constant + slope * u + curvature * u * u).exp()
    }

    /// The smallest and the largest value it was fitted to.
    pub(super) fn ends(&self) -> (f64, f64) {
        let values = || self.cells.iter().map(|cell| cell.value);
        (
            values().fold(f64::MAX, f64::min),
            values().fold(0.0, f64::max),
        )
    }
}

/// The optimum of every curve: a row each.
pub(super) fn curves(report: &Report) -> Grid {
    let rows = report.levels.iter().flat_map(|level| {
        level.curves.iter().map(|curve| {
            let interval = match (curve.low, curve.high) {
                (Some(low), Some(high)) => format!("{low:.0} to {high:.0}"),
                _ => NOTHING.to_owned(),
            };
            let (first, last) = curve.ends();
            vec![
                level.load.to_string(),
                grid::short(&curve.axis).to_owned(),
                format!("{first} to {last}"),
                format!("{:.0}", curve.optimum),
                interval,
                format!("{:.1} %", 100.0 * curve.misfit),
            ]
        })
    });
    let header = [
        "level",
        "axis",
        "tried",
        "optimum of the curve",
        "interval",
        "cells off it by",
    ];
    Grid {
        header: header.map(str::to_owned).to_vec(),
        rows: rows.collect(),
    }
}
