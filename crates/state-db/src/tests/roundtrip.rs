//! Append in any batches, unwind to any block: the rows are those of a database that only ever had
//! the blocks that are left.

use super::chain::{Chain, append, assert_same, blocks, dump_all, model_root, slot};
use crate::{StateDb, Table, codec, testing::dump};
use alloy_primitives::Address;
use proptest::prelude::*;
use state_root::reference;
use std::collections::BTreeMap;

/// Code is not removed by an unwind.
const KEPT: [Table; 1] = [Table::Bytecodes];

/// The stored trie rows are exactly those a build from all leaves makes.
fn assert_tries_from_scratch(db: &StateDb) {
    let (_, trie) = reference::root_of_leaves(&db.view().unwrap()).unwrap();
    let mut accounts = BTreeMap::new();
    for (path, node) in &trie.account_nodes {
        let mut value = Vec::new();
        codec::encode_branch(node.as_ref().unwrap(), &mut value);
        accounts.insert(codec::path_subkey(path)[..path.len()].to_vec(), value);
    }
    let mut storages = Vec::new();
    for (address, storage) in trie.storages {
        for (path, node) in &storage.nodes {
            let mut value = codec::path_subkey(path).to_vec();
            codec::encode_branch(node.as_ref().unwrap(), &mut value);
            storages.push((address.to_vec(), value));
        }
    }
    storages.sort_unstable();
    assert!(!accounts.is_empty());
    assert_eq!(
        dump(db, Table::AccountsTrie),
        accounts.into_iter().collect::<Vec<_>>()
    );
    assert_eq!(dump(db, Table::StoragesTrie), storages);
}

/// Blocks, receipts, lookups, plain state and history read back as they were written.
fn assert_reads(chain: &Chain) {
    let view = chain.db.view().unwrap();
    for block in &chain.blocks {
        let (stored, number) = (block.stored(), block.stored().header.number);
        assert_eq!(view.block(number).unwrap().as_ref(), Some(stored));
        assert_eq!(
            view.receipts(number).unwrap().as_deref(),
            Some(block.receipts())
        );
        assert_eq!(view.block_number(stored.hash).unwrap(), Some(number));
        for (index, transaction) in stored.transactions.iter().enumerate() {
            let place = view
                .transaction_location(*transaction.tx_hash())
                .unwrap()
                .unwrap();
            assert_eq!((place.block_number, place.index), (number, index as u64));
            let found = view.transaction(place.transaction_number).unwrap();
            assert_eq!(found.as_ref(), Some(transaction));
        }
    }
    let addresses: Vec<Address> = (0..13).map(super::chain::address).collect();
    for (number, model) in chain.models.iter().enumerate() {
        for address in &addresses {
            let account = model.get(address);
            let at = view.account_at(*address, number as u64).unwrap();
            assert_eq!(
                at,
                account.map(|account| account.0),
                "{address} at {number}"
            );
            for index in [0, 1, 3, 4, 5, 399, 420] {
                let expected = account.and_then(|account| account.1.get(&slot(index)).copied());
                let at = view
                    .storage_at(*address, slot(index), number as u64)
                    .unwrap();
                assert_eq!(
                    at,
                    expected.unwrap_or_default(),
                    "{address} slot {index} at {number}"
                );
            }
        }
    }
    let last = chain.models.last().unwrap();
    for address in &addresses {
        let account = view.account(*address).unwrap();
        assert_eq!(account, last.get(address).map(|account| account.0));
        let hash = account.map(|account| account.code_hash).unwrap_or_default();
        if let Some(code) = view.bytecode(hash).unwrap() {
            assert_eq!(alloy_primitives::keccak256(&code), hash);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn unwinding_restores_every_row(
        ops in blocks(),
        target in any::<proptest::sample::Index>(),
        batch in 1usize..9,
    ) {
        let chain = Chain::new(&ops);
        assert_tries_from_scratch(&chain.db);
        assert_reads(&chain);
        let all = dump_all(&chain.db, &[]);

        let (_dir, batched) = chain.copy(ops.len(), batch);
        assert_same(&dump_all(&batched, &[]), &all);

        let target = target.index(ops.len() + 1);
        let (_dir, short) = chain.copy(target, batch);
        let summary = chain.db.unwind(target as u64, &mut |_| {}).unwrap();
        prop_assert_eq!(summary.head.number, target as u64);
        prop_assert_eq!(summary.state_root, model_root(&chain.models[target]));
        assert_same(&dump_all(&chain.db, &KEPT), &dump_all(&short, &KEPT));
        assert_tries_from_scratch(&chain.db);

        append(&chain.db, &chain.blocks[target..], batch);
        assert_same(&dump_all(&chain.db, &[]), &all);
    }
}
