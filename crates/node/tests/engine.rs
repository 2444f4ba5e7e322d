//! The engine over a real database: blocks are built, sent, chosen, persisted and unwound.
//!
//! Every engine here compares each parallel root with the serial reference.

#![expect(
    clippy::unwrap_used,
    reason = "a failure here fails the test that called"
)]

mod support;

use alloy_eips::eip4895::Withdrawal;
use alloy_primitives::{B256, Bytes, U256};
use alloy_rpc_types_engine::{ForkchoiceState, PayloadStatus, PayloadStatusEnum};
use node::{
    engine::{BuildError, EngineConfig, ForkchoiceError, GetPayloadError, WaitFor},
    primitives::Block,
};
use state_db::{HeldWriter, StateDb};
use state_root::{LateRoot, Strategy, reference::root_of_leaves};
use std::{
    fs,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};
use support::{
    FEE_RECIPIENT, Fork, Net, STORE, address_of, attributes, config, data, genesis, roots, sender,
    state, store, transfer,
};

/// Transactions of the `n`th block of a test chain: new accounts, new, changed and removed slots.
fn traffic(n: u64) -> Vec<Bytes> {
    vec![
        transfer(0, n, address_of(n), 1_000),
        transfer(1, n, sender(0), 5),
        store(2, n, n % 3, n),
        store(3, n, n + 10, n + 1),
        store(4, n, n + 9, 0),
    ]
}

/// Extends the head by blocks of traffic number `from..to`; their hashes.
async fn grow(net: &Net, from: u64, to: u64) -> Vec<B256> {
    let mut hashes = Vec::new();
    for n in from..to {
        hashes.push(net.extend(net.head(), traffic(n)).await);
    }
    hashes
}

fn long_memory() -> EngineConfig {
    EngineConfig {
        persistence_threshold: 100,
        ..config()
    }
}

/// The root over every leaf in the database, from scratch, is the head's.
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

fn validation_error(status: &PayloadStatus) -> &str {
    match &status.status {
        PayloadStatusEnum::Invalid { validation_error } => validation_error,
        other => panic!("expected INVALID, got {other:?}"),
    }
}

async fn keeps_its_chain_over_restarts(fork: Fork) {
    let net = Net::new(fork);
    let hashes = grow(&net, 0, 4).await;
    let net = net.restart(assert_root_of_leaves).await;
    assert_eq!(net.head(), hashes[3]);
    assert_eq!(net.engine.chain().head().number, 4);
    let more = grow(&net, 4, 9).await;
    let net = net.restart(assert_root_of_leaves).await;
    assert_eq!(net.head(), more[4]);
    let block = net.engine.chain().block_by_number(7).unwrap().unwrap();
    assert_eq!(block.block.hash, more[2]);
    assert_eq!(block.receipts.len(), 5);
    assert!(block.receipts.iter().all(|receipt| receipt.success));
}

#[tokio::test]
async fn keeps_its_chain_over_restarts_at_prague() {
    keeps_its_chain_over_restarts(Fork::Prague).await;
}

#[tokio::test]
async fn keeps_its_chain_over_restarts_at_osaka() {
    keeps_its_chain_over_restarts(Fork::Osaka).await;
}

/// A block with one wrong field, and part of the complaint about it.
type Wrong = (fn(&mut Block), &'static str);

#[tokio::test]
async fn a_wrong_field_is_invalid_and_names_the_parent() {
    let net = Net::new(Fork::Prague);
    let parent = net.extend(net.head(), traffic(0)).await;
    let good = net.build(parent, traffic(1)).await;
    let wrong: [Wrong; 13] = [
        (
            |block| block.header.state_root = B256::repeat_byte(1),
            "mismatched block state root",
        ),
        (
            |block| block.header.receipts_root = B256::repeat_byte(1),
            "receipts root mismatch",
        ),
        (|block| block.header.gas_used -= 1, "gas used mismatch"),
        (|block| block.header.logs_bloom.0[3] = 1, "logs bloom"),
        (|block| block.header.number += 1, "block number mismatch"),
        (
            |block| block.header.timestamp = 12,
            "timestamp 12 is not after",
        ),
        (|block| block.header.gas_limit *= 2, "gas limit"),
        (
            |block| block.header.base_fee_per_gas = Some(7),
            "base fee per gas mismatch",
        ),
        (
            |block| block.header.excess_blob_gas = Some(131_072),
            "excess blob gas mismatch",
        ),
        (
            |block| block.header.blob_gas_used = Some(131_072),
            "blob gas used mismatch",
        ),
        (
            |block| block.header.requests_hash = Some(B256::ZERO),
            "requests hash mismatch",
        ),
        (
            |block| block.header.parent_beacon_block_root = Some(B256::ZERO),
            "mismatched block state root",
        ),
        (
            |block| block.body.transactions.swap(0, 1),
            "receipts root mismatch",
        ),
    ];
    for (spoil, complaint) in wrong {
        let mut bad = good.clone();
        spoil(&mut bad);
        bad.header.transactions_root =
            alloy_consensus::proofs::calculate_transaction_root(&bad.body.transactions);
        if bad.body.transactions[0] != good.body.transactions[0] {
            bad.header.receipts_root = B256::repeat_byte(2);
        }
        let status = net.send(&bad).await;
        let error = validation_error(&status);
        assert!(error.contains(complaint), "{error} instead of {complaint}");
        assert_eq!(status.latest_valid_hash, Some(parent), "{complaint}");
    }
    assert!(net.send(&good).await.is_valid());
}

#[tokio::test]
async fn a_payload_that_is_not_its_hash_names_no_block() {
    let net = Net::new(Fork::Prague);
    let good = net.build(net.head(), traffic(0)).await;
    let mut payload = data(&good);
    payload.payload.as_v1_mut().block_hash = B256::repeat_byte(7);
    let status = net.send_data(payload).await;
    assert!(validation_error(&status).contains("block hash mismatch"));
    assert_eq!(status.latest_valid_hash, None);

    let mut payload = data(&good);
    payload.payload.transactions_mut().pop();
    let status = net.send_data(payload).await;
    assert!(validation_error(&status).contains("block hash mismatch"));
    assert!(
        net.send(&good).await.is_valid(),
        "the block itself is not blamed"
    );
}

#[tokio::test]
async fn a_bad_signature_is_invalid() {
    let net = Net::new(Fork::Prague);
    let good = net.build(net.head(), traffic(0)).await;
    let mut payload = data(&good);
    let mut raw = payload.payload.transactions_mut()[1].to_vec();
    let end = raw.len();
    // The last 32 bytes are the signature's s; all ones is above half the curve order.
    raw[end - 32..].fill(0xff);
    payload.payload.transactions_mut()[1] = raw.into();
    let root = alloy_consensus::proofs::ordered_trie_root_encoded(payload.payload.transactions());
    let mut header = good.header.clone();
    header.transactions_root = root;
    payload.payload.as_v1_mut().block_hash = header.hash_slow();
    let status = net.send_data(payload).await;
    assert_eq!(
        validation_error(&status),
        "transaction 1 has an invalid signature"
    );
    assert_eq!(status.latest_valid_hash, Some(net.head()));
}

#[tokio::test]
async fn descendants_of_an_invalid_block_are_invalid() {
    let net = Net::with(genesis(Fork::Prague), long_memory());
    let genesis = net.head();
    let first = net.build(genesis, traffic(0)).await;
    let mut bad = first.clone();
    bad.header.state_root = B256::repeat_byte(1);
    assert!(net.send(&bad).await.is_invalid());
    let mut child = first.clone();
    child.header.parent_hash = bad.header.hash_slow();
    child.header.number = 2;
    for block in [&child, &bad] {
        let status = net.send(block).await;
        assert_eq!(
            validation_error(&status),
            "links to previously rejected block"
        );
        assert_eq!(status.latest_valid_hash, Some(genesis));
    }
    let choice = net.choose(child.header.hash_slow()).await;
    assert!(choice.is_invalid());
    assert_eq!(choice.payload_status.latest_valid_hash, Some(genesis));
    assert_eq!(net.head(), genesis);
}

#[tokio::test]
async fn an_orphan_waits_for_its_parent() {
    let source = Net::new(Fork::Osaka);
    let mut blocks = Vec::new();
    for n in 0..3 {
        blocks.push(source.build(source.head(), traffic(n)).await);
        assert!(source.send(&blocks[n as usize]).await.is_valid());
        source.choose(blocks[n as usize].header.hash_slow()).await;
    }
    let net = Net::new(Fork::Osaka);
    for block in blocks[1..].iter().rev() {
        let status = net.send(block).await;
        assert!(status.is_syncing());
        assert_eq!(status.latest_valid_hash, None);
    }
    let last = blocks[2].header.hash_slow();
    assert!(net.choose(last).await.is_syncing());
    assert!(net.send(&blocks[0]).await.is_valid());
    assert!(net.choose(last).await.is_valid());
    assert_eq!(net.head(), last);
}

#[tokio::test]
async fn a_repeated_payload_is_valid_again() {
    let net = Net::new(Fork::Prague);
    let block = net.build(net.head(), traffic(0)).await;
    let first = net.send(&block).await;
    assert_eq!(net.send(&block).await, first);
    net.choose(block.header.hash_slow()).await;
    grow(&net, 1, 3).await;
    net.persisted(3).await;
    assert_eq!(net.send(&block).await, first, "also from the database");
}

#[tokio::test]
async fn reorganises_to_a_side_chain_and_back() {
    reorganises(long_memory()).await;
}

#[tokio::test]
async fn reorganises_with_ranges() {
    reorganises(EngineConfig {
        root: roots()[1],
        ..long_memory()
    })
    .await;
}

async fn reorganises(config: EngineConfig) {
    let net = Net::with(genesis(Fork::Prague), config);
    let main = grow(&net, 0, 3).await;
    let side_first = net.build(main[0], vec![store(5, 0, 1, 77)]).await;
    assert!(net.send(&side_first).await.is_valid());
    let side_first = side_first.header.hash_slow();
    let side_second = net
        .build(side_first, vec![store(5, 1, 10, 0), store(6, 0, 2, 78)])
        .await;
    assert!(net.send(&side_second).await.is_valid());
    let side_second = side_second.header.hash_slow();
    let slot = |n: u64| B256::from(U256::from(n));
    let stored = |net: &Net, n| {
        let state = net
            .engine
            .chain()
            .state_at(net.head().into())
            .unwrap()
            .unwrap();
        state.storage(STORE, slot(n)).unwrap()
    };
    assert_eq!(net.head(), main[2]);
    assert_eq!(stored(&net, 1), U256::from(1));

    assert!(net.choose(side_second).await.is_valid());
    assert_eq!(
        (stored(&net, 1), stored(&net, 2)),
        (U256::from(77), U256::from(78))
    );
    assert_eq!(
        net.engine
            .chain()
            .block_by_number(2)
            .unwrap()
            .unwrap()
            .block
            .hash,
        side_first
    );
    let third = net.extend(side_second, vec![store(5, 2, 1, 0)]).await;
    assert_eq!(stored(&net, 1), U256::ZERO);

    assert!(net.choose(main[2]).await.is_valid());
    assert_eq!(stored(&net, 1), U256::from(1));
    let fourth = net.extend(main[2], traffic(3)).await;
    assert!(net.choose(third).await.is_valid());
    assert!(net.choose(fourth).await.is_valid());
    let net = net.restart(assert_root_of_leaves).await;
    assert_eq!(net.head(), fourth);
    assert_eq!(
        net.choose(third).await.payload_status.status,
        PayloadStatusEnum::Syncing
    );
}

/// While the database goes back many blocks, whoever asks is answered with the chain that is left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_are_answered_while_the_database_is_unwound() {
    let (net, db) = Net::with_database(genesis(Fork::Prague), config());
    let main = grow(&net, 0, 120).await;
    net.persisted(118).await;
    let side = net.build(main[0], vec![store(5, 0, 1, 77)]).await;
    assert!(net.send(&side).await.is_valid());
    let side = side.header.hash_slow();
    let (chain, over) = (net.engine.chain(), Arc::new(AtomicBool::new(false)));
    let reader = thread::spawn({
        let over = Arc::clone(&over);
        move || {
            let is_under_way = || db.pending_unwind().unwrap().is_some();
            let head_meanwhile = || {
                let head = is_under_way().then(|| chain.head().hash)?;
                is_under_way().then_some(head)
            };
            let mut answered = Vec::new();
            while !over.load(Ordering::Relaxed) {
                answered.extend(head_meanwhile());
            }
            answered
        }
    });
    assert!(net.choose(side).await.is_valid());
    over.store(true, Ordering::Relaxed);
    let answered = reader.join().unwrap();
    assert!(answered.iter().all(|head| *head == main[119]));
    assert!(!answered.is_empty());
    assert_eq!(net.head(), side);
}

/// Whether an answer is withheld as long as the database writes no row, and comes then.
async fn waits_for<T>(held: HeldWriter, answer: impl Future<Output = T>) -> T {
    let mut answer = pin!(answer);
    let early = tokio::time::timeout(Duration::from_millis(300), &mut answer).await;
    assert!(early.is_err(), "the answer did not wait for the batch");
    drop(held);
    answer.await
}

fn saving_at_once(backpressure: u64) -> EngineConfig {
    EngineConfig {
        persistence_threshold: 1,
        persistence_backpressure_threshold: backpressure,
        ..config()
    }
}

#[tokio::test]
async fn nothing_is_answered_while_too_many_blocks_wait_to_be_saved() {
    let (net, db) = Net::with_database(genesis(Fork::Prague), saving_at_once(4));
    let held = db.hold_writer();
    let main = grow(&net, 0, 4).await;
    let chosen = waits_for(held, net.choose(main[3])).await;
    assert!(chosen.is_valid());
}

#[tokio::test]
async fn a_batch_under_way_is_awaited_before_a_reorganisation() {
    let (net, db) = Net::with_database(genesis(Fork::Prague), saving_at_once(16));
    let main = grow(&net, 0, 1).await;
    let side = net.build(main[0], vec![store(5, 0, 1, 77)]).await;
    assert!(net.send(&side).await.is_valid());
    let side = side.header.hash_slow();
    let held = db.hold_writer();
    grow(&net, 1, 3).await;
    assert!(waits_for(held, net.choose(side)).await.is_valid());
    drop(db);
    let net = net.restart(assert_root_of_leaves).await;
    assert_eq!(net.head(), side);
}

#[tokio::test]
async fn without_roots_no_more_than_1024_blocks_are_held() {
    let with = |root| EngineConfig {
        root,
        check_state_root: false,
        ..config()
    };
    let maker = Net::with(genesis(Fork::Prague), with(config().root));
    let skip = with(Strategy::Late(LateRoot::Skip));
    let net = Net::with(genesis(Fork::Prague), skip);
    for _ in 0..1024 {
        let block = maker.build(maker.head(), Vec::new()).await;
        for net in [&maker, &net] {
            assert!(net.send(&block).await.is_valid());
            assert!(net.choose(block.header.hash_slow()).await.is_valid());
        }
    }
    let block = maker.build(maker.head(), Vec::new()).await;
    let refused = net.engine.new_payload(data(&block), WaitFor::default());
    let refused = refused.await.unwrap_err().to_string();
    assert!(refused.contains("1024 blocks are in memory"), "{refused}");
}

#[tokio::test]
async fn a_reorganisation_reaches_512_stored_blocks_and_no_further() {
    let net = Net::with(
        genesis(Fork::Prague),
        EngineConfig {
            check_state_root: false,
            ..config()
        },
    );
    let main = grow(&net, 0, 2).await;
    let beyond = net.build(main[0], vec![store(5, 0, 1, 77)]).await;
    let within = net.build(main[1], vec![store(5, 0, 1, 77)]).await;
    grow(&net, 2, 514).await;
    // Everything is stored.
    let net = net.restart(|_| ()).await;
    let head = net.head();
    net.send(&beyond).await;
    let beyond = state(beyond.header.hash_slow());
    let refused = net.engine.fork_choice_updated(beyond, None).await;
    assert!(
        matches!(refused, Err(ForkchoiceError::TooDeepReorg)),
        "{refused:?}"
    );
    assert_eq!(net.head(), head);
    assert!(net.send(&within).await.is_valid());
    assert!(net.choose(within.header.hash_slow()).await.is_valid());
    assert_eq!(net.head(), within.header.hash_slow());
}

#[tokio::test]
async fn saves_when_the_head_is_beyond_the_threshold() {
    let net = Net::new(Fork::Prague);
    grow(&net, 0, 2).await;
    assert_eq!(net.engine.persisted().borrow().number, 0);
    grow(&net, 2, 3).await;
    net.persisted(3).await;
    assert_eq!(net.engine.persisted().borrow().number, 3);
    grow(&net, 3, 5).await;
    assert_eq!(net.engine.persisted().borrow().number, 3);
    grow(&net, 5, 6).await;
    net.persisted(6).await;
}

#[tokio::test]
async fn persistence_leaves_the_newest_blocks_in_memory() {
    let net = Net::with(
        genesis(Fork::Prague),
        EngineConfig {
            memory_block_buffer_target: 2,
            ..config()
        },
    );
    grow(&net, 0, 3).await;
    net.persisted(1).await;
    assert_eq!(net.engine.persisted().borrow().number, 1);
    let side = net.build(
        net.engine
            .chain()
            .block_by_number(2)
            .unwrap()
            .unwrap()
            .block
            .hash,
        vec![],
    );
    let side = side.await;
    assert!(net.send(&side).await.is_valid());
    assert!(net.choose(side.header.hash_slow()).await.is_valid());
    let head = grow(&net, 2, 4).await[1];
    let net = net.restart(assert_root_of_leaves).await;
    assert_eq!(net.head(), head);
}

#[tokio::test]
async fn replaying_after_an_unwind_gives_the_same_blocks() {
    let net = Net::new(Fork::Osaka);
    let before = grow(&net, 0, 7).await;
    let blocks: Vec<_> = (4..=7)
        .map(|n| net.engine.chain().block_by_number(n).unwrap().unwrap())
        .map(|block| Block {
            header: block.block.header.clone(),
            body: alloy_consensus::BlockBody {
                transactions: block.block.transactions.clone(),
                ommers: Vec::new(),
                withdrawals: block.block.withdrawals.clone(),
            },
        })
        .collect();
    let net = net
        .restart(|db| {
            db.unwind(3, &mut |_| {}).unwrap();
            assert_root_of_leaves(db);
        })
        .await;
    assert_eq!(net.head(), before[2]);
    for block in &blocks {
        assert!(net.send(block).await.is_valid());
        net.choose(block.header.hash_slow()).await;
    }
    let net = net.restart(assert_root_of_leaves).await;
    assert_eq!(net.head(), before[6]);
}

#[tokio::test]
async fn fork_choice_markers_must_be_ancestors() {
    let net = Net::new(Fork::Prague);
    let hashes = grow(&net, 0, 2).await;
    let third = net.build(hashes[1], traffic(2)).await;
    net.send(&third).await;
    let third = third.header.hash_slow();
    let unknown = B256::repeat_byte(9);
    let choice = |safe, finalized| ForkchoiceState {
        head_block_hash: third,
        safe_block_hash: safe,
        finalized_block_hash: finalized,
    };
    for bad in [choice(unknown, hashes[0]), choice(hashes[0], unknown)] {
        let refused = net.engine.fork_choice_updated(bad, None).await.unwrap_err();
        assert!(matches!(refused, ForkchoiceError::InvalidState));
        assert_eq!(
            net.head(),
            hashes[1],
            "a refused fork choice changes nothing"
        );
    }
    let good = choice(hashes[1], hashes[0]);
    assert!(
        net.engine
            .fork_choice_updated(good, None)
            .await
            .unwrap()
            .is_valid()
    );
    let net = net.restart(|_| {}).await;
    assert_eq!(net.engine.chain().safe().unwrap().hash, hashes[1]);
    assert_eq!(net.engine.chain().finalized().unwrap().hash, hashes[0]);
}

#[tokio::test]
async fn unknown_and_zero_heads_change_nothing() {
    let net = Net::new(Fork::Prague);
    let hashes = grow(&net, 0, 2).await;
    assert!(net.choose(B256::repeat_byte(9)).await.is_syncing());
    let zero = net
        .engine
        .fork_choice_updated(state(B256::ZERO), None)
        .await;
    assert!(matches!(zero.unwrap_err(), ForkchoiceError::InvalidState));
    assert_eq!(net.head(), hashes[1]);
}

#[tokio::test]
async fn attributes_start_a_payload() {
    let net = Net::new(Fork::Osaka);
    let head = grow(&net, 0, 1).await[0];
    let mut wanted = attributes(24);
    wanted.withdrawals = Some(vec![Withdrawal {
        index: 1,
        validator_index: 2,
        address: address_of(5),
        amount: 3,
    }]);
    let answer = net
        .engine
        .fork_choice_updated(state(head), Some(wanted))
        .await
        .unwrap();
    let built = net
        .engine
        .get_payload(answer.payload_id.unwrap())
        .await
        .unwrap();
    assert!(net.send(&built.block.clone_block()).await.is_valid());
    net.choose(built.block.hash()).await;
    let after = net
        .engine
        .chain()
        .state_at(built.block.hash().into())
        .unwrap()
        .unwrap();
    let paid = after.account(address_of(5)).unwrap().unwrap();
    assert_eq!(paid.balance, U256::from(3_000_000_000_u64));

    let unknown = net
        .engine
        .get_payload(Default::default())
        .await
        .unwrap_err();
    assert!(matches!(unknown, GetPayloadError::Unknown));
    let stale = net
        .engine
        .fork_choice_updated(state(built.block.hash()), Some(attributes(24)))
        .await
        .unwrap_err();
    assert!(matches!(stale, ForkchoiceError::InvalidAttributes(_)));
}

#[tokio::test]
async fn strict_building_names_the_bad_transaction() {
    let net = Net::new(Fork::Prague);
    let bad = vec![transfer(0, 0, STORE, 1), transfer(0, 5, STORE, 1)];
    let error = net.try_build(net.head(), bad).await.unwrap_err();
    assert!(
        matches!(error, BuildError::InvalidTransaction { index: 1, .. }),
        "{error}"
    );
    let missing = B256::repeat_byte(3);
    let request = net.request(net.head(), Vec::new());
    let request = node::engine::BuildRequest {
        parent_hash: missing,
        ..request
    };
    let error = net.engine.build_block(request).await.unwrap_err();
    assert!(matches!(error, BuildError::UnknownParent(hash) if hash == missing));
}

#[tokio::test]
async fn lenient_building_leaves_out_a_sender_after_its_first_failure() {
    let lenient = EngineConfig {
        skip_invalid_transactions: true,
        ..config()
    };
    let net = Net::with(genesis(Fork::Prague), lenient);
    let offered = vec![
        transfer(0, 0, address_of(1), 1),
        transfer(0, 2, address_of(2), 1),
        transfer(1, 0, address_of(3), 1),
        transfer(0, 1, address_of(4), 1),
        Bytes::from_static(b"\x02nonsense"),
    ];
    let built = net.try_build(net.head(), offered).await.unwrap();
    assert_eq!(built.block.body().transactions.len(), 2);
    assert_eq!(
        built.fees,
        U256::from(2 * 21_000_u64) * U256::from(1_000_000_000_u64)
    );
    assert!(net.send(&built.block.clone_block()).await.is_valid());
    let head = built.block.hash();
    net.choose(head).await;
    let state = net.engine.chain().state_at(head.into()).unwrap().unwrap();
    assert_eq!(
        state.account(FEE_RECIPIENT).unwrap().unwrap().balance,
        built.fees
    );
}

#[tokio::test]
async fn building_stops_when_the_gas_is_spent() {
    let lenient = EngineConfig {
        skip_invalid_transactions: true,
        ..config()
    };
    let mut small = genesis(Fork::Prague);
    small.gas_limit = 100_000;
    let net = Net::with(small, lenient);
    let offered = (0..9)
        .map(|nonce| transfer(0, nonce, address_of(nonce), 1))
        .collect();
    let block = net.build(net.head(), offered).await;
    assert_eq!(block.body.transactions.len(), 4);
    assert!(net.send(&block).await.is_valid());
}

#[tokio::test]
async fn children_of_the_head_are_bounded_like_side_chains() {
    let net = Net::new(Fork::Prague);
    let child = net.build(net.head(), Vec::new()).await;
    let mut hashes = Vec::new();
    for extra in 0..150_u8 {
        let mut sibling = child.clone();
        sibling.header.extra_data = vec![extra].into();
        hashes.push(sibling.header.hash_slow());
        assert!(net.send(&sibling).await.is_valid());
    }
    let kept = |hash: &&B256| net.engine.chain().block_by_hash(**hash).unwrap().is_some();
    assert!(hashes.iter().filter(kept).count() <= 129);
    assert!(kept(&hashes.last().unwrap()));
    // One that had to go is executed again when it is wanted.
    net.choose(hashes[0]).await;
    assert_eq!(net.head(), hashes[0]);
}

/// The hash of a block says nothing about the body that comes with its header.
#[tokio::test]
async fn a_known_block_with_another_body_is_refused_and_the_block_stays_valid() {
    let net = Net::new(Fork::Prague);
    let offered = vec![transfer(0, 0, address_of(9), 1)];
    let block = net.build(net.head(), offered).await;
    let import = async |block: Block| net.engine.import_block(block).await.unwrap();
    assert!(import(block.clone()).await.is_valid());
    let mut other = block.clone();
    other.body.transactions.clear();
    let status = import(other).await;
    let error = validation_error(&status);
    assert!(error.contains("transactions root mismatch"), "{error}");
    assert!(import(block).await.is_valid());
}

#[tokio::test]
async fn request_contracts_must_exist_from_prague_on() {
    let mut bare = genesis(Fork::Prague);
    bare.alloc
        .remove(&alloy_eips::eip7002::WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS);
    let net = Net::with(bare, config());
    let error = net.try_build(net.head(), Vec::new()).await.unwrap_err();
    assert!(error.to_string().contains("has no code"), "{error}");
}

#[tokio::test]
async fn old_state_is_read_through_history() {
    let net = Net::new(Fork::Prague);
    let hashes = grow(&net, 0, 7).await;
    net.persisted(6).await;
    for (n, hash) in hashes.iter().enumerate() {
        let state = net
            .engine
            .chain()
            .state_at((*hash).into())
            .unwrap()
            .unwrap();
        let nonce = state.account(sender(0)).unwrap().unwrap().nonce;
        assert_eq!(nonce, n as u64 + 1);
        let slot = B256::from(U256::from(n + 10));
        assert_eq!(state.storage(STORE, slot).unwrap(), U256::from(n + 1));
        let later = B256::from(U256::from(n + 11));
        assert_eq!(state.storage(STORE, later).unwrap(), U256::ZERO);
    }
}

/// Nice values of this process's threads of a name (`proc_pid_stat(5)`, field 19).
fn nice_values(name: &str) -> Vec<i32> {
    let threads = fs::read_dir("/proc/self/task").unwrap();
    // A thread of another test may have ended by now.
    let stats =
        threads.filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("stat")).ok());
    let nice = |stat: String| {
        let (head, fields) = stat.rsplit_once(") ")?;
        let value = fields.split(' ').nth(16)?.parse().ok()?;
        head.ends_with(&format!("({name}")).then_some(value)
    };
    stats.filter_map(nice).collect()
}

#[tokio::test]
async fn persistence_runs_at_the_lowest_priority_and_the_engine_as_the_process_does() {
    let net = Net::with(genesis(Fork::Prague), config());
    grow(&net, 0, 1).await;
    let own = rustix::process::getpriority_process(None).unwrap();
    let persistence = (own + 19).min(19);
    assert_eq!(nice_values("engine").iter().max(), Some(&own));
    assert!(nice_values("persistence").contains(&persistence));
}
