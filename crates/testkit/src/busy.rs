//! A chain whose blocks change hundreds of accounts and slots, and a second branch from its middle.

use crate::node::{Node, World, ZERO, block_rlp, stderr, tiny_genesis};
use alloy_consensus::{SignableTransaction, TxEip1559};
use alloy_eips::eip2718::Encodable2718;
use alloy_primitives::{Address, Bytes, Signature, TxKind, U256, hex, keccak256};
use secp256k1::{Message, PublicKey, SECP256K1, SecretKey};
use serde_json::{Value, json};

/// The last block both branches have.
pub const FORK: u64 = 20;
/// Blocks of the trunk.
pub const TRUNK: u64 = 48;
/// Last block of the branch.
pub const BRANCH: u64 = 40;

/// Takes words of a slot number and, in the lowest byte, its new value; logs as many bytes as it
/// was given.
const WRITER: &str = "5f5b3681101560 1a57803580 60ff1690 60081c55 6020016001565b 6007365fa100";
const WRITER_ADDRESS: &str = "0x00000000000000000000000000000000000b0050";
/// Slots the writer has from the start, and may get.
const SLOTS: std::ops::Range<u64> = 0..3000;
const FIRST_SLOTS: u64 = 1500;
const ACCOUNTS: u64 = 1500;
const CALLS: u64 = 5;
const SLOTS_PER_CALL: u64 = 40;
const PAYMENTS: u64 = 5;
/// Transactions of every block.
const TRANSACTIONS: u64 = CALLS + PAYMENTS + 1;

/// A block with everything to send it again.
#[derive(Debug)]
pub struct Block {
    /// Its hash.
    pub hash: String,
    /// Its state root.
    pub root: String,
    /// What the builder answered.
    pub envelope: Value,
}

/// Both branches; the second begins behind [`FORK`].
#[derive(Debug)]
pub struct Chain {
    /// Blocks from 1 on.
    pub trunk: Vec<Block>,
    /// Blocks behind [`FORK`].
    pub branch: Vec<Block>,
}

/// Small numbers that look random and are the same everywhere.
#[derive(Debug)]
pub struct Draws(pub u64);

impl Draws {
    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) % bound
    }
}

fn secret() -> SecretKey {
    SecretKey::from_byte_array([0x5e; 32]).unwrap()
}

fn sender() -> Address {
    let public = PublicKey::from_secret_key(SECP256K1, &secret()).serialize_uncompressed();
    Address::from_slice(&keccak256(&public[1..])[12..])
}

/// The tiny genesis with many accounts and a contract with many slots.
pub fn genesis() -> Value {
    let mut genesis = tiny_genesis();
    let alloc = genesis["alloc"].as_object_mut().unwrap();
    for index in 0..ACCOUNTS {
        let address = Address::from_slice(&keccak256(index.to_be_bytes())[..20]);
        alloc.insert(
            address.to_string(),
            json!({"balance": format!("{:#x}", index + 1)}),
        );
    }
    let word = |number: u64| format!("{:#066x}", number);
    let storage: serde_json::Map<_, _> = (0..FIRST_SLOTS)
        .map(|slot| (word(slot), json!(word(slot + 1))))
        .collect();
    let code = format!("0x{}", WRITER.replace(' ', ""));
    alloc.insert(
        WRITER_ADDRESS.to_owned(),
        json!({"balance": "0x0", "nonce": "0x1", "code": code, "storage": storage}),
    );
    alloc.insert(
        sender().to_string(),
        json!({"balance": "0xd3c21bcecceda1000000"}),
    );
    genesis
}

fn sign(nonce: u64, to: TxKind, value: u64, input: Bytes) -> String {
    let transaction = TxEip1559 {
        chain_id: 1337,
        nonce,
        gas_limit: 2_000_000,
        max_fee_per_gas: 1_000_000_000_000,
        max_priority_fee_per_gas: 1,
        to,
        value: U256::from(value),
        input,
        ..TxEip1559::default()
    };
    let message = Message::from_digest(transaction.signature_hash().0);
    let signature = SECP256K1.sign_ecdsa_recoverable(message, &secret());
    let (recovery_id, bytes) = signature.serialize_compact();
    let odd_y = i32::from(recovery_id) & 1 == 1;
    let signature = Signature::from_bytes_and_parity(&bytes, odd_y);
    let signed = transaction.into_signed(signature);
    hex::encode_prefixed(signed.encoded_2718())
}

/// The transactions of block `number`; `salt` tells branches apart.
fn transactions(number: u64, salt: u64) -> Vec<String> {
    let mut draws = Draws(number << 8 | salt);
    let mut nonce = (number - 1) * TRANSACTIONS;
    let mut signed = Vec::new();
    let mut add = |to, value, input| {
        signed.push(sign(nonce, to, value, input));
        nonce += 1;
    };
    let writer = TxKind::Call(WRITER_ADDRESS.parse().unwrap());
    for _ in 0..CALLS {
        let words = (0..SLOTS_PER_CALL).flat_map(|_| {
            let value = draws.below(4) * draws.below(64);
            let word = U256::from(draws.below(SLOTS.end) << 8 | value);
            word.to_be_bytes::<32>()
        });
        add(writer, 0, words.collect());
    }
    for _ in 0..PAYMENTS {
        let payee = keccak256(draws.below(2 * ACCOUNTS).to_be_bytes());
        add(
            TxKind::Call(Address::from_slice(&payee[..20])),
            1 + draws.below(9),
            Bytes::new(),
        );
    }
    // Stores a number and becomes code of three bytes that hold it.
    let byte = draws.below(256) as u8;
    let init = [
        0x60, byte, 0x5f, 0x55, 0x60, byte, 0x5f, 0x53, 0x60, 3, 0x5f, 0xf3,
    ];
    add(TxKind::Create, 0, Bytes::copy_from_slice(&init));
    signed
}

/// Builds blocks on the node's head up to `last` and makes each the head.
fn grow(node: &Node, last: u64, salt: u64) -> Vec<Block> {
    let mut blocks = Vec::new();
    loop {
        let head = node.head();
        let number = u64::from_str_radix(&head["number"].as_str().unwrap()[2..], 16).unwrap() + 1;
        if number > last {
            return blocks;
        }
        let mut attributes = node.attributes();
        attributes["prevRandao"] = json!(format!("{salt:#066x}"));
        let params = json!([head["hash"], attributes, transactions(number, salt), null]);
        let envelope = node.public("testing_buildBlockV1", params).unwrap();
        let payload = &envelope["executionPayload"];
        let built = payload["transactions"].as_array().unwrap().len() as u64;
        assert_eq!(
            built, TRANSACTIONS,
            "a transaction was left out of block {number}"
        );
        assert_eq!(node.new_payload(&envelope)["status"], "VALID");
        node.forkchoice(&payload["blockHash"]);
        let text = |field: &str| payload[field].as_str().unwrap().to_owned();
        blocks.push(Block {
            hash: text("blockHash"),
            root: text("stateRoot"),
            envelope,
        });
    }
}

impl Chain {
    /// Builds the trunk in one uninterrupted run, then the branch, in a world that is left at
    /// genesis.
    pub fn build(world: &World) -> Self {
        std::fs::write(world.genesis(), genesis().to_string()).unwrap();
        let unwind = |block: u64| {
            let unwound = world.run(&["stage", "unwind", "to-block", &block.to_string()]);
            assert!(unwound.status.success(), "{}", stderr(&unwound));
        };
        let node = world.node(&[]);
        let trunk = grow(&node, TRUNK, 0);
        node.terminate();
        unwind(FORK);
        let node = world.node(&[]);
        let branch = grow(&node, BRANCH, 1);
        node.terminate();
        unwind(0);
        assert_eq!(
            (trunk.len() as u64, branch.len() as u64),
            (TRUNK, BRANCH - FORK)
        );
        Self { trunk, branch }
    }

    /// Block `number` of the trunk or of the branch.
    pub fn block(&self, on_branch: bool, number: u64) -> Option<&Block> {
        if on_branch && number > FORK {
            self.branch.get((number - FORK - 1) as usize)
        } else {
            self.trunk.get(number.checked_sub(1)? as usize)
        }
    }

    /// The trunk as a file of RLP blocks.
    pub fn trunk_rlp(&self) -> Vec<u8> {
        self.trunk
            .iter()
            .flat_map(|block| block_rlp(&block.envelope))
            .collect()
    }

    /// A fork choice for block `number`, with safe and finalized blocks some way behind it.
    pub fn forkchoice(&self, on_branch: bool, number: u64) -> Value {
        let hash = |number: Option<u64>| {
            let block = number.and_then(|number| self.block(on_branch, number));
            block.map_or_else(|| ZERO.to_owned(), |block| block.hash.clone())
        };
        json!({
            "headBlockHash": hash(Some(number)),
            "safeBlockHash": hash(number.checked_sub(3)),
            "finalizedBlockHash": hash(number.checked_sub(6).map(|behind| behind.min(FORK))),
        })
    }
}
