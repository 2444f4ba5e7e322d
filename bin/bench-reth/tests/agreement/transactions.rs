//! Random transactions: most are valid, and some break one rule each.

use crate::{
    accounts::{Account, CHAIN_ID, Draft, Form, with_blobs},
    chain::{Chain, DEPOSITS, Fork, GAS_LIMIT, RELAY},
    dice::Dice,
    precompiles, program,
};
use alloy_eips::{
    eip2930::{AccessList, AccessListItem},
    eip7002::WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS,
    eip7251::CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS,
    eip7702::SignedAuthorization,
};
use alloy_primitives::{Address, B256, Bytes, TxKind, U256};

/// The most gas a transaction may have from Osaka on (EIP-7825).
const OSAKA_CAP: u64 = 1 << 24;
/// Wei per blob gas that is always enough here.
const HIGH_BLOB_FEE: u128 = 1 << 70;

/// The most blobs sent to a program at once: geth's public port takes 5 MiB.
const MOST_BLOBS: usize = 16;

/// A signed transaction in both of its forms.
#[derive(Debug, Clone)]
pub(crate) struct Signed {
    /// As a block holds it.
    pub(crate) encoded: Bytes,
    /// As a pool takes it: with its blobs.
    pub(crate) pooled: Bytes,
    pub(crate) blobs: usize,
    pub(crate) gas_limit: u64,
}

/// Where the next transactions are to go.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) fork: Fork,
    /// Wei per gas, or a little more.
    pub(crate) base_fee: u128,
}

/// Draws transactions and keeps the nonces of who sends them.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) dice: Dice,
    pub(crate) senders: Vec<Account>,
    pub(crate) authorities: Vec<Account>,
    known: Vec<Address>,
}

impl Source {
    pub(crate) fn new(chain: &Chain, seed: u64) -> Self {
        Self {
            dice: Dice::new(seed),
            senders: chain.senders.clone(),
            authorities: chain.authorities.clone(),
            known: chain.known.clone(),
        }
    }

    /// Up to `count` transactions that fit into one block by their gas limits and blobs.
    pub(crate) fn transactions(&mut self, place: Place, count: usize) -> Vec<Signed> {
        let mut gas_left = GAS_LIMIT;
        let mut blobs_left = place.fork.max_blobs();
        let (mut list, mut blobs) = (Vec::new(), 0);
        for _ in 0..count {
            let signed = self.transaction(place, blobs_left);
            blobs += signed.blobs;
            if blobs > MOST_BLOBS || (signed.gas_limit > gas_left && !self.dice.chance(2)) {
                break;
            }
            gas_left = gas_left.saturating_sub(signed.gas_limit);
            blobs_left = blobs_left.saturating_sub(signed.blobs);
            list.push(signed);
        }
        list
    }

    fn transaction(&mut self, place: Place, blobs_left: usize) -> Signed {
        let sender = self.dice.below(self.senders.len());
        let mut draft = self.draft(sender, place, blobs_left);
        let broken = self.dice.chance(3);
        if broken {
            self.break_one_rule(&mut draft, place);
        } else {
            self.senders[sender].nonce += 1;
        }
        if draft.to.is_create() && !broken {
            let created = self.senders[sender].address.create(draft.nonce);
            self.learn(created);
        }
        let from = &self.senders[sender];
        let values = match &draft.form {
            Form::Blob { values, .. } => values.clone(),
            _ => Vec::new(),
        };
        let is_blob = matches!(draft.form, Form::Blob { .. });
        let gas_limit = draft.gas_limit;
        let encoded = draft.sign(from);
        let pooled = if is_blob {
            with_blobs(&encoded, &values, place.fork >= Fork::Osaka)
        } else {
            encoded.clone()
        };
        Signed {
            encoded,
            pooled,
            blobs: values.len(),
            gas_limit,
        }
    }

    /// Makes an address a target of later calls; the oldest learnt are forgotten.
    fn learn(&mut self, address: Address) {
        self.known.push(address);
        if self.known.len() > 160 {
            self.known.remove(90);
        }
    }

    fn draft(&mut self, sender: usize, place: Place, blobs_left: usize) -> Draft {
        let form = self.form(sender, place, blobs_left);
        let may_create = !matches!(form, Form::Blob { .. } | Form::SetCode(_));
        let (to, input, gas) = self.action(may_create);
        let value = match self.dice.below(10) {
            0..6 => 0,
            6..9 => self.dice.below(1_000) as u64,
            _ => self.dice.number(),
        };
        let tip = self.dice.pick(&[0, 1, 7, 1_000_000_000_u64]).into();
        let fees = [0, 1, 1_000, 5_000_000_000];
        let max_fee = (place.base_fee + self.dice.pick(&fees)).max(tip);
        Draft {
            form,
            chain_id: CHAIN_ID,
            nonce: self.senders[sender].nonce,
            to,
            value: self.special_value(&to).unwrap_or(U256::from(value)),
            input,
            gas_limit: gas.min(OSAKA_CAP),
            max_fee,
            tip,
            access_list: self.access_list(),
        }
    }

    fn form(&mut self, sender: usize, place: Place, blobs_left: usize) -> Form {
        match self.dice.below(12) {
            0..2 => Form::Legacy {
                protected: self.dice.chance(80),
            },
            2..4 => Form::AccessList,
            4 | 5 if place.fork >= Fork::Cancun && blobs_left > 0 => {
                let most = blobs_left.min(3);
                let count = self.dice.between(1, most);
                Form::Blob {
                    values: (0..count).map(|_| self.dice.below(2) as u8).collect(),
                    max_fee: HIGH_BLOB_FEE,
                }
            }
            6..9 if place.fork >= Fork::Prague => {
                let count = self.dice.between(1, 4);
                let list = (0..count).map(|_| self.authorization(sender));
                Form::SetCode(list.collect())
            }
            _ => Form::DynamicFee,
        }
    }

    /// What a transaction does: whom it calls, with what, and with how much gas.
    fn action(&mut self, may_create: bool) -> (TxKind, Bytes, u64) {
        let calldata_gas = |input: &[u8]| 40 * input.len() as u64;
        match self.dice.below(20) {
            0..4 if may_create => {
                let code = program::creation(&mut self.dice, &self.known);
                let gas = self
                    .dice
                    .pick(&[60_000, 200_000, 400_000, 1_000_000, 6_000_000]);
                let gas = gas + 55_000 + calldata_gas(&code);
                (TxKind::Create, code, gas)
            }
            4..8 => {
                let (target, input) = precompiles::call(&mut self.dice);
                let gas = self.dice.pick(&[30_000, 200_000, 1_000_000]);
                let gas = 60_000 + gas + calldata_gas(&input);
                if self.dice.chance(25) {
                    return (target.into(), input.into(), gas);
                }
                let inner = self.dice.pick(&[1_000_u64, 60_000, 300_000, 2_000_000]);
                let inner = U256::from(inner).to_be_bytes::<32>();
                let target = target.into_word();
                let input = [target.as_slice(), &inner, &input].concat();
                (RELAY.into(), input.into(), gas + 10_000)
            }
            8 => self.request(),
            9 => {
                // Much data, little execution: the floor of EIP-7623 decides.
                let input = self.dice.blob(500, 4_000);
                let gas = 21_000 + calldata_gas(&input) + self.dice.below(5_000) as u64;
                (self.target(), input, gas)
            }
            10 | 11 => (self.target(), Bytes::new(), 100_000),
            _ => {
                let gas = self.dice.pick(&[40_000, 150_000, 500_000, 2_500_000]);
                (self.target(), self.dice.blob(0, 100), gas + 10_000)
            }
        }
    }

    fn target(&mut self) -> TxKind {
        match self.dice.below(12) {
            0 => self.dice.address(),
            1..3 => {
                let accounts = &self.authorities;
                accounts[self.dice.below(accounts.len())].address
            }
            _ => self.dice.pick(&self.known),
        }
        .into()
    }

    /// A call of one of the contracts that collect requests (EIP-6110, EIP-7002, EIP-7251).
    fn request(&mut self) -> (TxKind, Bytes, u64) {
        let exact = self.dice.chance(85);
        let (to, length) = match self.dice.below(3) {
            0 => (WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS, 56),
            1 => (CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS, 96),
            _ => return (DEPOSITS.into(), deposit(&mut self.dice), 200_000),
        };
        let length = if exact { length } else { self.dice.below(100) };
        (to.into(), self.dice.bytes(length).into(), 300_000)
    }

    /// Requests cost a fee of at least one wei.
    fn special_value(&mut self, to: &TxKind) -> Option<U256> {
        let fees = [
            WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS,
            CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS,
        ];
        let is_request = to.to().is_some_and(|to| fees.contains(to));
        is_request.then(|| U256::from(self.dice.pick(&[0, 1, 1, 1, 50])))
    }

    fn access_list(&mut self) -> AccessList {
        let count = if self.dice.chance(70) {
            0
        } else {
            self.dice.between(1, 4)
        };
        let item = |_| AccessListItem {
            address: self.dice.pick(&self.known),
            storage_keys: (0..self.dice.below(4))
                .map(|_| B256::from(U256::from(self.dice.below(10))))
                .collect(),
        };
        AccessList((0..count).map(item).collect())
    }

    /// A delegation: set, cleared, chained, to oneself or to a precompile, or void for one reason.
    fn authorization(&mut self, sender: usize) -> SignedAuthorization {
        let index = self.dice.below(self.authorities.len());
        let to = match self.dice.below(8) {
            0 => Address::ZERO,
            1 => self.authorities[self.dice.below(AUTHORITY_CHAIN)].address,
            2 => self.authorities[index].address,
            3 => self.dice.address(),
            _ => self.dice.pick(&self.known),
        };
        let chain_id = self
            .dice
            .pick(&[CHAIN_ID, CHAIN_ID, CHAIN_ID, CHAIN_ID, 0, 0, 2]);
        if self.dice.chance(8) {
            // The sender's own nonce has grown by the time its authorizations are looked at.
            let sender = &mut self.senders[sender];
            let nonce = sender.nonce + 1;
            return sender.authorize(chain_id, to, nonce);
        }
        let right = self.dice.chance(85);
        let authority = &mut self.authorities[index];
        let nonce = if right {
            authority.nonce
        } else {
            self.dice.below(5) as u64
        };
        let signed = authority.authorize(chain_id, to, nonce);
        if right && chain_id != 2 {
            authority.nonce += 1;
        }
        if self.dice.chance(5) {
            let s = self.dice.word();
            return SignedAuthorization::new_unchecked(
                signed.inner().clone(),
                self.dice.below(4) as u8,
                signed.r(),
                s,
            );
        }
        signed
    }

    /// Makes a transaction that no block may hold, or hardly any.
    fn break_one_rule(&mut self, draft: &mut Draft, place: Place) {
        match self.dice.below(12) {
            0 => draft.nonce += 1,
            1 => draft.nonce = draft.nonce.wrapping_sub(1),
            2 => draft.value = U256::MAX >> self.dice.below(160),
            3 => draft.gas_limit = self.dice.pick(&[0, 20_999, 21_000, 30_000]),
            4 => {
                draft.gas_limit =
                    self.dice
                        .pick(&[OSAKA_CAP + 1, GAS_LIMIT, GAS_LIMIT + 1, u64::MAX])
            }
            5 => {
                draft.max_fee = self
                    .dice
                    .pick(&[0, 1, place.base_fee.saturating_sub(1_000_000)])
            }
            6 => draft.tip = draft.max_fee + 1,
            7 => draft.chain_id = 2,
            8 => {
                draft.form = Form::Blob {
                    values: vec![0; self.dice.pick(&[0, 7, 10])],
                    max_fee: HIGH_BLOB_FEE,
                };
            }
            9 => {
                draft.form = Form::Blob {
                    values: vec![0],
                    max_fee: self.dice.below(2) as u128,
                };
            }
            10 => draft.form = Form::SetCode(Vec::new()),
            // Larger than EIP-3860 allows, or just as large.
            _ => {
                draft.to = TxKind::Create;
                draft.form = Form::DynamicFee;
                draft.input = vec![0; 49_152 + self.dice.below(2)].into();
                draft.gas_limit = 5_000_000;
            }
        }
    }
}

/// How many authorities are delegated to by others, so that delegations form chains.
const AUTHORITY_CHAIN: usize = 3;

/// Lengths of the byte strings in a deposit's log (EIP-6110): key, credentials, amount, signature,
/// index.
const DEPOSIT_FIELDS: [usize; 5] = [48, 32, 8, 96, 8];

/// Data of a deposit's log: five offsets, then five lengths, each with its bytes padded to whole
/// words.
fn deposit(dice: &mut Dice) -> Bytes {
    let mut offset = 32 * DEPOSIT_FIELDS.len();
    let (mut head, mut tail) = (Vec::new(), Vec::new());
    for length in DEPOSIT_FIELDS {
        let padded = length.next_multiple_of(32);
        head.extend(U256::from(offset).to_be_bytes::<32>());
        tail.extend(U256::from(length).to_be_bytes::<32>());
        tail.extend(dice.bytes(length));
        tail.resize(tail.len() + padded - length, 0);
        offset += 32 + padded;
    }
    head.extend(tail);
    head.into()
}
