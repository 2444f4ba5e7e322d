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
use alloy_eips::eip4844::{Blob, BlobAndProofV1, BlobAndProofV2, Bytes48};
use alloy_primitives::B256;
use jsonrpsee::{
    RpcModule,
    core::RegisterMethodError,
    types::{ErrorObjectOwned, Params},
};
use serde::Serialize;

/// Most blobs one request may ask for: what the specification demands at least.
const MAX_BLOBS: usize = 128;

/// Adds the methods.
pub(super) fn register(module: &mut RpcModule<Context>) -> Result<(), RegisterMethodError> {
    for (version, name) in (1..).zip([
        "engine_getBlobsV1",
        "engine_getBlobsV2",
        "engine_getBlobsV3",
    ]) {
        module.register_blocking_method(name, move |params, context, _| {
            blobs(version, &params, &context)
        })?;
    }
    Ok(())
}

/// One entry for each hash, null when the blob is missing or has the proofs of another version. V2
/// is one null when any is missing.
fn blobs(
    version: u8,
    params: &Params<'_>,
    context: &Context,
) -> Result<Option<Vec<Option<BlobAndProofs>>>, ErrorObjectOwned> {
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
    let found = context.chain.pool().blobs(&context.chain, &hashes);
    let found: Vec<_> = found
        .into_iter()
        .map(|blob| blob.and_then(|(blob, proofs)| BlobAndProofs::of(version, blob, proofs)))
        .collect();
    Ok((version != 2 || found.iter().all(Option::is_some)).then_some(found))
}

/// A blob as a version gives it: with the proof of the whole, or with one for each cell.
#[derive(Clone, Serialize)]
#[serde(untagged)]
enum BlobAndProofs {
    Whole(BlobAndProofV1),
    Cells(BlobAndProofV2),
}

impl BlobAndProofs {
    fn of(version: u8, blob: Blob, proofs: Vec<Bytes48>) -> Option<Self> {
        let blob = Box::new(blob);
        match (version, proofs.as_slice()) {
            (1, [proof]) => Some(Self::Whole(BlobAndProofV1 {
                blob,
                proof: *proof,
            })),
            (2.., [_, _, ..]) => Some(Self::Cells(BlobAndProofV2 { blob, proofs })),
            _ => None,
        }
    }
}
