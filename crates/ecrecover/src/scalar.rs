//! Numbers modulo the group's order n, and how a point is multiplied by them.

use crate::{LANES, Signed};
use alloy_primitives::{U256, U512, uint};

/// The order of the group (SEC 2, section 2.4.1).
pub(crate) const ORDER: U256 =
    uint!(0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141_U256);

/// The shortest vectors (a, b) with a + bλ = 0, where λ³ = 1: (A, -B) and (C, A). The determinant
/// is n.
const A: U256 = uint!(0x3086d221a7d46bcde86c90e49284eb15_U256);
const B: U256 = uint!(0xe4437ed6010e88286f547fa90abfe4c3_U256);
const C: U256 = uint!(0x114ca50f7a8e2f3f657c1108d9d44cfd8_U256);

/// Bits of a half at most.
pub(crate) const HALF_BITS: usize = 130;

/// What R and the generator are multiplied by, in two halves each: the second is that of λ times
/// the point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Factors {
    pub(crate) of_r: [Half; 2],
    pub(crate) of_generator: [Half; 2],
}

/// An odd number of at most [`HALF_BITS`] bits, with its sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Half {
    pub(crate) magnitude: U256,
    pub(crate) is_negative: bool,
}

/// The factors with which the signer's key is the sum; `None` for a signature that nobody can have
/// made.
pub(crate) fn factors(signed: &[Signed]) -> [Option<Factors>; LANES] {
    let is_valid = |signed: &&Signed| {
        let range = U256::ONE..ORDER;
        range.contains(&signed.r) && range.contains(&signed.s)
    };
    let mut factors = [None; LANES];
    // All are inverted at the price of one: the running product is, and goes back one by one
    // (Montgomery's trick).
    let mut products = [U256::ONE; LANES + 1];
    for (at, signed) in signed.iter().enumerate() {
        let r = Some(signed)
            .filter(is_valid)
            .map_or(U256::ONE, |signed| signed.r);
        products[at + 1] = products[at].mul_mod(r, ORDER);
    }
    let mut inverse = products[signed.len()].inv_mod(ORDER).unwrap_or_default();
    for (at, signed) in signed
        .iter()
        .enumerate()
        .rev()
        .filter(|(_, signed)| is_valid(signed))
    {
        let of_r = inverse.mul_mod(products[at], ORDER);
        inverse = inverse.mul_mod(signed.r, ORDER);
        let hash = U256::from_be_bytes(signed.hash.0).reduce_mod(ORDER);
        factors[at] = Some(Factors {
            of_r: halves(signed.s.mul_mod(of_r, ORDER)),
            of_generator: halves((ORDER - hash).mul_mod(of_r, ORDER)),
        });
    }
    factors
}

/// Odd numbers a and b with a + bλ = `number`.
///
/// Any whole multiples of the two vectors may be taken away; those next to the exact quotients leave
/// halves that are short. Of the four pairs of neighbours one leaves two odd ones, which have digits
/// that are never zero.
pub(crate) fn halves(number: U256) -> [Half; 2] {
    let is_odd = |number: U256| number.bit(0);
    let quotient = |factor: U256| {
        let product: U512 = number.widening_mul(factor);
        U256::from(product / U512::from(ORDER))
    };
    let (mut of_first, mut of_second) = (quotient(A), quotient(B));
    // A and B are odd, C is even.
    of_first += U256::from(is_odd(of_first) == is_odd(number));
    of_second += U256::from(is_odd(of_second) == is_odd(of_first));
    // The halves are short, so what wraps around on the way does not matter.
    let first = number
        .wrapping_sub(of_first.wrapping_mul(A))
        .wrapping_sub(of_second.wrapping_mul(C));
    let second = of_first
        .wrapping_mul(B)
        .wrapping_sub(of_second.wrapping_mul(A));
    [first, second].map(Half::of)
}

impl Half {
    /// A number in two's complement.
    fn of(number: U256) -> Self {
        let is_negative = number.bit(255);
        Self {
            magnitude: if is_negative {
                number.wrapping_neg()
            } else {
                number
            },
            is_negative,
        }
    }
}

/// A number's digits in base 2^`BITS`, all odd, eight numbers side by side. The digit that stands for the
/// point's multiple 2e + 1 has the entry e of a table.
pub(crate) struct Digits<const BITS: usize> {
    /// Lane by lane, the lowest digit first.
    digits: Vec<Digit>,
}

/// A digit of eight numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Digit {
    pub(crate) entries: [u64; LANES],
    /// A bit for each lane whose digit is negative.
    pub(crate) negative: u8,
}

impl<const BITS: usize> Digits<BITS> {
    /// Digits of a half.
    pub(crate) const COUNT: usize = HALF_BITS.div_ceil(BITS);

    /// Entries of a table of odd multiples.
    pub(crate) const ENTRIES: usize = 1 << (BITS - 1);

    /// An odd number is the sum of the digits 2b + 1 - 2^`BITS`, where b are its bits above those of
    /// the digits before and one more. The last digit is not reduced by 2^`BITS`.
    pub(crate) fn of(halves: &[Half; LANES]) -> Self {
        let mut digits = vec![Digit::default(); Self::COUNT];
        for (lane, half) in halves.iter().enumerate() {
            for (at, digit) in digits.iter_mut().enumerate() {
                let bits = bits(&half.magnitude, at * BITS + 1) & ((1 << BITS) - 1);
                let is_last = at == Self::COUNT - 1;
                let is_negative = !is_last && bits >> (BITS - 1) == 0;
                let entry = if is_negative { !bits } else { bits };
                digit.entries[lane] = entry & (Self::ENTRIES as u64 - 1);
                digit.negative |= u8::from(is_negative != half.is_negative) << lane;
            }
        }
        Self { digits }
    }

    pub(crate) fn get(&self, at: usize) -> &Digit {
        &self.digits[at]
    }
}

/// The bits of a number from one on, as many as fit.
fn bits(number: &U256, from: usize) -> u64 {
    let limbs = number.as_limbs();
    let (limb, bit) = (from / 64, from % 64);
    let above = limbs.get(limb + 1).copied().unwrap_or(0);
    let wide = u128::from(above) << 64 | u128::from(limbs[limb]);
    (wide >> bit) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::B256;
    use proptest::prelude::*;

    /// λ, the cube root of one that belongs to the vectors.
    const LAMBDA: U256 =
        uint!(0x5363ad4cc05c30e0a5261c028812645a122e22ea20816678df02967c1b23bd72_U256);

    fn scalar() -> impl Strategy<Value = U256> {
        let edges = [
            U256::ZERO,
            U256::ONE,
            ORDER - U256::ONE,
            LAMBDA,
            A,
            B,
            C,
            ORDER - A,
        ];
        prop_oneof![
            any::<[u64; 4]>().prop_map(|limbs| U256::from_limbs(limbs) % ORDER),
            proptest::sample::select(edges.to_vec()),
            any::<u128>().prop_map(U256::from),
        ]
    }

    fn signed_number(half: &Half) -> U256 {
        let magnitude = half.magnitude % ORDER;
        if half.is_negative {
            ORDER - magnitude
        } else {
            magnitude
        }
    }

    /// What digits add up to, in the lane.
    fn value<const BITS: usize>(digits: &Digits<BITS>, lane: usize) -> U256 {
        let mut value = U256::ZERO;
        for digit in digits.digits.iter().rev() {
            let multiple = U256::from(2 * digit.entries[lane] + 1);
            let is_negative = digit.negative >> lane & 1 == 1;
            let multiple = if is_negative {
                ORDER - multiple
            } else {
                multiple
            };
            value = value
                .mul_mod(U256::from(1_u64 << BITS), ORDER)
                .add_mod(multiple, ORDER);
        }
        value
    }

    proptest! {
        #[test]
        fn halves_are_short_and_odd_and_make_up_the_number(number in scalar()) {
            let [first, second] = halves(number);
            for half in [first, second] {
                prop_assert!(half.magnitude.bit_len() < HALF_BITS, "{half:?}");
                prop_assert!(half.magnitude.bit(0), "{half:?}");
            }
            let with_lambda = signed_number(&second).mul_mod(LAMBDA, ORDER);
            prop_assert_eq!(signed_number(&first).add_mod(with_lambda, ORDER), number);
        }

        #[test]
        fn digits_make_up_the_number(numbers in proptest::array::uniform8(scalar())) {
            let halves = numbers.map(|number| halves(number)[1]);
            let (five, ten) = (Digits::<5>::of(&halves), Digits::<10>::of(&halves));
            for (lane, half) in halves.iter().enumerate() {
                prop_assert_eq!(value(&five, lane), signed_number(half));
                prop_assert_eq!(value(&ten, lane), signed_number(half));
            }
        }

        #[test]
        fn factors_are_those_of_each_alone(parts in proptest::collection::vec((scalar(), scalar(), scalar()), 0..=8)) {
            let signed = |&(hash, r, s): &(U256, U256, U256)| Signed {
                hash: B256::from(hash),
                r,
                s,
                is_y_odd: false,
            };
            let signed: Vec<_> = parts.iter().map(signed).collect();
            let found = factors(&signed);
            for (signed, found) in signed.iter().zip(found) {
                prop_assert_eq!(found.is_some(), !signed.r.is_zero() && !signed.s.is_zero());
                let Some(found) = found else { continue };
                let inverse = signed.r.inv_mod(ORDER).unwrap_or_default();
                let hash = U256::from_be_bytes(signed.hash.0) % ORDER;
                let minus = ORDER - hash.mul_mod(inverse, ORDER);
                prop_assert_eq!(found.of_r, halves(signed.s.mul_mod(inverse, ORDER)));
                prop_assert_eq!(found.of_generator, halves(minus % ORDER));
            }
        }
    }
}
