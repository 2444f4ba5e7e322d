//! Whether a pass was in a steady state: a test for a shift or a trend of its block times.
//!
//! A measured pass that is still warming up measures the warm-up too. Block times are averaged over
//! segments, so that neighbours' dependence cancels, and the cumulated deviations of the segments
//! from their mean are compared with a Brownian bridge (CUSUM; its limit is Kolmogorov's
//! distribution). The noise is taken from differences of neighbouring segments (von Neumann), which
//! a shift or trend inflates little.
//!
//! Invariant: too few blocks give no answer.

/// Fewest segments that the limit distribution is used for.
const FEWEST_SEGMENTS: usize = 10;
/// Segments are lengthened rather than used in a larger number.
const MOST_SEGMENTS: usize = 40;
/// Blocks of the shortest segment.
const SHORTEST: usize = 2;

/// What the test found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Steadiness {
    /// Chance of deviations this large in a steady state.
    pub p_value: f64,
    /// Blocks before the most likely change.
    pub change_at: usize,
    /// Time per gas after the change relative to before it: -0.04 is 4 % less.
    pub relative: f64,
}

/// Tests the logarithms of time per gas of the blocks of a pass, in order. `None` with fewer than
/// 20 blocks.
pub fn steadiness(logs: &[f64]) -> Option<Steadiness> {
    let length = (logs.len() / MOST_SEGMENTS).max(SHORTEST);
    let segments: Vec<f64> = logs
        .chunks_exact(length)
        .map(|segment| segment.iter().sum::<f64>() / length as f64)
        .collect();
    let n = segments.len();
    if n < FEWEST_SEGMENTS {
        return None;
    }
    let whole = segments.iter().sum::<f64>() / n as f64;
    let (mut cumulated, mut largest, mut change) = (0.0f64, 0.0f64, 1);
    for (index, segment) in segments[..n - 1].iter().enumerate() {
        cumulated += segment - whole;
        if cumulated.abs() > largest {
            (largest, change) = (cumulated.abs(), index + 1);
        }
    }
    let steps = segments.windows(2).map(|pair| (pair[1] - pair[0]).powi(2));
    let noise = (steps.sum::<f64>() / (2 * (n - 1)) as f64).sqrt();
    let p_value = match noise > 0.0 {
        true => kolmogorov_tail(largest / (noise * (n as f64).sqrt())),
        false => f64::from(u8::from(largest <= 1e-12)),
    };
    let average = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    Some(Steadiness {
        p_value,
        change_at: change * length,
        relative: (average(&segments[change..]) - average(&segments[..change])).exp_m1(),
    })
}

/// Probability that the largest absolute value of a Brownian bridge exceeds `x`.
fn kolmogorov_tail(x: f64) -> f64 {
    if x < 0.2 {
        return 1.0;
    }
    let term = |k: i32| {
        let sign = if k % 2 == 1 { 2.0 } else { -2.0 };
        sign * (-2.0 * f64::from(k * k) * x * x).exp()
    };
    (1..=100).map(term).sum::<f64>().clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix;

    /// A pass of correlated block times around a level that depends on the block.
    fn pass(seed: u64, blocks: usize, level: impl Fn(usize) -> f64) -> Vec<f64> {
        let mut random = SplitMix::new(seed);
        let mut state = 0.0;
        (0..blocks)
            .map(|block| {
                state = 0.3 * state + 0.05 * random.normal();
                level(block) + state
            })
            .collect()
    }

    #[test]
    fn tail_is_that_of_kolmogorov() {
        // Smirnov's table: 1.3581 at 5 %, 1.6276 at 1 %.
        assert!((kolmogorov_tail(1.3581) - 0.05).abs() < 1e-4);
        assert!((kolmogorov_tail(1.6276) - 0.01).abs() < 1e-4);
        assert_eq!(kolmogorov_tail(0.0), 1.0);
    }

    #[test]
    fn steady_passes_are_seldom_doubted() {
        let doubted = (0..400).filter(|seed| {
            let found = steadiness(&pass(*seed, 200, |_| -3.0)).unwrap();
            found.p_value < 0.01
        });
        let doubted = doubted.count();
        // The chance is about 1 %, a little more by the correlation that segments leave.
        assert!(doubted <= 12, "{doubted} of 400");
    }

    #[test]
    fn a_shift_is_found_where_it_is() {
        let found = steadiness(&pass(1, 200, |block| if block < 60 { 0.1 } else { 0.0 })).unwrap();
        assert!(
            found.p_value < 1e-3 && (50..=70).contains(&found.change_at),
            "{found:?}"
        );
        assert!((found.relative - (-0.1f64).exp_m1()).abs() < 0.03);
    }

    #[test]
    fn a_trend_is_found() {
        let found = steadiness(&pass(2, 200, |block| -0.001 * block as f64)).unwrap();
        assert!(found.p_value < 1e-3 && found.relative < -0.05, "{found:?}");
    }

    #[test]
    fn few_blocks_say_nothing() {
        assert_eq!(steadiness(&[1.0; 19]), None);
        assert_eq!(steadiness(&[1.0; 20]).map(|found| found.p_value), Some(1.0));
    }
}
