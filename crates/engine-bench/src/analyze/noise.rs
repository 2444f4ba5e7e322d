//! Where the noise of each gas level comes from, and what would buy precision.
//!
//! Invariant: says what more payloads or more visits would change; it decides nothing.

use super::{compare::layout_of, outcome::Outcome};
use crate::{plan::Load, record::Sample};
use bench_stats::components::{Components, block_variance};

/// Noise of the visits of a gas level.
#[derive(Debug, Clone, PartialEq)]
pub struct LevelNoise {
    /// The level.
    pub load: Load,
    /// Variances of visits and of blocks.
    pub components: Components,
    /// Payloads of a pass that would give the narrowest intervals in the same time; `None` when
    /// visits differ by no more than their payloads explain.
    pub best_payloads: Option<u64>,
}

/// The noise of every level that was visited in two rounds.
pub fn level_noise(outcome: &Outcome) -> Vec<LevelNoise> {
    let loads = outcome.plan.loads().into_iter();
    loads.filter_map(|load| of_level(outcome, load)).collect()
}

fn of_level(outcome: &Outcome, load: Load) -> Option<LevelNoise> {
    let layout = layout_of(outcome, &load);
    let all: Vec<usize> = (0..layout.cells()).collect();
    let spread = layout.spread(&all)?;
    let cells = outcome.plan.cells.iter().filter(|cell| load.is_of(cell));
    let passes = cells.map(|cell| {
        let rounds = outcome.passes.get(&cell.id).into_iter().flatten();
        rounds
            .map(|(_, pass)| pass.as_slice())
            .collect::<Vec<&[Sample]>>()
    });
    let (mut variances, mut blocks, mut block_ns, mut samples) = (Vec::new(), 0, 0, 0);
    for passes in passes {
        blocks = blocks.max(passes.first().map_or(0, |pass| pass.len()));
        for sample in passes.iter().copied().flatten() {
            block_ns += sample.total_ns();
            samples += 1;
        }
        let logs = |pass: &&[Sample]| -> Vec<f64> {
            pass.iter()
                .map(|sample| (sample.total_ns() as f64).ln())
                .collect()
        };
        variances.extend(block_variance(&passes.iter().map(logs).collect::<Vec<_>>()));
    }
    if variances.is_empty() || samples == 0 {
        return None;
    }
    let block = variances.iter().sum::<f64>() / variances.len() as f64;
    let components = Components::of(spread, block, blocks);
    // Every payload is sent twice: once to warm up, once to be measured.
    let block_s = 2.0 * block_ns as f64 / samples as f64 / 1e9;
    let best = components.best_blocks(visit_overhead_s(outcome), block_s);
    Some(LevelNoise {
        load,
        components,
        best_payloads: best.map(|best| best as u64),
    })
}

/// Seconds that a visit takes beside its payloads.
fn visit_overhead_s(outcome: &Outcome) -> f64 {
    let visits: usize = outcome.passes.values().map(|rounds| rounds.len()).sum();
    let time = &outcome.time_s;
    (time.reset + time.start + time.stop + time.other) / visits.max(1) as f64
}
