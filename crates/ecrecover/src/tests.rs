//! The lanes against libsecp256k1, on signatures good and bad.

use super::*;
use alloy_primitives::{keccak256, uint};
use proptest::{collection::vec, prelude::*};
use secp256k1::{
    All, Message, Secp256k1, SecretKey,
    ecdsa::{RecoverableSignature, RecoveryId},
};
use std::sync::LazyLock;

const ORDER: U256 = uint!(0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141_U256);

static LIBRARY: LazyLock<Secp256k1<All>> = LazyLock::new(Secp256k1::new);

/// The library's answer.
fn by_library(signed: &Signed) -> Option<Address> {
    let mut bytes = [0; 64];
    bytes[..32].copy_from_slice(&signed.r.to_be_bytes::<32>());
    bytes[32..].copy_from_slice(&signed.s.to_be_bytes::<32>());
    let id = RecoveryId::try_from(i32::from(signed.is_y_odd)).ok()?;
    let signature = RecoverableSignature::from_compact(&bytes, id).ok()?;
    let message = Message::from_digest(signed.hash.0);
    let key = LIBRARY.recover_ecdsa(message, &signature).ok()?;
    let hash = keccak256(&key.serialize_uncompressed()[1..]);
    Some(Address::from_word(hash))
}

fn sign(key: B256, hash: B256) -> Signed {
    let key = SecretKey::from_byte_array(key.0).unwrap();
    let message = Message::from_digest(hash.0);
    let signature = LIBRARY.sign_ecdsa_recoverable(message, &key);
    let (id, bytes) = signature.serialize_compact();
    Signed {
        hash,
        r: U256::from_be_slice(&bytes[..32]),
        s: U256::from_be_slice(&bytes[32..]),
        is_y_odd: i32::from(id) & 1 == 1,
    }
}

/// Whatever the lanes answer is the library's answer; and they answer what can be answered.
#[track_caller]
fn assert_recovers(signed: &[Signed]) {
    let found = signers(signed);
    let expected: Vec<_> = signed.iter().map(by_library).collect();
    assert_eq!(found.len(), expected.len());
    for (group, (found, expected)) in found.chunks(LANES).zip(expected.chunks(LANES)).enumerate() {
        let is_worked_on = has_lanes() && found.len() >= WORTHWHILE;
        let nothing = vec![None; found.len()];
        assert_eq!(
            found,
            if is_worked_on { expected } else { &nothing[..] },
            "group {group}"
        );
    }
}

fn any_hash() -> impl Strategy<Value = B256> {
    prop_oneof![
        8 => any::<[u8; 32]>().prop_map(B256::from),
        1 => Just(B256::ZERO),
        1 => Just(B256::repeat_byte(0xff)),
        1 => Just(B256::from(ORDER)),
    ]
}

fn made() -> impl Strategy<Value = Signed> {
    let key = prop_oneof![
        4 => any::<[u8; 32]>().prop_map(B256::from),
        1 => (1_u64..20).prop_map(|small| B256::from(U256::from(small))),
        1 => (1_u64..20).prop_map(|small| B256::from(ORDER - U256::from(small))),
    ];
    let key = key.prop_filter("a key", |key| SecretKey::from_byte_array(key.0).is_ok());
    (key, any_hash()).prop_map(|(key, hash)| sign(key, hash))
}

/// Numbers where something may go wrong.
fn number() -> impl Strategy<Value = U256> {
    prop_oneof![
        4 => any::<[u64; 4]>().prop_map(U256::from_limbs),
        1 => (0_u64..20).prop_map(U256::from),
        1 => (0_u64..20).prop_map(|small| ORDER - U256::from(small)),
        1 => (0_u64..20).prop_map(|small| ORDER + U256::from(small)),
    ]
}

fn invented() -> impl Strategy<Value = Signed> {
    let parts = (any_hash(), number(), number(), any::<bool>());
    parts.prop_map(|(hash, r, s, is_y_odd)| Signed {
        hash,
        r,
        s,
        is_y_odd,
    })
}

/// The x coordinate of the generator, and whether its y is odd.
fn generator() -> (U256, bool) {
    let one = SecretKey::from_byte_array(B256::with_last_byte(1).0).unwrap();
    let bytes = one.public_key(&LIBRARY).serialize();
    (U256::from_be_slice(&bytes[1..]), bytes[0] == 3)
}

/// Signatures whose R is the generator, so that the sum and its parts are as small as one likes, down to
/// nothing.
fn any_of_generator() -> impl Strategy<Value = Signed> {
    let factor = || prop_oneof![(0_u64..40).prop_map(U256::from), number()];
    (factor(), factor(), any::<bool>())
        .prop_map(|(s, hash, is_negative)| of_generator(s, hash, is_negative))
}

#[test]
fn groups_of_any_size() {
    let signed: Vec<_> = (1..=35)
        .map(|n| sign(B256::repeat_byte(n), keccak256([n])))
        .collect();
    for count in 0..=signed.len() {
        assert_recovers(&signed[..count]);
    }
}

/// A signature whose R is the generator, or the negative of that, and for which the sum is `s` times R less
/// `hash` times the generator.
fn of_generator(s: U256, hash: U256, is_negative: bool) -> Signed {
    let (r, is_odd) = generator();
    Signed {
        hash: B256::from(hash.mul_mod(r, ORDER)),
        r,
        s: s.mul_mod(r, ORDER),
        is_y_odd: is_odd != is_negative,
    }
}

/// Sums in which a point meets itself or its negative: there the lanes are at a loss, which they must notice.
#[test]
fn sums_that_the_formulas_do_not_cover_have_no_answer() {
    if !has_lanes() {
        return testkit::skip_without_cpu_feature("AVX-512 IFMA");
    }
    let small = || (0_u64..64).map(U256::from);
    let pairs = small().flat_map(|s| small().map(move |hash| (s, hash)));
    let signed: Vec<_> = pairs
        .flat_map(|(s, hash)| [false, true].map(|is_negative| of_generator(s, hash, is_negative)))
        .collect();
    let mut unanswered = 0;
    for (signed, found) in signed.iter().zip(signers(&signed)) {
        let expected = by_library(signed);
        if found.is_some() {
            assert_eq!(found, expected, "{signed:?}");
        } else if expected.is_some() {
            unanswered += 1;
        }
    }
    assert!(unanswered > 0);
}

proptest! {
    #[test]
    fn signers_are_found(signed in vec(made(), 0..20)) {
        assert_recovers(&signed);
    }

    #[test]
    fn one_that_nobody_signed_spoils_no_other(signed in vec(prop_oneof![made(), invented()], 0..20)) {
        assert_recovers(&signed);
    }

    /// Here the formulas meet sums that they do not cover: then there is no answer, but never a wrong one.
    #[test]
    fn no_answer_is_wrong(signed in vec(prop_oneof![made(), any_of_generator()], 2..20)) {
        for (signed, found) in signed.iter().zip(signers(&signed)) {
            if found.is_some() {
                prop_assert_eq!(found, by_library(signed));
            }
        }
    }
}
