//! What happened to the canonical chain between two heads: blocks that left it, blocks that came.
//!
//! Nothing is recorded while the chain moves: the way is found when somebody asks, from the blocks
//! that are still known. A block that left and has been forgotten since is not reported.

use super::Answer;
use crate::{
    primitives::{BlockNumHash, ChainBlock},
    rpc::{Context, error::from_read},
};
use alloy_primitives::B256;
use std::{ops::RangeInclusive, sync::Arc};

/// The way from one head to another.
pub(super) struct Way {
    /// Blocks that are no longer canonical, newest first.
    pub(super) left: Vec<Arc<ChainBlock>>,
    /// Numbers of the blocks that have become canonical; empty when the chain only got shorter.
    pub(super) came: RangeInclusive<u64>,
}

/// The way from the head `from` to the head `to`.
pub(super) fn way(context: &Context, from: BlockNumHash, to: BlockNumHash) -> Answer<Way> {
    let mut left = Vec::new();
    let mut at = from;
    while !context.chain.is_canonical(at).map_err(from_read)? {
        let block = context.chain.block_by_hash(at.hash).map_err(from_read)?;
        // Without the block, what it was built on is unknown; it replaced at most itself.
        let parent: Option<B256> = block.as_ref().map(|block| block.block.header.parent_hash);
        left.extend(block);
        let Some(number) = at.number.checked_sub(1) else {
            break;
        };
        at.number = number;
        match parent {
            Some(hash) => at.hash = hash,
            None => break,
        }
    }
    Ok(Way {
        left,
        came: at.number.saturating_add(1)..=to.number,
    })
}

/// The canonical block `number`, unless the chain has moved below it meanwhile.
pub(super) fn block(context: &Context, number: u64) -> Answer<Option<Arc<ChainBlock>>> {
    context.chain.block_by_number(number).map_err(from_read)
}
