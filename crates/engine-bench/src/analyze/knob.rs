//! Whether the knob of a cell did anything, proved by what the engine counted.
//!
//! A chunk size can be without effect: batches shorter than it are never cut, and engines gate
//! cutting by other rules too. A cell whose counts equal those of every other value of the knob
//! did the same work and is inert.
//!
//! Invariant: without counts in the engine's log nothing is claimed.

use crate::{analyze::sample::Sample, plan::Cell, sweep::CHUNK_SIZE_FLAG};
use serde::{Deserialize, Serialize};

/// Relative difference in jobs per block below which two cells count as having done the same
/// work: generated blocks are the same, but threads race for what is batched together.
const SAME_WORK: f64 = 0.02;

/// Evidence about the knob of one cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Knob {
    /// Whether it acted; `None` when the engine gives no evidence.
    pub acted: Option<bool>,
    /// The evidence, beginning with its figure.
    pub evidence: String,
}

/// What the engine counted over all blocks of a cell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Work {
    jobs_per_block: f64,
    batches_per_block: f64,
    unsplit_per_block: f64,
}

impl Work {
    /// Means over samples; `None` when a sample has no job count.
    pub(super) fn of<'a>(samples: impl Iterator<Item = &'a Sample>) -> Option<Self> {
        let (mut blocks, mut jobs, mut batches, mut unsplit) = (0u64, 0, 0, 0);
        for sample in samples {
            blocks += 1;
            jobs += sample.jobs?;
            batches += sample.batches.unwrap_or(0);
            unsplit += sample.unsplit_batches.unwrap_or(0);
        }
        let per_block = |sum: u64| sum as f64 / blocks as f64;
        (blocks > 0).then(|| Self {
            jobs_per_block: per_block(jobs),
            batches_per_block: per_block(batches),
            unsplit_per_block: per_block(unsplit),
        })
    }

    fn differs(&self, other: &Self) -> bool {
        let scale = self.jobs_per_block.max(other.jobs_per_block);
        (self.jobs_per_block - other.jobs_per_block).abs() > SAME_WORK * scale
    }

    /// Whether any batch was cut.
    fn cut(&self) -> bool {
        self.batches_per_block > self.unsplit_per_block
    }
}

/// Judges the cells of one gas level; `works` is parallel to `cells`.
pub(super) fn judge(cells: &[&Cell], works: &[Option<Work>]) -> Vec<Knob> {
    cells
        .iter()
        .zip(works)
        .map(|(cell, work)| one(cell, *work, cells, works))
        .collect()
}

fn one(cell: &Cell, work: Option<Work>, cells: &[&Cell], works: &[Option<Work>]) -> Knob {
    if chunk_size(cell).is_none() {
        let swept = cells.iter().any(|other| chunk_size(other).is_some());
        let evidence = if swept {
            format!("none: {} has no chunk size", cell.engine)
        } else {
            "unknown: only the chunk size leaves evidence".to_owned()
        };
        return Knob {
            acted: None,
            evidence,
        };
    }
    let Some(work) = work else {
        let evidence = "unknown: the engine's log counts no jobs".to_owned();
        return Knob {
            acted: None,
            evidence,
        };
    };
    let others: Vec<&Work> = cells
        .iter()
        .zip(works)
        .filter(|(other, _)| differ_in_chunk_size_alone(cell, other))
        .filter_map(|(_, work)| work.as_ref())
        .collect();
    let acted = match others.as_slice() {
        [] => work.cut(),
        others => others.iter().any(|other| work.differs(other)),
    };
    Knob {
        acted: Some(acted),
        evidence: format!(
            "jobs per block {:.1} ({:.1} batches, {:.1} of them uncut)",
            work.jobs_per_block, work.batches_per_block, work.unsplit_per_block
        ),
    }
}

fn chunk_size(cell: &Cell) -> Option<&str> {
    let found = cell.flags.iter().find(|(flag, _)| flag == CHUNK_SIZE_FLAG);
    found.map(|(_, value)| value.as_str())
}

fn differ_in_chunk_size_alone(a: &Cell, b: &Cell) -> bool {
    let rest = |cell: &Cell| {
        let flags = cell
            .flags
            .iter()
            .filter(|(flag, _)| flag != CHUNK_SIZE_FLAG);
        flags.cloned().collect::<Vec<_>>()
    };
    a.engine == b.engine && a.gas == b.gas && chunk_size(a) != chunk_size(b) && rest(a) == rest(b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::Gas;

    fn check(jobs: &[Option<f64>], acted: &[Option<bool>]) {
        let cell = |(index, _): (usize, _)| Cell {
            id: format!("c{index}"),
            engine: "e".into(),
            flags: vec![(CHUNK_SIZE_FLAG.into(), index.to_string())],
            gas: Gas(1),
            duplicate_of: None,
        };
        let cells: Vec<Cell> = jobs.iter().enumerate().map(cell).collect();
        let works: Vec<_> = jobs
            .iter()
            .map(|jobs| {
                jobs.map(|jobs_per_block| Work {
                    jobs_per_block,
                    batches_per_block: 9.0,
                    unsplit_per_block: 9.0,
                })
            })
            .collect();
        let knobs = judge(&cells.iter().collect::<Vec<_>>(), &works);
        assert_eq!(
            knobs.iter().map(|knob| knob.acted).collect::<Vec<_>>(),
            acted,
            "{jobs:?}"
        );
    }

    #[test]
    fn equal_counts_are_inert() {
        check(&[Some(40.0), Some(10.0), Some(10.0)], &[Some(true); 3]);
        check(&[Some(10.0), Some(10.1)], &[Some(false); 2]);
        check(&[Some(10.0)], &[Some(false)]);
        check(&[None, Some(10.0)], &[None, Some(false)]);
    }

    #[test]
    fn evidence_begins_with_its_figure() {
        let work = Work {
            jobs_per_block: 41.23,
            batches_per_block: 9.0,
            unsplit_per_block: 2.0,
        };
        let cell = Cell {
            id: "a".into(),
            engine: "e".into(),
            flags: vec![(CHUNK_SIZE_FLAG.into(), "5".into())],
            gas: Gas(1),
            duplicate_of: None,
        };
        let knob = one(&cell, Some(work), &[], &[]);
        assert_eq!(knob.acted, Some(true));
        assert_eq!(
            knob.evidence,
            "jobs per block 41.2 (9.0 batches, 2.0 of them uncut)"
        );
    }
}
