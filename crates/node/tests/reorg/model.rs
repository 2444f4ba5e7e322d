//! Random trees of blocks, sent and chosen in random order, over restarts, against a model that
//! knows only who descends from whom.
//!
//! The tree is built beforehand on an engine that keeps everything in memory. Its states are the
//! expectation for the engine under test, whose every parallel root is also compared with the
//! serial reference, and whose database is hashed from scratch at every restart.

use crate::support::{
    Fork, Net, STORE, address_of, config, genesis, roots, sender, store, transfer,
};
use alloy_eips::BlockNumberOrTag;
use alloy_primitives::{B256, Bytes, U256};
use alloy_rpc_types_engine::ForkchoiceState;
use node::{
    engine::{EngineConfig, ForkchoiceError, StateReader},
    primitives::Block,
};
use proptest::prelude::*;
use state_root::reference::root_of_leaves;
use std::collections::HashSet;

/// Blocks of a tree, besides genesis.
const BLOCKS: usize = 14;
/// Slots and senders that blocks write with.
const SLOTS: u64 = 4;
const SENDERS: u8 = 3;

/// One step. Numbers choose among the blocks that are there.
#[derive(Debug, Clone)]
enum Step {
    Send(usize),
    /// A child of the block, with a wrong state root.
    SendBad(usize),
    /// Head, and how many blocks behind it is the finalized one, if one is named.
    Choose(usize, Option<usize>),
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        5 => (0..=BLOCKS).prop_map(Step::Send),
        1 => (0..=BLOCKS).prop_map(Step::SendBad),
        5 => (0..=BLOCKS, proptest::option::weighted(0.15, 0..4_usize))
            .prop_map(|(head, behind)| Step::Choose(head, behind)),
        1 => Just(Step::Restart),
    ];
    proptest::collection::vec(step, 1..40)
}

/// A parent for each block, among those before it; near ones are likelier, so that chains grow.
fn parents() -> impl Strategy<Value = Vec<usize>> {
    let back = prop_oneof![3 => Just(0_usize), 1 => 1..4_usize, 1 => 0..BLOCKS];
    let backs = proptest::collection::vec(back, BLOCKS);
    backs.prop_map(|backs| {
        let parents = backs.into_iter().enumerate();
        parents.map(|(n, back)| n.saturating_sub(back)).collect()
    })
}

/// When blocks are persisted, and both ways of computing a root.
fn configs() -> impl Strategy<Value = EngineConfig> {
    let root = prop::sample::select(roots().to_vec());
    (0..4_u64, 0..3_u64, root).prop_map(|(threshold, buffer, root)| {
        let config = config();
        EngineConfig {
            persistence_threshold: threshold,
            memory_block_buffer_target: buffer.min(threshold),
            persistence_backpressure_threshold: 16,
            state_cache_bytes: 4 << 20,
            root,
            ..config
        }
    })
}

/// The blocks, genesis first (as `None`), and where each stands.
struct World {
    net: Net,
    blocks: Vec<Option<Block>>,
    hashes: Vec<B256>,
    parents: Vec<usize>,
}

impl World {
    async fn grow(parents: &[usize]) -> Self {
        let net = Net::with(
            genesis(Fork::Prague),
            EngineConfig {
                persistence_threshold: 1000,
                ..config()
            },
        );
        let mut world = Self {
            blocks: vec![None],
            hashes: vec![net.head()],
            parents: vec![0],
            net,
        };
        for (n, parent) in parents.iter().enumerate() {
            let hash = world.hashes[*parent];
            let traffic = world.traffic(hash, n as u64);
            let block = world.net.build(hash, traffic).await;
            assert!(world.net.send(&block).await.is_valid());
            world.hashes.push(block.header.hash_slow());
            world.blocks.push(Some(block));
            world.parents.push(*parent);
        }
        world
    }

    fn state(&self, n: usize) -> StateReader {
        let state = self.net.engine.chain().state_at(self.hashes[n].into());
        state.unwrap().unwrap()
    }

    /// Sets, changes and clears slots, and pays new accounts, from senders that other branches use
    /// as well.
    fn traffic(&self, parent: B256, n: u64) -> Vec<Bytes> {
        let state = self.net.engine.chain().state_at(parent.into());
        let state = state.unwrap().unwrap();
        let nonce = |name| state.account(sender(name)).unwrap().unwrap().nonce;
        let name = (n % u64::from(SENDERS)) as u8;
        let first = nonce(name);
        vec![
            store(name, first, n % SLOTS, n + 1),
            store(name, first + 1, (n + 1) % SLOTS, 0),
            transfer(name, first + 2, address_of(n), n),
        ]
    }

    fn is_ancestor_or_same(&self, older: usize, newer: usize) -> bool {
        self.line(newer).any(|n| n == older)
    }

    /// The block and its ancestors down to genesis.
    fn line(&self, newest: usize) -> impl Iterator<Item = usize> {
        let parents = self.parents.clone();
        let step = move |n: &usize| (*n != 0).then(|| parents[*n]);
        std::iter::successors(Some(newest), step)
    }
}

/// What the engine under test should think.
struct Model {
    known: HashSet<usize>,
    head: usize,
    finalized: Option<usize>,
}

impl Model {
    fn is_connected(&self, world: &World, block: usize) -> bool {
        world.line(block).all(|n| self.known.contains(&n))
    }

    /// Whether the block can no longer become canonical: the node may have forgotten it, or an
    /// ancestor.
    fn may_be_forgotten(&self, world: &World, block: usize) -> bool {
        let floor = self.finalized.unwrap_or(0);
        !world.is_ancestor_or_same(floor, block) && !world.is_ancestor_or_same(block, floor)
    }
}

async fn send(world: &World, model: &mut Model, net: &Net, block: usize) {
    let Some(sent) = &world.blocks[block] else {
        return;
    };
    let status = net.send(sent).await;
    let status = (status.status.as_str(), status.latest_valid_hash);
    model.known.insert(block);
    if status == ("SYNCING", None) && model.may_be_forgotten(world, block) {
        return;
    }
    if !model.is_connected(world, block) {
        assert_eq!(status, ("SYNCING", None), "block {block}");
    } else if status != ("ACCEPTED", None) {
        assert_eq!(
            status,
            ("VALID", Some(world.hashes[block])),
            "block {block}"
        );
    }
}

async fn send_bad(world: &World, model: &Model, net: &Net, parent: usize) {
    let mut bad = world.net.build(world.hashes[parent], vec![]).await;
    bad.header.state_root = B256::repeat_byte(0xbd);
    let status = net.send(&bad).await;
    let status = (status.status.as_str(), status.latest_valid_hash);
    if status == ("SYNCING", None) && model.may_be_forgotten(world, parent) {
        return;
    }
    if !model.is_connected(world, parent) {
        assert_eq!(status, ("SYNCING", None), "child of {parent}");
    } else if status != ("ACCEPTED", None) {
        assert_eq!(status, ("INVALID", Some(world.hashes[parent])));
    }
}

async fn choose(world: &World, model: &mut Model, net: &Net, head: usize, behind: Option<usize>) {
    let finalized = behind.map(|behind| world.line(head).take(behind + 1).last().unwrap());
    let hash = |block: Option<usize>| block.map_or(B256::ZERO, |n| world.hashes[n]);
    let state = ForkchoiceState {
        head_block_hash: world.hashes[head],
        safe_block_hash: hash(finalized),
        finalized_block_hash: hash(finalized),
    };
    let answer = net.engine.fork_choice_updated(state, None).await;
    let floor = model.finalized.unwrap_or(0);
    if !model.is_connected(world, head) {
        assert!(answer.unwrap().is_syncing(), "head {head}");
    } else if head != floor && world.is_ancestor_or_same(head, floor) {
        assert!(answer.unwrap().is_valid(), "head {head} below {floor}");
    } else if model.may_be_forgotten(world, head) {
        match answer {
            Ok(updated) => assert!(updated.is_syncing(), "head {head}: {updated:?}"),
            Err(error) => assert!(matches!(error, ForkchoiceError::TooDeepReorg), "{error}"),
        }
    } else {
        let status = answer.unwrap().payload_status;
        assert!(status.is_valid(), "head {head}: {status:?}");
        assert_eq!(status.latest_valid_hash, Some(world.hashes[head]));
        model.head = head;
        model.finalized = finalized.or(model.finalized);
    }
}

async fn restart(world: &World, model: &mut Model, net: Net) -> Net {
    model.known = world.line(model.head).collect();
    net.restart(|db| {
        let view = db.view().unwrap();
        let head = view.head().unwrap().unwrap();
        assert_eq!(head.hash, world.hashes[model.head]);
        let header = view.header(head.number).unwrap().unwrap();
        assert_eq!(root_of_leaves(&view).unwrap().0, header.state_root);
    })
    .await
}

/// Compares everything blocks write, and the chain by number.
fn check(world: &World, model: &Model, net: &Net) {
    assert_eq!(net.head(), world.hashes[model.head]);
    let chain = net.engine.chain();
    let state = chain.state_at(BlockNumberOrTag::Latest.into());
    let (state, expected) = (state.unwrap().unwrap(), world.state(model.head));
    for name in 0..SENDERS {
        let account = sender(name);
        assert_eq!(
            state.account(account).unwrap(),
            expected.account(account).unwrap()
        );
    }
    for n in 0..BLOCKS as u64 {
        let account = address_of(n);
        assert_eq!(
            state.account(account).unwrap(),
            expected.account(account).unwrap()
        );
    }
    for slot in 0..SLOTS {
        let slot = B256::from(U256::from(slot));
        assert_eq!(
            state.storage(STORE, slot).unwrap(),
            expected.storage(STORE, slot).unwrap()
        );
    }
    let line: Vec<_> = world.line(model.head).collect();
    for (number, block) in (0..).zip(line.iter().rev()) {
        assert_eq!(
            chain.canonical_hash(number).unwrap(),
            Some(world.hashes[*block])
        );
    }
    assert_eq!(chain.canonical_hash(line.len() as u64).unwrap(), None);
    let finalized = chain.finalized().map(|block| block.hash);
    assert_eq!(finalized, model.finalized.map(|n| world.hashes[n]));
}

async fn play(parents: &[usize], steps: &[Step], config: EngineConfig) {
    let world = World::grow(parents).await;
    let mut net = Net::with(genesis(Fork::Prague), config);
    let mut model = Model {
        known: [0].into(),
        head: 0,
        finalized: None,
    };
    for step in steps {
        match step {
            Step::Send(block) => send(&world, &mut model, &net, *block).await,
            Step::SendBad(parent) => send_bad(&world, &model, &net, *parent).await,
            Step::Choose(head, behind) => {
                choose(&world, &mut model, &net, *head, *behind).await;
            }
            Step::Restart => net = restart(&world, &mut model, net).await,
        }
        check(&world, &model, &net);
    }
    restart(&world, &mut model, net).await;
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 48,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_order_of_payloads_fork_choices_and_restarts(
        parents in parents(),
        steps in steps(),
        config in configs(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(play(&parents, &steps, config));
    }
}

/// Found by the test above: block 3 waits for its parent, and the branch beside it becomes final.
#[test]
fn a_block_beside_the_finalized_one_may_be_forgotten() {
    let steps = [
        Step::Send(7),
        Step::Send(5),
        Step::Send(3),
        Step::Send(6),
        Step::Send(1),
        Step::Send(4),
        Step::Send(2),
        Step::Choose(7, Some(0)),
        Step::Choose(3, None),
        Step::Send(3),
    ];
    let config = EngineConfig {
        persistence_threshold: 0,
        memory_block_buffer_target: 0,
        ..config()
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(play(&[0, 1, 2, 2, 4, 5, 6], &steps, config));
}
