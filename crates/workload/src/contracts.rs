//! The workload's contracts: bytecode, storage layout and call data.
//!
//! The Solidity sources lie in `contracts/`; `contracts/build.mjs` makes the bytecode from them
//! and, with `--check`, says where they differ. Invariant: the slots computed here are the ones
//! the compiled code reads (Solidity's storage layout: a mapping's entry lies at
//! `keccak256(key ++ slot)`).

use alloy_primitives::{Address, B256, Bytes, U256, hex, keccak256};

/// Embeds a checked-in bytecode file.
macro_rules! bytecode {
    ($file:literal) => {{
        const TEXT: &[u8] = include_bytes!(concat!("../contracts/bytecode/", $file));
        const DIGITS: &[u8] = TEXT.split_at(TEXT.len() - 1).0;
        const CODE: [u8; DIGITS.len() / 2] = match hex::const_decode_to_array(DIGITS) {
            Ok(code) => code,
            Err(_) => panic!("bytecode is hexadecimal digits and one newline"),
        };
        &CODE
    }};
}

const TOKEN: &[u8] = bytecode!("Token.runtime.hex");
const PAIR: &[u8] = bytecode!("Pair.runtime.hex");
const SLOT_TOUCHER: &[u8] = bytecode!("SlotToucher.runtime.hex");
const WHALE: &[u8] = bytecode!("Whale.runtime.hex");
const COUNTER: &[u8] = bytecode!("Counter.runtime.hex");
const COUNTER_CREATION: &[u8] = bytecode!("Counter.creation.hex");

/// An ERC-20 token.
#[derive(Debug)]
pub struct Token;

impl Token {
    /// Runtime code.
    pub const fn code() -> Bytes {
        Bytes::from_static(TOKEN)
    }
    /// Slot of an account's balance.
    pub fn balance_slot(holder: Address) -> B256 {
        mapping_slot(holder.into_word(), U256::ZERO.into())
    }
    /// Slot of what `owner` lets `spender` spend.
    pub fn allowance_slot(owner: Address, spender: Address) -> B256 {
        let of_owner = mapping_slot(owner.into_word(), U256::ONE.into());
        mapping_slot(spender.into_word(), of_owner)
    }
    /// Slot of the supply.
    pub fn supply_slot() -> B256 {
        slot_number(2)
    }
    /// `transfer(to, amount)`.
    pub fn transfer(to: Address, amount: U256) -> Bytes {
        call(
            "transfer(address,uint256)",
            &[to.into_word(), amount.into()],
        )
    }
}

/// A constant-product pair.
#[derive(Debug)]
pub struct Pair;

impl Pair {
    /// Runtime code.
    pub const fn code() -> Bytes {
        Bytes::from_static(PAIR)
    }
    /// Slot of token `index`, 0 or 1.
    pub fn token_slot(index: u64) -> B256 {
        slot_number(index)
    }
    /// Slot of both reserves.
    pub fn reserves_slot() -> B256 {
        slot_number(2)
    }
    /// The value of the slot of both reserves.
    pub fn reserves(first: u128, second: u128) -> U256 {
        (U256::from(second) << 128) | U256::from(first)
    }
    /// `swap(forward, amountIn)`.
    pub fn swap(forward: bool, amount_in: u128) -> Bytes {
        call(
            "swap(bool,uint128)",
            &[
                slot_number(u64::from(forward)),
                U256::from(amount_in).into(),
            ],
        )
    }
}

/// A contract that reads and writes cells far apart.
#[derive(Debug)]
pub struct SlotToucher;

impl SlotToucher {
    /// Runtime code.
    pub const fn code() -> Bytes {
        Bytes::from_static(SLOT_TOUCHER)
    }
    /// Slot of a cell.
    pub fn cell_slot(cell: u64) -> B256 {
        mapping_slot(slot_number(cell), U256::ZERO.into())
    }
    /// `write(first, stride, count)`.
    pub fn write(first: u64, stride: u64, count: u64) -> Bytes {
        call(
            "write(uint256,uint256,uint256)",
            &[first, stride, count].map(slot_number),
        )
    }
    /// `read(first, stride, count)`.
    pub fn read(first: u64, stride: u64, count: u64) -> Bytes {
        call(
            "read(uint256,uint256,uint256)",
            &[first, stride, count].map(slot_number),
        )
    }
}

/// The contract that holds most of the state's slots.
#[derive(Debug)]
pub struct Whale;

impl Whale {
    /// Runtime code.
    pub const fn code() -> Bytes {
        Bytes::from_static(WHALE)
    }
    /// Slot of a deed.
    pub fn deed_slot(id: u64) -> B256 {
        mapping_slot(slot_number(id), U256::ZERO.into())
    }
    /// The value of a deed's slot.
    pub fn deed(owner: Address, since: u64) -> U256 {
        (U256::from(since) << 160) | U256::from_be_bytes(owner.into_word().0)
    }
    /// `claim(ids)`.
    pub fn claim(ids: &[u64]) -> Bytes {
        let mut words = vec![slot_number(32), slot_number(ids.len() as u64)];
        words.extend(ids.iter().map(|&id| slot_number(id)));
        call("claim(uint256[])", &words)
    }
}

/// A small contract, of which there are many.
#[derive(Debug)]
pub struct Counter;

impl Counter {
    /// Runtime code.
    pub const fn code() -> Bytes {
        Bytes::from_static(COUNTER)
    }
    /// Code that creates one.
    pub const fn creation_code() -> Bytes {
        Bytes::from_static(COUNTER_CREATION)
    }
    /// Slot of the count.
    pub fn count_slot() -> B256 {
        slot_number(0)
    }
    /// Slot of the last caller.
    pub fn last_slot() -> B256 {
        slot_number(1)
    }
    /// Slot of a caller's calls.
    pub fn calls_slot(caller: Address) -> B256 {
        mapping_slot(caller.into_word(), slot_number(2))
    }
    /// `poke()`.
    pub fn poke() -> Bytes {
        call("poke()", &[])
    }
}

fn slot_number(slot: u64) -> B256 {
    B256::from(U256::from(slot))
}

fn mapping_slot(key: B256, mapping: B256) -> B256 {
    let mut bytes = [0; 64];
    bytes[..32].copy_from_slice(key.as_slice());
    bytes[32..].copy_from_slice(mapping.as_slice());
    keccak256(bytes)
}

/// Call data of the contract ABI: four bytes of the signature's hash, then whole words.
fn call(signature: &str, words: &[B256]) -> Bytes {
    let mut data = Vec::with_capacity(4 + 32 * words.len());
    data.extend_from_slice(&keccak256(signature)[..4]);
    for word in words {
        data.extend_from_slice(word.as_slice());
    }
    data.into()
}
