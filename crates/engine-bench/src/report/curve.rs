//! Response curves as a table.
//!
//! Invariant: an optimum comes with its interval where there is one.

use super::grid::{self, Grid, NOTHING};
use super::model::Report;

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
