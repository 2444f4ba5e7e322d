//! Big blocks, packed by the engine they will be replayed on.
//!
//! As reth-bench's generate-big-block does, each block is built by `testing_buildBlockV1`, then
//! executed by `engine_newPayload` and made the head, before the next one is planned. Invariant:
//! what is written depends on base state, mix, seed and target alone, and a folder gets its
//! manifest only when every block in it was VALID.

use crate::{
    BaseState, Mix,
    action::TRANSFER_GAS,
    contracts::Token,
    genesis::CHAIN_ID,
    leaves::SeenLeaves,
    manifest::{self, BaseBlock, FORMAT, Manifest, ManifestBlock, ManifestError, VERSION},
    mix::{Planned, Planner},
};
use alloy_primitives::{Address, B256, Bytes, U64};
use engine_api::{
    ClientError, EngineClient, ExecutionPayloadEnvelopeV4, ForkchoiceUpdated, PayloadAttributes,
    PayloadFile, PayloadFileError, PayloadStatus, PayloadStatusEnum, client::parse,
};
use rayon::prelude::*;
use serde::Deserialize;
use std::{collections::HashSet, fs, io, path::Path};

/// Seconds between blocks.
const BLOCK_TIME_S: u64 = 12;
/// How often a block is built again with transactions added or removed.
const MAX_BUILDS: u32 = 6;
/// JSON-RPC's code for parameters of another form.
const INVALID_PARAMS: i64 = -32602;

/// What to generate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GenerateConfig {
    /// Gas each block should use; it uses at most that, and less by 1 % at most (or by less than
    /// one transfer, where that is more).
    pub gas_target: u64,
    /// Number of blocks.
    pub count: u64,
    /// Kind of traffic.
    pub mix: Mix,
    /// Seed of the traffic.
    pub seed: u64,
}

/// What to report while generating.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Blocks finished.
    pub blocks: u64,
    /// Blocks wanted.
    pub count: u64,
    /// Gas of the blocks finished.
    pub gas_used: u64,
}

/// Why no payloads were made.
#[derive(Debug, thiserror::Error)]
pub enum GenerateError {
    /// A call failed.
    #[error("failed to call {method}: {error}")]
    Call {
        /// The method.
        method: String,
        /// Why.
        error: ClientError,
    },
    /// The gas target cannot be met.
    #[error(
        "the gas target {target} is not between {TRANSFER_GAS} and the block gas limit {limit}"
    )]
    Target {
        /// What was asked for.
        target: u64,
        /// The limit of the engine's head block.
        limit: u64,
    },
    /// The engine is on another chain.
    #[error("the engine is on chain {found}, but the base state is of chain {CHAIN_ID}")]
    Chain {
        /// Its chain id.
        found: u64,
    },
    /// The engine holds another state.
    #[error("the engine does not hold the base state {profile} of seed {seed}: {reason}")]
    State {
        /// Profile of the base state.
        profile: String,
        /// Its seed.
        seed: u64,
        /// What is different.
        reason: String,
    },
    /// The engine's own block did not pass.
    #[error("the engine answered {method} for its own block {number} with {status}")]
    NotValid {
        /// The method.
        method: String,
        /// The block.
        number: u64,
        /// The status, with the validation error if there is one.
        status: String,
    },
    /// The engine built a block on another parent or with transactions of its own.
    #[error("the engine built block {number} with {reason}")]
    Foreign {
        /// The block.
        number: u64,
        /// What was not asked for.
        reason: String,
    },
    /// The gas came no nearer to the target.
    #[error(
        "block {number} uses {gas_used} gas after {MAX_BUILDS} attempts to reach {target}; \
         {dropped} transactions were left out by the engine"
    )]
    Unreached {
        /// The block.
        number: u64,
        /// Gas of the last attempt.
        gas_used: u64,
        /// The target.
        target: u64,
        /// Transactions sent and not included.
        dropped: usize,
    },
    /// The folder holds payloads already.
    #[error("the folder {dir} already holds payloads, for example {name}")]
    Occupied {
        /// The folder.
        dir: String,
        /// One of them.
        name: String,
    },
    /// The folder cannot be made.
    #[error("failed to create the folder {dir}: {reason}")]
    Folder {
        /// The folder.
        dir: String,
        /// The system's reason.
        reason: io::Error,
    },
    /// A payload cannot be written.
    #[error(transparent)]
    File(#[from] PayloadFileError),
    /// The manifest cannot be written.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
}

/// The engine's two ports.
#[derive(Debug)]
pub struct Ports<'a> {
    /// The public RPC, with the `eth` and `testing` namespaces.
    pub public: &'a mut EngineClient,
    /// The authenticated port.
    pub engine: &'a mut EngineClient,
}

/// Generates payloads on the engine's head into `out`, which must hold none.
///
/// The engine's head moves with every block; to generate another set on the same base block,
/// bring it back first.
///
/// # Errors
/// See [`GenerateError`]. Payload files already written stay, without a manifest.
pub async fn generate(
    mut ports: Ports<'_>,
    base: &BaseState,
    config: GenerateConfig,
    out: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<Manifest, GenerateError> {
    prepare_folder(out)?;
    let head = ports.head().await?;
    if config.gas_target < TRANSFER_GAS || config.gas_target > head.gas_limit.to() {
        let limit = head.gas_limit.to();
        return Err(GenerateError::Target {
            target: config.gas_target,
            limit,
        });
    }
    let nonces = ports.check_state(base).await?;
    let base_block = BaseBlock {
        number: head.number.to(),
        hash: head.hash,
        state_root: head.state_root,
    };
    let mut session = Session {
        ports,
        base,
        planner: Planner::new(base, config.mix, config.seed, nonces),
        gas_target: config.gas_target,
        positional: true,
        parent: Parent {
            hash: head.hash,
            number: head.number.to(),
            timestamp: head.timestamp.to(),
        },
        seen: SeenLeaves::default(),
    };
    let mut blocks = Vec::new();
    let mut gas_used = 0;
    for done in 1..=config.count {
        let block = session.block(out).await?;
        gas_used += block.gas_used;
        blocks.push(block);
        progress(Progress {
            blocks: done,
            count: config.count,
            gas_used,
        });
    }
    let manifest = Manifest {
        format: FORMAT.to_owned(),
        version: VERSION,
        seed: config.seed,
        mix: config.mix,
        profile: base.profile().to_string(),
        state_seed: base.seed(),
        chain_id: CHAIN_ID,
        gas_target: config.gas_target,
        base_block,
        blocks,
    };
    manifest.write(out)?;
    Ok(manifest)
}

fn prepare_folder(out: &Path) -> Result<(), GenerateError> {
    let dir = out.display().to_string();
    fs::create_dir_all(out).map_err(|reason| GenerateError::Folder {
        dir: dir.clone(),
        reason,
    })?;
    match manifest::payload_names(out)?.into_iter().next() {
        Some(name) => Err(GenerateError::Occupied { dir, name }),
        None => Ok(()),
    }
}

/// What is needed of the engine's head block.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    number: U64,
    hash: B256,
    state_root: B256,
    timestamp: U64,
    gas_limit: U64,
}

impl Ports<'_> {
    async fn ask<T: serde::de::DeserializeOwned>(
        &mut self,
        method: &str,
        params: impl serde::Serialize,
    ) -> Result<T, GenerateError> {
        self.public
            .call(method, params)
            .await
            .map_err(|error| GenerateError::Call {
                method: method.to_owned(),
                error,
            })
    }

    async fn head(&mut self) -> Result<Head, GenerateError> {
        self.ask("eth_getBlockByNumber", ("latest", false)).await
    }

    /// Checks that the engine holds `base`; returns the senders' nonces.
    async fn check_state(&mut self, base: &BaseState) -> Result<Vec<u64>, GenerateError> {
        let chain: U64 = self.ask("eth_chainId", ()).await?;
        if chain.to::<u64>() != CHAIN_ID {
            return Err(GenerateError::Chain { found: chain.to() });
        }
        let state = |reason: String| GenerateError::State {
            profile: base.profile().to_string(),
            seed: base.seed(),
            reason,
        };
        let token = base.token(0);
        let code: Bytes = self.ask("eth_getCode", (token, "latest")).await?;
        if code != Token::code() {
            return Err(state(format!("there is no token at {token}")));
        }
        // The last deed is there only in a state of the same size.
        let deed = workload_slot(base);
        let value: B256 = self
            .ask("eth_getStorageAt", (base.whale(), deed, "latest"))
            .await?;
        if value.is_zero() {
            return Err(state(format!(
                "slot {deed} of the whale {} is empty",
                base.whale()
            )));
        }
        let mut nonces = Vec::with_capacity(base.senders().len());
        for sender in base.senders() {
            let nonce: U64 = self
                .ask("eth_getTransactionCount", (sender.address, "latest"))
                .await?;
            nonces.push(nonce.to());
        }
        Ok(nonces)
    }

    /// Sends a finished Engine API request and reads the answer.
    async fn send<T: serde::de::DeserializeOwned>(
        &mut self,
        method: &str,
        body: &bytes::Bytes,
    ) -> Result<T, GenerateError> {
        let failed = |error| GenerateError::Call {
            method: method.to_owned(),
            error,
        };
        let answer = self.engine.send_prepared(body).await.map_err(failed)?;
        parse(&answer.body).map_err(failed)
    }
}

fn workload_slot(base: &BaseState) -> B256 {
    crate::contracts::Whale::deed_slot(base.layout().deeds.saturating_sub(1))
}

/// The block the next one builds on.
struct Parent {
    hash: B256,
    number: u64,
    timestamp: u64,
}

struct Session<'a> {
    ports: Ports<'a>,
    base: &'a BaseState,
    planner: Planner<'a>,
    gas_target: u64,
    /// Whether `testing_buildBlockV1` takes positional parameters, as the specification says, or
    /// one object, as reth 1.11 does.
    positional: bool,
    parent: Parent,
    seen: SeenLeaves,
}

/// A planned transaction and its bytes.
struct Signed {
    planned: Planned,
    raw: Bytes,
}

impl Session<'_> {
    async fn block(&mut self, out: &Path) -> Result<ManifestBlock, GenerateError> {
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
                Some(missing) => self.top_up(&mut signed, in_plan(missing, gas_used, planned)),
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

    fn top_up(&mut self, signed: &mut Vec<Signed>, missing: u64) {
        // With much missing, transfers alone would change the mix.
        if missing > self.gas_target / 20 {
            return self.fill(signed, missing);
        }
        let plans = (0..missing / TRANSFER_GAS)
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
