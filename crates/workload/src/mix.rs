//! Which transactions a workload is made of: deterministic, endless streams.
//!
//! Invariant: a [`Planner`] is a function of base state, mix, seed and starting nonces, and every
//! transaction it plans succeeds on the base state followed by the ones planned before.

use crate::{
    BaseState,
    action::Action,
    random::{Domain, Draws},
    transaction::{Call, Envelope, sign},
};
use alloy_primitives::{Address, Bytes};
use serde::{Deserialize, Serialize};
use std::{collections::HashSet, fmt, str::FromStr};

/// Cells that a transaction of the cold-storage mix touches.
const COLD_CELLS: u64 = 48;
/// Deeds that a transaction of the whale mix takes over.
const CLAIMED_DEEDS: u64 = 32;
/// Cells that a writing and a reading transaction of the mainnet mix touch.
const MAINNET_WRITTEN_CELLS: u64 = 24;
const MAINNET_READ_CELLS: u64 = 8;

/// A kind of traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mix {
    /// Transfers, token transfers, swaps, small contracts, creations and cold slots, with a skewed
    /// choice of accounts: about 1000 changed leaves per 10 M gas.
    Mainnet,
    /// Slots spread over many contracts, each visited once before any is visited twice.
    ColdStorage,
    /// Slots spread over one contract, which holds most of the state's slots.
    Whale,
    /// Plain transfers.
    Transfers,
}

/// Why a mix's name is not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown mix {0:?}: use mainnet, cold-storage, whale or transfers")]
pub struct MixError(String);

/// A transaction with its signer and number, not yet signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    /// Index of the sender in [`BaseState::senders`].
    pub sender: usize,
    /// The sender's nonce.
    pub nonce: u64,
    /// The form it is written in.
    pub envelope: Envelope,
    /// What it does.
    pub action: Action,
    /// The gas it is expected to use.
    pub gas: u64,
}

/// An endless stream of transactions on one base state.
#[derive(Debug)]
pub struct Planner<'a> {
    base: &'a BaseState,
    mix: Mix,
    draws: Draws,
    nonces: Vec<u64>,
    fresh_accounts: u64,
    visits: u64,
    new_holders: HashSet<(u64, Address)>,
    poked: HashSet<(u64, usize)>,
}

impl<'a> Planner<'a> {
    /// The stream of `seed`. `nonces` are the senders' next ones, in the senders' order; missing
    /// ones are zero.
    pub fn new(base: &'a BaseState, mix: Mix, seed: u64, mut nonces: Vec<u64>) -> Self {
        nonces.resize(base.senders().len(), 0);
        Self {
            base,
            mix,
            draws: Draws::new(seed, Domain::Mix),
            nonces,
            fresh_accounts: 0,
            visits: 0,
            new_holders: HashSet::new(),
            poked: HashSet::new(),
        }
    }

    /// The next transaction of the mix.
    pub fn plan(&mut self) -> Planned {
        let sender = self.draws.below(self.nonces.len() as u64) as usize;
        let action = match self.mix {
            Mix::Mainnet => self.mainnet(sender),
            Mix::ColdStorage => self.cold_storage(),
            Mix::Whale => self.claim(),
            Mix::Transfers => self.transfer(),
        };
        self.number(sender, action)
    }

    /// A plain transfer, to fill what is left of a block.
    pub fn plan_transfer(&mut self) -> Planned {
        let sender = self.draws.below(self.nonces.len() as u64) as usize;
        let action = self.transfer();
        self.number(sender, action)
    }

    /// Takes back the numbers of transactions that will not be sent. Every later transaction of
    /// the same senders must be among them.
    pub fn take_back(&mut self, unsent: &[Planned]) {
        for planned in unsent {
            let nonce = &mut self.nonces[planned.sender];
            *nonce = planned.nonce.min(*nonce);
        }
    }

    fn number(&mut self, sender: usize, action: Action) -> Planned {
        let nonce = self.nonces[sender];
        self.nonces[sender] += 1;
        let envelope = match self.draws.below(100) {
            0..85 => Envelope::DynamicFee,
            85..97 => Envelope::Legacy,
            _ => Envelope::AccessList,
        };
        let gas = action.gas(self.base);
        Planned {
            sender,
            nonce,
            envelope,
            action,
            gas,
        }
    }

    fn mainnet(&mut self, sender: usize) -> Action {
        match self.draws.below(100) {
            0..46 => self.transfer(),
            46..54 => Action::Transfer { to: self.fresh() },
            54..82 => self.token_transfer(),
            82..86 => self.swap(),
            86 => Action::Create,
            87..91 => self.poke(sender),
            91..96 => {
                let (toucher, first, count) = self.cells(MAINNET_WRITTEN_CELLS);
                Action::Write {
                    toucher,
                    first,
                    count,
                }
            }
            _ => {
                let (toucher, first, count) = self.cells(MAINNET_READ_CELLS);
                Action::Read {
                    toucher,
                    first,
                    count,
                }
            }
        }
    }

    fn transfer(&mut self) -> Action {
        let index = self.eoa();
        Action::Transfer {
            to: self.base.eoa(index),
        }
    }

    /// Half of the choices are skewed towards few accounts, half are spread evenly.
    fn eoa(&mut self) -> u64 {
        let eoas = self.base.layout().eoas;
        if self.draws.below(2) == 0 {
            self.draws.zipf(eoas)
        } else {
            self.draws.below(eoas)
        }
    }

    fn fresh(&mut self) -> Address {
        self.fresh_accounts += 1;
        self.base.fresh_account(self.fresh_accounts - 1)
    }

    /// Four of five transfers go to a holder.
    fn token_transfer(&mut self) -> Action {
        let layout = *self.base.layout();
        let token = self.draws.zipf(layout.tokens);
        let eoa = if self.draws.below(5) == 0 || layout.holders_per_token == 0 {
            self.eoa()
        } else {
            let rank = self.draws.zipf(layout.holders_per_token);
            self.base.holder(token, rank)
        };
        let to = self.base.eoa(eoa);
        let new_holder = !self.base.is_holder(token, eoa) && self.new_holders.insert((token, to));
        Action::TokenTransfer {
            token,
            to,
            new_holder,
        }
    }

    fn swap(&mut self) -> Action {
        Action::Swap {
            pair: self.draws.zipf(self.base.layout().pairs),
            forward: self.draws.below(2) == 0,
            amount: u128::from(self.draws.below(1 << 60)) + 1_000_000,
        }
    }

    fn poke(&mut self, sender: usize) -> Action {
        let counter = self.draws.zipf(self.base.layout().counters);
        Action::Poke {
            counter,
            first: self.poked.insert((counter, sender)),
        }
    }

    fn cells(&mut self, wanted: u64) -> (u64, u64, u64) {
        let layout = self.base.layout();
        let count = wanted.min(layout.cells_per_toucher);
        let toucher = self.draws.zipf(layout.touchers);
        (
            toucher,
            self.draws.below(layout.cells_per_toucher - count + 1),
            count,
        )
    }

    /// Walks over every toucher before it comes back to the first one for the next cells.
    fn cold_storage(&mut self) -> Action {
        let layout = self.base.layout();
        let count = COLD_CELLS.min(layout.cells_per_toucher);
        let rows = layout.cells_per_toucher / count;
        let toucher = self.visits % layout.touchers;
        let first = (self.visits / layout.touchers % rows) * count;
        self.visits += 1;
        match self.draws.below(8) {
            0 => Action::Read {
                toucher,
                first,
                count,
            },
            _ => Action::Write {
                toucher,
                first,
                count,
            },
        }
    }

    fn claim(&mut self) -> Action {
        let deeds = self.base.layout().deeds;
        let wanted = CLAIMED_DEEDS.min(deeds);
        let mut ids = HashSet::new();
        let mut ordered = Vec::new();
        while (ordered.len() as u64) < wanted {
            let id = self.draws.below(deeds);
            if ids.insert(id) {
                ordered.push(id);
            }
        }
        Action::Claim { ids: ordered }
    }
}

impl Planned {
    /// The call it makes.
    pub fn call(&self, base: &BaseState) -> Call {
        self.action.call(base)
    }

    /// The signed transaction, encoded (EIP-2718).
    pub fn sign(&self, base: &BaseState) -> Bytes {
        sign(
            &base.senders()[self.sender],
            self.nonce,
            self.envelope,
            &self.call(base),
        )
    }
}

impl Mix {
    /// Its name, as the command line spells it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mainnet => "mainnet",
            Self::ColdStorage => "cold-storage",
            Self::Whale => "whale",
            Self::Transfers => "transfers",
        }
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Mix {
    type Err = MixError;

    fn from_str(text: &str) -> Result<Self, MixError> {
        [
            Self::Mainnet,
            Self::ColdStorage,
            Self::Whale,
            Self::Transfers,
        ]
        .into_iter()
        .find(|mix| mix.name() == text)
        .ok_or_else(|| MixError(text.to_owned()))
    }
}
