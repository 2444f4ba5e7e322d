//! What the node is and how far it has come: number of the head, chain id, synchronisation.

use super::{Answer, Module, Registered};
use crate::rpc::Context;
use alloy_primitives::{Address, U64, U256};
use alloy_rpc_types_eth::{SyncInfo, SyncStatus};

/// The methods of the public port alone.
pub(super) fn register(module: &mut Module) -> Registered {
    module.register_method("eth_accounts", |_, _, _| Answer::Ok(Vec::<Address>::new()))?;
    Ok(())
}

/// The methods the auth port has too.
pub(super) fn register_on_auth(module: &mut Module) -> Registered {
    module.register_method("eth_blockNumber", |_, context, _| {
        Answer::Ok(U64::from(context.chain.head().number))
    })?;
    module.register_method("eth_chainId", |_, context, _| {
        Answer::Ok(U64::from(context.chain.chain_spec().chain_id()))
    })?;
    module.register_method("eth_syncing", |_, context, _| {
        Answer::Ok(sync_status(context))
    })?;
    Ok(())
}

fn sync_status(context: &Context) -> SyncStatus {
    if context.is_synced() {
        return SyncStatus::None;
    }
    let number = U256::from(context.chain.head().number);
    SyncStatus::Info(Box::new(SyncInfo {
        current_block: number,
        highest_block: number,
        ..Default::default()
    }))
}
