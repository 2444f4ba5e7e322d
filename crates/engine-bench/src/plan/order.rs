//! The order of visits: rounds one after another, each visiting every cell once.
//!
//! Invariant: the order depends on the seed and the cells alone; a file of today's order can be
//! remade on any machine.

use super::{Cell, Load, Visit};
use crate::sweep::{Order, Settings};
use bench_stats::SplitMix;

/// All visits of a sweep.
pub(super) fn visits(settings: &Settings, cells: &[&Cell]) -> Vec<Visit> {
    let mut random = SplitMix::new(settings.seed);
    let mut visits = Vec::with_capacity(cells.len() * settings.rounds as usize);
    let mut orders = Orders::new(settings.order, cells.len());
    for round in 1..=settings.rounds {
        let order = orders.next(&mut random);
        visits.extend(order.into_iter().map(|index| Visit {
            round,
            cell: cells[index].id.clone(),
        }));
    }
    visits
}

/// The order in which so many cells of a load take their turns, payload after payload: over so many
/// payloads as there are cells, or twice as many of an odd number, each cell has every place equally often
/// and follows every other equally often. The seed, the round and the load decide.
pub(crate) fn turns(
    seed: u64,
    round: u64,
    load: &Load,
    cells: usize,
    payloads: usize,
) -> Vec<Vec<usize>> {
    let words = [round, load.gas.0].into_iter();
    let mix = load.mix.iter().flat_map(|mix| mix.bytes()).map(u64::from);
    let seed = words.chain(mix).fold(seed, |seed, word| {
        // Each word decides about all bits of what follows.
        SplitMix::new(seed ^ word).bits()
    });
    let mut random = SplitMix::new(seed);
    let mut orders = Orders::new(Order::Williams, cells);
    (0..payloads).map(|_| orders.next(&mut random)).collect()
}

/// One order of the cells after another.
struct Orders {
    order: Order,
    cells: usize,
    /// Orders of a design that is under way, the next one last.
    ahead: Vec<Vec<usize>>,
}

impl Orders {
    fn new(order: Order, cells: usize) -> Self {
        Self {
            order,
            cells,
            ahead: Vec::new(),
        }
    }

    fn next(&mut self, random: &mut SplitMix) -> Vec<usize> {
        if let Some(next) = self.ahead.pop() {
            return next;
        }
        let mut cells: Vec<usize> = (0..self.cells).collect();
        if self.order == Order::Sequential {
            return cells;
        }
        random.shuffle(&mut cells);
        match self.order {
            Order::Abba => self.ahead = vec![cells.iter().rev().copied().collect()],
            Order::Williams => {
                // Which cell has which place in the design is as random as which row comes first.
                let named = |row: Vec<usize>| row.into_iter().map(|place| cells[place]).collect();
                let mut rows: Vec<Vec<usize>> =
                    williams(self.cells).into_iter().map(named).collect();
                random.shuffle(&mut rows);
                let first = rows.pop();
                self.ahead = rows;
                return first.unwrap_or_default();
            }
            Order::Random | Order::Sequential => {}
        }
        cells
    }
}

/// Orders in which each of `cells` places follows every other equally often, and comes equally often
/// at each position: as many as cells, or twice as many of an odd number (E. J. Williams, 1949).
fn williams(cells: usize) -> Vec<Vec<usize>> {
    // 0, 1, n-1, 2, n-2, …: neighbours differ by every amount but 0.
    let zigzag = (0..cells).map(|position| match position % 2 {
        0 => (cells - position / 2) % cells,
        _ => position.div_ceil(2),
    });
    let zigzag: Vec<usize> = zigzag.collect();
    let shifted =
        |by: usize| -> Vec<usize> { zigzag.iter().map(|place| (place + by) % cells).collect() };
    let mut rows: Vec<Vec<usize>> = (0..cells).map(shifted).collect();
    if cells % 2 == 1 && cells > 1 {
        let mirrored = |row: &Vec<usize>| row.iter().rev().copied().collect();
        let mirrored: Vec<Vec<usize>> = rows.iter().map(mirrored).collect();
        rows.extend(mirrored);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::Gas;
    use std::collections::HashMap;

    fn orders(order: Order, cells: usize, rounds: usize, seed: u64) -> Vec<Vec<usize>> {
        let mut random = SplitMix::new(seed);
        let mut orders = Orders::new(order, cells);
        (0..rounds).map(|_| orders.next(&mut random)).collect()
    }

    fn is_permutation(order: &[usize], cells: usize) -> bool {
        let mut sorted = order.to_vec();
        sorted.sort_unstable();
        sorted.into_iter().eq(0..cells)
    }

    /// Rounds after which a design of so many cells is complete.
    fn cycle(cells: usize) -> usize {
        if cells.is_multiple_of(2) {
            cells
        } else {
            2 * cells
        }
    }

    /// Each cell has every place equally often, and follows every other equally often.
    fn assert_balanced(rows: &[Vec<usize>], cells: usize) {
        let (mut after, mut at) = (HashMap::new(), HashMap::new());
        for row in rows {
            for pair in row.windows(2) {
                *after.entry((pair[0], pair[1])).or_insert(0) += 1;
            }
            for place in row.iter().enumerate() {
                *at.entry(place).or_insert(0) += 1;
            }
        }
        let often = |count: &usize| *count == rows.len() / cells;
        assert_eq!(
            (after.len(), at.len()),
            (cells * (cells - 1), cells * cells)
        );
        assert!(after.values().all(often), "{cells} cells: {after:?}");
        assert!(at.values().all(often), "{cells} cells: {at:?}");
    }

    #[test]
    fn every_round_of_every_design_visits_every_cell() {
        for order in [
            Order::Random,
            Order::Williams,
            Order::Abba,
            Order::Sequential,
        ] {
            for cells in 0..9 {
                let rounds = orders(order, cells, 25, 7);
                assert!(rounds.iter().all(|round| is_permutation(round, cells)));
                assert_eq!(rounds, orders(order, cells, 25, 7), "the seed decides");
            }
        }
    }

    #[test]
    fn williams_balances_neighbours_and_positions() {
        for cells in 2..10 {
            let design = orders(Order::Williams, cells, cycle(cells), 3);
            assert_balanced(&design, cells);
        }
        let [first, second] = [3, 4].map(|seed| orders(Order::Williams, 6, 6, seed));
        assert_ne!(first, second, "another seed, another order");
    }

    #[test]
    fn turns_give_every_cell_every_place_and_every_predecessor_equally_often() {
        let load = |gas, mix: Option<&str>| Load {
            gas: Gas(gas),
            mix: mix.map(str::to_owned),
        };
        for cells in 1..9 {
            let payloads = 10 * cycle(cells);
            let all = turns(7, 3, &load(10, None), cells, payloads);
            assert_eq!(all.len(), payloads);
            assert!(all.iter().all(|order| is_permutation(order, cells)));
            assert_balanced(&all, cells);
            assert_eq!(all, turns(7, 3, &load(10, None), cells, payloads));
            if cells < 3 {
                continue;
            }
            for (seed, round, other) in [
                (8, 3, load(10, None)),
                (7, 4, load(10, None)),
                (7, 3, load(40, None)),
                (7, 3, load(10, Some("whale"))),
            ] {
                assert_ne!(all, turns(seed, round, &other, cells, payloads));
            }
        }
    }

    #[test]
    fn abba_goes_back_the_way_it_came() {
        for cells in 2..6 {
            let rounds = orders(Order::Abba, cells, 6, 11);
            for pair in rounds.chunks(2) {
                let back: Vec<usize> = pair[1].iter().rev().copied().collect();
                assert_eq!(pair[0], back);
            }
        }
        let firsts = orders(Order::Abba, 2, 40, 11);
        let begins: Vec<usize> = firsts.iter().step_by(2).map(|round| round[0]).collect();
        assert!(begins.contains(&0) && begins.contains(&1), "chance begins");
    }
}
