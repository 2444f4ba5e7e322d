//! A block is executed again from its witness alone, and ends with its header's state root.

use crate::support::{Fork, Net, address_of, sender, store, transfer};
use alloy_consensus::{Header, TxType, transaction::Recovered};
use alloy_evm::{
    EthEvmFactory, Evm, EvmFactory as _,
    block::BlockExecutor as _,
    eth::{
        EthBlockExecutionCtx, EthBlockExecutor,
        receipt_builder::{ReceiptBuilder, ReceiptBuilderCtx},
    },
};
use alloy_primitives::{Address, B256, Bytes, U256, keccak256, map::B256Map};
use alloy_rlp::Decodable as _;
use alloy_trie::{EMPTY_ROOT_HASH, TrieAccount};
use node::{
    engine::{
        ReadError,
        witness::{NodesByHash, PartialTrie, Witness},
    },
    primitives::{ChainBlock, Receipt, TransactionSigned},
};
use revm::{
    DatabaseRef,
    bytecode::Bytecode,
    database::{BundleState, State, states::bundle_state::BundleRetention},
    state::AccountInfo,
};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The state as far as a witness knows it.
#[derive(Debug)]
struct Stateless {
    nodes: NodesByHash,
    root: B256,
    codes: B256Map<Bytecode>,
    hashes: Vec<(u64, B256)>,
}

impl Stateless {
    fn new(witness: &Witness) -> Self {
        let headers: Vec<Header> = witness
            .headers
            .iter()
            .map(|header| Header::decode(&mut &header[..]).unwrap())
            .collect();
        let codes = witness.codes.iter();
        Self {
            nodes: witness
                .state
                .iter()
                .map(|node| (keccak256(node), node.clone()))
                .collect(),
            root: headers.last().unwrap().state_root,
            codes: codes
                .map(|code| (keccak256(code), Bytecode::new_raw(code.clone())))
                .collect(),
            hashes: headers
                .iter()
                .map(|header| (header.number, header.hash_slow()))
                .collect(),
        }
    }

    fn account(&self, address: Address) -> Result<Option<TrieAccount>, ReadError> {
        let leaf = PartialTrie::new(&self.nodes, self.root).get(keccak256(address));
        let leaf = leaf.map_err(|problem| ReadError(problem.to_string()))?;
        Ok(leaf.map(|leaf| TrieAccount::decode(&mut &leaf[..]).unwrap()))
    }

    /// The state root after the changes.
    fn root_after(&self, changes: &BundleState) -> B256 {
        let mut accounts = PartialTrie::new(&self.nodes, self.root);
        for (address, change) in &changes.state {
            let Some(info) = &change.info else {
                accounts.remove(keccak256(address)).unwrap();
                continue;
            };
            let before = self.account(*address).unwrap();
            let storage_root = before
                .filter(|_| !change.was_destroyed())
                .map_or(EMPTY_ROOT_HASH, |account| account.storage_root);
            let mut storage = PartialTrie::new(&self.nodes, storage_root);
            for (slot, value) in &change.storage {
                let key = keccak256(B256::from(*slot));
                if value.present_value.is_zero() {
                    storage.remove(key).unwrap();
                } else {
                    let value = alloy_rlp::encode(value.present_value);
                    storage.insert(key, value).unwrap();
                }
            }
            let account =
                TrieAccount::new(info.nonce, info.balance, storage.root(), info.code_hash);
            let leaf = alloy_rlp::encode(account);
            accounts.insert(keccak256(address), leaf).unwrap();
        }
        accounts.root()
    }
}

impl DatabaseRef for Stateless {
    type Error = ReadError;

    fn basic_ref(&self, address: Address) -> Result<Option<AccountInfo>, ReadError> {
        Ok(self.account(address)?.map(|account| AccountInfo {
            balance: account.balance,
            nonce: account.nonce,
            code_hash: account.code_hash,
            code: None,
            ..Default::default()
        }))
    }

    fn code_by_hash_ref(&self, hash: B256) -> Result<Bytecode, ReadError> {
        let code = self.codes.get(&hash).cloned();
        code.ok_or_else(|| ReadError(format!("code {hash} is not in the witness")))
    }

    fn storage_ref(&self, address: Address, slot: U256) -> Result<U256, ReadError> {
        let Some(account) = self.account(address)? else {
            return Ok(U256::ZERO);
        };
        let mut trie = PartialTrie::new(&self.nodes, account.storage_root);
        let leaf = trie
            .get(keccak256(B256::from(slot)))
            .map_err(|problem| ReadError(problem.to_string()))?;
        Ok(leaf.map_or(U256::ZERO, |leaf| U256::decode(&mut &leaf[..]).unwrap()))
    }

    fn block_hash_ref(&self, number: u64) -> Result<B256, ReadError> {
        let known = self.hashes.iter().find(|(known, _)| *known == number);
        known
            .map(|(_, hash)| *hash)
            .ok_or_else(|| ReadError(format!("the hash of {number} is not in the witness")))
    }
}

struct Receipts;

impl ReceiptBuilder for Receipts {
    type Transaction = TransactionSigned;
    type Receipt = Receipt;

    fn build_receipt<E: Evm>(&self, ctx: ReceiptBuilderCtx<'_, TxType, E>) -> Receipt {
        Receipt {
            tx_type: ctx.tx_type,
            success: ctx.result.is_success(),
            cumulative_gas_used: ctx.cumulative_gas_used,
            logs: ctx.result.into_logs(),
        }
    }
}

/// Executes `block` from `witness` alone; the state root after it.
fn execute(net: &Net, block: &ChainBlock, witness: &Witness) -> B256 {
    let stateless = Stateless::new(witness);
    let header = &block.block.header;
    let env = net.engine.chain().evm_env_for(header);
    let mut state = State::builder()
        .with_database_ref(&stateless)
        .with_bundle_update()
        .build();
    let evm = EthEvmFactory::default().create_evm(&mut state, env);
    let context = EthBlockExecutionCtx {
        parent_hash: header.parent_hash,
        parent_beacon_block_root: header.parent_beacon_block_root,
        ommers: &[],
        withdrawals: block
            .block
            .withdrawals
            .as_ref()
            .map(|list| list.as_slice().into()),
        extra_data: header.extra_data.clone(),
        tx_count_hint: None,
        slot_number: None,
    };
    let mut executor = EthBlockExecutor::new(evm, context, &*net.spec, Receipts);
    executor.apply_pre_execution_changes().unwrap();
    for (transaction, sender) in block.block.transactions.iter().zip(&block.block.senders) {
        let transaction = Recovered::new_unchecked(transaction.clone(), *sender);
        executor.execute_transaction(&transaction).unwrap();
    }
    let (_, result) = executor.finish().unwrap();
    assert_eq!(result.gas_used, header.gas_used);
    state.merge_transitions(BundleRetention::PlainState);
    stateless.root_after(&state.take_bundle())
}

fn check(net: &Net, hash: B256) -> Witness {
    let block = net.engine.chain().block_by_hash(hash).unwrap().unwrap();
    let witness = net.engine.chain().witness(hash).unwrap().unwrap();
    let root = execute(net, &block, &witness);
    assert_eq!(
        root, block.block.header.state_root,
        "block {}",
        block.block.header.number
    );
    witness
}

/// Blocks that fill slots and clear them again, so that branches grow and collapse.
fn traffic(n: u64) -> Vec<Bytes> {
    vec![
        transfer(0, n, address_of(n), 1),
        transfer(1, n, sender(0), 5),
        store(2, n, n, n + 1),
        store(3, n, n.saturating_sub(3), 0),
        store(4, n, 100 + n, 7),
        store(5, n, 100 + n.saturating_sub(1), 0),
    ]
}

#[tokio::test]
async fn every_block_executes_from_its_witness() {
    let net = Net::new(Fork::Osaka);
    let mut hashes = Vec::new();
    for n in 0..12 {
        let hash = net.extend(net.head(), traffic(n)).await;
        hashes.push(hash);
        check(&net, hash);
    }
    // Also when the parent's state is history in the database.
    net.persisted(10).await;
    let net = net.restart(|_| {}).await;
    for hash in &hashes {
        check(&net, *hash);
    }
}

#[tokio::test]
async fn a_witness_has_nothing_to_spare() {
    let net = Net::new(Fork::Osaka);
    for n in 0..4 {
        net.extend(net.head(), traffic(n)).await;
    }
    // Nothing is removed here, so no node is there for an order of changes that is not taken.
    let transfer = transfer(0, 4, address_of(99), 1);
    let hash = net.extend(net.head(), vec![transfer]).await;
    let block = net.engine.chain().block_by_hash(hash).unwrap().unwrap();
    let witness = check(&net, hash);
    for index in 0..witness.state.len() {
        let mut less = witness.clone();
        less.state.remove(index);
        let outcome = catch_unwind(AssertUnwindSafe(|| execute(&net, &block, &less)));
        assert!(
            outcome.is_err(),
            "node {index} of {} is not needed",
            witness.state.len()
        );
    }
}

#[tokio::test]
async fn genesis_has_no_witness() {
    let net = Net::new(Fork::Osaka);
    let problem = net.engine.chain().witness(net.head()).unwrap_err();
    assert_eq!(
        problem.to_string(),
        "make a witness: the genesis block is not executed"
    );
}
