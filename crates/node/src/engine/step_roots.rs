//! State roots between the transactions of a stored block: what receipts name before Byzantium
//! (EIP-658), and what the database does not hold.
//!
//! The block is executed again on its parent's state.

use super::{
    era::{BlockRules, Era},
    execute::{BlockRun, Rewarded, open_state},
    reader::{ChainReader, ReadError},
    root::account_changes,
};
use crate::primitives::ChainBlock;
use alloy_consensus::transaction::Recovered;
use alloy_eips::BlockId;
use alloy_primitives::B256;
use revm::state::EvmState;
use state_db::{DbView, Overlay, OverlaySource};
use state_root::{
    cursor::StateSource,
    reference::{PrefixSets, root_of_prefixes},
    updates::{AccountChange, HashedState, TrieUpdates},
};
use std::sync::{Arc, Mutex, PoisonError};

/// Most changes since the block that are taken back to read the tries of its time.
const MAX_CHANGES: usize = 1_000_000;

impl ChainReader {
    /// The state root after each transaction of a block under proof of work; `None` when its
    /// parent is not in the database, or too much has changed since.
    pub fn step_roots(&self, block: &ChainBlock) -> Result<Option<Vec<B256>>, ReadError> {
        let header = &block.block.header;
        let parent = BlockId::from(header.parent_hash);
        let view = self.shared.db.view()?;
        let (Some(number), Some(state)) = (
            view.block_number(header.parent_hash)?,
            self.state_at(parent)?,
        ) else {
            return Ok(None);
        };
        let Some(back) = view.changes_back_to(number, MAX_CHANGES)? else {
            return Ok(None);
        };
        let changes = Arc::new(Mutex::new(Vec::new()));
        let seen = changes.clone();
        let mut state = open_state(state, move |state: EvmState| {
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.extend(account_changes(state));
        });
        let rules = BlockRules {
            chain: &self.shared.chain,
            era: Era::ProofOfWork,
        };
        let rewarded = Rewarded {
            withdrawals: None,
            ommers: &block.block.ommers,
        };
        let failed = |problem: &dyn std::fmt::Display| ReadError(problem.to_string());
        let mut run = BlockRun::start(rules, header, rewarded, &mut state)
            .map_err(|problem| failed(&problem))?;
        let signed = block.block.transactions.iter().zip(&block.block.senders);
        let mut roots = Vec::with_capacity(block.block.transactions.len());
        for (transaction, sender) in signed {
            let transaction = Recovered::new_unchecked(transaction.clone(), *sender);
            run.transact(&transaction)
                .map_err(|problem| failed(&problem))?;
            let changes = changes.lock().unwrap_or_else(PoisonError::into_inner);
            roots.push(self.root_over(&view, &back, &changes)?);
        }
        Ok(Some(roots))
    }

    /// The root after `changes` over the head's state with `back` taken back.
    fn root_over(
        &self,
        view: &DbView,
        back: &HashedState,
        changes: &[AccountChange],
    ) -> Result<B256, ReadError> {
        let failed = |problem: state_root::cursor::CursorError| ReadError(problem.to_string());
        let head = view.head()?.map(|head| head.hash).unwrap_or_default();
        let hashed = HashedState::from_changes(changes);
        let unchanged = Arc::<TrieUpdates>::default();
        let mut prefixes = PrefixSets::from(back);
        let newer = PrefixSets::from(&hashed);
        prefixes.accounts.extend(newer.accounts);
        for (address, storage) in newer.storages {
            let prefixes = prefixes.storages.entry(address).or_default();
            prefixes.wiped |= storage.wiped;
            prefixes.slots.extend(storage.slots);
        }
        let overlay = Overlay::default()
            .extend(back.clone(), unchanged.clone())
            .extend(hashed, unchanged);
        let source = OverlaySource::new(self.shared.db.clone(), Arc::new(overlay), [head].into());
        let tries = source.open().map_err(failed)?;
        let (root, _) = root_of_prefixes(&tries, &prefixes).map_err(failed)?;
        Ok(root)
    }
}
