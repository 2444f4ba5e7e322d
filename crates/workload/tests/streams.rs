//! The streams are what they are promised to be: pure, complete, and of the stated composition.

use alloy_primitives::{Address, B256, hex, keccak256};
use std::collections::HashSet;
use workload::{
    BaseState, Mix, Profile, StateItem,
    export::{write_genesis, write_state_dump},
    leaves::SeenLeaves,
    mix::Planner,
};

const TINY: Profile = Profile::Large {
    accounts: 2_000,
    slots: 10_000,
};

fn digest(text: impl AsRef<[u8]>) -> String {
    hex::encode(&keccak256(text)[..8])
}

/// A digest of all items.
fn state_digest(profile: Profile, seed: u64) -> String {
    let base = BaseState::new(profile, seed);
    digest(format!("{:?}", base.items().collect::<Vec<_>>()))
}

#[test]
fn the_same_seed_gives_the_same_state() {
    // Changing this figure changes every base state: cached ones become wrong without notice.
    assert_eq!(state_digest(TINY, 1), "8804d87071ff4851");
    assert_ne!(state_digest(TINY, 1), state_digest(TINY, 2));
}

#[test]
fn items_are_as_many_as_promised_distinct_and_never_empty() {
    let base = BaseState::new(Profile::Small, 1);
    let (mut accounts, mut slots) = (HashSet::new(), HashSet::new());
    let mut current = Address::ZERO;
    for item in base.items() {
        match item {
            StateItem::Account { address, .. } => {
                assert!(accounts.insert(address), "{address} comes twice");
                current = address;
            }
            StateItem::Slot { key, value } => {
                assert!(
                    slots.insert((current, key)),
                    "slot {key} of {current} comes twice"
                );
                assert!(!value.is_zero());
            }
        }
    }
    assert_eq!(
        (accounts.len() as u64, slots.len() as u64),
        (200_000, 500_000)
    );
    for sender in base.senders() {
        assert!(accounts.contains(&sender.address));
    }
    assert!(!accounts.contains(&base.fresh_account(0)));
}

#[test]
fn the_same_seed_gives_the_same_transactions() {
    let base = BaseState::new(TINY, 1);
    let stream = |mix, seed| {
        let mut planner = Planner::new(&base, mix, seed, Vec::new());
        digest(
            (0..200)
                .flat_map(|_| planner.plan().sign(&base))
                .collect::<Vec<u8>>(),
        )
    };
    let all = [Mix::Mainnet, Mix::ColdStorage, Mix::Whale, Mix::Transfers];
    // Changing a figure changes every payload of that mix.
    assert_eq!(
        all.map(|mix| stream(mix, 1)),
        [
            "178b55cc2f5100ca",
            "8639f9e9e97cd2da",
            "a9bbf80ab542d3ba",
            "c28b425d5cdcd0b7"
        ]
    );
    assert_ne!(stream(Mix::Mainnet, 1), stream(Mix::Mainnet, 2));
}

#[test]
fn numbers_taken_back_are_given_again() {
    let base = BaseState::new(TINY, 1);
    let mut planner = Planner::new(&base, Mix::Transfers, 1, vec![7; base.senders().len()]);
    let planned: Vec<_> = (0..500).map(|_| planner.plan()).collect();
    assert!(planned.iter().all(|planned| planned.nonce >= 7));
    planner.take_back(&planned[300..]);
    let mut next: Vec<u64> = vec![7; base.senders().len()];
    for kept in &planned[..300] {
        next[kept.sender] = kept.nonce + 1;
    }
    for _ in 0..500 {
        let planned = planner.plan();
        assert_eq!(planned.nonce, next[planned.sender]);
        next[planned.sender] += 1;
    }
}

#[test]
fn a_mainnet_block_of_ten_million_gas_changes_about_a_thousand_leaves() {
    let base = BaseState::new(Profile::Small, 1);
    let mut planner = Planner::new(&base, Mix::Mainnet, 1, Vec::new());
    let mut seen = SeenLeaves::default();
    let (mut transactions, mut changed) = (0, 0);
    const BLOCKS: u64 = 20;
    for _ in 0..BLOCKS {
        let (mut gas, mut leaves) = (0, Vec::new());
        while gas < 10_000_000 {
            let planned = planner.plan();
            gas += planned.gas;
            transactions += 1;
            let sender = base.senders()[planned.sender].address;
            leaves.extend(planned.action.leaves(&base, sender, planned.nonce));
        }
        let counts = seen.count(leaves.into_iter());
        changed += counts.changed_accounts + counts.changed_slots;
    }
    println!(
        "{} transactions, {} changed leaves",
        transactions / BLOCKS,
        changed / BLOCKS
    );
    assert!(
        (250..310).contains(&(transactions / BLOCKS)),
        "{}",
        transactions / BLOCKS
    );
    assert!(
        (900..1_100).contains(&(changed / BLOCKS)),
        "{}",
        changed / BLOCKS
    );
}

#[test]
fn cold_storage_visits_every_row_of_cells_before_any_twice() {
    let base = BaseState::new(Profile::Small, 1);
    let mut planner = Planner::new(&base, Mix::ColdStorage, 1, Vec::new());
    let layout = base.layout();
    let rows = layout.touchers * (layout.cells_per_toucher / 48);
    let visited: HashSet<String> = (0..rows)
        .map(|_| {
            format!("{:?}", planner.plan().action)
                .split_once(' ')
                .unwrap()
                .1
                .to_owned()
        })
        .collect();
    assert_eq!(visited.len() as u64, rows);
}

#[test]
fn exports_hold_the_whole_state_as_json() {
    let base = BaseState::new(TINY, 1);
    let mut genesis = Vec::new();
    write_genesis(&base, &mut genesis).unwrap();
    let genesis: alloy_genesis::Genesis = serde_json::from_slice(&genesis).unwrap();
    let root = B256::repeat_byte(9);
    let mut dump = Vec::new();
    write_state_dump(&base, root, &mut dump).unwrap();
    let mut lines = std::str::from_utf8(&dump).unwrap().lines();
    assert_eq!(lines.next().unwrap(), format!("{{\"root\":\"{root}\"}}"));

    let mut from_dump = 0;
    for line in lines {
        let mut value: serde_json::Map<_, _> = serde_json::from_str(line).unwrap();
        let address: Address = serde_json::from_value(value.remove("address").unwrap()).unwrap();
        let account: alloy_genesis::GenesisAccount = serde_json::from_value(value.into()).unwrap();
        assert_eq!(genesis.alloc[&address], account);
        from_dump += 1;
    }
    assert_eq!((from_dump, genesis.alloc.len()), (2_000, 2_000));
    let mut slots = 0;
    for index in 0..base.account_count() {
        let StateItem::Account {
            address,
            nonce,
            balance,
            code,
        } = base.account(index)
        else {
            panic!("account {index} is a slot");
        };
        let account = &genesis.alloc[&address];
        assert_eq!(
            (account.nonce, account.balance, &account.code),
            (Some(nonce), balance, &code)
        );
        for item in base.slots(index) {
            let StateItem::Slot { key, value } = item else {
                panic!("a slot is an account")
            };
            assert_eq!(account.storage.as_ref().unwrap()[&key], B256::from(value));
            slots += 1;
        }
    }
    assert_eq!(slots, 10_000);
}

#[test]
fn the_chain_reads_as_a_genesis_with_prague_and_its_contracts() {
    let mut chain = workload::genesis::chain_json();
    chain["alloc"] = serde_json::json!({});
    let genesis: alloy_genesis::Genesis = serde_json::from_value(chain).unwrap();
    assert_eq!(genesis.config.chain_id, workload::genesis::CHAIN_ID);
    assert_eq!(genesis.config.prague_time, Some(0));
    assert_eq!(genesis.config.osaka_time, None);
    assert_eq!(genesis.gas_limit, 1_000_000_000);
    assert_eq!(genesis.config.blob_schedule.len(), 3);
    assert!(genesis.config.deposit_contract_address.is_some());
    let base = BaseState::new(TINY, 1);
    for index in 0..4 {
        let StateItem::Account { nonce, code, .. } = base.account(index) else {
            panic!()
        };
        assert_eq!(nonce, 1);
        assert!(code.is_some_and(|code| code.len() > 50));
    }
}
