//! Latencies as shapes: how they are distributed, and how they go from block to block.
//!
//! Invariant: the size of a report does not grow with the number of payloads. Bins are the same for
//! all cells of a level, so that shapes can be laid beside each other.

use crate::{
    analyze::Outcome,
    plan::{Cell, Load},
    record::Sample,
};
use serde::{Deserialize, Serialize};

/// Bins of a distribution.
const BINS: usize = 48;

/// Most bins of a strip, and of all strips of a report together.
const STRIP_BINS: usize = 90;
const ALL_STRIP_BINS: usize = 9_000;

/// How often latencies of a cell fell into bins that are equally wide on the logarithmic scale.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HistogramReport {
    /// Lower end of the first bin, in microseconds; the same for all cells of a level.
    pub low_us: f64,
    /// Upper end of the last bin.
    pub high_us: f64,
    /// Payloads in each bin, all measured passes together.
    pub counts: Vec<u64>,
}

/// Latency of a cell from block to block: the median over its visits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BlocksReport {
    /// Number of the first block.
    pub first_block: u64,
    /// Consecutive blocks that are averaged to one entry.
    pub blocks_per_entry: u64,
    /// Latencies in microseconds, in the order of blocks.
    pub median_us: Vec<u64>,
}

/// What the shapes of a sweep have in common.
pub(super) struct Shapes<'a> {
    outcome: &'a Outcome,
    levels: Vec<LevelShape>,
    strip_bins: usize,
}

/// Shortest and longest latency of a level.
struct LevelShape {
    load: Load,
    ends_ns: (u64, u64),
}

impl<'a> Shapes<'a> {
    pub(super) fn of(outcome: &'a Outcome) -> Self {
        let level = |load: Load| {
            let cells = outcome.plan.cells.iter().filter(|cell| load.is_of(cell));
            let times = || {
                let passes = cells.clone().flat_map(|cell| passes(outcome, cell));
                passes.flatten().map(Sample::total_ns)
            };
            let ends_ns = (times().min()?, times().max()?);
            Some(LevelShape { load, ends_ns })
        };
        let cells = outcome.plan.cells.len().max(1);
        Self {
            levels: outcome.plan.loads().into_iter().filter_map(level).collect(),
            strip_bins: (ALL_STRIP_BINS / cells).clamp(10, STRIP_BINS),
            outcome,
        }
    }

    /// The distribution of a cell; `None` when it has no numbers.
    pub(super) fn histogram(&self, cell: &Cell) -> Option<HistogramReport> {
        let level = self.levels.iter().find(|level| level.load.is_of(cell))?;
        let ends = (level.ends_ns.0.max(1), level.ends_ns.1.max(1));
        let (low, high) = ((ends.0 as f64).ln(), (ends.1 as f64).ln());
        let mut counts = vec![0; BINS];
        for sample in passes(self.outcome, cell).flatten() {
            let part = ((sample.total_ns() as f64).ln() - low) / (high - low).max(1e-9);
            let bin = (part * BINS as f64).clamp(0.0, (BINS - 1) as f64);
            counts[bin as usize] += 1;
        }
        let any = counts.iter().any(|count| *count > 0);
        any.then(|| HistogramReport {
            low_us: ends.0 as f64 / 1e3,
            high_us: ends.1 as f64 / 1e3,
            counts,
        })
    }

    /// The strip of a cell; `None` when it has no numbers.
    pub(super) fn blocks(&self, cell: &Cell) -> Option<BlocksReport> {
        let passes: Vec<&[Sample]> = passes(self.outcome, cell).collect();
        let blocks = passes.iter().map(|pass| pass.len()).min()?;
        let first = passes.first()?.first()?;
        let per_entry = blocks.div_ceil(self.strip_bins);
        let medians: Vec<u64> = (0..blocks).map(|block| median_ns(&passes, block)).collect();
        let entries = medians.chunks(per_entry);
        let mean_us = |entry: &[u64]| entry.iter().sum::<u64>() / (1_000 * entry.len() as u64);
        Some(BlocksReport {
            first_block: first.block_number,
            blocks_per_entry: per_entry as u64,
            median_us: entries.map(mean_us).collect(),
        })
    }
}

fn passes<'a>(outcome: &'a Outcome, cell: &Cell) -> impl Iterator<Item = &'a [Sample]> {
    let rounds = outcome.passes.get(&cell.id).into_iter();
    rounds.flat_map(|rounds| rounds.values()).map(Vec::as_slice)
}

/// The middle time of a block over passes; the lower of two.
fn median_ns(passes: &[&[Sample]], block: usize) -> u64 {
    let mut times: Vec<u64> = passes.iter().map(|pass| pass[block].total_ns()).collect();
    let middle = (times.len() - 1) / 2;
    *times.select_nth_unstable(middle).1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{analyze, record::sample::tests::sample};
    use std::path::Path;

    fn outcome(passes: &[&[u64]]) -> Outcome {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/results");
        let mut outcome = analyze::read_outcome(&dir).unwrap();
        let cell = outcome.plan.cells[0].id.clone();
        outcome.passes.clear();
        let pass = |times: &[u64]| {
            let numbered = (7u64..).zip(times);
            numbered
                .map(|(number, us)| sample(number, 1, 1_000 * us, 0))
                .collect()
        };
        let rounds = (1u64..)
            .zip(passes)
            .map(|(round, times)| (round, pass(times)));
        outcome.passes.insert(cell, rounds.collect());
        outcome
    }

    #[test]
    fn strips_hold_medians_of_visits_and_do_not_grow() {
        let found = |passes: &[&[u64]]| {
            let outcome = outcome(passes);
            Shapes::of(&outcome).blocks(&outcome.plan.cells[0]).unwrap()
        };
        let short = found(&[&[10, 90], &[20, 50], &[900, 70]]);
        assert_eq!((short.first_block, short.blocks_per_entry), (7, 1));
        assert_eq!(short.median_us, [20, 70]);
        let times: Vec<u64> = (1..=1_000).collect();
        let long = found(&[&times]);
        assert_eq!(long.blocks_per_entry, 12);
        assert_eq!(long.median_us.len(), 84);
        assert_eq!(
            long.median_us[0], 6,
            "the mean of 1 to 12, in whole numbers"
        );
    }

    #[test]
    fn every_payload_falls_into_a_bin() {
        let outcome = outcome(&[&[100, 100, 1_100], &[100, 10_000, 9_999]]);
        let shapes = Shapes::of(&outcome);
        let found = shapes.histogram(&outcome.plan.cells[0]).unwrap();
        assert_eq!((found.low_us, found.high_us), (100.0, 10_000.0));
        assert_eq!(found.counts.iter().sum::<u64>(), 6);
        assert_eq!(
            (found.counts[0], found.counts[24], found.counts[47]),
            (3, 1, 2)
        );
        assert_eq!(shapes.histogram(&outcome.plan.cells[1]), None);
        assert_eq!(shapes.blocks(&outcome.plan.cells[1]), None);
    }
}
