//! Points of secp256k1, y² = x³ + 7 (SEC 2, section 2.4.1), eight side by side.
//!
//! A point (x, y) is the triple (X, Y, Z) with x = X / Z² and y = Y / Z³. The formulas do not cover
//! the sum of a point with itself or with its negative, and no formula covers the point at
//! infinity; such a step leaves a Z of zero, and all later ones keep it. So the end tells whether
//! the sum is right.
//!
//! How large coordinates are, in units of 2^256, is noted beside them (see [`crate::field`]).

use crate::{
    LANES,
    field::{Element, LIMBS, MODULUS, limbs_of},
    scalar::{Digit, Digits, Factors},
};
use alloy_primitives::{U256, uint};
use std::{
    arch::x86_64::{
        __m512i, __mmask8, _mm512_add_epi64, _mm512_and_si512, _mm512_i64gather_epi64,
        _mm512_loadu_si512, _mm512_mul_epu32, _mm512_set1_epi64, _mm512_setr_epi64,
        _mm512_setzero_si512,
    },
    sync::LazyLock,
};

/// The generator (SEC 2, section 2.4.1).
const GENERATOR: [U256; 2] = [
    uint!(0x79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798_U256),
    uint!(0x483ada7726a3c4655da4fbfc0e1108a8fd17b448a68554199c47d08ffb10d4b8_U256),
];
/// β with λ(x, y) = (βx, y); β³ is one.
const BETA: U256 = uint!(0x7ae96a2b657c07106e64479eac3434e99cf0497512f58995c1396c28719501ee_U256);

/// Bits of a digit by which R is multiplied.
const BITS_OF_R: usize = 5;
/// Bits of a digit by which the generator is multiplied: its table is made once.
const BITS_OF_GENERATOR: usize = 10;

/// Digits of R's for one of the generator's.
const DIGITS_APART: usize = BITS_OF_GENERATOR / BITS_OF_R;

type DigitsOfR = Digits<BITS_OF_R>;
type DigitsOfGenerator = Digits<BITS_OF_GENERATOR>;

/// A point by two coordinates.
#[derive(Clone, Copy)]
pub(crate) struct Affine {
    pub(crate) x: Element,
    pub(crate) y: Element,
}

/// A point by three coordinates: x holds up to 6 units, y up to 4, z up to 2.
#[derive(Clone, Copy)]
pub(crate) struct Jacobian {
    pub(crate) x: Element,
    pub(crate) y: Element,
    pub(crate) z: Element,
}

impl Affine {
    /// The negative of the point, in the lanes that `negative` has a bit for.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(crate) fn negated(self, negative: __mmask8) -> Self {
        let minus = Element::splat(&U256::ZERO).sum().minus::<2>(self.y.sum());
        let y = minus.where_set(negative, self.y.sum()).carried(); // 2
        Self { x: self.x, y }
    }
}

impl Jacobian {
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn of(point: &Affine) -> Self {
        Self {
            x: point.x,
            y: point.y,
            z: Element::splat(&U256::ONE),
        }
    }

    /// Doubles the point: with M = 3X², U = 2Y² and S = XU, X' = M² - 4S, Y' = M(2S - X') - 2U², Z' = 2YZ.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn double(&mut self) {
        let square = self.x.squared().sum();
        let m = square.plus(square.shifted::<1>()).carried(); // 3
        let u = self.y.squared().sum().shifted::<1>().carried(); // 2
        let s = self.x.times(&u).sum();
        self.z = self.y.times(&self.z).sum().shifted::<1>().carried(); // 2
        self.x = m.squared().sum().minus::<5>(s.shifted::<2>()).carried(); // 6
        let t = s.shifted::<1>().minus::<7>(self.x.sum()).carried(); // 9
        let uu = u.squared().sum().shifted::<1>();
        self.y = m.times(&t).sum().minus::<3>(uu).carried(); // 4
    }

    /// Adds another point, or, in the lanes that `negative` has a bit for, takes it away; answers by what Z
    /// was multiplied. `z` is that of this point, or what the other one's coordinates take for it. With
    /// (x, y) for the other one, H = xz² - X, R = yz³ - Y and V = XH², X' = R² - H³ - 2V, Y' = R(V - X') - YH³,
    /// Z' = ZH.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn add(&mut self, other: &Affine, negative: __mmask8, z: &Element) -> Element {
        let zz = z.squared();
        let x = other.x.times(&zz).sum();
        let y = other.y.times(&zz.times(z)).sum();
        let zero = Element::splat(&U256::ZERO).sum();
        let y = zero.minus::<2>(y).where_set(negative, y); // 2
        let h = x.minus::<7>(self.x.sum()).carried(); // 8
        let r = y.minus::<5>(self.y.sum()).carried(); // 7
        let hh = h.squared();
        let hhh = h.times(&hh);
        let v = self.x.times(&hh).sum();
        let both = hhh.sum().plus(v.shifted::<1>());
        self.z = self.z.times(&h);
        self.x = r.squared().sum().minus::<4>(both).carried(); // 5
        let t = v.minus::<6>(self.x.sum()).carried(); // 7
        let below = self.y.times(&hhh).sum();
        self.y = r.times(&t).sum().minus::<2>(below).carried(); // 3
        h
    }
}

/// Coordinates of an entry: x and y of a multiple, and x of λ times it.
const COORDINATES: usize = 3;
const X: usize = 0;
const X_WITH_LAMBDA: usize = 1;
const Y: usize = 2;

/// Odd multiples of a point, of which each lane looks up another: entry by entry, coordinate by
/// coordinate, limb by limb, and the words of [`LANES`] points or of one that all have.
struct Multiples<const POINTS: usize> {
    /// As many as a power of two.
    entries: usize,
    words: Vec<u64>,
}

impl<const POINTS: usize> Multiples<POINTS> {
    const ENTRY_WORDS: usize = COORDINATES * LIMBS * POINTS;

    fn new(entries: usize) -> Self {
        assert!(entries.is_power_of_two());
        Self {
            entries,
            words: vec![0; entries * Self::ENTRY_WORDS],
        }
    }

    /// The words of a coordinate of an entry.
    fn coordinate(&mut self, entry: usize, coordinate: usize) -> &mut [[u64; POINTS]] {
        let from = entry * Self::ENTRY_WORDS + coordinate * LIMBS * POINTS;
        let (words, _) = self.words[from..from + LIMBS * POINTS].as_chunks_mut();
        words
    }

    /// The entries of a digit, whose sign is ignored; λ times those if `with_lambda`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn get(&self, digit: &Digit, with_lambda: bool) -> Affine {
        // SAFETY: eight words are as long as the register; the load needs no alignment.
        let entries = unsafe { _mm512_loadu_si512(digit.entries.as_ptr().cast()) };
        let last = _mm512_set1_epi64((self.entries - 1) as i64);
        let size = _mm512_set1_epi64(Self::ENTRY_WORDS as i64);
        let begins = _mm512_mul_epu32(_mm512_and_si512(entries, last), size);
        let begins = if POINTS == LANES {
            _mm512_add_epi64(begins, _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7))
        } else {
            begins
        };
        Affine {
            x: self.gather(begins, if with_lambda { X_WITH_LAMBDA } else { X }),
            y: self.gather(begins, Y),
        }
    }

    /// A coordinate of the entries that begin at these words.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn gather(&self, begins: __m512i, coordinate: usize) -> Element {
        assert!(self.words.len() == self.entries * Self::ENTRY_WORDS);
        let mut limbs = [_mm512_setzero_si512(); LIMBS];
        for (at, limb) in limbs.iter_mut().enumerate() {
            let words = &self.words[(coordinate * LIMBS + at) * POINTS..];
            // SAFETY: `get` has brought the entries below `self.entries`, for which there are words, and
            // a limb is a word of an entry.
            *limb = unsafe { _mm512_i64gather_epi64::<8>(begins, words.as_ptr().cast()) };
        }
        Element(limbs)
    }
}

/// The generator's.
static OF_GENERATOR: LazyLock<Multiples<1>> = LazyLock::new(|| {
    let mut multiples = Multiples::new(DigitsOfGenerator::ENTRIES);
    let step = sum(GENERATOR, GENERATOR);
    let mut multiple = GENERATOR;
    for entry in 0..multiples.entries {
        let [x, y] = multiple;
        let coordinates = [(X, x), (X_WITH_LAMBDA, x.mul_mod(BETA, MODULUS)), (Y, y)];
        for (coordinate, number) in coordinates {
            let words = multiples.coordinate(entry, coordinate);
            words.copy_from_slice(&limbs_of(&number).map(|limb| [limb]));
        }
        multiple = sum(multiple, step);
    }
    multiples
});

/// The sum of two points none of which is the negative of the other.
fn sum([x, y]: [U256; 2], [other_x, other_y]: [U256; 2]) -> [U256; 2] {
    let minus = |a: U256, b: U256| a.add_mod(MODULUS - b, MODULUS);
    let times = |a: U256, b: U256| a.mul_mod(b, MODULUS);
    let (rise, run) = if x == other_x {
        let square = times(x, x);
        (times(square, U256::from(3)), times(y, U256::from(2)))
    } else {
        (minus(other_y, y), minus(other_x, x))
    };
    let slope = times(rise, run.inv_mod(MODULUS).unwrap_or_default());
    let sum_x = minus(minus(times(slope, slope), x), other_x);
    [sum_x, minus(times(slope, minus(x, sum_x)), y)]
}

/// The odd multiples of eight points, on curves that are isomorphic to secp256k1: a point (x, y) of that
/// is (xz², yz³) there. And z.
///
/// The multiples are sums with twice the point, on the curve on which that has a Z of one. Each sum
/// multiplies Z by some h; in the end all are brought to the last one's Z, so two coordinates are enough.
#[target_feature(enable = "avx512f,avx512ifma")]
fn multiples_of(point: &Affine) -> (Multiples<LANES>, Element) {
    let one = Element::splat(&U256::ONE);
    let mut twice = Jacobian::of(point);
    twice.double();
    let zz = twice.z.squared();
    let first = Affine {
        x: point.x.times(&zz),
        y: point.y.times(&zz.times(&twice.z)),
    };
    let step = Affine {
        x: twice.x,
        y: twice.y,
    };
    let mut last = Jacobian::of(&first);
    let mut steps = vec![(last, one)];
    for _ in 1..DigitsOfR::ENTRIES {
        let z = last.z;
        let h = last.add(&step, 0, &z);
        steps.push((last, h));
    }
    let beta = Element::splat(&BETA);
    let mut multiples = Multiples::new(DigitsOfR::ENTRIES);
    let mut to_last = one;
    for (entry, (multiple, h)) in steps.iter().enumerate().rev() {
        let square = to_last.squared();
        let x = multiple.x.times(&square);
        let y = multiple.y.times(&square.times(&to_last));
        for (coordinate, element) in [(X, x), (X_WITH_LAMBDA, x.times(&beta)), (Y, y)] {
            let words = multiples.coordinate(entry, coordinate);
            words.copy_from_slice(&element.words());
        }
        to_last = to_last.times(h);
    }
    (multiples, last.z.times(&twice.z))
}

/// The sums of eight points R, times their factors, and of the generator, times its own. A sum has a Z of
/// zero if the formulas did not cover it.
#[target_feature(enable = "avx512f,avx512ifma")]
pub(crate) fn combined(r: &Affine, factors: &[Factors; LANES]) -> Jacobian {
    let (of_r, z) = multiples_of(r);
    let by_r = [0, 1].map(|half| DigitsOfR::of(&factors.map(|factors| factors.of_r[half])));
    let by_generator = [0, 1]
        .map(|half| DigitsOfGenerator::of(&factors.map(|factors| factors.of_generator[half])));
    let of_generator = &*OF_GENERATOR;
    let highest = DigitsOfR::COUNT - 1;
    let first = by_r[0].get(highest);
    let mut sum = Jacobian::of(&of_r.get(first, false).negated(first.negative));
    for at in (0..=highest).rev() {
        for half in [0, 1] {
            let digit = by_r[half].get(at);
            // The sum begins with the first of the highest digits.
            if half == 1 || at != highest {
                let z = sum.z;
                sum.add(&of_r.get(digit, half == 1), digit.negative, &z);
            }
        }
        if at % DIGITS_APART == 0 {
            for half in [0, 1] {
                let digit = by_generator[half].get(at / DIGITS_APART);
                let z = sum.z.times(&z);
                sum.add(&of_generator.get(digit, half == 1), digit.negative, &z);
            }
        }
        if at > 0 {
            for _ in 0..BITS_OF_R {
                sum.double();
            }
        }
    }
    sum.z = sum.z.times(&z);
    sum
}
