//! What a log filter asks for, and which logs and blooms fit it.
//!
//! Source: execution-apis, `schemas/filter.yaml`; the limits are geth's.

use crate::rpc::forms::{Account, Hash, OneOrMany, Tag};
use alloy_eips::BlockNumberOrTag;
use alloy_primitives::{Address, B256, Bloom, BloomInput, LogData};
use serde::{Deserialize, Deserializer, de::Error as _};

/// Most topics of a log.
const MAX_POSITIONS: usize = 4;

/// Most addresses, and most topics at one position.
const MAX_ALTERNATIVES: usize = 1000;

/// Which logs of which blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::rpc) struct LogFilter {
    /// The blocks.
    pub(super) blocks: Blocks,
    /// Contracts that logged; empty for any.
    addresses: Vec<Address>,
    /// Topics by position, at least as many as a log must have; an empty list for any.
    topics: Vec<Vec<B256>>,
    /// For each thing a log must have, the blooms of what it can be: hashed once, asked often.
    blooms: Vec<Vec<Bloom>>,
}

/// The blocks a filter looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Blocks {
    /// One block, canonical or not.
    One(B256),
    /// Canonical blocks, both ends included; a missing end is the latest block.
    Range {
        /// The first.
        from: Option<BlockNumberOrTag>,
        /// The last.
        to: Option<BlockNumberOrTag>,
    },
}

impl Default for LogFilter {
    /// Every log of the latest block.
    fn default() -> Self {
        Self {
            blocks: Blocks::Range {
                from: None,
                to: None,
            },
            addresses: Vec::new(),
            topics: Vec::new(),
            blooms: Vec::new(),
        }
    }
}

impl LogFilter {
    /// Whether a block with this bloom may have a log that fits.
    pub(super) fn may_match(&self, bloom: &Bloom) -> bool {
        let mut demands = self.blooms.iter();
        demands.all(|demand| demand.iter().any(|wanted| bloom.contains(wanted)))
    }

    /// Whether a log fits, whatever its block.
    pub(super) fn matches(&self, address: Address, data: &LogData) -> bool {
        let topics = data.topics();
        (self.addresses.is_empty() || self.addresses.contains(&address))
            && self.topics.len() <= topics.len()
            && self
                .topics
                .iter()
                .zip(topics)
                .all(|(wanted, topic)| wanted.is_empty() || wanted.contains(topic))
    }
}

/// A filter as it is sent.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Fields {
    from_block: Option<Tag>,
    to_block: Option<Tag>,
    block_hash: Option<Hash>,
    address: Option<OneOrMany<Account>>,
    topics: Option<Vec<Option<OneOrMany<Option<Hash>>>>>,
}

impl<'de> Deserialize<'de> for LogFilter {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fields = Fields::deserialize(deserializer)?;
        let blocks = match (fields.block_hash, fields.from_block, fields.to_block) {
            (Some(Hash(hash)), None, None) => Blocks::One(hash),
            (Some(_), ..) => {
                return Err(D::Error::custom(
                    "both blockHash and fromBlock or toBlock are given",
                ));
            }
            (None, from, to) => Blocks::Range {
                from: from.map(|from| from.0),
                to: to.map(|to| to.0),
            },
        };
        let addresses = fields
            .address
            .map(|addresses| addresses.0)
            .unwrap_or_default();
        let topics = fields.topics.unwrap_or_default();
        if topics.len() > MAX_POSITIONS {
            return Err(D::Error::custom(format!(
                "more than {MAX_POSITIONS} topics"
            )));
        }
        let topics: Vec<_> = topics.into_iter().map(alternatives).collect();
        let longest = topics.iter().map(Vec::len).max().unwrap_or_default();
        if addresses.len().max(longest) > MAX_ALTERNATIVES {
            return Err(D::Error::custom(format!(
                "more than {MAX_ALTERNATIVES} addresses, or topics at one position"
            )));
        }
        let addresses: Vec<_> = addresses.into_iter().map(|address| address.0).collect();
        Ok(Self {
            blocks,
            blooms: blooms(&addresses, &topics),
            addresses,
            topics,
        })
    }
}

fn blooms(addresses: &[Address], topics: &[Vec<B256>]) -> Vec<Vec<Bloom>> {
    let of = |bytes: &[u8]| Bloom::from(BloomInput::Raw(bytes));
    let addresses = addresses.iter().map(|address| of(address.as_slice()));
    let topics = topics
        .iter()
        .map(|topics| topics.iter().map(|topic| of(topic.as_slice())).collect());
    let mut blooms: Vec<Vec<_>> = std::iter::once(addresses.collect()).chain(topics).collect();
    blooms.retain(|alternatives| !alternatives.is_empty());
    blooms
}

/// The topics that fit at one position. A null among them fits any.
fn alternatives(position: Option<OneOrMany<Option<Hash>>>) -> Vec<B256> {
    let alternatives = position.map(|position| position.0).unwrap_or_default();
    let hashes: Option<Vec<_>> = alternatives
        .into_iter()
        .map(|topic| topic.map(|topic| topic.0))
        .collect();
    hashes.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::{Bytes, Log};
    use serde_json::json;

    const CONTRACT: Address = Address::repeat_byte(0xc0);

    fn topic(byte: u8) -> B256 {
        B256::repeat_byte(byte)
    }

    /// Whether the filter fits a log of [`CONTRACT`] with these topics; its bloom must not rule out
    /// a log that fits.
    #[track_caller]
    fn check(filter: serde_json::Value, topics: &[u8], expected: bool) {
        let read: LogFilter = serde_json::from_value(filter.clone()).unwrap();
        let topics = topics.iter().copied().map(topic).collect();
        let data = LogData::new(topics, Bytes::new()).unwrap();
        assert_eq!(read.matches(CONTRACT, &data), expected, "{filter}");
        let mut bloom = Bloom::default();
        bloom.accrue_log(&Log {
            address: CONTRACT,
            data,
        });
        assert!(!expected || read.may_match(&bloom), "{filter}");
    }

    #[test]
    fn positions_are_matched_one_by_one() {
        let other = Address::repeat_byte(1);
        check(json!({}), &[], true);
        check(json!({"address": CONTRACT}), &[1], true);
        check(json!({"address": [other, CONTRACT]}), &[1], true);
        check(json!({"address": other}), &[1], false);
        check(json!({"address": [], "topics": []}), &[1], true);
        check(json!({"topics": [topic(1)]}), &[1, 2], true);
        check(json!({"topics": [topic(2)]}), &[1, 2], false);
        check(json!({"topics": [null, topic(2)]}), &[1, 2], true);
        check(
            json!({"topics": [[topic(3), topic(1)], [topic(2)]]}),
            &[1, 2],
            true,
        );
        check(json!({"topics": [[topic(3), null]]}), &[1], true);
        check(json!({"topics": [[], topic(1)]}), &[1], false);
        // A null asks that there is a topic.
        check(json!({"topics": [null]}), &[], false);
        check(json!({"topics": [null, null]}), &[1], false);
    }

    #[test]
    fn a_bloom_without_the_topic_rules_the_block_out() {
        let filter: LogFilter =
            serde_json::from_value(json!({"topics": [null, topic(5)]})).unwrap();
        assert!(!filter.may_match(&Bloom::default()));
        let any: LogFilter = serde_json::from_value(json!({"topics": [null]})).unwrap();
        assert!(any.may_match(&Bloom::default()));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let many = vec![CONTRACT; MAX_ALTERNATIVES + 1];
        for (filter, problem) in [
            (
                json!({"blockHash": topic(1), "fromBlock": "0x1"}),
                "both blockHash",
            ),
            (
                json!({"topics": [null, null, null, null, null]}),
                "more than 4 topics",
            ),
            (json!({"topics": [vec![topic(1); 1001]]}), "more than 1000"),
            (json!({"address": many}), "more than 1000"),
            (json!({"address": "0x1"}), "\"0x1\""),
            (json!({"address": [null]}), "null"),
            (json!({"fromBlock": "0x01"}), "leading zero"),
            (json!({"topics": topic(1)}), "expected a sequence"),
            (json!("x"), "invalid type"),
        ] {
            let error = serde_json::from_value::<LogFilter>(filter.clone()).unwrap_err();
            assert!(error.to_string().contains(problem), "{filter}: {error}");
        }
    }
}
