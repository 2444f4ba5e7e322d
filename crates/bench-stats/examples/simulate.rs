//! Simulates sweeps whose truth is known and prints what their verdicts and intervals are worth, as the
//! tables of `docs/record`. The first argument is the number of sweeps of each kind.
//!
//! `cargo xtask trial same` runs it before it makes real sweeps; a quick version is among the tests.

#[path = "../tests/simulation/level.rs"]
#[allow(dead_code, reason = "the tests use the rest")]
mod level;
#[path = "../tests/simulation/share.rs"]
mod share;
#[path = "../tests/simulation/sweep.rs"]
mod sweep;

use share::Share;
use std::process::ExitCode;
use sweep::{Design, Ending, MACHINES, Machine, ONE_PERCENT};

/// Sweeps of each kind unless told otherwise.
const SWEEPS: u64 = 2_000;

/// Default sweeps, and sweeps with a budget that affords any number of rounds.
const DEFAULT: Ending = Ending::Adaptive {
    precision: ONE_PERCENT,
    most: 4,
};
const LONG: Ending = Ending::Adaptive {
    precision: ONE_PERCENT,
    most: bench_stats::rounds::MOST_ROUNDS,
};
/// Sweeps that go on until intervals are as narrow as was asked.
const COARSE: Ending = Ending::Adaptive {
    precision: 2.0 * ONE_PERCENT,
    most: bench_stats::rounds::MOST_ROUNDS,
};
const SIX_ROUNDS: Ending = Ending::Fixed(6, 0.0);

/// A column of a table: its head and what is simulated.
type Column = (&'static str, Design<'static>);

const fn column(
    head: &'static str,
    slowness: &'static [f64],
    levels: u64,
    ending: Ending,
) -> Column {
    let design = Design {
        slowness,
        levels,
        ending,
    };
    (head, design)
}

/// Sweeps of equal cells.
const EQUAL: [Column; 6] = [
    column("2 cells, 3 rounds", &[1.0; 2], 1, Ending::Fixed(3, 0.0)),
    column(
        "4 cells, 2 levels, cut after 2.5",
        &[1.0; 4],
        2,
        Ending::Fixed(2, 0.5),
    ),
    column("8 cells, 6 rounds", &[1.0; 8], 1, SIX_ROUNDS),
    column("2 cells, adaptive, at most 4", &[1.0; 2], 1, DEFAULT),
    column(
        "4 cells, 2 levels, adaptive, at most 4",
        &[1.0; 4],
        2,
        DEFAULT,
    ),
    column("4 cells, adaptive, at most 20", &[1.0; 4], 1, LONG),
];

/// The same with more levels than an error for each level answers for.
const MANY_LEVELS: [Column; 2] = [
    column(
        "2 cells, 8 levels, 3 rounds",
        &[1.0; 2],
        8,
        Ending::Fixed(3, 0.0),
    ),
    column("8 cells, 4 levels, 6 rounds", &[1.0; 8], 4, SIX_ROUNDS),
];

/// Sweeps of which all intervals of a level are to hold the truth.
const UNEQUAL: [Column; 6] = [
    column("2 cells, 3 % apart, 6 rounds", &[1.0, 1.03], 1, SIX_ROUNDS),
    column(
        "2 cells, 3 % apart, adaptive, at most 20",
        &[1.0, 1.03],
        1,
        LONG,
    ),
    column("equal cells, adaptive to 2 %", &[1.0; 4], 1, COARSE),
    column(
        "0, 3, 5, 10 %, adaptive, at most 4",
        &[1.0, 1.03, 1.05, 1.1],
        1,
        DEFAULT,
    ),
    column(
        "0, 3, 5, 10 %, adaptive to 2 %",
        &[1.0, 1.03, 1.05, 1.1],
        1,
        COARSE,
    ),
    column(
        "41, 2, 0, 1 %, adaptive, at most 20",
        &[1.41, 1.02, 1.0, 1.01],
        1,
        LONG,
    ),
];

/// Machines on which cells that are the same differ for the whole sweep.
const PLACEMENTS: [Machine; 3] = [
    Machine {
        name: "by 0.25 %",
        set: |level| level.placement = 0.0025,
    },
    Machine {
        name: "by 0.5 %",
        set: |level| level.placement = 0.005,
    },
    Machine {
        name: "by 1 %",
        set: |level| level.placement = 0.01,
    },
];

/// Seeds of one table do not meet those of another.
const SEEDS_OF_EQUAL: u64 = 1_000_000;
const SEEDS_OF_UNEQUAL: u64 = 2_000_000;
const SEEDS_OF_POWER: u64 = 3_000_000;
const SEEDS_OF_FAR_BEHIND: u64 = 4_000_000;

fn main() -> ExitCode {
    let asked = std::env::args().nth(1);
    let Some(sweeps) = asked.as_ref().map_or(Some(SWEEPS), |text| {
        text.parse().ok().filter(|sweeps| *sweeps > 0)
    }) else {
        eprintln!(
            "error: {} is no number of sweeps; give 1 or more",
            asked.unwrap_or_default()
        );
        return ExitCode::from(2);
    };
    let named = |machine: &Machine, design: &Design<'_>| {
        let seed = |sweep| SEEDS_OF_EQUAL + sweep;
        let names = |sweep| design.run(machine, seed(sweep)).names_a_difference();
        let named = Share::of(sweeps, names);
        format!("{} (< {:.1} %)", named.count, named.limits().1)
    };
    let covered = |machine: &Machine, design: &Design<'_>| {
        let seed = |sweep| SEEDS_OF_UNEQUAL + sweep;
        let covers = |sweep| design.run(machine, seed(sweep)).covers(design.slowness);
        let covered = Share::of(sweeps, covers);
        format!("{:.1} % (> {:.1} %)", covered.percent(), covered.limits().0)
    };
    println!(
        "Equal cells: of {sweeps} sweeps, how many name any difference, and the upper 95 % limit.\n"
    );
    table(&MACHINES, &EQUAL, named);
    println!("\nThe same with many levels: the error is promised for each.\n");
    table(&MACHINES, &MANY_LEVELS, named);
    println!("\nThe same, where cells that are the same differ for the whole sweep.\n");
    table(&PLACEMENTS, &EQUAL, named);
    println!(
        "\nIntervals: in how many of {sweeps} sweeps all of a level hold the truth, and the lower 95 % limit.\n"
    );
    table(&MACHINES, &UNEQUAL, covered);
    power(sweeps);
    far_behind(sweeps);
    ExitCode::SUCCESS
}

/// A row for each machine, a column for each design.
fn table(machines: &[Machine], columns: &[Column], cell: impl Fn(&Machine, &Design<'_>) -> String) {
    let heads: Vec<&str> = columns.iter().map(|(head, _)| *head).collect();
    println!("| machine | {} |", heads.join(" | "));
    println!("|---|{}", "---|".repeat(columns.len()));
    for machine in machines {
        let cells: Vec<String> = columns
            .iter()
            .map(|(_, design)| cell(machine, design))
            .collect();
        println!("| {} | {} |", machine.name, cells.join(" | "));
    }
}

/// How often 3 % are found, by noise and rounds.
fn power(sweeps: u64) {
    const ROUNDS: [u64; 4] = [3, 6, 12, 24];
    const NOISE: [f64; 4] = [0.5, 1.0, 2.0, 4.0];
    println!("\nPower: share of {sweeps} sweeps of two cells that find that one is 3 % slower.\n");
    println!(
        "| visits vary by | {} |",
        ROUNDS.map(|rounds| format!("{rounds} rounds")).join(" | ")
    );
    println!("|---|{}", "---|".repeat(ROUNDS.len()));
    for noise in NOISE {
        let found = ROUNDS.map(|rounds| {
            let found = Share::of(sweeps, |sweep| {
                sweep::finds(noise, rounds, SEEDS_OF_POWER + sweep)
            });
            format!("{:.1} %", found.percent())
        });
        println!("| {noise} % | {} |", found.join(" | "));
    }
}

/// How often a cell that takes 41 % longer leaves the best set, and after how many visits.
fn far_behind(sweeps: u64) {
    let [.., (_, far)] = UNEQUAL;
    let design = Design {
        ending: DEFAULT,
        ..far
    };
    println!(
        "\nA cell that takes 41 % longer than the best, beside others 1 and 2 % from it, adaptive, at most 4 rounds: \
         share of {sweeps} sweeps that put it out, and visits of the 20 that four rounds take.\n"
    );
    println!("| machine | out | visits |\n|---|---|---|");
    for machine in &MACHINES {
        let run = |sweep| design.run(machine, SEEDS_OF_FAR_BEHIND + sweep);
        let out = Share::of(sweeps, |sweep| {
            !run(sweep).compared()[0].best().contains(&0)
        });
        let visits: usize = (0..sweeps).map(|sweep| run(sweep).visits).sum();
        println!(
            "| {} | {:.1} % | {:.1} |",
            machine.name,
            out.percent(),
            visits as f64 / sweeps as f64
        );
    }
}
