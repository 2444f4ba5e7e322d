//! Simulated sweeps: machines with their troubles, and the ways in which a sweep may end.
//!
//! Adaptive sweeps decide as real ones do: after every round from the pilot on, each level by itself,
//! against a noise floor that all levels make together.

use crate::level::{Level, Visits, throughput};
use bench_stats::{
    Comparisons, Layout, NoiseFloor, Rules, Verdict, compare_all,
    rounds::{self, FINAL_ERROR, LOOK_ERROR, PILOT_ROUNDS},
    verdict::ERROR,
};

/// What is relevant, and how narrow the intervals of adaptive sweeps are to be, unless told otherwise.
pub(crate) const ONE_PERCENT: f64 = 0.01;

/// What is the matter with a simulated machine.
pub(crate) struct Machine {
    pub(crate) name: &'static str,
    pub(crate) set: fn(&mut Level),
}

pub(crate) const MACHINES: [Machine; 9] = [
    Machine {
        name: "nothing the matter",
        set: |_| {},
    },
    Machine {
        name: "visits vary by 8 %",
        set: |level| level.noise = 8.0,
    },
    Machine {
        name: "one cell varies three times as much",
        set: |level| {
            let last = level.compared() - 1;
            level.restless[last] = 3.0;
        },
    },
    Machine {
        name: "wanders by 1 % from visit to visit",
        set: |level| level.wander = 0.01,
    },
    Machine {
        name: "each visit 1 % slower than the one before",
        set: |level| level.drift = 0.01,
    },
    Machine {
        name: "1 in 5 visits 5 % slower",
        set: |level| level.disturbed = 0.2,
    },
    Machine {
        name: "1 in 5 visits 10 to 30 % slower",
        set: |level| (level.disturbed, level.disturbance) = (0.2, (0.1, 0.3)),
    },
    Machine {
        name: "1 in 20 visits 10 to 30 % slower",
        set: |level| (level.disturbed, level.disturbance) = (0.05, (0.1, 0.3)),
    },
    Machine {
        name: "heavy tails (t, 3 degrees of freedom)",
        set: |level| level.heavy_tails = true,
    },
];

/// When a sweep ends.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ending {
    /// After so many whole rounds and this part of the next.
    Fixed(u64, f64),
    /// When nothing is left to decide, within so many rounds.
    Adaptive { precision: f64, most: u64 },
}

/// What is simulated.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Design<'a> {
    /// Relative slowness of the cells of each level, 1.03 being 3 % slower.
    pub(crate) slowness: &'a [f64],
    pub(crate) levels: u64,
    pub(crate) ending: Ending,
}

/// A sweep that has ended: its levels, the A/A control last in each.
pub(crate) struct Ended {
    pub(crate) layouts: Vec<Layout>,
    /// Chance of error of its comparisons.
    error: f64,
    /// Visits of all levels, A/A controls included.
    pub(crate) visits: usize,
}

impl Design<'_> {
    /// Makes one sweep.
    pub(crate) fn run(&self, machine: &Machine, seed: u64) -> Ended {
        let level = |number: u64| {
            let mut level = Level::new(seed * 1_009 + number * 31, self.slowness);
            (machine.set)(&mut level);
            Running::new(level)
        };
        self.ended((0..self.levels).map(level).collect())
    }

    fn ended(&self, levels: Vec<Running>) -> Ended {
        let (levels, error) = match self.ending {
            Ending::Fixed(whole, part) => (fixed(levels, whole, part), ERROR),
            Ending::Adaptive { precision, most } => {
                (adaptive(levels, precision, most), FINAL_ERROR)
            }
        };
        Ended {
            visits: levels.iter().map(Running::visits).sum(),
            layouts: levels.into_iter().map(|level| level.layout()).collect(),
            error,
        }
    }
}

/// A level that is being visited.
struct Running {
    level: Level,
    visits: Visits,
    /// Cells that the next round visits, the control with its original.
    active: Vec<usize>,
}

impl Running {
    fn new(level: Level) -> Self {
        Self {
            visits: vec![Vec::new(); level.slowness.len()],
            active: (0..level.compared()).collect(),
            level,
        }
    }

    fn layout(&self) -> Layout {
        Layout::new(self.visits.clone())
    }

    fn visits(&self) -> usize {
        self.visits.iter().map(Vec::len).sum()
    }

    /// So many visits of a round of the active cells.
    fn round(&mut self, round: u64, visits: usize) {
        let mut cells = self.active.clone();
        if cells.contains(&0) {
            cells.push(self.level.compared());
        }
        for (cell, blocks) in self.level.round_of(&cells, visits) {
            self.visits[cell].push((round, throughput(&blocks)));
        }
    }
}

fn fixed(mut levels: Vec<Running>, whole: u64, part: f64) -> Vec<Running> {
    for level in &mut levels {
        for round in 1..=whole {
            level.round(round, usize::MAX);
        }
        let more = (part * level.level.slowness.len() as f64).round() as usize;
        level.round(whole + 1, more);
    }
    levels
}

fn adaptive(mut levels: Vec<Running>, precision: f64, most: u64) -> Vec<Running> {
    for round in 1.. {
        for level in &mut levels {
            level.round(round, usize::MAX);
        }
        if round < PILOT_ROUNDS {
            continue;
        }
        let layouts: Vec<Layout> = levels.iter().map(Running::layout).collect();
        let rules = rules(&layouts, LOOK_ERROR);
        for (level, layout) in levels.iter_mut().zip(layouts) {
            if level.active.is_empty() {
                continue;
            }
            let state = rounds::Level {
                layout,
                compared: level.level.compared(),
                active: level.active.clone(),
                controlled: vec![0],
                round_s: 1.0,
                most,
            };
            level.active = state.outlook(round, precision, &rules).active;
        }
        if levels.iter().all(|level| level.active.is_empty()) {
            break;
        }
    }
    levels
}

/// Whether so many rounds find that one of two cells is 3 % slower, where visits vary by `noise` percent.
pub(crate) fn finds(noise: f64, rounds: u64, seed: u64) -> bool {
    let design = Design {
        slowness: &[1.0, 1.03],
        levels: 1,
        ending: Ending::Fixed(rounds, 0.0),
    };
    let mut level = Level::new(seed, design.slowness);
    level.noise = noise;
    let found = design.ended(vec![Running::new(level)]).compared();
    found[0].pairs[0].verdict() == Some(Verdict::Faster)
}

/// The rules of a sweep with these levels.
pub(crate) fn rules(layouts: &[Layout], error: f64) -> Rules {
    let controls: Vec<_> = layouts
        .iter()
        .map(|layout| [(layout.cells() - 1, 0)])
        .collect();
    let levels = layouts.iter().zip(&controls);
    Rules {
        error,
        noise: NoiseFloor::of(levels.map(|(layout, of)| (layout, &of[..]))).relative(),
        relevant: ONE_PERCENT,
    }
}

impl Ended {
    /// The comparisons of each level.
    pub(crate) fn compared(&self) -> Vec<Comparisons> {
        let rules = rules(&self.layouts, self.error);
        let layouts = self.layouts.iter();
        layouts
            .map(|layout| compare_all(layout, layout.cells() - 1, &rules))
            .collect()
    }

    /// Whether any difference is named.
    pub(crate) fn names_a_difference(&self) -> bool {
        let compared = self.compared();
        let mut verdicts = compared
            .iter()
            .flat_map(|level| level.pairs.iter().filter_map(|pair| pair.verdict()));
        verdicts.any(|verdict| verdict != Verdict::NotSeparable)
    }

    /// Whether every interval of the first level holds what is true of its pair.
    pub(crate) fn covers(&self, slowness: &[f64]) -> bool {
        self.compared()[0].pairs.iter().all(|pair| {
            let truth = slowness[pair.b] / slowness[pair.a];
            let interval = pair.ratio.interval;
            interval.is_none_or(|(low, high)| low <= truth && truth <= high)
        })
    }
}
