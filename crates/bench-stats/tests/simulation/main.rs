//! Sweeps whose truth is known: how often a difference is named that is not there, how often one is found
//! that is, and how often intervals hold the truth.
//!
//! The quick version of `cargo xtask trial same`, with fewer sweeps of fewer kinds. Invariant: seeded, so a
//! failure is the same on every machine.

mod level;
mod share;
mod sweep;

use bench_stats::{bootstrap, rounds::MOST_ROUNDS};
use level::Level;
use share::Share;
use sweep::{Design, Ending, MACHINES, Machine, ONE_PERCENT, finds};

/// Sweeps of each kind: of so many, 11 that are wrong still show that fewer than 5 % are.
const SWEEPS: u64 = 400;
const QUIET: &Machine = &MACHINES[0];

const fn adaptive(most: u64) -> Ending {
    Ending::Adaptive {
        precision: ONE_PERCENT,
        most,
    }
}

#[test]
fn limits_are_those_of_clopper_and_pearson() {
    for (count, of, low, high) in [
        (0, 10, 0.0, 30.85),
        (5, 100, 1.64, 11.28),
        (10, 10, 69.15, 100.0),
    ] {
        let found = Share { count, of }.limits();
        let close = (found.0 - low).abs() < 0.01 && (found.1 - high).abs() < 0.01;
        assert!(close, "{count} of {of}: {found:?}");
    }
}

#[test]
fn equal_cells_are_called_different_in_fewer_than_5_percent_of_sweeps() {
    for (slowness, levels, ending) in [
        (&[1.0; 2][..], 1, Ending::Fixed(3, 0.0)),
        (&[1.0; 4], 2, Ending::Fixed(2, 0.5)),
        (&[1.0; 4], 2, adaptive(4)),
    ] {
        let design = Design {
            slowness,
            levels,
            ending,
        };
        for machine in &MACHINES {
            let named = Share::of(SWEEPS, |sweep| {
                design.run(machine, sweep).names_a_difference()
            });
            let (_, high) = named.limits();
            println!(
                "{}, {design:?}: {named:?}, at most {high:.1} %",
                machine.name
            );
            assert!(high < 5.0, "{}, {design:?}: {named:?}", machine.name);
        }
    }
}

#[test]
fn all_intervals_of_a_level_hold_the_truth_where_cells_vary_alike() {
    for (slowness, ending) in [
        (&[1.0, 1.0, 1.0, 1.03][..], Ending::Fixed(6, 0.0)),
        (&[1.0, 1.03, 1.05, 1.1], adaptive(4)),
        (&[1.41, 1.02, 1.0, 1.01], adaptive(MOST_ROUNDS)),
    ] {
        let design = Design {
            slowness,
            levels: 1,
            ending,
        };
        for machine in MACHINES.iter().take(2) {
            let covered = Share::of(SWEEPS, |sweep| {
                design.run(machine, 10_000 + sweep).covers(slowness)
            });
            let (low, high) = covered.limits();
            println!("{}, {design:?}: {low:.1} to {high:.1} %", machine.name);
            assert!(high >= 95.0, "{}, {design:?}: {covered:?}", machine.name);
        }
    }
}

#[test]
fn a_noisier_machine_takes_more_rounds() {
    let rounds = [3, 6, 12, 24];
    let mut quieter = [100.0; 4];
    for (noise, least) in [(0.5, 95.0), (1.0, 85.0), (2.0, 20.0), (4.0, 0.0)] {
        let found = rounds.map(|rounds| {
            Share::of(SWEEPS, |sweep| finds(noise, rounds, 20_000 + sweep)).percent()
        });
        println!("visits vary by {noise} %: 3 % are found in {found:?} % after {rounds:?} rounds");
        let sorted = found.is_sorted_by(|fewer, more| *fewer <= more + 3.0);
        let harder = found
            .iter()
            .zip(quieter)
            .all(|(found, quiet)| *found <= quiet + 3.0);
        assert!(sorted && harder && found[1] >= least, "{noise}: {found:?}");
        quieter = found;
    }
}

#[test]
fn the_one_fastest_cell_is_named_alone() {
    let design = Design {
        slowness: &[1.03, 1.0, 1.03, 1.03],
        levels: 1,
        ending: adaptive(MOST_ROUNDS),
    };
    let found = Share::of(SWEEPS, |sweep| {
        design.run(QUIET, 30_000 + sweep).compared()[0].best() == [1]
    });
    println!("the one fastest of four cells is the best set in {found:?}");
    assert!(found.percent() >= 80.0, "{found:?}");
}

#[test]
fn a_cell_far_behind_is_found_with_fewer_visits_than_four_rounds_take() {
    // As with chunks of 5, 15, 60 and 240: the first takes 41 % longer, the rest are a hair apart.
    let design = Design {
        slowness: &[1.41, 1.02, 1.0, 1.01],
        levels: 1,
        ending: adaptive(4),
    };
    for (machine, least) in [(QUIET, 95.0), (&MACHINES[1], 75.0)] {
        let ended = |sweep| design.run(machine, 40_000 + sweep);
        let out = Share::of(SWEEPS, |sweep| {
            !ended(sweep).compared()[0].best().contains(&0)
        });
        let visits: usize = (0..SWEEPS).map(|sweep| ended(sweep).visits).sum();
        let mean = visits as f64 / SWEEPS as f64;
        println!(
            "{}: the slow cell is out in {:.1} %, {mean:.1} visits of the 20 of four rounds",
            machine.name,
            out.percent()
        );
        assert!(
            out.percent() >= least && mean < 16.0,
            "{}: {out:?} {mean}",
            machine.name
        );
    }
}

#[test]
fn the_bootstrap_covers_less_with_few_rounds_and_well_with_many() {
    let covers = |rounds: u64, sweep: u64| {
        let mut level = Level::new(50_000 + sweep, &[1.0, 1.03]);
        let (mut a, mut b) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            let round = level.round();
            a.push(bootstrap::Pass::new(round[0].clone()));
            b.push(bootstrap::Pass::new(round[1].clone()));
        }
        let how = bootstrap::Resampling {
            replicates: 400,
            error: 0.05,
            seed: sweep,
        };
        let (a, b): (Vec<_>, Vec<_>) = (a.iter().collect(), b.iter().collect());
        let (low, high) = bootstrap::two_stage(&a, &b, &how).unwrap();
        low <= 1.03 && 1.03 <= high
    };
    let [few, many] = [4, 16].map(|rounds| Share::of(SWEEPS, |sweep| covers(rounds, sweep)));
    println!("bootstrap at 95 %: covers in {few:?} with 4 rounds, in {many:?} with 16");
    assert!(many.percent() >= 90.0 && few.percent() <= many.percent() + 2.0);
}
