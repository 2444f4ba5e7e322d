//! Arithmetic modulo p = 2^256 - 2^32 - 977 (SEC 2, section 2.4.1) on eight numbers side by side.
//!
//! A number is five limbs of 52 bits, which leaves room above 256 bits: sums and differences are
//! reduced only where they would not fit. How large a number may be is counted in units of 2^256,
//! of which an [`Element`] holds less than 16; products hold 1 and a trifle.

use crate::LANES;
use alloy_primitives::{U256, uint};
use std::arch::x86_64::{
    __m512i, __mmask8, _mm512_add_epi64, _mm512_and_si512, _mm512_loadu_si512,
    _mm512_madd52hi_epu64, _mm512_madd52lo_epu64, _mm512_mask_blend_epi64, _mm512_set1_epi64,
    _mm512_setzero_si512, _mm512_slli_epi64, _mm512_srai_epi64, _mm512_srli_epi64,
    _mm512_storeu_si512, _mm512_sub_epi64,
};

/// p.
pub(crate) const MODULUS: U256 =
    uint!(0xfffffffffffffffffffffffffffffffffffffffffffffffffffffffefffffc2f_U256);
/// Limbs of a number.
pub(crate) const LIMBS: usize = 5;
/// Bits of a limb.
const LIMB_BITS: u32 = 52;
/// Bits of a number below 2^256 in the last limb.
const LAST_BITS: u32 = 256 - 4 * LIMB_BITS;
const MASK: u64 = (1 << LIMB_BITS) - 1;
/// 2^256 modulo p.
const FOLD: u64 = (1 << 32) + 977;

/// Eight numbers, limb by limb.
pub(crate) type Words = [[u64; LANES]; LIMBS];

/// Eight numbers whose limbs have no more than 52 bits.
#[derive(Clone, Copy)]
pub(crate) struct Element(pub(crate) [__m512i; LIMBS]);

/// Sums of limbs, which may have more bits or be negative until they are carried. The whole is neither
/// negative nor as large as 16 units.
#[derive(Clone, Copy)]
pub(crate) struct Sum([__m512i; LIMBS]);

/// The limbs of a number.
pub(crate) fn limbs_of(number: &U256) -> [u64; LIMBS] {
    let [a, b, c, d] = *number.as_limbs();
    [
        a & MASK,
        (a >> 52 | b << 12) & MASK,
        (b >> 40 | c << 24) & MASK,
        (c >> 28 | d << 36) & MASK,
        d >> 16,
    ]
}

/// The number modulo p that limbs of an [`Element`] stand for.
fn number_of(limbs: [u64; LIMBS]) -> U256 {
    let [a, b, c, d, e] = limbs;
    let low = U256::from_limbs([
        a | b << 52,
        b >> 12 | c << 40,
        c >> 24 | d << 28,
        d >> 36 | e << 16,
    ]);
    let above = U256::from((e >> LAST_BITS) * FOLD);
    let (sum, overflows) = low.overflowing_add(above);
    let reduced = if overflows {
        sum + U256::from(FOLD)
    } else {
        sum
    };
    if reduced >= MODULUS {
        reduced - MODULUS
    } else {
        reduced
    }
}

/// `k` times p, limb by limb.
const fn multiple(k: u64) -> [u64; LIMBS] {
    let one = [MASK - FOLD + 1, MASK, MASK, MASK, (1 << LAST_BITS) - 1];
    let mut limbs = [0; LIMBS];
    let (mut at, mut carry) = (0, 0);
    while at < LIMBS {
        let sum = one[at] * k + carry;
        limbs[at] = sum & MASK;
        carry = sum >> LIMB_BITS;
        at += 1;
    }
    limbs
}

impl Element {
    /// The same number eight times.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(crate) fn splat(number: &U256) -> Self {
        let mut element = [_mm512_setzero_si512(); LIMBS];
        for (register, limb) in element.iter_mut().zip(limbs_of(number)) {
            *register = _mm512_set1_epi64(limb.cast_signed());
        }
        Self(element)
    }

    /// Eight numbers.
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(crate) fn of(numbers: &[U256; LANES]) -> Self {
        let mut words = Words::default();
        for (lane, number) in numbers.iter().enumerate() {
            for (word, limb) in words.iter_mut().zip(limbs_of(number)) {
                word[lane] = limb;
            }
        }
        let mut element = [_mm512_setzero_si512(); LIMBS];
        for (register, word) in element.iter_mut().zip(&words) {
            // SAFETY: eight words are as long as the register; the load needs no alignment.
            *register = unsafe { _mm512_loadu_si512(word.as_ptr().cast()) };
        }
        Self(element)
    }

    /// The limbs, to be looked up.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(crate) fn words(&self) -> Words {
        let mut words = Words::default();
        for (word, register) in words.iter_mut().zip(&self.0) {
            // SAFETY: eight words are as long as the register; the store needs no alignment.
            unsafe { _mm512_storeu_si512(word.as_mut_ptr().cast(), *register) };
        }
        words
    }

    /// The numbers modulo p.
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(crate) fn numbers(&self) -> [U256; LANES] {
        let words = self.words();
        std::array::from_fn(|lane| number_of(words.map(|word| word[lane])))
    }

    /// The same, to be added to.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(crate) fn sum(self) -> Sum {
        Sum(self.0)
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(crate) fn times(&self, other: &Self) -> Self {
        let mut columns = [_mm512_setzero_si512(); 2 * LIMBS];
        for i in 0..LIMBS {
            for j in 0..LIMBS {
                multiply_add(&mut columns, i + j, self.0[i], other.0[j]);
            }
        }
        reduce(columns)
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(crate) fn squared(&self) -> Self {
        let mut columns = [_mm512_setzero_si512(); 2 * LIMBS];
        for i in 0..LIMBS {
            for j in i + 1..LIMBS {
                multiply_add(&mut columns, i + j, self.0[i], self.0[j]);
            }
        }
        for column in &mut columns {
            *column = _mm512_add_epi64(*column, *column);
        }
        for i in 0..LIMBS {
            multiply_add(&mut columns, 2 * i, self.0[i], self.0[i]);
        }
        reduce(columns)
    }

    /// Squared so many times.
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn squared_times(&self, times: usize) -> Self {
        let mut power = *self;
        for _ in 0..times {
            power = power.squared();
        }
        power
    }

    /// Powers whose exponents are ones in binary: 2, 22 and 223 of them. Both p - 2 and (p + 1) / 4
    /// begin with 223 ones, a zero and 22 ones.
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn ones(&self) -> [Self; 3] {
        let two = self.squared().times(self);
        let three = two.squared().times(self);
        let six = three.squared_times(3).times(&three);
        let nine = six.squared_times(3).times(&three);
        let eleven = nine.squared_times(2).times(&two);
        let twenty_two = eleven.squared_times(11).times(&eleven);
        let forty_four = twenty_two.squared_times(22).times(&twenty_two);
        let eighty_eight = forty_four.squared_times(44).times(&forty_four);
        let twice = eighty_eight.squared_times(88).times(&eighty_eight);
        let most = twice.squared_times(44).times(&forty_four);
        let all = most.squared_times(3).times(&three);
        [two, twenty_two, all]
    }

    /// One divided by it; 0 for 0. It is the power p - 2 (Fermat), whose last ten bits are 0000101101.
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(crate) fn inverted(&self) -> Self {
        let [two, twenty_two, all] = self.ones();
        let begins = all.squared_times(23).times(&twenty_two);
        let goes_on = begins.squared_times(5).times(self);
        let nearly = goes_on.squared_times(3).times(&two);
        nearly.squared_times(2).times(self)
    }

    /// One of the square roots, where there are any. It is the power (p + 1) / 4, since p is 3
    /// modulo 4; its last eight bits are 00001100.
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(crate) fn square_root(&self) -> Self {
        let [two, twenty_two, all] = self.ones();
        let begins = all.squared_times(23).times(&twenty_two);
        begins.squared_times(6).times(&two).squared_times(2)
    }
}

impl Sum {
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(crate) fn plus(mut self, other: Self) -> Self {
        for (limb, other) in self.0.iter_mut().zip(other.0) {
            *limb = _mm512_add_epi64(*limb, other);
        }
        self
    }

    /// The difference, and `K` times p, so that the whole is not negative: `other` holds no more than
    /// `K` - 1 units.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(crate) fn minus<const K: u64>(mut self, other: Self) -> Self {
        let multiple = const { multiple(K) };
        for ((limb, other), multiple) in self.0.iter_mut().zip(other.0).zip(multiple) {
            let difference = _mm512_sub_epi64(_mm512_set1_epi64(multiple.cast_signed()), other);
            *limb = _mm512_add_epi64(*limb, difference);
        }
        self
    }

    /// Times 2 to the power of `BITS`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(crate) fn shifted<const BITS: u32>(mut self) -> Self {
        for limb in &mut self.0 {
            *limb = _mm512_slli_epi64::<BITS>(*limb);
        }
        self
    }

    /// This one in the lanes that `mask` has a bit for, `other` elsewhere.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(crate) fn where_set(mut self, mask: __mmask8, other: Self) -> Self {
        for (limb, other) in self.0.iter_mut().zip(other.0) {
            *limb = _mm512_mask_blend_epi64(mask, other, *limb);
        }
        self
    }

    /// Brings every limb to 52 bits.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(crate) fn carried(self) -> Element {
        let mut limbs = self.0;
        let mask = _mm512_set1_epi64(MASK.cast_signed());
        for at in 1..LIMBS {
            let carry = _mm512_srai_epi64::<LIMB_BITS>(limbs[at - 1]);
            limbs[at] = _mm512_add_epi64(limbs[at], carry);
            limbs[at - 1] = _mm512_and_si512(limbs[at - 1], mask);
        }
        Element(limbs)
    }
}

/// Adds a product to the column `at`, and what has more than 52 bits to the next.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn multiply_add(columns: &mut [__m512i; 2 * LIMBS], at: usize, a: __m512i, b: __m512i) {
    columns[at] = _mm512_madd52lo_epu64(columns[at], a, b);
    columns[at + 1] = _mm512_madd52hi_epu64(columns[at + 1], a, b);
}

/// The columns of a product modulo p, less than 2^256 + 2^80. No column has more than 57 bits, and
/// the whole has no more than 520.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn reduce(mut columns: [__m512i; 2 * LIMBS]) -> Element {
    // The multiplications below take the low 52 bits of a column by themselves.
    for at in LIMBS + 1..2 * LIMBS {
        let carry = _mm512_srli_epi64::<LIMB_BITS>(columns[at - 1]);
        columns[at] = _mm512_add_epi64(columns[at], carry);
    }
    // 2^260 is 16 FOLD.
    let fold = _mm512_set1_epi64((FOLD << 4).cast_signed());
    let mut low = [_mm512_setzero_si512(); 2 * LIMBS];
    low[..LIMBS].copy_from_slice(&columns[..LIMBS]);
    for (at, &column) in columns[LIMBS..].iter().enumerate() {
        multiply_add(&mut low, at, column, fold);
    }
    let [a, b, c, d, e, above, ..] = low;
    let Element([a, b, c, d, e]) = Sum([a, b, c, d, e]).carried();
    // What is above 2^256 has less than 44 bits now.
    let over = _mm512_srli_epi64::<LAST_BITS>(e);
    let over = _mm512_add_epi64(over, _mm512_slli_epi64::<{ LIMB_BITS - LAST_BITS }>(above));
    let e = _mm512_and_si512(e, _mm512_set1_epi64((1 << LAST_BITS) - 1));
    let fold = _mm512_set1_epi64(FOLD.cast_signed());
    let a = _mm512_madd52lo_epu64(a, over, fold);
    let b = _mm512_madd52hi_epu64(b, over, fold);
    Sum([a, b, c, d, e]).carried()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::has_lanes;
    use proptest::prelude::*;

    /// What [`Element`]s may hold at most, limb by limb.
    const LARGEST: [u64; LIMBS] = [MASK; LIMBS];

    fn number() -> impl Strategy<Value = U256> {
        let edges = [
            U256::ZERO,
            U256::ONE,
            MODULUS - U256::ONE,
            MODULUS,
            U256::MAX,
        ];
        prop_oneof![
            any::<[u64; 4]>().prop_map(U256::from_limbs),
            proptest::sample::select(edges.to_vec()),
            any::<u64>().prop_map(U256::from),
            any::<u64>().prop_map(|small| MODULUS - U256::from(small)),
        ]
    }

    fn numbers() -> impl Strategy<Value = [U256; LANES]> {
        proptest::array::uniform8(number())
    }

    /// Runs the test where there are lanes, and skips it elsewhere.
    fn with_lanes(
        test: unsafe fn([U256; LANES], [U256; LANES]),
        a: [U256; LANES],
        b: [U256; LANES],
    ) {
        if has_lanes() {
            // SAFETY: the processor has the features.
            unsafe { test(a, b) }
        } else {
            testkit::skip_without_cpu_feature("AVX-512 IFMA");
        }
    }

    #[track_caller]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn assert_is(element: Element, expected: impl Fn(usize) -> U256) {
        for limbs in element.words() {
            assert!(limbs.iter().all(|limb| *limb <= MASK));
        }
        assert_eq!(element.numbers(), std::array::from_fn(expected));
    }

    #[target_feature(enable = "avx512f,avx512ifma")]
    fn products_and_sums(a: [U256; LANES], b: [U256; LANES]) {
        let (x, y) = (Element::of(&a), Element::of(&b));
        let less = |a: U256, b: U256| a.add_mod(MODULUS - b % MODULUS, MODULUS);
        assert_is(x, |n| a[n] % MODULUS);
        assert_is(x.times(&y), |n| a[n].mul_mod(b[n], MODULUS));
        assert_is(x.squared(), |n| a[n].mul_mod(a[n], MODULUS));
        assert_is(x.sum().plus(y.sum()).carried(), |n| {
            a[n].add_mod(b[n], MODULUS)
        });
        assert_is(x.sum().minus::<2>(y.sum()).carried(), |n| less(a[n], b[n]));
        let difference = x
            .sum()
            .shifted::<3>()
            .minus::<5>(y.sum().shifted::<2>())
            .carried();
        let expected = |n: usize| {
            let four = b[n].mul_mod(U256::from(4), MODULUS);
            less(a[n].mul_mod(U256::from(8), MODULUS), four)
        };
        assert_is(difference, expected);
        assert_is(difference.squared(), |n| {
            expected(n).mul_mod(expected(n), MODULUS)
        });
        let either = x.sum().where_set(0b1010_0110, y.sum()).carried();
        assert_is(either, |n| if 0b1010_0110 >> n & 1 == 1 { a[n] } else { b[n] } % MODULUS);
    }

    #[target_feature(enable = "avx512f,avx512ifma")]
    fn inverses_and_roots(a: [U256; LANES], _: [U256; LANES]) {
        let x = Element::of(&a);
        let inverse = |n: usize| (a[n] % MODULUS).inv_mod(MODULUS).unwrap_or_default();
        assert_is(x.inverted(), inverse);
        let square = x.squared();
        assert_is(square.square_root().squared(), |n| square.numbers()[n]);
    }

    #[target_feature(enable = "avx512f,avx512ifma")]
    fn largest(_: [U256; LANES], _: [U256; LANES]) {
        let mut limbs = [_mm512_setzero_si512(); LIMBS];
        for (register, limb) in limbs.iter_mut().zip(LARGEST) {
            *register = _mm512_set1_epi64(limb.cast_signed());
        }
        let largest = Element(limbs);
        let number = largest.numbers()[0];
        let two_to_the_260 = U256::from(FOLD << 4);
        assert_eq!(number, (two_to_the_260 - U256::ONE) % MODULUS);
        let square = number.mul_mod(number, MODULUS);
        assert_is(largest.squared(), |_| square);
        assert_is(largest.times(&largest), |_| square);
    }

    #[test]
    fn the_largest_limbs_do_not_overflow() {
        with_lanes(largest, [U256::ZERO; LANES], [U256::ZERO; LANES]);
    }

    #[test]
    fn multiples_cover_what_is_subtracted() {
        for k in 2..15 {
            let largest = U256::from((k - 1) << LAST_BITS) + U256::ONE;
            assert_eq!(number_of(multiple(k)), U256::ZERO);
            assert!(U256::from(multiple(k)[4]) > largest, "{k}");
        }
    }

    proptest! {
        #[test]
        fn arithmetic_is_that_of_big_numbers(a in numbers(), b in numbers()) {
            with_lanes(products_and_sums, a, b);
        }

        #[test]
        fn inverses_and_roots_are_those_of_big_numbers(a in numbers()) {
            with_lanes(inverses_and_roots, a, a);
        }
    }
}
