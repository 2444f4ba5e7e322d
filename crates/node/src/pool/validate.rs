//! What is asked of a transaction before it may wait: first what it says of itself, then what its
//! sender has.
//!
//! The order is geth's, so that a transaction with several faults is told the same one.

use super::{PoolError, blobs, content::Entry};
use crate::{chainspec::ChainSpec, engine::StateReader, primitives::TransactionSigned};
use alloy_consensus::{
    EthereumTxEnvelope, Header, Transaction, TxEip4844WithSidecar, Typed2718,
    transaction::{Recovered, SignerRecoverable},
};
use alloy_eips::{
    eip2718::Decodable2718, eip7594::BlobTransactionSidecarVariant,
    eip7594::MAX_BLOBS_PER_TX_FUSAKA, eip7825::MAX_TX_GAS_LIMIT_OSAKA,
};
use alloy_evm::FromRecoveredTx;
use alloy_primitives::{Address, U256};
use revm::DatabaseRef;
use revm::{
    context::{CfgEnv, TxEnv},
    primitives::hardfork::SpecId,
    state::AccountInfo,
};
use std::sync::Arc;

/// Most bytes of a transaction without blobs, as in geth.
const MAX_BYTES: usize = 128 << 10;
/// Most bytes of a transaction with blobs. Six blobs with their cell proofs fit.
const MAX_BLOB_TRANSACTION_BYTES: usize = 1 << 20;
/// EIP-3860.
const MAX_INIT_CODE_BYTES: usize = 2 * 24_576;
const BLOB_TYPE: u8 = 3;

/// A transaction as it is sent: blobs included.
type Sent = EthereumTxEnvelope<TxEip4844WithSidecar<BlobTransactionSidecarVariant>>;

/// What a transaction is judged by.
pub(super) struct Rules<'a> {
    /// The chain.
    pub(super) chain: &'a ChainSpec,
    /// The head.
    pub(super) head: &'a Header,
    /// The EVM's rules at the head.
    pub(super) cfg: &'a CfgEnv,
    /// Most wei of fees; zero for no cap.
    pub(super) fee_cap: U256,
}

/// A transaction that is right by itself, its blobs not yet verified.
pub(super) struct Candidate {
    /// With its sender.
    pub(super) transaction: Recovered<TransactionSigned>,
    sidecar: Option<BlobTransactionSidecarVariant>,
    bytes: usize,
    cost: U256,
}

/// Decodes a transaction in the form it is sent in.
pub(super) fn decode(encoded: &[u8]) -> Result<Sent, PoolError> {
    Sent::decode_2718_exact(encoded).map_err(|problem| {
        let is_bare_blob_transaction = encoded.first() == Some(&BLOB_TYPE)
            && TransactionSigned::decode_2718_exact(encoded).is_ok();
        if is_bare_blob_transaction {
            return PoolError::MissingSidecar;
        }
        PoolError::Undecodable(format!("failed to decode the transaction: {problem}"))
    })
}

/// Checks everything that needs no state.
pub(super) fn check(sent: Sent, bytes: usize, rules: &Rules<'_>) -> Result<Candidate, PoolError> {
    let spec = rules.cfg.spec;
    check_type(sent.ty(), spec)?;
    check_size(&sent, bytes, spec)?;
    check_gas(&sent, rules)?;
    check_fees(&sent, rules.fee_cap)?;
    if let Some(have) = sent.chain_id().filter(|id| *id != rules.chain.chain_id()) {
        let want = rules.chain.chain_id();
        return Err(PoolError::ChainId { have, want });
    }
    let sender = sent.recover_signer().map_err(|_| PoolError::Signature)?;
    if sent.nonce() == u64::MAX {
        return Err(PoolError::NonceMax);
    }
    let (transaction, sidecar) = split(sent);
    check_intrinsic_gas(&transaction, sender, rules.cfg)?;
    check_lists(&transaction, rules)?;
    let cost = cost(&transaction);
    Ok(Candidate {
        transaction: Recovered::new_unchecked(transaction, sender),
        sidecar,
        bytes,
        cost,
    })
}

/// Verifies the blobs, which is expensive and therefore comes last.
pub(super) fn finish(candidate: Candidate, spec: SpecId) -> Result<Entry, PoolError> {
    let Candidate {
        transaction,
        sidecar,
        bytes,
        cost,
    } = candidate;
    let hashes = transaction.blob_versioned_hashes().unwrap_or_default();
    let sidecar = match sidecar {
        Some(sidecar) => Some(Arc::new(blobs::verify(
            sidecar,
            hashes,
            spec.is_enabled_in(SpecId::OSAKA),
        )?)),
        None => None,
    };
    Ok(Entry::new(transaction, sidecar, bytes, cost))
}

fn check_type(tx_type: u8, spec: SpecId) -> Result<(), PoolError> {
    let since = match tx_type {
        0 => SpecId::FRONTIER,
        1 => SpecId::BERLIN,
        2 => SpecId::LONDON,
        BLOB_TYPE => SpecId::CANCUN,
        _ => SpecId::PRAGUE,
    };
    if spec.is_enabled_in(since) {
        return Ok(());
    }
    Err(PoolError::TypeNotSupported(tx_type))
}

fn check_size(sent: &Sent, bytes: usize, spec: SpecId) -> Result<(), PoolError> {
    let limit = if sent.ty() == BLOB_TYPE {
        MAX_BLOB_TRANSACTION_BYTES
    } else {
        MAX_BYTES
    };
    if bytes > limit {
        return Err(PoolError::Oversized { bytes, limit });
    }
    let code = sent.input().len();
    if sent.is_create() && spec.is_enabled_in(SpecId::SHANGHAI) && code > MAX_INIT_CODE_BYTES {
        return Err(PoolError::InitCode {
            bytes: code,
            limit: MAX_INIT_CODE_BYTES,
        });
    }
    Ok(())
}

fn check_gas(sent: &Sent, rules: &Rules<'_>) -> Result<(), PoolError> {
    let gas = sent.gas_limit();
    if gas > rules.head.gas_limit {
        return Err(PoolError::GasLimit);
    }
    if rules.cfg.spec.is_enabled_in(SpecId::OSAKA) && gas > MAX_TX_GAS_LIMIT_OSAKA {
        return Err(PoolError::GasCap {
            cap: MAX_TX_GAS_LIMIT_OSAKA,
            gas,
        });
    }
    Ok(())
}

fn check_fees(sent: &Sent, cap: U256) -> Result<(), PoolError> {
    if sent
        .max_priority_fee_per_gas()
        .is_some_and(|tip| tip > sent.max_fee_per_gas())
    {
        return Err(PoolError::TipAboveFeeCap);
    }
    let fee = U256::from(sent.gas_limit()).saturating_mul(U256::from(sent.max_fee_per_gas()));
    if !cap.is_zero() && fee > cap {
        return Err(PoolError::FeeAboveCap { fee, cap });
    }
    Ok(())
}

fn split(sent: Sent) -> (TransactionSigned, Option<BlobTransactionSidecarVariant>) {
    let sidecar = match &sent {
        Sent::Eip4844(signed) => Some(signed.tx().sidecar.clone()),
        _ => None,
    };
    (sent.into(), sidecar)
}

fn check_intrinsic_gas(
    transaction: &TransactionSigned,
    sender: Address,
    cfg: &CfgEnv,
) -> Result<(), PoolError> {
    let tx = TxEnv::from_recovered_tx(transaction, sender);
    let needed = cfg.gas_params.initial_tx_gas_for_tx(&tx, None);
    let gas = transaction.gas_limit();
    if gas < needed.initial_total_gas() {
        return Err(PoolError::IntrinsicGas {
            gas,
            needed: needed.initial_total_gas(),
        });
    }
    if cfg.spec.is_enabled_in(SpecId::PRAGUE) && gas < needed.floor_gas {
        return Err(PoolError::FloorGas {
            gas,
            needed: needed.floor_gas,
        });
    }
    Ok(())
}

/// Blobs and authorizations: there must be some, and not too many blobs.
fn check_lists(transaction: &TransactionSigned, rules: &Rules<'_>) -> Result<(), PoolError> {
    if let Some(hashes) = transaction.blob_versioned_hashes() {
        let per_block = rules
            .chain
            .blob_params_at(rules.head.timestamp)
            .map_or(0, |params| params.max_blob_count);
        let most = if rules.cfg.spec.is_enabled_in(SpecId::OSAKA) {
            per_block.min(MAX_BLOBS_PER_TX_FUSAKA)
        } else {
            per_block
        };
        if hashes.is_empty() || hashes.len() as u64 > most {
            return Err(PoolError::BlobCount {
                have: hashes.len(),
                most,
            });
        }
    }
    if transaction
        .authorization_list()
        .is_some_and(<[_]>::is_empty)
    {
        return Err(PoolError::NoAuthorization);
    }
    Ok(())
}

/// The most a transaction can cost its sender, in wei.
fn cost(transaction: &TransactionSigned) -> U256 {
    let gas = U256::from(transaction.gas_limit())
        .saturating_mul(U256::from(transaction.max_fee_per_gas()));
    let blobs = U256::from(transaction.blob_gas_used().unwrap_or_default()).saturating_mul(
        U256::from(transaction.max_fee_per_blob_gas().unwrap_or_default()),
    );
    gas.saturating_add(blobs)
        .saturating_add(transaction.value())
}

/// Nonce and balance of a sender, which must not be a contract.
pub(super) fn sender_account(
    state: &StateReader,
    sender: Address,
) -> Result<AccountInfo, PoolError> {
    let account = state.basic_ref(sender)?.unwrap_or_default();
    if !account.is_empty_code_hash() && !state.code_by_hash_ref(account.code_hash)?.is_eip7702() {
        return Err(PoolError::SenderHasCode);
    }
    Ok(account)
}

/// Checks a candidate against what its sender has.
pub(super) fn check_account(candidate: &Candidate, account: &AccountInfo) -> Result<(), PoolError> {
    let nonce = candidate.transaction.nonce();
    if nonce < account.nonce {
        return Err(PoolError::NonceTooLow {
            next: account.nonce,
            nonce,
        });
    }
    if candidate.cost > account.balance {
        return Err(PoolError::InsufficientFunds {
            balance: account.balance,
            cost: candidate.cost,
        });
    }
    Ok(())
}
