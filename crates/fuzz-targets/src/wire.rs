//! What comes over the wire or out of the database: JSON, RLP, tokens, rows, and changes of state.

use alloy_eips::eip2718::{Decodable2718, Encodable2718};
use alloy_primitives::{Address, B256, U256, keccak256};
use alloy_rpc_types_engine::{
    ExecutionData, ExecutionPayload, ForkchoiceState, ForkchoiceUpdated, PayloadAttributes,
    PayloadStatus,
};
use ecrecover::Signed;
use engine_api::jwt::JwtSecret;
use node::primitives::{TransactionSigned, decode_block};
use secp256k1::{
    Message, Secp256k1,
    ecdsa::{RecoverableSignature, RecoveryId},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use state_db::{Table, rows};
use state_root::trial::Trial;
use std::fmt::Debug;

const NOW_S: u64 = 1_700_000_000;

/// A block in RLP has one encoding, and is the same block after a way through the Engine API.
pub(crate) fn block_rlp(bytes: &[u8]) {
    let Ok(block) = decode_block(bytes) else {
        return;
    };
    assert_eq!(
        alloy_rlp::encode(&block),
        bytes,
        "a second encoding of a block was taken"
    );
    let hash = block.header.hash_slow();
    let data = ExecutionData::from_block_unchecked(hash, &block);
    assert_eq!(data.payload.block_hash(), hash);
    assert_eq!(
        data.payload.transactions().len(),
        block.body.transactions.len()
    );
}

/// A transaction has one encoding.
pub(crate) fn transaction(bytes: &[u8]) {
    if let Ok(transaction) = TransactionSigned::decode_2718_exact(bytes) {
        assert_eq!(
            transaction.encoded_2718(),
            bytes,
            "a second encoding of a transaction was taken"
        );
    }
}

/// The structures of the Engine API; what is read is written in a form that reads the same.
pub(crate) fn engine_payload(bytes: &[u8]) {
    same_after_json::<ForkchoiceState>(bytes);
    same_after_json::<PayloadAttributes>(bytes);
    same_after_json::<PayloadStatus>(bytes);
    same_after_json::<ForkchoiceUpdated>(bytes);
    let Some(payload) = same_after_json::<ExecutionPayload>(bytes) else {
        return;
    };
    if let Ok(block) = payload.try_into_block::<TransactionSigned>() {
        let rlp = alloy_rlp::encode(&block);
        assert_eq!(decode_block(&rlp).as_ref(), Ok(&block));
    }
}

fn same_after_json<T>(bytes: &[u8]) -> Option<T>
where
    T: DeserializeOwned + Serialize + PartialEq + Debug,
{
    let value: T = serde_json::from_slice(bytes).ok()?;
    let json = serde_json::to_vec(&value).unwrap_or_else(|error| panic!("{value:?}: {error}"));
    let again: T =
        serde_json::from_slice(&json).unwrap_or_else(|error| panic!("{value:?}: {error}"));
    assert_eq!(again, value);
    Some(value)
}

/// An answer of an engine, as the harness reads it.
pub(crate) fn rpc_answer(bytes: &[u8]) {
    // An error is as good as a value: it is only the panic that counts.
    let _ = engine_api::client::parse::<Value>(bytes);
    let _ = engine_api::client::parse::<PayloadStatus>(bytes);
    let _ = engine_api::client::parse::<ForkchoiceUpdated>(bytes);
}

/// The first three bytes change one byte of a good header; the rest is a header by itself.
///
/// Only the token that was signed passes.
pub(crate) fn jwt(bytes: &[u8]) {
    let secret = JwtSecret::from_bytes([0x5a; 32]);
    let good = format!("Bearer {}", secret.mint(NOW_S));
    assert_eq!(secret.validate(Some(&good), NOW_S), Ok(()));
    let Some((change, rest)) = bytes.split_first_chunk::<3>() else {
        return;
    };
    let mut header = good.clone().into_bytes();
    let at = usize::from(u16::from_be_bytes([change[0], change[1]])) % header.len();
    header[at] = change[2];
    for candidate in [&header[..], rest] {
        if let Ok(text) = str::from_utf8(candidate) {
            let token = |header: &str| header.trim_start_matches("Bearer ").trim().to_owned();
            assert!(
                secret.validate(Some(text), NOW_S).is_err() || token(text) == token(&good),
                "let in with {text}"
            );
        }
    }
}

/// The first byte names a table, the rest is a row of it: what the row decodes to is a row again.
pub(crate) fn table_row(bytes: &[u8]) {
    let Some((table, value)) = bytes.split_first() else {
        return;
    };
    let table = Table::ALL[usize::from(*table) % Table::ALL.len()];
    if let Some(row) = rows::reencode(table, value) {
        assert_eq!(
            rows::reencode(table, &row).as_ref(),
            Some(&row),
            "{table:?}: what was decoded does not encode to a row of its own"
        );
    }
}

/// Whoever is found to have signed a message is whom libsecp256k1 finds. A signature is 97 bytes.
pub(crate) fn signers(bytes: &[u8]) {
    let (signatures, _) = bytes.as_chunks::<97>();
    let signed: Vec<_> = signatures.iter().map(signed).collect();
    for (signed, found) in signed.iter().zip(ecrecover::signers(&signed)) {
        assert!(found.is_none() || found == signer(signed), "{signed:?}");
    }
}

fn signed(bytes: &[u8; 97]) -> Signed {
    let word = |at: usize| U256::from_be_slice(&bytes[32 * at..32 * at + 32]);
    Signed {
        hash: B256::from(word(0)),
        r: word(1),
        s: word(2),
        is_y_odd: bytes[96] & 1 == 1,
    }
}

/// The library's answer.
fn signer(signed: &Signed) -> Option<Address> {
    let compact = [signed.r, signed.s].map(|number| number.to_be_bytes::<32>());
    let id = if signed.is_y_odd {
        RecoveryId::One
    } else {
        RecoveryId::Zero
    };
    let signature = RecoverableSignature::from_compact(compact.as_flattened(), id).ok()?;
    let message = Message::from_digest(signed.hash.0);
    let key = Secp256k1::verification_only().recover_ecdsa(message, &signature);
    let hash = keccak256(&key.ok()?.serialize_uncompressed()[1..]);
    Some(Address::from_word(hash))
}

/// A script of blocks: every way of computing the root agrees.
pub(crate) fn state_root(bytes: &[u8]) {
    if let Err(problem) = Trial::from_bytes(bytes).run() {
        panic!("{problem}");
    }
}
