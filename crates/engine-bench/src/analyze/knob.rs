//! Whether the chunk size of a cell did anything, proved by what the engine counted.
//!
//! A chunk size can be without effect: batches shorter than it are never cut, and engines gate
//! cutting by other rules too. A cell whose counts equal those of every other chunk size did the same
//! work, and the chunk size is inert in it.
//!
//! Invariant: without counts in the engine's log nothing is claimed, and of cells that differ in anything
//! but the chunk size nothing is: this explains and never judges.

use super::{summary::Summary, work::Work};
use crate::{
    plan::Cell,
    sweep::{CHUNK_SIZE_FLAG, EngineKind},
};
use serde::Serialize;

/// Relative difference in jobs per block below which two cells count as having done the same
/// work: generated blocks are the same, but threads race for what is batched together.
const SAME_WORK: f64 = 0.02;

/// Evidence about the knob of one cell.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Knob {
    /// Whether it acted; `None` when the engine gives no evidence, and when it does not vary.
    pub acted: Option<bool>,
    /// The evidence, beginning with its figure.
    pub evidence: String,
}

/// Whether two cells did different work.
fn differ(a: &Work, b: &Work) -> bool {
    (a.count("jobs") - b.count("jobs")).abs() > SAME_WORK * a.count("jobs").max(b.count("jobs"))
}

/// Whether any batch was cut.
fn cut(work: &Work) -> bool {
    work.count("batches") > work.count("unsplit_batches")
}

/// State roots of the measured passes of a cell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Roots {
    pub(super) all: u64,
    /// Those that the engine's log says were made without the task whose proofs a chunk size cuts.
    pub(super) without_task: u64,
}

/// Judges cells; `works` and `roots` are parallel to `cells`.
pub(super) fn judge(cells: &[Cell], works: &[Option<Work>], roots: &[Roots]) -> Vec<Knob> {
    let all = || cells.iter().zip(works);
    all()
        .zip(roots)
        .map(|((cell, work), roots)| one(cell, work.as_ref(), *roots, all()))
        .collect()
}

fn one<'a>(
    cell: &Cell,
    work: Option<&Work>,
    roots: Roots,
    mut all: impl Iterator<Item = (&'a Cell, &'a Option<Work>)>,
) -> Knob {
    let unknown = |evidence| Knob {
        acted: None,
        evidence,
    };
    if chunk_size(cell).is_none() {
        return unknown(match all.any(|(other, _)| chunk_size(other).is_some()) {
            true => format!("none: {} has no chunk size", cell.engine),
            false => "unknown: only the chunk size leaves evidence".to_owned(),
        });
    }
    let Roots {
        all: blocks,
        without_task,
    } = roots;
    if without_task > 0 {
        return Knob {
            acted: (without_task >= blocks).then_some(false),
            evidence: format!(
                "{without_task} of {blocks} state roots were made without the root task, whose proofs the chunk \
                 size cuts; upstream reth runs it where it sees {} CPUs or more",
                EngineKind::Reth.root_task_cpus()
            ),
        };
    }
    let Some(work) = work else {
        return unknown("unknown: the engine's log counts no jobs".to_owned());
    };
    let others = all.filter(|(other, _)| differ_in_chunk_size_alone(cell, other));
    let others = others.filter_map(|(_, work)| work.as_ref());
    // What does not vary cannot be without effect.
    let acted = others
        .map(|other| differ(work, other))
        .reduce(|any, one| any || one);
    let [jobs, batches, uncut] =
        ["jobs", "batches", "unsplit_batches"].map(|name| work.count(name));
    let mut evidence =
        format!("jobs per block {jobs:.1} ({batches:.1} batches, {uncut:.1} of them uncut)");
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
    match work.targets().filter(|_| work.count("batches") > 0.0) {
        Some(targets) => format!(
            "no batch was cut: one holds {:.0} targets on average, too few for the chunk size or \
             for the engine's gate",
            targets / work.count("batches")
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

    fn cell(chunk: usize) -> Cell {
        Cell {
            id: format!("c{chunk}"),
            engine: "e".into(),
            flags: vec![(CHUNK_SIZE_FLAG.into(), chunk.to_string())],
            gas: Gas(1),
            control_of: None,
        }
    }

    #[test]
    fn equal_counts_are_inert() {
        for (jobs, expected) in [
            (
                &[Some(40.0), Some(10.0), Some(10.0)][..],
                [Some(true); 3].as_slice(),
            ),
            (&[Some(10.0), Some(10.1)], &[Some(false); 2]),
            (&[Some(10.0)], &[None]),
            (&[None, Some(10.0)], &[None, None]),
        ] {
            let cells: Vec<Cell> = (0..jobs.len()).map(cell).collect();
            let counted = |jobs| [("jobs", jobs), ("batches", 9.0), ("unsplit_batches", 9.0)];
            let works = jobs
                .iter()
                .map(|jobs| jobs.map(|jobs| work(&counted(jobs))));
            let roots = vec![Roots::default(); cells.len()];
            let knobs = judge(&cells, &works.collect::<Vec<_>>(), &roots);
            let acted: Vec<_> = knobs.iter().map(|knob| knob.acted).collect();
            assert_eq!(acted, expected, "{jobs:?}");
        }
    }

    #[test]
    fn evidence_begins_with_its_figure() {
        let work = work(&[("jobs", 41.23), ("batches", 9.0), ("unsplit_batches", 2.0)]);
        let knob = one(&cell(5), Some(&work), Roots::default(), [].into_iter());
        assert_eq!(knob.acted, None, "it is the only one");
        assert_eq!(
            knob.evidence,
            "jobs per block 41.2 (9.0 batches, 2.0 of them uncut)"
        );
    }

    #[test]
    fn a_root_that_no_task_made_has_no_chunks() {
        let found = |without_task| {
            let roots = Roots {
                all: 40,
                without_task,
            };
            one(&cell(5), None, roots, [].into_iter())
        };
        assert_eq!(found(40).acted, Some(false));
        assert!(found(40).evidence.starts_with("40 of 40 state roots"));
        assert_eq!(found(3).acted, None);
        assert_eq!(
            found(0).evidence,
            "unknown: the engine's log counts no jobs"
        );
    }

    #[test]
    fn an_inert_cell_says_why() {
        let inert = |batches, unsplit_batches, targets: &[f64]| {
            let counts = [("batches", batches), ("unsplit_batches", unsplit_batches)];
            let known = ["account_targets", "storage_targets"]
                .into_iter()
                .zip(targets.iter().copied());
            reason(&work(&counts.into_iter().chain(known).collect::<Vec<_>>()))
        };
        assert_eq!(inert(4.0, 3.0, &[]), "other chunk sizes gave as many jobs");
        assert!(inert(4.0, 4.0, &[24.0; 2]).contains("one holds 12 targets"));
        assert_eq!(inert(0.0, 0.0, &[0.0; 2]), "no batch was cut");
    }
}
