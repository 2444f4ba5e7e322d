//! Transactions that nobody signed, as they stand in simulated blocks.
//!
//! Their signatures are zero, also in the encoding that their hashes are taken of.

use crate::{
    primitives::TransactionSigned,
    rpc::eth::{Answer, refusal::failed},
};
use alloy_consensus::{
    EthereumTxEnvelope, Signed, TxEip1559, TxEip4844, TxEip7702, TxLegacy, TxType,
    transaction::{Recovered, RlpEcdsaEncodableTx, TransactionInfo},
};
use alloy_eips::eip2718::Encodable2718;
use alloy_primitives::{Address, B256, Bytes, Signature, U256, keccak256};
use alloy_rlp::{EMPTY_STRING_CODE, Encodable};
use alloy_rpc_types_eth::{Transaction, TransactionRequest};
use revm::context::TxEnv;
use serde_json::Value;

/// A transaction without a signature.
#[derive(Debug, Clone)]
pub(super) struct Unsigned {
    transaction: TransactionSigned,
    from: Address,
    /// Its encoding (EIP-2718).
    pub(super) encoded: Bytes,
    /// Hash of the encoding.
    pub(super) hash: B256,
}

impl Unsigned {
    /// The transaction that `request` asks for, whose other fields `tx` has. It is one with a fee
    /// market unless it names a single price or `is_legacy` demands one.
    pub(super) fn new(
        request: &TransactionRequest,
        tx: &TxEnv,
        nonce: u64,
        is_legacy: bool,
    ) -> Answer<Self> {
        let from = tx.caller;
        if is_legacy || request.gas_price.is_some() {
            return Ok(Self::legacy(tx, nonce));
        }
        let signature = Signature::new(U256::ZERO, U256::ZERO, false);
        let transaction: TransactionSigned = if request.authorization_list.is_some() {
            Signed::new_unhashed(set_code(request, tx, nonce)?, signature).into()
        } else if request.blob_versioned_hashes.is_some() {
            Signed::new_unhashed(blob(tx, nonce)?, signature).into()
        } else {
            Signed::new_unhashed(dynamic_fee(tx, nonce), signature).into()
        };
        let encoded: Bytes = transaction.encoded_2718().into();
        Ok(Self {
            hash: keccak256(&encoded),
            transaction,
            from,
            encoded,
        })
    }

    /// Without a signature there is no `v` that would name a chain or a parity either.
    fn legacy(tx: &TxEnv, nonce: u64) -> Self {
        let legacy = TxLegacy {
            chain_id: None,
            nonce,
            gas_price: tx.gas_price,
            gas_limit: tx.gas_limit,
            to: tx.kind,
            value: tx.value,
            input: tx.data.clone(),
        };
        let no_signature = [EMPTY_STRING_CODE; 3];
        let mut encoded = Vec::new();
        let list = alloy_rlp::Header {
            list: true,
            payload_length: legacy.rlp_encoded_fields_length() + no_signature.len(),
        };
        list.encode(&mut encoded);
        legacy.rlp_encode_fields(&mut encoded);
        encoded.extend(no_signature);
        let hash = keccak256(&encoded);
        let signature = Signature::new(U256::ZERO, U256::ZERO, false);
        Self {
            transaction: EthereumTxEnvelope::Legacy(Signed::new_unchecked(legacy, signature, hash)),
            from: tx.caller,
            encoded: encoded.into(),
            hash,
        }
    }

    /// Its type.
    pub(super) fn tx_type(&self) -> TxType {
        self.transaction.tx_type()
    }

    /// What it pays for in blobs.
    pub(super) fn blob_gas(&self) -> u64 {
        use alloy_consensus::Transaction as _;
        self.transaction.blob_gas_used().unwrap_or_default()
    }

    /// Its length in the list of a block's transactions, in bytes.
    pub(super) fn block_bytes(&self) -> usize {
        if self.tx_type() == TxType::Legacy {
            self.encoded.len()
        } else {
            self.encoded.length()
        }
    }

    /// As `eth_getTransactionByHash` would show it.
    pub(super) fn shown(&self, place: TransactionInfo) -> Result<Value, serde_json::Error> {
        let recovered = Recovered::new_unchecked(self.transaction.clone(), self.from);
        let place = TransactionInfo {
            hash: Some(self.hash),
            ..place
        };
        let mut shown = serde_json::to_value(Transaction::from_transaction(recovered, place))?;
        if self.tx_type() == TxType::Legacy {
            shown["v"] = "0x0".into();
        }
        Ok(shown)
    }
}

fn dynamic_fee(tx: &TxEnv, nonce: u64) -> TxEip1559 {
    TxEip1559 {
        chain_id: tx.chain_id.unwrap_or_default(),
        nonce,
        gas_limit: tx.gas_limit,
        max_fee_per_gas: tx.gas_price,
        max_priority_fee_per_gas: tx.gas_priority_fee.unwrap_or_default(),
        to: tx.kind,
        value: tx.value,
        access_list: tx.access_list.clone(),
        input: tx.data.clone(),
    }
}

fn blob(tx: &TxEnv, nonce: u64) -> Answer<TxEip4844> {
    let TxEip1559 {
        chain_id,
        gas_limit,
        max_fee_per_gas,
        max_priority_fee_per_gas,
        value,
        access_list,
        input,
        ..
    } = dynamic_fee(tx, nonce);
    Ok(TxEip4844 {
        chain_id,
        nonce,
        gas_limit,
        max_fee_per_gas,
        max_priority_fee_per_gas,
        to: receiver(tx)?,
        value,
        access_list,
        blob_versioned_hashes: tx.blob_hashes.clone(),
        max_fee_per_blob_gas: tx.max_fee_per_blob_gas,
        input,
    })
}

fn set_code(request: &TransactionRequest, tx: &TxEnv, nonce: u64) -> Answer<TxEip7702> {
    let TxEip1559 {
        chain_id,
        gas_limit,
        max_fee_per_gas,
        max_priority_fee_per_gas,
        value,
        access_list,
        input,
        ..
    } = dynamic_fee(tx, nonce);
    Ok(TxEip7702 {
        chain_id,
        nonce,
        gas_limit,
        max_fee_per_gas,
        max_priority_fee_per_gas,
        to: receiver(tx)?,
        value,
        access_list,
        authorization_list: request.authorization_list.clone().unwrap_or_default(),
        input,
    })
}

/// Transactions of these types create no contracts.
fn receiver(tx: &TxEnv) -> Answer<Address> {
    let to = tx.kind.to().copied();
    to.ok_or_else(|| failed("a transaction of this type has a receiver"))
}
