//! Payloads that are kept without their state, and blocks known to be invalid.
//!
//! A payload waits when its parent is unknown, or when it stands on a side chain whose state is not
//! in memory. Both stores are bounded; the oldest entry makes room.

use crate::primitives::{Block, StoredBlock};
use alloy_consensus::BlockBody;
use alloy_primitives::{B256, map::B256Map};
use alloy_rpc_types_engine::ExecutionData;
use std::collections::VecDeque;

/// Payloads kept. A reorganisation takes at most
/// [`MAX_REORG_DEPTH`](super::reorg::MAX_REORG_DEPTH) blocks out of the database, so the way back
/// fits.
const MAX_PAYLOADS: usize = 1024;
/// Bytes of payloads kept.
const MAX_BYTES: usize = 256 << 20;
/// What a payload takes besides its transactions and withdrawals, in bytes.
const FIXED_BYTES: usize = 1024;
/// What a withdrawal or a transaction takes besides its encoding, in bytes.
const ENTRY_BYTES: usize = 64;
/// Invalid blocks remembered, so that their descendants are refused without being executed.
const MAX_INVALID: usize = 512;

struct Entry {
    payload: ExecutionData,
    bytes: usize,
    /// Whether the block was executed before and found valid.
    validated: bool,
}

/// Payloads without state, by block hash.
pub(super) struct Waiting {
    entries: B256Map<Entry>,
    arrivals: VecDeque<B256>,
    bytes: usize,
    max_bytes: usize,
}

impl Default for Waiting {
    fn default() -> Self {
        Self {
            entries: B256Map::default(),
            arrivals: VecDeque::new(),
            bytes: 0,
            max_bytes: MAX_BYTES,
        }
    }
}

impl Waiting {
    /// Keeps `payload`, whose block hash must have been checked. `validated` says that the block
    /// is known to be valid.
    pub(super) fn insert(&mut self, payload: ExecutionData, validated: bool) {
        let hash = payload.block_hash();
        let bytes = payload_bytes(&payload);
        if let Some(kept) = self.entries.get_mut(&hash) {
            kept.validated |= validated;
            return;
        }
        self.bytes += bytes;
        let entry = Entry {
            payload,
            bytes,
            validated,
        };
        self.entries.insert(hash, entry);
        self.arrivals.push_back(hash);
        while self.entries.len() > MAX_PAYLOADS || self.bytes > self.max_bytes {
            let Some(oldest) = self.arrivals.front().copied() else {
                return;
            };
            self.remove(oldest);
        }
    }

    /// A payload kept under this hash.
    pub(super) fn get(&self, hash: B256) -> Option<&ExecutionData> {
        self.entries.get(&hash).map(|entry| &entry.payload)
    }

    /// Whether the block is kept and was found valid before.
    pub(super) fn is_validated(&self, hash: B256) -> bool {
        self.entries.get(&hash).is_some_and(|entry| entry.validated)
    }

    /// Gives a payload up.
    pub(super) fn remove(&mut self, hash: B256) {
        if let Some(entry) = self.entries.remove(&hash) {
            self.bytes -= entry.bytes;
            self.arrivals.retain(|kept| *kept != hash);
        }
    }

    /// The payloads that build on `parent`; they stay.
    pub(super) fn children(&self, parent: B256) -> Vec<ExecutionData> {
        let payloads = self.entries.values().map(|entry| &entry.payload);
        payloads
            .filter(|payload| payload.parent_hash() == parent)
            .cloned()
            .collect()
    }
}

fn payload_bytes(payload: &ExecutionData) -> usize {
    let transactions = payload.payload.transactions().iter();
    let withdrawals = payload.payload.withdrawals().map_or(0, Vec::len);
    let encoded: usize = transactions
        .map(|encoded| encoded.len() + ENTRY_BYTES)
        .sum();
    FIXED_BYTES + encoded + withdrawals * ENTRY_BYTES
}

/// A block as the payload it came as, or could have come as.
pub(super) fn as_payload(block: &StoredBlock) -> ExecutionData {
    let body = BlockBody {
        transactions: block.transactions.clone(),
        ommers: Vec::new(),
        withdrawals: block.withdrawals.clone(),
    };
    let header = block.header.clone();
    ExecutionData::from_block_unchecked(block.hash, &Block { header, body })
}

/// Invalid blocks, each with its latest valid ancestor.
#[derive(Default)]
pub(super) struct InvalidBlocks {
    latest_valid: B256Map<B256>,
    order: VecDeque<B256>,
}

impl InvalidBlocks {
    /// Remembers that `hash` is invalid and `latest_valid` its last valid ancestor.
    pub(super) fn insert(&mut self, hash: B256, latest_valid: B256) {
        if self.latest_valid.insert(hash, latest_valid).is_some() {
            return;
        }
        self.order.push_back(hash);
        if self.order.len() > MAX_INVALID
            && let Some(oldest) = self.order.pop_front()
        {
            self.latest_valid.remove(&oldest);
        }
    }

    /// The latest valid ancestor of `hash`, when `hash` is known to be invalid.
    pub(super) fn latest_valid(&self, hash: B256) -> Option<B256> {
        self.latest_valid.get(&hash).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::{Bytes, U256};

    fn hash(n: usize) -> B256 {
        B256::from(U256::from(n))
    }

    /// The `n`th payload: its parent is `n - 1`, its one transaction has `bytes` bytes.
    fn payload(n: usize, bytes: usize) -> ExecutionData {
        let mut block = StoredBlock {
            hash: hash(n),
            ..Default::default()
        };
        block.header.parent_hash = hash(n - 1);
        let mut payload = as_payload(&block);
        *payload.payload.transactions_mut() = vec![Bytes::from(vec![0; bytes])];
        payload
    }

    fn kept(waiting: &Waiting, range: std::ops::RangeInclusive<usize>) -> Vec<usize> {
        range.filter(|n| waiting.get(hash(*n)).is_some()).collect()
    }

    #[test]
    fn the_oldest_payload_makes_room_by_count_and_by_bytes() {
        let mut waiting = Waiting::default();
        for n in 1..=MAX_PAYLOADS + 2 {
            waiting.insert(payload(n, 1), false);
        }
        assert_eq!(kept(&waiting, 1..=4), [3, 4]);
        assert_eq!(waiting.entries.len(), waiting.arrivals.len());

        let mut waiting = Waiting {
            max_bytes: 10_000,
            ..Waiting::default()
        };
        for n in 1..=5 {
            waiting.insert(payload(n, 2_000), false);
        }
        assert_eq!(kept(&waiting, 1..=5), [3, 4, 5]);
        waiting.insert(payload(6, 20_000), false);
        assert_eq!(
            kept(&waiting, 1..=6),
            [0; 0],
            "one that never fits is not kept"
        );
        assert_eq!(waiting.bytes, 0);
    }

    #[test]
    fn a_payload_is_kept_once_and_found_by_its_parent() {
        let mut waiting = Waiting::default();
        waiting.insert(payload(2, 1), true);
        waiting.insert(payload(2, 1), false);
        waiting.insert(payload(7, 1), false);
        assert!(waiting.is_validated(hash(2)) && !waiting.is_validated(hash(7)));
        assert_eq!(waiting.children(hash(1)).len(), 1);
        waiting.remove(hash(2));
        assert_eq!(waiting.children(hash(1)).len(), 0);
        assert_eq!(kept(&waiting, 1..=7), [7]);
    }

    #[test]
    fn the_oldest_invalid_block_makes_room() {
        let mut invalid = InvalidBlocks::default();
        for n in 0..=MAX_INVALID {
            invalid.insert(hash(n), hash(0));
        }
        assert_eq!(invalid.latest_valid(hash(0)), None);
        assert_eq!(invalid.latest_valid(hash(1)), Some(hash(0)));
        assert_eq!(invalid.latest_valid(hash(MAX_INVALID)), Some(hash(0)));
    }
}
