//! A small chain in a temporary datadir: funded keys, a contract that stores what it is told, and
//! short names for building and sending blocks.

#![expect(
    clippy::unwrap_used,
    reason = "a failure here fails the test that called"
)]

use alloy_consensus::{SignableTransaction, TxEip1559, crypto::secp256k1};
use alloy_eips::{eip2718::Encodable2718, eip2935, eip4788, eip7002, eip7251};
use alloy_genesis::{Genesis, GenesisAccount};
use alloy_primitives::{Address, B256, Bytes, TxKind, U256, address, bytes, keccak256};
use alloy_rpc_types_engine::{
    ExecutionData, ForkchoiceState, ForkchoiceUpdated, PayloadAttributes, PayloadStatus,
};
use node::{
    chainspec::ChainSpec,
    engine::{
        self, BuildError, BuildRequest, BuiltPayload, EngineConfig, EngineHandle, SenderRecovery,
        WaitFor,
    },
    primitives::{Block, TransactionSigned},
};
use state_db::{LoadItem, Loader, OpenOptions, StateDb, StoredBlock};
use state_root::{ChunkPolicy, ProofConfig, RangeConfig, Strategy};
use std::{num::NonZeroUsize, sync::Arc};
use tempfile::TempDir;

pub(crate) const CHAIN_ID: u64 = 1337;
pub(crate) const FEE_RECIPIENT: Address = address!("0x00000000000000000000000000000000000000fe");
/// Stores the second word of its input in the slot named by the first.
pub(crate) const STORE: Address = address!("0x0000000000000000000000000000000000005704");
const STORE_CODE: Bytes = bytes!("6020355f355500");

/// The fork at which a test runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fork {
    Prague,
    Osaka,
}

/// The key of the `n`th funded account.
pub(crate) fn key(n: u8) -> B256 {
    B256::repeat_byte(n + 1)
}

pub(crate) fn sender(n: u8) -> Address {
    let transaction = transfer(n, 0, Address::ZERO, 0);
    use alloy_consensus::transaction::SignerRecoverable;
    use alloy_eips::eip2718::Decodable2718;
    TransactionSigned::decode_2718_exact(&transaction)
        .unwrap()
        .recover_signer()
        .unwrap()
}

fn sign(n: u8, transaction: TxEip1559) -> Bytes {
    let signature = secp256k1::sign_message(key(n), transaction.signature_hash()).unwrap();
    TransactionSigned::from(transaction.into_signed(signature))
        .encoded_2718()
        .into()
}

fn call(nonce: u64, to: Address, gas_limit: u64) -> TxEip1559 {
    TxEip1559 {
        chain_id: CHAIN_ID,
        nonce,
        gas_limit,
        max_fee_per_gas: 100_000_000_000,
        max_priority_fee_per_gas: 1_000_000_000,
        to: TxKind::Call(to),
        ..Default::default()
    }
}

pub(crate) fn transfer(from: u8, nonce: u64, to: Address, value: u64) -> Bytes {
    sign(
        from,
        TxEip1559 {
            value: U256::from(value),
            ..call(nonce, to, 21_000)
        },
    )
}

pub(crate) fn store(from: u8, nonce: u64, slot: u64, value: u64) -> Bytes {
    let input = [B256::from(U256::from(slot)), B256::from(U256::from(value))].concat();
    sign(
        from,
        TxEip1559 {
            input: input.into(),
            ..call(nonce, STORE, 60_000)
        },
    )
}

pub(crate) fn address_of(seed: u64) -> Address {
    Address::from_word(keccak256(seed.to_be_bytes()))
}

pub(crate) fn genesis(fork: Fork) -> Genesis {
    let mut genesis: Genesis = serde_json::from_value(serde_json::json!({
        "config": {
            "chainId": CHAIN_ID, "homesteadBlock": 0, "eip150Block": 0, "eip155Block": 0,
            "eip158Block": 0, "byzantiumBlock": 0, "constantinopleBlock": 0, "petersburgBlock": 0,
            "istanbulBlock": 0, "berlinBlock": 0, "londonBlock": 0, "mergeNetsplitBlock": 0,
            "terminalTotalDifficulty": 0, "terminalTotalDifficultyPassed": true,
            "shanghaiTime": 0, "cancunTime": 0, "pragueTime": 0,
            "osakaTime": (fork == Fork::Osaka).then_some(0),
        },
        "nonce": "0x0", "timestamp": "0x0", "extraData": "0x", "gasLimit": "0x1c9c380",
        "difficulty": "0x0", "mixHash": B256::ZERO, "coinbase": Address::ZERO, "alloc": {},
    }))
    .unwrap();
    let contract = |code: &Bytes| GenesisAccount {
        nonce: Some(1),
        code: Some(code.clone()),
        ..Default::default()
    };
    genesis.alloc = [
        (
            eip4788::BEACON_ROOTS_ADDRESS,
            contract(&eip4788::BEACON_ROOTS_CODE),
        ),
        (
            eip2935::HISTORY_STORAGE_ADDRESS,
            contract(&eip2935::HISTORY_STORAGE_CODE),
        ),
        (
            eip7002::WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS,
            contract(&eip7002::WITHDRAWAL_REQUEST_PREDEPLOY_CODE),
        ),
        (
            eip7251::CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS,
            contract(&eip7251::CONSOLIDATION_REQUEST_PREDEPLOY_CODE),
        ),
        (STORE, contract(&STORE_CODE)),
    ]
    .into();
    for n in 0..8 {
        let balance = U256::from(10).pow(U256::from(20));
        genesis.alloc.insert(
            sender(n),
            GenesisAccount {
                balance,
                ..Default::default()
            },
        );
    }
    genesis
}

/// Roots by proofs and by ranges.
pub(crate) fn roots() -> [Strategy; 2] {
    let count = |n| NonZeroUsize::new(n).unwrap();
    let proofs = Strategy::Proofs(ProofConfig {
        policy: ChunkPolicy::Always,
        batch_keys: count(4),
        chunk_size: count(5),
        account_workers: count(2),
        storage_workers: count(2),
        kept_blocks: None,
        kept_bytes: 1 << 20,
    });
    let ranges = Strategy::Ranges(RangeConfig {
        grain: count(5),
        threads: count(2),
        kept_bytes: 1 << 20,
    });
    [proofs, ranges]
}

pub(crate) fn config() -> EngineConfig {
    EngineConfig {
        persistence_threshold: 2,
        memory_block_buffer_target: 0,
        persistence_backpressure_threshold: 16,
        state_cache_bytes: 4 << 20,
        root: roots()[0],
        check_state_root: true,
        sender_recovery: SenderRecovery::default(),
        injected_slowdown: 0.0,
        skip_invalid_transactions: false,
        gas_limit_target: 30_000_000,
    }
}

/// A chain on disk and an engine over it.
pub(crate) struct Net {
    pub(crate) dir: TempDir,
    pub(crate) spec: Arc<ChainSpec>,
    pub(crate) config: EngineConfig,
    pub(crate) engine: EngineHandle,
}

/// Opens a database that reserves little address space: MDBX takes memory 16 TiB above one database
/// for pages of it, which the default size reaches with the second one in a process.
pub(crate) fn open(dir: &TempDir) -> StateDb {
    let options = OpenOptions {
        max_size_bytes: 16 << 30,
        ..OpenOptions::default()
    };
    StateDb::open(dir.path(), &options).unwrap()
}

impl Net {
    pub(crate) fn new(fork: Fork) -> Self {
        Self::with(genesis(fork), config())
    }

    pub(crate) fn with(genesis: Genesis, config: EngineConfig) -> Self {
        Self::with_database(genesis, config).0
    }

    /// Also gives the database, which keeps it open over the engine's end.
    pub(crate) fn with_database(genesis: Genesis, config: EngineConfig) -> (Self, StateDb) {
        let dir = TempDir::new().unwrap();
        let spec = Arc::new(ChainSpec::new(genesis, None).unwrap());
        let db = open(&dir);
        load_genesis(&db, &spec);
        let engine = engine::spawn(db.clone(), spec.clone(), config.clone()).unwrap();
        let net = Self {
            dir,
            spec,
            config,
            engine,
        };
        (net, db)
    }

    /// Stops the engine, lets `work` use the database, and starts it again.
    pub(crate) async fn restart(self, work: impl FnOnce(&StateDb)) -> Self {
        let Self {
            dir,
            spec,
            config,
            engine,
        } = self;
        engine.shutdown().await.unwrap();
        drop(engine);
        let db = open(&dir);
        work(&db);
        let engine = engine::spawn(db, spec.clone(), config.clone()).unwrap();
        Self {
            dir,
            spec,
            config,
            engine,
        }
    }

    pub(crate) fn head(&self) -> B256 {
        self.engine.chain().head().hash
    }

    pub(crate) async fn try_build(
        &self,
        parent: B256,
        transactions: Vec<Bytes>,
    ) -> Result<BuiltPayload, BuildError> {
        self.engine
            .build_block(self.request(parent, transactions))
            .await
    }

    pub(crate) fn request(&self, parent: B256, transactions: Vec<Bytes>) -> BuildRequest {
        let parent_block = self.engine.chain().block_by_hash(parent).unwrap().unwrap();
        BuildRequest {
            parent_hash: parent,
            attributes: attributes(parent_block.block.header.timestamp + 12),
            transactions: Some(transactions),
            extra_data: None,
            gas_limit: None,
        }
    }

    pub(crate) async fn build(&self, parent: B256, transactions: Vec<Bytes>) -> Block {
        self.try_build(parent, transactions)
            .await
            .unwrap()
            .block
            .into_block()
    }

    pub(crate) async fn send(&self, block: &Block) -> PayloadStatus {
        self.send_data(data(block)).await
    }

    pub(crate) async fn send_data(&self, data: ExecutionData) -> PayloadStatus {
        self.engine
            .new_payload(data, WaitFor::default())
            .await
            .unwrap()
            .status
    }

    pub(crate) async fn choose(&self, head: B256) -> ForkchoiceUpdated {
        self.engine
            .fork_choice_updated(state(head), None)
            .await
            .unwrap()
    }

    /// Builds a block, sends it and makes it the head.
    pub(crate) async fn extend(&self, parent: B256, transactions: Vec<Bytes>) -> B256 {
        let block = self.build(parent, transactions).await;
        let hash = block.header.hash_slow();
        let status = self.send(&block).await;
        assert!(status.is_valid(), "{status:?}");
        assert_eq!(status.latest_valid_hash, Some(hash));
        assert!(self.choose(hash).await.is_valid());
        hash
    }

    /// Waits until the database holds block `number`.
    pub(crate) async fn persisted(&self, number: u64) {
        let mut persisted = self.engine.persisted();
        let reached = persisted.wait_for(|block| block.number >= number);
        let reached = tokio::time::timeout(testkit::PATIENCE, reached).await;
        let reached = reached.unwrap_or_else(|_| panic!("block {number} is not persisted"));
        reached.unwrap();
    }
}

pub(crate) fn load_genesis(db: &StateDb, spec: &ChainSpec) {
    let mut loader = Loader::new(db).unwrap();
    for (address, account) in &spec.genesis().alloc {
        let code = account.non_empty_code().cloned();
        let nonce = account.nonce.unwrap_or_default();
        let (address, balance) = (*address, account.balance);
        loader
            .push(LoadItem::Account {
                address,
                nonce,
                balance,
                code,
            })
            .unwrap();
        for (key, value) in account.storage_slots() {
            loader.push(LoadItem::Slot { key, value }).unwrap();
        }
    }
    loader.finish().unwrap();
    let block = StoredBlock {
        header: spec.genesis_header().clone(),
        hash: spec.genesis_hash(),
        withdrawals: Some(Default::default()),
        ..Default::default()
    };
    db.write_genesis(&block).unwrap();
}

pub(crate) fn attributes(timestamp: u64) -> PayloadAttributes {
    PayloadAttributes {
        timestamp,
        prev_randao: B256::repeat_byte(0x9a),
        suggested_fee_recipient: FEE_RECIPIENT,
        withdrawals: Some(Vec::new()),
        parent_beacon_block_root: Some(B256::repeat_byte(0xbe)),
        slot_number: None,
        target_gas_limit: None,
    }
}

pub(crate) fn data(block: &Block) -> ExecutionData {
    ExecutionData::from_block_unchecked(block.header.hash_slow(), block)
}

pub(crate) fn state(head: B256) -> ForkchoiceState {
    ForkchoiceState {
        head_block_hash: head,
        safe_block_hash: B256::ZERO,
        finalized_block_hash: B256::ZERO,
    }
}
