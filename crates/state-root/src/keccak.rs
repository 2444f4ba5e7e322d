//! keccak-256 of many inputs at once: eight side by side where the processor can.
//!
//! Hashing is most of the arithmetic of a state root, and a trie's level, or a message's keys, are
//! independent inputs. Eight permutations in the lanes of AVX-512 registers take hardly longer than
//! one on its own. Where the processor has no such registers each input is hashed alone; the
//! hashes are the same.

use alloy_primitives::{B256, keccak256};

/// Bytes of input in one permutation.
const RATE: usize = 136;
/// The same in words of 64 bits.
const RATE_WORDS: usize = RATE / 8;
/// Inputs side by side.
const LANES: usize = 8;
/// How much longer a permutation of all lanes takes than one alone, rounded: fewer inputs are hashed
/// one after another.
const COST_OF_LANES: usize = 2;

/// Inputs of any lengths, one after another.
#[derive(Debug, Default)]
pub(crate) struct Inputs {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Inputs {
    /// Where the next input is to be appended. [`Inputs::end`] ends it.
    pub(crate) fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Ends the input that was appended.
    pub(crate) fn end(&mut self) {
        self.ends.push(self.bytes.len());
    }

    /// What was appended and not ended.
    pub(crate) fn open(&self) -> &[u8] {
        &self.bytes[self.ends.last().copied().unwrap_or(0)..]
    }

    /// Drops what was appended and not ended.
    pub(crate) fn discard_open(&mut self) {
        self.bytes.truncate(self.ends.last().copied().unwrap_or(0));
    }

    /// How many inputs there are.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Drops all inputs but the first `len`.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.ends.truncate(len);
        self.discard_open();
    }

    pub(crate) fn push(&mut self, input: &[u8]) {
        self.bytes.extend_from_slice(input);
        self.end();
    }

    /// Bytes of memory that it has.
    pub(crate) fn capacity(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * size_of::<usize>()
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    fn get(&self, index: usize) -> &[u8] {
        let from = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[from..self.ends[index]]
    }

    /// The hashes of all inputs, in order.
    pub(crate) fn hashes(&self) -> Vec<B256> {
        let mut hashes = vec![B256::ZERO; self.ends.len()];
        if !has_lanes() {
            for (index, hash) in hashes.iter_mut().enumerate() {
                *hash = keccak256(self.get(index));
            }
            return hashes;
        }
        let mut order: Vec<_> = (0..hashes.len()).collect();
        order.sort_unstable_by_key(|&index| self.blocks(index));
        for group in order.rchunks(LANES) {
            self.hash_group(group, &mut hashes);
        }
        hashes
    }

    /// Permutations that an input takes.
    fn blocks(&self, index: usize) -> usize {
        self.get(index).len() / RATE + 1
    }

    /// Hashes no more inputs than there are lanes, the shortest first: side by side where that is
    /// less work than one after another.
    fn hash_group(&self, group: &[usize], hashes: &mut [B256]) {
        let alone: usize = group.iter().map(|&index| self.blocks(index)).sum();
        let together = group.last().map_or(0, |&index| self.blocks(index));
        if alone < COST_OF_LANES * together {
            for &index in group {
                hashes[index] = keccak256(self.get(index));
            }
            return;
        }
        let mut states = [[0; LANES]; 25];
        let mut done = 0;
        for block in 0..together {
            for (lane, &index) in group.iter().enumerate().skip(done) {
                absorb(&mut states, lane, self.get(index), block);
            }
            permute_lanes(&mut states);
            while let Some(&index) = group.get(done)
                && self.blocks(index) == block + 1
            {
                hashes[index] = digest(&states, done);
                done += 1;
            }
        }
    }
}

/// Eight states side by side: word by word.
type States = [[u64; LANES]; 25];

/// Adds one block of an input, padded when it is the last, to the state of a lane.
fn absorb(states: &mut States, lane: usize, input: &[u8], block: usize) {
    let rest = &input[block * RATE..];
    let mut padded = [0; RATE];
    let bytes = match rest.get(..RATE) {
        Some(whole) => whole,
        None => {
            padded[..rest.len()].copy_from_slice(rest);
            padded[rest.len()] ^= 0x01;
            padded[RATE - 1] ^= 0x80;
            &padded
        }
    };
    let (words, _) = bytes.as_chunks::<8>();
    for (word, bytes) in words.iter().enumerate().take(RATE_WORDS) {
        states[word][lane] ^= u64::from_le_bytes(*bytes);
    }
}

/// What the state of a lane begins with: the hash, after the last block.
fn digest(states: &States, lane: usize) -> B256 {
    let mut hash = B256::ZERO;
    for (bytes, word) in hash.chunks_exact_mut(8).zip(states) {
        bytes.copy_from_slice(&word[lane].to_le_bytes());
    }
    hash
}

#[cfg(target_arch = "x86_64")]
fn has_lanes() -> bool {
    std::arch::is_x86_feature_detected!("avx512f")
}

#[cfg(not(target_arch = "x86_64"))]
fn has_lanes() -> bool {
    false
}

#[cfg(target_arch = "x86_64")]
fn permute_lanes(states: &mut States) {
    if has_lanes() {
        // SAFETY: the processor has AVX-512F, the one feature the function is compiled for.
        unsafe { lanes::permute(states) }
    }
}

/// Never called: nothing is hashed side by side here.
#[cfg(not(target_arch = "x86_64"))]
fn permute_lanes(_: &mut States) {}

#[cfg(target_arch = "x86_64")]
mod lanes {
    //! `keccak-f[1600]` (FIPS 202, section 3.3) on eight states at once.

    use super::{LANES, States};
    use std::arch::x86_64::{
        __m512i, _mm512_loadu_si512, _mm512_rolv_epi64, _mm512_set1_epi64, _mm512_setzero_si512,
        _mm512_storeu_si512, _mm512_ternarylogic_epi64, _mm512_xor_si512,
    };

    /// Bits by which rho turns each word, at x + 5y.
    const ROTATIONS: [i64; 25] = rotations();
    /// What iota adds to the first word, round by round.
    const ROUND_CONSTANTS: [u64; 24] = round_constants();

    const XOR3: i32 = 0x96;
    /// a ^ (!b & c).
    const CHI: i32 = 0xd2;

    const fn rotations() -> [i64; 25] {
        let mut rotations = [0; 25];
        let (mut x, mut y) = (1, 0);
        let mut step: i64 = 0;
        while step < 24 {
            rotations[x + 5 * y] = (step + 1) * (step + 2) / 2 % 64;
            (x, y) = (y, (2 * x + 3 * y) % 5);
            step += 1;
        }
        rotations
    }

    const fn round_constants() -> [u64; 24] {
        let mut constants = [0; 24];
        let mut register: u8 = 1;
        let mut round = 0;
        while round < 24 {
            let mut bit = 0;
            while bit < 7 {
                if register & 1 == 1 {
                    constants[round] |= 1 << ((1_u32 << bit) - 1);
                }
                let carry = register >> 7;
                register = (register << 1) ^ (carry * 0x71);
                bit += 1;
            }
            round += 1;
        }
        constants
    }

    /// Permutes each of the states.
    #[target_feature(enable = "avx512f")]
    pub(super) fn permute(states: &mut States) {
        let mut a = [_mm512_setzero_si512(); 25];
        for (word, state) in a.iter_mut().zip(states.iter()) {
            let state: &[u64; LANES] = state;
            // SAFETY: eight words are as long as the register; the load needs no alignment.
            *word = unsafe { _mm512_loadu_si512(state.as_ptr().cast()) };
        }
        for constant in ROUND_CONSTANTS {
            a = round(&a, constant);
        }
        for (word, state) in a.iter().zip(states.iter_mut()) {
            // SAFETY: eight words are as long as the register; the store needs no alignment.
            unsafe { _mm512_storeu_si512(state.as_mut_ptr().cast(), *word) };
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn round(a: &[__m512i; 25], constant: u64) -> [__m512i; 25] {
        let zero = _mm512_setzero_si512();
        let mut parity = [zero; 5];
        for x in 0..5 {
            let three = _mm512_ternarylogic_epi64::<XOR3>(a[x], a[x + 5], a[x + 10]);
            parity[x] = _mm512_ternarylogic_epi64::<XOR3>(three, a[x + 15], a[x + 20]);
        }
        let one = _mm512_set1_epi64(1);
        let mut b = [zero; 25];
        for x in 0..5 {
            let turned = _mm512_rolv_epi64(parity[(x + 1) % 5], one);
            for y in 0..5 {
                let from = x + 5 * y;
                let theta = _mm512_ternarylogic_epi64::<XOR3>(a[from], parity[(x + 4) % 5], turned);
                let to = y + 5 * ((2 * x + 3 * y) % 5);
                b[to] = _mm512_rolv_epi64(theta, _mm512_set1_epi64(ROTATIONS[from]));
            }
        }
        let mut next = [zero; 25];
        for y in 0..5 {
            for x in 0..5 {
                let (this, after) = (b[(x + 1) % 5 + 5 * y], b[(x + 2) % 5 + 5 * y]);
                next[x + 5 * y] = _mm512_ternarylogic_epi64::<CHI>(b[x + 5 * y], this, after);
            }
        }
        next[0] = _mm512_xor_si512(next[0], _mm512_set1_epi64(constant as i64));
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*};

    #[test]
    fn every_length_around_the_blocks() {
        if !has_lanes() {
            return testkit::skip_without_cpu_feature("AVX-512F");
        }
        let mut inputs = Inputs::default();
        let lengths = || (0..=3 * RATE + 2).flat_map(|len| [len, len, len / 2]);
        let input = |at: usize, len: usize| vec![(at % 251) as u8; len];
        for (at, len) in lengths().enumerate() {
            inputs.push(&input(at, len));
        }
        let hashes = inputs.hashes();
        for ((at, len), hash) in lengths().enumerate().zip(hashes) {
            assert_eq!(hash, keccak256(input(at, len)), "{len} bytes");
        }
    }

    proptest! {
        #[test]
        fn hashes_are_those_of_each_alone(texts in vec(vec(any::<u8>(), 0..700), 0..40)) {
            let mut inputs = Inputs::default();
            texts.iter().for_each(|text| inputs.push(text));
            let alone: Vec<_> = texts.iter().map(keccak256).collect();
            prop_assert_eq!(inputs.hashes(), alone);
            inputs.clear();
            prop_assert!(inputs.hashes().is_empty());
        }
    }
}
