//! Eight signers side by side, and by the library one after another.

use alloy_primitives::{Address, B256, U256, keccak256};
use divan::{Bencher, black_box};
use ecrecover::{LANES, Signed, signers};
use secp256k1::{
    All, Message, Secp256k1, SecretKey,
    ecdsa::{RecoverableSignature, RecoveryId},
};
use std::sync::LazyLock;

static LIBRARY: LazyLock<Secp256k1<All>> = LazyLock::new(Secp256k1::new);

fn main() {
    divan::main();
}

fn signatures() -> Vec<RecoverableSignature> {
    let keys = (1..=LANES).map(|key| B256::with_last_byte(key as u8));
    keys.map(|key| {
        let key = SecretKey::from_byte_array(key.0).expect("a key");
        LIBRARY.sign_ecdsa_recoverable(Message::from_digest(HASH.0), &key)
    })
    .collect()
}

const HASH: B256 = B256::repeat_byte(0x5a);

#[divan::bench]
fn side_by_side(bencher: Bencher<'_, '_>) {
    let of = |signature: RecoverableSignature| {
        let (id, bytes) = signature.serialize_compact();
        Signed {
            hash: HASH,
            r: U256::from_be_slice(&bytes[..32]),
            s: U256::from_be_slice(&bytes[32..]),
            is_y_odd: id == RecoveryId::One,
        }
    };
    let signed: Vec<_> = signatures().into_iter().map(of).collect();
    bencher.bench_local(|| signers(black_box(&signed)));
}

#[divan::bench]
fn one_by_one(bencher: Bencher<'_, '_>) {
    let signatures = signatures();
    let signer = |signature| {
        let message = Message::from_digest(HASH.0);
        let key = LIBRARY.recover_ecdsa(message, signature).expect("a key");
        Address::from_word(keccak256(&key.serialize_uncompressed()[1..]))
    };
    bencher.bench_local(|| {
        black_box(&signatures)
            .iter()
            .map(signer)
            .collect::<Vec<_>>()
    });
}
