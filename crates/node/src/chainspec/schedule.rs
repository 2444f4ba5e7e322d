//! Which forks a chain file schedules, and whether that schedule makes sense.
//!
//! Invariant: a schedule that passes has every fork that a later one builds on, none of them later
//! than it, and blob parameters for every fork that changes nothing else.

use super::ChainSpecError;
use alloy_genesis::ChainConfig;
use std::fmt;

/// When a fork begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begin {
    /// With the block of this number.
    Block(u64),
    /// With the first block of this timestamp or a later one.
    Time(u64),
}

impl Begin {
    /// The number alone. Compared only between forks of the same kind.
    fn position(self) -> u64 {
        match self {
            Self::Block(position) | Self::Time(position) => position,
        }
    }

    fn is_time(self) -> bool {
        matches!(self, Self::Time(_))
    }
}

impl fmt::Display for Begin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Block(number) => write!(f, "block {number}"),
            Self::Time(time) => write!(f, "timestamp {time}"),
        }
    }
}

/// A fork as the file names it.
struct Entry {
    key: &'static str,
    begin: Option<Begin>,
    /// Whether later forks may be scheduled without this one.
    optional: bool,
}

impl Entry {
    fn block(key: &'static str, number: Option<u64>) -> Self {
        let begin = number.map(Begin::Block);
        Self {
            key,
            begin,
            optional: false,
        }
    }

    fn time(key: &'static str, time: Option<u64>) -> Self {
        let begin = time.map(Begin::Time);
        Self {
            key,
            begin,
            optional: false,
        }
    }

    fn optional(self) -> Self {
        Self {
            optional: true,
            ..self
        }
    }
}

/// All forks of the file in the order in which they build on each other.
fn entries(config: &ChainConfig) -> [Entry; 26] {
    [
        Entry::block("homesteadBlock", config.homestead_block),
        Entry::block("daoForkBlock", config.dao_fork_block).optional(),
        Entry::block("eip150Block", config.eip150_block),
        Entry::block("eip155Block", config.eip155_block),
        Entry::block("eip158Block", config.eip158_block),
        Entry::block("byzantiumBlock", config.byzantium_block),
        Entry::block("constantinopleBlock", config.constantinople_block),
        Entry::block("petersburgBlock", config.petersburg_block),
        Entry::block("istanbulBlock", config.istanbul_block),
        Entry::block("muirGlacierBlock", config.muir_glacier_block).optional(),
        Entry::block("berlinBlock", config.berlin_block),
        Entry::block("londonBlock", config.london_block),
        Entry::block("arrowGlacierBlock", config.arrow_glacier_block).optional(),
        Entry::block("grayGlacierBlock", config.gray_glacier_block).optional(),
        Entry::block("mergeNetsplitBlock", config.merge_netsplit_block).optional(),
        Entry::time("shanghaiTime", config.shanghai_time),
        Entry::time("cancunTime", config.cancun_time),
        Entry::time("pragueTime", config.prague_time),
        Entry::time("osakaTime", config.osaka_time),
        Entry::time("bpo1Time", config.bpo1_time).optional(),
        Entry::time("bpo2Time", config.bpo2_time).optional(),
        Entry::time("bpo3Time", config.bpo3_time).optional(),
        Entry::time("bpo4Time", config.bpo4_time).optional(),
        Entry::time("bpo5Time", config.bpo5_time).optional(),
        Entry::time("amsterdamTime", config.amsterdam_time).optional(),
        Entry::time("bogotaTime", config.bogota_time).optional(),
    ]
}

/// Refuses forks without those they build on, forks out of order, and blob parameters that are
/// missing or cannot be computed with.
pub(super) fn check(config: &ChainConfig) -> Result<(), ChainSpecError> {
    check_order(&entries(config))?;
    // EIP-155 and EIP-158 came as one fork, and are executed as one.
    if config.eip155_block != config.eip158_block {
        return Err(ChainSpecError::SplitFork);
    }
    check_blob_schedule(config)
}

fn check_order(entries: &[Entry]) -> Result<(), ChainSpecError> {
    let mut missing = None;
    let mut last: Option<(&'static str, Begin)> = None;
    for entry in entries {
        let Some(begin) = entry.begin else {
            if !entry.optional {
                missing = missing.or(Some(entry.key));
            }
            continue;
        };
        if let Some(earlier) = missing {
            return Err(ChainSpecError::ForkMissing {
                earlier,
                later: entry.key,
                begin,
            });
        }
        if let Some((earlier, first)) = last
            && first.is_time() == begin.is_time()
            && first.position() > begin.position()
        {
            return Err(ChainSpecError::ForkOrder {
                earlier,
                first,
                later: entry.key,
                second: begin,
            });
        }
        last = Some((entry.key, begin));
    }
    Ok(())
}

fn check_blob_schedule(config: &ChainConfig) -> Result<(), ChainSpecError> {
    for (key, params) in &config.blob_schedule {
        let problem = if params.update_fraction == 0 {
            "baseFeeUpdateFraction is 0"
        } else if params.target_blob_count > params.max_blob_count {
            "target is above max"
        } else {
            continue;
        };
        let key = key.clone();
        return Err(ChainSpecError::BlobSchedule { key, problem });
    }
    let blob_only = [
        ("bpo1", config.bpo1_time),
        ("bpo2", config.bpo2_time),
        ("bpo3", config.bpo3_time),
        ("bpo4", config.bpo4_time),
        ("bpo5", config.bpo5_time),
    ];
    for (key, time) in blob_only {
        if time.is_some() && !config.blob_schedule.contains_key(key) {
            return Err(ChainSpecError::BlobSchedule {
                key: key.to_owned(),
                problem: "the fork is scheduled but has no entry",
            });
        }
    }
    Ok(())
}
