//! Which blocks are worth a trace, and which payload alone makes a pass long.

use super::outcome::{Outcome, throughput};
use crate::{
    plan::{Cell, Load},
    record::Sample,
    trace::{Chosen, Wanted},
};
use serde::Serialize;
use std::collections::BTreeMap;

/// A payload that takes more than this part of its pass stalls it.
const STALLS: f64 = 0.2;

/// In passes so short that every payload has about such a part, it takes so many times its share.
const SHARES: f64 = 2.0;

/// The payload of a gas level that took the largest part of its measured pass, where that is a stall.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stall {
    /// The level.
    #[serde(flatten)]
    pub load: Load,
    /// Id of the cell, or of an A/A control.
    pub cell: String,
    /// The round.
    pub round: u64,
    /// Which payload of the pass it was, counted from 1.
    pub payload: u64,
    /// Number of its block.
    pub block_number: u64,
    /// newPayload and forkchoiceUpdated together, in milliseconds.
    pub ms: f64,
    /// Its part of the time of its pass, 0 to 1.
    pub part: f64,
    /// Measured passes of the level that have such a payload.
    pub passes: u64,
    /// Measured passes of the level.
    pub of: u64,
}

/// The worst stall of every gas level that has one.
pub fn stalls(outcome: &Outcome) -> Vec<Stall> {
    let loads = outcome.plan.loads().into_iter();
    loads.filter_map(|load| stall(outcome, &load)).collect()
}

fn stall(outcome: &Outcome, load: &Load) -> Option<Stall> {
    let stall_of = |cell: &Cell, round, pass: &[Sample]| {
        let numbered = (1..).zip(pass);
        let (payload, slowest) = numbered.max_by_key(|(_, sample)| sample.total_ns())?;
        let part = slowest.total_ns() as f64 / throughput(pass).time_ns as f64;
        (part > STALLS.max(SHARES / pass.len() as f64)).then(|| Stall {
            load: load.clone(),
            cell: cell.id.clone(),
            round,
            payload,
            block_number: slowest.block_number,
            ms: slowest.total_ns() as f64 / 1e6,
            part,
            passes: 0,
            of: 0,
        })
    };
    let passes = outcome.visited(load).flat_map(|cell| {
        let rounds = outcome.rounds(&cell.id);
        rounds.map(move |(round, pass)| stall_of(cell, round, pass))
    });
    let passes: Vec<Option<Stall>> = passes.collect();
    let stalled = passes.iter().flatten();
    let worst = stalled.clone().max_by(|a, b| a.part.total_cmp(&b.part))?;
    Some(Stall {
        passes: stalled.count() as u64,
        of: passes.len() as u64,
        ..worst.clone()
    })
}

/// The wanted blocks of each measured cell, by cell id.
pub fn choose(outcome: &Outcome, wanted: Wanted) -> BTreeMap<String, Chosen> {
    let cells = outcome.plan.cells.iter();
    cells
        .filter_map(|cell| {
            let passes = outcome.passes.get(&cell.id)?;
            let chosen = of_samples(passes.values().flatten(), wanted);
            (!chosen.blocks.is_empty()).then(|| (cell.id.clone(), chosen))
        })
        .collect()
}

/// The blocks with the longest mean time.
fn of_samples<'a>(samples: impl Iterator<Item = &'a Sample>, wanted: Wanted) -> Chosen {
    let mut sums: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    for sample in samples {
        let (sum, count) = sums.entry(sample.block_number).or_default();
        *sum += sample.total_ns();
        *count += 1;
    }
    let mean = |(block, (sum, count)): (u64, (u64, u64))| (block, sum as f64 / 1e6 / count as f64);
    let mut slowest: Vec<(u64, f64)> = sums.into_iter().map(mean).collect();
    let measured_ms = slowest.iter().copied().collect();
    slowest.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    let count = match wanted {
        Wanted::None => 0,
        Wanted::Worst(count) => count,
        Wanted::All => slowest.len(),
    };
    let blocks = slowest.into_iter().take(count);
    Chosen {
        blocks: blocks.map(|(block, _)| block).collect(),
        measured_ms,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        analyze::made_up::{pass, results},
        record::sample::tests::sample,
    };

    /// The stall of a level whose passes take these times.
    fn stall_of(passes: &[&[u64]]) -> Option<Stall> {
        let mut outcome = results();
        outcome.passes.clear();
        let cell = outcome.plan.cells[0].id.clone();
        let passes = passes.iter();
        let passes = passes.map(|times| pass(101, times.iter().map(|ms| 1_000_000 * ms)));
        let rounds = (1..).zip(passes);
        outcome.passes.insert(cell, rounds.collect());
        stalls(&outcome).pop()
    }

    #[test]
    fn a_payload_that_takes_more_than_a_fifth_of_its_pass_is_named() {
        let even = [10; 20];
        let with =
            |at: usize, ms| std::array::from_fn::<_, 20, _>(|of| if of == at { ms } else { 10 });
        assert_eq!(stall_of(&[&even, &with(4, 47)]), None);
        let found = stall_of(&[&even, &with(4, 60), &with(0, 2_000)]).unwrap();
        let place = (found.round, found.payload, found.block_number);
        assert_eq!(place, (3, 1, 101));
        assert_eq!((found.ms, found.passes, found.of), (2_000.0, 2, 3));
        assert!((found.part - 2_000.0 / 2_190.0).abs() < 1e-9);
        // Of four payloads each takes a fourth.
        assert_eq!(stall_of(&[&[10, 10, 10, 12]]), None);
        assert_eq!(stall_of(&[&[10, 10, 10, 40]]).unwrap().payload, 4);
    }

    #[test]
    fn the_slowest_on_average_are_chosen() {
        let passes = [
            sample(1, 1, 9_000_000, 0),
            sample(2, 1, 5_000_000, 1_000_000),
            sample(3, 1, 1_000_000, 0),
            sample(1, 1, 1_000_000, 0),
            sample(2, 1, 6_000_000, 0),
            sample(3, 1, 2_000_000, 0),
        ];
        let chosen = of_samples(passes.iter(), Wanted::Worst(2));
        assert_eq!(chosen.blocks.into_iter().collect::<Vec<_>>(), [1, 2]);
        assert_eq!(chosen.measured_ms[&1], 5.0);
        assert_eq!(of_samples(passes.iter(), Wanted::All).blocks.len(), 3);
        assert!(of_samples(passes.iter(), Wanted::None).blocks.is_empty());
    }
}
