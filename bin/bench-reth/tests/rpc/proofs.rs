//! Proofs hold against the state root of the header they are asked for.

use crate::{CHAIN, Reader, TRUNK, WRITER, hex, list, trunk};
use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use alloy_trie::{Nibbles, TrieAccount, proof::verify_proof};
use serde_json::{Value, json};

fn nodes(value: &Value) -> Vec<Bytes> {
    serde_json::from_value(value.clone()).unwrap()
}

fn word(value: &Value) -> U256 {
    serde_json::from_value(value.clone()).unwrap()
}

/// Asks for an account and slots, and follows every proof from the block's root.
#[track_caller]
fn check(reader: &Reader, address: Address, slots: &[U256], block: Value, root: B256) {
    let keys: Vec<_> = slots.iter().map(|slot| format!("{slot:#x}")).collect();
    let proof = reader.ask("eth_getProof", json!([address, keys, block]));
    let storage_root: B256 = serde_json::from_value(proof["storageHash"].clone()).unwrap();
    let nonce: u64 = word(&proof["nonce"]).to();
    let code_hash = serde_json::from_value(proof["codeHash"].clone()).unwrap();
    let exists = code_hash != B256::ZERO;
    let account = TrieAccount::new(nonce, word(&proof["balance"]), storage_root, code_hash);
    let leaf = exists.then(|| alloy_rlp::encode(account));
    let path = Nibbles::unpack(keccak256(address));
    verify_proof(root, path, leaf, &nodes(&proof["accountProof"])).unwrap();
    assert_eq!(
        reader.ask("eth_getBalance", json!([address, block])),
        proof["balance"]
    );
    for (slot, proven) in slots.iter().zip(list(&proof["storageProof"])) {
        assert_eq!(proven["key"], format!("{slot:#x}"));
        let value = word(&proven["value"]);
        let stored = reader.ask("eth_getStorageAt", json!([address, proven["key"], block]));
        assert_eq!(stored, json!(B256::from(value)), "{slot}");
        if exists {
            let leaf = (!value.is_zero()).then(|| alloy_rlp::encode(value));
            let path = Nibbles::unpack(keccak256(B256::from(*slot)));
            verify_proof(storage_root, path, leaf, &nodes(&proven["proof"])).unwrap();
        } else {
            assert_eq!(proven["proof"], json!([]));
        }
    }
}

#[test]
fn proofs_hold_in_memory_in_the_database_and_in_its_past() {
    let reader = trunk();
    let writer: Address = WRITER.parse().unwrap();
    let slots: Vec<_> = (0..3100).step_by(97).map(U256::from).collect();
    let absent = Address::repeat_byte(0xee);
    let payee = Address::from_slice(&keccak256(7u64.to_be_bytes())[..20]);
    for number in [1, 2, 20, 43, 44, 45, 47, TRUNK] {
        let block = CHAIN.block(false, number).unwrap();
        let root = block.root.parse().unwrap();
        check(&reader, writer, &slots, hex(number), root);
        check(&reader, payee, &slots[..1], json!(block.hash), root);
        check(&reader, absent, &slots[..2], hex(number), root);
    }
    let head = reader.ask("eth_getProof", json!([WRITER, ["0x1"]]));
    assert_eq!(
        reader.ask("eth_getProof", json!([WRITER, ["0x1"], "latest"])),
        head
    );
}

#[test]
fn the_state_of_a_side_chain_is_proven_too() {
    let reader = trunk();
    let fork = testkit::busy::FORK;
    let numbers = [fork + 1, fork + 2];
    for number in numbers {
        reader.send(true, number);
    }
    for number in numbers {
        let block = CHAIN.block(true, number).unwrap();
        let slots = [U256::ZERO, U256::from(9)];
        let writer = WRITER.parse().unwrap();
        check(
            &reader,
            writer,
            &slots,
            json!(block.hash),
            block.root.parse().unwrap(),
        );
    }
}
