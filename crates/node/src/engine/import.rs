//! Whole blocks from a file, of proof of work or proof of stake.
//!
//! Invariant: an imported block becomes the head when it is one of proof of stake, or has more total
//! difficulty behind it than the head; nothing else moves the head.

use super::{
    Engine, EngineError,
    era::Era,
    insert::{Inserted, invalid, links_to_invalid, syncing, valid},
    reorg::Found,
    report,
    tree::Tip,
    validate::Payload,
};
use crate::primitives::Block;
use alloy_primitives::B256;
use alloy_rpc_types_engine::PayloadStatus;

impl Engine {
    /// Validates a block like a payload and extends or changes the canonical chain with it.
    pub(super) fn import_block(&mut self, block: Block) -> Result<PayloadStatus, EngineError> {
        self.ready()?;
        let payload = Payload::of_block(block);
        let (number, hash) = (payload.header.number, payload.hash);
        let inserted = self.insert_block(payload)?;
        report::outcome(
            number,
            hash,
            &inserted.status.status,
            inserted.added.as_ref(),
        );
        if inserted.status.is_valid() {
            self.prefer(hash)?;
        }
        self.after_insert(inserted.added.as_ref());
        Ok(inserted.status)
    }

    fn insert_block(&mut self, mut payload: Payload) -> Result<Inserted, EngineError> {
        let parent_hash = payload.header.parent_hash;
        if self.is_known(payload.hash)? {
            // The hash is that of the header: the body may be another.
            let checked = payload.check_alone();
            let refused = checked.map_err(|problem| invalid(problem.message, None));
            return Ok(refused.err().unwrap_or_else(|| valid(payload.hash)).into());
        }
        if let Some(latest_valid) = self.invalid.latest_valid(parent_hash) {
            return Ok(links_to_invalid(latest_valid).into());
        }
        match self.parent_state(parent_hash)? {
            Some(parent) => self.execute_payload(payload, &parent),
            None => Ok(syncing().into()),
        }
    }

    /// Makes a valid block in memory the head, unless the head is worth more.
    fn prefer(&mut self, hash: B256) -> Result<(), EngineError> {
        let (head, candidate) = {
            let tree = self.shared.tree();
            (tree.head().clone(), tree.block(hash).cloned())
        };
        let Some(candidate) = candidate else {
            return Ok(());
        };
        if self
            .shared
            .tree()
            .is_canonical(candidate.chain_block.num_hash())
        {
            return Ok(());
        }
        let candidate = Tip {
            header: candidate.header().clone(),
            hash,
        };
        let chain = &self.shared.chain;
        if Era::of(chain, &candidate.header) == Era::ProofOfWork {
            let merged =
                head.header.number > 0 && Era::of(chain, &head.header) == Era::ProofOfStake;
            let reader = self.reader();
            let total = self.difficulties.up_to(&reader, &candidate)?;
            if merged || total <= self.difficulties.up_to(&reader, &head)? {
                return Ok(());
            }
        }
        if let Found::Chain(chain) = self.find_chain(hash)? {
            self.adopt_chain(&chain, None, None)?;
        }
        Ok(())
    }
}
