//! What two or three rounds can say, of which the last may be cut short, beside a machine that is
//! disturbed: nothing false.

use crate::level::{Level, SWEEPS, Visits, names_a_difference, throughput};
use bench_stats::Layout;

/// What is the matter with a simulated machine.
struct Trouble {
    name: &'static str,
    set: fn(&mut Level),
}

const TROUBLES: [Trouble; 5] = [
    Trouble {
        name: "1 in 5 visits 10 to 30 % slower",
        set: |level| (level.disturbed, level.disturbance) = (0.2, (0.1, 0.3)),
    },
    Trouble {
        name: "1 in 20 visits 10 to 30 % slower",
        set: |level| (level.disturbed, level.disturbance) = (0.05, (0.1, 0.3)),
    },
    Trouble {
        name: "heavy tails (t with 3 degrees of freedom)",
        set: |level| level.heavy_tails = true,
    },
    Trouble {
        name: "each visit 1 % slower than the one before",
        set: |level| level.drift = 0.01,
    },
    Trouble {
        name: "nothing",
        set: |_| {},
    },
];

/// Whole rounds, and the part of the next one that was made.
const CUTS: [(u64, f64); 5] = [(1, 0.5), (2, 0.0), (2, 0.5), (3, 0.0), (3, 0.5)];

/// A sweep of equal cells: whole rounds, then some visits of the next one.
fn sweep(seed: u64, cells: usize, rounds: u64, more: usize, trouble: &Trouble) -> Layout {
    let mut level = Level::new(seed, &vec![1.0; cells]);
    (trouble.set)(&mut level);
    let mut visits: Visits = vec![Vec::new(); cells + 1];
    for round in 1..=rounds + 1 {
        let visited = if round > rounds { more } else { cells + 1 };
        for (cell, blocks) in visits.iter_mut().zip(level.cut_round(visited)) {
            cell.extend((!blocks.is_empty()).then(|| (round, throughput(&blocks))));
        }
    }
    Layout::new(visits)
}

/// How many of 200 sweeps name a difference.
fn named(cells: usize, levels: u64, (rounds, part): (u64, f64), trouble: &Trouble) -> usize {
    let more = (part * (cells + 1) as f64).round() as usize;
    let named = (0..SWEEPS).filter(|number| {
        let of_level = |level: u64| {
            let seed = number * 977 + 31 * level + 300_000;
            sweep(seed, cells, rounds, more, trouble)
        };
        let levels: Vec<Layout> = (0..levels).map(of_level).collect();
        names_a_difference(&levels, bench_stats::rounds::FINAL_ERROR)
    });
    named.count()
}

#[test]
fn cut_sweeps_of_equal_cells_are_told_apart_in_at_most_5_percent() {
    for trouble in &TROUBLES {
        for (cells, levels) in [(2, 1), (3, 2), (4, 2)] {
            let found = CUTS.map(|cut| named(cells, levels, cut, trouble));
            println!(
                "{}, {cells} cells, {levels} levels, cut after 1.5, 2, 2.5, 3, 3.5 rounds: {found:?} of \
                 {SWEEPS} name a difference",
                trouble.name
            );
            let worst = found.iter().max();
            assert!(worst <= Some(&10), "{}: {found:?}", trouble.name);
        }
    }
}
