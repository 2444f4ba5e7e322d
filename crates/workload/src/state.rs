//! A base state as a pure stream: every account and slot is a function of the seed and its index.
//!
//! Accounts come in a fixed order of kinds (system contracts, senders, tokens, pairs, touchers,
//! counters, the whale, other externally owned accounts), each followed by its slots. Invariant:
//! addresses are distinct, slots are distinct within an account and never zero, and the contracts'
//! slots hold what their code needs for the mixes' transactions to succeed.

use crate::{
    contracts::{Counter, Pair, SlotToucher, Token, Whale},
    profile::{COUNTER_SLOTS, Layout, PAIR_SLOTS, Profile, SYSTEM_CONTRACTS},
    random::{Domain, draw, draw_address},
};
use alloy_eips::{eip2935, eip4788, eip7002, eip7251};
use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use secp256k1::{PublicKey, SECP256K1, SecretKey};
use std::sync::Arc;

/// Wei in one ether.
const ETHER: u128 = 1_000_000_000_000_000_000;
/// What each sender starts with, in wei: one million ether.
const SENDER_BALANCE: u128 = 1_000_000 * ETHER;
/// What each sender holds of each token, in its smallest unit.
pub(crate) const SENDER_TOKENS: u128 = 1_000_000 * ETHER;
/// What each pair holds of each of its tokens.
pub(crate) const PAIR_TOKENS: u128 = 1_000_000_000 * ETHER;
/// The supply each token states; no less than what is held.
const TOKEN_SUPPLY: u128 = 100_000_000_000 * ETHER;

/// One element of a base state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StateItem {
    /// An account; the slots that follow, up to the next account, are its own.
    Account {
        /// Address.
        address: Address,
        /// Nonce.
        nonce: u64,
        /// Balance in wei.
        balance: U256,
        /// Runtime code of a contract.
        code: Option<Bytes>,
    },
    /// A slot of the account before.
    Slot {
        /// Slot number, not hashed.
        key: B256,
        /// Value, never zero.
        value: U256,
    },
}

/// A prefunded account whose key is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sender {
    /// Address.
    pub address: Address,
    /// The key that signs for it.
    pub secret: SecretKey,
}

/// A deterministic base state. Cheap to clone.
#[derive(Debug, Clone)]
pub struct BaseState {
    profile: Profile,
    seed: u64,
    layout: Layout,
    senders: Arc<[Sender]>,
}

/// Which account an index stands for; the number counts within the kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    System(u64),
    Sender(u64),
    Token(u64),
    Pair(u64),
    Toucher(u64),
    Counter(u64),
    Whale,
    Eoa(u64),
}

/// Makes a kind of a number within it.
type MakeKind = fn(u64) -> Kind;

impl BaseState {
    /// The state of this size and seed. Derives the senders' keys; everything else is lazy.
    pub fn new(profile: Profile, seed: u64) -> Self {
        let layout = profile.layout();
        let senders = (0..layout.senders).map(|i| sender(seed, i)).collect();
        Self {
            profile,
            seed,
            layout,
            senders,
        }
    }

    /// Its size.
    pub const fn profile(&self) -> Profile {
        self.profile
    }

    /// The seed it grows from.
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// How many of each kind it holds.
    pub const fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Number of accounts.
    pub const fn account_count(&self) -> u64 {
        self.profile.accounts()
    }

    /// Number of slots.
    pub const fn slot_count(&self) -> u64 {
        self.profile.slots()
    }

    /// All accounts, each followed by its slots.
    pub fn items(&self) -> impl Iterator<Item = StateItem> + '_ {
        (0..self.account_count())
            .flat_map(move |index| std::iter::once(self.account(index)).chain(self.slots(index)))
    }

    /// Account `index`, below [`Self::account_count`].
    pub fn account(&self, index: u64) -> StateItem {
        let (address, nonce, balance, code) = match self.kind(index) {
            Kind::System(i) => {
                let (address, code) = system_contract(i);
                (address, 1, 0, Some(code))
            }
            Kind::Sender(i) => (self.senders[i as usize].address, 0, SENDER_BALANCE, None),
            Kind::Token(i) => (self.token(i), 1, 0, Some(Token::code())),
            Kind::Pair(i) => (self.pair(i), 1, 0, Some(Pair::code())),
            Kind::Toucher(i) => (self.toucher(i), 1, 0, Some(SlotToucher::code())),
            Kind::Counter(i) => (self.counter(i), 1, 0, Some(Counter::code())),
            Kind::Whale => (self.whale(), 1, 0, Some(Whale::code())),
            Kind::Eoa(i) => {
                let nonce = draw(self.seed, Domain::Balance, i, 0) % 200;
                let balance = u128::from(draw(self.seed, Domain::Balance, i, 1)) + 1;
                (self.eoa(i), nonce, balance, None)
            }
        };
        StateItem::Account {
            address,
            nonce,
            balance: U256::from(balance),
            code,
        }
    }

    /// The slots of account `index`.
    pub fn slots(&self, index: u64) -> impl Iterator<Item = StateItem> + '_ {
        let kind = self.kind(index);
        (0..self.slots_of(kind)).map(move |slot| {
            let (key, value) = self.slot(kind, slot);
            StateItem::Slot { key, value }
        })
    }

    /// The prefunded accounts.
    pub fn senders(&self) -> &[Sender] {
        &self.senders
    }

    /// Address of externally owned account `i`, below `layout().eoas`.
    pub fn eoa(&self, i: u64) -> Address {
        draw_address(self.seed, Domain::Account, i)
    }

    /// Address of an account that the base state does not hold.
    pub fn fresh_account(&self, i: u64) -> Address {
        draw_address(self.seed, Domain::Fresh, i)
    }

    /// Address of token `i`, below `layout().tokens`.
    pub fn token(&self, i: u64) -> Address {
        self.contract(0, i)
    }

    /// Holder `i` of `token`, below `layout().holders_per_token`: which externally owned account.
    pub const fn holder(&self, token: u64, i: u64) -> u64 {
        (token * self.layout.holders_per_token + i) % self.layout.eoas
    }

    /// Whether externally owned account `eoa` holds `token` in the base state.
    pub const fn is_holder(&self, token: u64, eoa: u64) -> bool {
        let first = self.holder(token, 0);
        (eoa + self.layout.eoas - first) % self.layout.eoas < self.layout.holders_per_token
    }

    /// Address of pair `i`, below `layout().pairs`, where tokens 2i and 2i+1 trade.
    pub fn pair(&self, i: u64) -> Address {
        self.contract(1, i)
    }

    /// Address of slot toucher `i`, below `layout().touchers`.
    pub fn toucher(&self, i: u64) -> Address {
        self.contract(2, i)
    }

    /// Address of small contract `i`, below `layout().counters`.
    pub fn counter(&self, i: u64) -> Address {
        self.contract(3, i)
    }

    /// Address of the contract with most of the slots.
    pub fn whale(&self) -> Address {
        self.contract(4, 0)
    }

    fn contract(&self, kind: u64, i: u64) -> Address {
        draw_address(self.seed, Domain::Contract, (kind << 56) | i)
    }

    fn kind(&self, index: u64) -> Kind {
        let layout = &self.layout;
        let mut i = index;
        let kinds: [(u64, MakeKind); 7] = [
            (SYSTEM_CONTRACTS, Kind::System),
            (layout.senders, Kind::Sender),
            (layout.tokens, Kind::Token),
            (layout.pairs, Kind::Pair),
            (layout.touchers, Kind::Toucher),
            (layout.counters, Kind::Counter),
            (1, |_| Kind::Whale),
        ];
        for (count, kind) in kinds {
            if i < count {
                return kind(i);
            }
            i -= count;
        }
        Kind::Eoa(i)
    }

    const fn slots_of(&self, kind: Kind) -> u64 {
        let layout = &self.layout;
        match kind {
            Kind::Token(_) => 2 + 2 * layout.senders + layout.holders_per_token,
            Kind::Pair(_) => PAIR_SLOTS,
            Kind::Toucher(_) => layout.cells_per_toucher,
            Kind::Counter(_) => COUNTER_SLOTS,
            Kind::Whale => layout.deeds,
            Kind::System(_) | Kind::Sender(_) | Kind::Eoa(_) => 0,
        }
    }

    fn slot(&self, kind: Kind, slot: u64) -> (B256, U256) {
        match kind {
            Kind::Token(token) => self.token_slot(token, slot),
            Kind::Pair(pair) => self.pair_slot(pair, slot),
            Kind::Toucher(toucher) => {
                let value = draw(self.seed, Domain::Slot, toucher, slot) | 1;
                (SlotToucher::cell_slot(slot), U256::from(value))
            }
            Kind::Counter(counter) => self.counter_slot(counter, slot),
            Kind::Whale => {
                let owner = draw(self.seed, Domain::Slot, u64::MAX, slot) % self.layout.eoas;
                (Whale::deed_slot(slot), Whale::deed(self.eoa(owner), 0))
            }
            // These have no slots, so nobody asks.
            Kind::System(_) | Kind::Sender(_) | Kind::Eoa(_) => (B256::ZERO, U256::ZERO),
        }
    }

    /// Supply, the pair's balance, then balances and allowances of senders, balances of holders.
    fn token_slot(&self, token: u64, slot: u64) -> (B256, U256) {
        let senders = self.layout.senders;
        let sender = |i: u64| self.senders[i as usize].address;
        let pair = self.pair(token / 2);
        match slot {
            0 => (Token::supply_slot(), U256::from(TOKEN_SUPPLY)),
            1 => (Token::balance_slot(pair), U256::from(PAIR_TOKENS)),
            _ if slot < 2 + senders => (
                Token::balance_slot(sender(slot - 2)),
                U256::from(SENDER_TOKENS),
            ),
            _ if slot < 2 + 2 * senders => (
                Token::allowance_slot(sender(slot - 2 - senders), pair),
                U256::MAX,
            ),
            _ => {
                let holder = self.holder(token, slot - 2 - 2 * senders);
                let amount = u128::from(draw(self.seed, Domain::Slot, token, slot)) + 1;
                (Token::balance_slot(self.eoa(holder)), U256::from(amount))
            }
        }
    }

    fn pair_slot(&self, pair: u64, slot: u64) -> (B256, U256) {
        match slot {
            0 | 1 => {
                let token = self.token(2 * pair + slot).into_word();
                (Pair::token_slot(slot), token.into())
            }
            _ => (
                Pair::reserves_slot(),
                Pair::reserves(PAIR_TOKENS, PAIR_TOKENS),
            ),
        }
    }

    fn counter_slot(&self, counter: u64, slot: u64) -> (B256, U256) {
        let count = U256::from(draw(self.seed, Domain::Slot, counter, u64::MAX) % 1_000 + 1);
        let caller = self.eoa(counter % self.layout.eoas);
        match slot {
            0 => (Counter::count_slot(), count),
            1 => (Counter::last_slot(), caller.into_word().into()),
            _ => (Counter::calls_slot(caller), count),
        }
    }
}

/// The contracts that a Prague block calls by itself (EIP-4788, 2935, 7002, 7251).
fn system_contract(i: u64) -> (Address, Bytes) {
    match i {
        0 => (
            eip4788::BEACON_ROOTS_ADDRESS,
            eip4788::BEACON_ROOTS_CODE.clone(),
        ),
        1 => (
            eip2935::HISTORY_STORAGE_ADDRESS,
            eip2935::HISTORY_STORAGE_CODE.clone(),
        ),
        2 => (
            eip7002::WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS,
            eip7002::WITHDRAWAL_REQUEST_PREDEPLOY_CODE.clone(),
        ),
        _ => (
            eip7251::CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS,
            eip7251::CONSOLIDATION_REQUEST_PREDEPLOY_CODE.clone(),
        ),
    }
}

fn sender(seed: u64, i: u64) -> Sender {
    let secret = secret_key(seed, i);
    let public = PublicKey::from_secret_key(SECP256K1, &secret).serialize_uncompressed();
    let address = Address::from_slice(&keccak256(&public[1..])[12..]);
    Sender { address, secret }
}

/// keccak256("engine-bench sender" ++ seed ++ i ++ attempt), the first attempt that is a key: one
/// in 2^128 hashes is not.
fn secret_key(seed: u64, i: u64) -> SecretKey {
    let mut attempt = 0u64;
    loop {
        let mut text = b"engine-bench sender".to_vec();
        for number in [seed, i, attempt] {
            text.extend_from_slice(&number.to_be_bytes());
        }
        if let Ok(secret) = SecretKey::from_byte_array(keccak256(&text).0) {
            return secret;
        }
        attempt += 1;
    }
}
