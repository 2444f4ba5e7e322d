//! What a transaction can do to a base state: its call, the gas it will use, the leaves it touches.
//!
//! Invariant: [`Action::gas`] is what execution charges, for the storage the action states; the
//! tests run every kind and compare.

use crate::{
    BaseState,
    contracts::{Counter, Pair, SlotToucher, Token, Whale},
    leaves::Leaf,
    transaction::Call,
};
use alloy_primitives::{Address, Bytes, TxKind, U256};

/// Gas of a transaction that only moves value.
pub const TRANSFER_GAS: u64 = 21_000;

/// Charges of EIP-2028, EIP-7623 and EIP-3860.
const GAS_ZERO_BYTE: u64 = 4;
const GAS_NONZERO_BYTE: u64 = 16;
const FLOOR_GAS_PER_TOKEN: u64 = 10;
const CREATION_GAS: u64 = 32_000;
const GAS_INIT_CODE_WORD: u64 = 2;

/// Measured gas of execution alone, without what the transaction itself costs.
mod measured {
    pub(super) const TOKEN_TRANSFER: u64 = 12_740;
    pub(super) const NEW_SLOT: u64 = 17_100;
    pub(super) const SWAP_FORWARD: u64 = 46_347;
    pub(super) const SWAP_BACKWARD: u64 = 46_374;
    pub(super) const CREATE: u64 = 99_946;
    pub(super) const POKE: u64 = 15_270;
    pub(super) const WRITE: (u64, u64) = (300, 5_149);
    pub(super) const READ: (u64, u64) = (376, 2_246);
    pub(super) const CLAIM: (u64, u64) = (487, 5_312);
}

/// One thing a transaction does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Moves one wei.
    Transfer {
        /// Recipient.
        to: Address,
    },
    /// Moves tokens.
    TokenTransfer {
        /// Which token.
        token: u64,
        /// Recipient.
        to: Address,
        /// Whether the recipient holds none so far.
        new_holder: bool,
    },
    /// Sells one token of a pair for the other.
    Swap {
        /// Which pair.
        pair: u64,
        /// Whether the first token is sold.
        forward: bool,
        /// How much is sold.
        amount: u128,
    },
    /// Creates a small contract.
    Create,
    /// Calls a small contract.
    Poke {
        /// Which one.
        counter: u64,
        /// Whether the sender never called it before.
        first: bool,
    },
    /// Changes consecutive cells of a slot toucher.
    Write {
        /// Which toucher.
        toucher: u64,
        /// The first cell.
        first: u64,
        /// How many.
        count: u64,
    },
    /// Reads consecutive cells of a slot toucher.
    Read {
        /// Which toucher.
        toucher: u64,
        /// The first cell.
        first: u64,
        /// How many.
        count: u64,
    },
    /// Takes deeds of the whale over; the numbers are distinct.
    Claim {
        /// Which deeds.
        ids: Vec<u64>,
    },
}

impl Action {
    /// The call, with a gas limit a quarter above the estimate.
    pub fn call(&self, base: &BaseState) -> Call {
        let (to, input) = self.target(base);
        let value = U256::from(u64::from(matches!(self, Self::Transfer { .. })));
        let gas = self.gas_with(&input);
        let gas_limit = if gas == TRANSFER_GAS {
            gas
        } else {
            gas + gas / 4 + 10_000
        };
        Call {
            to,
            value,
            input,
            gas_limit,
        }
    }

    /// The gas it uses.
    pub fn gas(&self, base: &BaseState) -> u64 {
        self.gas_with(&self.target(base).1)
    }

    fn target(&self, base: &BaseState) -> (TxKind, Bytes) {
        match self {
            Self::Transfer { to } => (TxKind::Call(*to), Bytes::new()),
            Self::TokenTransfer { token, to, .. } => (
                TxKind::Call(base.token(*token)),
                Token::transfer(*to, U256::from(1_000)),
            ),
            Self::Swap {
                pair,
                forward,
                amount,
            } => (
                TxKind::Call(base.pair(*pair)),
                Pair::swap(*forward, *amount),
            ),
            Self::Create => (TxKind::Create, Counter::creation_code()),
            Self::Poke { counter, .. } => (TxKind::Call(base.counter(*counter)), Counter::poke()),
            Self::Write {
                toucher,
                first,
                count,
            } => (
                TxKind::Call(base.toucher(*toucher)),
                SlotToucher::write(*first, 1, *count),
            ),
            Self::Read {
                toucher,
                first,
                count,
            } => (
                TxKind::Call(base.toucher(*toucher)),
                SlotToucher::read(*first, 1, *count),
            ),
            Self::Claim { ids } => (TxKind::Call(base.whale()), Whale::claim(ids)),
        }
    }

    fn gas_with(&self, input: &[u8]) -> u64 {
        let zeros = input.iter().filter(|&&byte| byte == 0).count() as u64;
        let others = input.len() as u64 - zeros;
        let data = zeros * GAS_ZERO_BYTE + others * GAS_NONZERO_BYTE;
        let floor = TRANSFER_GAS + (zeros + 4 * others) * FLOOR_GAS_PER_TOKEN;
        (TRANSFER_GAS + data + self.execution_gas(input.len() as u64)).max(floor)
    }

    fn execution_gas(&self, input_bytes: u64) -> u64 {
        let linear = |(base, each): (u64, u64), count: u64| base + each * count;
        let added = |is_new: bool| if is_new { measured::NEW_SLOT } else { 0 };
        match self {
            Self::Transfer { .. } => 0,
            Self::TokenTransfer { new_holder, .. } => measured::TOKEN_TRANSFER + added(*new_holder),
            Self::Swap { forward: true, .. } => measured::SWAP_FORWARD,
            Self::Swap { forward: false, .. } => measured::SWAP_BACKWARD,
            Self::Create => {
                CREATION_GAS + input_bytes.div_ceil(32) * GAS_INIT_CODE_WORD + measured::CREATE
            }
            Self::Poke { first, .. } => measured::POKE + added(*first),
            Self::Write { count, .. } => linear(measured::WRITE, *count),
            Self::Read { count, .. } => linear(measured::READ, *count),
            Self::Claim { ids } => linear(measured::CLAIM, ids.len() as u64),
        }
    }

    /// The leaves it reads or changes when `sender` sends it with `nonce`, its own account
    /// included. Code, the proposer's account and system calls are not leaves of an action.
    pub fn leaves(&self, base: &BaseState, sender: Address, nonce: u64) -> Vec<Leaf> {
        let mut leaves = vec![Leaf::changed_account(sender)];
        match self {
            Self::Transfer { to } => leaves.push(Leaf::changed_account(*to)),
            Self::TokenTransfer { token, to, .. } => {
                token_leaves(&mut leaves, base.token(*token), [sender, *to]);
            }
            Self::Swap { pair, forward, .. } => {
                swap_leaves(&mut leaves, base, (*pair, *forward), sender);
            }
            Self::Create => {
                let created = sender.create(nonce);
                leaves.push(Leaf::changed_account(created));
                leaves.push(Leaf::changed_slot(created, Counter::count_slot()));
                leaves.push(Leaf::changed_slot(created, Counter::last_slot()));
            }
            Self::Poke { counter, .. } => {
                let counter = base.counter(*counter);
                let slots = [
                    Counter::count_slot(),
                    Counter::last_slot(),
                    Counter::calls_slot(sender),
                ];
                leaves.push(Leaf::changed_account(counter));
                leaves.extend(slots.map(|slot| Leaf::changed_slot(counter, slot)));
            }
            Self::Write {
                toucher,
                first,
                count,
            } => {
                let toucher = base.toucher(*toucher);
                let slot = |cell| Leaf::changed_slot(toucher, SlotToucher::cell_slot(cell));
                leaves.push(Leaf::changed_account(toucher));
                leaves.extend((*first..first + count).map(slot));
            }
            Self::Read {
                toucher,
                first,
                count,
            } => {
                let toucher = base.toucher(*toucher);
                let slot = |cell| Leaf::read_slot(toucher, SlotToucher::cell_slot(cell));
                leaves.push(Leaf::read_account(toucher));
                leaves.extend((*first..first + count).map(slot));
            }
            Self::Claim { ids } => {
                let slot = |&id: &u64| Leaf::changed_slot(base.whale(), Whale::deed_slot(id));
                leaves.push(Leaf::changed_account(base.whale()));
                leaves.extend(ids.iter().map(slot));
            }
        }
        leaves
    }
}

fn token_leaves(leaves: &mut Vec<Leaf>, token: Address, holders: [Address; 2]) {
    leaves.push(Leaf::changed_account(token));
    leaves.extend(holders.map(|holder| Leaf::changed_slot(token, Token::balance_slot(holder))));
}

fn swap_leaves(
    leaves: &mut Vec<Leaf>,
    base: &BaseState,
    (pair, forward): (u64, bool),
    trader: Address,
) {
    let address = base.pair(pair);
    leaves.push(Leaf::changed_account(address));
    leaves.push(Leaf::changed_slot(address, Pair::reserves_slot()));
    leaves.extend([0, 1].map(|index| Leaf::read_slot(address, Pair::token_slot(index))));
    for token in [2 * pair, 2 * pair + 1] {
        token_leaves(leaves, base.token(token), [trader, address]);
    }
    let sold = base.token(2 * pair + u64::from(!forward));
    leaves.push(Leaf::read_slot(
        sold,
        Token::allowance_slot(trader, address),
    ));
}
