//! Payloads that wait for their parent, and blocks known to be invalid. Both are bounded: the
//! oldest entry makes room.

use alloy_primitives::{B256, map::B256Map};
use alloy_rpc_types_engine::ExecutionData;
use std::collections::VecDeque;

/// Payloads kept while their parent is unknown.
const MAX_ORPHANS: usize = 128;
/// Invalid blocks remembered, so that their descendants are refused without being executed.
const MAX_INVALID: usize = 512;

/// Payloads whose parent is not known yet.
#[derive(Default)]
pub(super) struct Orphans {
    payloads: VecDeque<ExecutionData>,
}

impl Orphans {
    /// Keeps `payload`; the same payload is kept once.
    pub(super) fn insert(&mut self, payload: ExecutionData) {
        if self
            .payloads
            .iter()
            .any(|kept| kept.block_hash() == payload.block_hash())
        {
            return;
        }
        if self.payloads.len() == MAX_ORPHANS {
            self.payloads.pop_front();
        }
        self.payloads.push_back(payload);
    }

    /// Removes the payloads that build on `parent`.
    pub(super) fn take_children(&mut self, parent: B256) -> Vec<ExecutionData> {
        let builds_on = |payload: &ExecutionData| payload.parent_hash() == parent;
        let (children, others): (Vec<_>, Vec<_>) = self.payloads.drain(..).partition(builds_on);
        self.payloads = others.into();
        children
    }
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

    #[test]
    fn the_oldest_invalid_block_makes_room() {
        let mut invalid = InvalidBlocks::default();
        let hash = |n: usize| B256::from(alloy_primitives::U256::from(n));
        for n in 0..=MAX_INVALID {
            invalid.insert(hash(n), hash(0));
        }
        assert_eq!(invalid.latest_valid(hash(0)), None);
        assert_eq!(invalid.latest_valid(hash(1)), Some(hash(0)));
        assert_eq!(invalid.latest_valid(hash(MAX_INVALID)), Some(hash(0)));
    }
}
