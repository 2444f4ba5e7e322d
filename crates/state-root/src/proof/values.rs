//! What the leaves of a proof hold, given what the database stores for them.

use crate::{error::RootError, sparse::LeafValue};
use alloy_primitives::{B256, U256};

/// Makes the values of leaves.
pub(crate) trait LeafValues {
    /// What a cursor reads.
    type Stored;
    /// What the trie holds.
    type Value: LeafValue;
    /// The value, from which the leaf can be encoded.
    fn complete(&mut self, key: &B256, stored: &Self::Stored) -> Result<Self::Value, RootError>;
    /// The value of a target that is not encoded now. What costs much and is certain to be
    /// replaced before it is may be left out.
    fn of_target(&mut self, key: &B256, stored: &Self::Stored) -> Result<Self::Value, RootError>;
}

/// Slots are stored as they are.
pub(crate) struct SlotValues;

impl LeafValues for SlotValues {
    type Stored = U256;
    type Value = U256;

    fn complete(&mut self, _: &B256, stored: &U256) -> Result<U256, RootError> {
        Ok(*stored)
    }

    fn of_target(&mut self, _: &B256, stored: &U256) -> Result<U256, RootError> {
        Ok(*stored)
    }
}
