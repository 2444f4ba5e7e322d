//! Fork choice: which known block is the head, and which are safe and finalized.
//!
//! Source: execution-apis, `engine/paris.md` (engine_forkchoiceUpdatedV1). A head that is an
//! ancestor of the present one moves the head back, unless it lies below the finalized block.

use super::{
    Engine, EngineError,
    builder::{self, BuildRequest},
    handle::ForkchoiceError,
    insert::{links_to_invalid, syncing, valid},
    reorg::{Found, NewChain},
    report,
    tree::Tip,
};
use crate::primitives::BlockNumHash;
use alloy_primitives::B256;
use alloy_rpc_types_engine::{
    ForkchoiceState, ForkchoiceUpdated, PayloadAttributes, PayloadStatus,
};
use std::time::Instant;

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
        let chain = match self.find_chain(wanted)? {
            Found::Chain(chain) => chain,
            Found::BelowFinalized => return Ok(ForkchoiceUpdated::new(valid(wanted))),
            Found::Invalid(status) => return Ok(ForkchoiceUpdated::new(status)),
            Found::Unknown => return Ok(ForkchoiceUpdated::new(syncing())),
            Found::TooDeep => return Err(ForkchoiceError::TooDeepReorg),
        };
        let safe = self.marker(state.safe_block_hash, &chain)?;
        let finalized = self.marker(state.finalized_block_hash, &chain)?;
        if self.moves_both_markers(safe, finalized) {
            follow_up.forkchoice = Some(state);
        }
        let moved = self.adopt_chain(&chain, safe, finalized)?;
        let head = self.shared.tree().head().clone();
        if moved {
            follow_up.committed = Some((head.num_hash(), start.elapsed()));
        }
        self.answer_attributes(&head, attributes, follow_up)
    }

    /// The block a safe or finalized hash names; zero names none. It must be on the chain of the
    /// new head.
    fn marker(
        &self,
        hash: B256,
        chain: &NewChain,
    ) -> Result<Option<BlockNumHash>, ForkchoiceError> {
        if hash.is_zero() {
            return Ok(None);
        }
        if let Some(block) = chain.blocks.iter().find(|block| block.hash() == hash) {
            return Ok(Some(block.chain_block.num_hash()));
        }
        let view = self.shared.db.view().map_err(EngineError::from)?;
        let number = view.block_number(hash).map_err(EngineError::from)?;
        let number = number
            .filter(|number| *number <= chain.root.number)
            .ok_or(ForkchoiceError::InvalidState)?;
        Ok(Some(BlockNumHash { number, hash }))
    }

    fn moves_both_markers(
        &self,
        safe: Option<BlockNumHash>,
        finalized: Option<BlockNumHash>,
    ) -> bool {
        let tree = self.shared.tree();
        safe.is_some_and(|safe| tree.safe() != Some(safe))
            && finalized.is_some_and(|finalized| tree.finalized() != Some(finalized))
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
            gas_limit: Some(builder::gas_limit_towards(
                head.header.gas_limit,
                self.config.gas_limit_target,
            )),
        });
        Ok(ForkchoiceUpdated::new(status).with_payload_id(id))
    }
}
