//! A seeded generator of random numbers, the same on every machine.
//!
//! Invariant: a seed determines every number, so that an order of visits and a bootstrap interval
//! can be remade anywhere.

/// Steele, Lea and Flood's SplitMix64 ("Fast Splittable Pseudorandom Number Generators", 2014):
/// enough to shuffle cells and to resample rounds.
#[derive(Debug, Clone)]
pub struct SplitMix(u64);

impl SplitMix {
    /// A generator that starts from a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number under `bound`, without favouring any (multiply and shift on 128 bits; the bias of
    /// at most `bound / 2^64` is far below what anyone could see).
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// A number from 0 up to, not including, 1.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A draw of the standard normal distribution (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// Puts the items into a random order (Fisher and Yates, from the end).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_its_reference() {
        // First outputs of the authors' splitmix64.c for seed 1234567.
        let mut random = SplitMix::new(1_234_567);
        let outputs = [random.bits(), random.bits(), random.bits()];
        assert_eq!(
            outputs,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
    }

    #[test]
    fn normal_draws_have_mean_zero_and_variance_one() {
        let mut random = SplitMix::new(5);
        let draws: Vec<f64> = (0..20_000).map(|_| random.normal()).collect();
        let moment = |power| draws.iter().map(|x: &f64| x.powi(power)).sum::<f64>() / 20_000.0;
        // Four standard errors: sqrt(1/n), sqrt(2/n), sqrt(96/n).
        assert!(moment(1).abs() < 0.03, "{}", moment(1));
        assert!((moment(2) - 1.0).abs() < 0.04, "{}", moment(2));
        assert!((moment(4) - 3.0).abs() < 0.28, "{}", moment(4));
    }
}
