//! The signers of up to eight messages, side by side.

use crate::{
    LANES, Signed,
    field::Element,
    point::{Affine, Jacobian, combined},
    scalar::factors,
};
use alloy_primitives::{Address, U256, keccak256};

/// Who signed each of the messages, no more than there are lanes.
#[target_feature(enable = "avx512f,avx512ifma")]
pub(crate) fn recover(signed: &[Signed]) -> Vec<Option<Address>> {
    let factors = factors(signed);
    // Lanes without a signature, or with one that nobody can have made, work on the first that is one.
    let Some(spare) = factors.iter().position(Option::is_some) else {
        return vec![None; signed.len()];
    };
    let source: [usize; LANES] =
        std::array::from_fn(|lane| if factors[lane].is_some() { lane } else { spare });
    let (points, is_point) = points(&source.map(|lane| signed[lane]));
    let factors_used = source.map(|lane| factors[lane].unwrap_or_default());
    let signers = addresses(&combined(&points, &factors_used));
    let is_answered = |lane: usize| factors[lane].is_some() && is_point[lane];
    (0..signed.len())
        .map(|lane| signers[lane].filter(|_| is_answered(lane)))
        .collect()
}

/// The points that signatures name, and whether there are such points.
#[target_feature(enable = "avx512f,avx512ifma")]
fn points(signed: &[Signed; LANES]) -> (Affine, [bool; LANES]) {
    let x = Element::of(&signed.map(|signed| signed.r));
    let seven = Element::splat(&U256::from(7)).sum();
    let square = x.squared().times(&x).sum().plus(seven).carried();
    let y = square.square_root();
    let (numbers, squares, expected) = (y.numbers(), y.squared().numbers(), square.numbers());
    let is_other = |lane: usize| numbers[lane].bit(0) != signed[lane].is_y_odd;
    let others = (0..LANES)
        .map(|lane| u8::from(is_other(lane)) << lane)
        .sum();
    let points = Affine { x, y }.negated(others);
    (
        points,
        std::array::from_fn(|lane| squares[lane] == expected[lane]),
    )
}

/// The addresses of keys; none where there is no key.
#[target_feature(enable = "avx512f,avx512ifma")]
fn addresses(keys: &Jacobian) -> [Option<Address>; LANES] {
    let inverse = keys.z.inverted();
    let square = inverse.squared();
    let x = keys.x.times(&square).numbers();
    let y = keys.y.times(&square.times(&inverse)).numbers();
    let inverse = inverse.numbers();
    std::array::from_fn(|lane| {
        let mut key = [0; 64];
        key[..32].copy_from_slice(&x[lane].to_be_bytes::<32>());
        key[32..].copy_from_slice(&y[lane].to_be_bytes::<32>());
        let address = Address::from_word(keccak256(key));
        (!inverse[lane].is_zero()).then_some(address)
    })
}
