//! A payload with what `engine_newPayload` takes beside it, as JSON, and the hash of its header.

use crate::chain::Fork;
use alloy_consensus::{EMPTY_OMMER_ROOT_HASH, Header, Transaction, TxEnvelope, proofs};
use alloy_eips::{eip2718::Decodable2718, eip4895::Withdrawal, eip7685::Requests};
use alloy_primitives::{B256, Bytes, U64, U256};
use alloy_trie::root::ordered_trie_root_encoded;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// The parameters of `engine_newPayload`, those a fork does not have being null.
#[derive(Debug, Clone)]
pub(crate) struct NewPayload {
    pub(crate) fork: Fork,
    pub(crate) payload: Value,
    pub(crate) blob_hashes: Value,
    pub(crate) beacon_root: Value,
    pub(crate) requests: Value,
}

impl NewPayload {
    /// From an answer of `engine_getPayload` or `testing_buildBlockV1`.
    pub(crate) fn new(fork: Fork, envelope: &Value, beacon_root: &Value) -> Self {
        // Version 1 answers with the bare payload.
        let mut payload = envelope.get("executionPayload").unwrap_or(envelope).clone();
        let hashes: Vec<B256> = transactions(&payload)
            .iter()
            .filter_map(|encoded| TxEnvelope::decode_2718_exact(encoded).ok())
            .flat_map(|decoded| decoded.blob_versioned_hashes().unwrap_or_default().to_vec())
            .collect();
        // `testing_buildBlockV1` answers in the newest shape, whatever the block's fork is.
        for (field, since) in [
            ("withdrawals", Fork::Shanghai),
            ("blobGasUsed", Fork::Cancun),
            ("excessBlobGas", Fork::Cancun),
            ("blockAccessList", Fork::Bpo2),
            ("slotNumber", Fork::Bpo2),
        ] {
            if fork < since || payload[field].is_null() {
                payload.as_object_mut().unwrap().remove(field);
            }
        }
        let requests = envelope.get("executionRequests");
        let requests = requests.filter(|_| fork >= Fork::Prague);
        Self {
            fork,
            payload,
            blob_hashes: json!(hashes),
            beacon_root: beacon_root.clone(),
            requests: requests.cloned().unwrap_or(Value::Null),
        }
    }

    /// Positional parameters for the fork's version of the method.
    pub(crate) fn params(&self) -> Value {
        match self.fork {
            Fork::Paris | Fork::Shanghai => json!([self.payload]),
            Fork::Cancun => json!([self.payload, self.blob_hashes, self.beacon_root]),
            _ => json!([
                self.payload,
                self.blob_hashes,
                self.beacon_root,
                self.requests
            ]),
        }
    }

    pub(crate) fn number(&self, field: &str) -> u64 {
        quantity(&self.payload[field])
    }

    pub(crate) fn hash(&self) -> Value {
        self.payload["blockHash"].clone()
    }

    /// Gives the payload the hash its fields have, as a proposer of a wrong block would.
    pub(crate) fn seal(&mut self) {
        self.payload["blockHash"] = json!(self.header().hash_slow());
    }

    /// The header these parameters describe.
    fn header(&self) -> Header {
        let payload = &self.payload;
        let optional = |field: &str| payload.get(field).map(quantity);
        let withdrawals: Option<Vec<Withdrawal>> = payload.get("withdrawals").map(read);
        let has = |fork: Fork| self.fork >= fork;
        Header {
            parent_hash: read(&payload["parentHash"]),
            ommers_hash: EMPTY_OMMER_ROOT_HASH,
            beneficiary: read(&payload["feeRecipient"]),
            state_root: read(&payload["stateRoot"]),
            transactions_root: ordered_trie_root_encoded(&transactions(payload)),
            receipts_root: read(&payload["receiptsRoot"]),
            logs_bloom: read(&payload["logsBloom"]),
            number: quantity(&payload["blockNumber"]),
            gas_limit: quantity(&payload["gasLimit"]),
            gas_used: quantity(&payload["gasUsed"]),
            timestamp: quantity(&payload["timestamp"]),
            extra_data: read(&payload["extraData"]),
            mix_hash: read(&payload["prevRandao"]),
            base_fee_per_gas: Some(read::<U256>(&payload["baseFeePerGas"]).to()),
            withdrawals_root: withdrawals.map(|list| proofs::calculate_withdrawals_root(&list)),
            blob_gas_used: optional("blobGasUsed"),
            excess_blob_gas: optional("excessBlobGas"),
            parent_beacon_block_root: has(Fork::Cancun).then(|| read(&self.beacon_root)),
            requests_hash: has(Fork::Prague).then(|| {
                let requests: Vec<Bytes> = read(&self.requests);
                Requests::new(requests).requests_hash()
            }),
            ..Default::default()
        }
    }
}

/// The encoded transactions of a payload.
pub(crate) fn transactions(payload: &Value) -> Vec<Bytes> {
    read(&payload["transactions"])
}

pub(crate) fn read<T: DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).unwrap_or_else(|error| panic!("{value}: {error}"))
}

/// A number written as a quantity.
pub(crate) fn quantity(value: &Value) -> u64 {
    read::<U64>(value).to()
}
