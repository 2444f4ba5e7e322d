//! Signed transactions: three envelopes, RFC 6979 signatures.
//!
//! Invariant: signing is a pure function, so equal plans give equal bytes.

use crate::{genesis::CHAIN_ID, state::Sender};
use alloy_consensus::{SignableTransaction, TxEip1559, TxEip2930, TxLegacy};
use alloy_eips::eip2718::Encodable2718;
use alloy_primitives::{Bytes, Signature, TxKind, U256};
use secp256k1::{Message, SECP256K1};

/// Wei per gas offered to the block's proposer.
const PRIORITY_FEE_WEI: u128 = 1_000_000_000;
/// The most wei per gas that is paid; far above the base fee that blocks below half of the gas
/// limit lead to.
const MAX_FEE_WEI: u128 = 100_000_000_000;

/// The form a transaction is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Envelope {
    /// Untyped, with the chain id in the signature (EIP-155).
    Legacy,
    /// EIP-2930, with an empty access list.
    AccessList,
    /// EIP-1559.
    DynamicFee,
}

/// What a transaction does, without who signs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The account called, or a contract creation.
    pub to: TxKind,
    /// Wei sent along.
    pub value: U256,
    /// Call data, or the code that creates a contract.
    pub input: Bytes,
    /// The most gas it may use.
    pub gas_limit: u64,
}

/// Signs `call` as `sender`'s transaction number `nonce` and encodes it (EIP-2718).
pub fn sign(sender: &Sender, nonce: u64, envelope: Envelope, call: &Call) -> Bytes {
    let Call {
        to,
        value,
        input,
        gas_limit,
    } = call.clone();
    match envelope {
        Envelope::Legacy => seal(
            sender,
            TxLegacy {
                chain_id: Some(CHAIN_ID),
                nonce,
                gas_price: 2 * PRIORITY_FEE_WEI,
                gas_limit,
                to,
                value,
                input,
            },
        ),
        Envelope::AccessList => seal(
            sender,
            TxEip2930 {
                chain_id: CHAIN_ID,
                nonce,
                gas_price: 2 * PRIORITY_FEE_WEI,
                gas_limit,
                to,
                value,
                access_list: Default::default(),
                input,
            },
        ),
        Envelope::DynamicFee => seal(
            sender,
            TxEip1559 {
                chain_id: CHAIN_ID,
                nonce,
                gas_limit,
                max_fee_per_gas: MAX_FEE_WEI,
                max_priority_fee_per_gas: PRIORITY_FEE_WEI,
                to,
                value,
                access_list: Default::default(),
                input,
            },
        ),
    }
}

fn seal<T>(sender: &Sender, transaction: T) -> Bytes
where
    T: SignableTransaction<Signature>,
    alloy_consensus::Signed<T>: Encodable2718,
{
    let message = Message::from_digest(transaction.signature_hash().0);
    let signature = SECP256K1.sign_ecdsa_recoverable(message, &sender.secret);
    let (recovery_id, bytes) = signature.serialize_compact();
    let odd_y = i32::from(recovery_id) & 1 == 1;
    let signature = Signature::from_bytes_and_parity(&bytes, odd_y);
    transaction.into_signed(signature).encoded_2718().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BaseState, Profile};
    use alloy_consensus::{
        EthereumTxEnvelope, Transaction, TxEip4844, transaction::SignerRecoverable,
    };
    use alloy_eips::eip2718::Decodable2718;
    use alloy_primitives::Address;

    #[test]
    fn every_envelope_recovers_to_its_sender() {
        let base = BaseState::new(
            Profile::Large {
                accounts: 2_000,
                slots: 10_000,
            },
            3,
        );
        let call = Call {
            to: TxKind::Call(Address::repeat_byte(7)),
            value: U256::from(5),
            input: Bytes::from_static(b"data"),
            gas_limit: 50_000,
        };
        for (nonce, sender) in base.senders().iter().enumerate() {
            for envelope in [Envelope::Legacy, Envelope::AccessList, Envelope::DynamicFee] {
                let raw = sign(sender, nonce as u64, envelope, &call);
                let decoded =
                    EthereumTxEnvelope::<TxEip4844>::decode_2718_exact(raw.as_ref()).unwrap();
                assert_eq!(decoded.recover_signer().unwrap(), sender.address);
                assert_eq!(
                    (decoded.nonce(), decoded.chain_id()),
                    (nonce as u64, Some(CHAIN_ID))
                );
                assert_eq!(decoded.input(), &call.input);
                assert_eq!(raw, sign(sender, nonce as u64, envelope, &call));
            }
        }
    }
}
