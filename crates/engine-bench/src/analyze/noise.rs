//! How much identical cells differ, and where the noise of each gas level comes from.
//!
//! Invariant: a floor is measured or unknown, never assumed.

use super::{
    compare::{ERROR, layout_of, rules},
    outcome::Outcome,
    verdict::Ratio,
};
use crate::{
    plan::{Cell, Load},
    record::Sample,
};
use bench_stats::{
    Layout, Rules, compare_all,
    components::{Components, block_variance},
};
use serde::Serialize;
use std::fmt;

/// How much identical cells differ.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NoiseFloor {
    /// Relative difference; null when unknown.
    pub relative: Option<f64>,
    /// Where the figure comes from.
    pub source: NoiseSource,
    /// Cells that were measured twice under two names.
    pub controls: Vec<Control>,
    /// Where the noise of visits comes from, by gas level; empty with one round.
    pub levels: Vec<LevelNoise>,
}

/// Where a noise floor comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum NoiseSource {
    /// A/A controls differ from their originals by it.
    Controls,
    /// The spread of visits lets identical cells differ by it.
    Spread,
    /// It is unknown: no level has two rounds of two cells.
    Unknown,
}

/// An A/A control beside its original.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Control {
    /// Id of the A/A control.
    pub id: String,
    /// Id of the cell it repeats.
    pub of: String,
    /// Rounds that have both.
    pub rounds: u64,
    /// Execution throughput of the A/A control over that of its original, with an interval of its own.
    pub ratio: Ratio,
}

/// Noise of the visits of a gas level, as relative standard deviations.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LevelNoise {
    /// The level.
    #[serde(flatten)]
    pub load: Load,
    /// Of a visit as a whole: restart and pass.
    pub visit: f64,
    /// Of one payload, neighbours' dependence included.
    pub payload: f64,
    /// Payloads of a pass.
    pub payloads: u64,
}

impl fmt::Display for NoiseSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Controls => "what A/A controls differ by",
            Self::Spread => "what identical cells differ by where visits vary as they did",
            Self::Unknown => "unknown: no level has two rounds of two cells",
        })
    }
}

impl NoiseFloor {
    pub(super) fn of(outcome: &Outcome) -> Self {
        let layouts = outcome.plan.loads().into_iter().map(|load| {
            let cells: Vec<&Cell> = outcome.visited(&load).collect();
            let place = |id: &String| cells.iter().position(|cell| cell.id == *id);
            let pairs = cells.iter().enumerate().filter_map(|(index, cell)| {
                let original = place(cell.control_of.as_ref()?)?;
                Some((index, original))
            });
            (layout_of(outcome, &load), pairs.collect::<Vec<_>>())
        });
        let layouts: Vec<_> = layouts.collect();
        let found = layouts.iter();
        let found = bench_stats::NoiseFloor::of(found.map(|(layout, pairs)| (layout, &pairs[..])));
        let source = match (found.observed, found.expected) {
            (None, None) => NoiseSource::Unknown,
            (Some(observed), expected) if expected.is_none_or(|least| observed >= least) => {
                NoiseSource::Controls
            }
            _ => NoiseSource::Spread,
        };
        let controls = outcome.plan.controls.iter();
        let loads = outcome.plan.loads().into_iter();
        Self {
            relative: found.relative(),
            source,
            controls: controls.filter_map(|cell| control(outcome, cell)).collect(),
            levels: loads.filter_map(|load| of_level(outcome, load)).collect(),
        }
    }
}

fn control(outcome: &Outcome, control: &Cell) -> Option<Control> {
    let of = control.control_of.clone()?;
    let layout = Layout::new([&control.id, &of].map(|id| outcome.throughputs(id)));
    let rules = Rules {
        error: ERROR,
        ..rules(outcome, None)
    };
    let pair = *compare_all(&layout, 2, &rules).pairs.first()?;
    Some(Control {
        id: control.id.clone(),
        of,
        rounds: pair.rounds as u64,
        ratio: pair.ratio.into(),
    })
}

fn of_level(outcome: &Outcome, load: Load) -> Option<LevelNoise> {
    let layout = layout_of(outcome, &load);
    let all: Vec<usize> = (0..layout.cells()).collect();
    let spread = layout.spread(&all)?;
    let (mut variances, mut blocks) = (Vec::new(), 0);
    for cell in outcome.cells(&load) {
        let log = |sample: &Sample| (sample.total_ns() as f64).ln();
        let logs = outcome.rounds(&cell.id);
        let logs = logs.map(|(_, pass)| pass.iter().map(log).collect());
        let logs: Vec<Vec<f64>> = logs.collect();
        blocks = blocks.max(logs.first().map_or(0, Vec::len));
        variances.extend(block_variance(&logs));
    }
    if variances.is_empty() {
        return None;
    }
    let block = variances.iter().sum::<f64>() / variances.len() as f64;
    let components = Components::of(spread, block, blocks);
    Some(LevelNoise {
        load,
        visit: components.visit.sqrt(),
        payload: components.block.sqrt(),
        payloads: components.blocks as u64,
    })
}
