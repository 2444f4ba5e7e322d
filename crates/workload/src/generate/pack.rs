//! One block after another: planned, built, corrected, executed and written.
//!
//! Invariant: a block is written only after the engine called it VALID and made it the head.

use super::{GenerateError, MAX_BUILDS, Ports};
use crate::{
    BaseState,
    action::TRANSFER_GAS,
    leaves::SeenLeaves,
    manifest::{self, ManifestBlock},
    mix::{Planned, Planner},
};
use alloy_primitives::{Address, B256, Bytes};
use engine_api::{
    ExecutionPayloadEnvelopeV4, ForkchoiceUpdated, PayloadAttributes, PayloadFile,
    PayloadFileError, PayloadStatus, PayloadStatusEnum,
};
use rayon::prelude::*;
use std::{collections::HashSet, fs, path::Path};

/// Seconds between blocks.
const BLOCK_TIME_S: u64 = 12;
/// JSON-RPC's code for parameters of another form.
const INVALID_PARAMS: i64 = -32602;

/// The block the next one builds on.
pub(super) struct Parent {
    pub(super) hash: B256,
    pub(super) number: u64,
    pub(super) timestamp: u64,
}

/// The state of one generation.
pub(super) struct Session<'a> {
    pub(super) ports: Ports<'a>,
    pub(super) base: &'a BaseState,
    pub(super) planner: Planner<'a>,
    pub(super) gas_target: u64,
    /// Whether `testing_buildBlockV1` takes positional parameters, as the specification says, or
    /// one object, as reth 1.11 does.
    pub(super) positional: bool,
    pub(super) parent: Parent,
    pub(super) seen: SeenLeaves,
}

/// A planned transaction and its bytes.
struct Signed {
    planned: Planned,
    raw: Bytes,
}

impl Session<'_> {
    /// Makes the next block and its file.
    pub(super) async fn block(&mut self, out: &Path) -> Result<ManifestBlock, GenerateError> {
        let (envelope, included) = self.pack().await?;
        let file = PayloadFile::BigBlock(Box::new(envelope));
        let path = out.join(PayloadFile::name(self.parent.number + 1));
        let payload = file.prepare(&path)?;
        let status: PayloadStatus = self
            .ports
            .send(&payload.new_payload_method, &payload.new_payload)
            .await?;
        require_valid(&payload.new_payload_method, payload.number, &status)?;
        let updated: ForkchoiceUpdated = self
            .ports
            .send(&payload.forkchoice_method, &payload.forkchoice)
            .await?;
        require_valid(
            &payload.forkchoice_method,
            payload.number,
            &updated.payload_status,
        )?;
        file.write(&path)?;

        let sha256 =
            manifest::sha256(&fs::read(&path).map_err(|reason| PayloadFileError::Read {
                path: path.clone(),
                reason,
            })?);
        let base = self.base;
        let leaves = self.seen.count(included.iter().flat_map(|signed| {
            let Planned {
                sender,
                nonce,
                action,
                ..
            } = &signed.planned;
            action.leaves(base, base.senders()[*sender].address, *nonce)
        }));
        self.parent = Parent {
            hash: payload.hash,
            number: payload.number,
            timestamp: payload.timestamp,
        };
        Ok(ManifestBlock {
            number: payload.number,
            hash: payload.hash,
            gas_used: payload.gas_used,
            transaction_count: payload.transaction_count,
            leaves,
            sha256,
        })
    }

    /// Builds the next block, with transactions added or removed until its gas is right.
    async fn pack(&mut self) -> Result<(ExecutionPayloadEnvelopeV4, Vec<Signed>), GenerateError> {
        let mut signed = Vec::new();
        self.fill(&mut signed, self.gas_target);
        let mut outcome = (0, 0);
        for _ in 0..MAX_BUILDS {
            let sent = signed.len();
            let envelope = self.build(&signed).await?;
            self.keep_included(&envelope, &mut signed)?;
            let gas_used = envelope
                .execution_payload
                .payload_inner
                .payload_inner
                .gas_used;
            if is_near(gas_used, self.gas_target) {
                return Ok((envelope, signed));
            }
            outcome = (gas_used, sent - signed.len());
            let planned: u64 = signed.iter().map(|signed| signed.planned.gas).sum();
            match self.gas_target.checked_sub(gas_used) {
                Some(missing) => {
                    let planned = in_plan(missing, gas_used, planned);
                    self.top_up(&mut signed, missing, planned);
                }
                None => {
                    let excess = in_plan(gas_used - self.gas_target, gas_used, planned);
                    self.trim(&mut signed, excess);
                }
            }
        }
        let (number, target) = (self.parent.number + 1, self.gas_target);
        Err(GenerateError::Unreached {
            number,
            gas_used: outcome.0,
            target,
            dropped: outcome.1,
        })
    }

    /// Plans transactions of the mix up to `gas`, then transfers for what is left.
    fn fill(&mut self, signed: &mut Vec<Signed>, gas: u64) {
        let mut left = gas;
        let mut plans = Vec::new();
        loop {
            let planned = self.planner.plan();
            let Some(rest) = left.checked_sub(planned.gas) else {
                self.planner.take_back(&[planned]);
                break;
            };
            left = rest;
            plans.push(planned);
        }
        plans.extend((0..left / TRANSFER_GAS).map(|_| self.planner.plan_transfer()));
        self.sign(signed, plans);
    }

    /// Adds what is `missing`, which is `planned` in the terms of a plan.
    fn top_up(&mut self, signed: &mut Vec<Signed>, missing: u64, planned: u64) {
        // With much missing, transfers alone would change the mix.
        if planned > self.gas_target / 20 {
            return self.fill(signed, planned);
        }
        let plans = (0..transfers(missing, planned))
            .map(|_| self.planner.plan_transfer())
            .collect();
        self.sign(signed, plans);
    }

    /// Removes transactions from the end until `excess` gas is gone.
    fn trim(&mut self, signed: &mut Vec<Signed>, excess: u64) {
        let mut removed = Vec::new();
        let mut gas = 0;
        while gas < excess
            && let Some(last) = signed.pop()
        {
            gas += last.planned.gas;
            removed.push(last.planned);
        }
        self.planner.take_back(&removed);
    }

    fn sign(&self, signed: &mut Vec<Signed>, plans: Vec<Planned>) {
        let base = self.base;
        signed.par_extend(plans.into_par_iter().map(|planned| {
            let raw = planned.sign(base);
            Signed { planned, raw }
        }));
    }

    async fn build(
        &mut self,
        signed: &[Signed],
    ) -> Result<ExecutionPayloadEnvelopeV4, GenerateError> {
        const METHOD: &str = "testing_buildBlockV1";
        let attributes = PayloadAttributes {
            timestamp: self.parent.timestamp + BLOCK_TIME_S,
            prev_randao: B256::ZERO,
            suggested_fee_recipient: Address::ZERO,
            withdrawals: Some(Vec::new()),
            parent_beacon_block_root: Some(B256::ZERO),
            slot_number: None,
            target_gas_limit: None,
        };
        let transactions: Vec<&Bytes> = signed.iter().map(|signed| &signed.raw).collect();
        // Stated, because an engine's own default names its version and would change the hash.
        let extra_data = Bytes::new();
        if self.positional {
            let params = (self.parent.hash, &attributes, &transactions, &extra_data);
            match self.ports.public.call(METHOD, params).await {
                Err(error) if error.rpc_code() == Some(INVALID_PARAMS) => self.positional = false,
                Err(error) => {
                    return Err(GenerateError::Call {
                        method: METHOD.into(),
                        error,
                    });
                }
                Ok(envelope) => return Ok(envelope),
            }
        }
        let request = serde_json::json!({
            "parentBlockHash": self.parent.hash,
            "payloadAttributes": attributes,
            "transactions": transactions,
            "extraData": extra_data,
        });
        self.ports.ask(METHOD, [request]).await
    }

    /// Takes the transactions that the engine left out from `signed`, and their nonces back.
    fn keep_included(
        &mut self,
        envelope: &ExecutionPayloadEnvelopeV4,
        signed: &mut Vec<Signed>,
    ) -> Result<(), GenerateError> {
        let number = self.parent.number + 1;
        let foreign = |reason: &str| GenerateError::Foreign {
            number,
            reason: reason.to_owned(),
        };
        let header = &envelope.execution_payload.payload_inner.payload_inner;
        if header.parent_hash != self.parent.hash || header.block_number != number {
            return Err(foreign("another parent"));
        }
        let included: HashSet<&Bytes> = header.transactions.iter().collect();
        let (kept, dropped): (Vec<_>, Vec<_>) = std::mem::take(signed)
            .into_iter()
            .partition(|signed| included.contains(&signed.raw));
        if kept.len() != header.transactions.len() {
            return Err(foreign("transactions that it was not given"));
        }
        *signed = kept;
        let dropped: Vec<Planned> = dropped.into_iter().map(|signed| signed.planned).collect();
        self.planner.take_back(&dropped);
        Ok(())
    }
}

/// `gas` in the terms of a plan that expected `planned` where `gas_used` was used: what is planned
/// next is expected to be as wrong as what was planned so far.
fn in_plan(gas: u64, gas_used: u64, planned: u64) -> u64 {
    if gas_used == 0 || planned == 0 {
        return gas;
    }
    let scaled = u128::from(gas) * u128::from(planned) / u128::from(gas_used);
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

/// Transfers that fill what is `missing`, which is `planned` in the terms of a plan. One that fits is added
/// whatever else was misjudged: a transfer costs what it is planned to, and without it the next build would
/// be the same again.
const fn transfers(missing: u64, planned: u64) -> u64 {
    let transfers = planned / TRANSFER_GAS;
    if transfers == 0 && missing >= TRANSFER_GAS {
        return 1;
    }
    transfers
}

/// Whether `gas_used` is at most `target`, and less by a hundredth or less than a transfer.
const fn is_near(gas_used: u64, target: u64) -> bool {
    match target.checked_sub(gas_used) {
        Some(missing) => missing <= target / 100 || missing < TRANSFER_GAS,
        None => false,
    }
}

fn require_valid(method: &str, number: u64, status: &PayloadStatus) -> Result<(), GenerateError> {
    match &status.status {
        PayloadStatusEnum::Valid => Ok(()),
        other => Err(GenerateError::NotValid {
            method: method.to_owned(),
            number,
            status: match other {
                PayloadStatusEnum::Invalid { validation_error } => {
                    format!("INVALID: {validation_error}")
                }
                other => other.as_str().to_owned(),
            },
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_transfer_fits_into_does_not_stay_empty() {
        // A block of 1M gas, 2.1 % under it, whose transactions cost 3 % more than they were planned to.
        let (missing, gas_used) = (21_400, 978_600);
        let planned = in_plan(missing, gas_used, gas_used * 97 / 100);
        assert!(!is_near(gas_used, gas_used + missing) && planned < TRANSFER_GAS);
        assert_eq!(transfers(missing, planned), 1);
        assert_eq!(transfers(20_999, 20_500), 0);
        assert_eq!(transfers(60_000, 58_000), 2);
    }
}
