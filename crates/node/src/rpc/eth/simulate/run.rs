//! Runs planned blocks one after the other and shows what came of them.

use super::{
    answer::{Ran, ShownBlock, show},
    frames::Frames,
    overrides,
    plan::Planned,
    request::Options,
    unsigned::Unsigned,
};
use crate::{
    chainspec::ChainSpec,
    engine::{ReadError, Trial, TrialBlock, TrialError},
    rpc::{
        Context,
        error::{error, from_read},
        eth::{
            Answer,
            machine::TIME_LIMIT,
            message::{UNLIMITED_GAS, gas_cap, in_era, message},
            proof::from_proof,
            refusal::{Refusal, failed, halt_text, revert_text},
            watch::Watch,
        },
    },
};
use alloy_consensus::{Header, proofs::ordered_trie_root_encoded};
use alloy_evm::Evm;
use alloy_hardforks::EthereumHardforks;
use alloy_primitives::{Address, B256, TxKind, map::AddressSet};
use alloy_rpc_types_eth::{
    TransactionRequest,
    simulate::{SimCallResult, SimulateError},
};
use jsonrpsee::types::ErrorObjectOwned;
use revm::{
    Database,
    context::{
        TxEnv,
        result::{EVMError, ExecutionResult, HaltReason, ResultAndState},
    },
    context_interface::{ContextTr, JournalTr},
};
use std::time::Instant;

/// A block's gas that a message does not fit into.
const BLOCK_GAS_LIMIT: i32 = -38015;
/// The time of a request is over.
const TIMEOUT: i32 = -32016;

/// What watches messages: the clock, and what they log.
type Inspectors = (Watch, Frames);

/// A request being served.
pub(super) struct Simulation<'c> {
    chain: &'c ChainSpec,
    trial: Trial,
    options: Options,
    /// Hash and header of the last block.
    parent: (B256, Header),
    /// Gas that the messages of the request may still use.
    gas_left: u64,
    deadline: Instant,
}

/// A message that is about to run.
struct Ready {
    unsigned: Unsigned,
    tx: TxEnv,
    /// Whether it has less gas than it asked for.
    is_capped: bool,
}

impl<'c> Simulation<'c> {
    pub(super) fn new(
        context: &'c Context,
        trial: Trial,
        parent: (B256, Header),
        options: Options,
    ) -> Self {
        Self {
            chain: context.chain.chain_spec(),
            trial,
            options,
            parent,
            gas_left: gas_cap(context.options.call_gas_cap),
            deadline: Instant::now() + TIME_LIMIT,
        }
    }

    /// Runs the next block.
    pub(super) fn block(&mut self, planned: Planned) -> Answer<ShownBlock> {
        let mut header = self.header_of(&planned);
        overrides::apply(self.trial.state_mut(), &planned.overrides)?;
        let inspectors = (
            Watch::new(self.deadline),
            Frames::new(self.options.trace_transfers),
        );
        let withdrawals = planned.withdrawals.as_ref();
        let block = self.trial.begin(&header, withdrawals, inspectors);
        let mut messages = Messages {
            chain: self.chain,
            block: block.map_err(from_trial)?,
            header: &header,
            options: self.options,
            gas_left: &mut self.gas_left,
            deadline: self.deadline,
        };
        messages.adapt(&planned)?;
        let calls = planned.calls.into_iter();
        let ran: Vec<Ran> = calls
            .map(|request| messages.run(request))
            .collect::<Answer<_>>()?;
        let block = messages.block;
        block.finish(&mut header).map_err(from_trial)?;
        let encoded: Vec<_> = ran.iter().map(|ran| ran.unsigned.encoded.clone()).collect();
        header.transactions_root = ordered_trie_root_encoded(&encoded);
        let hash = header.hash_slow();
        self.trial.name(header.number, hash);
        self.parent = (hash, header.clone());
        show(&hash, header, planned.withdrawals, ran, self.options)
    }

    /// The planned header with what follows from its parent.
    fn header_of(&self, planned: &Planned) -> Header {
        let (hash, parent) = &self.parent;
        let mut header = planned.header.clone();
        header.parent_hash = *hash;
        if self.chain.is_london_active_at_block(header.number) {
            // Free, so that messages need neither prices nor money.
            let default = match self.options.validation {
                true => self.chain.next_base_fee(parent),
                false => 0,
            };
            header.base_fee_per_gas = Some(planned.base_fee.unwrap_or(default));
        }
        if let Some(params) = self.chain.blob_params_at(header.timestamp) {
            let excess = parent.next_block_excess_blob_gas(params);
            header.excess_blob_gas = Some(excess.unwrap_or_default());
        }
        header
    }
}

/// The messages of one block.
struct Messages<'a, 'b> {
    chain: &'b ChainSpec,
    block: TrialBlock<'a, Inspectors>,
    header: &'b Header,
    options: Options,
    gas_left: &'b mut u64,
    deadline: Instant,
}

impl Messages<'_, '_> {
    /// Rules that bind transactions but not these messages, and what the EVM is told to be
    /// different.
    fn adapt(&mut self, planned: &Planned) -> Answer<()> {
        let evm = self.block.evm();
        evm.cfg.disable_nonce_check = !self.options.validation;
        evm.cfg.disable_eip3607 = true;
        evm.cfg.disable_block_gas_limit = true;
        evm.cfg.tx_gas_limit_cap = Some(u64::MAX);
        if let (Some(fee), Some(blob)) = (
            planned.blob_base_fee,
            &mut evm.block.blob_excess_gas_and_price,
        ) {
            blob.blob_gasprice = fee;
        }
        // Which addresses are warm from the start is the fork's to say, wherever precompiles are.
        let warm: AddressSet = evm.precompiles().addresses().copied().collect();
        evm.ctx_mut().journal_mut().warm_precompiles(&warm);
        overrides::move_precompiles(evm.precompiles_mut(), &planned.overrides)
    }

    fn run(&mut self, request: TransactionRequest) -> Answer<Ran> {
        if Instant::now() > self.deadline {
            return Err(timeout());
        }
        let Ready {
            unsigned,
            tx,
            is_capped,
        } = self.prepare(request)?;
        let sent = tx.clone();
        let mut outcome = self.transact(tx)?;
        let logs = self.block.evm().inspector_mut().1.take_logs();
        let result = self.shown(&outcome.result, is_capped);
        *self.gas_left = self.gas_left.saturating_sub(result.gas_used);
        if sent.kind.is_call() {
            self.wrap_nonce(&mut outcome, sent.caller)?;
        }
        self.block
            .commit(unsigned.tx_type(), outcome, unsigned.blob_gas())
            .map_err(from_trial)?;
        Ok(Ran {
            unsigned,
            logs,
            result,
        })
    }

    /// Fills in what the request left out, and checks it as far as the EVM does not.
    fn prepare(&mut self, mut request: TransactionRequest) -> Answer<Ready> {
        let from = request.from.unwrap_or_default();
        let have = self.nonce(from)?;
        let nonce = request.nonce.unwrap_or(have);
        let room = self.header.gas_limit - self.block.gas_used();
        let gas = request.gas.unwrap_or(room);
        if gas > room {
            let problem = format!("block gas limit reached: remaining: {room}, required: {gas}");
            return Err(error(BLOCK_GAS_LIMIT, problem));
        }
        let capped = gas.min(*self.gas_left);
        request.gas = Some(capped);
        let has_base_fee = self.header.base_fee_per_gas.is_some();
        let request = in_era(request, has_base_fee);
        let mut tx = message(request.clone(), self.chain.chain_id(), UNLIMITED_GAS)?;
        let unsigned = Unsigned::new(&request, &tx, nonce, !has_base_fee)?;
        if self.options.validation {
            check_nonce(from, nonce, have).map_err(|refusal| wrapped(&refusal, &tx))?;
            tx.nonce = nonce;
        } else {
            // It is not looked at, and the highest of all would be refused.
            tx.nonce = 0;
        }
        Ok(Ready {
            unsigned,
            tx,
            is_capped: capped < gas,
        })
    }

    fn nonce(&mut self, address: Address) -> Answer<u64> {
        let account = self.block.evm().db_mut().basic(address);
        let account = account.map_err(|problem| from_read(ReadError(problem.to_string())))?;
        Ok(account.map_or(0, |account| account.nonce))
    }

    fn transact(&mut self, mut tx: TxEnv) -> Answer<ResultAndState<HaltReason>> {
        let is_free = !self.options.validation && !has_price(&tx);
        let evm = self.block.evm();
        if !self.options.validation
            && tx.max_fee_per_blob_gas == 0
            && let Some(blob) = evm.block.blob_excess_gas_and_price
        {
            tx.max_fee_per_blob_gas = blob.blob_gasprice;
        }
        let base_fee = evm.block.basefee;
        let sent = tx.clone();
        if is_free {
            // The EVM must not ask for a fee, but the block still has one.
            evm.block.basefee = 0;
            evm.inspector_mut().1.show_base_fee(Some(base_fee));
        }
        let outcome = evm.transact_raw(tx);
        evm.block.basefee = base_fee;
        evm.inspector_mut().1.show_base_fee(None);
        if evm.inspector().0.expired {
            return Err(timeout());
        }
        match outcome {
            Ok(outcome) => Ok(outcome),
            Err(EVMError::Transaction(problem)) => {
                let refusal = Refusal::of(&problem, &sent, &evm.block);
                Err(wrapped(&refusal, &sent))
            }
            Err(problem) => Err(from_read(ReadError(problem.to_string()))),
        }
    }

    /// Nonces that are not checked start again behind the highest, as in geth.
    fn wrap_nonce(
        &mut self,
        outcome: &mut ResultAndState<HaltReason>,
        caller: Address,
    ) -> Answer<()> {
        if self.nonce(caller)? == u64::MAX
            && let Some(account) = outcome.state.get_mut(&caller)
        {
            account.info.nonce = 0;
        }
        Ok(())
    }

    fn shown(&mut self, result: &ExecutionResult, is_capped: bool) -> SimCallResult {
        let gas = result.gas();
        let mut shown = SimCallResult {
            gas_used: gas.tx_gas_used(),
            max_used_gas: Some(gas.total_gas_spent().max(gas.floor_gas())),
            status: result.is_success(),
            ..Default::default()
        };
        match result {
            ExecutionResult::Success { output, .. } => shown.return_data = output.data().clone(),
            ExecutionResult::Revert { output, .. } => {
                shown.error = Some(SimulateError {
                    code: SimulateError::EXECUTION_REVERTED_CODE,
                    message: revert_text(output),
                    data: Some(output.clone()),
                });
            }
            ExecutionResult::Halt { reason, .. } => {
                let mut message = halt_text(reason, self.block.evm().inspector().0.last);
                if is_capped {
                    message += " (gas limit was capped by the RPC server's global gas cap)";
                }
                shown.error = Some(SimulateError {
                    code: SimulateError::VM_EXECUTION_ERROR_CODE,
                    message,
                    data: None,
                });
            }
        }
        shown
    }
}

fn has_price(tx: &TxEnv) -> bool {
    tx.gas_price > 0 || tx.gas_priority_fee.is_some_and(|tip| tip > 0)
}

/// Nonces are the first thing that is checked of a transaction.
fn check_nonce(from: Address, nonce: u64, have: u64) -> Result<(), Refusal> {
    use revm::context::result::InvalidTransaction as Problem;
    use std::cmp::Ordering;
    let problem = match nonce.cmp(&have) {
        Ordering::Less => Problem::NonceTooLow {
            tx: nonce,
            state: have,
        },
        Ordering::Greater => Problem::NonceTooHigh {
            tx: nonce,
            state: have,
        },
        Ordering::Equal if have == u64::MAX => Problem::NonceOverflowInTransaction,
        Ordering::Equal => return Ok(()),
    };
    let tx = TxEnv {
        caller: from,
        nonce,
        kind: TxKind::Create,
        ..Default::default()
    };
    Err(Refusal::of(&problem, &tx, &Default::default()))
}

/// The answer to a message that may not run.
fn wrapped(refusal: &Refusal, tx: &TxEnv) -> ErrorObjectOwned {
    let text = format!("err: {} (supplied gas {})", refusal.text, tx.gas_limit);
    error(refusal.simulate_code, text)
}

fn timeout() -> ErrorObjectOwned {
    let text = format!("execution aborted (timeout = {}s)", TIME_LIMIT.as_secs());
    error(TIMEOUT, text)
}

fn from_trial(problem: TrialError) -> ErrorObjectOwned {
    match problem {
        TrialError::Invalid(reason) => failed(reason),
        TrialError::Read(problem) => from_read(problem),
        TrialError::Proof(problem) => from_proof(problem),
    }
}
