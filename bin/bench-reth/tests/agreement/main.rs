//! geth's word for it: blocks built by either engine must be valid on the other, wrong blocks wrong
//! on both, and every state root equal.
//!
//! Both programs run as they are, from one genesis, and are asked over HTTP alone.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod accounts;
mod chain;
mod counts;
mod dice;
mod differ;
mod duel;
mod engines;
mod mutation;
mod payload;
mod precompiles;
mod program;
mod record;
mod simulate;
mod transactions;

use chain::Fork;
use counts::Counts;
use duel::Duel;
use std::path::PathBuf;
use testkit::{Tool, require};

const ZERO: &str = "0x0000000000000000000000000000000000000000000000000000000000000000";

/// Forks that a chain may begin with; it then goes through all later ones.
const BEGINNINGS: [Fork; 4] = [Fork::Paris, Fork::Cancun, Fork::Prague, Fork::Bpo2];

/// Plays `blocks` blocks on a chain that begins with `first`.
fn play(seed: u64, first: Fork, blocks: u64) -> Option<Counts> {
    let geth = require(Tool::Geth)?;
    let forks = Fork::ALL.len() as u64 - first as u64;
    // Reorgs go back in time: the last fork must be reached all the same.
    let blocks_per_fork = blocks * 3 / (4 * forks);
    let mut duel = Duel::new(&geth, seed, first, blocks_per_fork);
    duel.run(blocks);
    Some(duel.counts)
}

#[test]
fn random_blocks_agree_through_every_fork() {
    let Some(counts) = play(1, Fork::Paris, 140) else {
        return;
    };
    println!("{counts}");
    assert_eq!(counts.forks(), Fork::ALL);
    assert_eq!(counts.types(), [0, 1, 2, 3, 4]);
    assert!(counts.reorgs > 0 && counts.refused > 0 && counts.mutated > 0);
}

#[test]
fn random_blocks_agree_under_the_newest_rules() {
    let Some(counts) = play(2, Fork::Bpo2, 60) else {
        return;
    };
    println!("{counts}");
    assert_eq!(counts.types(), [0, 1, 2, 3, 4]);
}

#[test]
fn wrong_blocks_are_wrong_on_both() {
    let Some(geth) = require(Tool::Geth) else {
        return;
    };
    for first in [
        Fork::Paris,
        Fork::Shanghai,
        Fork::Cancun,
        Fork::Prague,
        Fork::Osaka,
    ] {
        let mut duel = Duel::new(&geth, 3, first, 1_000);
        duel.run(3);
        for _ in 0..3 {
            duel.mutate_everything();
        }
        assert!(duel.counts.mutated > 60, "{}", duel.counts);
    }
}

#[test]
fn simulated_blocks_agree() {
    for first in [Fork::Prague, Fork::Bpo2] {
        if let Some(requests) = simulate::compare(first) {
            println!("{first:?}: {requests} requests answered alike");
        }
    }
}

/// The long form, which `cargo xtask soak agreement` starts.
#[test]
#[ignore = "takes as long as it is told to"]
fn soak() {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    let blocks = number("AGREEMENT_BLOCKS").unwrap_or(2_000);
    let seed = number("AGREEMENT_SEED").unwrap_or(1);
    const BLOCKS_PER_CHAIN: u64 = 200;
    let mut total = Counts::default();
    for chain in 0.. {
        let left = blocks.saturating_sub(total.blocks).min(BLOCKS_PER_CHAIN);
        if left == 0 {
            break;
        }
        let first = BEGINNINGS[chain as usize % BEGINNINGS.len()];
        let counts = play(seed + chain, first, left).unwrap();
        total.add(&counts);
        println!("seed {} from {first:?}\n{counts}\n", seed + chain);
    }
    println!("{total}\ndisagreements      0");
}

/// Plays the file of a disagreement again.
#[test]
#[ignore = "needs a file: cargo xtask soak agreement --replay FILE"]
fn replay() {
    let file = PathBuf::from(std::env::var_os("AGREEMENT_REPLAY").unwrap());
    let geth = require(Tool::Geth).unwrap();
    let differences = record::replay(&geth, &file);
    println!("{}", differences.join("\n"));
    assert!(differences.is_empty(), "they still disagree");
}
