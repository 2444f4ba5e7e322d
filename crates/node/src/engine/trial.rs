//! Blocks tried out on top of a known block: executed, given their roots, never kept.
//!
//! Each stands on the one before it. Invariant: what a trial block's header says of its execution
//! and of the state after it is what executing it gave, whatever was overridden before it.

use super::{
    constantinople, deposits,
    era::{BlockRules, Era},
    execute::{ExecuteError, Receipts, evm_env},
    proof::{ProofError, Tries},
    reader::{ChainReader, ReadError, StateReader},
    receipts::ReceiptSummary,
    root::account_changes,
};
use crate::chainspec::ChainSpec;
use alloy_consensus::{Header, TxType};
use alloy_eips::{
    BlockId, eip4895::Withdrawals, eip7002::WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS,
    eip7251::CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS,
};
use alloy_evm::{
    EthEvm, EthEvmFactory, Evm, EvmFactory,
    block::{BlockExecutionError, BlockExecutor},
    eth::{
        EthBlockExecutionCtx, EthBlockExecutor, EthEvmContext, EthTxResult,
        spec::EthExecutorSpec as _,
    },
    precompiles::PrecompilesMap,
};
use alloy_hardforks::EthereumHardforks;
use alloy_primitives::B256;
use revm::{
    Database, Inspector,
    context::result::{HaltReason, ResultAndState},
    database::{State, WrapDatabaseRef},
    state::EvmState,
};
use state_db::{Overlay, OverlayView};
use state_root::{
    reference::{PrefixSets, root_of_prefixes},
    updates::{AccountChange, HashedState, TrieUpdates},
};
use std::sync::{Arc, Mutex, PoisonError};

/// The state in which trial blocks run: what they changed, over the state they began with.
pub type TrialState = State<WrapDatabaseRef<StateReader>>;
/// The EVM of a trial block.
pub type TrialEvm<'a, I> = EthEvm<&'a mut TrialState, I, PrecompilesMap>;

/// Why a trial block could not be executed.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// The block breaks a rule that no execution can mend.
    #[error("{0}")]
    Invalid(String),
    /// Stored data could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The tries under the trial blocks could not be read.
    #[error(transparent)]
    Proof(#[from] ProofError),
}

impl From<ExecuteError> for TrialError {
    fn from(error: ExecuteError) -> Self {
        match error {
            ExecuteError::Invalid(reason) => Self::Invalid(reason),
            ExecuteError::Read(error) => Self::Read(error),
        }
    }
}

impl From<BlockExecutionError> for TrialError {
    fn from(error: BlockExecutionError) -> Self {
        ExecuteError::from(error).into()
    }
}

/// A run of trial blocks on one known block.
pub struct Trial {
    chain: Arc<ChainSpec>,
    state: TrialState,
    roots: Roots,
}

impl ChainReader {
    /// Begins a run of trial blocks on the block `hash`; `None` when there is no such block.
    ///
    /// # Errors
    /// When too much has changed since the block, or on failed reads.
    pub fn trial(&self, hash: B256) -> Result<Option<Trial>, ProofError> {
        let (Some(state), Some(tries)) =
            (self.state_at(BlockId::from(hash))?, self.tries_after(hash)?)
        else {
            return Ok(None);
        };
        let roots = Roots::new(tries);
        let changes = roots.changes.clone();
        let hook = move |state: EvmState| {
            let mut changes = changes.lock().unwrap_or_else(PoisonError::into_inner);
            changes.extend(account_changes(state));
        };
        let state = State::builder().with_database_ref(state).build();
        Ok(Some(Trial {
            chain: self.chain_spec().clone(),
            state: state.with_state_hook(Some(Box::new(hook))),
            roots,
        }))
    }
}

impl Trial {
    /// The state after the last trial block. What is committed to it counts for the next one.
    pub fn state_mut(&mut self) -> &mut TrialState {
        &mut self.state
    }

    /// Makes the last trial block known to `BLOCKHASH`.
    pub fn name(&mut self, number: u64, hash: B256) {
        self.state.block_hashes.insert(number, hash);
    }

    /// Begins the block of `header` with its system calls.
    pub fn begin<'a, I>(
        &'a mut self,
        header: &Header,
        withdrawals: Option<&'a Withdrawals>,
        inspector: I,
    ) -> Result<TrialBlock<'a, I>, TrialError>
    where
        I: Inspector<EthEvmContext<&'a mut TrialState>>,
    {
        let Self {
            chain,
            state,
            roots,
        } = self;
        let rules = BlockRules {
            chain,
            era: Era::of(chain, header),
        };
        let env = evm_env(rules, header);
        let mut evm = EthEvmFactory::default().create_evm_with_inspector(state, env, inspector);
        if constantinople::is_active(chain, header.number) {
            evm = constantinople::adapt_evm(evm, true);
        }
        let context = EthBlockExecutionCtx {
            parent_hash: header.parent_hash,
            parent_beacon_block_root: header.parent_beacon_block_root,
            ommers: &[],
            withdrawals: withdrawals.map(|list| list.as_slice().into()),
            extra_data: header.extra_data.clone(),
            tx_count_hint: None,
            slot_number: None,
        };
        let mut executor = EthBlockExecutor::new(evm, context, rules, Receipts);
        executor.apply_pre_execution_changes()?;
        Ok(TrialBlock {
            chain,
            executor,
            roots,
            step_roots: Vec::new(),
        })
    }
}

/// A trial block being executed.
pub struct TrialBlock<'a, I> {
    chain: &'a ChainSpec,
    executor: EthBlockExecutor<'a, TrialEvm<'a, I>, BlockRules<'a>, Receipts>,
    roots: &'a mut Roots,
    /// State roots after each message, where receipts name them (before EIP-658).
    step_roots: Vec<B256>,
}

impl<'a, I: Inspector<EthEvmContext<&'a mut TrialState>>> TrialBlock<'a, I> {
    /// The EVM in which the block's messages run. What they change has to be committed.
    pub fn evm(&mut self) -> &mut TrialEvm<'a, I> {
        &mut self.executor.evm
    }

    /// Gas of the messages committed so far.
    pub fn gas_used(&self) -> u64 {
        self.executor.cumulative_tx_gas_used
    }

    /// Commits what a message changed, and writes its receipt.
    pub fn commit(
        &mut self,
        tx_type: TxType,
        result: ResultAndState<HaltReason>,
        blob_gas_used: u64,
    ) -> Result<(), TrialError> {
        self.executor.commit_transaction(EthTxResult {
            result,
            blob_gas_used,
            tx_type,
        });
        let number = self.executor.evm.block.number.saturating_to();
        if !self.chain.is_byzantium_active_at_block(number) {
            self.step_roots.push(self.roots.advance()?);
        }
        Ok(())
    }

    /// Ends the block: system calls, withdrawals, rewards. Fills in everything in `header` that
    /// follows from execution.
    pub fn finish(mut self, header: &mut Header) -> Result<(), TrialError> {
        let prague = self.chain.is_prague_active_at_timestamp(header.timestamp);
        if prague {
            self.require_request_contracts()?;
        }
        let (_, executed) = self.executor.finish()?;
        if prague && let Some(contract) = self.chain.deposit_contract_address() {
            deposits::check(&executed.receipts, contract)?;
        }
        let summary = if self.step_roots.is_empty() {
            ReceiptSummary::of(&executed.receipts)
        } else {
            ReceiptSummary::with_state_roots(&executed.receipts, &self.step_roots)
        };
        header.state_root = self.roots.advance()?;
        header.receipts_root = summary.root;
        header.logs_bloom = summary.bloom;
        header.gas_used = executed.gas_used;
        header.requests_hash = prague.then(|| executed.requests.requests_hash());
        if self.chain.is_cancun_active_at_timestamp(header.timestamp) {
            header.blob_gas_used = Some(executed.blob_gas_used);
        }
        Ok(())
    }

    /// EIP-7002 and EIP-7251: a block is invalid while a request contract has no code.
    fn require_request_contracts(&mut self) -> Result<(), TrialError> {
        for address in [
            WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS,
            CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS,
        ] {
            let account = self.executor.evm.db_mut().basic(address);
            let account = account.map_err(|error| ReadError(error.to_string()))?;
            if account.is_none_or(|account| account.is_empty_code_hash()) {
                let problem = format!("system contract {address} has no code");
                return Err(TrialError::Invalid(problem));
            }
        }
        Ok(())
    }
}

/// State roots of a run of trial blocks, each computed over the tries of the one before it.
struct Roots {
    /// The tries, with everything up to the last root on top.
    view: OverlayView,
    /// Keys in which the view's leaves differ from its branches.
    stale: PrefixSets,
    /// What was committed since the last root.
    changes: Arc<Mutex<Vec<AccountChange>>>,
}

impl Roots {
    fn new(tries: Tries) -> Self {
        let (view, stale) = match tries {
            Tries::Overlaid(view) => (view, PrefixSets::default()),
            Tries::TakenBack(view, back) => {
                let stale = PrefixSets::from(&back);
                let overlay = Overlay::default().extend(back, TrieUpdates::default());
                (OverlayView::new(view, Arc::new(overlay)), stale)
            }
        };
        Self {
            view,
            stale,
            changes: Arc::default(),
        }
    }

    /// The root after everything committed so far.
    fn advance(&mut self) -> Result<B256, ProofError> {
        let mut changes = {
            let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *changes)
        };
        for change in &mut changes {
            // An override can leave an empty account with storage, which goes with the account.
            change.storage_wiped |= change.account.is_none();
        }
        let hashed = HashedState::from_changes(&changes);
        join(&mut self.stale, PrefixSets::from(&hashed));
        let leaves = self.view.overlay().extend(hashed, TrieUpdates::default());
        self.view.set_overlay(Arc::new(leaves));
        let (root, branches) = root_of_prefixes(&self.view, &self.stale)?;
        let whole = self.view.overlay().extend(HashedState::default(), branches);
        self.view.set_overlay(Arc::new(whole));
        self.stale = PrefixSets::default();
        Ok(root)
    }
}

/// Adds `newer` to `prefixes`.
fn join(prefixes: &mut PrefixSets, newer: PrefixSets) {
    prefixes.accounts.extend(newer.accounts);
    for (address, storage) in newer.storages {
        let prefixes = prefixes.storages.entry(address).or_default();
        prefixes.wiped |= storage.wiped;
        prefixes.slots.extend(storage.slots);
    }
}
