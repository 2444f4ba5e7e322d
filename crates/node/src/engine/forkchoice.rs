//! Fork choice: which known block is the head, and which are safe and finalized.

use super::{
    Engine, EngineError,
    builder::{self, BuildRequest},
    handle::ForkchoiceError,
    insert::{links_to_invalid, syncing, valid},
    report,
    tree::{ExecutedBlock, Tip},
};
use crate::primitives::BlockNumHash;
use alloy_primitives::B256;
use alloy_rpc_types_engine::{
    ForkchoiceState, ForkchoiceUpdated, PayloadAttributes, PayloadStatus,
};
use std::{sync::Arc, time::Instant};

/// An answered fork choice: what is left to do once the caller has its answer.
#[derive(Default)]
pub(super) struct FollowUp {
    committed: Option<(BlockNumHash, std::time::Duration)>,
    forkchoice: Option<ForkchoiceState>,
    build: Option<BuildRequest>,
}

impl FollowUp {
    pub(super) fn log(&self) {
        if let Some((block, elapsed)) = self.committed {
            report::committed(block.number, block.hash, elapsed);
        }
        if let Some(state) = self.forkchoice {
            report::forkchoice(
                state.head_block_hash,
                state.safe_block_hash,
                state.finalized_block_hash,
            );
        }
    }

    pub(super) fn into_build(self) -> Option<BuildRequest> {
        self.build
    }
}

/// Where the wanted head is.
enum Head {
    /// In memory (or the database head): its branch, newest first.
    Branch(Vec<Arc<ExecutedBlock>>),
    /// Below the head of the canonical chain.
    Ancestor,
    Unknown,
}

impl Engine {
    /// Applies a fork choice. The second part is for after the answer.
    pub(super) fn update_forkchoice(
        &mut self,
        state: ForkchoiceState,
        attributes: Option<PayloadAttributes>,
    ) -> (Result<ForkchoiceUpdated, ForkchoiceError>, FollowUp) {
        let mut follow_up = FollowUp::default();
        let result = self.apply_forkchoice(state, attributes, &mut follow_up);
        (result, follow_up)
    }

    fn apply_forkchoice(
        &mut self,
        state: ForkchoiceState,
        attributes: Option<PayloadAttributes>,
        follow_up: &mut FollowUp,
    ) -> Result<ForkchoiceUpdated, ForkchoiceError> {
        let start = Instant::now();
        let wanted = state.head_block_hash;
        if wanted.is_zero() {
            return Err(ForkchoiceError::InvalidState);
        }
        if let Some(latest_valid) = self.invalid.latest_valid(wanted) {
            return Ok(ForkchoiceUpdated::new(links_to_invalid(latest_valid)));
        }
        let branch = match self.find_head(wanted)? {
            Head::Branch(branch) => branch,
            Head::Ancestor => return Ok(ForkchoiceUpdated::new(valid(wanted))),
            Head::Unknown => return Ok(ForkchoiceUpdated::new(syncing())),
        };
        let safe = self.marker(state.safe_block_hash, &branch)?;
        let finalized = self.marker(state.finalized_block_hash, &branch)?;
        let moved = self.set_head(&branch);
        if self.set_markers(safe, finalized) {
            follow_up.forkchoice = Some(state);
        }
        let head = self.shared.tree().head().clone();
        if moved {
            follow_up.committed = Some((head.num_hash(), start.elapsed()));
        }
        self.answer_attributes(&head, attributes, follow_up)
    }

    fn find_head(&mut self, wanted: B256) -> Result<Head, EngineError> {
        let tree = self.shared.tree();
        let head = tree.head().hash;
        let in_memory = tree.block(wanted).cloned();
        let is_extension = wanted == head
            || in_memory
                .as_ref()
                .is_some_and(|block| block.header().parent_hash == head);
        let canonical =
            in_memory.is_some_and(|block| tree.is_canonical(block.chain_block.num_hash()));
        drop(tree);
        if canonical && wanted != head {
            return Ok(Head::Ancestor);
        }
        if !is_extension {
            // A reorg must not race a save of blocks that it would make non-canonical.
            self.settle_save()?;
        }
        if let Some(branch) = self.shared.tree().branch(wanted)
            && (!branch.is_empty() || wanted == self.shared.tree().head().hash)
        {
            return Ok(Head::Branch(branch));
        }
        let stored = self.shared.db.view()?.block_number(wanted)?.is_some();
        Ok(if stored {
            Head::Ancestor
        } else {
            Head::Unknown
        })
    }

    /// The block a safe or finalized hash names; zero names none. It must be on the branch of the
    /// new head.
    fn marker(
        &self,
        hash: B256,
        branch: &[Arc<ExecutedBlock>],
    ) -> Result<Option<BlockNumHash>, ForkchoiceError> {
        if hash.is_zero() {
            return Ok(None);
        }
        if let Some(block) = branch.iter().find(|block| block.hash() == hash) {
            return Ok(Some(block.chain_block.num_hash()));
        }
        let view = self.shared.db.view().map_err(EngineError::from)?;
        let number = view.block_number(hash).map_err(EngineError::from)?;
        let number = number.ok_or(ForkchoiceError::InvalidState)?;
        Ok(Some(BlockNumHash { number, hash }))
    }

    /// Makes the branch canonical. Whether the head moved.
    fn set_head(&mut self, branch: &[Arc<ExecutedBlock>]) -> bool {
        let mut tree = self.shared.tree_mut();
        let before = tree.head().hash;
        tree.set_canonical(branch);
        tree.head().hash != before
    }

    /// Sets the markers a fork choice named. Whether both changed.
    fn set_markers(&mut self, safe: Option<BlockNumHash>, finalized: Option<BlockNumHash>) -> bool {
        let mut tree = self.shared.tree_mut();
        let changed = safe != tree.safe && finalized != tree.finalized;
        tree.safe = safe.or(tree.safe);
        tree.finalized = finalized.or(tree.finalized);
        changed && safe.is_some() && finalized.is_some()
    }

    /// The answer for a valid head, with a payload id when attributes ask for a payload.
    fn answer_attributes(
        &mut self,
        head: &Tip,
        attributes: Option<PayloadAttributes>,
        follow_up: &mut FollowUp,
    ) -> Result<ForkchoiceUpdated, ForkchoiceError> {
        let status: PayloadStatus = valid(head.hash);
        let Some(attributes) = attributes else {
            return Ok(ForkchoiceUpdated::new(status));
        };
        builder::check_attributes(&self.shared.chain, &head.header, &attributes)
            .map_err(|error| ForkchoiceError::InvalidAttributes(error.to_string()))?;
        let id = builder::payload_id(head.hash, &attributes);
        follow_up.build = Some(BuildRequest {
            parent_hash: head.hash,
            attributes,
            transactions: None,
            extra_data: None,
            gas_limit: None,
        });
        Ok(ForkchoiceUpdated::new(status).with_payload_id(id))
    }
}
