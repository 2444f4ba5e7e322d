//! What happens to a payload: known, refused, kept for later, or executed and added to the tree.
//!
//! Source: execution-apis, `engine/paris.md` (engine_newPayloadV1, "Payload validation"). Whatever
//! the answer, a payload that is not the block it says it is says nothing about that block.

use super::{
    Engine, EngineError,
    beside::beside,
    era::{self, BlockRules, Era},
    execute::{BlockRun, BlockState, ExecuteError, Executed, Rewarded, open_state, take_changes},
    reader::ChainReader,
    receipts::{ReceiptStream, ReceiptSummary},
    report::{Added, RootReport},
    root::{BlockRoot, StepRoots},
    senders::{SenderStream, SignatureRules},
    state_cache::CachedState,
    tree::{ExecutedBlock, ParentState},
    validate::{self, Blame, Invalid, Payload},
    waiting::as_payload,
};
use crate::{
    primitives::{ChainBlock, Receipt, StoredBlock, TransactionSigned},
    telemetry::{BlockTimes, ExecutionTimes},
};
use alloy_consensus::proofs::ordered_trie_root_encoded;
use alloy_hardforks::EthereumHardforks;
use alloy_primitives::{Address, B256};
use alloy_rpc_types_engine::{ExecutionData, PayloadStatus, PayloadStatusEnum};
use crossbeam_channel::Receiver;
use std::{sync::Arc, time::Instant};
use tracing::debug_span;

/// The answer to a payload and what there is to log about it.
pub(super) struct Inserted {
    pub(super) status: PayloadStatus,
    pub(super) added: Option<Added>,
}

impl From<PayloadStatus> for Inserted {
    fn from(status: PayloadStatus) -> Self {
        Self {
            status,
            added: None,
        }
    }
}

/// Why a block was not added.
enum Failure {
    Invalid(Invalid),
    Engine(EngineError),
}

impl From<Invalid> for Failure {
    fn from(invalid: Invalid) -> Self {
        Self::Invalid(invalid)
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        Self::Engine(error)
    }
}

impl From<ExecuteError> for Failure {
    fn from(error: ExecuteError) -> Self {
        match error {
            ExecuteError::Invalid(message) => Self::Invalid(Invalid::block(message)),
            ExecuteError::Read(error) => Self::Engine(error.into()),
        }
    }
}

/// A block that passed every check.
struct Validated {
    block: ExecutedBlock,
    root: RootReport,
    times: BlockTimes,
}

/// What spans of a block's validation belong to, as in reth.
pub(super) const TARGET: &str = "engine::tree::payload_validator";

/// Transactions and senders of a block, as they come out of execution.
type Signed = (Vec<TransactionSigned>, Vec<Address>);

pub(super) fn valid(hash: B256) -> PayloadStatus {
    PayloadStatus::new(PayloadStatusEnum::Valid, Some(hash))
}

pub(super) fn syncing() -> PayloadStatus {
    PayloadStatus::from_status(PayloadStatusEnum::Syncing)
}

pub(super) fn invalid(message: impl Into<String>, latest_valid: Option<B256>) -> PayloadStatus {
    let status = PayloadStatusEnum::Invalid {
        validation_error: message.into(),
    };
    PayloadStatus::new(status, latest_valid)
}

pub(super) fn links_to_invalid(latest_valid: B256) -> PayloadStatus {
    invalid("links to previously rejected block", Some(latest_valid))
}

/// What a payload's status is without looking at the chain: whether it is the block it says it is.
fn check_alone(data: &ExecutionData) -> Result<(), PayloadStatus> {
    Payload::new(data.clone())
        .and_then(|mut payload| payload.check_alone())
        .map_err(|problem| invalid(problem.message, None))
}

impl Engine {
    /// Decides about one payload.
    pub(super) fn insert_payload(&mut self, data: ExecutionData) -> Result<Inserted, EngineError> {
        let hash = data.block_hash();
        let parent_hash = data.parent_hash();
        if self.is_known(hash)? {
            return Ok(check_alone(&data)
                .err()
                .unwrap_or_else(|| valid(hash))
                .into());
        }
        let invalid_ancestor = self
            .invalid
            .latest_valid(hash)
            .or_else(|| self.invalid.latest_valid(parent_hash));
        if let Some(latest_valid) = invalid_ancestor {
            if let Err(status) = check_alone(&data) {
                return Ok(status.into());
            }
            self.note_invalid(hash, latest_valid);
            return Ok(links_to_invalid(latest_valid).into());
        }
        match self.parent_state(parent_hash)? {
            Some(parent) => self.execute_data(data, &parent),
            None => self.keep_payload(data),
        }
    }

    /// Whether the block is known to be valid: in memory, in the database, or taken out of it.
    pub(super) fn is_known(&self, hash: B256) -> Result<bool, EngineError> {
        if self.shared.tree().block(hash).is_some() || self.waiting.is_validated(hash) {
            return Ok(true);
        }
        Ok(self.shared.db.view()?.block_number(hash)?.is_some())
    }

    /// How to read the state a block is executed on, when it is executed now: on any block in
    /// memory, and on stored blocks that a fork choice may go back to.
    pub(super) fn parent_state(&mut self, hash: B256) -> Result<Option<ParentState>, EngineError> {
        if hash != self.shared.tree().head().hash {
            // A batch under way decides over which database side chains are read.
            self.finish_persisting()?;
        }
        let state = self.shared.state_after(hash)?;
        Ok(state.filter(|state| state.fork.is_none_or(|fork| self.is_reachable(fork))))
    }

    /// A payload that cannot be executed now: an ancestor is unknown, or has no state in memory.
    fn keep_payload(&mut self, data: ExecutionData) -> Result<Inserted, EngineError> {
        if let Err(status) = check_alone(&data) {
            return Ok(status.into());
        }
        let ancestors_known = self.path_to(data.parent_hash())?.is_some();
        self.waiting.insert(data, false);
        Ok(if ancestors_known {
            PayloadStatus::from_status(PayloadStatusEnum::Accepted).into()
        } else {
            syncing().into()
        })
    }

    /// Executes a payload whose parent's state is available.
    pub(super) fn execute_data(
        &mut self,
        data: ExecutionData,
        parent: &ParentState,
    ) -> Result<Inserted, EngineError> {
        match Payload::new(data) {
            Ok(payload) => self.execute_payload(payload, parent),
            Err(problem) => {
                let latest_valid = self.latest_valid_on(parent);
                Ok(invalid(problem.message, Some(latest_valid)).into())
            }
        }
    }

    /// Executes a block on `parent` and adds it to the tree when it is valid.
    pub(super) fn execute_payload(
        &mut self,
        mut payload: Payload,
        parent: &ParentState,
    ) -> Result<Inserted, EngineError> {
        self.check_unsaved()?;
        let start = Instant::now();
        let reader = self.reader();
        let era = self.difficulties.era_after(&reader, &parent.tip)?;
        match self.validate(&mut payload, parent, era) {
            Ok(validated) => {
                let block = Arc::new(validated.block);
                let canonical = parent.tip.hash == self.shared.tree().head().hash;
                self.add_block(&block);
                let added = Added {
                    block,
                    canonical,
                    root: validated.root,
                    times: validated.times,
                    elapsed: start.elapsed(),
                };
                Ok(Inserted {
                    status: valid(payload.hash),
                    added: Some(added),
                })
            }
            Err(Failure::Engine(error)) => Err(error),
            Err(Failure::Invalid(problem)) => Ok(self.refuse(payload, parent, problem).into()),
        }
    }

    /// Keeps an executed block, within the bounds on side chains: children of the head are among them until one
    /// of them is made the head.
    fn add_block(&mut self, block: &Arc<ExecutedBlock>) {
        let hash = block.hash();
        self.waiting.remove(hash);
        let evicted = {
            let mut tree = self.shared.tree_mut();
            tree.insert(block.clone());
            tree.evict(hash)
        };
        for block in evicted {
            self.waiting
                .insert(as_payload(&block.chain_block.block), true);
        }
    }

    fn refuse(
        &mut self,
        mut payload: Payload,
        parent: &ParentState,
        problem: Invalid,
    ) -> PayloadStatus {
        let problem = payload.check_alone().err().unwrap_or(problem);
        let latest_valid = self.latest_valid_on(parent);
        match problem.blame {
            Blame::Payload => invalid(problem.message, None),
            Blame::Encoding => {
                self.note_invalid(payload.hash, latest_valid);
                invalid(problem.message, None)
            }
            Blame::Block => {
                self.note_invalid(payload.hash, latest_valid);
                invalid(problem.message, Some(latest_valid))
            }
        }
    }

    /// The last valid ancestor of an invalid child of `parent`. No hash of proof of work is named
    /// (Engine API, payload validation, point 3).
    fn latest_valid_on(&self, parent: &ParentState) -> B256 {
        match Era::of(&self.shared.chain, &parent.tip.header) {
            Era::ProofOfStake => parent.tip.hash,
            Era::ProofOfWork => B256::ZERO,
        }
    }

    /// Remembers that a block is invalid, and with it everything kept that descends from it.
    fn note_invalid(&mut self, hash: B256, latest_valid: B256) {
        let mut invalid = vec![hash];
        while let Some(hash) = invalid.pop() {
            self.invalid.insert(hash, latest_valid);
            self.waiting.remove(hash);
            let children = self.waiting.children(hash);
            invalid.extend(children.iter().map(ExecutionData::block_hash));
        }
    }

    /// A reader of the chain as the engine thread has it.
    pub(super) fn reader(&self) -> ChainReader {
        ChainReader {
            shared: self.shared.clone(),
        }
    }

    /// Executes a payload on `parent` and checks every field of its header.
    ///
    /// Sender recovery, transactions root, receipts root and state root run beside execution.
    fn validate(
        &mut self,
        payload: &mut Payload,
        parent: &ParentState,
        era: Era,
    ) -> Result<Validated, Failure> {
        let _span =
            debug_span!(target: TARGET, "validate_block_with_state", parent = %parent.tip.hash)
                .entered();
        let mut times = BlockTimes::default();
        let started = Instant::now();
        let held = self.hold_writer();
        let prepare = debug_span!(target: TARGET, "spawn_payload_processor").entered();
        let chain = self.shared.chain.clone();
        let chain = &*chain;
        let rules = BlockRules { chain, era };
        validate::check_header(rules, &payload.header, &parent.tip.header)?;
        if era == Era::ProofOfWork {
            era::check_ommers(&self.reader(), &payload.ommers, &parent.tip)??;
        }
        let encoded = payload.transactions.clone();
        let signatures = SignatureRules::at(chain, payload.header.number);
        let senders = SenderStream::start(encoded, signatures, self.config.sender_recovery);
        let encoded = payload.transactions.clone();
        let transactions_root = beside("transactions_root", move || {
            ordered_trie_root_encoded(&encoded)
        });

        self.await_preparation();
        let root = BlockRoot::start(&self.pool, &self.shared.db, parent)?;
        let (mut state, mut steps) = self.open_block(payload.header.number, parent, &root)?;
        prepare.exit();
        times.prepare = started.elapsed();
        let mut receipts = ReceiptStream::start();
        let mut running = Running {
            rules,
            senders,
            steps: &mut steps,
            receipts: &mut receipts,
            times: &mut times.execution,
        };
        let (executed, signed) = running.run(payload, &mut state)?;
        // With the hook the last changes go to the root, which is hashed beside what follows.
        state.set_state_hook(None);
        let root = root.end()?;
        let receipts = summary(receipts, &executed.receipts, steps);
        let merging = Instant::now();
        let bundle =
            debug_span!(target: TARGET, "merge transitions").in_scope(|| take_changes(state));
        times.bundle = merging.elapsed();
        let (outcome, wait_for_root) = root.wait(self.config.check_state_root)?;
        drop(held);
        (times.root_wait, times.root_total) = (wait_for_root.blocked, wait_for_root.total);

        let checking = Instant::now();
        let _checks = debug_span!(target: TARGET, "validate_post_execution").entered();
        payload.seal(wait(&transactions_root)?)?;
        payload.check_blob_hashes(&signed.0)?;
        validate::check_size(chain, payload)?;
        validate::check_results(&payload.header, &executed, &wait(&receipts)?)?;
        // A strategy that knows no root takes the header's on trust.
        if let Some(root) = outcome.root {
            validate::check_state_root(&payload.header, root)?;
        }
        let chain_block = chain_block(payload, signed, executed.receipts);
        let root = RootReport {
            root: outcome.root,
            counters: outcome.counters,
            elapsed: wait_for_root.blocked,
            after_execution: wait_for_root.after_execution,
        };
        let block = ExecutedBlock::new(
            Arc::new(chain_block),
            bundle,
            outcome.hashed_state,
            outcome.trie_updates,
        );
        times.checks = checking.elapsed();
        Ok(Validated { block, root, times })
    }

    /// What the cache knows of the state after `parent`.
    fn cached_state(&self, parent: &ParentState) -> Option<CachedState> {
        let tip = parent.tip.num_hash();
        let is_head = tip.hash == self.shared.tree().head().hash;
        self.state_cache.as_ref()?.after(tip, is_head)
    }

    /// The state under block `number` on `parent`, whose changes go to `root`, and before Byzantium
    /// to the roots that receipts name as well.
    fn open_block(
        &self,
        number: u64,
        parent: &ParentState,
        root: &BlockRoot,
    ) -> Result<(BlockState, Option<StepRoots>), EngineError> {
        let reader = self.shared.open_state(parent)?;
        let reader = reader.ok_or(EngineError::StateGone(parent.tip.hash))?;
        let reader = reader.with_cache(self.cached_state(parent))?;
        if self.shared.chain.is_byzantium_active_at_block(number) {
            return Ok((open_state(reader, root.hook()), None));
        }
        let steps = StepRoots::new(&self.shared.db, parent);
        let state = open_state(reader, steps.hook(root.hook()));
        Ok((state, Some(steps)))
    }
}

/// The summary of all receipts, of which a stream has seen some: without it where they name state
/// roots.
fn summary(
    stream: ReceiptStream,
    receipts: &[Receipt],
    steps: Option<StepRoots>,
) -> Receiver<ReceiptSummary> {
    let Some(StepRoots { roots, .. }) = steps else {
        return stream.end(receipts);
    };
    let receipts = receipts.to_vec();
    beside("receipt_root", move || {
        ReceiptSummary::with_state_roots(&receipts, &roots)
    })
}

/// The execution of one block's transactions, as their senders become known.
struct Running<'a> {
    rules: BlockRules<'a>,
    senders: SenderStream,
    steps: &'a mut Option<StepRoots>,
    receipts: &'a mut ReceiptStream,
    times: &'a mut ExecutionTimes,
}

impl Running<'_> {
    fn run(
        &mut self,
        payload: &Payload,
        state: &mut BlockState,
    ) -> Result<(Executed, Signed), Failure> {
        let count = payload.transactions.len();
        let _span = debug_span!(target: TARGET, "execute_block", transactions = count).entered();
        let mut signed = (Vec::with_capacity(count), Vec::with_capacity(count));
        let rewarded = Rewarded {
            withdrawals: payload.withdrawals.as_ref(),
            ommers: &payload.ommers,
        };
        let started = Instant::now();
        let mut run = debug_span!(target: TARGET, "pre execution")
            .in_scope(|| BlockRun::start(self.rules, &payload.header, rewarded, state))?;
        let prepared = Instant::now();
        let execution = debug_span!(target: TARGET, "execution").entered();
        for transaction in self.senders.by_ref() {
            let transaction = transaction.map_err(|error| Invalid::block(error.to_string()))?;
            run.transact(&transaction).map_err(ExecuteError::from)?;
            match self.steps {
                None => self.receipts.see(run.receipts()),
                Some(steps) => steps.note()?,
            }
            let (transaction, sender) = transaction.into_parts();
            signed.0.push(transaction);
            signed.1.push(sender);
        }
        execution.exit();
        let executed = Instant::now();
        let result = debug_span!(target: TARGET, "finish").in_scope(|| run.finish())?;
        let sender_wait = self.senders.waited();
        *self.times = ExecutionTimes {
            pre: prepared - started,
            sender_wait,
            transactions: (executed - prepared).saturating_sub(sender_wait),
            post: executed.elapsed(),
        };
        Ok((result, signed))
    }
}

fn wait<T>(result: &Receiver<T>) -> Result<T, EngineError> {
    result.recv().map_err(|_| EngineError::WorkerPanicked)
}

fn chain_block(payload: &Payload, signed: Signed, receipts: Vec<Receipt>) -> ChainBlock {
    let (transactions, senders) = signed;
    let block = StoredBlock {
        header: payload.header.clone(),
        hash: payload.hash,
        transactions,
        senders,
        ommers: payload.ommers.clone(),
        withdrawals: payload.withdrawals.clone(),
    };
    ChainBlock { block, receipts }
}
