//! Runs a block's system calls, transactions and withdrawals over the parent state.
//!
//! Blocks being validated and blocks being built run through the same [`BlockRun`], so that what
//! one produces the other accepts.

use super::{
    constantinople, deposits,
    era::{BlockRules, Era},
    reader::{ReadError, StateReader},
};
use crate::{
    chainspec::ChainSpec,
    primitives::{Receipt, TransactionSigned},
};
use alloy_consensus::TxType;
use alloy_consensus::{Header, transaction::Recovered};
use alloy_eips::{
    eip4895::Withdrawals, eip7002::WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS,
    eip7251::CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS, eip7685::Requests,
};
use alloy_evm::{
    EthEvm, EthEvmFactory, Evm, EvmEnv, EvmFactory,
    block::{BlockExecutionError, BlockExecutor, GasOutput},
    eth::{
        EthBlockExecutionCtx, EthBlockExecutor,
        dao_fork::{DAO_HARDFORK_ACCOUNTS, DAO_HARDFORK_BENEFICIARY},
        receipt_builder::{ReceiptBuilder, ReceiptBuilderCtx},
        spec::EthExecutorSpec as _,
    },
    precompiles::PrecompilesMap,
};
use alloy_hardforks::EthereumHardforks;
use alloy_primitives::{Address, U256};
use revm::{
    Database, DatabaseCommit,
    database::{BundleState, State, WrapDatabaseRef, states::bundle_state::BundleRetention},
    database_interface::OnStateHook,
    inspector::NoOpInspector,
    state::{Account, EvmState, TransactionId},
};

/// State during a block: the parent's state below, this block's changes above.
pub(super) type BlockState = State<WrapDatabaseRef<StateReader>>;

type BlockEvm<'a> = EthEvm<&'a mut BlockState, NoOpInspector, PrecompilesMap>;

/// Why execution stopped.
#[derive(Debug, thiserror::Error)]
pub(super) enum ExecuteError {
    /// The block breaks a rule.
    #[error("{0}")]
    Invalid(String),
    /// The engine failed; nothing is known about the block.
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl From<BlockExecutionError> for ExecuteError {
    fn from(error: BlockExecutionError) -> Self {
        match error {
            BlockExecutionError::Validation(error) => Self::Invalid(error.to_string()),
            BlockExecutionError::Internal(error) => Self::Read(ReadError(error.to_string())),
        }
    }
}

/// Receipts as they are stored and sent: no bloom, which is computed when needed.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Receipts;

impl ReceiptBuilder for Receipts {
    type Transaction = TransactionSigned;
    type Receipt = Receipt;

    fn build_receipt<E: Evm>(&self, ctx: ReceiptBuilderCtx<'_, TxType, E>) -> Receipt {
        Receipt {
            tx_type: ctx.tx_type,
            success: ctx.result.is_success(),
            cumulative_gas_used: ctx.cumulative_gas_used,
            logs: ctx.result.into_logs(),
        }
    }
}

/// What executing a block produced, apart from the state.
#[derive(Debug)]
pub(super) struct Executed {
    /// One receipt per transaction.
    pub(super) receipts: Vec<Receipt>,
    /// EIP-7685 requests.
    pub(super) requests: Requests,
    /// Gas of all transactions.
    pub(super) gas_used: u64,
    /// Blob gas of all transactions.
    pub(super) blob_gas_used: u64,
}

/// Opens the parent state for one block; `hook` sees every committed change.
pub(super) fn open_state(parent: StateReader, hook: impl OnStateHook) -> BlockState {
    State::builder()
        .with_database_ref(parent)
        .with_bundle_update()
        .build()
        .with_state_hook(Some(Box::new(hook)))
}

/// The changes of the block just executed. The hook is dropped with `state`.
pub(super) fn take_changes(mut state: BlockState) -> BundleState {
    state.merge_transitions(BundleRetention::PlainState);
    state.take_bundle()
}

/// The parts of a block's body that execution pays for after the transactions.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rewarded<'a> {
    /// Withdrawals, from Shanghai on.
    pub(super) withdrawals: Option<&'a Withdrawals>,
    /// Ommers, under proof of work.
    pub(super) ommers: &'a [Header],
}

/// One block being executed.
pub(super) struct BlockRun<'a> {
    chain: &'a ChainSpec,
    timestamp: u64,
    executor: EthBlockExecutor<'a, BlockEvm<'a>, BlockRules<'a>, Receipts>,
}

impl<'a> BlockRun<'a> {
    /// Prepares the block of `header` and makes its pre-block changes and system calls.
    pub(super) fn start(
        rules: BlockRules<'a>,
        header: &Header,
        rewarded: Rewarded<'a>,
        state: &'a mut BlockState,
    ) -> Result<Self, ExecuteError> {
        if rules.chain.dao_fork() == Some((true, header.number)) {
            apply_dao_fork(state)?;
        }
        let mut evm = EthEvmFactory::default().create_evm(state, evm_env(rules, header));
        if constantinople::is_active(rules.chain, header.number) {
            evm = constantinople::adapt_evm(evm, false);
        }
        let context = EthBlockExecutionCtx {
            parent_hash: header.parent_hash,
            parent_beacon_block_root: header.parent_beacon_block_root,
            ommers: rewarded.ommers,
            withdrawals: rewarded.withdrawals.map(|list| list.as_slice().into()),
            extra_data: header.extra_data.clone(),
            tx_count_hint: None,
            slot_number: None,
        };
        let mut executor = EthBlockExecutor::new(evm, context, rules, Receipts);
        executor.apply_pre_execution_changes()?;
        Ok(Self {
            chain: rules.chain,
            timestamp: header.timestamp,
            executor,
        })
    }

    /// Executes and commits the next transaction. On error nothing was committed.
    pub(super) fn transact(
        &mut self,
        transaction: &Recovered<TransactionSigned>,
    ) -> Result<GasOutput, BlockExecutionError> {
        self.executor.execute_transaction(transaction)
    }

    /// Receipts of the transactions so far.
    pub(super) fn receipts(&self) -> &[Receipt] {
        &self.executor.receipts
    }

    /// Gas used so far.
    pub(super) fn gas_used(&self) -> u64 {
        self.executor.cumulative_tx_gas_used
    }

    /// Makes the post-block system calls and pays withdrawals.
    pub(super) fn finish(mut self) -> Result<Executed, ExecuteError> {
        let is_prague = self.chain.is_prague_active_at_timestamp(self.timestamp);
        if is_prague {
            for address in [
                WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS,
                CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS,
            ] {
                self.require_code(address)?;
            }
        }
        let (_, result) = self.executor.finish()?;
        if is_prague && let Some(contract) = self.chain.deposit_contract_address() {
            deposits::check(&result.receipts, contract)?;
        }
        Ok(Executed {
            receipts: result.receipts,
            requests: result.requests,
            gas_used: result.gas_used,
            blob_gas_used: result.blob_gas_used,
        })
    }

    /// EIP-7002 and EIP-7251: a block is invalid while a request contract has no code.
    fn require_code(&mut self, address: Address) -> Result<(), ExecuteError> {
        let account = self
            .executor
            .evm
            .db_mut()
            .basic(address)
            .map_err(|error| ReadError(error.to_string()))?;
        if account.is_none_or(|account| account.is_empty_code_hash()) {
            return Err(ExecuteError::Invalid(format!(
                "system contract {address} has no code"
            )));
        }
        Ok(())
    }
}

/// EIP-779: before the first transaction of its block, the balances of the DAO and its children go
/// to the refund contract.
///
/// An account left empty stays: EIP-161 came later.
fn apply_dao_fork(state: &mut BlockState) -> Result<(), ReadError> {
    let mut drained = U256::ZERO;
    let mut changes = EvmState::default();
    for address in DAO_HARDFORK_ACCOUNTS {
        let mut account = load(state, address)?;
        drained += std::mem::take(&mut account.info.balance);
        changes.insert(address, account);
    }
    let mut beneficiary = load(state, DAO_HARDFORK_BENEFICIARY)?;
    beneficiary.info.balance += drained;
    changes.insert(DAO_HARDFORK_BENEFICIARY, beneficiary);
    for account in changes.values_mut() {
        account.mark_touch();
        if account.is_empty() {
            account.mark_created();
        }
    }
    state.commit(changes);
    Ok(())
}

fn load(state: &mut BlockState, address: Address) -> Result<Account, ReadError> {
    let info = state
        .basic(address)
        .map_err(|error| ReadError(error.to_string()))?;
    Ok(match info {
        Some(info) => Account::from(info),
        None => Account::new_not_existing(TransactionId::ZERO),
    })
}

/// The environment in which `header`'s transactions run.
pub(super) fn evm_env(rules: BlockRules<'_>, header: &Header) -> EvmEnv {
    let chain = rules.chain;
    let blobs = chain.blob_params_at(header.timestamp);
    let mut env = EvmEnv::for_eth_block(header, rules, chain.chain_id(), blobs);
    if constantinople::is_active(chain, header.number) {
        constantinople::adapt_env(&mut env);
    }
    env
}

/// The environment of a block that was checked.
pub(super) fn evm_env_of(chain: &ChainSpec, header: &Header) -> EvmEnv {
    let era = Era::of(chain, header);
    evm_env(BlockRules { chain, era }, header)
}
