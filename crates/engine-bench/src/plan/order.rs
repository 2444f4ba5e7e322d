//! The order of visits: rounds one after another, each visiting every cell once.
//!
//! Invariant: the order depends on the seed and the cells alone; a file of today's order can be
//! remade on any machine.

use super::{Cell, Visit};
use crate::sweep::{Order, Settings};

/// All visits of a sweep.
pub(super) fn visits(settings: &Settings, cells: &[Cell]) -> Vec<Visit> {
    let mut random = SplitMix(settings.seed);
    let mut visits = Vec::with_capacity(cells.len() * settings.rounds as usize);
    for round in 1..=settings.rounds {
        let mut ids: Vec<&str> = cells.iter().map(|cell| cell.id.as_str()).collect();
        if settings.order == Order::Random {
            shuffle(&mut ids, &mut random);
        }
        visits.extend(ids.into_iter().map(|cell| Visit {
            round,
            cell: cell.to_owned(),
        }));
    }
    visits
}

/// Fisher and Yates, from the end.
fn shuffle<T>(items: &mut [T], random: &mut SplitMix) {
    for last in (1..items.len()).rev() {
        items.swap(last, random.below(last as u64 + 1) as usize);
    }
}

/// Steele, Lea and Flood's SplitMix64: enough to shuffle a few cells, the same everywhere.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number under `bound`, without favouring any (multiply and shift on 128 bits; the bias of
    /// at most `bound / 2^64` is far below what a sweep can visit).
    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generator_matches_its_reference() {
        // First outputs of the authors' splitmix64.c for seed 1234567.
        let mut random = SplitMix(1_234_567);
        let outputs = [random.next(), random.next(), random.next()];
        assert_eq!(
            outputs,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
    }
}
