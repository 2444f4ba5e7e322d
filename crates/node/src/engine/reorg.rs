//! Moving the head to another branch, also when blocks of the old chain are in the database.
//!
//! A branch is executed before anything is changed: over the database's state taken back in memory
//! to the block where the chains part. Only a branch that is valid to its end is adopted. Adopting
//! it is one database transaction (when stored blocks leave the chain) and one change of the tree,
//! both under the tree's lock, so that a reader sees the old chain or the new one. A crash leaves
//! the database before or after that transaction: with the old chain, or at the fork.

use super::{
    Engine, EngineError,
    reader::stored_tip,
    tree::{Branch, ExecutedBlock},
    waiting::as_payload,
};
use crate::primitives::BlockNumHash;
use alloy_primitives::B256;
use alloy_rpc_types_engine::{ExecutionData, PayloadStatus};
use state_db::{UnwindProgress, UnwindStage};
use std::sync::Arc;

/// How many stored blocks a fork choice may take out of the database, and how far below its head a
/// side chain is executed. The blocks and the changes of so many are held in memory for a time.
pub(super) const MAX_REORG_DEPTH: u64 = 512;

/// A chain that can become canonical: stored blocks up to `root`, then `blocks`.
pub(super) struct NewChain {
    /// Executed blocks, newest first.
    pub(super) blocks: Vec<Arc<ExecutedBlock>>,
    /// The last stored block of it.
    pub(super) root: BlockNumHash,
}

impl NewChain {
    /// The chain's last block.
    pub(super) fn tip(&self) -> BlockNumHash {
        self.blocks
            .first()
            .map_or(self.root, |block| block.chain_block.num_hash())
    }
}

/// What looking for the chain that ends in a block found.
pub(super) enum Found {
    Chain(NewChain),
    /// A canonical block below the finalized one.
    BelowFinalized,
    /// A block on the way to it, or the block itself, is invalid.
    Invalid(PayloadStatus),
    /// It parts from the canonical chain below the finalized block or beyond the bound.
    TooDeep,
    Unknown,
}

/// The way from a block down to the chain of the database.
pub(super) struct Path {
    /// The stored block it ends in.
    pub(super) root: BlockNumHash,
    /// Blocks on it that have no state in memory, newest first.
    pub(super) unexecuted: Vec<B256>,
}

impl Engine {
    /// Finds the chain that ends in `wanted`, and executes what of it has no state in memory.
    pub(super) fn find_chain(&mut self, wanted: B256) -> Result<Found, EngineError> {
        if let Some(chain) = self.extension(wanted) {
            return Ok(Found::Chain(chain));
        }
        // A reorg must not race the persistence of blocks that it would make non-canonical.
        self.finish_persisting()?;
        if self.is_below_finalized(wanted)? {
            return Ok(Found::BelowFinalized);
        }
        let Some(path) = self.path_to(wanted)? else {
            return Ok(Found::Unknown);
        };
        if !self.is_reachable(path.root.number) {
            return Ok(Found::TooDeep);
        }
        for hash in path.unexecuted.into_iter().rev() {
            if let Some(refused) = self.execute_waiting(hash)? {
                return Ok(Found::Invalid(refused));
            }
        }
        let Branch { blocks, .. } = self.shared.tree().branch(wanted);
        let chain = NewChain {
            blocks,
            root: path.root,
        };
        Ok(if self.leaves_finalized(&chain) {
            Found::TooDeep
        } else {
            Found::Chain(chain)
        })
    }

    /// The chain to `wanted` when that is the head or a block on it: the common case.
    fn extension(&self, wanted: B256) -> Option<NewChain> {
        let tree = self.shared.tree();
        let head = tree.head().hash;
        if wanted != head && tree.block(wanted)?.header().parent_hash != head {
            return None;
        }
        let Branch { blocks, root } = tree.branch(wanted);
        let persisted = tree.persisted().num_hash();
        (root == persisted.hash).then_some(NewChain {
            blocks,
            root: persisted,
        })
    }

    /// Whether the block is canonical and older than the last finalized one.
    fn is_below_finalized(&self, hash: B256) -> Result<bool, EngineError> {
        let (finalized, block) = {
            let tree = self.shared.tree();
            (tree.finalized(), tree.block(hash).cloned())
        };
        let Some(finalized) = finalized else {
            return Ok(false);
        };
        let number = match block {
            Some(block) => {
                let block = block.chain_block.num_hash();
                let canonical = self.shared.tree().is_canonical(block);
                canonical.then_some(block.number)
            }
            None => self.shared.db.view()?.block_number(hash)?,
        };
        Ok(number.is_some_and(|number| number < finalized.number))
    }

    /// Whether blocks may stand on the stored block `number`: not below the finalized block, and
    /// not deeper below the database's head than the bound.
    pub(super) fn is_reachable(&self, number: u64) -> bool {
        let tree = self.shared.tree();
        let persisted = tree.persisted().header.number;
        let finalized = tree.finalized().map_or(0, |block| block.number);
        let depth = persisted.saturating_sub(number);
        number >= finalized.min(persisted) && depth <= MAX_REORG_DEPTH
    }

    /// Whether the finalized block is in memory and not on `chain`.
    fn leaves_finalized(&self, chain: &NewChain) -> bool {
        let tree = self.shared.tree();
        tree.finalized()
            .filter(|finalized| finalized.number > tree.persisted().header.number)
            .is_some_and(|finalized| {
                let mut blocks = chain.blocks.iter();
                !blocks.any(|block| block.hash() == finalized.hash)
            })
    }

    /// The way from `hash` down to the stored chain over blocks and payloads in memory; `None`
    /// when a block on it is unknown.
    pub(super) fn path_to(&self, hash: B256) -> Result<Option<Path>, EngineError> {
        let view = self.shared.db.view()?;
        let tree = self.shared.tree();
        let mut unexecuted = Vec::new();
        let mut next = hash;
        loop {
            if next == tree.persisted().hash {
                let root = tree.persisted().num_hash();
                return Ok(Some(Path { root, unexecuted }));
            } else if let Some(block) = tree.block(next) {
                next = block.header().parent_hash;
            } else if let Some(payload) = self.waiting.get(next) {
                unexecuted.push(next);
                next = payload.parent_hash();
            } else {
                let number = view.block_number(next)?;
                let root = number.map(|number| BlockNumHash { number, hash: next });
                return Ok(root.map(|root| Path { root, unexecuted }));
            }
        }
    }

    /// Executes a waiting payload whose parent's state is available. The answer of one that is not
    /// valid.
    fn execute_waiting(&mut self, hash: B256) -> Result<Option<PayloadStatus>, EngineError> {
        let payload = self.waiting.get(hash).cloned();
        let payload = payload.ok_or(EngineError::StateGone(hash))?;
        let parent = self.shared.state_after(payload.parent_hash())?;
        let parent = parent.ok_or(EngineError::StateGone(payload.parent_hash()))?;
        let status = self.execute_data(payload, &parent)?.status;
        Ok((!status.is_valid()).then_some(status))
    }

    /// Makes `chain` canonical and moves the markers that are given. Whether the head moved.
    pub(super) fn adopt_chain(
        &mut self,
        chain: &NewChain,
        safe: Option<BlockNumHash>,
        finalized: Option<BlockNumHash>,
    ) -> Result<bool, EngineError> {
        let (head, persisted) = {
            let tree = self.shared.tree();
            (tree.head().hash, tree.persisted().num_hash())
        };
        if chain.root == persisted {
            self.shared.tree_mut().adopt(&chain.blocks, safe, finalized);
        } else {
            self.unwind_and_adopt(chain, persisted, safe, finalized)?;
        }
        Ok(chain.tip().hash != head)
    }

    /// Takes the database back to the chain's root, then adopts the chain. The blocks taken out are
    /// kept as payloads, so that the way back works.
    fn unwind_and_adopt(
        &mut self,
        chain: &NewChain,
        persisted: BlockNumHash,
        safe: Option<BlockNumHash>,
        finalized: Option<BlockNumHash>,
    ) -> Result<(), EngineError> {
        let removed = self.stored_payloads(chain.root.number + 1, persisted.number)?;
        let root = stored_tip(&self.shared.db.view()?, chain.root)?;
        {
            // Nobody may read one chain's blocks over the other's database, so the tree is closed while
            // the transaction commits. Until then readers see the chain that is left.
            let mut closed = None;
            let mut close_to_commit = |progress: UnwindProgress| {
                if progress.stage == UnwindStage::Commit {
                    closed = Some(self.shared.tree_mut());
                }
            };
            let unwound = self
                .shared
                .db
                .unwind(chain.root.number, &mut close_to_commit);
            unwound.map_err(EngineError::from)?;
            let mut tree = closed.unwrap_or_else(|| self.shared.tree_mut());
            tree.rewind(root);
            tree.adopt(&chain.blocks, safe, finalized);
        }
        for payload in removed {
            self.waiting.insert(payload, true);
        }
        let lowered = |marker: Option<u64>| marker.map(|number| number.min(chain.root.number));
        let (safe, finalized) = self.persisted_markers;
        self.persisted_markers = (lowered(safe), lowered(finalized));
        self.persisted.send_replace(chain.root);
        tracing::info!(
            target: "engine::tree",
            fork = chain.root.number,
            removed = persisted.number - chain.root.number,
            added = chain.blocks.len(),
            "Reorganised below the database head"
        );
        Ok(())
    }

    /// Stored blocks as payloads. Blocks of the proof-of-work era cannot come as payloads and are
    /// left out.
    fn stored_payloads(&self, first: u64, last: u64) -> Result<Vec<ExecutionData>, EngineError> {
        let view = self.shared.db.view()?;
        let mut payloads = Vec::new();
        for number in first..=last {
            if let Some(block) = view.block(number)?
                && block.header.difficulty.is_zero()
            {
                payloads.push(as_payload(&block));
            }
        }
        Ok(payloads)
    }
}
