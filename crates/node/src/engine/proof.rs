//! Merkle proofs of the state after a block.
//!
//! Blocks in memory are proven over the layers they add to the database. Older blocks are proven by
//! taking back, in memory, everything that changed since, which is why the past is limited.

use super::{
    EngineError,
    reader::{ChainReader, ReadError},
};
use alloy_primitives::{
    B256,
    map::{B256Map, B256Set},
};
use state_db::{DbView, OverlaySource, OverlayView};
use state_root::{
    cursor::{CursorError, StateSource},
    reference::{MultiProof, multi_proof},
    updates::HashedState,
};

/// How often a state is looked up anew when persistence keeps overtaking the lookup.
const MAX_STATE_LOOKUPS: usize = 16;
/// How long a lookup waits after one that persistence has overtaken.
const STATE_LOOKUP_PAUSE: std::time::Duration = std::time::Duration::from_millis(5);

/// Most changes that are taken back for one proof: about 200 MB while it is made.
const MAX_CHANGES: usize = 1_000_000;

/// Why a proof could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ProofError {
    /// Stored data could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A trie could not be read.
    #[error(transparent)]
    Trie(#[from] CursorError),
    /// Too much has changed since the block.
    #[error(
        "prove the state of block {block}: more than {MAX_CHANGES} accounts and slots were changed \
         between it and block {head}"
    )]
    TooOld {
        /// The block.
        block: u64,
        /// The last block in the database.
        head: u64,
    },
}

/// The tries of the state after a block.
pub(super) enum Tries {
    /// The database's, under what the blocks in memory changed.
    Overlaid(OverlayView),
    /// The database's, and what takes its leaves back to the block.
    TakenBack(DbView, HashedState),
}

impl ChainReader {
    /// Proofs of `targets` (slots by account, all hashed) in the state after the block `hash`;
    /// `None` when there is no such block.
    pub fn multi_proof(
        &self,
        hash: B256,
        targets: &B256Map<B256Set>,
    ) -> Result<Option<MultiProof>, ProofError> {
        let proof = match self.tries_after(hash)? {
            None => return Ok(None),
            Some(Tries::Overlaid(view)) => multi_proof(&view, &HashedState::default(), targets),
            Some(Tries::TakenBack(view, changes)) => multi_proof(&view, &changes, targets),
        };
        Ok(Some(proof?))
    }

    /// The tries of the state after the block `hash`; `None` when there is no such block.
    pub(super) fn tries_after(&self, hash: B256) -> Result<Option<Tries>, ProofError> {
        for lookup in 0..MAX_STATE_LOOKUPS {
            if lookup > 0 {
                // The engine takes note of a batch soon after it is in the database.
                std::thread::sleep(STATE_LOOKUP_PAUSE);
            }
            let state = self.shared.state_after(hash)?;
            let Some(state) =
                state.filter(|state| state.fork.is_none() || !state.layers.is_empty())
            else {
                return self.stored_tries(hash);
            };
            let db = &self.shared.db;
            let overlay = match state.overlay(db) {
                Ok(overlay) => overlay,
                Err(EngineError::StateGone(_)) => continue,
                Err(problem) => return Err(ReadError(problem.to_string()).into()),
            };
            match OverlaySource::new(db.clone(), overlay, state.ancestors()).open() {
                Ok(view) => return Ok(Some(Tries::Overlaid(view))),
                Err(CursorError::StateGone(_)) => {}
                Err(problem) => return Err(problem.into()),
            }
        }
        Err(ReadError("persistence kept overtaking the lookup".into()).into())
    }

    fn stored_tries(&self, hash: B256) -> Result<Option<Tries>, ProofError> {
        let view = self.shared.db.view().map_err(ReadError::from)?;
        let Some(block) = view.block_number(hash).map_err(ReadError::from)? else {
            return Ok(None);
        };
        let changes = view.changes_back_to(block, MAX_CHANGES);
        let Some(changes) = changes.map_err(ReadError::from)? else {
            let head = view.head().map_err(ReadError::from)?;
            let head = head.map_or(block, |head| head.number);
            return Err(ProofError::TooOld { block, head });
        };
        Ok(Some(Tries::TakenBack(view, changes)))
    }
}
