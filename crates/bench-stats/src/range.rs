//! The studentized range: how far apart the extremes of equal means lie by chance.
//!
//! With it all pairs of cells of a level are compared at once (Tukey): the chance that any of the
//! intervals misses its true value is the stated one, not that chance times the number of pairs.
//!
//! Invariant: for two means the quantile is √2 times that of Student's t.

use statrs::{distribution::ContinuousCDF as _, distribution::Normal, function::gamma::ln_gamma};

/// Grid of the inner integral's argument.
const STEP: f64 = 0.025;
/// Beyond this range of standard normal variables the probability of more is below 1e-16.
const WIDEST: f64 = 24.0;
/// Grid of the inner integral; the trapezoidal rule converges geometrically on a normal density.
const NORMAL_STEP: f64 = 0.2;
/// Where the normal density is cut off.
const NORMAL_END: f64 = 8.0;
/// Points of the outer integral.
const SCALES: usize = 100;

/// The distribution of the range of `k` normal means, divided by an independent estimate of their
/// standard error.
#[derive(Debug, Clone)]
pub struct StudentizedRange {
    /// Probability that the range of `k` standard normals is at most `index * STEP`.
    table: Vec<f64>,
}

impl StudentizedRange {
    /// For `means` means, at least two.
    pub fn new(means: usize) -> Self {
        let normal = Normal::standard();
        let ratio = (NORMAL_STEP / STEP).round() as usize;
        let (points, end) = (
            (2.0 * NORMAL_END / NORMAL_STEP).round() as usize,
            NORMAL_END,
        );
        // Every argument of the distribution function is a multiple of STEP: one table serves all.
        let widths = (WIDEST / STEP) as usize;
        let lowest = -(widths as f64) * STEP - end;
        let below: Vec<f64> = (0..=widths + points * ratio)
            .map(|index| normal.cdf(lowest + index as f64 * STEP))
            .collect();
        let density = |point: usize| {
            let z = point as f64 * NORMAL_STEP - end;
            (-z * z / 2.0).exp() / std::f64::consts::TAU.sqrt()
        };
        let densities: Vec<f64> = (0..=points).map(density).collect();
        let k = means.max(2) as i32;
        let of_width = |width: usize| {
            let at = (widths..).step_by(ratio);
            let terms = at
                .zip(&densities)
                .map(|(at, density)| density * (below[at] - below[at - width]).powi(k - 1));
            (terms.sum::<f64>() * NORMAL_STEP * f64::from(k)).min(1.0)
        };
        Self {
            table: (0..=widths).map(of_width).collect(),
        }
    }

    /// Probability that the studentized range is at most `q`, the standard error being estimated
    /// with `freedom` degrees of freedom.
    pub fn cdf(&self, q: f64, freedom: f64) -> f64 {
        // Integrated over the logarithm of the scale s, where s² · freedom is chi-squared.
        let spread = 10.0 / (2.0 * freedom).sqrt();
        let (from, to) = (-spread - 20.0 / freedom, spread.min(3.0));
        let step = (to - from) / SCALES as f64;
        let half = freedom / 2.0;
        let constant = std::f64::consts::LN_2 + half * half.ln() - ln_gamma(half);
        let at = |index: usize| {
            let x = from + index as f64 * step;
            let scale = x.exp();
            (constant + freedom * x - half * scale * scale).exp() * self.of_range(q * scale)
        };
        ((0..=SCALES).map(at).sum::<f64>() * step).clamp(0.0, 1.0)
    }

    /// The studentized range that is exceeded with probability `1 - probability`.
    pub fn quantile(&self, probability: f64, freedom: f64) -> f64 {
        let (mut low, mut high) = (0.0, 8.0);
        while self.cdf(high, freedom) < probability && high < 1e6 {
            (low, high) = (high, 2.0 * high);
        }
        for _ in 0..26 {
            let middle = (low + high) / 2.0;
            if self.cdf(middle, freedom) < probability {
                low = middle;
            } else {
                high = middle;
            }
        }
        (low + high) / 2.0
    }

    fn of_range(&self, width: f64) -> f64 {
        let position = width / STEP;
        let below = position as usize;
        match (self.table.get(below), self.table.get(below + 1)) {
            (Some(low), Some(high)) => low + (high - low) * (position - below as f64),
            _ => 1.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use statrs::distribution::StudentsT;

    #[test]
    fn two_means_are_students_t() {
        let range = StudentizedRange::new(2);
        for freedom in [1.0, 2.0, 5.0, 30.0, 500.0] {
            for probability in [0.5, 0.95, 0.99, 0.999] {
                let t = StudentsT::new(0.0, 1.0, freedom).unwrap();
                let expected = 2f64.sqrt() * t.inverse_cdf((1.0 + probability) / 2.0);
                let found = range.quantile(probability, freedom);
                assert!(
                    (found / expected - 1.0).abs() < 1e-3,
                    "{freedom} {probability}: {found} {expected}"
                );
            }
        }
    }

    #[test]
    fn matches_published_tables() {
        // Upper points of the studentized range (Harter, "Tables of Range and Studentized Range",
        // 1960): probability, means, degrees of freedom, value.
        for (probability, means, freedom, expected) in [
            (0.95, 3, 2.0, 8.331),
            (0.95, 3, 10.0, 3.877),
            (0.95, 4, 6.0, 4.896),
            (0.95, 5, 20.0, 4.232),
            (0.95, 8, 30.0, 4.601),
            (0.95, 10, 60.0, 4.646),
            (0.99, 3, 10.0, 5.270),
            (0.99, 5, 20.0, 5.294),
        ] {
            let found = StudentizedRange::new(means).quantile(probability, freedom);
            assert!(
                (found - expected).abs() < 2e-3,
                "{probability} {means} {freedom}: {found}, not {expected}"
            );
        }
    }
}
