//! Pseudo-random numbers as a pure function of a seed and a place.
//!
//! Invariant: integers only, so that every machine draws the same numbers. Nothing here is secret.

/// What a number is drawn for; equal places in different domains are unrelated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum Domain {
    /// Addresses of externally owned accounts.
    Account = 1,
    /// Balances and nonces.
    Balance,
    /// Addresses of tokens, pairs, touchers, counters and the whale.
    Contract,
    /// Slot values.
    Slot,
    /// Choices of the transaction mixes.
    Mix,
    /// Addresses that do not exist in the base state.
    Fresh,
}

/// A 64-bit number for one place.
pub const fn draw(seed: u64, domain: Domain, index: u64, lane: u64) -> u64 {
    let state = scramble(seed ^ scramble(domain as u64));
    let state = scramble(state ^ scramble(index.wrapping_add(0x517c_c1b7_2722_0a95)));
    scramble(state ^ lane.wrapping_mul(0x2545_f491_4f6c_dd1d))
}

/// Twenty bytes for one place, for use as an address.
pub fn draw_address(seed: u64, domain: Domain, index: u64) -> alloy_primitives::Address {
    let mut bytes = [0; 24];
    for (lane, chunk) in bytes.chunks_exact_mut(8).enumerate() {
        chunk.copy_from_slice(&draw(seed, domain, index, lane as u64).to_be_bytes());
    }
    alloy_primitives::Address::from_slice(&bytes[..20])
}

/// The output function of SplitMix64 (Steele, Lea, Flood 2014) after one step of its counter.
const fn scramble(value: u64) -> u64 {
    let z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A sequence of draws from one domain.
#[derive(Debug, Clone)]
pub struct Draws {
    seed: u64,
    domain: Domain,
    next: u64,
}

impl Draws {
    /// The sequence of `domain` from its beginning.
    pub const fn new(seed: u64, domain: Domain) -> Self {
        Self {
            seed,
            domain,
            next: 0,
        }
    }

    /// The next number.
    pub const fn number(&mut self) -> u64 {
        let value = draw(self.seed, self.domain, self.next, 0);
        self.next += 1;
        value
    }

    /// A number below `limit`, each equally likely; 0 when `limit` is 0.
    pub const fn below(&mut self, limit: u64) -> u64 {
        // The bias of the multiplication is at most limit / 2^64.
        ((self.number() as u128 * limit as u128) >> 64) as u64
    }

    /// A rank below `limit`, where rank k is about half as likely as rank k/2 (Zipf, exponent 1).
    ///
    /// An octave is drawn first and a rank within it second, which keeps to integers; a draw past
    /// `limit` is repeated.
    pub const fn zipf(&mut self, limit: u64) -> u64 {
        if limit <= 1 {
            return 0;
        }
        let octaves = (limit.ilog2() + 1) as u64;
        loop {
            let first = 1 << self.below(octaves);
            let rank = first + self.below(first);
            if rank <= limit {
                return rank - 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_depend_on_every_argument() {
        let base = draw(1, Domain::Slot, 2, 3);
        assert_eq!(base, draw(1, Domain::Slot, 2, 3));
        for other in [
            draw(2, Domain::Slot, 2, 3),
            draw(1, Domain::Mix, 2, 3),
            draw(1, Domain::Slot, 3, 3),
            draw(1, Domain::Slot, 2, 4),
        ] {
            assert_ne!(base, other);
        }
    }

    #[test]
    fn ranks_fall_off_and_stay_below_the_limit() {
        let mut draws = Draws::new(7, Domain::Mix);
        let mut counts = [0u32; 1000];
        for _ in 0..100_000 {
            counts[draws.zipf(1000) as usize] += 1;
        }
        // Ten octaves, the last one mostly present: rank 0 takes about a tenth of all draws.
        assert!((9_500..11_000).contains(&counts[0]), "{}", counts[0]);
        let octave = |from: usize| counts[from..2 * from + 1].iter().sum::<u32>();
        assert!(octave(1).abs_diff(octave(127)) < 1_000);
        assert!(counts[600..].iter().any(|&count| count > 0));
        assert_eq!(draws.zipf(0), 0);
        assert_eq!(draws.zipf(1), 0);
    }
}
