//! Whether the chunk size of a cell did anything, proved by what the engine counted.
//!
//! A chunk size can be without effect: batches shorter than it are never cut, and engines gate
//! cutting by other rules too. A cell whose counts equal those of every other chunk size did the same
//! work, and the chunk size is inert in it.
//!
//! Invariant: without counts in the engine's log nothing is claimed, and of cells that differ in anything
//! but the chunk size nothing is: this explains and never judges.

use super::{summary::Summary, work::Work};
use crate::{plan::Cell, sweep::CHUNK_SIZE_FLAG};
use serde::{Deserialize, Serialize};

/// Relative difference in jobs per block below which two cells count as having done the same
/// work: generated blocks are the same, but threads race for what is batched together.
const SAME_WORK: f64 = 0.02;

/// Evidence about the knob of one cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Knob {
    /// Whether it acted; `None` when the engine gives no evidence, and when it does not vary.
    pub acted: Option<bool>,
    /// The evidence, beginning with its figure.
    pub evidence: String,
}

/// Whether two cells did different work.
fn differ(a: &Work, b: &Work) -> bool {
    (a.jobs() - b.jobs()).abs() > SAME_WORK * a.jobs().max(b.jobs())
}

/// Whether any batch was cut.
fn cut(work: &Work) -> bool {
    work.batches() > work.unsplit_batches()
}

/// Judges the cells of one gas level; `works` is parallel to `cells`.
pub(super) fn judge(cells: &[&Cell], works: &[Option<Work>]) -> Vec<Knob> {
    cells
        .iter()
        .zip(works)
        .map(|(cell, work)| one(cell, work.as_ref(), cells, works))
        .collect()
}

fn one(cell: &Cell, work: Option<&Work>, cells: &[&Cell], works: &[Option<Work>]) -> Knob {
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
    // What does not vary cannot be without effect.
    let acted = others
        .iter()
        .map(|other| differ(work, other))
        .reduce(|any, one| any || one);
    let mut evidence = format!(
        "jobs per block {:.1} ({:.1} batches, {:.1} of them uncut)",
        work.jobs(),
        work.batches(),
        work.unsplit_batches()
    );
    if acted == Some(false) || !cut(work) {
        evidence += "; ";
        evidence += &reason(work);
    }
    Knob { acted, evidence }
}

/// Why a chunk size moved nothing.
fn reason(work: &Work) -> String {
    if cut(work) {
        return "other chunk sizes gave as many jobs".to_owned();
    }
    match work.targets().filter(|_| work.batches() > 0.0) {
        Some(targets) => format!(
            "no batch was cut: one holds {:.0} targets on average, too few for the chunk size or \
             for the engine's gate",
            targets / work.batches()
        ),
        None => "no batch was cut".to_owned(),
    }
}

fn chunk_size(cell: &Cell) -> Option<&str> {
    cell.flag(CHUNK_SIZE_FLAG)
}

fn differ_in_chunk_size_alone(a: &Cell, b: &Cell) -> bool {
    chunk_size(a) != chunk_size(b) && a.differs_only_in(CHUNK_SIZE_FLAG, b)
}

/// Whether the engine counted the same work in two cells that differ in the chunk size alone; `None` of
/// other cells, and where it counts nothing.
pub(super) fn same_work(a: &Summary, b: &Summary) -> Option<bool> {
    let works = a.work.as_ref().zip(b.work.as_ref());
    let works = works.filter(|_| differ_in_chunk_size_alone(&a.cell, &b.cell));
    works.map(|(a, b)| !differ(a, b))
}

/// Whether the chunk size changed nothing that the engine counts, in any cells that differ in it alone.
pub(super) fn is_inert(cells: &[&Summary]) -> bool {
    let pairs = cells.iter().enumerate();
    let mut pairs =
        pairs.flat_map(|(index, a)| cells[..index].iter().filter_map(|b| same_work(a, b)));
    pairs.next().is_some_and(|same| same) && pairs.all(|same| same)
}

#[cfg(test)]
mod tests {
    use super::{super::work::tests::work, *};
    use crate::sweep::Gas;

    fn check(jobs: &[Option<f64>], acted: &[Option<bool>]) {
        let cell = |(index, _): (usize, _)| Cell {
            id: format!("c{index}"),
            engine: "e".into(),
            flags: vec![(CHUNK_SIZE_FLAG.into(), index.to_string())],
            gas: Gas(1),
            control_of: None,
        };
        let cells: Vec<Cell> = jobs.iter().enumerate().map(cell).collect();
        let works: Vec<_> = jobs
            .iter()
            .map(|jobs| {
                let counted = |jobs| [("jobs", jobs), ("batches", 9.0), ("unsplit_batches", 9.0)];
                jobs.map(|jobs| work(&counted(jobs)))
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
        check(&[Some(10.0)], &[None]);
        check(&[None, Some(10.0)], &[None, None]);
    }

    #[test]
    fn evidence_begins_with_its_figure() {
        let work = work(&[("jobs", 41.23), ("batches", 9.0), ("unsplit_batches", 2.0)]);
        let cell = Cell {
            id: "a".into(),
            engine: "e".into(),
            flags: vec![(CHUNK_SIZE_FLAG.into(), "5".into())],
            gas: Gas(1),
            control_of: None,
        };
        let knob = one(&cell, Some(&work), &[], &[]);
        assert_eq!(knob.acted, None, "it is the only one");
        assert_eq!(
            knob.evidence,
            "jobs per block 41.2 (9.0 batches, 2.0 of them uncut)"
        );
    }

    #[test]
    fn an_inert_cell_says_why() {
        let inert = |batches, unsplit_batches, targets| {
            let counts = [("batches", batches), ("unsplit_batches", unsplit_batches)];
            let targets = [("account_targets", targets), ("storage_targets", targets)];
            let known = targets
                .iter()
                .filter_map(|(name, mean)| Some((*name, (*mean)?)));
            reason(&work(&counts.into_iter().chain(known).collect::<Vec<_>>()))
        };
        assert_eq!(inert(4.0, 3.0, None), "other chunk sizes gave as many jobs");
        assert!(inert(4.0, 4.0, Some(24.0)).contains("one holds 12 targets"));
        assert_eq!(inert(0.0, 0.0, Some(0.0)), "no batch was cut");
    }
}
