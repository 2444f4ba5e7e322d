//! The rules of one chain: forks, blob schedule and genesis header, read from a geth-format file.
//!
//! Invariant: [`ChainSpec::genesis_hash`] is the hash of [`ChainSpec::genesis_header`], every fork
//! with blobs has blob parameters, and forks follow each other in order.

mod schedule;

use alloy_consensus::{
    EMPTY_OMMER_ROOT_HASH, EMPTY_ROOT_HASH, Header, constants::EMPTY_WITHDRAWALS,
};
use alloy_eips::{
    BlobScheduleBlobParams,
    eip1559::{BaseFeeParams, INITIAL_BASE_FEE},
    eip7685::EMPTY_REQUESTS_HASH,
    eip7840::BlobParams,
};
use alloy_evm::eth::spec::EthExecutorSpec;
use alloy_genesis::Genesis;
use alloy_hardforks::{EthereumHardfork, EthereumHardforks, ForkCondition};
use alloy_primitives::{Address, B64, B256, U64, U256};
pub use schedule::Begin;
use serde::{Deserialize, de::IgnoredAny};

/// Gas limit of a genesis whose file says 0, as geth has it.
const DEFAULT_GAS_LIMIT: u64 = 4_712_388;

/// Why a chain file was refused.
#[derive(Debug, thiserror::Error)]
pub enum ChainSpecError {
    /// Not JSON, or not a genesis.
    #[error("parse the genesis file: {0}")]
    Json(#[from] serde_json::Error),
    /// A fork is scheduled, but one that it builds on is not.
    #[error("use the genesis file: {later} is set ({begin}), but {earlier} is not")]
    ForkMissing {
        /// The fork that is not scheduled.
        earlier: &'static str,
        /// The fork that needs it.
        later: &'static str,
        /// When that begins.
        begin: Begin,
    },
    /// A fork is scheduled before one that it builds on.
    #[error(
        "use the genesis file: {later} is set to {second}, before {earlier}, which is set to {first}"
    )]
    ForkOrder {
        /// The fork that must come first.
        earlier: &'static str,
        /// When that begins.
        first: Begin,
        /// The fork scheduled too early.
        later: &'static str,
        /// When that begins.
        second: Begin,
    },
    /// The two halves of Spurious Dragon are not scheduled together.
    #[error("use the genesis file: eip155Block and eip158Block must be the same block")]
    SplitFork,
    /// Blob parameters are missing or cannot be computed with.
    #[error("use the genesis file: blobSchedule.{key}: {problem}")]
    BlobSchedule {
        /// The fork's key in `blobSchedule`.
        key: String,
        /// What is wrong.
        problem: &'static str,
    },
    /// Block 0 must have number 0.
    #[error("use the genesis file: number is {0}, a chain begins with block 0")]
    Number(u64),
}

/// Fields of a genesis file that the parsed genesis lacks or leaves out silently.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Extension {
    /// Known to this engine only.
    state_root: Option<B256>,
    gas_used: Option<U64>,
    #[serde(rename = "config")]
    _config: IgnoredAny,
    #[serde(rename = "gasLimit")]
    _gas_limit: IgnoredAny,
    #[serde(rename = "difficulty")]
    _difficulty: IgnoredAny,
}

/// The rules of one chain.
#[derive(Debug, Clone)]
pub struct ChainSpec {
    genesis: Genesis,
    genesis_header: Header,
    genesis_hash: B256,
    state_root_override: Option<B256>,
    blob_schedule: BlobScheduleBlobParams,
    merged_at_genesis: bool,
}

impl ChainSpec {
    /// Reads a geth-format genesis file.
    ///
    /// A top-level `"stateRoot"`, unknown to other clients, replaces the root computed from
    /// `alloc`, so that a chain with a big base state needs no accounts in its file.
    pub fn from_json(json: &str) -> Result<Self, ChainSpecError> {
        let extension: Extension = serde_json::from_str(json)?;
        let genesis: Genesis = serde_json::from_str(json)?;
        let mut spec = Self::new(genesis, extension.state_root)?;
        if let Some(gas_used) = extension.gas_used {
            spec.genesis_header.gas_used = gas_used.to();
            spec.genesis_hash = spec.genesis_header.hash_slow();
        }
        Ok(spec)
    }

    /// Makes the rules from a parsed genesis; `state_root` replaces the root of `alloc`.
    pub fn new(genesis: Genesis, state_root: Option<B256>) -> Result<Self, ChainSpecError> {
        schedule::check(&genesis.config)?;
        if let Some(number) = genesis.number.filter(|number| *number != 0) {
            return Err(ChainSpecError::Number(number));
        }
        let root = state_root.unwrap_or_else(|| alloc_root(&genesis));
        let mut spec = Self {
            blob_schedule: blob_schedule(&genesis),
            merged_at_genesis: is_merged(&genesis),
            genesis,
            genesis_header: Header::default(),
            genesis_hash: B256::ZERO,
            state_root_override: state_root,
        };
        spec.genesis_header = spec.header_of_genesis(root);
        spec.genesis_hash = spec.genesis_header.hash_slow();
        Ok(spec)
    }

    /// The parsed genesis file.
    pub fn genesis(&self) -> &Genesis {
        &self.genesis
    }

    /// The header of block 0.
    pub fn genesis_header(&self) -> &Header {
        &self.genesis_header
    }

    /// The hash of block 0.
    pub fn genesis_hash(&self) -> B256 {
        self.genesis_hash
    }

    /// The state root given in the file instead of accounts, if any.
    pub fn state_root_override(&self) -> Option<B256> {
        self.state_root_override
    }

    /// EIP-155 chain id.
    pub fn chain_id(&self) -> u64 {
        self.genesis.config.chain_id
    }

    /// Whether the first block after the genesis is a proof-of-stake block already.
    pub fn merged_at_genesis(&self) -> bool {
        self.merged_at_genesis
    }

    /// Total difficulty at which proof of stake takes over (EIP-3675); `None` when it never does.
    pub fn terminal_total_difficulty(&self) -> Option<U256> {
        if self.merged_at_genesis {
            return Some(U256::ZERO);
        }
        self.genesis.config.terminal_total_difficulty
    }

    /// Whether the chain takes part in the irregular state change of block `daoForkBlock`
    /// (EIP-779) and the number of that block; `None` when the chain does not know of it.
    pub fn dao_fork(&self) -> Option<(bool, u64)> {
        let config = &self.genesis.config;
        let block = config.dao_fork_block?;
        Some((config.dao_fork_support, block))
    }

    /// Blob target, maximum and price of the block at `timestamp`; `None` before Cancun.
    ///
    /// EIP-7840 per fork, EIP-7892 for the blob-only changes between forks.
    pub fn blob_params_at(&self, timestamp: u64) -> Option<BlobParams> {
        if let Some(params) = self
            .blob_schedule
            .active_scheduled_params_at_timestamp(timestamp)
        {
            Some(*params)
        } else if self.is_osaka_active_at_timestamp(timestamp) {
            Some(self.blob_schedule.osaka)
        } else if self.is_prague_active_at_timestamp(timestamp) {
            Some(self.blob_schedule.prague)
        } else {
            self.is_cancun_active_at_timestamp(timestamp)
                .then_some(self.blob_schedule.cancun)
        }
    }

    /// The base fee of a London block on `parent` (EIP-1559).
    pub fn next_base_fee(&self, parent: &Header) -> u64 {
        if !self.is_london_active_at_block(parent.number) {
            return INITIAL_BASE_FEE;
        }
        parent
            .next_block_base_fee(BaseFeeParams::ethereum())
            .unwrap_or(INITIAL_BASE_FEE)
    }

    /// Block 0, whose optional fields appear with the fork that introduced them.
    fn header_of_genesis(&self, state_root: B256) -> Header {
        let genesis = &self.genesis;
        let at = genesis.timestamp;
        let cancun = self.is_cancun_active_at_timestamp(at);
        let london = self.is_london_active_at_block(0);
        let base_fee = genesis
            .base_fee_per_gas
            .and_then(|fee| u64::try_from(fee).ok());
        Header {
            parent_hash: genesis.parent_hash.unwrap_or_default(),
            ommers_hash: EMPTY_OMMER_ROOT_HASH,
            beneficiary: genesis.coinbase,
            state_root,
            transactions_root: EMPTY_ROOT_HASH,
            receipts_root: EMPTY_ROOT_HASH,
            difficulty: genesis.difficulty,
            number: genesis.number.unwrap_or_default(),
            gas_limit: match genesis.gas_limit {
                0 => DEFAULT_GAS_LIMIT,
                limit => limit,
            },
            timestamp: at,
            mix_hash: genesis.mix_hash,
            nonce: B64::from(genesis.nonce.to_be_bytes()),
            extra_data: genesis.extra_data.clone(),
            base_fee_per_gas: base_fee.or(london.then_some(INITIAL_BASE_FEE)),
            withdrawals_root: self
                .is_shanghai_active_at_timestamp(at)
                .then_some(EMPTY_WITHDRAWALS),
            blob_gas_used: cancun.then(|| genesis.blob_gas_used.unwrap_or_default()),
            excess_blob_gas: cancun.then(|| genesis.excess_blob_gas.unwrap_or_default()),
            parent_beacon_block_root: cancun.then_some(B256::ZERO),
            requests_hash: self
                .is_prague_active_at_timestamp(at)
                .then_some(EMPTY_REQUESTS_HASH),
            ..Default::default()
        }
    }
}

/// The state root of the accounts listed in the file.
fn alloc_root(genesis: &Genesis) -> B256 {
    alloy_trie::root::state_root_unhashed(
        genesis
            .alloc
            .iter()
            .map(|(address, account)| (*address, account.clone().into_trie_account())),
    )
}

/// Blob parameters of every fork; Osaka's are Prague's unless the file says otherwise (EIP-7892).
fn blob_schedule(genesis: &Genesis) -> BlobScheduleBlobParams {
    let mut schedule = genesis.config.blob_schedule_blob_params();
    if !genesis.config.blob_schedule.contains_key("osaka") {
        schedule.osaka = BlobParams {
            target_blob_count: schedule.prague.target_blob_count,
            max_blob_count: schedule.prague.max_blob_count,
            update_fraction: schedule.prague.update_fraction,
            ..schedule.osaka
        };
    }
    schedule
}

/// Whether block 1 is a proof-of-stake block: the terminal total difficulty is reached by block 0,
/// or block 0 has a fork that came after the merge.
fn is_merged(genesis: &Genesis) -> bool {
    let config = &genesis.config;
    let shanghai = config
        .shanghai_time
        .is_some_and(|time| time <= genesis.timestamp);
    let reached = match config.terminal_total_difficulty {
        Some(terminal) => genesis.difficulty >= terminal,
        None => config.terminal_total_difficulty_passed,
    };
    shanghai || reached
}

impl EthereumHardforks for ChainSpec {
    fn ethereum_fork_activation(&self, fork: EthereumHardfork) -> ForkCondition {
        let config = &self.genesis.config;
        let block = |number: Option<u64>| number.map_or(ForkCondition::Never, ForkCondition::Block);
        let time = |at: Option<u64>| at.map_or(ForkCondition::Never, ForkCondition::Timestamp);
        match fork {
            EthereumHardfork::Frontier => ForkCondition::Block(0),
            EthereumHardfork::Homestead => block(config.homestead_block),
            EthereumHardfork::Dao if config.dao_fork_support => block(config.dao_fork_block),
            EthereumHardfork::Tangerine => block(config.eip150_block),
            EthereumHardfork::SpuriousDragon => block(config.eip155_block),
            EthereumHardfork::Byzantium => block(config.byzantium_block),
            EthereumHardfork::Constantinople => block(config.constantinople_block),
            EthereumHardfork::Petersburg => block(config.petersburg_block),
            EthereumHardfork::Istanbul => block(config.istanbul_block),
            EthereumHardfork::MuirGlacier => block(config.muir_glacier_block),
            EthereumHardfork::Berlin => block(config.berlin_block),
            EthereumHardfork::London => block(config.london_block),
            EthereumHardfork::ArrowGlacier => block(config.arrow_glacier_block),
            EthereumHardfork::GrayGlacier => block(config.gray_glacier_block),
            // Where a chain merges later is decided block by block, see `engine::era`.
            EthereumHardfork::Paris if self.merged_at_genesis => ForkCondition::TTD {
                activation_block_number: 0,
                fork_block: Some(0),
                total_difficulty: U256::ZERO,
            },
            EthereumHardfork::Shanghai => time(config.shanghai_time),
            EthereumHardfork::Cancun => time(config.cancun_time),
            EthereumHardfork::Prague => time(config.prague_time),
            EthereumHardfork::Osaka => time(config.osaka_time),
            EthereumHardfork::Bpo1 => time(config.bpo1_time),
            EthereumHardfork::Bpo2 => time(config.bpo2_time),
            EthereumHardfork::Bpo3 => time(config.bpo3_time),
            EthereumHardfork::Bpo4 => time(config.bpo4_time),
            EthereumHardfork::Bpo5 => time(config.bpo5_time),
            EthereumHardfork::Amsterdam => time(config.amsterdam_time),
            _ => ForkCondition::Never,
        }
    }
}

impl EthExecutorSpec for ChainSpec {
    fn deposit_contract_address(&self) -> Option<Address> {
        self.genesis.config.deposit_contract_address
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// London from the start.
    const BLOCKS: &str = r#""homesteadBlock":0,"eip150Block":0,"eip155Block":0,"eip158Block":0,
        "byzantiumBlock":0,"constantinopleBlock":0,"petersburgBlock":0,"istanbulBlock":0,
        "berlinBlock":0,"londonBlock":0"#;

    fn spec(config: &str, rest: &str) -> Result<ChainSpec, ChainSpecError> {
        ChainSpec::from_json(&format!(
            r#"{{"config":{{"chainId":7,{BLOCKS},{config}}},"nonce":"0x0",
                "timestamp":"0x5","extraData":"0x","gasLimit":"0x1c9c380","difficulty":"0x0",
                "mixHash":"{}","coinbase":"{}","alloc":{{}}{rest}}}"#,
            B256::ZERO,
            Address::ZERO
        ))
    }

    const MERGED: &str = r#""terminalTotalDifficulty":0,"shanghaiTime":0"#;

    #[test]
    fn header_fields_appear_with_their_fork() {
        let shanghai = spec(MERGED, "").unwrap();
        assert_eq!(
            shanghai.genesis_header().withdrawals_root,
            Some(EMPTY_WITHDRAWALS)
        );
        assert_eq!(shanghai.genesis_header().blob_gas_used, None);
        assert_eq!(shanghai.genesis_header().state_root, EMPTY_ROOT_HASH);

        let prague = spec(&format!(r#"{MERGED},"cancunTime":0,"pragueTime":5"#), "").unwrap();
        assert_eq!(prague.genesis_header().excess_blob_gas, Some(0));
        assert_eq!(
            prague.genesis_header().requests_hash,
            Some(EMPTY_REQUESTS_HASH)
        );
        assert_eq!(prague.genesis_hash(), prague.genesis_header().hash_slow());

        let later = spec(&format!(r#"{MERGED},"cancunTime":0,"pragueTime":6"#), "").unwrap();
        assert_eq!(later.genesis_header().requests_hash, None);
    }

    #[test]
    fn a_given_state_root_replaces_the_accounts() {
        let root = B256::repeat_byte(4);
        let spec = spec(MERGED, &format!(r#","stateRoot":"{root}""#)).unwrap();
        assert_eq!(spec.genesis_header().state_root, root);
        assert_eq!(spec.state_root_override(), Some(root));
    }

    #[test]
    fn blob_parameters_follow_the_schedule() {
        let config = format!(
            r#"{MERGED},"cancunTime":10,"pragueTime":20,"osakaTime":30,"bpo1Time":40,
               "blobSchedule":{{"osaka":{{"target":48,"max":72,"baseFeeUpdateFraction":40061728}},
                                "bpo1":{{"target":1,"max":2,"baseFeeUpdateFraction":5}}}}"#
        );
        let spec = spec(&config, "").unwrap();
        let max_at = |time| {
            spec.blob_params_at(time)
                .map(|params| params.max_blob_count)
        };
        assert_eq!(
            [9, 10, 20, 30, 40].map(max_at),
            [None, Some(6), Some(9), Some(72), Some(2)]
        );
    }

    #[test]
    fn osaka_without_an_entry_keeps_the_blob_count_of_prague() {
        let config = format!(
            r#"{MERGED},"cancunTime":0,"pragueTime":0,"osakaTime":9,
               "blobSchedule":{{"prague":{{"target":4,"max":5,"baseFeeUpdateFraction":77}}}}"#
        );
        let spec = spec(&config, "").unwrap();
        let params = spec.blob_params_at(9).unwrap();
        assert_eq!((params.target_blob_count, params.max_blob_count), (4, 5));
        assert_eq!((params.update_fraction, params.max_blobs_per_tx), (77, 6));
    }

    #[test]
    fn unknown_keys_are_ignored_and_missing_ones_are_named() {
        let unknown = format!(r#"{MERGED},"quietBlock":3,"blobSchedule":{{}}"#);
        assert!(spec(&unknown, r#","anything":[1]"#).is_ok());
        let named = |json: &str| ChainSpec::from_json(json).unwrap_err().to_string();
        for (json, field) in [
            (r#"{"gasLimit":"0x1","difficulty":"0x0"}"#, "config"),
            (r#"{"config":{},"difficulty":"0x0"}"#, "gasLimit"),
            (r#"{"config":{},"gasLimit":"0x1"}"#, "difficulty"),
        ] {
            let problem = named(json);
            assert!(problem.contains(field), "{problem}");
        }
        let numbered = spec(MERGED, r#","number":"0x5""#);
        assert!(matches!(numbered, Err(ChainSpecError::Number(5))));
    }

    #[test]
    fn a_chain_is_merged_at_genesis_when_nothing_is_left_to_mine() {
        for (config, merged, terminal) in [
            (r#""terminalTotalDifficulty":0"#, true, Some(0)),
            (r#""terminalTotalDifficulty":1"#, false, Some(1)),
            (r#""terminalTotalDifficultyPassed":true"#, true, Some(0)),
            (
                r#""terminalTotalDifficulty":9,"terminalTotalDifficultyPassed":true"#,
                false,
                Some(9),
            ),
            (
                r#""terminalTotalDifficulty":9,"shanghaiTime":5"#,
                true,
                Some(0),
            ),
            (
                r#""terminalTotalDifficulty":9,"shanghaiTime":6"#,
                false,
                Some(9),
            ),
            (r#""ethash":{}"#, false, None),
        ] {
            let spec = spec(config, "").unwrap();
            assert_eq!(spec.merged_at_genesis(), merged, "{config}");
            let expected = terminal.map(U256::from);
            assert_eq!(spec.terminal_total_difficulty(), expected, "{config}");
        }
    }

    #[test]
    fn both_sides_of_the_dao_fork_know_its_block() {
        let dao = |config: &str| spec(config, "").unwrap().dao_fork();
        assert_eq!(
            dao(r#""daoForkBlock":0,"daoForkSupport":true"#),
            Some((true, 0))
        );
        assert_eq!(dao(r#""daoForkBlock":0"#), Some((false, 0)));
        assert_eq!(dao(r#""daoForkSupport":true"#), None);
    }

    #[test]
    fn gas_used_and_base_fee_of_the_file_are_in_the_header() {
        let spec = spec(MERGED, r#","gasUsed":"0x7","baseFeePerGas":"0x9""#).unwrap();
        assert_eq!(spec.genesis_header().gas_used, 7);
        assert_eq!(spec.genesis_header().base_fee_per_gas, Some(9));
        assert_eq!(spec.genesis_hash(), spec.genesis_header().hash_slow());
    }
}
