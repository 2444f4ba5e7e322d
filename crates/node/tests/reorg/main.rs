//! Forks of the chain: what is answered for blocks beside the canonical chain, and that the head
//! can go to any of them and back, whatever is in the database.
//!
//! Every engine here compares each parallel root with the serial reference.

#![expect(
    clippy::unwrap_used,
    reason = "a failure here fails the test that called"
)]

mod model;
#[path = "../support/mod.rs"]
mod support;

use alloy_eips::BlockNumberOrTag;
use alloy_primitives::{B256, Bytes};
use alloy_rpc_types_engine::{ForkchoiceState, PayloadStatus};
use node::{
    engine::{EngineConfig, ForkchoiceError, WaitFor},
    primitives::Block,
};
use state_db::StateDb;
use state_root::reference::root_of_leaves;
use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use support::{Fork, Net, address_of, config, data, genesis, sender, store, transfer};

/// Persists every block as soon as it is the head.
fn saving_at_once() -> Net {
    Net::with(
        genesis(Fork::Prague),
        EngineConfig {
            persistence_threshold: 0,
            ..config()
        },
    )
}

fn assert_root_of_leaves(db: &StateDb) {
    let view = db.view().unwrap();
    let head = view.head().unwrap().unwrap();
    let header = view.header(head.number).unwrap().unwrap();
    assert_eq!(
        root_of_leaves(&view).unwrap().0,
        header.state_root,
        "block {}",
        head.number
    );
}

/// What the chain `name` puts into its `n`th block: it counts its own sender's nonce, and writes
/// slots that other chains write too.
fn traffic(name: u8, n: u64) -> Vec<Bytes> {
    vec![
        store(name, 2 * n, n % 5, u64::from(name) + n),
        transfer(name, 2 * n + 1, address_of(n), 7),
    ]
}

/// Extends `parent` by `count` blocks of the chain `name`; every payload must be VALID.
async fn side_chain(net: &Net, parent: B256, name: u8, count: u64) -> Vec<B256> {
    let mut hashes = Vec::new();
    let mut parent = parent;
    for n in 0..count {
        let block = net.build(parent, traffic(name, n)).await;
        parent = block.header.hash_slow();
        let status = net.send(&block).await;
        assert!(status.is_valid(), "block {n} of chain {name}: {status:?}");
        hashes.push(parent);
    }
    hashes
}

/// Like [`side_chain`], and each block becomes the head and is persisted.
async fn main_chain(net: &Net, parent: B256, name: u8, count: u64) -> Vec<B256> {
    let mut hashes = Vec::new();
    let mut parent = parent;
    for n in 0..count {
        parent = net.extend(parent, traffic(name, n)).await;
        hashes.push(parent);
    }
    net.persisted(net.engine.chain().head().number).await;
    hashes
}

/// A block that differs from a valid one in its state root.
async fn bad_block(net: &Net, parent: B256, name: u8, n: u64) -> Block {
    let mut block = net.build(parent, traffic(name, n)).await;
    block.header.state_root = B256::repeat_byte(0xbd);
    block
}

/// Status and latest valid hash.
fn short(status: &PayloadStatus) -> (&'static str, Option<B256>) {
    (status.status.as_str(), status.latest_valid_hash)
}

async fn choose_with(
    net: &Net,
    head: B256,
    safe: B256,
    finalized: B256,
) -> Result<PayloadStatus, ForkchoiceError> {
    let state = ForkchoiceState {
        head_block_hash: head,
        safe_block_hash: safe,
        finalized_block_hash: finalized,
    };
    let updated = net.engine.fork_choice_updated(state, None).await;
    updated.map(|updated| updated.payload_status)
}

async fn there_and_back(depth: u64) {
    let net = saving_at_once();
    let fork = net.head();
    let main = main_chain(&net, fork, 0, depth).await;
    let side = side_chain(&net, fork, 1, depth + 1).await;
    assert_eq!(net.head(), *main.last().unwrap(), "a payload moves no head");
    let nonce = |net: &Net, name| {
        let state = net.engine.chain().state_at(BlockNumberOrTag::Latest.into());
        let account = state.unwrap().unwrap().account(sender(name)).unwrap();
        account.map_or(0, |account| account.nonce)
    };

    assert!(net.choose(*side.last().unwrap()).await.is_valid());
    assert_eq!((nonce(&net, 0), nonce(&net, 1)), (0, 2 * depth + 2));
    let net = net.restart(assert_root_of_leaves).await;
    assert_eq!(net.head(), *side.last().unwrap());
    for (number, hash) in (1..).zip(&side) {
        let block = net.engine.chain().block_by_number(number).unwrap().unwrap();
        assert_eq!(block.block.hash, *hash);
    }

    // The restart forgot the old chain; it comes again, and is left without a restart.
    let again = side_chain(&net, fork, 0, depth).await;
    assert_eq!(again, main);
    for head in [&main, &side, &main] {
        assert!(net.choose(*head.last().unwrap()).await.is_valid());
        assert_eq!(net.head(), *head.last().unwrap());
        net.persisted(head.len() as u64).await;
    }
    assert_eq!((nonce(&net, 0), nonce(&net, 1)), (2 * depth, 0));
    let next = net.extend(*main.last().unwrap(), traffic(0, depth)).await;
    let net = net.restart(assert_root_of_leaves).await;
    assert_eq!(net.head(), next);
}

#[tokio::test]
async fn one_block_deep_there_and_back() {
    there_and_back(1).await;
}

#[tokio::test]
async fn some_blocks_deep_there_and_back() {
    there_and_back(5).await;
}

#[tokio::test]
async fn far_deep_there_and_back() {
    there_and_back(150).await;
}

#[tokio::test]
async fn the_head_goes_back_to_an_ancestor_but_not_below_the_finalized_block() {
    let net = saving_at_once();
    let genesis = net.head();
    let main = main_chain(&net, genesis, 0, 6).await;
    let zero = B256::ZERO;
    // Head asked for, finalized block named with it, expected head.
    for (head, finalized, expected) in [
        (main[4], zero, main[4]),
        (main[5], main[2], main[5]),
        (main[3], zero, main[3]),
        (main[1], zero, main[3]),
        (genesis, zero, main[3]),
        (main[2], zero, main[2]),
        (main[5], main[3], main[5]),
    ] {
        let status = choose_with(&net, head, zero, finalized).await.unwrap();
        assert_eq!(short(&status), ("VALID", Some(head)));
        assert_eq!(net.head(), expected);
    }
    let net = net.restart(assert_root_of_leaves).await;
    assert_eq!(net.head(), main[5]);
    assert_eq!(net.engine.chain().finalized().unwrap().hash, main[3]);
}

#[tokio::test]
async fn no_reorg_goes_below_the_finalized_block() {
    let net = saving_at_once();
    let genesis = net.head();
    let main = main_chain(&net, genesis, 0, 4).await;
    let side = side_chain(&net, main[0], 1, 3).await;
    let late = net.build(main[0], traffic(2, 0)).await;
    let chosen = choose_with(&net, main[3], main[3], main[1]).await;
    assert!(chosen.unwrap().is_valid());
    let refused = choose_with(&net, side[2], B256::ZERO, B256::ZERO).await;
    assert!(matches!(refused, Err(ForkchoiceError::TooDeepReorg)));
    assert_eq!(short(&net.send(&late).await), ("ACCEPTED", None));
    let refused = choose_with(&net, late.header.hash_slow(), B256::ZERO, B256::ZERO).await;
    assert!(matches!(refused, Err(ForkchoiceError::TooDeepReorg)));
    assert_eq!(net.head(), main[3]);
    assert!(
        side_chain(&net, main[1], 2, 1).await.len() == 1,
        "the finalized block itself may be built on"
    );
}

#[tokio::test]
async fn a_marker_left_behind_falls_back_to_the_fork() {
    for net in [Net::new(Fork::Prague), saving_at_once()] {
        let genesis = net.head();
        let main = main_chain_unpersisted(&net, genesis, 0, 2).await;
        let chosen = choose_with(&net, main[1], main[1], main[0]).await;
        assert!(chosen.unwrap().is_valid());
        let side = side_chain(&net, main[0], 1, 1).await;
        assert!(net.choose(side[0]).await.is_valid());
        let chain = net.engine.chain();
        assert_eq!(chain.safe().unwrap().hash, main[0]);
        assert_eq!(chain.finalized().unwrap().hash, main[0]);
        drop(chain);
        let net = net.restart(assert_root_of_leaves).await;
        assert_eq!(net.engine.chain().safe().unwrap().hash, main[0]);
    }
}

/// Like [`main_chain`] without waiting for persistence.
async fn main_chain_unpersisted(net: &Net, parent: B256, name: u8, count: u64) -> Vec<B256> {
    let mut hashes = Vec::new();
    let mut parent = parent;
    for n in 0..count {
        parent = net.extend(parent, traffic(name, n)).await;
        hashes.push(parent);
    }
    hashes
}

#[tokio::test]
async fn markers_beside_the_chain_of_the_head_are_refused_and_nothing_moves() {
    let net = saving_at_once();
    let genesis = net.head();
    let main = main_chain(&net, genesis, 0, 3).await;
    let side = side_chain(&net, main[0], 1, 2).await;
    let (zero, unknown) = (B256::ZERO, B256::repeat_byte(9));
    for (head, safe, finalized) in [
        (side[1], main[1], zero),
        (side[1], zero, main[2]),
        (side[1], unknown, zero),
        (side[0], side[1], zero),
        (main[2], side[0], zero),
        (main[1], main[2], zero),
        (main[2], zero, unknown),
    ] {
        let refused = choose_with(&net, head, safe, finalized).await;
        assert!(matches!(refused, Err(ForkchoiceError::InvalidState)));
        assert_eq!(net.head(), main[2]);
    }
    let chosen = choose_with(&net, side[1], side[0], main[0]).await;
    assert_eq!(short(&chosen.unwrap()), ("VALID", Some(side[1])));
}

#[tokio::test]
async fn a_bad_block_on_a_branch_leaves_the_old_chain() {
    let net = saving_at_once();
    let genesis = net.head();
    let main = main_chain(&net, genesis, 0, 3).await;
    let on_main = net.build(main[2], traffic(0, 3)).await;
    let mut bad = on_main.clone();
    bad.header.gas_used += 1;
    let side = side_chain(&net, genesis, 1, 1).await;
    assert!(net.choose(side[0]).await.is_valid());
    net.persisted(1).await;

    // The old chain is out of the database and is known, but has no state.
    let known = data_of(&net, &main, 2).await;
    assert_eq!(short(&known), ("ACCEPTED", None));
    assert_eq!(short(&net.send(&bad).await), ("ACCEPTED", None));
    let chosen = net.choose(bad.header.hash_slow()).await;
    assert_eq!(short(&chosen.payload_status), ("INVALID", Some(main[2])));
    assert_eq!(net.head(), side[0]);
    let again = net.send(&bad).await;
    assert_eq!(short(&again), ("INVALID", Some(main[2])));
    assert!(
        net.send(&on_main).await.is_valid(),
        "its parent was executed"
    );
    assert!(net.choose(on_main.header.hash_slow()).await.is_valid());
    net.restart(assert_root_of_leaves).await;
}

/// The answer for a new child of `main[n]`.
async fn data_of(net: &Net, main: &[B256], n: usize) -> PayloadStatus {
    // Any block with that parent will do: it is not executed.
    let mut child = net.build(net.head(), vec![]).await;
    child.header.parent_hash = main[n];
    net.send(&child).await
}

#[tokio::test]
async fn what_waited_for_an_invalid_block_is_invalid() {
    let net = Net::new(Fork::Prague);
    let genesis = net.head();
    let bad = bad_block(&net, genesis, 0, 0).await;
    let mut descendants = vec![bad.clone()];
    for n in 0..3 {
        let mut child = bad.clone();
        child.header.number += n + 1;
        child.header.timestamp += 12 * (n + 1);
        child.header.parent_hash = descendants.last().unwrap().header.hash_slow();
        descendants.push(child);
    }
    for child in descendants[1..].iter().rev() {
        assert_eq!(short(&net.send(child).await), ("SYNCING", None));
        let chosen = net.choose(child.header.hash_slow()).await;
        assert_eq!(short(&chosen.payload_status), ("SYNCING", None));
    }
    assert_eq!(short(&net.send(&bad).await), ("INVALID", Some(genesis)));
    for block in descendants.iter().rev() {
        let chosen = net.choose(block.header.hash_slow()).await;
        assert_eq!(
            short(&chosen.payload_status),
            ("INVALID", Some(genesis)),
            "block {}",
            block.header.number
        );
        assert_eq!(short(&net.send(block).await), ("INVALID", Some(genesis)));
    }
    assert_eq!(net.head(), genesis);
}

/// A payload that says it is `hash` and is something else.
async fn imposture(net: &Net, hash: B256, parent: B256) -> PayloadStatus {
    let mut payload = data(&net.build(net.head(), vec![]).await);
    let fields = payload.payload.as_v1_mut();
    fields.block_hash = hash;
    fields.parent_hash = parent;
    net.send_data(payload).await
}

#[tokio::test]
async fn a_payload_that_only_claims_a_hash_changes_nothing() {
    let net = saving_at_once();
    let genesis = net.head();
    let main = main_chain(&net, genesis, 0, 2).await;
    let in_memory = side_chain(&net, main[0], 1, 1).await[0];
    let bad = bad_block(&net, main[1], 0, 2).await;
    let good = net.build(main[1], traffic(0, 2)).await;
    assert!(net.send(&bad).await.is_invalid());
    let (bad, good_hash) = (bad.header.hash_slow(), good.header.hash_slow());
    for (claimed, parent) in [
        (main[0], genesis),
        (in_memory, main[0]),
        (bad, main[1]),
        (good_hash, main[1]),
        (good_hash, bad),
        (good_hash, B256::repeat_byte(5)),
    ] {
        let status = imposture(&net, claimed, parent).await;
        assert_eq!(short(&status), ("INVALID", None));
    }
    assert!(net.send(&good).await.is_valid());
    assert!(net.choose(in_memory).await.is_valid());
}

#[tokio::test]
async fn a_transaction_that_is_none_names_no_valid_block() {
    let net = Net::new(Fork::Prague);
    let good = net.build(net.head(), traffic(0, 0)).await;
    for (junk, parent) in [
        (Bytes::new(), None),
        (Bytes::from_static(b"\x02nonsense"), None),
        (Bytes::new(), Some(B256::repeat_byte(7))),
    ] {
        let mut payload = data(&good);
        payload.payload.transactions_mut()[0] = junk;
        let mut header = good.header.clone();
        header.transactions_root =
            alloy_consensus::proofs::ordered_trie_root_encoded(payload.payload.transactions());
        header.parent_hash = parent.unwrap_or(header.parent_hash);
        let fields = payload.payload.as_v1_mut();
        (fields.parent_hash, fields.block_hash) = (header.parent_hash, header.hash_slow());
        for _ in 0..2 {
            let status = net.send_data(payload.clone()).await;
            assert_eq!(short(&status), ("INVALID", None));
        }
    }
    assert!(net.send(&good).await.is_valid());
}

#[tokio::test]
async fn wrong_blob_hashes_are_found_also_for_blocks_that_are_known_or_not_executed() {
    let net = saving_at_once();
    let genesis = net.head();
    let main = main_chain(&net, genesis, 0, 1).await;
    let known = net.engine.chain().block_by_hash(main[0]).unwrap().unwrap();
    let fresh = net.build(main[0], traffic(0, 1)).await;
    let mut orphan = fresh.clone();
    orphan.header.parent_hash = B256::repeat_byte(3);
    let known = Block {
        header: known.block.header.clone(),
        body: alloy_consensus::BlockBody {
            transactions: known.block.transactions.clone(),
            ommers: vec![],
            withdrawals: known.block.withdrawals.clone(),
        },
    };
    for block in [&known, &fresh, &orphan] {
        let mut payload = data(block);
        let mut cancun = payload.sidecar.cancun().unwrap().clone();
        cancun.versioned_hashes = vec![B256::repeat_byte(1)];
        let prague = payload.sidecar.prague().unwrap().clone();
        payload.sidecar = alloy_rpc_types_engine::ExecutionPayloadSidecar::v4(cancun, prague);
        let status = net.send_data(payload).await;
        assert_eq!(short(&status), ("INVALID", None));
    }
    assert!(net.send(&fresh).await.is_valid());
}

/// Reads the chain by number and tag until told to stop; every answer must be of one chain.
fn read_until(stop: &AtomicBool, net: &node::engine::ChainReader, chains: &[Vec<B256>]) -> usize {
    let mut reads = 0;
    let known: HashSet<B256> = chains.iter().flatten().copied().collect();
    loop {
        for number in 1..=chains[0].len() as u64 {
            let block = net.block_by_number(number).unwrap();
            let block = block.unwrap_or_else(|| panic!("block {number} is missing"));
            assert!(known.contains(&block.block.hash));
        }
        let state = net.state_at(BlockNumberOrTag::Latest.into()).unwrap();
        let state = state.unwrap();
        let nonce = |name| state.account(sender(name)).unwrap().unwrap().nonce;
        let nonces = (nonce(0), nonce(1));
        let whole = 2 * chains[0].len() as u64;
        assert!(
            nonces == (whole, 0) || nonces == (0, whole),
            "the state of no chain: {nonces:?}"
        );
        reads += 1;
        if stop.load(Ordering::Relaxed) {
            return reads;
        }
    }
}

#[tokio::test]
async fn readers_see_one_chain_or_the_other() {
    let net = saving_at_once();
    let genesis = net.head();
    let main = main_chain(&net, genesis, 0, 4).await;
    let side = side_chain(&net, genesis, 1, 4).await;
    let stop = Arc::new(AtomicBool::new(false));
    let chains = vec![main.clone(), side.clone()];
    let reader = {
        let (stop, chain) = (stop.clone(), net.engine.chain());
        std::thread::spawn(move || read_until(&stop, &chain, &chains))
    };
    for _ in 0..10 {
        for head in [side[3], main[3]] {
            assert!(net.choose(head).await.is_valid());
            net.persisted(4).await;
        }
    }
    stop.store(true, Ordering::Relaxed);
    assert!(reader.join().unwrap() > 0);
}

#[tokio::test]
async fn a_batch_that_cannot_be_written_ends_the_work_with_its_reason() {
    let (net, db) = Net::with_database(
        genesis(Fork::Prague),
        EngineConfig {
            persistence_threshold: 0,
            ..config()
        },
    );
    let genesis = net.head();
    let main = main_chain(&net, genesis, 0, 1).await;
    let block = net.build(main[0], traffic(0, 1)).await;
    assert!(net.send(&block).await.is_valid());
    // Someone else moves the database: the block does not follow its head any more.
    db.unwind(0, &mut |_| {}).unwrap();
    assert!(net.choose(block.header.hash_slow()).await.is_valid());
    let mut persisted = net.engine.persisted();
    while persisted.changed().await.is_ok() {}
    let refused = net
        .engine
        .new_payload(data(&block), WaitFor::default())
        .await;
    let reason = refused.unwrap_err().to_string();
    assert!(
        reason.starts_with("persist blocks: append block 2"),
        "{reason}"
    );
    let refused = choose_with(&net, main[0], B256::ZERO, B256::ZERO).await;
    assert!(refused.unwrap_err().to_string().contains("persist blocks"));
    let stopped = net.engine.shutdown().await.unwrap_err().to_string();
    assert!(stopped.contains("append block 2"), "{stopped}");
}
