//! Sweeps that decide after every round whether to go on: neither more false verdicts nor fewer found.

use crate::level::{Level, SWEEPS, Visits, names_a_difference, noise, rules, throughput};
use bench_stats::{Layout, compare_all, rounds};

/// What an adaptive sweep of one level ended with.
struct Ended {
    layout: Layout,
    rounds: u64,
    /// Visits of all rounds, A/A controls included.
    visits: usize,
}

impl Ended {
    /// Cells that are not shown to be worse than another.
    fn best(&self) -> Vec<usize> {
        let compared = self.layout.cells() - 1;
        let noise = noise(std::slice::from_ref(&self.layout));
        compare_all(&self.layout, compared, &rules(noise, rounds::FINAL_ERROR)).best()
    }
}

/// Goes on until the rounds that are left are not worth making.
fn adaptive(level: &mut Level, resolve: f64, most: u64) -> Ended {
    let (cells, compared) = (level.slowness.len(), level.compared());
    let mut visits: Visits = vec![Vec::new(); cells];
    let mut active: Vec<usize> = (0..compared).collect();
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
        let state = rounds::Level {
            layout,
            compared,
            active,
            controlled: vec![0],
            round_s: 1.0,
            most,
        };
        active = state.outlook(round, resolve, &rules).active;
        if active.is_empty() {
            return Ended {
                layout: state.layout,
                rounds: round,
                visits: visits.iter().map(Vec::len).sum(),
            };
        }
    }
}

#[test]
fn stopping_early_keeps_the_rate_of_false_verdicts() {
    for (cells, resolve) in [(2, 0.01), (4, 0.01), (4, 0.02), (8, 0.015)] {
        let mut rounds_made = 0;
        let named = (0..SWEEPS).filter(|sweep| {
            let mut level = Level::new(20_000 + sweep, &vec![1.0; cells]);
            let ended = adaptive(&mut level, resolve, rounds::MOST_ROUNDS);
            rounds_made += ended.rounds;
            names_a_difference(&[ended.layout], rounds::FINAL_ERROR)
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
        let ended = adaptive(&mut level, 0.01, rounds::MOST_ROUNDS);
        found += usize::from(ended.best() == [1]);
    }
    println!("the one fastest of four cells is the best set in {found} of {SWEEPS}");
    assert!(found >= 160, "{found}");
}

/// What befalls a machine.
type Trouble = (&'static str, fn(&mut Level));

const TROUBLES: [Trouble; 5] = [
    ("quiet", |_| {}),
    ("visits vary by 8 %", |level| level.noise = 8.0),
    ("1 in 5 visits 10 to 30 % slower", |level| {
        (level.disturbed, level.disturbance) = (0.2, (0.1, 0.3));
    }),
    ("heavy tails", |level| level.heavy_tails = true),
    ("each visit 1 % slower than the one before", |level| {
        level.drift = 0.01;
    }),
];

/// How many of 200 sweeps of equal cells name a difference, and how many rounds they make.
fn named(cells: usize, levels: u64, most: u64, set: fn(&mut Level)) -> (usize, f64) {
    let (mut visits, mut named) = (0, 0);
    for sweep in 0..SWEEPS {
        let of_level = |level: u64| {
            let mut level = Level::new(400_000 + sweep * 911 + level * 37, &vec![1.0; cells]);
            set(&mut level);
            adaptive(&mut level, 0.01, most)
        };
        let ended: Vec<Ended> = (0..levels).map(of_level).collect();
        visits += ended.iter().map(|level| level.visits).sum::<usize>();
        let layouts: Vec<Layout> = ended.into_iter().map(|level| level.layout).collect();
        named += usize::from(names_a_difference(&layouts, rounds::FINAL_ERROR));
    }
    let of_a_round = SWEEPS as usize * levels as usize * (cells + 1);
    (named, visits as f64 / of_a_round as f64)
}

#[test]
fn stopping_where_nothing_can_be_decided_keeps_the_rate_of_false_verdicts() {
    for (name, set) in TROUBLES {
        for (cells, levels, most) in [(2, 1, 4), (4, 2, 4), (4, 1, 12)] {
            let (named, rounds) = named(cells, levels, most, set);
            println!(
                "{name}, {cells} cells, {levels} levels, {most} rounds at most: {named} of {SWEEPS} name \
                 a difference, {rounds:.1} rounds on average"
            );
            assert!(named <= 10, "{name}, {cells} cells: {named}");
        }
    }
}

#[test]
fn a_cell_far_behind_is_found_with_fewer_visits_than_four_rounds_take() {
    for noise in [1.0, 4.0, 8.0] {
        let (mut out, mut visits) = (0, 0);
        for sweep in 0..SWEEPS {
            // As with chunks of 5, 15, 60 and 240: the first takes 41 % longer, the rest are a hair apart.
            let mut level = Level::new(50_000 + sweep, &[1.41, 1.02, 1.0, 1.01]);
            level.noise = noise;
            let ended = adaptive(&mut level, 0.01, 4);
            out += usize::from(!ended.best().contains(&0));
            visits += ended.visits;
        }
        let mean = visits as f64 / SWEEPS as f64;
        println!(
            "visits vary by {noise} %: the slow cell is out in {out} of {SWEEPS}, {mean:.1} visits of the 20 \
             of four rounds"
        );
        assert!(out >= 170 && mean < 16.0, "{noise}: {out} {mean}");
    }
}
