//! Runs a block's system calls, transactions and withdrawals over the parent state.
//!
//! Blocks being validated and blocks being built run through the same [`BlockRun`], so that what
//! one produces the other accepts.

use super::reader::{ReadError, StateReader};
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
        receipt_builder::{ReceiptBuilder, ReceiptBuilderCtx},
    },
    precompiles::PrecompilesMap,
};
use alloy_hardforks::EthereumHardforks;
use alloy_primitives::Address;
use revm::{
    Database,
    database::{BundleState, State, WrapDatabaseRef, states::bundle_state::BundleRetention},
    database_interface::OnStateHook,
    inspector::NoOpInspector,
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

/// One block being executed.
pub(super) struct BlockRun<'a> {
    chain: &'a ChainSpec,
    timestamp: u64,
    executor: EthBlockExecutor<'a, BlockEvm<'a>, &'a ChainSpec, Receipts>,
}

impl<'a> BlockRun<'a> {
    /// Prepares the block of `header` and makes its pre-block system calls.
    pub(super) fn start(
        chain: &'a ChainSpec,
        header: &Header,
        withdrawals: Option<&'a Withdrawals>,
        state: &'a mut BlockState,
    ) -> Result<Self, ExecuteError> {
        let evm = EthEvmFactory::default().create_evm(state, evm_env(chain, header));
        let context = EthBlockExecutionCtx {
            parent_hash: header.parent_hash,
            parent_beacon_block_root: header.parent_beacon_block_root,
            ommers: &[],
            withdrawals: withdrawals.map(|list| list.as_slice().into()),
            extra_data: header.extra_data.clone(),
            tx_count_hint: None,
            slot_number: None,
        };
        let mut executor = EthBlockExecutor::new(evm, context, chain, Receipts);
        executor.apply_pre_execution_changes()?;
        Ok(Self {
            chain,
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

    /// Gas used so far.
    pub(super) fn gas_used(&self) -> u64 {
        self.executor.cumulative_tx_gas_used
    }

    /// Makes the post-block system calls and pays withdrawals.
    pub(super) fn finish(mut self) -> Result<Executed, ExecuteError> {
        if self.chain.is_prague_active_at_timestamp(self.timestamp) {
            for address in [
                WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS,
                CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS,
            ] {
                self.require_code(address)?;
            }
        }
        let (_, result) = self.executor.finish()?;
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

/// The environment in which `header`'s transactions run.
pub(super) fn evm_env(chain: &ChainSpec, header: &Header) -> EvmEnv {
    EvmEnv::for_eth_block(
        header,
        chain,
        chain.chain_id(),
        chain.blob_params_at(header.timestamp),
    )
}
