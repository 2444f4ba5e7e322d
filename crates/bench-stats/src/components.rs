//! Where the noise of a visit comes from: blocks within its pass, or the visit as a whole.
//!
//! A visit restarts the engine and makes one measured pass, so restart and pass are one level here:
//! only their sum can be known. Blocks are the level below. More payloads in a pass average out
//! block noise; nothing but more visits averages out what a restart adds (Kalibera and Jones,
//! "Rigorous Benchmarking in Reasonable Time", 2013, section 6).
//!
//! Invariant: a variance is never negative, and none is given that the data cannot show.

use crate::{bootstrap::segment_length, layout::Spread};

/// Variances of the logarithm of time, by where they arise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Components {
    /// Of a visit as a whole (restart and pass).
    pub visit: f64,
    /// Of a block, on the scale at which it averages out: neighbours' dependence included.
    pub block: f64,
    /// Blocks of a pass.
    pub blocks: usize,
}

/// Block noise of one cell: `passes` hold the logarithms of block times, the same blocks in each.
/// What block and pass explain is taken out, then segments are averaged, so that the dependence of
/// neighbours counts. `None` with fewer than two passes or segments, or passes of unequal length.
pub fn block_variance(passes: &[Vec<f64>]) -> Option<f64> {
    let blocks = passes.first()?.len();
    let length = segment_length(blocks);
    let segments = blocks / length.max(1);
    if passes.len() < 2 || segments < 2 || passes.iter().any(|pass| pass.len() != blocks) {
        return None;
    }
    let used = segments * length;
    let of_block: Vec<f64> = (0..used)
        .map(|block| passes.iter().map(|pass| pass[block]).sum::<f64>() / passes.len() as f64)
        .collect();
    let mut squares = 0.0;
    for pass in passes {
        let left: Vec<f64> = pass[..used]
            .iter()
            .zip(&of_block)
            .map(|(log, mean)| log - mean)
            .collect();
        let whole = left.iter().sum::<f64>() / used as f64;
        let means = left
            .chunks_exact(length)
            .map(|segment| segment.iter().sum::<f64>() / length as f64);
        squares += means.map(|mean| (mean - whole).powi(2)).sum::<f64>();
    }
    let freedom = ((passes.len() - 1) * (segments - 1)) as f64;
    Some(squares / freedom * length as f64)
}

impl Components {
    /// Splits the spread of visits, given the mean block variance of the cells.
    pub fn of(spread: Spread, block: f64, blocks: usize) -> Self {
        let of_visits = spread.deviation.powi(2);
        Self {
            visit: (of_visits - block / blocks.max(1) as f64).max(0.0),
            block,
            blocks,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix;

    #[test]
    fn recovers_the_block_variance_it_was_given() {
        let mut random = SplitMix::new(9);
        let levels: Vec<f64> = (0..400).map(|_| random.normal()).collect();
        let passes: Vec<Vec<f64>> = (0..20)
            .map(|_| {
                let visit = 0.5 * random.normal();
                levels
                    .iter()
                    .map(|level| level + visit + 0.1 * random.normal())
                    .collect()
            })
            .collect();
        let found = block_variance(&passes).unwrap();
        assert!((found - 0.01).abs() < 0.002, "{found}");
    }

    #[test]
    fn correlation_counts() {
        // An AR(1) series with coefficient 0.5 averages out (1 + 0.5) / (1 - 0.5) = 3 times slower.
        let mut random = SplitMix::new(10);
        let passes: Vec<Vec<f64>> = (0..20)
            .map(|_| {
                let mut state = 0.0;
                (0..900)
                    .map(|_| {
                        state = 0.5 * state + 0.75f64.sqrt() * random.normal();
                        state
                    })
                    .collect()
            })
            .collect();
        let found = block_variance(&passes).unwrap();
        assert!((2.4..3.3).contains(&found), "{found}");
    }

    #[test]
    fn splits_and_weighs() {
        let spread = Spread {
            deviation: 0.02,
            freedom: 10.0,
        };
        let components = Components::of(spread, 0.01, 100);
        assert!((components.visit - 3e-4).abs() < 1e-12);
        assert_eq!(Components::of(spread, 1.0, 100).visit, 0.0);
        assert_eq!(block_variance(&[vec![1.0; 9]]), None);
    }
}
