//! Proof of work or proof of stake: which of the two made a block, and what the first demands.
//!
//! Invariant: a block is one of proof of stake exactly when the total difficulty up to its parent
//! reached the chain's terminal one (EIP-3675). Seals are not checked; difficulties are.

use super::{
    EngineError,
    reader::ChainReader,
    tree::Tip,
    validate::{Invalid, check_dao_extra_data, check_extra_data, check_fork_fields, check_gas},
};
use crate::chainspec::ChainSpec;
use alloy_consensus::{EMPTY_OMMER_ROOT_HASH, Header};
use alloy_evm::eth::spec::EthExecutorSpec;
use alloy_hardforks::{EthereumHardfork, EthereumHardforks, ForkCondition};
use alloy_primitives::{Address, B256, U256, map::B256Map};

/// Most ommers of a block (yellow paper, equation 167).
const MAX_OMMERS: usize = 2;
/// How many generations above a block the parent of an ommer can be.
const OMMER_GENERATIONS: usize = 7;
/// Difficulty never falls below this.
const MINIMUM_DIFFICULTY: U256 = U256::from_limbs([131_072, 0, 0, 0]);
/// Blocks between two doublings of the difficulty bomb.
const BOMB_PERIOD: u64 = 100_000;

/// Who made a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Era {
    ProofOfWork,
    ProofOfStake,
}

impl Era {
    /// The era of a block that was checked: only proof of stake has no difficulty.
    pub(super) fn of(chain: &ChainSpec, header: &Header) -> Self {
        if chain.merged_at_genesis() || header.difficulty.is_zero() {
            Self::ProofOfStake
        } else {
            Self::ProofOfWork
        }
    }
}

/// The chain's rules for one block, whose era is known.
#[derive(Debug, Clone, Copy)]
pub(super) struct BlockRules<'a> {
    pub(super) chain: &'a ChainSpec,
    pub(super) era: Era,
}

impl EthereumHardforks for BlockRules<'_> {
    fn ethereum_fork_activation(&self, fork: EthereumHardfork) -> ForkCondition {
        match (fork, self.era) {
            (EthereumHardfork::Paris, Era::ProofOfStake) => ForkCondition::Block(0),
            (EthereumHardfork::Paris, Era::ProofOfWork) => ForkCondition::Never,
            // Applied before the transactions, see `execute`.
            (EthereumHardfork::Dao, _) => ForkCondition::Never,
            _ => self.chain.ethereum_fork_activation(fork),
        }
    }
}

impl EthExecutorSpec for BlockRules<'_> {
    fn deposit_contract_address(&self) -> Option<Address> {
        self.chain.deposit_contract_address()
    }
}

/// Total difficulties of the proof-of-work blocks that were asked for.
#[derive(Default)]
pub(super) struct TotalDifficulties {
    known: B256Map<U256>,
}

impl TotalDifficulties {
    /// Entries after which those of old blocks are dropped.
    const CAPACITY: usize = 1 << 16;

    /// The era of a block on `parent`.
    pub(super) fn era_after(
        &mut self,
        reader: &ChainReader,
        parent: &Tip,
    ) -> Result<Era, EngineError> {
        let chain = reader.chain_spec();
        let Some(terminal) = chain.terminal_total_difficulty() else {
            return Ok(Era::ProofOfWork);
        };
        let merged = chain.merged_at_genesis()
            || (parent.header.number > 0 && parent.header.difficulty.is_zero());
        if merged || self.up_to(reader, parent)? >= terminal {
            return Ok(Era::ProofOfStake);
        }
        Ok(Era::ProofOfWork)
    }

    /// Sum of the difficulties from the genesis to `tip`.
    pub(super) fn up_to(&mut self, reader: &ChainReader, tip: &Tip) -> Result<U256, EngineError> {
        let mut unknown = Vec::new();
        let (mut hash, mut header) = (tip.hash, tip.header.clone());
        let mut sum = loop {
            if let Some(sum) = self.known.get(&hash) {
                break *sum;
            }
            unknown.push((hash, header.difficulty));
            if header.number == 0 {
                break U256::ZERO;
            }
            let parent = header.parent_hash;
            header = reader
                .header_by_hash(parent)?
                .ok_or(EngineError::StateGone(parent))?;
            hash = parent;
        };
        if self.known.len() > Self::CAPACITY {
            self.known.clear();
        }
        for (hash, difficulty) in unknown.into_iter().rev() {
            sum = sum.saturating_add(difficulty);
            self.known.insert(hash, sum);
        }
        Ok(sum)
    }
}

/// The difficulty of a proof-of-work block at `timestamp` on `parent`.
///
/// Homestead: EIP-2. Byzantium: EIP-100. Bomb delays: EIP-649, 1234, 2384, 3554, 4345, 5133.
fn difficulty_after(chain: &ChainSpec, parent: &Header, timestamp: u64) -> U256 {
    let number = parent.number + 1;
    let elapsed = timestamp.saturating_sub(parent.timestamp);
    let step = parent.difficulty / U256::from(2048);
    // How many steps up, and how many down.
    let (up, down) = if chain.is_byzantium_active_at_block(number) {
        let has_ommers = parent.ommers_hash != EMPTY_OMMER_ROOT_HASH;
        steps(if has_ommers { 2 } else { 1 }, elapsed / 9)
    } else if chain.is_homestead_active_at_block(number) {
        steps(1, elapsed / 10)
    } else if elapsed < 13 {
        (1, 0)
    } else {
        (0, 1)
    };
    let difficulty = parent.difficulty.saturating_add(step * U256::from(up));
    let difficulty = difficulty.saturating_sub(step * U256::from(down));
    let difficulty = difficulty.max(MINIMUM_DIFFICULTY);
    difficulty.saturating_add(bomb(number.saturating_sub(bomb_delay(chain, number))))
}

/// `base - slow`, at least -99, as steps up and steps down.
fn steps(base: u64, slow: u64) -> (u64, u64) {
    (base.saturating_sub(slow), slow.saturating_sub(base).min(99))
}

/// How many blocks late the bomb is at block `number`.
fn bomb_delay(chain: &ChainSpec, number: u64) -> u64 {
    let delays = [
        (EthereumHardfork::GrayGlacier, 11_400_000),
        (EthereumHardfork::ArrowGlacier, 10_700_000),
        (EthereumHardfork::London, 9_700_000),
        (EthereumHardfork::MuirGlacier, 9_000_000),
        (EthereumHardfork::Constantinople, 5_000_000),
        (EthereumHardfork::Byzantium, 3_000_000),
    ];
    delays
        .into_iter()
        .find(|(fork, _)| chain.is_ethereum_fork_active_at_block(*fork, number))
        .map_or(0, |(_, delay)| delay)
}

/// What the bomb adds at block `number`, counted without the delay.
fn bomb(number: u64) -> U256 {
    match (number / BOMB_PERIOD).checked_sub(2) {
        Some(exponent) if exponent < 256 => U256::from(1) << exponent,
        Some(_) => U256::MAX,
        None => U256::ZERO,
    }
}

/// What proof of work and proof of stake each demand of a header.
pub(super) fn check_era(
    rules: BlockRules<'_>,
    header: &Header,
    parent: &Header,
) -> Result<(), Invalid> {
    let chain = rules.chain;
    match rules.era {
        Era::ProofOfStake => {
            Invalid::unless_equal("difficulty", header.difficulty, U256::ZERO)?;
            Invalid::unless_equal("nonce", header.nonce, Default::default())?;
            Invalid::unless_equal("ommers hash", header.ommers_hash, EMPTY_OMMER_ROOT_HASH)
        }
        Era::ProofOfWork => {
            if header.difficulty.is_zero() {
                return Err(Invalid::block(
                    "difficulty is 0, but the terminal total difficulty is not reached by the parent",
                ));
            }
            if chain.is_shanghai_active_at_timestamp(header.timestamp) {
                return Err(Invalid::block(format!(
                    "a proof-of-work block cannot follow Shanghai (timestamp {})",
                    header.timestamp
                )));
            }
            let expected = difficulty_after(chain, parent, header.timestamp);
            Invalid::unless_equal("difficulty", header.difficulty, expected)?;
            check_dao_extra_data(chain, header)
        }
    }
}

/// A block above the one being checked.
struct Ancestor {
    hash: B256,
    header: Header,
    ommers: Vec<B256>,
}

/// Checks the ommers of a proof-of-work block on `parent` (yellow paper, section 11.1).
pub(super) fn check_ommers(
    reader: &ChainReader,
    ommers: &[Header],
    parent: &Tip,
) -> Result<Result<(), Invalid>, EngineError> {
    if ommers.is_empty() {
        return Ok(Ok(()));
    }
    let ancestors = ancestors(reader, parent)?;
    Ok(check_ommers_below(reader.chain_spec(), ommers, &ancestors))
}

/// The ancestors whose child an ommer can be, nearest first.
fn ancestors(reader: &ChainReader, parent: &Tip) -> Result<Vec<Ancestor>, EngineError> {
    let mut ancestors = Vec::with_capacity(OMMER_GENERATIONS);
    let mut hash = parent.hash;
    while ancestors.len() < OMMER_GENERATIONS {
        let Some(block) = reader.block_by_hash(hash)? else {
            break;
        };
        let header = block.block.header.clone();
        let ommers = block.block.ommers.iter().map(Header::hash_slow).collect();
        let (number, parent_hash) = (header.number, header.parent_hash);
        ancestors.push(Ancestor {
            hash,
            header,
            ommers,
        });
        if number == 0 {
            break;
        }
        hash = parent_hash;
    }
    Ok(ancestors)
}

fn check_ommers_below(
    chain: &ChainSpec,
    ommers: &[Header],
    ancestors: &[Ancestor],
) -> Result<(), Invalid> {
    if ommers.len() > MAX_OMMERS {
        return Err(Invalid::block(format!(
            "{} ommers, at most {MAX_OMMERS} are allowed",
            ommers.len()
        )));
    }
    let mut seen: Vec<B256> = ancestors
        .iter()
        .flat_map(|ancestor| ancestor.ommers.iter().copied())
        .collect();
    for ommer in ommers {
        let hash = ommer.hash_slow();
        if seen.contains(&hash) {
            return Err(Invalid::block(format!("ommer {hash} is included twice")));
        }
        seen.push(hash);
        if ancestors.iter().any(|ancestor| ancestor.hash == hash) {
            return Err(Invalid::block(format!("ommer {hash} is an ancestor")));
        }
        // A child of the parent would be a sibling, not an ommer.
        let parent = ancestors
            .iter()
            .skip(1)
            .find(|ancestor| ancestor.hash == ommer.parent_hash)
            .ok_or_else(|| {
                Invalid::block(format!("the parent of ommer {hash} is not a near ancestor"))
            })?;
        check_ommer_header(chain, ommer, &parent.header)
            .map_err(|problem| Invalid::block(format!("ommer {hash}: {problem}")))?;
    }
    Ok(())
}

/// The rules of a header that was not executed.
fn check_ommer_header(chain: &ChainSpec, header: &Header, parent: &Header) -> Result<(), Invalid> {
    let rules = BlockRules {
        chain,
        era: Era::ProofOfWork,
    };
    Invalid::unless_equal("block number", header.number, parent.number + 1)?;
    if header.timestamp <= parent.timestamp {
        return Err(Invalid::block(format!(
            "timestamp {} is not after the parent's {}",
            header.timestamp, parent.timestamp
        )));
    }
    check_extra_data(header)?;
    check_gas(chain, header, parent)?;
    check_fork_fields(chain, header)?;
    check_era(rules, header, parent)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mainnet's schedule of the forks that change the difficulty.
    fn mainnet() -> ChainSpec {
        let json = r#"{"config":{"chainId":1,"homesteadBlock":1150000,"daoForkBlock":1920000,
            "daoForkSupport":true,"eip150Block":2463000,"eip155Block":2675000,
            "eip158Block":2675000,"byzantiumBlock":4370000,"constantinopleBlock":7280000,
            "petersburgBlock":7280000,"istanbulBlock":9069000,"muirGlacierBlock":9200000,
            "berlinBlock":12244000,"londonBlock":12965000,"arrowGlacierBlock":13773000,
            "grayGlacierBlock":15050000},
            "gasLimit":"0x1388","difficulty":"0x400000000","alloc":{}}"#;
        ChainSpec::from_json(json).unwrap()
    }

    /// The difficulty of block `number`, `elapsed` seconds after a parent without ommers.
    fn difficulty(number: u64, parent_difficulty: u64, elapsed: u64) -> U256 {
        let parent = Header {
            number: number - 1,
            difficulty: U256::from(parent_difficulty),
            ommers_hash: EMPTY_OMMER_ROOT_HASH,
            timestamp: 1_000_000,
            ..Default::default()
        };
        difficulty_after(&mainnet(), &parent, parent.timestamp + elapsed)
    }

    #[test]
    fn the_difficulty_follows_the_formula_of_each_fork() {
        const BASE: u64 = 2048 * 1_000_000;
        let steps = |up: i64| U256::from(BASE.saturating_add_signed(up * 1_000_000));
        for (number, elapsed, expected) in [
            // Frontier: up below 13 seconds, else down.
            (100, 12, steps(1)),
            (100, 13, steps(-1)),
            (100, 9999, steps(-1)),
            // Homestead: tens of seconds, at most 99 steps down; the bomb of period 12 adds 2^10.
            (1_200_000, 9, steps(1) + U256::from(1 << 10)),
            (1_200_000, 19, steps(0) + U256::from(1 << 10)),
            (1_200_000, 5000, steps(-99) + U256::from(1 << 10)),
            // Byzantium: nines of seconds, the bomb three million blocks late.
            (4_400_000, 8, steps(1) + U256::from(1 << 12)),
            (4_400_000, 17, steps(0) + U256::from(1 << 12)),
            // Constantinople, Muir Glacier, London, Arrow Glacier, Gray Glacier: later still.
            (7_300_000, 9, steps(0) + U256::from(1 << 21)),
            (9_300_000, 9, steps(0) + U256::from(1 << 1)),
            (13_000_000, 9, steps(0) + U256::from(1_u64 << 31)),
            (13_800_000, 9, steps(0) + U256::from(1_u64 << 29)),
            (15_100_000, 9, steps(0) + U256::from(1_u64 << 35)),
        ] {
            assert_eq!(
                difficulty(number, BASE, elapsed),
                expected,
                "block {number} after {elapsed} s"
            );
        }
    }

    #[test]
    fn the_difficulty_has_a_floor_and_ommers_of_the_parent_raise_it() {
        assert_eq!(difficulty(100, 131_072, 9999), MINIMUM_DIFFICULTY);
        let parent = Header {
            number: 4_399_999,
            difficulty: U256::from(2_048_000),
            ommers_hash: B256::ZERO,
            ..Default::default()
        };
        let with_ommers = difficulty_after(&mainnet(), &parent, 9);
        assert_eq!(with_ommers, U256::from(2_049_000 + (1 << 12)));
    }

    #[test]
    fn the_bomb_does_not_overflow() {
        assert_eq!(bomb(199_999), U256::ZERO);
        assert_eq!(bomb(200_000), U256::from(1));
        assert_eq!(bomb(u64::MAX), U256::MAX);
        assert!(difficulty(u64::MAX, u64::MAX, 1) > U256::from(u64::MAX));
    }
}
