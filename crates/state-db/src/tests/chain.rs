//! A model state, random blocks on it, and databases that hold them.

use crate::{
    AccountDelta, BlockWrite, LoadItem, Loader, PlainChanges, Receipt, SlotDelta, StateDb,
    StorageDelta, StoredBlock, Table, TransactionSigned,
    testing::{dump, temp_db},
};
use alloy_consensus::{
    Header, SignableTransaction, TxLegacy, TxReceipt as _, TxType, proofs,
    transaction::SignerRecoverable as _,
};
use alloy_eips::eip4895::{Withdrawal, Withdrawals};
use alloy_primitives::{
    Address, B256, Bloom, Bytes, KECCAK256_EMPTY, Log, Signature, U256, keccak256,
};
use proptest::prelude::*;
use state_root::{
    reference,
    updates::{Account, HashedState, HashedStorage, TrieUpdates},
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Accounts of the base state; enough for the account trie to have stored branches.
const ACCOUNTS: u64 = 400;
/// Slots of the first account; enough for its storage trie to have stored branches.
const WHALE_SLOTS: u64 = 400;
/// Accounts that blocks touch, of which some are not in the base state.
const TOUCHED: std::ops::Range<u64> = 0..12;
const FIRST_NEW: u64 = 8;

/// Account and slots of each address.
pub(super) type Model = BTreeMap<Address, (Account, BTreeMap<B256, U256>)>;

/// One change inside a block. `who` is the index of an account, `slot` of a slot.
#[derive(Debug, Clone)]
pub(super) enum Op {
    Balance { who: u64, balance: u64 },
    Slot { who: u64, slot: u64, value: u64 },
    Destroy { who: u64 },
    Code { who: u64, byte: u8 },
}

/// A block as the node would hand it over.
#[derive(Debug, Clone)]
pub(super) struct Block {
    block: StoredBlock,
    receipts: Vec<Receipt>,
    changes: PlainChanges,
    pub(super) hashed: Arc<HashedState>,
    pub(super) trie: Arc<TrieUpdates>,
}

impl Block {
    pub(super) fn write(&self) -> BlockWrite<'_> {
        BlockWrite {
            block: &self.block,
            receipts: &self.receipts,
            changes: &self.changes,
            hashed: &self.hashed,
            trie: &self.trie,
        }
    }

    pub(super) fn stored(&self) -> &StoredBlock {
        &self.block
    }

    pub(super) fn stored_mut(&mut self) -> &mut StoredBlock {
        &mut self.block
    }

    pub(super) fn receipts(&self) -> &[Receipt] {
        &self.receipts
    }
}

/// A database with all blocks, the blocks, and the model after each (the base state first).
pub(super) struct Chain {
    pub(super) dir: tempfile::TempDir,
    pub(super) db: StateDb,
    pub(super) genesis: StoredBlock,
    pub(super) blocks: Vec<Block>,
    pub(super) models: Vec<Model>,
}

pub(super) fn address(index: u64) -> Address {
    Address::from_slice(&keccak256(index.to_be_bytes())[..20])
}

pub(super) fn slot(index: u64) -> B256 {
    B256::from(U256::from(index))
}

fn code(byte: u8) -> Bytes {
    // PUSH1 byte, PUSH1 0, SSTORE, STOP
    Bytes::from(vec![0x60, byte, 0x60, 0x00, 0x55, 0x00])
}

pub(super) fn base_model() -> Model {
    (0..ACCOUNTS)
        .filter(|index| !(FIRST_NEW..TOUCHED.end).contains(index))
        .map(|index| {
            let slots = match index {
                0 => WHALE_SLOTS,
                1..=7 => 5,
                _ => 0,
            };
            let code_hash = if slots > 0 {
                keccak256(code(index as u8))
            } else {
                KECCAK256_EMPTY
            };
            let account = Account {
                nonce: index,
                balance: U256::from(index + 1),
                code_hash,
            };
            let slots = (0..slots)
                .map(|index| (slot(index), U256::from(index + 1)))
                .collect();
            (address(index), (account, slots))
        })
        .collect()
}

pub(super) fn items(model: &Model) -> Vec<LoadItem> {
    let mut items = Vec::new();
    for (address, (account, slots)) in model {
        let code = (0..=u8::MAX)
            .map(code)
            .find(|code| keccak256(code) == account.code_hash);
        let Account { nonce, balance, .. } = *account;
        items.push(LoadItem::Account {
            address: *address,
            nonce,
            balance,
            code,
        });
        items.extend(slots.iter().map(|(key, value)| LoadItem::Slot {
            key: *key,
            value: *value,
        }));
    }
    items
}

/// Loads a model and makes it block 0.
pub(super) fn load(db: &StateDb, model: &Model) -> StoredBlock {
    let mut loader = Loader::new(db).unwrap();
    for item in items(model) {
        loader.push(item).unwrap();
    }
    let state_root = loader.finish().unwrap().state_root;
    let header = Header {
        state_root,
        ..Header::default()
    };
    let genesis = StoredBlock {
        hash: header.hash_slow(),
        header,
        ..StoredBlock::default()
    };
    db.write_genesis(&genesis).unwrap();
    genesis
}

/// The root by another library.
pub(super) fn model_root(model: &Model) -> B256 {
    alloy_trie::root::state_root_unhashed(model.iter().map(|(address, (account, slots))| {
        let storage_root = alloy_trie::root::storage_root_unhashed(
            slots.iter().map(|(slot, value)| (*slot, *value)),
        );
        let account = alloy_trie::TrieAccount {
            nonce: account.nonce,
            balance: account.balance,
            storage_root,
            code_hash: account.code_hash,
        };
        (*address, account)
    }))
}

/// Every row of every table in `tables`.
pub(super) type Dump = Vec<(Table, Vec<(Vec<u8>, Vec<u8>)>)>;

pub(super) fn dump_all(db: &StateDb, except: &[Table]) -> Dump {
    Table::ALL
        .into_iter()
        .filter(|table| !except.contains(table))
        .map(|table| (table, dump(db, table)))
        .collect()
}

/// Panics with the table's name when two dumps differ.
pub(super) fn assert_same(left: &Dump, right: &Dump) {
    assert_eq!(left.len(), right.len());
    for ((table, left), (_, right)) in left.iter().zip(right) {
        assert!(
            left == right,
            "{}: {left:?}\n\n differs from {right:?}",
            table.name()
        );
    }
}

impl Chain {
    /// Executes `blocks` on the base state, block by block.
    pub(super) fn new(blocks: &[Vec<Op>]) -> Self {
        let (dir, db) = temp_db();
        let model = base_model();
        let genesis = load(&db, &model);
        let mut chain = Self {
            dir,
            db,
            genesis,
            blocks: Vec::new(),
            models: vec![model],
        };
        for ops in blocks {
            let block = chain.execute(ops);
            chain.db.append(&[block.write()]).unwrap();
            chain.blocks.push(block);
        }
        chain
    }

    /// Another database with the first `count` blocks, appended `batch` at a time.
    pub(super) fn copy(&self, count: usize, batch: usize) -> (tempfile::TempDir, StateDb) {
        let (dir, db) = temp_db();
        assert_eq!(load(&db, &self.models[0]), self.genesis);
        append(&db, &self.blocks[..count], batch);
        (dir, db)
    }

    fn execute(&mut self, ops: &[Op]) -> Block {
        let before = self.models.last().unwrap().clone();
        let mut after = before.clone();
        let mut touched = BTreeSet::new();
        let mut wiped = BTreeSet::new();
        let mut changes = PlainChanges::default();
        for op in ops {
            apply(op, &mut after, &mut touched, &mut wiped, &mut changes);
        }
        for address in touched {
            let wiped = wiped.contains(&address);
            diff(
                address,
                before.get(&address),
                after.get(&address),
                wiped,
                &mut changes,
            );
        }
        let hashed = hash_changes(&changes);
        let view = self.db.view().unwrap();
        let (state_root, trie) = reference::incremental_root(&view, &hashed).unwrap();
        assert_eq!(state_root, model_root(&after));
        self.models.push(after);
        let parent = self
            .blocks
            .last()
            .map_or(&self.genesis, |block| &block.block);
        let (block, receipts) = envelope(parent, state_root);
        Block {
            block,
            receipts,
            changes,
            hashed: hashed.into(),
            trie: trie.into(),
        }
    }
}

pub(super) fn append(db: &StateDb, blocks: &[Block], batch: usize) {
    for batch in blocks.chunks(batch) {
        let writes: Vec<_> = batch.iter().map(Block::write).collect();
        db.append(&writes).unwrap();
    }
}

fn apply(
    op: &Op,
    model: &mut Model,
    touched: &mut BTreeSet<Address>,
    wiped: &mut BTreeSet<Address>,
    changes: &mut PlainChanges,
) {
    let (Op::Balance { who, .. }
    | Op::Slot { who, .. }
    | Op::Destroy { who }
    | Op::Code { who, .. }) = op;
    let address = address(*who);
    touched.insert(address);
    if let Op::Destroy { .. } = op {
        model.remove(&address);
        wiped.insert(address);
        return;
    }
    let entry = model.entry(address).or_default();
    entry.0.nonce += 1;
    match *op {
        Op::Balance { balance, .. } => entry.0.balance = U256::from(balance),
        Op::Slot {
            slot: index,
            value: 0,
            ..
        } => {
            entry.1.remove(&slot(index));
        }
        Op::Slot {
            slot: index, value, ..
        } => {
            entry.1.insert(slot(index), U256::from(value));
        }
        Op::Code { byte, .. } => {
            entry.0.code_hash = keccak256(code(byte));
            changes.codes.push((entry.0.code_hash, code(byte)));
        }
        Op::Destroy { .. } => {}
    }
}

fn diff(
    address: Address,
    before: Option<&(Account, BTreeMap<B256, U256>)>,
    after: Option<&(Account, BTreeMap<B256, U256>)>,
    wiped: bool,
    changes: &mut PlainChanges,
) {
    let none = BTreeMap::new();
    let delta = AccountDelta {
        before: before.map(|a| a.0),
        after: after.map(|a| a.0),
    };
    changes.accounts.push((address, delta));
    let (old, new) = (
        before.map_or(&none, |a| &a.1),
        after.map_or(&none, |a| &a.1),
    );
    let keys: BTreeSet<_> = if wiped {
        new.keys().collect()
    } else {
        old.keys().chain(new.keys()).collect()
    };
    let value =
        |map: &BTreeMap<B256, U256>, slot: &B256| map.get(slot).copied().unwrap_or_default();
    let slots: Vec<_> = keys
        .into_iter()
        // A wipe makes storage forget what an executor may still claim was there before.
        .map(|slot| SlotDelta {
            slot: *slot,
            before: if wiped { U256::ZERO } else { value(old, slot) },
            after: value(new, slot),
        })
        .filter(|delta| wiped || delta.before != delta.after)
        // Any order must do.
        .rev()
        .collect();
    if wiped || !slots.is_empty() {
        changes
            .storages
            .push((address, StorageDelta { wiped, slots }));
    }
}

fn hash_changes(changes: &PlainChanges) -> HashedState {
    let mut accounts: Vec<_> = changes
        .accounts
        .iter()
        .map(|(a, delta)| (keccak256(a), delta.after))
        .collect();
    accounts.sort_unstable_by_key(|(key, _)| *key);
    let storages = changes.storages.iter().map(|(address, delta)| {
        let mut slots: Vec<_> = delta
            .slots
            .iter()
            .map(|slot| (keccak256(slot.slot), slot.after))
            .collect();
        slots.sort_unstable_by_key(|(key, _)| *key);
        (
            keccak256(address),
            HashedStorage {
                wiped: delta.wiped,
                slots,
            },
        )
    });
    HashedState {
        accounts,
        storages: storages.collect(),
    }
}

/// A block on `parent` with as many transactions as its number modulo 3, and their receipts. Every
/// root in its header is right.
fn envelope(parent: &StoredBlock, state_root: B256) -> (StoredBlock, Vec<Receipt>) {
    let number = parent.header.number + 1;
    let count = number % 3;
    let withdrawal = Withdrawal {
        index: number,
        amount: 9,
        ..Withdrawal::default()
    };
    let withdrawals = number.is_multiple_of(2).then(|| {
        Withdrawals(if number.is_multiple_of(4) {
            vec![withdrawal]
        } else {
            vec![]
        })
    });
    let transactions: Vec<TransactionSigned> = (0..count)
        .map(|index| {
            let transaction = TxLegacy {
                nonce: number * 10 + index,
                ..TxLegacy::default()
            };
            transaction.into_signed(Signature::test_signature()).into()
        })
        .collect();
    let receipts: Vec<Receipt> = (0..count)
        .map(|index| Receipt {
            tx_type: TxType::Legacy,
            success: index == 0,
            cumulative_gas_used: 21_000 * (index + 1),
            logs: vec![Log::new_unchecked(
                address(number),
                vec![state_root],
                Bytes::new(),
            )],
        })
        .collect();
    let ommers = if number.is_multiple_of(5) {
        vec![parent.header.clone()]
    } else {
        Vec::new()
    };
    let with_bloom: Vec<_> = receipts.iter().map(|r| r.with_bloom_ref()).collect();
    let header = Header {
        number,
        parent_hash: parent.hash,
        state_root,
        ommers_hash: proofs::calculate_ommers_root(&ommers),
        transactions_root: proofs::calculate_transaction_root(&transactions),
        receipts_root: proofs::calculate_receipt_root(&with_bloom),
        logs_bloom: with_bloom
            .iter()
            .fold(Bloom::ZERO, |all, r| all | r.logs_bloom),
        gas_used: receipts.last().map_or(0, |r| r.cumulative_gas_used),
        withdrawals_root: withdrawals
            .as_ref()
            .map(|w| proofs::calculate_withdrawals_root(w)),
        ..Header::default()
    };
    let senders = transactions.iter().map(|t| t.recover_signer().unwrap());
    let block = StoredBlock {
        hash: header.hash_slow(),
        senders: senders.collect(),
        transactions,
        ommers,
        withdrawals,
        header,
    };
    (block, receipts)
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => (TOUCHED, any::<u64>()).prop_map(|(who, balance)| Op::Balance { who, balance }),
        6 => (TOUCHED, 0u64..450, 0u64..3)
            .prop_map(|(who, slot, value)| Op::Slot { who, slot, value }),
        6 => (0u64..1, 0u64..450, 0u64..3)
            .prop_map(|(who, slot, value)| Op::Slot { who, slot, value }),
        1 => TOUCHED.prop_map(|who| Op::Destroy { who }),
        1 => (TOUCHED, 100u8..110).prop_map(|(who, byte)| Op::Code { who, byte }),
    ]
}

/// Blocks of random changes.
pub(super) fn blocks() -> impl Strategy<Value = Vec<Vec<Op>>> {
    proptest::collection::vec(proptest::collection::vec(op(), 0..14), 1..9)
}

/// A few fixed blocks with a destruction and a rebirth, for tests that need no randomness.
pub(super) fn fixed_blocks() -> Vec<Vec<Op>> {
    vec![
        vec![
            Op::Slot {
                who: 0,
                slot: 3,
                value: 0,
            },
            Op::Balance { who: 9, balance: 5 },
        ],
        vec![
            Op::Destroy { who: 0 },
            Op::Slot {
                who: 0,
                slot: 4,
                value: 7,
            },
        ],
        vec![Op::Destroy { who: 2 }, Op::Code { who: 8, byte: 100 }],
        vec![
            Op::Slot {
                who: 0,
                slot: 4,
                value: 0,
            },
            Op::Slot {
                who: 2,
                slot: 1,
                value: 1,
            },
        ],
        vec![Op::Balance { who: 1, balance: 0 }],
    ]
}
