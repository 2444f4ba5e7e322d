//! Which cells of a gas level differ, and by how much.
//!
//! Invariant: two cells are compared over the rounds that both have. With one round no noise is
//! known, so a pair then is either inert, which the engine's counts prove, or undecided.

use super::summary::Summary;
use bench_stats::{Estimate, Throughput, Verdict, noise_floor, ratio_of_rounds, verdict};

/// Two cells and what is to be said about them.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// Id of the first cell.
    pub a: String,
    /// Id of the second cell.
    pub b: String,
    /// Execution throughput of `a` over that of `b`.
    pub ratio: Estimate,
    /// `faster`, `slower`, `no difference` or `inert`; said of `a`.
    pub verdict: &'static str,
}

/// Two cells that the sweep says too little about.
#[derive(Debug, Clone, PartialEq)]
pub struct Undecided {
    /// Id of the first cell.
    pub a: String,
    /// Id of the second cell.
    pub b: String,
    /// Execution throughput of `a` over that of `b`.
    pub ratio: Estimate,
}

/// How much identical cells differ.
#[derive(Debug, Clone, PartialEq)]
pub struct NoiseFloor {
    /// Relative spread between rounds of the same cell; `None` when unknown.
    pub relative: Option<f64>,
    /// Where the figure comes from.
    pub source: String,
}

/// All comparisons of a sweep.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparisons {
    /// Pairs with a verdict.
    pub decided: Vec<Comparison>,
    /// Pairs without one.
    pub undecided: Vec<Undecided>,
    /// The noise they were judged against.
    pub noise_floor: NoiseFloor,
}

impl Comparisons {
    /// Whether the sweep found no difference between two cells, in either order.
    pub fn alike(&self, a: &str, b: &str) -> bool {
        self.decided.iter().any(|pair| {
            let both = (pair.a == a && pair.b == b) || (pair.a == b && pair.b == a);
            both && pair.verdict == "no difference"
        })
    }
}

/// Compares all pairs of cells of each gas level.
pub fn compare(summaries: &[Summary]) -> Comparisons {
    let noise_floor = noise(summaries);
    let (mut decided, mut undecided) = (Vec::new(), Vec::new());
    for (index, a) in summaries.iter().enumerate() {
        for b in summaries[index + 1..]
            .iter()
            .filter(|b| b.cell.gas == a.cell.gas)
        {
            let Some(ratio) = ratio(a, b) else { continue };
            let (a_id, b_id) = (a.cell.id.clone(), b.cell.id.clone());
            match judge(a, b, ratio, noise_floor.relative) {
                Some(verdict) => {
                    decided.push(Comparison {
                        a: a_id,
                        b: b_id,
                        ratio,
                        verdict,
                    });
                }
                None => undecided.push(Undecided {
                    a: a_id,
                    b: b_id,
                    ratio,
                }),
            }
        }
    }
    Comparisons {
        decided,
        undecided,
        noise_floor,
    }
}

fn judge(a: &Summary, b: &Summary, ratio: Estimate, noise: Option<f64>) -> Option<&'static str> {
    if a.knob.acted == Some(false) && b.knob.acted == Some(false) {
        return Some("inert");
    }
    verdict(ratio, noise).map(|verdict| match verdict {
        Verdict::Faster => "faster",
        Verdict::Slower => "slower",
        Verdict::NoDifference => "no difference",
    })
}

fn ratio(a: &Summary, b: &Summary) -> Option<Estimate> {
    let shared = |summary: &Summary, other: &Summary| -> Vec<Throughput> {
        let in_other = |round: &u64| other.rounds.iter().any(|(other, _)| other == round);
        let rounds = summary.rounds.iter().filter(|(round, _)| in_other(round));
        rounds.map(|(_, throughput)| *throughput).collect()
    };
    ratio_of_rounds(&shared(a, b), &shared(b, a))
}

fn noise(summaries: &[Summary]) -> NoiseFloor {
    let cells: Vec<Vec<Throughput>> = summaries
        .iter()
        .map(|summary| {
            summary
                .rounds
                .iter()
                .map(|(_, throughput)| *throughput)
                .collect()
        })
        .collect();
    let relative = noise_floor(cells.iter().map(Vec::as_slice));
    let repeated = cells.iter().filter(|rounds| rounds.len() > 1).count();
    let source = match relative {
        Some(_) => format!("spread between rounds of the same cell, pooled over {repeated} cells"),
        None => "unknown: no cell was measured twice; repeat with --rounds 3 or more".to_owned(),
    };
    NoiseFloor { relative, source }
}
