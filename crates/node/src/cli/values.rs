//! Values of flags that need more than `FromStr`: sizes, lists of RPC namespaces, extra data.

use alloy_primitives::{Bytes, hex};
use clap::ValueEnum;
use std::{collections::BTreeSet, fmt, num::NonZeroUsize, str::FromStr};

/// Most extra data a header may hold, in bytes (yellow paper, section 4.3).
const MAX_EXTRA_DATA_BYTES: usize = 32;

/// A namespace of the public RPC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RpcNamespace {
    /// Chain and state.
    Eth,
    /// Network identity.
    Net,
    /// Client version.
    Web3,
    /// Subscriptions of reth.
    Reth,
    /// Block building for tests.
    Testing,
    /// Blocks, receipts and transactions in RLP.
    Debug,
    /// Transactions that wait for a block.
    Txpool,
    /// What the node says of itself.
    Admin,
    /// Names of the served namespaces.
    Rpc,
    /// A namespace reth has and this engine does not.
    Unserved(&'static str),
}

/// Namespaces of reth that are accepted but not served.
const UNSERVED: &[&str] = &[
    "anvil",
    "flashbots",
    "hardhat",
    "mev",
    "miner",
    "ots",
    "trace",
];

const SERVED: &[RpcNamespace] = &[
    RpcNamespace::Eth,
    RpcNamespace::Net,
    RpcNamespace::Web3,
    RpcNamespace::Reth,
    RpcNamespace::Testing,
    RpcNamespace::Debug,
    RpcNamespace::Txpool,
    RpcNamespace::Admin,
    RpcNamespace::Rpc,
];

impl RpcNamespace {
    /// As typed on the command line and as the prefix of its methods.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Eth => "eth",
            Self::Net => "net",
            Self::Web3 => "web3",
            Self::Reth => "reth",
            Self::Testing => "testing",
            Self::Debug => "debug",
            Self::Txpool => "txpool",
            Self::Admin => "admin",
            Self::Rpc => "rpc",
            Self::Unserved(name) => name,
        }
    }
}

impl FromStr for RpcNamespace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let served = SERVED
            .iter()
            .find(|namespace| namespace.name() == text)
            .copied();
        let unserved = || {
            UNSERVED
                .iter()
                .find(|name| **name == text)
                .copied()
                .map(Self::Unserved)
        };
        served.or_else(unserved).ok_or_else(|| {
            let known: Vec<_> = SERVED.iter().map(|namespace| namespace.name()).collect();
            format!(
                "unknown RPC namespace `{text}`; known: {}",
                known.join(", ")
            )
        })
    }
}

/// A comma-separated list of namespaces, or `all` or `none`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModuleList(pub BTreeSet<RpcNamespace>);

impl FromStr for ModuleList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "all" => Ok(Self(SERVED.iter().copied().collect())),
            "none" | "" => Ok(Self(BTreeSet::new())),
            list => list
                .split(',')
                .map(|name| name.trim().parse())
                .collect::<Result<_, _>>()
                .map(Self),
        }
    }
}

impl fmt::Display for ModuleList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.0.iter().map(|namespace| namespace.name()).collect();
        f.write_str(&names.join(","))
    }
}

/// A size in bytes: a number with an optional unit B, KB, MB, GB or TB (powers of 1024, as reth).
pub(super) fn parse_size_bytes(text: &str) -> Result<u64, String> {
    let split = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let shift = match unit.trim().to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "KB" => 10,
        "MB" => 20,
        "GB" => 30,
        "TB" => 40,
        other => return Err(format!("unknown unit `{other}`; use B, KB, MB, GB or TB")),
    };
    let number: u64 = number
        .parse()
        .map_err(|_| format!("`{text}` does not begin with a number"))?;
    number
        .checked_mul(1 << shift)
        .ok_or_else(|| format!("`{text}` is more than a file can hold"))
}

/// One of a few names. The answer to another has them in one line.
pub(super) fn parse_named<T: ValueEnum>(text: &str) -> Result<T, String> {
    T::from_str(text, false).map_err(|_| {
        let values = T::value_variants().iter().filter_map(T::to_possible_value);
        let names: Vec<_> = values.map(|value| value.get_name().to_owned()).collect();
        format!("use one of {}", names.join(", "))
    })
}

/// The chunk size: at least one target, because a chunk of none would drop its targets.
pub(super) fn parse_chunk_size(text: &str) -> Result<NonZeroUsize, String> {
    let number: usize = text
        .parse()
        .map_err(|_| "expected a whole number of targets".to_owned())?;
    NonZeroUsize::new(number).ok_or_else(|| {
        "a chunk holds at least 1 target (use a huge number to keep batches whole)".to_owned()
    })
}

/// Header extra data: text, or `0x` and hexadecimal digits.
pub(super) fn parse_extra_data(text: &str) -> Result<Bytes, String> {
    let bytes = match text.strip_prefix("0x") {
        Some(digits) => hex::decode(digits).map_err(|error| error.to_string())?,
        None => text.as_bytes().to_vec(),
    };
    if bytes.len() > MAX_EXTRA_DATA_BYTES {
        return Err(format!(
            "{} bytes, but at most {MAX_EXTRA_DATA_BYTES} fit",
            bytes.len()
        ));
    }
    Ok(bytes.into())
}

/// Most that a payload may be slowed down by, in percent.
const MAX_SLOWDOWN_PERCENT: f64 = 1000.0;

/// Percent with or without the sign, as a part: `3%` is 0.03.
pub(super) fn parse_percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text);
    let percent: f64 = number
        .parse()
        .map_err(|_| "give a number of percent, as in 3%".to_owned())?;
    if (0.0..=MAX_SLOWDOWN_PERCENT).contains(&percent) {
        return Ok(percent / 100.0);
    }
    Err(format!("give 0 to {MAX_SLOWDOWN_PERCENT} percent"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_take_binary_units() {
        let cases = [
            ("4096", 4096),
            ("1KB", 1024),
            ("64MB", 64 << 20),
            ("4GB", 4 << 30),
            ("8TB", 8 << 40),
        ];
        for (text, bytes) in cases {
            assert_eq!(parse_size_bytes(text), Ok(bytes), "{text}");
        }
        for text in ["", "GB", "4XB", "1.5GB", "99999999TB", "-1"] {
            assert!(parse_size_bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn module_lists() {
        let cases = [
            ("eth,reth", "eth,reth"),
            ("reth, eth", "eth,reth"),
            ("eth,eth", "eth"),
            ("eth,debug", "eth,debug"),
            ("none", ""),
            ("all", "eth,net,web3,reth,testing,debug,txpool,admin,rpc"),
        ];
        for (typed, shown) in cases {
            assert_eq!(
                typed.parse::<ModuleList>().unwrap().to_string(),
                shown,
                "{typed}"
            );
        }
        assert!(
            "eth,foo"
                .parse::<ModuleList>()
                .unwrap_err()
                .contains("`foo`")
        );
        assert!("eth,,net".parse::<ModuleList>().is_err());
    }

    #[test]
    fn chunk_size_is_at_least_one() {
        assert_eq!(parse_chunk_size("15").unwrap().get(), 15);
        assert!(parse_chunk_size("0").unwrap_err().contains("at least 1"));
        for text in ["", "abc", "-1", "1.5"] {
            assert!(parse_chunk_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn extra_data_is_text_or_hex() {
        assert_eq!(parse_extra_data("0x0102").unwrap().as_ref(), [1, 2]);
        assert_eq!(parse_extra_data("bench").unwrap().as_ref(), b"bench");
        assert!(
            parse_extra_data(&"x".repeat(33))
                .unwrap_err()
                .contains("33 bytes")
        );
        assert!(parse_extra_data("0xzz").is_err());
    }

    #[test]
    fn percent_become_parts() {
        for (text, part) in [("0", 0.0), ("3%", 0.03), ("2.5", 0.025), ("1000%", 10.0)] {
            assert_eq!(parse_percent(text), Ok(part), "{text}");
        }
        for text in ["-1", "1001", "NaN", "inf", "%", "", "3 %"] {
            assert!(parse_percent(text).is_err(), "{text}");
        }
    }
}
