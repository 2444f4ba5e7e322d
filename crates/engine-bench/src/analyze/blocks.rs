//! How latencies go from block to block.
//!
//! Invariant: the size of a report does not grow with the number of payloads.

use crate::record::Sample;
use serde::Serialize;

/// Most entries of a cell, and of all cells of a report together.
const ENTRIES: usize = 90;
const ALL_ENTRIES: usize = 9_000;

/// Latency of a cell from block to block: the median over its visits.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Blocks {
    /// Number of the first block.
    pub first_block: u64,
    /// Consecutive blocks that are averaged to one entry.
    pub blocks_per_entry: u64,
    /// Latencies in microseconds, in the order of blocks.
    pub median_us: Vec<u64>,
}

/// The latencies of a cell, one of so many, with these measured passes; `None` without any.
pub(super) fn blocks(passes: &[&[Sample]], cells: usize) -> Option<Blocks> {
    let blocks = passes.iter().map(|pass| pass.len()).min()?;
    let first = passes.first()?.first()?;
    let most = ALL_ENTRIES / cells.max(1);
    let per_entry = blocks.div_ceil(most.clamp(10, ENTRIES));
    let medians: Vec<u64> = (0..blocks).map(|block| median_ns(passes, block)).collect();
    let entries = medians.chunks(per_entry);
    let mean_us = |entry: &[u64]| entry.iter().sum::<u64>() / (1_000 * entry.len() as u64);
    Some(Blocks {
        first_block: first.block_number,
        blocks_per_entry: per_entry as u64,
        median_us: entries.map(mean_us).collect(),
    })
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
    use crate::analyze::made_up::pass;

    /// The strip of a cell, one of six, whose passes take so many microseconds a payload.
    fn found(passes: &[&[u64]]) -> Option<Blocks> {
        let passes = passes.iter();
        let passes = passes.map(|times| pass(7, times.iter().map(|us| 1_000 * us)));
        let passes: Vec<Vec<Sample>> = passes.collect();
        blocks(&passes.iter().map(Vec::as_slice).collect::<Vec<_>>(), 6)
    }

    #[test]
    fn strips_hold_medians_of_visits_and_do_not_grow() {
        assert_eq!(found(&[]), None);
        let short = found(&[&[10, 90], &[20, 50], &[900, 70]]).unwrap();
        assert_eq!((short.first_block, short.blocks_per_entry), (7, 1));
        assert_eq!(short.median_us, [20, 70]);
        let times: Vec<u64> = (1..=1_000).collect();
        let long = found(&[&times]).unwrap();
        assert_eq!((long.blocks_per_entry, long.median_us.len()), (12, 84));
        assert_eq!(
            long.median_us[0], 6,
            "the mean of 1 to 12, in whole numbers"
        );
    }
}
