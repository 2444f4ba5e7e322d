//! The planned transactions run on the base state in a real EVM: they succeed, use the gas that is
//! expected of them and change the slots that are counted.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use alloy_primitives::{Address, TxKind, U256, map::HashMap};
use revm::{
    Context, ExecuteCommitEvm, MainBuilder, MainContext,
    context::{TxEnv, result::ExecutionResult},
    database::{CacheDB, EmptyDB},
    primitives::hardfork::SpecId,
    state::{AccountInfo, Bytecode},
};
use workload::{
    BaseState, Mix, Profile, StateItem,
    action::Action,
    contracts::{Pair, Token},
    genesis::CHAIN_ID,
    mix::Planner,
};

const PROFILE: Profile = Profile::Large {
    accounts: 4_000,
    slots: 20_000,
};

struct Chain {
    base: BaseState,
    db: CacheDB<EmptyDB>,
    nonces: HashMap<Address, u64>,
}

impl Chain {
    fn new() -> Self {
        let base = BaseState::new(PROFILE, 5);
        let mut db = CacheDB::new(EmptyDB::new());
        let mut current = Address::ZERO;
        for item in base.items() {
            match item {
                StateItem::Account {
                    address,
                    nonce,
                    balance,
                    code,
                } => {
                    current = address;
                    let code = Bytecode::new_raw(code.unwrap_or_default());
                    let info = AccountInfo::new(balance, nonce, code.hash_slow(), code);
                    db.insert_account_info(address, info);
                }
                StateItem::Slot { key, value } => {
                    db.insert_account_storage(current, key.into(), value)
                        .unwrap();
                }
            }
        }
        Self {
            base,
            db,
            nonces: HashMap::default(),
        }
    }

    /// Runs an action as sender `sender`; returns the gas it used.
    fn run(&mut self, sender: usize, action: &Action) -> u64 {
        let call = action.call(&self.base);
        let caller = self.base.senders()[sender].address;
        let nonce = self.nonces.entry(caller).or_default();
        let transaction = TxEnv::builder()
            .caller(caller)
            .nonce(*nonce)
            .kind(call.to)
            .value(call.value)
            .data(call.input)
            .gas_limit(call.gas_limit)
            .gas_price(1_000_000_000)
            .chain_id(Some(CHAIN_ID))
            .build()
            .unwrap();
        *nonce += 1;
        let mut evm = Context::mainnet()
            .with_db(&mut self.db)
            .modify_cfg_chained(|cfg| {
                cfg.chain_id = CHAIN_ID;
                cfg.set_spec_and_mainnet_gas_params(SpecId::PRAGUE);
            })
            .modify_block_chained(|block| block.number = U256::from(9))
            .build_mainnet();
        let result = evm.transact_commit(transaction).unwrap();
        assert!(
            matches!(result, ExecutionResult::Success { .. }),
            "{action:?}: {result:?}"
        );
        result.tx_gas_used()
    }

    fn slot(&self, address: Address, key: alloy_primitives::B256) -> U256 {
        use revm::DatabaseRef;
        self.db.storage_ref(address, key.into()).unwrap()
    }

    /// Asserts that `action` uses the gas that is expected of it, to within a hundredth.
    fn check_gas(&mut self, sender: usize, action: &Action) {
        let expected = action.gas(&self.base);
        let used = self.run(sender, action);
        assert!(
            used.abs_diff(expected) * 100 <= used,
            "{action:?}: {used} used, {expected} expected"
        );
    }
}

fn actions(base: &BaseState) -> Vec<Action> {
    let holder = base.eoa(base.holder(1, 3));
    let fresh = base.fresh_account(0);
    vec![
        Action::Transfer { to: base.eoa(1) },
        Action::Transfer { to: fresh },
        Action::TokenTransfer {
            token: 1,
            to: holder,
            new_holder: false,
        },
        Action::TokenTransfer {
            token: 1,
            to: fresh,
            new_holder: true,
        },
        Action::Swap {
            pair: 2,
            forward: true,
            amount: 123_456_789_000,
        },
        Action::Swap {
            pair: 2,
            forward: false,
            amount: 123_456_789_000,
        },
        Action::Create,
        Action::Poke {
            counter: 4,
            first: true,
        },
        Action::Write {
            toucher: 3,
            first: 5,
            count: 1,
        },
        Action::Write {
            toucher: 3,
            first: 5,
            count: 40,
        },
        Action::Read {
            toucher: 3,
            first: 5,
            count: 1,
        },
        Action::Read {
            toucher: 3,
            first: 5,
            count: 40,
        },
        Action::Claim { ids: vec![7] },
        Action::Claim {
            ids: (0..32).map(|i| i * 100).collect(),
        },
    ]
}

#[test]
fn every_action_succeeds_and_uses_the_gas_expected() {
    let mut chain = Chain::new();
    for action in actions(&chain.base.clone()) {
        chain.check_gas(0, &action);
    }
    // A call by another sender in between: the slot of the last caller changes each time.
    chain.check_gas(
        1,
        &Action::Poke {
            counter: 4,
            first: true,
        },
    );
    chain.check_gas(
        0,
        &Action::Poke {
            counter: 4,
            first: false,
        },
    );
}

#[test]
#[ignore = "prints the figures of action::measured after the contracts changed"]
fn print_gas() {
    let mut chain = Chain::new();
    for action in actions(&chain.base.clone()) {
        let expected = action.gas(&chain.base);
        let used = chain.run(0, &action);
        println!(
            "{used:>8} used, {:>7} more than expected: {action:?}",
            used as i64 - expected as i64
        );
    }
}

#[test]
fn tokens_move_and_pairs_trade_on_the_slots_of_the_base_state() {
    let mut chain = Chain::new();
    let base = chain.base.clone();
    let sender = base.senders()[0].address;
    let (token, holder) = (base.token(0), base.eoa(base.holder(0, 0)));
    let balance = |chain: &Chain, token, who| chain.slot(token, Token::balance_slot(who));

    let before = (
        balance(&chain, token, sender),
        balance(&chain, token, holder),
    );
    chain.run(
        0,
        &Action::TokenTransfer {
            token: 0,
            to: holder,
            new_holder: false,
        },
    );
    let moved = U256::from(1_000);
    assert_eq!(balance(&chain, token, sender), before.0 - moved);
    assert_eq!(balance(&chain, token, holder), before.1 + moved);

    let other = base.token(1);
    let before = (
        balance(&chain, token, sender),
        balance(&chain, other, sender),
    );
    chain.run(
        0,
        &Action::Swap {
            pair: 0,
            forward: true,
            amount: 1_000_000,
        },
    );
    assert_eq!(
        balance(&chain, token, sender),
        before.0 - U256::from(1_000_000)
    );
    // 0.3 % fee on deep, equal reserves: 996 999 of the other token.
    assert_eq!(
        balance(&chain, other, sender),
        before.1 + U256::from(996_999)
    );
    let reserves = chain.slot(base.pair(0), Pair::reserves_slot());
    let held = balance(&chain, token, base.pair(0));
    assert_eq!(reserves & U256::from(u128::MAX), held);
}

#[test]
fn planned_mixes_succeed_and_their_gas_adds_up() {
    for mix in [Mix::Mainnet, Mix::ColdStorage, Mix::Whale, Mix::Transfers] {
        let mut chain = Chain::new();
        let base = chain.base.clone();
        let mut planner = Planner::new(&base, mix, 11, Vec::new());
        let (mut used, mut expected) = (0, 0);
        for _ in 0..600 {
            let planned = planner.plan();
            let nonce = chain.nonces.get(&base.senders()[planned.sender].address);
            assert_eq!(planned.nonce, nonce.copied().unwrap_or_default());
            expected += planned.gas;
            used += chain.run(planned.sender, &planned.action);
        }
        assert!(
            used.abs_diff(expected) * 200 <= used,
            "{mix}: {used} used, {expected} expected"
        );
    }
}

#[test]
fn creations_land_where_they_are_counted() {
    let mut chain = Chain::new();
    let base = chain.base.clone();
    chain.run(3, &Action::Create);
    let created = base.senders()[3].address.create(0);
    let count = chain.slot(created, workload::contracts::Counter::count_slot());
    assert_eq!(count, U256::ONE);
    assert!(matches!(Action::Create.call(&base).to, TxKind::Create));
}
