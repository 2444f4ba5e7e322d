//! Transactions that wait for a block: there is no pool, and sending one says so.

use super::{
    Context,
    error::{SERVER_ERROR, error},
};
use alloy_primitives::B256;
use jsonrpsee::{RpcModule, core::RegisterMethodError, types::ErrorObjectOwned};

/// The methods the auth port has too.
pub(super) fn register_on_auth(module: &mut RpcModule<Context>) -> Result<(), RegisterMethodError> {
    module.register_method("eth_sendRawTransaction", |_, _, _| {
        Err::<B256, ErrorObjectOwned>(error(
            SERVER_ERROR,
            "bench-reth has no transaction pool; build a block with testing_buildBlockV1",
        ))
    })?;
    Ok(())
}
