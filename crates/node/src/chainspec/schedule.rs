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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Map, Value, json};

    /// The block forks up to `last`, at 0, then what `rest` sets.
    fn config(last: &str, rest: Value) -> ChainConfig {
        let mut map = Map::new();
        let all = entries(&ChainConfig::default());
        let end = all.iter().position(|entry| entry.key == last);
        for entry in all.iter().take(end.map_or(0, |end| end + 1)) {
            if !entry.optional {
                map.insert(entry.key.into(), json!(0));
            }
        }
        map.extend(rest.as_object().cloned().unwrap_or_default());
        serde_json::from_value(Value::Object(map)).unwrap()
    }

    #[track_caller]
    fn refusal(last: &str, rest: Value, expected: &str) {
        let problem = check(&config(last, rest)).unwrap_err().to_string();
        assert!(problem.contains(expected), "{problem}");
    }

    #[test]
    fn schedules_that_make_no_sense_are_refused_with_both_forks() {
        refusal(
            "byzantiumBlock",
            json!({"istanbulBlock": 5}),
            "istanbulBlock is set (block 5), but constantinopleBlock is not",
        );
        refusal(
            "byzantiumBlock",
            json!({"byzantiumBlock": 9, "constantinopleBlock": 8}),
            "constantinopleBlock is set to block 8, before byzantiumBlock, which is set to block 9",
        );
        refusal(
            "londonBlock",
            json!({"shanghaiTime": 9, "cancunTime": 8}),
            "cancunTime is set to timestamp 8, before shanghaiTime",
        );
        refusal(
            "londonBlock",
            json!({"cancunTime": 8}),
            "cancunTime is set (timestamp 8), but shanghaiTime is not",
        );
        refusal(
            "berlinBlock",
            json!({"shanghaiTime": 8}),
            "but londonBlock is not",
        );
        refusal(
            "eip155Block",
            json!({"eip155Block": 1, "eip158Block": 2}),
            "eip155Block and eip158Block",
        );
        refusal(
            "osakaTime",
            json!({"bpo1Time": 5}),
            "blobSchedule.bpo1: the fork is scheduled but has no entry",
        );
        refusal(
            "osakaTime",
            json!({"blobSchedule": {"osaka": {"target": 3, "max": 2, "baseFeeUpdateFraction": 1}}}),
            "blobSchedule.osaka: target is above max",
        );
        refusal(
            "osakaTime",
            json!({"blobSchedule": {"osaka": {"target": 1, "max": 2, "baseFeeUpdateFraction": 0}}}),
            "blobSchedule.osaka: baseFeeUpdateFraction is 0",
        );
    }

    #[test]
    fn forks_that_only_some_chains_have_can_be_left_out() {
        for rest in [
            json!({}),
            json!({"daoForkBlock": 0}),
            json!({"muirGlacierBlock": 0, "mergeNetsplitBlock": 7}),
        ] {
            assert!(check(&config("osakaTime", rest.clone())).is_ok(), "{rest}");
        }
        // A block number says nothing about a timestamp.
        assert!(check(&config("osakaTime", json!({"londonBlock": 900}))).is_ok());
    }

    proptest! {
        /// Any rising sequence passes; exchanging two different neighbours does not.
        #[test]
        fn only_rising_schedules_pass(mut places in prop::collection::vec(0..50u64, 9), at in 0..8usize) {
            places.sort_unstable();
            let keys = ["homesteadBlock", "eip150Block", "byzantiumBlock", "constantinopleBlock",
                "petersburgBlock", "istanbulBlock", "berlinBlock", "londonBlock", "grayGlacierBlock"];
            let with = |places: &[u64]| {
                let mut rest = Map::new();
                for (key, place) in keys.iter().zip(places) {
                    rest.insert((*key).into(), json!(place));
                }
                // Both halves of Spurious Dragon lie between their neighbours.
                rest.insert("eip155Block".into(), json!(places[1]));
                rest.insert("eip158Block".into(), json!(places[1]));
                check(&config("londonBlock", Value::Object(rest)))
            };
            prop_assert!(with(&places).is_ok());
            let differ = places[at] != places[at + 1];
            places.swap(at, at + 1);
            prop_assert_eq!(with(&places).is_err(), differ);
        }
    }
}
