//! Sweeps whose truth is known: how often a difference is named that is not there, and how often
//! one is found that is.
//!
//! A simulated pass replays blocks of unequal cost. Its noise is that of small machines: a restart
//! moves all blocks of a visit by 0.75 %, a round moves all its visits by 2 %, and block times carry
//! correlated noise of 3 % with a coefficient of 0.4 between neighbours: 1 % a visit, all in all. A machine
//! can be worse than that in two ways: it wanders from visit to visit, and some visits are disturbed.
//!
//! Invariant: seeded, so a failure is the same on every machine.

use bench_stats::{
    Layout, Rules, SplitMix, Throughput, Verdict, bootstrap, compare_all, noise_of_duplicates,
    rounds,
};

const SWEEPS: u64 = 200;
const BLOCKS: usize = 50;
const RESTART: f64 = 0.0075;
const DRIFT: f64 = 0.02;
const BLOCK: f64 = 0.03;
const CORRELATION: f64 = 0.4;
/// How much slower a disturbed visit is.
const DISTURBED: f64 = 0.05;

/// One gas level of a simulated sweep. The last cell duplicates the first.
struct Level {
    /// Relative slowness of each cell, 1.03 being 3 % slower.
    slowness: Vec<f64>,
    /// Noise of restarts and blocks, relative to the usual one.
    noise: f64,
    /// Noise of each cell's restarts, relative to that.
    restless: Vec<f64>,
    costs: Vec<f64>,
    /// How far the machine wanders from one visit to the next, relative, and how far it has come.
    wander: f64,
    wandered: f64,
    /// Part of the visits that are disturbed.
    disturbed: f64,
    random: SplitMix,
}

impl Level {
    fn new(seed: u64, slowness: &[f64]) -> Self {
        let mut random = SplitMix::new(seed);
        let costs = (0..BLOCKS).map(|_| (0.2 * random.normal()).exp()).collect();
        let mut slowness = slowness.to_vec();
        slowness.push(slowness[0]);
        Self {
            noise: 1.0,
            restless: vec![1.0; slowness.len()],
            slowness,
            costs,
            wander: 0.0,
            wandered: 0.0,
            disturbed: 0.0,
            random,
        }
    }

    fn compared(&self) -> usize {
        self.slowness.len() - 1
    }

    /// One round: gas and nanoseconds of every block of every cell, visited in random order.
    fn round(&mut self) -> Vec<Vec<(u64, u64)>> {
        let drift = DRIFT * self.random.normal();
        let mut visits = vec![Vec::new(); self.slowness.len()];
        let mut order: Vec<usize> = (0..visits.len()).collect();
        self.random.shuffle(&mut order);
        for cell in order {
            self.wandered += self.wander * self.random.normal();
            let slow = self.random.unit() < self.disturbed;
            let machine = drift + self.wandered + if slow { DISTURBED } else { 0.0 };
            visits[cell] = self.visit(cell, machine);
        }
        visits
    }

    /// One visit while everything is slower by this part.
    fn visit(&mut self, cell: usize, machine: f64) -> Vec<(u64, u64)> {
        let slowness = self.slowness[cell];
        let visit = machine + self.noise * self.restless[cell] * RESTART * self.random.normal();
        let step = self.noise * BLOCK * (1.0 - CORRELATION * CORRELATION).sqrt();
        let mut noise = 0.0;
        let random = &mut self.random;
        let block = |cost: &f64| {
            noise = CORRELATION * noise + step * random.normal();
            let time = 10e6 * cost * slowness * (visit + noise).exp();
            (10_000_000, time as u64)
        };
        self.costs.iter().map(block).collect()
    }
}

fn throughput(blocks: &[(u64, u64)]) -> Throughput {
    blocks
        .iter()
        .map(|(gas, time)| Throughput::new(*gas, *time))
        .sum()
}

/// Visits of a level by cell.
type Visits = Vec<Vec<(u64, Throughput)>>;

fn visit(level: &mut Level, rounds: u64) -> Visits {
    let mut visits = vec![Vec::new(); level.slowness.len()];
    for round in 1..=rounds {
        for (cell, blocks) in visits.iter_mut().zip(level.round()) {
            cell.push((round, throughput(&blocks)));
        }
    }
    visits
}

fn noise(levels: &[Layout]) -> Option<f64> {
    let pairs: Vec<Vec<f64>> = levels
        .iter()
        .map(|level| level.differences(0, level.cells() - 1))
        .collect();
    noise_of_duplicates(&pairs)
}

fn rules(noise: Option<f64>, error: f64) -> Rules {
    Rules {
        error,
        noise,
        relevant: 0.01,
    }
}

/// Whether a sweep of the levels names any difference.
fn names_a_difference(levels: &[Layout], error: f64) -> bool {
    let noise = noise(levels);
    levels.iter().any(|level| {
        let compared = compare_all(level, level.cells() - 1, &rules(noise, error));
        let verdicts = compared.pairs.iter().map(|pair| pair.verdict);
        verdicts
            .flatten()
            .any(|verdict| verdict != Verdict::NoDifference)
    })
}

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
            found += u32::from(pair.verdict == Some(Verdict::Faster));
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
        found += usize::from(compared.pairs[0].verdict == Some(Verdict::Faster));
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

/// An adaptive sweep of one level: rounds made, and whether a difference is named.
fn adaptive(level: &mut Level, resolve: f64) -> (Layout, u64) {
    let cells = level.slowness.len();
    let mut visits: Visits = vec![Vec::new(); cells];
    let mut active: Vec<usize> = (0..level.compared()).collect();
    let mut round = 0;
    loop {
        round += 1;
        for (cell, blocks) in level.round().into_iter().enumerate() {
            let original = if cell + 1 == cells { 0 } else { cell };
            if active.contains(&original) {
                visits[cell].push((round, throughput(&blocks)));
            }
        }
        let layout = Layout::new(visits.clone());
        if round < rounds::PILOT_ROUNDS {
            continue;
        }
        let rules = rules(noise(std::slice::from_ref(&layout)), rounds::LOOK_ERROR);
        let compared = level.compared();
        let state = rounds::Level {
            layout,
            compared,
            active: active.clone(),
            round_s: 1.0,
        };
        let outlook = state.outlook(round, resolve, &rules);
        active = outlook.active;
        if outlook.wanted <= round {
            return (state.layout, round);
        }
    }
}

#[test]
fn stopping_early_keeps_the_rate_of_false_verdicts() {
    for (cells, resolve) in [(2, 0.01), (4, 0.01), (4, 0.02), (8, 0.015)] {
        let mut rounds_made = 0;
        let named = (0..SWEEPS).filter(|sweep| {
            let mut level = Level::new(20_000 + sweep, &vec![1.0; cells]);
            let (layout, rounds) = adaptive(&mut level, resolve);
            rounds_made += rounds;
            names_a_difference(&[layout], rounds::FINAL_ERROR)
        });
        let named = named.count();
        println!(
            "{cells} cells to {resolve}: {named} of {SWEEPS} name a difference, {:.1} rounds on average",
            rounds_made as f64 / SWEEPS as f64
        );
        assert!(named <= 10, "{cells} cells, {resolve}: {named}");
    }
}

#[test]
fn stopping_early_finds_what_it_was_asked_to_resolve() {
    let mut found = 0;
    for sweep in 0..SWEEPS {
        let mut level = Level::new(30_000 + sweep, &[1.03, 1.0, 1.03, 1.03]);
        let (layout, _) = adaptive(&mut level, 0.01);
        let noise = noise(std::slice::from_ref(&layout));
        let compared = compare_all(&layout, 4, &rules(noise, rounds::FINAL_ERROR));
        found += usize::from(compared.best(4) == [1]);
    }
    println!("the one fastest of four cells is the best set in {found} of {SWEEPS}");
    assert!(found >= 160, "{found}");
}
