//! Seeded choices. Invariant: equal seeds give equal choices on every machine.

use alloy_primitives::{Address, Bytes, U256};
use workload::random::{Domain, Draws};

/// A stream of choices.
#[derive(Debug, Clone)]
pub(crate) struct Dice(Draws);

impl Dice {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(Draws::new(seed, Domain::Mix))
    }

    /// A number below `limit`.
    pub(crate) const fn below(&mut self, limit: usize) -> usize {
        self.0.below(limit as u64) as usize
    }

    /// A number of `low..=high`.
    pub(crate) const fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high + 1 - low)
    }

    pub(crate) const fn number(&mut self) -> u64 {
        self.0.number()
    }

    /// True `percent` times in a hundred.
    pub(crate) const fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of `choices`, which are not empty.
    pub(crate) fn pick<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())].clone()
    }

    pub(crate) fn bytes(&mut self, length: usize) -> Vec<u8> {
        let words = (0..length.div_ceil(8)).flat_map(|_| self.number().to_be_bytes());
        let mut bytes: Vec<u8> = words.collect();
        bytes.truncate(length);
        bytes
    }

    pub(crate) fn blob(&mut self, low: usize, high: usize) -> Bytes {
        let length = self.between(low, high);
        self.bytes(length).into()
    }

    pub(crate) fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut array = [0; N];
        array.copy_from_slice(&self.bytes(N));
        array
    }

    pub(crate) fn address(&mut self) -> Address {
        Address::new(self.array())
    }

    /// A word of the kind that programs stumble over, or any.
    pub(crate) fn word(&mut self) -> U256 {
        let small = U256::from(self.below(40));
        match self.below(8) {
            0..4 => small,
            4 => (U256::ONE << self.below(256)).wrapping_sub(U256::from(self.below(2))),
            5 => U256::MAX.wrapping_sub(small),
            6 => U256::from(self.number()),
            _ => U256::from_be_bytes(self.array::<32>()),
        }
    }
}
