//! Sweeps whose truth is known: how often a difference is named that is not there, and how often
//! one is found that is.
//!
//! Invariant: seeded, so a failure is the same on every machine.

mod adaptive;
mod few_rounds;
mod level;

use bench_stats::{Layout, Verdict, bootstrap, compare_all};
use level::{Level, SWEEPS, names_a_difference, noise, rules, visit};

/// How many of 200 sweeps of equal cells name a difference.
fn false_sweeps(cells: usize, levels: u64, rounds: u64, restless: f64) -> usize {
    let named = (0..SWEEPS).filter(|sweep| {
        let of_level = |level: u64| {
            let mut level = Level::new(sweep * 101 + level, &vec![1.0; cells]);
            level.restless[cells - 1] = restless;
            Layout::new(visit(&mut level, rounds))
        };
        let levels: Vec<Layout> = (0..levels).map(of_level).collect();
        names_a_difference(&levels, 0.05)
    });
    named.count()
}

#[test]
fn equal_cells_are_told_apart_in_at_most_5_percent_of_sweeps() {
    for (cells, levels, rounds) in [(2, 1, 6), (4, 2, 3), (8, 4, 6), (5, 4, 10), (3, 1, 2)] {
        let named = false_sweeps(cells, levels, rounds, 1.0);
        println!(
            "{cells} cells, {levels} levels, {rounds} rounds: {named} of {SWEEPS} name a difference"
        );
        assert!(
            named <= 10,
            "{cells} cells, {levels} levels, {rounds} rounds: {named}"
        );
    }
}

#[test]
fn a_machine_that_wanders_or_is_disturbed_names_no_differences() {
    for (wander, disturbed) in [
        (0.003, 0.0),
        (0.01, 0.0),
        (0.0, 0.05),
        (0.0, 0.2),
        (0.003, 0.05),
    ] {
        for cells in [2, 4, 8] {
            let named = (0..SWEEPS).filter(|sweep| {
                let mut level = Level::new(sweep * 101 + 50_000, &vec![1.0; cells]);
                (level.wander, level.disturbed) = (wander, disturbed);
                names_a_difference(&[Layout::new(visit(&mut level, 6))], 0.05)
            });
            let named = named.count();
            println!(
                "{cells} cells, wandering {wander} a visit, {disturbed} of visits disturbed: {named} of \
                 {SWEEPS} name a difference"
            );
            assert!(named <= 10, "{cells} cells, {wander}, {disturbed}: {named}");
        }
    }
}

#[test]
fn a_restless_cell_is_not_taken_for_a_different_one() {
    for (cells, rounds) in [(4, 6), (8, 6), (4, 12)] {
        let named = false_sweeps(cells, 1, rounds, 3.0);
        println!(
            "{cells} cells, one thrice as restless, {rounds} rounds: {named} of {SWEEPS} name a difference"
        );
        assert!(named <= 10, "{cells} cells, {rounds} rounds: {named}");
    }
}

#[test]
fn a_slowdown_of_3_percent_is_found_in_six_rounds() {
    for slowness in [vec![1.0, 1.03], vec![1.0, 1.0, 1.0, 1.03]] {
        let slow = slowness.len() - 1;
        let (mut found, mut covered, mut together) = (0, 0, 0);
        for sweep in 0..10 * SWEEPS {
            let mut level = Level::new(7_000 + sweep, &slowness);
            let layout = Layout::new(visit(&mut level, 6));
            let noise = noise(std::slice::from_ref(&layout));
            let compared = compare_all(&layout, level.compared(), &rules(noise, 0.05));
            let pair = compared
                .pairs
                .iter()
                .find(|pair| (pair.a, pair.b) == (0, slow))
                .unwrap();
            found += u32::from(pair.verdict() == Some(Verdict::Faster));
            let (low, high) = pair.ratio.interval.unwrap();
            covered += u32::from(low <= 1.03 && 1.03 <= high);
            let all = compared.pairs.iter().all(|pair| {
                let truth = level.slowness[pair.b] / level.slowness[pair.a];
                let (low, high) = pair.ratio.interval.unwrap();
                low <= truth && truth <= high
            });
            together += u32::from(all);
        }
        println!(
            "{} cells: found in {found} of {}, its interval covers 3 % in {covered}, all intervals \
             cover theirs in {together}",
            slowness.len(),
            10 * SWEEPS
        );
        assert!(found >= 1600, "{found}");
        // 95 % of 2,000 is 1,900, with a standard error of 10.
        assert!(covered >= 1880, "{covered}");
        assert!(together >= 1880, "{together}");
    }
}

/// How many of 400 sweeps find that one of two cells is 3 % slower, and how many intervals cover it.
fn power(noise_scale: f64, rounds: u64) -> (usize, usize) {
    let (mut found, mut covered) = (0, 0);
    for sweep in 0..2 * SWEEPS {
        let mut level = Level::new(40_000 + sweep, &[1.0, 1.03]);
        level.noise = noise_scale;
        let layout = Layout::new(visit(&mut level, rounds));
        let noise = noise(std::slice::from_ref(&layout));
        let compared = compare_all(&layout, level.compared(), &rules(noise, 0.05));
        found += usize::from(compared.pairs[0].verdict() == Some(Verdict::Faster));
        let interval = compared.pairs[0].ratio.interval;
        covered += usize::from(interval.is_some_and(|(low, high)| low <= 1.03 && 1.03 <= high));
    }
    (found, covered)
}

#[test]
fn a_noisier_machine_takes_more_rounds_and_is_no_more_often_wrong() {
    let rounds = [3, 6, 12, 24];
    let mut quieter = [usize::MAX; 4];
    for noise in [0.5, 1.0, 2.0, 4.0] {
        let found = rounds.map(|rounds| {
            let (found, covered) = power(noise, rounds);
            // 95 % of 400 is 380, with a standard error of 4.4.
            assert!(covered >= 367, "noise {noise}, {rounds} rounds: {covered}");
            found
        });
        let percent = found.map(|found| found as f64 / 4.0);
        println!(
            "visits that vary by {noise} %: 3 % slower is found in {percent:?} % of sweeps of {rounds:?} rounds"
        );
        let sorted = found.is_sorted_by(|fewer, more| *fewer <= more + 12);
        let harder = found
            .iter()
            .zip(quieter)
            .all(|(found, quiet)| *found <= quiet);
        assert!(sorted && harder, "{noise}: {found:?} after {quieter:?}");
        quieter = found.map(|found| found + 12);
    }
}

#[test]
fn the_bootstrap_covers_less_with_few_rounds_and_well_with_many() {
    let coverage = |rounds: u64| {
        let covered = (0..SWEEPS).filter(|sweep| {
            let mut level = Level::new(9_000 + sweep, &[1.0, 1.03]);
            let (mut a, mut b) = (Vec::new(), Vec::new());
            for _ in 0..rounds {
                let round = level.round();
                a.push(bootstrap::Pass::new(round[0].clone()));
                b.push(bootstrap::Pass::new(round[1].clone()));
            }
            let how = bootstrap::Resampling {
                replicates: 400,
                error: 0.05,
                seed: *sweep,
            };
            let (a, b): (Vec<_>, Vec<_>) = (a.iter().collect(), b.iter().collect());
            let (low, high) = bootstrap::two_stage(&a, &b, &how).unwrap();
            low <= 1.03 && 1.03 <= high
        });
        covered.count()
    };
    let (few, many) = (coverage(4), coverage(16));
    println!("bootstrap at 95 %: covers in {few} of {SWEEPS} with 4 rounds, in {many} with 16");
    assert!(many >= 180 && few <= many + 4, "{few} {many}");
}
