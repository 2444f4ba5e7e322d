//! What is best at a gas level, held against one of its cells.
//!
//! Invariant: the best set follows from verdicts alone. Where nothing is shown to be beaten it is everything
//! that was measured, and no claim is made about edges; a curve and an edge never contradict each other.

use super::{
    compare::Group,
    curves::{Response, responses},
    knob,
    outcome::Outcome,
    summary::Summary,
    verdict::{Comparison, about},
};
use crate::plan::{Cell, Load};
use serde::Serialize;
use std::collections::BTreeSet;

/// What is best at a gas level.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Level {
    /// The level.
    #[serde(flatten)]
    pub load: Load,
    /// Id of the cell that the others are given as ratios to: the one that `--baseline` names, else the
    /// highest. Null when nothing was measured.
    pub reference: Option<String>,
    /// Id of the cell that `--baseline` names here and that gave no number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost_baseline: Option<String>,
    /// Ids of the measured cells that none is shown to beat, the highest first: all of them where the
    /// rounds decide nothing, as one round does.
    pub best: Vec<String>,
    /// Ids of the other measured cells, the highest first: each is shown to be slower than another by more
    /// than is relevant.
    pub beaten: Vec<String>,
    /// Ends of axes that the best set reaches, so that the optimum may lie beyond.
    pub edges: Vec<Edge>,
    /// Whether no chunk size changed what the engine counts. It may explain why cells that differ in that
    /// alone do not differ, and says nothing of others.
    pub inert: bool,
    /// Every other measured cell as `a` beside the reference as `b`, the highest first.
    pub versus: Vec<Comparison>,
    /// Relative standard deviation of one visit around its cell and round; null with one round.
    pub visit_noise: Option<f64>,
    /// Ids of cells that vary more than the others do and are judged by their own noise.
    pub unsteady: Vec<String>,
    /// Curves over its numeric axes; of axes with at least five values.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub curves: Vec<Response>,
}

/// The first or last value of a numeric axis.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Edge {
    /// The axis.
    pub axis: String,
    /// The value.
    pub value: String,
    /// Which end of those tried it is.
    pub end: End,
}

/// An end of the values that were tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum End {
    /// The smallest.
    Smallest,
    /// The largest.
    Largest,
}

impl Level {
    pub(super) fn of(
        outcome: &Outcome,
        group: &Group<'_>,
        compared: &bench_stats::Comparisons,
        reference: Option<usize>,
        pairs: &[Comparison],
    ) -> Self {
        let reference = reference.map(|index| group.id(index));
        let ids = |indices: &[usize]| indices.iter().map(|index| group.id(*index)).collect();
        let best = compared.best();
        let beaten = compared.ranked.iter().filter(|index| !best.contains(index));
        let beaten: Vec<usize> = beaten.copied().collect();
        let best: Vec<String> = ids(&best);
        let mut curves = responses(outcome, &group.load);
        curves.retain(|curve| !curve.is_contradicted(&best));
        let ranked = compared.ranked.iter();
        let versus =
            ranked.filter_map(|index| about(pairs, &group.id(*index), reference.as_ref()?));
        let versus: Vec<Comparison> = versus.collect();
        let baseline = outcome.plan.baseline(&group.load);
        let lost_baseline = baseline.filter(|cell| Some(&cell.id) != reference.as_ref());
        let of_cells = |index: &usize| *index < group.cells.len();
        let unsteady: Vec<usize> = compared.unsteady.iter().copied().filter(of_cells).collect();
        Self {
            load: group.load.clone(),
            lost_baseline: lost_baseline.map(|cell| cell.id.clone()),
            reference,
            edges: match beaten.is_empty() {
                true => Vec::new(),
                false => edges(&group.cells, &best, &curves),
            },
            beaten: ids(&beaten),
            inert: knob::is_inert(&group.cells),
            versus,
            visit_noise: compared.spread.map(|spread| spread.deviation),
            unsteady: ids(&unsteady),
            best,
            curves,
        }
    }
}

/// Ends of numeric axes that best cells have, engine by engine.
fn edges(cells: &[&Summary], best: &[String], curves: &[Response]) -> Vec<Edge> {
    let of_best = cells.iter().filter(|cell| best.contains(&cell.cell.id));
    let axes: BTreeSet<(&str, &str)> = of_best
        .flat_map(|top| {
            let flags = top.cell.flags.iter();
            flags.map(|(axis, _)| (top.cell.engine.as_str(), axis.as_str()))
        })
        .collect();
    let edges = axes.into_iter().filter_map(|(engine, axis)| {
        let own = cells.iter().map(|cell| &cell.cell);
        let own: Vec<&Cell> = own.filter(|cell| cell.engine == engine).collect();
        edge(axis, &own, best, curves)
    });
    let edges: BTreeSet<Edge> = edges.collect();
    edges.into_iter().collect()
}

/// The end of an axis that the best set reaches. None where it reaches both, since the axis does not
/// separate them, and none where a curve through such a cell is highest between the ends.
fn edge(axis: &str, cells: &[&Cell], best: &[String], curves: &[Response]) -> Option<Edge> {
    let value = |cell: &Cell| cell.flag(axis)?.parse::<f64>().ok();
    let values: Option<Vec<f64>> = cells.iter().map(|cell| value(cell)).collect();
    let values = values?;
    let best_at = |end: Option<f64>| -> Vec<&Cell> {
        let at_end = cells.iter().filter(|cell| value(cell) == end);
        let best = at_end.filter(|cell| best.contains(&cell.id));
        best.copied().collect()
    };
    let smallest = best_at(values.iter().copied().reduce(f64::min));
    let largest = best_at(values.iter().copied().reduce(f64::max));
    let (reached, end) = match (smallest.is_empty(), largest.is_empty()) {
        (_, true) => (smallest, End::Smallest),
        (true, _) => (largest, End::Largest),
        _ => return None,
    };
    let is_inside = |cell: &&Cell| {
        let through = |curve: &&Response| curve.axis == axis && curve.has(&cell.id);
        curves.iter().filter(through).any(Response::is_inside)
    };
    let open = reached.into_iter().find(|cell| !is_inside(cell))?;
    Some(Edge {
        axis: axis.to_owned(),
        value: open.flag(axis)?.to_owned(),
        end,
    })
}

#[cfg(test)]
mod tests {
    use crate::analyze::made_up::{MadeUp, around, compared};

    #[test]
    fn an_edge_is_one_end_of_an_axis_among_the_best() {
        // Milliseconds by chunk size, how many are best, edges, curves.
        for (ms, best, edges, curves) in [
            // Too few values for a curve, the highest of them as good as each other.
            (vec![130.0, 110.0, 100.0, 100.0], 2, "120 Largest", 0),
            (vec![100.0, 110.0, 120.0, 130.0, 140.0], 1, "5 Smallest", 1),
            // Highest inside, which a curve says: no edge says otherwise.
            (vec![140.0, 110.0, 100.0, 110.0, 140.0], 1, "", 1),
            (vec![130.0, 110.0, 100.0, 100.0, 100.0], 3, "", 1),
            // Both ends are among the best.
            (vec![100.0, 130.0, 130.0, 130.0, 100.0], 2, "", 1),
            // Nothing is beaten.
            (vec![100.0; 5], 5, "", 1),
            // A curve that is highest inside, where the cells are not, is no curve of theirs.
            (vec![200.0, 120.0, 115.0, 130.0, 100.0], 1, "240 Largest", 0),
        ] {
            let cells = ["5", "15", "60", "120", "240"].into_iter().zip(&ms);
            let cells = cells.enumerate();
            let cells = cells.map(|(at, (chunk, ms))| MadeUp::chunk(chunk, &around(*ms, at)));
            let found = compared(&cells.collect::<Vec<_>>()).levels.remove(0);
            let ends = found.edges.iter();
            let ends = ends.map(|edge| format!("{} {:?}", edge.value, edge.end));
            let ends = ends.collect::<Vec<_>>().join(", ");
            let said = (found.best.len(), ends.as_str(), found.curves.len());
            assert_eq!(said, (best, edges, curves), "{ms:?} {:?}", found.curves);
        }
    }
}
