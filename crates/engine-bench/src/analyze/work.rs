//! What the engine counted while it made the state roots of a cell, as means over blocks.
//!
//! Invariant: a count that one block lacks is unknown for the cell.

use crate::record::Sample;

/// Means per block over all measured passes of a cell.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Work {
    /// Jobs that batches of proof targets were cut into.
    pub jobs: f64,
    /// Batches of proof targets.
    pub batches: f64,
    /// Batches that were not cut.
    pub unsplit_batches: f64,
    /// Accounts and slots fetched.
    pub targets: Option<f64>,
    /// Trie nodes that the jobs revealed.
    pub nodes_revealed: Option<f64>,
    /// Revealed nodes that another job had revealed before.
    pub nodes_reread: Option<f64>,
    /// Targets that needed no job, because their path was known.
    pub known_paths: Option<f64>,
    /// Trie nodes hashed.
    pub nodes_hashed: Option<f64>,
    /// Nodes that had to be worked on one after the other.
    pub longest_chain: Option<f64>,
    /// Time the engine was blocked on the root after execution, in microseconds.
    pub state_root_us: Option<f64>,
}

impl Work {
    /// Means over samples; `None` when a sample has no job count.
    pub(super) fn of(samples: &[&Sample]) -> Option<Self> {
        let mean = |count: fn(&Sample) -> Option<u64>| {
            let sum: Option<u64> = samples.iter().map(|sample| count(sample)).sum();
            sum.filter(|_| !samples.is_empty())
                .map(|sum| sum as f64 / samples.len() as f64)
        };
        Some(Self {
            jobs: mean(|sample| sample.jobs)?,
            batches: mean(|sample| sample.batches).unwrap_or(0.0),
            unsplit_batches: mean(|sample| sample.unsplit_batches).unwrap_or(0.0),
            targets: mean(|sample| Some(sample.account_targets? + sample.storage_targets?)),
            nodes_revealed: mean(|sample| sample.nodes_revealed),
            nodes_reread: mean(|sample| sample.nodes_reread),
            known_paths: mean(|sample| sample.known_paths),
            nodes_hashed: mean(|sample| sample.nodes_hashed),
            longest_chain: mean(|sample| sample.longest_chain),
            state_root_us: mean(|sample| sample.state_root_ns).map(|ns| ns / 1e3),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::sample::tests::sample;

    #[test]
    fn means_are_of_blocks_and_unknown_when_one_is() {
        let with = |jobs, reread| Sample {
            jobs,
            nodes_reread: reread,
            account_targets: Some(3),
            storage_targets: Some(4),
            ..sample(1, 1, 2, 3)
        };
        let work = |samples: &[Sample]| Work::of(&samples.iter().collect::<Vec<_>>());
        let found = work(&[with(Some(1), Some(10)), with(Some(4), Some(20))]).unwrap();
        assert_eq!((found.jobs, found.nodes_reread), (2.5, Some(15.0)));
        assert_eq!((found.targets, found.nodes_hashed), (Some(7.0), None));
        let partly = work(&[with(Some(1), None), with(Some(4), Some(20))]).unwrap();
        assert_eq!(partly.nodes_reread, None);
        assert_eq!(work(&[with(Some(1), None), with(None, None)]), None);
        assert_eq!(work(&[]), None);
    }
}
