//! Accounts with keys, and what they sign.

use crate::precompiles::{GENERATOR, INFINITY, versioned_hash};
use alloy_consensus::{
    SignableTransaction, Signed, TxEip1559, TxEip2930, TxEip4844, TxEip7702, TxLegacy,
};
use alloy_eips::{
    eip2718::Encodable2718,
    eip2930::AccessList,
    eip7702::{Authorization, SignedAuthorization},
};
use alloy_primitives::{Address, B256, Bytes, Signature, TxKind, U256, keccak256};
use alloy_rlp::Encodable;
use secp256k1::{Message, PublicKey, SECP256K1, SecretKey};

/// EIP-155 id of every chain made here.
pub(crate) const CHAIN_ID: u64 = 1337;
/// Bytes of a blob (EIP-4844).
const BLOB_BYTES: usize = 131_072;
/// Proofs of a blob in the form that begins with Osaka (EIP-7594).
const CELLS: usize = 128;

/// An account whose key is known.
#[derive(Debug, Clone)]
pub(crate) struct Account {
    pub(crate) address: Address,
    secret: SecretKey,
    /// The nonce of its next transaction, as far as is known.
    pub(crate) nonce: u64,
}

impl Account {
    pub(crate) fn new(seed: u64, role: &str, index: usize) -> Self {
        let text = format!("{seed} {role} {index}");
        let secret = SecretKey::from_byte_array(keccak256(text).0).unwrap();
        let public = PublicKey::from_secret_key(SECP256K1, &secret).serialize_uncompressed();
        Self {
            address: Address::from_raw_public_key(&public[1..]),
            secret,
            nonce: 0,
        }
    }

    fn sign(&self, hash: B256) -> Signature {
        let message = Message::from_digest(hash.0);
        let signature = SECP256K1.sign_ecdsa_recoverable(message, &self.secret);
        let (id, bytes) = signature.serialize_compact();
        Signature::from_bytes_and_parity(&bytes, i32::from(id) & 1 == 1)
    }

    pub(crate) fn authorize(&self, chain_id: u64, to: Address, nonce: u64) -> SignedAuthorization {
        let authorization = Authorization {
            chain_id: U256::from(chain_id),
            address: to,
            nonce,
        };
        let signature = self.sign(authorization.signature_hash());
        authorization.into_signed(signature)
    }

    /// Signs and encodes (EIP-2718).
    fn seal<T>(&self, transaction: T) -> Bytes
    where
        T: SignableTransaction<Signature>,
        Signed<T>: Encodable2718,
    {
        let signature = self.sign(transaction.signature_hash());
        transaction.into_signed(signature).encoded_2718().into()
    }
}

/// The form of a transaction, with what only that form has.
#[derive(Debug, Clone)]
pub(crate) enum Form {
    /// Untyped; without the chain id when from before EIP-155.
    Legacy {
        protected: bool,
    },
    AccessList,
    DynamicFee,
    /// Blobs of the constant polynomials 0 and 1, by value.
    Blob {
        values: Vec<u8>,
        max_fee: u128,
    },
    SetCode(Vec<SignedAuthorization>),
}

/// A transaction before it is signed.
#[derive(Debug, Clone)]
pub(crate) struct Draft {
    pub(crate) form: Form,
    pub(crate) chain_id: u64,
    pub(crate) nonce: u64,
    pub(crate) to: TxKind,
    pub(crate) value: U256,
    pub(crate) input: Bytes,
    pub(crate) gas_limit: u64,
    pub(crate) max_fee: u128,
    pub(crate) tip: u128,
    pub(crate) access_list: AccessList,
}

impl Draft {
    /// Signs as `from` and encodes, without blobs.
    pub(crate) fn sign(self, from: &Account) -> Bytes {
        let target = self.to.to().copied().unwrap_or_default();
        match self.form {
            Form::Legacy { protected } => from.seal(TxLegacy {
                chain_id: protected.then_some(self.chain_id),
                nonce: self.nonce,
                gas_price: self.max_fee,
                gas_limit: self.gas_limit,
                to: self.to,
                value: self.value,
                input: self.input,
            }),
            Form::AccessList => from.seal(TxEip2930 {
                chain_id: self.chain_id,
                nonce: self.nonce,
                gas_price: self.max_fee,
                gas_limit: self.gas_limit,
                to: self.to,
                value: self.value,
                access_list: self.access_list,
                input: self.input,
            }),
            Form::DynamicFee => from.seal(TxEip1559 {
                chain_id: self.chain_id,
                nonce: self.nonce,
                gas_limit: self.gas_limit,
                max_fee_per_gas: self.max_fee,
                max_priority_fee_per_gas: self.tip,
                to: self.to,
                value: self.value,
                access_list: self.access_list,
                input: self.input,
            }),
            Form::Blob { values, max_fee } => from.seal(TxEip4844 {
                chain_id: self.chain_id,
                nonce: self.nonce,
                gas_limit: self.gas_limit,
                max_fee_per_gas: self.max_fee,
                max_priority_fee_per_gas: self.tip,
                to: target,
                value: self.value,
                access_list: self.access_list,
                blob_versioned_hashes: values.iter().map(|value| blob_hash(*value)).collect(),
                max_fee_per_blob_gas: max_fee,
                input: self.input,
            }),
            Form::SetCode(authorization_list) => from.seal(TxEip7702 {
                chain_id: self.chain_id,
                nonce: self.nonce,
                gas_limit: self.gas_limit,
                max_fee_per_gas: self.max_fee,
                max_priority_fee_per_gas: self.tip,
                to: target,
                value: self.value,
                access_list: self.access_list,
                authorization_list,
                input: self.input,
            }),
        }
    }
}

fn commitment(value: u8) -> [u8; 48] {
    if value == 0 { INFINITY } else { GENERATOR }
}

fn blob_hash(value: u8) -> B256 {
    versioned_hash(&commitment(value))
}

/// The form that pools pass around: the transaction with its blobs, commitments and proofs. The
/// proofs of constant polynomials are infinity.
pub(crate) fn with_blobs(signed: &[u8], values: &[u8], cells: bool) -> Bytes {
    let blob = |value: &u8| {
        let mut element = [0; 32];
        element[31] = *value;
        Bytes::from(element.repeat(BLOB_BYTES / 32))
    };
    let blobs: Vec<Bytes> = values.iter().map(blob).collect();
    let commitments: Vec<Bytes> = values
        .iter()
        .map(|value| commitment(*value).into())
        .collect();
    let proofs = values.len() * if cells { CELLS } else { 1 };
    let proofs = vec![Bytes::from(INFINITY); proofs];
    let mut list = signed[1..].to_vec();
    if cells {
        1_u8.encode(&mut list);
    }
    blobs.encode(&mut list);
    commitments.encode(&mut list);
    proofs.encode(&mut list);
    let mut encoded = vec![signed[0]];
    alloy_rlp::Header {
        list: true,
        payload_length: list.len(),
    }
    .encode(&mut encoded);
    encoded.extend(list);
    encoded.into()
}
