//! Inputs of precompiled contracts: valid ones where they can be made, and broken ones.
//!
//! Sources: yellow paper appendix E, EIP-152, EIP-196, EIP-197, EIP-198, EIP-2537, EIP-4844,
//! EIP-7823, EIP-7883, EIP-7951.

use crate::dice::Dice;
use alloy_primitives::{Address, B256, U256, keccak256};
use p256::{ecdsa::SigningKey, ecdsa::signature::hazmat::PrehashSigner};
use secp256k1::{Message, SECP256K1, SecretKey};
use sha2::{Digest, Sha256};

/// The last address that any fork up to Osaka gives to a precompile, apart from 0x100.
const LAST: u64 = 0x11;
/// P256VERIFY (EIP-7951).
const P256_VERIFY: u64 = 0x100;

/// The point at infinity of BLS12-381's first group, compressed.
pub(crate) const INFINITY: [u8; 48] = {
    let mut point = [0; 48];
    point[0] = 0xc0;
    point
};
/// The generator of the first group, compressed: the commitment to the polynomial that is 1.
pub(crate) const GENERATOR: [u8; 48] = alloy_primitives::hex!(
    "97f1d3a73197d7942695638c4fa9ac0fc3688c4f9774b905a14e3a3f171bac586c55e83ff97a1aeffb3af00adb22c6bb"
);
/// A generator of the second group of alt_bn128, as EIP-197 encodes it.
const BN_SECOND_GENERATOR: [u8; 128] = alloy_primitives::hex!(
    "198e9393920d483a7260bfb731fb5d25f1aa493335a9e71297e485b7aef312c2"
    "1800deef121f1e76426a00665e5c4479674322d4f75edadd46debd5cd992f6ed"
    "090689d0585ff075ec9e99ad690c3395bc4b313370b38ef355acdadcd122975b"
    "12c85ea5db8c6deb4aab71808dcb408fe3d1e7690c43d37b4ce6cc0166fa7daa"
);
/// The prime that alt_bn128's coordinates are taken modulo.
const BN_PRIME: U256 = alloy_primitives::uint!(
    0x30644e72e131a029b85045b68181585d97816a916871ca8d3c208c16d87cfd47_U256
);

/// Every precompile's address, and two that no fork uses.
pub(crate) fn addresses() -> Vec<Address> {
    let numbers = (1..=LAST + 1).chain([P256_VERIFY, P256_VERIFY + 1]);
    numbers.map(number).collect()
}

fn number(number: u64) -> Address {
    Address::from_word(U256::from(number).into())
}

/// A precompile, and an input for it.
pub(crate) fn call(dice: &mut Dice) -> (Address, Vec<u8>) {
    let which = match dice.below(10) {
        0 => P256_VERIFY,
        _ => dice.between(1, LAST as usize) as u64,
    };
    let mut input = input(dice, which);
    match dice.below(12) {
        0 => input.truncate(dice.below(input.len() + 1)),
        1 => input.extend(dice.blob(1, 64)),
        2 if !input.is_empty() => {
            let at = dice.below(input.len());
            input[at] ^= 1 << dice.below(8);
        }
        _ => {}
    }
    (number(which), input)
}

fn input(dice: &mut Dice, which: u64) -> Vec<u8> {
    match which {
        1 => recover(dice),
        2..=4 => dice.blob(0, 300).to_vec(),
        5 => modexp(dice),
        6 => [bn_point(dice), bn_point(dice)].concat(),
        7 => [bn_point(dice), dice.word().to_be_bytes_vec()].concat(),
        8 => bn_pairing(dice),
        9 => blake(dice),
        10 => point_evaluation(dice),
        P256_VERIFY => p256(dice),
        _ => curve(dice, which),
    }
}

/// The hash, v, r and s of a signature.
fn recover(dice: &mut Dice) -> Vec<u8> {
    let secret = SecretKey::from_byte_array(keccak256(dice.bytes(8)).0).unwrap();
    let digest: [u8; 32] = dice.array();
    let signature = SECP256K1.sign_ecdsa_recoverable(Message::from_digest(digest), &secret);
    let (id, bytes) = signature.serialize_compact();
    let v = U256::from(27 + i32::from(id));
    [&digest[..], &v.to_be_bytes::<32>(), &bytes].concat()
}

fn modexp(dice: &mut Dice) -> Vec<u8> {
    let length = |dice: &mut Dice| match dice.below(12) {
        0 => 0,
        // Around the bound of EIP-7823.
        1 => dice.between(1023, 1026),
        2 => dice.between(64, 300),
        _ => dice.between(1, 40),
    };
    let lengths = [length(dice), length(dice).min(80), length(dice)];
    let mut input = Vec::new();
    for length in lengths {
        input.extend(U256::from(length).to_be_bytes::<32>());
    }
    if dice.chance(5) {
        // A length nobody can pay for.
        input[dice.below(96)] = 0xff;
    }
    input.extend(dice.bytes(lengths.iter().sum()));
    input
}

/// The generator, its negative or the point at infinity: enough, for sums of them come by
/// themselves.
fn bn_point(dice: &mut Dice) -> Vec<u8> {
    let (x, y) = match dice.below(5) {
        0 => (U256::ZERO, U256::ZERO),
        1 => (U256::ONE, BN_PRIME - U256::from(2)),
        2 => (U256::ONE + BN_PRIME, U256::from(2)),
        _ => (U256::ONE, U256::from(2)),
    };
    [x.to_be_bytes::<32>(), y.to_be_bytes::<32>()].concat()
}

fn bn_pairing(dice: &mut Dice) -> Vec<u8> {
    let pairs = dice.below(4);
    let pair = |dice: &mut Dice| {
        let second = if dice.chance(20) {
            [0; 128]
        } else {
            BN_SECOND_GENERATOR
        };
        [bn_point(dice), second.to_vec()].concat()
    };
    (0..pairs).flat_map(|_| pair(dice)).collect()
}

fn blake(dice: &mut Dice) -> Vec<u8> {
    let rounds = dice.pick(&[0_u32, 1, 12, 200, 0x00ff_ffff]);
    let mut input = rounds.to_be_bytes().to_vec();
    input.extend(dice.bytes(64 + 128 + 16));
    input.push(dice.pick(&[0, 1, 1, 1, 2]));
    input
}

/// A constant polynomial is its own value everywhere, and the proof of that is infinity.
fn point_evaluation(dice: &mut Dice) -> Vec<u8> {
    let (commitment, value) = if dice.chance(50) {
        (INFINITY, 0)
    } else {
        (GENERATOR, 1)
    };
    let value = if dice.chance(85) { value } else { 2 };
    let versioned = versioned_hash(&commitment);
    let at = U256::from(dice.number()).to_be_bytes::<32>();
    let value = U256::from(value).to_be_bytes::<32>();
    [
        versioned.as_slice(),
        at.as_slice(),
        value.as_slice(),
        &commitment,
        &INFINITY,
    ]
    .concat()
}

/// The versioned hash of a commitment (EIP-4844).
pub(crate) fn versioned_hash(commitment: &[u8]) -> B256 {
    let mut hash: [u8; 32] = Sha256::digest(commitment).into();
    hash[0] = 1;
    hash.into()
}

/// The hash, r, s, x and y of a signature over secp256r1.
fn p256(dice: &mut Dice) -> Vec<u8> {
    let key = SigningKey::from_slice(keccak256(dice.bytes(8)).as_slice()).unwrap();
    let digest: [u8; 32] = dice.array();
    let signature: p256::ecdsa::Signature = key.sign_prehash(&digest).unwrap();
    let point = key.verifying_key().to_encoded_point(false);
    let point = &point.as_bytes()[1..];
    [&digest[..], &signature.to_bytes(), point].concat()
}

/// Inputs for BLS12-381 that are of the right length, or empty points; random programs have valid
/// points that no constant could vary as well.
fn curve(dice: &mut Dice, which: u64) -> Vec<u8> {
    let unit = match which {
        0x0b => 256,
        0x0c => 160 * dice.between(1, 4),
        0x0d => 512,
        0x0e => 288 * dice.between(1, 3),
        0x0f => 384 * dice.between(1, 3),
        0x10 => 64,
        _ => 128,
    };
    let mut input = vec![0; unit];
    if which >= 0x10 || dice.chance(40) {
        for element in input.chunks_exact_mut(64) {
            element[17..].copy_from_slice(&dice.bytes(47));
        }
    }
    input
}
