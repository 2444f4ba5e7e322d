//! What moved between two cells, in a sentence and as a table.
//!
//! Invariant: a sentence names differences of means and no cause; whether a difference is real is the
//! comparison's matter.

use super::{
    grid::{Grid, NOTHING},
    model::Report,
};
use crate::analyze::{Attribution, rounded};
use serde::{Deserialize, Serialize};

/// Changes of a phase below this part of a block's time are not worth a word.
const WORTH_A_WORD: f64 = 0.01;

/// Phases a sentence names at most.
const NAMED_PHASES: usize = 3;

/// Relative change of a count below which it is the same.
const SAME_COUNT: f64 = 0.05;

/// Relative difference between metrics and log above which a reader should know.
pub(super) const LOG_TOLERANCE: f64 = 0.05;

/// What moved between two cells of a level.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChangeReport {
    /// Id of the cell that is explained.
    pub a: String,
    /// Id of the cell it is held against.
    pub b: String,
    /// Mean time of a block of `a` less that of `b`, in milliseconds.
    pub total_ms: f64,
    /// The same by phase, the largest first.
    pub moved: Vec<MovedReport>,
    /// The largest of them in words.
    pub text: String,
}

/// What a phase of `a` takes longer than one of `b`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MovedReport {
    /// The phase.
    pub key: String,
    /// Milliseconds a block.
    pub ms: f64,
}

/// Every cell of a level against its reference.
pub(super) fn changes(report: &Report) -> Vec<ChangeReport> {
    let attributed = |id: &str| {
        let cell = report.cells.iter().find(|cell| cell.id == id)?;
        cell.attribution.as_ref()
    };
    let pairs = report.levels.iter().flat_map(|level| {
        let versus = level.versus.iter();
        versus.map(|versus| (versus.a.as_str(), versus.b.as_str()))
    });
    pairs
        .filter_map(|(a, b)| Some(change((a, attributed(a)?), (b, attributed(b)?))))
        .collect()
}

type Named<'a> = (&'a str, &'a Attribution);

fn change((a, of_a): Named<'_>, (b, of_b): Named<'_>) -> ChangeReport {
    let in_b = |key: &str| {
        let found = of_b.phases.iter().find(|phase| phase.key == key);
        found.map_or(0.0, |phase| phase.ms_per_block)
    };
    let mut moved: Vec<(&str, MovedReport)> = of_a
        .phases
        .iter()
        .map(|phase| {
            let ms = rounded(phase.ms_per_block - in_b(&phase.key));
            let key = phase.key.clone();
            (phase.label.as_str(), MovedReport { key, ms })
        })
        .collect();
    moved.sort_by(|(_, x), (_, y)| y.ms.abs().total_cmp(&x.ms.abs()));
    let whole = |of: &Attribution| {
        of.phases
            .iter()
            .map(|phase| phase.ms_per_block)
            .sum::<f64>()
    };
    let text = sentence(&moved, of_a, of_b, whole(of_b));
    ChangeReport {
        a: a.to_owned(),
        b: b.to_owned(),
        total_ms: rounded(whole(of_a) - whole(of_b)),
        moved: moved.into_iter().map(|(_, moved)| moved).collect(),
        text,
    }
}

fn sentence(
    moved: &[(&str, MovedReport)],
    a: &Attribution,
    b: &Attribution,
    whole_ms: f64,
) -> String {
    let named = moved
        .iter()
        .filter(|(_, moved)| moved.ms.abs() >= WORTH_A_WORD * whole_ms)
        .take(NAMED_PHASES)
        .map(|(label, moved)| format!("{:+.2} ms {label}", moved.ms));
    let mut parts: Vec<String> = named.collect();
    if parts.is_empty() {
        parts.push("no phase moved".to_owned());
    }
    parts.extend(count_change(a, b, "jobs"));
    parts.extend(count_change(a, b, "nodes_reread"));
    if let (Some(a), Some(b)) = (a.workers_idle, b.workers_idle) {
        parts.push(format!(
            "workers idle {:.0} % → {:.0} %",
            b * 100.0,
            a * 100.0
        ));
    }
    parts.join(", ")
}

fn count_change(a: &Attribution, b: &Attribution, key: &str) -> Option<String> {
    let count = |of: &Attribution| of.counts.iter().find(|count| count.key == key).cloned();
    let (a, b) = (count(a)?, count(b)?);
    let scale = a.per_block.max(b.per_block);
    if (a.per_block - b.per_block).abs() <= SAME_COUNT * scale {
        return None;
    }
    Some(format!(
        "{} per block {:.1} → {:.1}",
        a.label, b.per_block, a.per_block
    ))
}

/// Milliseconds a block: a row per cell, a column per phase.
pub(super) fn table(report: &Report) -> Grid {
    let told = || {
        let cells = report.cells.iter();
        cells.filter_map(|cell| Some((cell, cell.attribution.as_ref()?)))
    };
    let mut keys: Vec<&str> = Vec::new();
    for (_, attribution) in told() {
        for phase in &attribution.phases {
            if !keys.contains(&phase.key.as_str()) {
                keys.push(&phase.key);
            }
        }
    }
    if keys.is_empty() {
        return Grid {
            header: Vec::new(),
            rows: Vec::new(),
        };
    }
    // A column in which no cell has anything says nothing.
    let visible = |key: &&str| {
        told().any(|(_, of)| {
            let mut phases = of.phases.iter();
            phases.any(|phase| phase.key == **key && phase.ms_per_block.abs() >= 0.005)
        })
    };
    keys.retain(visible);
    let mut header = vec!["cell".to_owned()];
    header.extend(keys.iter().map(|key| key.replace('_', " ")));
    header.extend(["total", "workers idle", "source"].map(str::to_owned));
    let rows = told().map(|(cell, of)| {
        let ms = |key: &&str| {
            let found = of.phases.iter().find(|phase| phase.key == **key);
            found.map_or("-".to_owned(), |phase| format!("{:.2}", phase.ms_per_block))
        };
        let total: f64 = of.phases.iter().map(|phase| phase.ms_per_block).sum();
        let mut row = vec![cell.id.clone()];
        row.extend(keys.iter().map(ms));
        row.push(format!("{total:.2}"));
        row.push(idle_text(of));
        row.push(of.source.clone());
        row
    });
    Grid {
        header,
        rows: rows.collect(),
    }
}

/// What a terminal has room for: phases that belong together in one column.
const GROUPS: &[(&str, &[&str])] = &[
    ("transport", &["transport", "decode", "queue"]),
    (
        "execution",
        &[
            "pre_execution",
            "sender_wait",
            "transactions",
            "post_execution",
            "execution",
        ],
    ),
    ("root wait", &["root_wait"]),
    (
        "rest of newPayload",
        &["prepare", "bundle", "checks", "engine_rest"],
    ),
    ("fork choice", &["forkchoice", "forkchoice_rest"]),
];

/// The same in few columns; one that no cell has anything in is left out.
pub(super) fn short_table(report: &Report) -> Grid {
    let cells = report.cells.iter();
    let told = cells.filter_map(|cell| Some((cell.id.as_str(), cell.attribution.as_ref()?)));
    let told: Vec<(&str, &Attribution)> = told.collect();
    let sum = |of: &Attribution, keys: &[&str]| {
        let phases = of.phases.iter();
        let phases = phases.filter(|phase| keys.contains(&phase.key.as_str()));
        added(phases.map(|phase| phase.ms_per_block))
    };
    let visible = |keys: &[&str]| told.iter().any(|(_, of)| sum(of, keys).is_some());
    let groups = GROUPS.iter().filter(|(_, keys)| visible(keys));
    let groups: Vec<_> = groups.collect();
    let idle = told.iter().any(|(_, of)| of.workers_idle.is_some());
    let rows = told.iter().map(|(id, of)| {
        let ms = |ms: Option<f64>| ms.map_or(NOTHING.to_owned(), |ms| format!("{ms:.2}"));
        let mut row = vec![(*id).to_owned()];
        row.extend(groups.iter().map(|(_, keys)| ms(sum(of, keys))));
        row.push(ms(added(of.phases.iter().map(|phase| phase.ms_per_block))));
        row.extend(idle.then(|| idle_text(of)));
        row
    });
    let rows: Vec<_> = rows.collect();
    let mut header = vec!["ms a block".to_owned()];
    header.extend(groups.iter().map(|(name, _)| (*name).to_owned()));
    header.push("total".to_owned());
    header.extend(idle.then(|| "workers idle".to_owned()));
    Grid { header, rows }
}

/// The sum of what there is; of nothing there is none.
fn added(parts: impl Iterator<Item = f64>) -> Option<f64> {
    parts.reduce(|all, part| all + part)
}

fn idle_text(of: &Attribution) -> String {
    of.workers_idle
        .map_or("-".to_owned(), |idle| format!("{:.0} %", idle * 100.0))
}

/// A line for every change: `a` against `b`, and what moved.
pub(super) fn lines(report: &Report) -> Vec<String> {
    let line = |change: &ChangeReport| {
        let ChangeReport {
            a,
            b,
            total_ms,
            text,
            ..
        } = change;
        format!("{a} against {b}: {total_ms:+.2} ms a block: {text}")
    };
    report.attribution.iter().map(line).collect()
}

/// Cells whose metrics and log disagree.
pub(super) fn warnings(report: &Report) -> Vec<String> {
    let cells = report.cells.iter();
    let differing = cells.filter_map(|cell| {
        let difference = cell.attribution.as_ref()?.log_difference?;
        (difference > LOG_TOLERANCE).then(|| {
            format!(
                "{}: its metrics and its log differ by {:.0} %, so its attribution is in doubt",
                cell.id,
                difference * 100.0
            )
        })
    });
    differing.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyze::{Count, Phase};

    fn attribution(root_ms: f64, rest_ms: f64, jobs: f64, idle: f64) -> Attribution {
        let phase = |key: &str, label: &str, ms_per_block| Phase {
            key: key.into(),
            label: label.into(),
            ms_per_block,
        };
        Attribution {
            source: "metrics".into(),
            blocks: 10,
            phases: vec![
                phase("engine_rest", "in the rest", rest_ms),
                phase("root_wait", "waiting for the state root", root_ms),
            ],
            beside: vec![],
            counts: vec![Count {
                key: "jobs".into(),
                label: "jobs".into(),
                per_block: jobs,
            }],
            workers_idle: Some(idle),
            log_difference: None,
        }
    }

    #[test]
    fn the_phase_that_moved_is_named_first() {
        let fast = attribution(1.0, 10.0, 3.0, 0.7);
        let slow = attribution(5.1, 10.2, 24.0, 0.61);
        let found = change(("slow", &slow), ("fast", &fast));
        assert_eq!(
            found.text,
            "+4.10 ms waiting for the state root, +0.20 ms in the rest, jobs per block 3.0 → 24.0, \
             workers idle 70 % → 61 %"
        );
        assert_eq!(found.moved[0].key, "root_wait");
        assert!((found.total_ms - 4.3).abs() < 1e-9);
    }

    #[test]
    fn every_phase_has_its_column_in_a_terminal() {
        let grouped: Vec<_> = GROUPS.iter().flat_map(|(_, keys)| *keys).copied().collect();
        for key in &crate::analyze::PHASE_KEYS {
            assert!(grouped.contains(key), "{key}");
        }
        assert_eq!(grouped.len(), crate::analyze::PHASE_KEYS.len());
    }

    #[test]
    fn equal_cells_have_nothing_to_tell() {
        let cell = attribution(1.0, 10.0, 3.0, 0.7);
        let found = change(("a", &cell), ("b", &cell));
        assert_eq!(found.text, "no phase moved, workers idle 70 % → 70 %");
    }
}
