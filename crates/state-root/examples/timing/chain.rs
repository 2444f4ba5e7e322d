//! A synthetic state and the blocks on it, in the proportions of the small profile's workloads.

use alloy_primitives::{Address, B256, U256, keccak256};
use state_root::{
    mem::MemState,
    updates::{Account, AccountChange},
};
use std::{collections::BTreeMap, error::Error, fmt, str::FromStr};

const EOAS: u64 = 180_000;
const SENDERS: u64 = 1_000;
const TOKENS: u64 = 16;
const HOLDERS: u64 = 5_000;
const TOUCHERS: u64 = 500;
const CELLS: u64 = 200;
const COUNTERS: u64 = 10_000;
const DEEDS: u64 = 290_000;

const FIRST_TOKEN: u64 = EOAS;
const FIRST_TOUCHER: u64 = FIRST_TOKEN + TOKENS;
const FIRST_COUNTER: u64 = FIRST_TOUCHER + TOUCHERS;
const WHALE: u64 = FIRST_COUNTER + COUNTERS;

/// What the blocks do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mix {
    /// Transfers and token transfers, spread over the state.
    Mainnet,
    /// The same few accounts and slots, again and again.
    Hot,
    /// Slots of one contract.
    Whale,
    /// Slots of many contracts.
    ColdStorage,
}

impl Mix {
    pub(crate) const ALL: [Self; 4] = [Self::Mainnet, Self::Hot, Self::Whale, Self::ColdStorage];
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mainnet => "mainnet",
            Self::Hot => "hot",
            Self::Whale => "whale",
            Self::ColdStorage => "cold-storage",
        })
    }
}

impl FromStr for Mix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|mix| mix.to_string() == text);
        found.ok_or_else(|| format!("no mix is called {text}"))
    }
}

/// The base state and its root.
pub(crate) fn state() -> Result<(MemState, B256), Box<dyn Error>> {
    let account = |index| (keccak256(address(index)), balance(index));
    let slots_of = |owner: u64, count: u64| {
        let slots = (0..count).map(|slot| (keccak256(slot_key(slot)), U256::from(slot + 1)));
        (keccak256(address(owner)), slots.collect::<BTreeMap<_, _>>())
    };
    let tokens = (FIRST_TOKEN..FIRST_TOUCHER).map(|token| slots_of(token, HOLDERS));
    let touchers = (FIRST_TOUCHER..FIRST_COUNTER).map(|toucher| slots_of(toucher, CELLS));
    let counters = (FIRST_COUNTER..WHALE).map(|counter| slots_of(counter, 3));
    let storages = tokens.chain(touchers).chain(counters);
    let storages = storages.chain([slots_of(WHALE, DEEDS)]).collect();
    let accounts = (0..=WHALE).map(account).collect();
    Ok(MemState::from_leaves(accounts, storages)?)
}

/// A pseudo-random sequence.
struct Draws(u64);

impl Draws {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) % bound
    }

    /// Small numbers more often: evenly in the logarithm.
    fn skewed(&mut self, bound: u64) -> u64 {
        let below = 1 + self.below(bound);
        self.below(below)
    }
}

/// The changes of a block, transaction by transaction, about `leaves` of them.
pub(crate) fn block(mix: Mix, leaves: usize, seed: u64) -> Vec<AccountChange> {
    let mut draws = Draws(seed << 32);
    let mut changes = Vec::new();
    let mut keys = 0;
    while keys < leaves {
        let transaction = transaction(mix, &mut draws, seed);
        let count = |change: &AccountChange| 1 + change.slots.len();
        keys += transaction.iter().map(count).sum::<usize>();
        changes.extend(transaction);
    }
    changes
}

fn transaction(mix: Mix, draws: &mut Draws, seed: u64) -> Vec<AccountChange> {
    let set = |slot| (slot_key(slot), U256::from(seed + 1_000_000));
    let kind = draws.below(100);
    let (owner, slots) = match mix {
        Mix::Hot => (
            FIRST_TOKEN + draws.below(2),
            vec![draws.below(60), draws.below(60)],
        ),
        Mix::Whale => (WHALE, (0..8).map(|_| draws.below(DEEDS)).collect()),
        Mix::ColdStorage => {
            let toucher = FIRST_TOUCHER + draws.below(TOUCHERS);
            (toucher, (0..8).map(|_| draws.below(CELLS)).collect())
        }
        Mix::Mainnet if kind < 27 => (draws.below(EOAS), Vec::new()),
        Mix::Mainnet if kind < 54 => (draws.skewed(EOAS), Vec::new()),
        Mix::Mainnet if kind < 86 => {
            let token = FIRST_TOKEN + draws.skewed(TOKENS);
            // One in ten holds nothing yet.
            let holders = HOLDERS * 11 / 10;
            (token, vec![draws.skewed(HOLDERS), draws.below(holders)])
        }
        Mix::Mainnet if kind < 92 => (FIRST_COUNTER + draws.below(COUNTERS), vec![draws.below(3)]),
        Mix::Mainnet => {
            let toucher = FIRST_TOUCHER + draws.below(TOUCHERS);
            let first = draws.below(CELLS);
            (toucher, (first..first + 4).collect())
        }
    };
    let senders = if mix == Mix::Hot { 50 } else { SENDERS };
    let sender = draws.below(senders);
    let changed = |index: u64, slots: Vec<u64>| AccountChange {
        address: address(index),
        account: Some(Account {
            nonce: seed + draws.0 % 1_000,
            ..balance(index)
        }),
        storage_wiped: false,
        slots: slots.into_iter().map(set).collect(),
    };
    vec![changed(sender, Vec::new()), changed(owner, slots)]
}

fn address(index: u64) -> Address {
    Address::left_padding_from(&index.to_be_bytes())
}

fn slot_key(slot: u64) -> B256 {
    U256::from(slot).into()
}

fn balance(index: u64) -> Account {
    Account {
        nonce: index,
        balance: U256::from(1) << 60,
        ..Account::default()
    }
}
