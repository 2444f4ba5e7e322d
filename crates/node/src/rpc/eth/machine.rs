//! An EVM on the state after a block, with what the caller wants overridden, on which messages run
//! and leave no trace.
//!
//! Invariant: all messages of one request share one deadline.

use super::{
    Answer,
    refusal::{Refusal, both_storages, failed, halt_text, reverted},
    watch::{Accesses, Watch},
};
use crate::{
    engine::{ReadError, StateReader},
    rpc::{Context, error::from_read},
};
use alloy_consensus::Header;
use alloy_evm::{
    EthEvm, EthEvmFactory, Evm, EvmEnv, EvmFactory,
    overrides::{OverrideBlockHashes, StateOverrideError, apply_state_overrides},
    precompiles::PrecompilesMap,
};
use alloy_primitives::{Address, map::AddressSet};
use alloy_rpc_types_eth::{BlockOverrides, state::StateOverride};
use jsonrpsee::types::ErrorObjectOwned;
use revm::{
    Database,
    context::{
        TxEnv,
        result::{EVMError, ExecutionResult},
    },
    database::CacheDB,
    state::AccountInfo,
};
use std::time::{Duration, Instant};

/// How long the messages of one request may run together, as in geth.
pub(super) const TIME_LIMIT: Duration = Duration::from_secs(5);

type Cache = CacheDB<StateReader>;

/// What a caller wants to be different.
#[derive(Debug, Default)]
pub(super) struct Overrides {
    /// Accounts.
    pub(super) state: StateOverride,
    /// Fields of the block.
    pub(super) block: BlockOverrides,
}

/// An EVM for messages of one request.
pub(super) struct Machine {
    evm: EthEvm<Cache, Watch, PrecompilesMap>,
    base_fee: u64,
    blob_base_fee: Option<u128>,
}

/// A message that was not run, or could not be run to its end.
#[derive(Debug)]
pub(super) enum Stopped {
    /// It is not valid here.
    Refused(Refusal),
    /// The node failed, or the time was over.
    Failed(ErrorObjectOwned),
}

impl Stopped {
    /// The answer, with the refusal's text as `wrap` puts it.
    pub(super) fn wrapped(self, wrap: impl FnOnce(&str) -> String) -> ErrorObjectOwned {
        match self {
            Self::Refused(refusal) => failed(wrap(&refusal.text)),
            Self::Failed(problem) => problem,
        }
    }
}

impl Machine {
    /// On the block of `header` and the state after it.
    pub(super) fn new(
        context: &Context,
        header: &Header,
        state: StateReader,
        overrides: Overrides,
    ) -> Answer<Self> {
        let mut env = call_env(context.chain.evm_env_for(header));
        let mut cache = CacheDB::new(state);
        if overrides.block.beacon_root.is_some() {
            return Err(failed(
                "block override \"beaconRoot\" is not supported for this RPC method",
            ));
        }
        cache.apply_block_overrides(overrides.block, &mut env.block_env);
        let base_fee = env.block_env.basefee;
        let blob_base_fee = env
            .block_env
            .blob_excess_gas_and_price
            .map(|blob| blob.blob_gasprice);
        let watch = Watch::new(Instant::now() + TIME_LIMIT);
        let mut evm = EthEvmFactory::default().create_evm_with_inspector(cache, env, watch);
        let state = overrides.state;
        move_precompiles(evm.precompiles_mut(), &state)?;
        apply_state_overrides(state, evm.db_mut()).map_err(unfit_override)?;
        Ok(Self {
            evm,
            base_fee,
            blob_base_fee,
        })
    }

    /// Runs a message and forgets what it changed.
    pub(super) fn run(&mut self, tx: TxEnv) -> Result<ExecutionResult, Stopped> {
        self.price(&tx);
        let words = tx.clone();
        let outcome = self.evm.transact_raw(tx);
        if self.evm.inspector().expired {
            return Err(Stopped::Failed(failed(format!(
                "execution aborted (timeout = {}s)",
                TIME_LIMIT.as_secs()
            ))));
        }
        match outcome {
            Ok(outcome) => Ok(outcome.result),
            Err(EVMError::Transaction(problem)) => Err(Stopped::Refused(Refusal::of(
                &problem,
                &words,
                &self.evm.block,
            ))),
            Err(problem) => Err(Stopped::Failed(from_read(ReadError(problem.to_string())))),
        }
    }

    /// A message that names no price sees a block without base fee, one that names no blob price
    /// a block without blob base fee.
    fn price(&mut self, tx: &TxEnv) {
        let priced = tx.gas_price > 0 || tx.gas_priority_fee.is_some_and(|tip| tip > 0);
        self.evm.block.basefee = if priced { self.base_fee } else { 0 };
        if let (Some(blob), Some(fee)) = (
            &mut self.evm.block.blob_excess_gas_and_price,
            self.blob_base_fee,
        ) {
            blob.blob_gasprice = if tx.max_fee_per_blob_gas > 0 { fee } else { 0 };
        }
    }

    /// An account, overrides included.
    pub(super) fn account(&mut self, address: Address) -> Answer<AccountInfo> {
        let account = self.evm.db_mut().basic(address).map_err(from_read)?;
        Ok(account.unwrap_or_default())
    }

    /// The block's gas limit.
    pub(super) fn block_gas_limit(&self) -> u64 {
        self.evm.block.gas_limit
    }

    /// The fork's rules.
    pub(super) fn env(&self) -> &revm::context::CfgEnv {
        &self.evm.cfg
    }

    /// Addresses of precompiles.
    pub(super) fn precompiles(&self) -> AddressSet {
        self.evm.precompiles().addresses().copied().collect()
    }

    /// Begins to collect what messages touch.
    pub(super) fn collect(&mut self, accesses: Accesses) {
        self.evm.inspector_mut().accesses = Some(accesses);
    }

    /// What messages touched since [`Machine::collect`].
    pub(super) fn collected(&mut self) -> Accesses {
        self.evm.inspector_mut().accesses.take().unwrap_or_default()
    }

    /// The answer for an execution that did not succeed.
    pub(super) fn failure(&self, result: &ExecutionResult) -> ErrorObjectOwned {
        match result {
            ExecutionResult::Revert { output, .. } => reverted(output),
            _ => failed(self.failure_text(result).unwrap_or_default()),
        }
    }

    /// What went wrong, without the reason of a revert.
    pub(super) fn failure_text(&self, result: &ExecutionResult) -> Option<String> {
        match result {
            ExecutionResult::Success { .. } => None,
            ExecutionResult::Revert { .. } => Some("execution reverted".into()),
            ExecutionResult::Halt { reason, .. } => {
                Some(halt_text(reason, self.evm.inspector().last))
            }
        }
    }
}

/// Rules that bind transactions but not calls: nonce, sender without code, gas limits.
fn call_env(mut env: EvmEnv) -> EvmEnv {
    env.cfg_env.disable_nonce_check = true;
    env.cfg_env.disable_eip3607 = true;
    env.cfg_env.disable_block_gas_limit = true;
    env.cfg_env.tx_gas_limit_cap = Some(u64::MAX);
    env
}

/// Moves precompiles, and takes away those whose account is overridden.
pub(super) fn move_precompiles(
    precompiles: &mut PrecompilesMap,
    overrides: &StateOverride,
) -> Answer<()> {
    let moves = overrides
        .iter()
        .filter_map(|(from, account)| Some((*from, account.move_precompile_to?)));
    let moves: Vec<_> = moves.collect();
    for (from, to) in &moves {
        if precompiles.get(from).is_none() {
            return Err(failed(format!("account {from} is not a precompile")));
        }
        if overrides.contains_key(to) {
            return Err(failed(format!("account {to} is already overridden")));
        }
    }
    let moved: AddressSet = moves.iter().map(|(from, _)| *from).collect();
    precompiles
        .move_precompiles(moves)
        .map_err(|problem| failed(problem.to_string()))?;
    for address in overrides.keys().filter(|address| !moved.contains(*address)) {
        precompiles.apply_precompile(address, |_| None);
    }
    Ok(())
}

/// The answer to overrides that cannot be applied.
pub(super) fn unfit_override(problem: StateOverrideError<ReadError>) -> ErrorObjectOwned {
    match problem {
        StateOverrideError::BothStateAndStateDiff(address) => both_storages(address),
        StateOverrideError::InvalidBytecode(problem) => failed(format!("code: {problem}")),
        StateOverrideError::Database(problem) => from_read(problem),
    }
}
