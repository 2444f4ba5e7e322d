//! Chains to agree on: a genesis, the forks it schedules, and the Engine API versions they need.

use crate::{
    accounts::{Account, CHAIN_ID},
    dice::Dice,
    precompiles, program,
};
use alloy_eips::{eip2935, eip4788, eip7002, eip7251};
use alloy_primitives::{Address, B256, U256, address, keccak256};
use serde_json::{Map, Value, json};

/// The deposit contract of these chains.
pub(crate) const DEPOSITS: Address = address!("00000000000000000000000000000000000de905");
/// First word of a deposit's log (EIP-6110): where the first of its five fields lies.
const DEPOSIT_FIRST_OFFSET: usize = 160;
/// Calls a precompile and stores what it answered.
pub(crate) const RELAY: Address = address!("000000000000000000000000000000000000e1a1");
/// Accounts that send transactions.
const SENDERS: usize = 12;
/// Accounts that delegate to code (EIP-7702); the first half starts without any state.
const AUTHORITIES: usize = 8;
/// Contracts of random code in the genesis.
const CONTRACTS: usize = 20;
/// Time of block 0, in seconds.
pub(crate) const GENESIS_TIME_S: u64 = 1_700_000_000;
/// Usual time between blocks, in seconds.
pub(crate) const SLOT_S: u64 = 12;
/// Gas limit of every block.
pub(crate) const GAS_LIMIT: u64 = 60_000_000;

/// Rules that change at some block, oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fork {
    Paris,
    Shanghai,
    Cancun,
    Prague,
    Osaka,
    Bpo1,
    Bpo2,
}

impl Fork {
    pub(crate) const ALL: [Self; 7] = [
        Self::Paris,
        Self::Shanghai,
        Self::Cancun,
        Self::Prague,
        Self::Osaka,
        Self::Bpo1,
        Self::Bpo2,
    ];

    const fn time_key(self) -> &'static str {
        match self {
            Self::Paris => "",
            Self::Shanghai => "shanghaiTime",
            Self::Cancun => "cancunTime",
            Self::Prague => "pragueTime",
            Self::Osaka => "osakaTime",
            Self::Bpo1 => "bpo1Time",
            Self::Bpo2 => "bpo2Time",
        }
    }

    /// The most blobs of a block, as these chains schedule them.
    pub(crate) const fn max_blobs(self) -> usize {
        match self {
            Self::Paris | Self::Shanghai => 0,
            Self::Cancun => 6,
            Self::Prague | Self::Osaka => 9,
            Self::Bpo1 => 15,
            Self::Bpo2 => 4,
        }
    }

    pub(crate) fn new_payload(self) -> &'static str {
        match self {
            Self::Paris => "engine_newPayloadV1",
            Self::Shanghai => "engine_newPayloadV2",
            Self::Cancun => "engine_newPayloadV3",
            _ => "engine_newPayloadV4",
        }
    }

    pub(crate) fn get_payload(self) -> &'static str {
        match self {
            Self::Paris => "engine_getPayloadV1",
            Self::Shanghai => "engine_getPayloadV2",
            Self::Cancun => "engine_getPayloadV3",
            Self::Prague => "engine_getPayloadV4",
            _ => "engine_getPayloadV5",
        }
    }

    pub(crate) fn forkchoice_updated(self) -> &'static str {
        match self {
            Self::Paris => "engine_forkchoiceUpdatedV1",
            Self::Shanghai => "engine_forkchoiceUpdatedV2",
            _ => "engine_forkchoiceUpdatedV3",
        }
    }
}

/// A chain before its first block.
#[derive(Debug, Clone)]
pub(crate) struct Chain {
    /// When each later fork begins, in seconds.
    schedule: Vec<(Fork, u64)>,
    pub(crate) genesis: Value,
    pub(crate) senders: Vec<Account>,
    pub(crate) authorities: Vec<Account>,
    /// Addresses worth calling.
    pub(crate) known: Vec<Address>,
}

impl Chain {
    /// A chain that begins with `first` and then changes rules every `blocks_per_fork` blocks.
    pub(crate) fn new(seed: u64, first: Fork, blocks_per_fork: u64) -> Self {
        let later = Fork::ALL.into_iter().filter(|fork| *fork > first);
        let schedule = (1..).zip(later).map(|(index, fork)| {
            let time_s = GENESIS_TIME_S + index * blocks_per_fork * SLOT_S;
            (fork, time_s)
        });
        let senders = accounts(seed, "sender", SENDERS);
        let mut chain = Self {
            schedule: schedule.collect(),
            genesis: Value::Null,
            known: precompiles::addresses(),
            authorities: accounts(seed, "authority", AUTHORITIES),
            senders,
        };
        chain.genesis = chain.write_genesis(&mut Dice::new(seed));
        chain
    }

    pub(crate) fn fork_at(&self, time_s: u64) -> Fork {
        let begun = self.schedule.iter().rev().find(|(_, at)| *at <= time_s);
        match (begun, self.schedule.first()) {
            (Some((fork, _)), _) => *fork,
            (None, Some((next, _))) => Fork::ALL[*next as usize - 1],
            (None, None) => Fork::Bpo2,
        }
    }

    fn write_genesis(&mut self, dice: &mut Dice) -> Value {
        json!({
            "config": self.config(),
            "nonce": "0x0",
            "timestamp": format!("{GENESIS_TIME_S:#x}"),
            "extraData": "0x",
            "gasLimit": format!("{GAS_LIMIT:#x}"),
            "difficulty": "0x0",
            "mixHash": crate::ZERO,
            "coinbase": Address::ZERO,
            "alloc": self.alloc(dice),
        })
    }

    fn config(&self) -> Value {
        let mut config = Map::new();
        for block in [
            "homestead",
            "eip150",
            "eip155",
            "eip158",
            "byzantium",
            "constantinople",
            "petersburg",
            "istanbul",
            "berlin",
            "london",
        ] {
            config.insert(format!("{block}Block"), json!(0));
        }
        config.insert("chainId".into(), json!(CHAIN_ID));
        config.insert("mergeNetsplitBlock".into(), json!(0));
        config.insert("terminalTotalDifficulty".into(), json!(0));
        config.insert("depositContractAddress".into(), json!(DEPOSITS));
        for fork in &Fork::ALL[1..] {
            let scheduled = self.schedule.iter().find(|(later, _)| later == fork);
            let time_s = scheduled.map_or(0, |(_, time_s)| *time_s);
            config.insert(fork.time_key().into(), json!(time_s));
        }
        let blobs = |fork: Fork, target: u64, fraction: u64| json!({"target": target, "max": fork.max_blobs(), "baseFeeUpdateFraction": fraction});
        config.insert(
            "blobSchedule".into(),
            json!({
                "cancun": blobs(Fork::Cancun, 3, 3_338_477),
                "prague": blobs(Fork::Prague, 6, 5_007_716),
                "osaka": blobs(Fork::Osaka, 6, 5_007_716),
                "bpo1": blobs(Fork::Bpo1, 10, 8_346_193),
                // Fewer than before: the price must follow downwards too.
                "bpo2": blobs(Fork::Bpo2, 2, 1_000_000),
            }),
        );
        config.into()
    }

    /// The accounts of block 0. What is worth calling is noted on the way.
    fn alloc(&mut self, dice: &mut Dice) -> Value {
        let mut alloc = Map::new();
        let rich = (1_u128 << 90).to_string();
        for account in &self.senders {
            alloc.insert(account.address.to_string(), json!({"balance": rich}));
        }
        for account in &self.authorities[AUTHORITIES / 2..] {
            alloc.insert(account.address.to_string(), json!({"balance": rich}));
        }
        for (address, code) in system_contracts() {
            let account = json!({"balance": "0x0", "nonce": "0x1", "code": code});
            alloc.insert(address.to_string(), account);
            self.known.push(address);
        }
        self.occupy(&mut alloc);
        let contracts: Vec<Address> = (0..CONTRACTS).map(|_| dice.address()).collect();
        self.known.extend(&contracts);
        self.known
            .extend(self.senders.iter().map(|account| account.address));
        self.known
            .extend(self.authorities.iter().map(|account| account.address));
        for address in contracts {
            let length = dice.between(1, 12);
            let code = program::program(dice, &self.known, length);
            let slots = (0..dice.below(12)).map(|_| {
                let key = B256::from(U256::from(dice.below(10)));
                let value = B256::from(dice.word() | U256::ONE);
                (key.to_string(), json!(value))
            });
            let storage: Map<String, Value> = slots.collect();
            let balance = U256::from(dice.below(1_000)).to_string();
            let account =
                json!({"balance": balance, "nonce": "0x1", "code": code, "storage": storage});
            alloc.insert(address.to_string(), account);
        }
        alloc.into()
    }

    /// Puts accounts where the first senders' contracts would go: creation must fail where there is
    /// code or a nonce, and succeed where there is only a balance.
    fn occupy(&mut self, alloc: &mut Map<String, Value>) {
        let accounts = [
            json!({"balance": "0x1", "code": "0x00"}),
            json!({"balance": "0x0", "nonce": "0x1"}),
            json!({"balance": "0x7"}),
        ];
        for sender in &self.senders {
            for nonce in [3, 5, 8, 13, 21] {
                let address = sender.address.create(nonce);
                let account = &accounts[nonce as usize % accounts.len()];
                alloc.insert(address.to_string(), account.clone());
            }
        }
    }
}

fn accounts(seed: u64, role: &str, count: usize) -> Vec<Account> {
    (0..count)
        .map(|index| Account::new(seed, role, index))
        .collect()
}

fn system_contracts() -> Vec<(Address, String)> {
    let event = keccak256("DepositEvent(bytes,bytes,bytes,bytes,bytes)");
    vec![
        (
            eip4788::BEACON_ROOTS_ADDRESS,
            eip4788::BEACON_ROOTS_CODE.to_string(),
        ),
        (
            eip2935::HISTORY_STORAGE_ADDRESS,
            eip2935::HISTORY_STORAGE_CODE.to_string(),
        ),
        (
            eip7002::WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS,
            eip7002::WITHDRAWAL_REQUEST_PREDEPLOY_CODE.to_string(),
        ),
        (
            eip7251::CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS,
            eip7251::CONSOLIDATION_REQUEST_PREDEPLOY_CODE.to_string(),
        ),
        (RELAY, program::relay().to_string()),
        (
            DEPOSITS,
            program::logger(event.into(), DEPOSIT_FIRST_OFFSET).to_string(),
        ),
    ]
}
