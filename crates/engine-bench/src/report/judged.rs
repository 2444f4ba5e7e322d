//! How `report.json` tells of an adaptive sweep, and which cells a level has.

use super::model::CellReport;
use crate::{
    analyze::{Level, Outcome},
    record::Decision,
    sweep::MIX_AXIS,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How the rounds of an adaptive sweep were decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AdaptiveReport {
    /// Half width that intervals were to reach, relative.
    pub precision: f64,
    /// Time it was given, in seconds; null without a budget.
    pub budget_s: Option<f64>,
    /// Rounds made, also partly.
    pub rounds: u64,
    /// Every decision, in order.
    pub decisions: Vec<Decision>,
}

impl AdaptiveReport {
    pub(super) fn of(outcome: &Outcome) -> Option<Self> {
        let adaptive = outcome.plan.settings.adaptive?;
        let rounds = outcome.passes.values().flat_map(|rounds| rounds.keys());
        Some(Self {
            precision: adaptive.precision,
            budget_s: adaptive.budget_s,
            rounds: rounds.max().copied().unwrap_or(0),
            decisions: outcome.decisions.clone(),
        })
    }
}

impl Level {
    /// Whether a cell is of this level.
    pub(super) fn is_of(&self, cell: &CellReport) -> bool {
        let mix = cell.axes.get(MIX_AXIS).and_then(Value::as_str);
        cell.axes.get("gas") == Some(&self.load.gas.0.into())
            && (self.load.mix.is_none() || self.load.mix.as_deref() == mix)
    }
}
