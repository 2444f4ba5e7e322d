//! What is known of a cell while a sweep is under way.

use crate::figures;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The execution throughput of a cell until now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Running {
    /// Id of the cell.
    pub cell: String,
    /// Visits that gave numbers.
    pub visits: u64,
    /// In gigagas per second.
    pub ggas_per_second: f64,
    /// Lower end of its interval; null with one visit.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
}

impl fmt::Display for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let figure = figures::with_half_width(self.ggas_per_second, self.low.zip(self.high));
        write!(f, "{} {figure}", self.cell)
    }
}
