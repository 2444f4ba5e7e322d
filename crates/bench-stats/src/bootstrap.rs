//! Two-stage bootstrap: a check of the t interval that assumes no distribution.
//!
//! Rounds are drawn with replacement, and within each drawn round segments of consecutive blocks,
//! because the times of neighbouring blocks depend on each other (a circular block bootstrap).
//! Both cells of a pair get the same rounds and the same segments: pairing survives resampling.
//! With few rounds its intervals are too narrow, so it can object to a verdict and never make one.
//!
//! Invariant: a seed determines the interval.

use crate::{quantile, random::SplitMix};

/// How to resample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Resampling {
    /// Number of replicates; a percentile needs some hundreds.
    pub replicates: usize,
    /// Chance that the interval misses.
    pub error: f64,
    /// Seed of the draws.
    pub seed: u64,
}

/// Gas and time of a pass, added up block after block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pass {
    /// Sums over the first `i` blocks; one entry more than blocks.
    sums: Vec<(u64, u64)>,
}

impl Pass {
    /// From gas and nanoseconds of each block, in order.
    pub fn new(blocks: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let mut sums = vec![(0, 0)];
        let (mut gas, mut time) = (0, 0);
        for (block_gas, block_time) in blocks {
            gas += block_gas;
            time += block_time;
            sums.push((gas, time));
        }
        Self { sums }
    }

    /// Number of blocks.
    pub fn blocks(&self) -> usize {
        self.sums.len() - 1
    }

    /// Gas and time of `length` blocks from `from` on, going on at the beginning after the end.
    fn segment(&self, from: usize, length: usize) -> (f64, f64) {
        let between = |from: usize, to: usize| {
            let ((gas, time), (gas_end, time_end)) = (self.sums[from], self.sums[to]);
            ((gas_end - gas) as f64, (time_end - time) as f64)
        };
        let end = from + length;
        if end <= self.blocks() {
            return between(from, end);
        }
        let (first, rest) = (
            between(from, self.blocks()),
            between(0, end - self.blocks()),
        );
        (first.0 + rest.0, first.1 + rest.1)
    }
}

/// The percentile interval of throughput `a / b`, from passes paired by round.
///
/// `None` with fewer than two rounds, or passes that differ in length.
pub fn two_stage(a: &[&Pass], b: &[&Pass], how: &Resampling) -> Option<(f64, f64)> {
    let blocks = a.first()?.blocks();
    let alike = a.iter().chain(b).all(|pass| pass.blocks() == blocks);
    if a.len() < 2 || a.len() != b.len() || blocks == 0 || !alike {
        return None;
    }
    let mut random = SplitMix::new(how.seed);
    let mut logs: Vec<f64> = (0..how.replicates)
        .map(|_| replicate(a, b, &mut random))
        .filter(|log| log.is_finite())
        .collect();
    logs.sort_unstable_by(f64::total_cmp);
    let at = |probability| quantile::interpolate(&logs, probability).map(f64::exp);
    Some((at(how.error / 2.0)?, at(1.0 - how.error / 2.0)?))
}

/// Mean over drawn rounds of the log ratio of the throughput of drawn segments.
fn replicate(a: &[&Pass], b: &[&Pass], random: &mut SplitMix) -> f64 {
    let (rounds, blocks) = (a.len(), a[0].blocks());
    let length = segment_length(blocks);
    let segments = blocks.div_ceil(length);
    let mut sum = 0.0;
    for _ in 0..rounds {
        let round = random.below(rounds as u64) as usize;
        let (mut of_a, mut of_b) = ((0.0, 0.0), (0.0, 0.0));
        for _ in 0..segments {
            let from = random.below(blocks as u64) as usize;
            let (one, two) = (
                a[round].segment(from, length),
                b[round].segment(from, length),
            );
            of_a = (of_a.0 + one.0, of_a.1 + one.1);
            of_b = (of_b.0 + two.0, of_b.1 + two.1);
        }
        sum += ((of_a.0 / of_a.1) / (of_b.0 / of_b.1)).ln();
    }
    sum / rounds as f64
}

/// Blocks of one segment: the root of the number of blocks, longer than the correlation of block
/// times reaches and short enough to leave as many segments as they are long.
pub fn segment_length(blocks: usize) -> usize {
    ((blocks as f64).sqrt().round() as usize).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interval::{mean, standard_deviation};

    const HOW: Resampling = Resampling {
        replicates: 2000,
        error: 0.05,
        seed: 3,
    };

    fn passes(rounds: &[f64], blocks: usize) -> Vec<Pass> {
        let pass =
            |time: &f64| Pass::new((0..blocks).map(|_| (1_000_000, (time * 1e6).round() as u64)));
        rounds.iter().map(pass).collect()
    }

    fn interval(a: &[Pass], b: &[Pass]) -> Option<(f64, f64)> {
        let (a, b): (Vec<&Pass>, Vec<&Pass>) = (a.iter().collect(), b.iter().collect());
        two_stage(&a, &b, &HOW)
    }

    #[test]
    fn equals_the_normal_interval_of_the_plug_in_variance_when_blocks_are_equal() {
        // 40 rounds whose blocks are all alike: only the first stage varies, and its bootstrap
        // variance is the one with divisor n.
        let mut random = SplitMix::new(11);
        let times: Vec<f64> = (0..40).map(|_| (0.05 * random.normal()).exp()).collect();
        let (low, high) = interval(&passes(&times, 9), &passes(&[1.0; 40], 9)).unwrap();
        let logs: Vec<f64> = times.iter().map(|time| -time.ln()).collect();
        let error = standard_deviation(&logs).unwrap() * (39f64 / 40.0).sqrt() / 40f64.sqrt();
        let (expected_low, expected_high) =
            (mean(&logs) - 1.96 * error, mean(&logs) + 1.96 * error);
        assert!((low.ln() - expected_low).abs() < 0.15 * error, "{low}");
        assert!((high.ln() - expected_high).abs() < 0.15 * error, "{high}");
    }

    #[test]
    fn equal_passes_have_no_interval_around_one() {
        let times = passes(&[1.0, 2.0, 1.5], 10);
        assert_eq!(interval(&times, &times), Some((1.0, 1.0)));
    }

    #[test]
    fn refuses_what_is_not_paired() {
        let (long, short) = (passes(&[1.0, 1.0], 10), passes(&[1.0, 1.0], 9));
        assert_eq!(interval(&long, &short), None);
        assert_eq!(interval(&long[..1], &long[..1]), None);
        assert_eq!(interval(&long, &long[..1]), None);
        assert_eq!(interval(&[], &[]), None);
    }

    #[test]
    fn segments_go_round() {
        let pass = Pass::new([(1, 10), (2, 20), (4, 40)]);
        assert_eq!(pass.segment(0, 3), (7.0, 70.0));
        assert_eq!(pass.segment(2, 2), (5.0, 50.0));
        assert_eq!(pass.segment(1, 3), (7.0, 70.0));
    }
}
