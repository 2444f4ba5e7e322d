//! Blobs that travel beside a transaction: verified with KZG, and brought to the form of the fork.
//!
//! Source: EIP-4844 (one proof a blob), EIP-7594 (128 cell proofs a blob, from Osaka on).

use super::PoolError;
use alloy_eips::{
    eip4844::{BlobTransactionSidecar, Bytes48},
    eip7594::{BlobTransactionSidecarEip7594, BlobTransactionSidecarVariant, CELLS_PER_EXT_BLOB},
};
use alloy_primitives::B256;
use c_kzg::{Blob, Cell, KzgSettings};

fn settings() -> &'static KzgSettings {
    c_kzg::ethereum_kzg_settings(0)
}

fn unfit(problem: impl std::fmt::Display) -> PoolError {
    PoolError::Sidecar(format!("invalid blob sidecar: {problem}"))
}

/// Verifies a sidecar against the transaction's blob hashes. With `cell_proofs` the result has
/// them, whichever proofs came.
pub(super) fn verify(
    sidecar: BlobTransactionSidecarVariant,
    hashes: &[B256],
    cell_proofs: bool,
) -> Result<BlobTransactionSidecarVariant, PoolError> {
    let proofs_per_blob = match &sidecar {
        BlobTransactionSidecarVariant::Eip4844(_) => 1,
        BlobTransactionSidecarVariant::Eip7594(_) if !cell_proofs => {
            return Err(PoolError::Sidecar(
                "cell proofs are not supported before Osaka".into(),
            ));
        }
        BlobTransactionSidecarVariant::Eip7594(_) => CELLS_PER_EXT_BLOB,
    };
    let proofs = match &sidecar {
        BlobTransactionSidecarVariant::Eip4844(sidecar) => &sidecar.proofs,
        BlobTransactionSidecarVariant::Eip7594(sidecar) => &sidecar.cell_proofs,
    };
    let counts = [
        ("blobs", sidecar.blobs().len(), hashes.len()),
        ("commitments", sidecar.commitments().len(), hashes.len()),
        ("proofs", proofs.len(), hashes.len() * proofs_per_blob),
    ];
    for (what, have, want) in counts {
        if have != want {
            return Err(unfit(format!(
                "{have} {what} for {} hashes, expected {want}",
                hashes.len()
            )));
        }
    }
    if !sidecar.versioned_hashes().eq(hashes.iter().copied()) {
        return Err(unfit("a commitment does not hash to its blob hash"));
    }
    match sidecar {
        BlobTransactionSidecarVariant::Eip4844(sidecar) => {
            verify_blob_proofs(&sidecar)?;
            if cell_proofs {
                return with_cell_proofs(sidecar).map(Into::into);
            }
            Ok(sidecar.into())
        }
        BlobTransactionSidecarVariant::Eip7594(sidecar) => {
            verify_cell_proofs(&sidecar)?;
            Ok(sidecar.into())
        }
    }
}

fn kzg_blobs(blobs: &[alloy_eips::eip4844::Blob]) -> Result<Vec<Blob>, PoolError> {
    blobs
        .iter()
        .map(|blob| Blob::from_bytes(blob.as_slice()).map_err(unfit))
        .collect()
}

fn kzg_bytes(values: &[Bytes48]) -> Vec<c_kzg::Bytes48> {
    values
        .iter()
        .map(|value| c_kzg::Bytes48::from(value.0))
        .collect()
}

fn checked(verified: Result<bool, c_kzg::Error>) -> Result<(), PoolError> {
    match verified {
        Ok(true) => Ok(()),
        Ok(false) => Err(unfit("a proof does not verify")),
        Err(problem) => Err(unfit(problem)),
    }
}

fn verify_blob_proofs(sidecar: &BlobTransactionSidecar) -> Result<(), PoolError> {
    checked(settings().verify_blob_kzg_proof_batch(
        &kzg_blobs(&sidecar.blobs)?,
        &kzg_bytes(&sidecar.commitments),
        &kzg_bytes(&sidecar.proofs),
    ))
}

fn verify_cell_proofs(sidecar: &BlobTransactionSidecarEip7594) -> Result<(), PoolError> {
    let mut commitments = Vec::new();
    let mut indices: Vec<u64> = Vec::new();
    let mut cells: Vec<Cell> = Vec::new();
    for (blob, commitment) in kzg_blobs(&sidecar.blobs)?
        .iter()
        .zip(kzg_bytes(&sidecar.commitments))
    {
        let computed = settings().compute_cells(blob).map_err(unfit)?;
        commitments.extend(std::iter::repeat_n(commitment, computed.len()));
        indices.extend(0..computed.len() as u64);
        cells.extend_from_slice(computed.as_slice());
    }
    checked(settings().verify_cell_kzg_proof_batch(
        &commitments,
        &indices,
        &cells,
        &kzg_bytes(&sidecar.cell_proofs),
    ))
}

fn with_cell_proofs(
    sidecar: BlobTransactionSidecar,
) -> Result<BlobTransactionSidecarEip7594, PoolError> {
    let mut proofs = Vec::with_capacity(sidecar.blobs.len() * CELLS_PER_EXT_BLOB);
    for blob in kzg_blobs(&sidecar.blobs)? {
        let (_, of_blob) = settings()
            .compute_cells_and_kzg_proofs(&blob)
            .map_err(unfit)?;
        proofs.extend(
            of_blob
                .iter()
                .map(|proof| Bytes48::from(*proof.to_bytes().as_ref())),
        );
    }
    Ok(BlobTransactionSidecarEip7594::new(
        sidecar.blobs,
        sidecar.commitments,
        proofs,
    ))
}
