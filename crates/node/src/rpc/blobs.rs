//! `engine_getBlobs`: blobs of waiting transactions, by versioned hash.
//!
//! Source: execution-apis, `engine/cancun.md` and `engine/osaka.md`. V1 ends with Osaka, where blobs
//! got cell proofs; V2 and V3 begin there, as in reth.

use super::{
    Context,
    args::Arguments,
    error::{TOO_LARGE_REQUEST, error},
    forks::{Fork, check_get_blobs},
};
use alloy_primitives::B256;
use jsonrpsee::{
    RpcModule,
    core::RegisterMethodError,
    types::{ErrorObjectOwned, Params},
};
use serde_json::Value;

/// Most blobs one request may ask for: what the specification demands at least.
const MAX_BLOBS: usize = 128;

/// Adds the methods.
pub(super) fn register(module: &mut RpcModule<Context>) -> Result<(), RegisterMethodError> {
    for (version, name) in (1..).zip([
        "engine_getBlobsV1",
        "engine_getBlobsV2",
        "engine_getBlobsV3",
    ]) {
        module.register_method(name, move |params, context, _| {
            blobs(version, &params, context)
        })?;
    }
    Ok(())
}

/// Nothing keeps blobs here, so all of them are missing: V2 says so with one null.
fn blobs(
    version: u8,
    params: &Params<'_>,
    context: &Context,
) -> Result<Option<Vec<Value>>, ErrorObjectOwned> {
    let mut arguments = Arguments::new(params);
    let hashes: Vec<B256> = arguments.next("versionedHashes")?;
    arguments.end()?;
    if hashes.len() > MAX_BLOBS {
        let message = format!(
            "Too large request: {} blobs, at most {MAX_BLOBS}",
            hashes.len()
        );
        return Err(error(TOO_LARGE_REQUEST, message));
    }
    let head = context.chain.head_header();
    check_get_blobs(
        version,
        Fork::at(context.chain.chain_spec(), head.timestamp),
    )?;
    Ok((version != 2 || hashes.is_empty()).then(|| vec![Value::Null; hashes.len()]))
}
