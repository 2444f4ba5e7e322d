//! Which blocks are worth a trace.

use super::outcome::Outcome;
use crate::{
    record::Sample,
    trace::{Chosen, Wanted},
};
use std::collections::BTreeMap;

/// The wanted blocks of each measured cell, by cell id; A/A controls are left out.
pub fn choose(outcome: &Outcome, wanted: Wanted) -> BTreeMap<String, Chosen> {
    let cells = outcome.plan.cells.iter();
    let originals = cells.filter(|cell| cell.control_of.is_none());
    originals
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
    let mean = |(sum, count): (u64, u64)| sum as f64 / 1e6 / count as f64;
    let measured_ms: BTreeMap<u64, f64> = sums
        .into_iter()
        .map(|(block, sums)| (block, mean(sums)))
        .collect();
    let mut slowest: Vec<(u64, f64)> = measured_ms
        .iter()
        .map(|(block, ms)| (*block, *ms))
        .collect();
    slowest.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    let count = match wanted {
        Wanted::None => 0,
        Wanted::Worst(count) => count,
        Wanted::All => slowest.len(),
    };
    Chosen {
        blocks: slowest
            .into_iter()
            .take(count)
            .map(|(block, _)| block)
            .collect(),
        measured_ms,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::sample::tests::sample;

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
